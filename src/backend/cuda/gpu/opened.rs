//! One GPU, opened.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::CUdevice_attribute;

use super::driver::{failed, fault};
use crate::backend::cuda::device::Fault;
use crate::error::Result;

/// A GPU with the driver's context on it, which lives as long as anything that was made in it.
#[derive(Debug)]
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    /// Its place among those that the process sees.
    pub number: usize,
    pub name: String,
    pub multiprocessors: u32,
    /// 90 for compute capability 9.0.
    pub architecture: u32,
}

impl Gpu {
    /// Opens a GPU, which must be one of those that the [driver](super::driver::Driver::gpus) counted.
    ///
    /// # Errors
    /// Those of the driver: a GPU that another process has to itself, or that is broken.
    pub fn open(number: usize) -> Result<Arc<Gpu>> {
        let doing = format_args!("GPU {number} can't be opened").to_string();
        let opened = || -> Result<Gpu, DriverError> {
            let context = CudaContext::new(number)?;
            let attribute = |attribute| context.attribute(attribute).map(|value| value.max(0) as u32);
            let multiprocessors = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            let (major, minor) = context.compute_capability()?;
            let architecture = (10 * major + minor).max(0) as u32;
            Ok(Gpu { number, name: context.name()?, multiprocessors, architecture, context })
        };
        opened().map(Arc::new).map_err(|error| failed(doing, error))
    }

    /// Makes its context the calling thread's.
    pub fn bind(&self) -> Result<(), Fault> {
        self.context.bind_to_thread().map_err(|error| self.fault("can't be used", error))
    }

    /// A number that the driver has of it.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<u32, Fault> {
        let value = self.context.attribute(attribute).map_err(|error| self.fault("can't be asked", error))?;
        Ok(value.max(0) as u32)
    }

    /// Waits for all that is queued on it.
    pub fn synchronize(&self) -> Result<(), Fault> {
        self.context.synchronize().map_err(|error| self.fault("broke off", error))
    }

    /// The bytes of its memory that are free, and all of them.
    pub fn memory(&self) -> Result<(usize, usize), Fault> {
        self.context.mem_get_info().map_err(|error| self.fault("can't tell its memory", error))
    }

    /// The driver's handle of the context.
    pub fn handle(&self) -> cudarc::driver::sys::CUcontext {
        self.context.cu_ctx()
    }

    /// Lets this GPU reach the memory of another directly, where the two are connected so. Copies between them work either way.
    pub fn reach(&self, other: &Gpu) -> Result<(), Fault> {
        self.bind()?;
        let (mut can, here, there) = (0, self.context.cu_device(), other.context.cu_device());
        // SAFETY: both are devices that the driver gave; the answer has a place.
        let asked = unsafe { cudarc::driver::sys::cuDeviceCanAccessPeer(&mut can, here, there) }.result();
        if asked.is_ok() && can != 0 {
            // SAFETY: the context is that of an open GPU. Where it can't be had, or was had before, copies take the way that
            // they would have taken.
            let _ = unsafe { cudarc::driver::sys::cuCtxEnablePeerAccess(other.handle(), 0) };
        }
        Ok(())
    }

    /// What a call that failed means for the backend.
    pub fn fault(&self, doing: impl fmt::Display, error: DriverError) -> Fault {
        fault(format_args!("{self}: {doing}"), error)
    }

    /// The error of memory that is not there; the answer to anything else is as [`Gpu::fault`].
    pub fn no_room(&self, bytes: usize, what: &str, error: DriverError) -> Fault {
        let full = error.0 == cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        match result::mem_get_info() {
            Ok((free, total)) if full => Fault {
                reason: format!(
                    "{self} has no memory for {what}: {} are wanted, {} of {} are free; a smaller hidden width, vocabulary or \
                     max_batch takes less, a lower device.max_waiting fewer states, and the cpu backend none",
                    size(bytes),
                    size(free),
                    size(total)
                ),
                lost: false,
            },
            _ => self.fault(format_args!("{} for {what} can't be had", size(bytes)), error),
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} ({})", self.number, self.name)
    }
}

/// A number of bytes for messages.
pub(super) fn size(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["GiB", "MiB", "KiB", "bytes"];
    let of_unit = [1usize << 30, 1 << 20, 1 << 10, 1];
    let unit = of_unit.iter().position(|unit| bytes >= *unit).unwrap_or(3);
    let count = bytes as f64 / of_unit[unit] as f64;
    if unit == 3 { format!("{bytes} bytes") } else { format!("{count:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_short() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(140 << 30), "140.0 GiB");
    }
}
