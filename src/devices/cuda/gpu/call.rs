//! A kernel launch: the function, the grid and the arguments.

use std::ffi::c_void;

use cudarc::driver::result;
use cudarc::driver::sys::{CUfunction, CUstream};

use super::driver::Owned;
use crate::devices::cuda::device::DeviceFault;

/// The threads of a block in most kernels.
pub(super) const BLOCK: u32 = 256;

/// Which of a kernel's parameters have eight bytes, read from its source. `None` if the source has no such kernel.
pub(super) fn wide_parameters(source: &str, kernel: &str) -> Option<Vec<bool>> {
    let definition = source.lines().position(|line| {
        let name = line.split('(').next().unwrap_or_default();
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.split(' ').next_back() == Some(kernel)
    })?;
    let text: String = source
        .lines()
        .skip(definition)
        .collect::<Vec<_>>()
        .join(" ");
    let list = text.split('(').nth(1)?.split(')').next()?;
    Some(
        list.split(',')
            .map(|text| text.contains('*') || text.trim().starts_with("u64"))
            .collect(),
    )
}

/// A loaded kernel.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub raw: CUfunction,
    /// Which parameters have eight bytes, as [`wide_parameters`] finds them.
    pub wide: Vec<bool>,
}

// SAFETY: a function belongs to a context, not to a thread; every call makes the context the calling thread's first.
unsafe impl Send for Function {}

/// The arguments in the order of the kernel's parameters, each with whether it has eight bytes. Every argument takes
/// eight bytes, of which the driver reads as many as the parameter has; a number of four bytes is stored in the first
/// four.
type Arguments = Vec<(u64, bool)>;

/// One argument (an address or a long number is a `u64`), or several in a row.
pub(super) trait Argument {
    fn put(self, arguments: &mut Arguments);
}

impl Argument for u64 {
    fn put(self, arguments: &mut Arguments) {
        arguments.push((self, true));
    }
}

impl Argument for u32 {
    fn put(self, arguments: &mut Arguments) {
        arguments.push((four_bytes(self), false));
    }
}

/// Implements [`Argument`] for tuples of up to this number of arguments.
macro_rules! several {
    ($($first:ident $($rest:ident)*)?) => {
        impl<$($first: Argument, $($rest: Argument),*)?> Argument for ($($first, $($rest,)*)?) {
            #[allow(non_snake_case, unused_variables)] // the types' names serve as the fields'
            fn put(self, arguments: &mut Arguments) {
                let ($($first, $($rest,)*)?) = self;
                $($first.put(arguments); $($rest.put(arguments);)*)?
            }
        }

        $(several!($($rest)*);)?
    };
}

several!(A B C D E F G H I J);

/// The eight bytes whose first four are this number's.
fn four_bytes(number: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// A launch that can be queued again and again.
#[derive(Debug)]
pub(super) struct KernelCall {
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    shared: u32,
    /// Whether all blocks have to be resident at the same time.
    cooperative: bool,
    values: Vec<u64>,
    /// The address of each argument.
    places: Box<[*mut c_void]>,
}

impl KernelCall {
    /// A launch with `grid` blocks in x and y.
    ///
    /// # Panics
    /// If the arguments do not match the kernel's parameters in number and size.
    pub fn new(function: &Function, grid: (u32, u32), arguments: impl Argument) -> KernelCall {
        let mut list = Arguments::default();
        arguments.put(&mut list);
        let (mut values, wide): (Vec<u64>, Vec<bool>) = list.into_iter().unzip();
        assert_eq!(
            wide, function.wide,
            "a kernel's arguments match its parameters"
        );
        let places = values
            .iter_mut()
            .map(|value| (&raw mut *value).cast())
            .collect();
        KernelCall {
            function: function.raw,
            grid,
            threads: BLOCK,
            shared: 0,
            cooperative: false,
            values,
            places,
        }
    }

    /// Sets the threads of a block.
    pub fn with_threads(self, threads: u32) -> KernelCall {
        KernelCall { threads, ..self }
    }

    /// Makes the launch cooperative: all blocks, each with `shared` bytes of dynamic shared memory, are resident at the
    /// same time and may wait for each other.
    pub fn cooperative(self, shared: u32) -> KernelCall {
        KernelCall {
            cooperative: true,
            shared,
            ..self
        }
    }

    /// Sets the first three arguments of a gather: the staged rows, their inputs and the number of rows.
    pub fn set_staged(&mut self, rows: u64, inputs: u64, count: u32) {
        for (at, value) in [rows, inputs, four_bytes(count)].into_iter().enumerate() {
            self.values[at] = value;
            // Take the address again: the write above borrowed the list.
            self.places[at] = (&raw mut self.values[at]).cast();
        }
    }

    /// Queues the launch. `what` names it in messages.
    ///
    /// # Safety
    /// The function's module is loaded, the stream and the memory behind the arguments belong to its context, which is
    /// current, and outlive the launch, and the arguments are those of the function.
    pub unsafe fn queue(
        &mut self,
        what: &str,
        stream: &Owned<CUstream>,
    ) -> Result<(), DeviceFault> {
        let (width, height) = self.grid;
        let launch = if self.cooperative {
            result::launch_cooperative_kernel
        } else {
            result::launch_kernel
        };
        // SAFETY: the places point at the arguments, whose list is neither moved nor grown after `new`; the driver
        // copies them before it returns. The rest is the caller's promise.
        unsafe {
            launch(
                self.function,
                (width, height, 1),
                (self.threads, 1, 1),
                self.shared,
                stream.raw,
                &mut self.places,
            )
        }
        .map_err(|error| {
            stream
                .gpu
                .fault(format_args!("{what} can't be queued"), error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_stored_where_the_driver_reads_them() {
        let source =
            "KERNEL some(const u32 *rows,\n  u64 seed, u32 count, float *states, u32 last) {";
        let wide = wide_parameters(source, "some").unwrap();
        assert_eq!(wide, [true, true, false, true, false]);
        assert_eq!(wide_parameters(source, "so"), None);
        let function = Function {
            raw: std::ptr::null_mut(),
            wide,
        };
        let mut call = KernelCall::new(
            &function,
            (1, 1),
            (1u64 << 40, u64::MAX, (7u32, 8u64), 9u32),
        );
        call.set_staged(5, 6, 10);
        // SAFETY: the places point at eight bytes each.
        let (address, number) =
            unsafe { (*call.places[0].cast::<u64>(), *call.places[2].cast::<u32>()) };
        assert_eq!((address, number, call.values[3]), (5, 10, 8));
    }
}
