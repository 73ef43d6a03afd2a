//! A kernel launch: the function, the grid and the arguments.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUfunction, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUlaunchConfig, CUstream,
};

use super::driver::{Gpu, Owned};
use crate::base::units::RequestId;
use crate::devices::cuda::device::{DeviceFault, MOST_CHANGES, RowUpdate};

/// The threads of a block in most kernels.
pub(super) const BLOCK: u32 = 256;

/// Which of a kernel's parameters have eight bytes or, as [`ChangedRows`], more, read from its source. `None` if the
/// source has no such kernel.
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
            .map(|text| {
                text.contains('*') || text.trim().starts_with("u64") || text.contains("Changes ")
            })
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

/// A row that changes, as `Change` in `kernels/gather.cu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct ChangedRow {
    at: u32,
    request: u32,
    node: u32,
    last: u32,
    state: u32,
    words: u32,
}

/// The rows that a launch changes, as `Changes` in `kernels/gather.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct ChangedRows {
    count: u32,
    rows: [ChangedRow; MOST_CHANGES],
}

impl ChangedRow {
    fn new(change: &RowUpdate) -> ChangedRow {
        /// The slot of padding, whose last node has run.
        const NOWHERE: u32 = u32::MAX;
        let at = change.at;
        match &change.row {
            None => ChangedRow {
                at,
                node: 1,
                state: NOWHERE,
                ..ChangedRow::default()
            },
            Some(row) => ChangedRow {
                at,
                request: request_number(row.request),
                node: row.node,
                last: row.last,
                state: row.state.0,
                words: row.words,
            },
        }
    }
}

/// The number of a request, as kernels have it.
pub(super) fn request_number(request: RequestId) -> u32 {
    u32::try_from(request.0).expect("the memory for real requests ends before")
}

/// The eight bytes whose first four are this number's.
fn four_bytes(number: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Which blocks of a launch have to be resident at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Residency {
    /// None need to be.
    Free,
    /// All, so that they may wait for each other: a cooperative launch.
    All,
    /// The blocks of a cluster: this number, side by side, which divides the grid's width.
    Clusters(u32),
}

/// A launch that can be queued again and again.
#[derive(Debug)]
pub(super) struct KernelCall {
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    shared: u32,
    residency: Residency,
    values: Vec<u64>,
    /// The first argument of a kernel that changes rows.
    changed: Option<Box<ChangedRows>>,
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
            residency: Residency::Free,
            values,
            changed: None,
            places,
        }
    }

    /// Makes the first argument the rows that the launch changes, at first none. The argument is a 0 until then.
    pub fn with_changes(mut self) -> KernelCall {
        self.changed = Some(Box::new(ChangedRows {
            count: 0,
            rows: [ChangedRow::default(); MOST_CHANGES],
        }));
        self.set_changes(&[]);
        self
    }

    /// Sets the rows that the launch changes, at most [`MOST_CHANGES`].
    pub fn set_changes(&mut self, changes: &[RowUpdate]) {
        let changed = self
            .changed
            .as_deref_mut()
            .expect("the kernel changes rows");
        changed.count = changes.len() as u32;
        for (row, change) in changed.rows.iter_mut().zip(changes) {
            *row = ChangedRow::new(change);
        }
        // A row of blocks for each.
        self.grid.1 = changed.count.max(1);
        // Take the address again: the writes above borrowed the rows.
        self.places[0] = (&raw mut *changed).cast();
    }

    /// The launch as a node of a graph: the driver copies the arguments when the node is set.
    pub fn node(&mut self) -> CUDA_KERNEL_NODE_PARAMS {
        let (width, height) = self.grid;
        CUDA_KERNEL_NODE_PARAMS {
            func: self.function,
            gridDimX: width,
            gridDimY: height,
            gridDimZ: 1,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared,
            kernelParams: self.places.as_mut_ptr(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: ptr::null_mut(),
        }
    }

    /// Sets the threads of a block.
    pub fn with_threads(self, threads: u32) -> KernelCall {
        KernelCall { threads, ..self }
    }

    /// Sets the bytes of dynamic shared memory of a block.
    pub fn with_shared(self, shared: u32) -> KernelCall {
        KernelCall { shared, ..self }
    }

    /// Sets which blocks are resident at the same time.
    pub fn with_residency(self, residency: Residency) -> KernelCall {
        KernelCall { residency, ..self }
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
        let grid = (width, height, 1);
        let block = (self.threads, 1, 1);
        let shared = self.shared;
        let places = &mut self.places;
        // SAFETY: the places point at the arguments, whose list is neither moved nor grown after `new`; the driver
        // copies them before it returns. The rest is the caller's promise.
        let launched = unsafe {
            match self.residency {
                Residency::Free => {
                    result::launch_kernel(self.function, grid, block, shared, stream.raw, places)
                }
                Residency::All => result::launch_cooperative_kernel(
                    self.function,
                    grid,
                    block,
                    shared,
                    stream.raw,
                    places,
                ),
                Residency::Clusters(blocks) => {
                    let mut cluster = cluster_attribute(blocks);
                    let config = CUlaunchConfig {
                        hStream: stream.raw,
                        ..cluster_launch(self.grid, self.threads, shared, &mut cluster)
                    };
                    let places = places.as_mut_ptr();
                    sys::cuLaunchKernelEx(&config, self.function, places, ptr::null_mut()).result()
                }
            }
        };
        launched.map_err(|error| {
            stream
                .gpu
                .fault(format_args!("{what} can't be queued"), error)
        })
    }
}

/// The attribute of a launch in clusters of this number of blocks, side by side.
fn cluster_attribute(blocks: u32) -> CUlaunchAttribute {
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim.x = blocks;
    value.clusterDim.y = 1;
    value.clusterDim.z = 1;
    CUlaunchAttribute {
        id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value,
    }
}

/// A launch with one attribute, on the default stream. It lives no longer than the attribute.
fn cluster_launch(
    (width, height): (u32, u32),
    threads: u32,
    shared: u32,
    cluster: &mut CUlaunchAttribute,
) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: width,
        gridDimY: height,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: ptr::null_mut(),
        attrs: cluster,
        numAttrs: 1,
    }
}

/// The number of clusters of `blocks` blocks that the GPU runs at the same time.
pub(super) fn count_active_clusters(
    gpu: &Gpu,
    function: &Function,
    threads: u32,
    shared: u32,
    blocks: u32,
) -> Result<u32, DeviceFault> {
    let mut cluster = cluster_attribute(blocks);
    let config = cluster_launch((blocks, 1), threads, shared, &mut cluster);
    let mut active = 0;
    gpu.call("can't tell how many clusters it runs", || {
        // SAFETY: the function's module is loaded; the configuration and its attribute outlive the call.
        unsafe { sys::cuOccupancyMaxActiveClusters(&mut active, function.raw, &config) }.result()
    })?;
    Ok(active.max(0) as u32)
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

    #[test]
    fn rows_that_change_are_one_argument() {
        let source = "KERNEL some(const __grid_constant__ Changes changes, u32 count) {";
        let wide = wide_parameters(source, "some").unwrap();
        let function = Function {
            raw: ptr::null_mut(),
            wide,
        };
        let mut call = KernelCall::new(&function, (1, 1), (0u64, 7u32)).with_changes();
        let padding = |at| RowUpdate { at, row: None };
        call.set_changes(&[padding(3), padding(5)]);
        // SAFETY: the place points at the rows.
        let changed = unsafe { &*call.places[0].cast::<ChangedRows>() };
        assert_eq!(
            (changed.count, changed.rows[1].at, changed.rows[1].node),
            (2, 5, 1)
        );
        assert!(
            size_of::<ChangedRows>() < 4096,
            "what parameters have room for"
        );
    }
}
