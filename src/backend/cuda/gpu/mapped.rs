//! Memory of the host that GPUs read and write where it is.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cudarc::driver::{result, sys};

use super::opened::Gpu;
use crate::backend::cuda::device::Fault;

/// What can stand in mapped memory: any bits are a value of these types.
pub(super) trait Number: Copy {}

impl Number for u32 {}
impl Number for u64 {}
impl Number for f32 {}

/// Pinned memory of the host that is mapped into every GPU's space, at one address for all of them. It begins as zeros.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    gpu: Arc<Gpu>,
    numbers: NonNull<T>,
    count: usize,
    address: u64,
}

impl<T: Number> Mapped<T> {
    /// Takes memory for so many numbers. `what` says for what, in a message.
    ///
    /// # Errors
    /// Memory that can't be pinned.
    pub fn new(gpu: &Arc<Gpu>, count: usize, what: &str) -> Result<Mapped<T>, Fault> {
        gpu.bind()?;
        // The driver has no empty pieces.
        let bytes = count.max(1) * size_of::<T>();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let no_room =
            |error| gpu.fault(format_args!("{bytes} bytes of pinned host memory for {what} can't be had"), error);
        // SAFETY: the memory is filled below, before anything reads it.
        let pointer = unsafe { result::malloc_host(bytes, flags) }.map_err(no_room)?;
        let numbers = NonNull::new(pointer.cast::<T>()).expect("the driver gives memory or an error");
        // SAFETY: the memory is so long, and pages are aligned for any number.
        unsafe { numbers.as_ptr().cast::<u8>().write_bytes(0, bytes) };
        let mut mapped = Mapped { gpu: Arc::clone(gpu), numbers, count, address: 0 };
        // SAFETY: the memory was taken as mapped; the address has a place.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut mapped.address, pointer, 0) }
            .result()
            .map_err(|error| gpu.fault("host memory can't be mapped", error))?;
        Ok(mapped)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Where a number stands, for a GPU.
    pub fn address(&self, at: usize) -> u64 {
        self.address + (at * size_of::<T>()) as u64
    }

    /// Where a number stands, for the host and for copies to it.
    ///
    /// # Panics
    /// There is no such place.
    pub fn place(&self, at: usize) -> *mut T {
        assert!(at < self.count, "place {at} of {}", self.count);
        // SAFETY: the place is inside of the memory.
        unsafe { self.numbers.as_ptr().add(at) }
    }

    /// Writes numbers that a GPU will read. None that was queued may still read or write them.
    pub fn write(&mut self, at: usize, numbers: impl ExactSizeIterator<Item = T>) {
        assert!(at + numbers.len() <= self.count, "{} numbers at {at} of {}", numbers.len(), self.count);
        for (place, number) in (at..).zip(numbers) {
            // An iterator may be longer than it says.
            assert!(place < self.count);
            // SAFETY: the place is inside of the memory.
            unsafe { self.numbers.as_ptr().add(place).write(number) };
        }
    }

    /// Numbers that a GPU wrote.
    ///
    /// # Safety
    /// No GPU writes them while the slice lives.
    pub unsafe fn read(&self, at: usize, count: usize) -> &[T] {
        assert!(at + count <= self.count, "{count} numbers at {at} of {}", self.count);
        // SAFETY: the range is inside of the memory, all of which has been written; the rest is the caller's promise.
        unsafe { slice::from_raw_parts(self.numbers.as_ptr().add(at), count) }
    }
}

impl Mapped<u32> {
    /// A number that a GPU may write at any time.
    pub fn at(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the place is inside of the memory and aligned; the host reads and writes it in no other way.
        unsafe { AtomicU32::from_ptr(self.place(at)) }
    }
}

impl Mapped<u64> {
    /// A number that a GPU writes at any time. What it wrote before is there when the number is.
    pub fn acquire(&self, at: usize) -> u64 {
        // SAFETY: the place is inside of the memory and aligned; the host reads and writes it in no other way.
        unsafe { AtomicU64::from_ptr(self.place(at)) }.load(Ordering::Acquire)
    }

    /// Sets a number that no queued work will write.
    pub fn set(&mut self, at: usize, number: u64) {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.place(at)) }.store(number, Ordering::Release);
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was taken once and is given back once; the driver waits for work that is queued. A GPU that is lost
            // can't take it; the end of the process will.
            let _ = unsafe { result::free_host(self.numbers.as_ptr().cast::<c_void>()) };
        }
    }
}
