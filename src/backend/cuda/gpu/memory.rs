//! Memory of a GPU.

use std::sync::Arc;

use cudarc::driver::result;

use super::opened::Gpu;
use crate::backend::cuda::device::Fault;

/// A piece of a GPU's memory. What is in it at first is not said.
///
/// It does not wait for work that uses it before it is given back: the driver does, for all that is queued on the context.
#[derive(Debug)]
pub(super) struct Memory {
    gpu: Arc<Gpu>,
    address: u64,
    bytes: usize,
}

impl Memory {
    /// Takes memory. `what` says for what, in a message.
    ///
    /// # Errors
    /// Memory that is not there.
    pub fn new(gpu: &Arc<Gpu>, bytes: usize, what: &str) -> Result<Memory, Fault> {
        gpu.bind()?;
        // The driver has no empty pieces.
        // SAFETY: nothing reads the memory as a type before something is written to it.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.map_err(|error| gpu.no_room(bytes, what, error))?;
        Ok(Memory { gpu: Arc::clone(gpu), address, bytes })
    }

    /// Memory with these bytes in it.
    pub fn holding(gpu: &Arc<Gpu>, bytes: &[u8], what: &str) -> Result<Memory, Fault> {
        let memory = Memory::new(gpu, bytes.len(), what)?;
        // SAFETY: the memory is as long as what is copied, and nothing is queued that uses it.
        unsafe { result::memcpy_htod_sync(memory.address, bytes) }.map_err(|error| gpu.fault(what, error))?;
        // The driver may come back before the last bytes have arrived.
        gpu.synchronize()?;
        Ok(memory)
    }

    /// Memory of zeros.
    pub fn zeros(gpu: &Arc<Gpu>, bytes: usize, what: &str) -> Result<Memory, Fault> {
        let mut memory = Memory::new(gpu, bytes, what)?;
        memory.clear()?;
        Ok(memory)
    }

    /// Fills it with zeros. Nothing that is queued may use it.
    pub fn clear(&mut self) -> Result<(), Fault> {
        self.gpu.bind()?;
        // SAFETY: the memory is so long, and every number here may be zero.
        unsafe { result::memset_d8_sync(self.address, 0, self.bytes) }
            .map_err(|error| self.gpu.fault("can't fill memory", error))?;
        self.gpu.synchronize()
    }

    /// Writes bytes to its beginning. Nothing that is queued may use it.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        assert!(bytes.len() <= self.bytes, "{} bytes for a piece of {}", bytes.len(), self.bytes);
        self.gpu.bind()?;
        // SAFETY: the memory is at least as long as what is copied.
        unsafe { result::memcpy_htod_sync(self.address, bytes) }
            .map_err(|error| self.gpu.fault("can't fill memory", error))?;
        self.gpu.synchronize()
    }

    /// Reads bytes that begin so many behind its beginning, when all that is queued is over.
    pub fn read(&self, from: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        assert!(from + bytes.len() <= self.bytes, "{} bytes from {from} of a piece of {}", bytes.len(), self.bytes);
        self.gpu.bind()?;
        self.gpu.synchronize()?;
        // SAFETY: the memory has so many bytes there, and nothing changes them.
        unsafe { result::memcpy_dtoh_sync(bytes, self.address + from as u64) }
            .map_err(|error| self.gpu.fault("can't read memory", error))
    }

    /// Copies what is in other memory of this GPU to its beginning. Nothing that is queued may use either.
    pub fn take_over(&mut self, other: &Memory) -> Result<(), Fault> {
        self.gpu.bind()?;
        // SAFETY: both are at least so long, and of one context.
        unsafe { result::memcpy_dtod_sync(self.address, other.address, self.bytes.min(other.bytes)) }
            .map_err(|error| self.gpu.fault("can't copy memory", error))?;
        self.gpu.synchronize()
    }

    /// Where it begins, for the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was taken once and is given back once, in its context. A GPU that is lost can't take it; the end of
            // the process will.
            let _ = unsafe { result::memory_free(self.address) };
        }
    }
}
