//! Memory of a GPU, memory of the host that GPUs access, and the ring through which batches reach a GPU.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::call::request_number;
use super::driver::{Gpu, Owned};
use crate::devices::cuda::device::{DeviceBatch, DeviceFault};

/// A GPU's memory, uninitialised at first.
///
/// Dropping it does not wait for work that uses it: the driver does.
#[derive(Debug)]
pub(super) struct GpuMemory {
    memory: Owned<u64>,
    pub bytes: usize,
}

impl GpuMemory {
    /// Allocates memory. `what` names its purpose in messages.
    pub fn new(gpu: &Arc<Gpu>, bytes: usize, what: &str) -> Result<GpuMemory, DeviceFault> {
        gpu.bind()?;
        // The driver allocates no empty memory. SAFETY: nothing reads the memory as a type before something is written
        // to it.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.map_err(|error| gpu.allocation_fault(bytes, what, error))?;
        // SAFETY: it was allocated above.
        Ok(GpuMemory {
            memory: unsafe { Owned::new(gpu, address, result::memory_free) },
            bytes,
        })
    }

    /// Memory with these bytes.
    pub fn with_bytes(gpu: &Arc<Gpu>, bytes: &[u8], what: &str) -> Result<GpuMemory, DeviceFault> {
        let mut memory = GpuMemory::new(gpu, bytes.len(), what)?;
        memory.write(bytes)?;
        Ok(memory)
    }

    /// Memory that is filled with zeros.
    pub fn zeros(gpu: &Arc<Gpu>, bytes: usize, what: &str) -> Result<GpuMemory, DeviceFault> {
        let mut memory = GpuMemory::new(gpu, bytes, what)?;
        memory.clear()?;
        Ok(memory)
    }

    /// Fills the memory with zeros. No queued work may use it.
    pub fn clear(&mut self) -> Result<(), DeviceFault> {
        // SAFETY: the memory has this size, and zero is a valid value of every number here.
        self.finish("can't fill memory", || unsafe {
            result::memset_d8_sync(self.address(), 0, self.bytes)
        })
    }

    /// Writes bytes to the beginning of the memory. No queued work may use it.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DeviceFault> {
        assert!(
            bytes.len() <= self.bytes,
            "{} bytes for a piece of {}",
            bytes.len(),
            self.bytes
        );
        // SAFETY: the memory is at least as long as the bytes.
        self.finish("can't fill memory", || unsafe {
            result::memcpy_htod_sync(self.address(), bytes)
        })
    }

    /// Copies other memory of this GPU to the beginning of this one. No queued work may use either.
    pub fn take_over(&mut self, other: &GpuMemory) -> Result<(), DeviceFault> {
        let bytes = self.bytes.min(other.bytes);
        // SAFETY: both are at least that long, and of one context.
        self.finish("can't copy memory", || unsafe {
            result::memcpy_dtod_sync(self.address(), other.address(), bytes)
        })
    }

    /// Calls the driver and waits, because the driver may return before the last bytes have arrived.
    fn finish(
        &self,
        refused: &str,
        call: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DeviceFault> {
        self.memory.gpu.call(refused, call)?;
        self.memory.gpu.synchronize()
    }

    /// Reads numbers of `N` bytes from the `from`-th on, after all queued work.
    pub fn read<const N: usize>(
        &self,
        from: usize,
        count: usize,
    ) -> Result<Vec<[u8; N]>, DeviceFault> {
        let from = from * N;
        let mut numbers = vec![[0; N]; count];
        let bytes = numbers.as_flattened_mut();
        assert!(
            from + bytes.len() <= self.bytes,
            "{} bytes from {from} of a piece of {}",
            bytes.len(),
            self.bytes
        );
        let gpu = &self.memory.gpu;
        gpu.synchronize()?;
        // SAFETY: the memory has these bytes there, and nothing changes them.
        gpu.call("can't read memory", || unsafe {
            result::memcpy_dtoh_sync(bytes, self.address() + from as u64)
        })?;
        Ok(numbers)
    }

    /// The memory's address on the GPU.
    pub fn address(&self) -> u64 {
        self.memory.raw
    }
}

/// Pinned memory of the host, mapped to the same address on all GPUs. It holds numbers for which any bits are a value,
/// and begins as zeros.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    _memory: Owned<*mut c_void>,
    numbers: *mut T,
    pub count: usize,
    address: u64,
}

impl<T: Copy> Mapped<T> {
    /// Allocates memory for `count` numbers. `what` names its purpose in messages.
    pub fn new(gpu: &Arc<Gpu>, count: usize, what: &str) -> Result<Mapped<T>, DeviceFault> {
        // The driver allocates no empty memory.
        let bytes = count.max(1) * size_of::<T>();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let no_room = format_args!("{bytes} bytes of pinned host memory for {what} can't be had");
        // SAFETY: the memory is filled below, before anything reads it.
        let pointer = gpu.call(no_room, || unsafe { result::malloc_host(bytes, flags) })?;
        // SAFETY: it was allocated above.
        let _memory = unsafe { Owned::new(gpu, pointer, result::free_host) };
        // SAFETY: the memory has this size, and pages are aligned for any number.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
        let mut mapped = Mapped {
            _memory,
            numbers: pointer.cast(),
            count,
            address: 0,
        };
        gpu.call("host memory can't be mapped", || {
            // SAFETY: the memory is mapped, and the address has a place.
            unsafe { sys::cuMemHostGetDevicePointer_v2(&mut mapped.address, pointer, 0) }.result()
        })?;
        Ok(mapped)
    }

    /// A number's address for GPUs.
    pub fn address(&self, at: usize) -> u64 {
        self.address + (at * size_of::<T>()) as u64
    }

    /// A number's address for the host.
    ///
    /// # Panics
    ///
    /// If the index is out of range.
    pub fn place(&self, at: usize) -> *mut T {
        assert!(at < self.count, "place {at} of {}", self.count);
        self.numbers.wrapping_add(at)
    }

    /// Writes numbers for a GPU. No queued work may use their places.
    pub fn write(&mut self, at: usize, numbers: impl ExactSizeIterator<Item = T>) {
        assert!(
            at + numbers.len() <= self.count,
            "{} numbers at {at} of {}",
            numbers.len(),
            self.count
        );
        for (place, number) in (at..).zip(numbers) {
            // An iterator's length may be wrong, which `place` notices. SAFETY: the place is inside the memory.
            unsafe { self.place(place).write(number) };
        }
    }

    /// Numbers that a GPU wrote.
    ///
    /// # Safety
    ///
    /// No GPU writes them while the slice lives.
    pub unsafe fn read(&self, at: usize, count: usize) -> &[T] {
        assert!(
            at + count <= self.count,
            "{count} numbers at {at} of {}",
            self.count
        );
        // SAFETY: the range is inside the memory, all of which has been written; the rest is the caller's promise.
        unsafe { slice::from_raw_parts(self.numbers.add(at), count) }
    }
}

impl Mapped<u32> {
    /// A number that a GPU may write at any time.
    pub fn get(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the place is inside the memory and aligned; the host accesses it in no other way.
        unsafe { AtomicU32::from_ptr(self.place(at)) }
    }
}

impl Mapped<u64> {
    /// A number that a GPU may write at any time.
    pub fn get(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.place(at)) }
    }
}

/// The size of a staged row, in numbers.
pub(super) const ROW: usize = 7;

/// The initial number of pieces of a stream. A policy has a few tasks in flight; whole requests gather more often.
const PIECES: usize = 32;

/// A stream's ring of equal pieces, in which the host writes the rows of batches. A gather is queued long before it
/// runs, so each keeps its piece until its task is done. Tasks of a stream end in order, so pieces become free in
/// order.
#[derive(Debug)]
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    blocks: Vec<Mapped<u32>>,
    /// The pieces in the order in which they become free; the next free one is in front.
    pieces: VecDeque<Piece>,
    /// The size of a piece, in numbers.
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    block: usize,
    begin: usize,
    /// The signal of the task that reads the piece.
    busy_until: u64,
}

impl Staging {
    pub fn new(gpu: &Arc<Gpu>) -> Staging {
        Staging {
            gpu: Arc::clone(gpu),
            blocks: Vec::new(),
            pieces: VecDeque::new(),
            room: 0,
        }
    }

    /// Makes pieces that have room for these numbers: [`ROW`] of each row, and one of each input. No queued work may
    /// read them.
    pub fn fit(&mut self, room: usize) -> Result<(), DeviceFault> {
        if room <= self.room {
            return Ok(());
        }
        self.room = room.next_power_of_two();
        self.pieces.clear();
        self.blocks.clear();
        self.grow(PIECES)
    }

    /// Makes all pieces free. No queued work may read them.
    pub fn reset(&mut self) {
        self.pieces
            .iter_mut()
            .for_each(|piece| piece.busy_until = 0);
    }

    /// Writes a batch for a task with this signal, and returns the addresses of its rows and inputs. `signalled` is the
    /// present count of the stream's signal.
    pub fn write(
        &mut self,
        batch: &DeviceBatch<'_>,
        signal: u64,
        signalled: u64,
    ) -> Result<(u64, u64), DeviceFault> {
        debug_assert!(
            ROW * batch.rows.len() + batch.inputs.len() <= self.room,
            "the plan was made for such a batch"
        );
        if self
            .pieces
            .front()
            .is_none_or(|piece| piece.busy_until > signalled)
        {
            self.grow(self.pieces.len().max(PIECES))?;
        }
        let mut piece = self.pieces.pop_front().expect("the ring has grown");
        let block = &mut self.blocks[piece.block];
        let mut at = piece.begin;
        for row in batch.rows {
            let numbers = [
                request_number(row.request),
                row.node,
                row.last,
                row.state.0,
                row.words,
                row.tokens,
                row.inputs_end,
            ];
            block.write(at, numbers.into_iter());
            at += ROW;
        }
        block.write(at, batch.inputs.iter().map(|slot| slot.0));
        let staged = (block.address(piece.begin), block.address(at));
        piece.busy_until = signal;
        self.pieces.push_back(piece);
        Ok(staged)
    }

    /// Adds free pieces in front.
    fn grow(&mut self, pieces: usize) -> Result<(), DeviceFault> {
        self.blocks.push(Mapped::new(
            &self.gpu,
            pieces * self.room,
            "the members of batches",
        )?);
        let block = self.blocks.len() - 1;
        for piece in 0..pieces {
            self.pieces.push_front(Piece {
                block,
                begin: piece * self.room,
                busy_until: 0,
            });
        }
        Ok(())
    }
}
