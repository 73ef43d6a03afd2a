//! One launch of a kernel: the function, the grid, the arguments.

use std::ffi::c_void;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{CUfunction, CUstream};

/// The threads of a block, as the kernels have it.
pub(super) const BLOCK: u32 = 256;

/// A launch that can be queued again and again.
#[derive(Debug)]
pub(super) struct Call {
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    shared: u32,
    /// Whether all blocks have to be on the GPU at once.
    cooperative: bool,
    arguments: Arguments,
    /// Where each argument stands.
    places: Box<[*mut c_void]>,
}

/// Arguments in the order of the kernel's parameters. Each stands in eight bytes, of which the driver reads as many as the
/// parameter has; a number of four bytes stands in the first four.
#[derive(Debug, Default)]
pub(super) struct Arguments(Vec<u64>);

impl Arguments {
    /// An address in memory that the GPU reaches.
    pub fn address(mut self, address: u64) -> Arguments {
        self.0.push(address);
        self
    }

    /// A number of four bytes.
    pub fn number(mut self, number: u32) -> Arguments {
        self.0.push(four_bytes(number));
        self
    }

    /// A number of eight bytes.
    pub fn long(mut self, number: u64) -> Arguments {
        self.0.push(number);
        self
    }
}

/// The eight bytes whose first four are this number's.
fn four_bytes(number: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

impl Call {
    /// A launch over a grid of so many blocks a row of the batch, and so many rows of blocks.
    pub fn new(function: CUfunction, grid: (u32, u32), mut arguments: Arguments) -> Call {
        let places = arguments.0.iter_mut().map(|argument| (&raw mut *argument).cast()).collect();
        Call { function, grid, threads: BLOCK, shared: 0, cooperative: false, arguments, places }
    }

    /// The launch with so many threads a block.
    pub fn of_threads(self, threads: u32) -> Call {
        Call { threads, ..self }
    }

    /// The launch with all blocks on the GPU at once, which may wait for each other, and with so many bytes of dynamic shared memory
    /// each.
    pub fn cooperative(self, shared: u32) -> Call {
        Call { cooperative: true, shared, ..self }
    }

    /// Sets an argument that is an address.
    pub fn set_address(&mut self, at: usize, address: u64) {
        self.set(at, address);
    }

    /// Sets an argument that is a number of four bytes.
    pub fn set_number(&mut self, at: usize, number: u32) {
        self.set(at, four_bytes(number));
    }

    fn set(&mut self, at: usize, bytes: u64) {
        self.arguments.0[at] = bytes;
        // The places are taken anew, because the list was borrowed for the write.
        self.places[at] = (&raw mut self.arguments.0[at]).cast();
    }

    /// Queues the launch.
    ///
    /// # Safety
    /// The function's module is loaded, the stream and the memory behind the arguments are of its context and outlive the
    /// launch, and the arguments are those that the function takes.
    pub unsafe fn queue(&mut self, stream: CUstream) -> Result<(), DriverError> {
        let (width, height) = self.grid;
        let launch = if self.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
        // SAFETY: the places lead to the arguments, whose list is neither moved nor grown after `new`; the driver copies them
        // before it comes back. The rest is the caller's promise.
        unsafe {
            launch(self.function, (width, height, 1), (self.threads, 1, 1), self.shared, stream, &mut self.places)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_where_the_driver_reads_them() {
        let arguments = Arguments::default().address(1 << 40).number(7).long(u64::MAX);
        let mut call = Call::new(std::ptr::null_mut(), (1, 1), arguments);
        call.set_number(1, 9);
        call.set_address(0, 5);
        // SAFETY: the places lead to eight bytes each.
        let (address, number) = unsafe { (*call.places[0].cast::<u64>(), *call.places[1].cast::<u32>()) };
        assert_eq!((address, number), (5, 9));
    }
}
