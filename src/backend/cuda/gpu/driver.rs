//! The driver, the GPUs that it opens, and their description.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use libloading::Library as Opened;
use serde::Serialize;

use super::libraries::{Found, find, functions};
use crate::backend::cuda::device::Fault;
use crate::error::{Error, Result};

/// The oldest CUDA that a driver must serve, as major and minor number.
const OLDEST: (u32, u32) = (12, 0);

functions! {
    /// What is asked before anything else is called.
    Functions {
        version = cuDriverGetVersion(*mut i32) -> i32;
    }
}

/// A driver that is there.
#[derive(Clone, Debug)]
pub struct Driver {
    /// The newest CUDA that it serves, as major and minor number.
    pub version: (u32, u32),
    /// Its file.
    pub path: PathBuf,
}

impl Driver {
    pub(super) fn bind(library: &'static Opened, path: PathBuf) -> Result<Driver, String> {
        let functions = Functions::of(library)?;
        let mut version = 0;
        // SAFETY: the function writes one number, and may be called before the driver is initialised.
        let status = unsafe { (functions.version)(&mut version) };
        if status != 0 {
            return Err(format!("says error {status} when asked for its version"));
        }
        // SAFETY: looks for a library of that name in the process and on the system's path.
        if !unsafe { sys::is_culib_present() } {
            return Err("is not known by that name to the system's loader".into());
        }
        Ok(Driver { version: numbers(version), path })
    }

    /// Initialises the driver and counts its GPUs.
    ///
    /// # Errors
    /// A driver that is too old; no GPU, or none that this process may see.
    pub fn gpus(&self) -> Result<usize> {
        if self.version < OLDEST {
            return Err(Error::failed(format!(
                "the driver is too old: {} serves CUDA up to {}, and {} is needed; update it",
                self.path.display(),
                dotted(self.version),
                dotted(OLDEST)
            )));
        }
        let count = result::init().and_then(|()| result::device::get_count());
        let none = |reason: String| {
            Error::failed(format!(
                "there is no GPU: the driver {} (CUDA {}) says: {reason}; see whether CUDA_VISIBLE_DEVICES hides one",
                self.path.display(),
                dotted(self.version)
            ))
        };
        match count {
            Ok(0) => Err(none("0 devices".into())),
            Ok(count) => Ok(count as usize),
            Err(error) => Err(none(Said(error).to_string())),
        }
    }
}

/// A version as CUDA counts it, 1000 for a major and 10 for a minor one, in its parts.
fn numbers(version: i32) -> (u32, u32) {
    let version = version.max(0) as u32;
    (version / 1000, version % 1000 / 10)
}

/// A version for messages.
pub fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// An error in the driver's own words.
pub(super) struct Said(pub DriverError);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.error_string().map(|text| text.to_string_lossy().into_owned());
        write!(f, "{} ({:?})", text.unwrap_or_else(|_| "unknown error".into()), self.0.0)
    }
}

/// Whether a worker can go on after an error: the call was at fault, and not what the GPU computes. All other errors stay with
/// the context, so that no call to it ever succeeds again.
fn survivable(error: CUresult) -> bool {
    matches!(
        error,
        CUresult::CUDA_ERROR_INVALID_VALUE
            | CUresult::CUDA_ERROR_OUT_OF_MEMORY
            | CUresult::CUDA_ERROR_INVALID_HANDLE
            | CUresult::CUDA_ERROR_NOT_FOUND
            | CUresult::CUDA_ERROR_INVALID_IMAGE
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_INVALID_PTX
            | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
            | CUresult::CUDA_ERROR_NOT_PERMITTED
            | CUresult::CUDA_ERROR_NOT_SUPPORTED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    )
}

/// What a failed call means for the backend. `doing` says what the call was for.
pub(super) fn fault(doing: impl fmt::Display, error: DriverError) -> Fault {
    Fault { reason: format!("{doing}: {}", Said(error)), lost: !survivable(error.0) }
}

/// The same for calls that no run has been begun with.
pub(super) fn failed(doing: impl fmt::Display, error: DriverError) -> Error {
    Error::failed(fault(doing, error).reason)
}

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
    pub fn handle(&self) -> sys::CUcontext {
        self.context.cu_ctx()
    }

    /// Lets this GPU reach the memory of another directly, where the two are connected so. Copies between them work either way.
    pub fn reach(&self, other: &Gpu) -> Result<(), Fault> {
        self.bind()?;
        let (mut can, here, there) = (0, self.context.cu_device(), other.context.cu_device());
        // SAFETY: both are devices that the driver gave; the answer has a place.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, here, there) }.result();
        if asked.is_ok() && can != 0 {
            // SAFETY: the context is that of an open GPU. Where it can't be had, or was had before, copies take the way that
            // they would have taken.
            let _ = unsafe { sys::cuCtxEnablePeerAccess(other.handle(), 0) };
        }
        Ok(())
    }

    /// What a call that failed means for the backend.
    pub fn fault(&self, doing: impl fmt::Display, error: DriverError) -> Fault {
        fault(format_args!("{self}: {doing}"), error)
    }

    /// The error of memory that is not there; the answer to anything else is as [`Gpu::fault`].
    pub fn no_room(&self, bytes: usize, what: &str, error: DriverError) -> Fault {
        let full = error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
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

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// Its place among those that the process sees; a worker's number.
    pub gpu: usize,
    /// Its name.
    pub name: String,
    /// The compute capability, as `9.0`.
    pub capability: String,
    /// The number of its multiprocessors.
    pub multiprocessors: u32,
    /// The bytes of its memory that are free.
    pub memory_free: u64,
    /// All bytes of its memory.
    pub memory: u64,
}

/// A library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its version; the driver's is that of the newest CUDA that it serves.
    pub version: String,
    /// Its file.
    pub path: String,
}

/// The libraries that GPUs are used through, those of them that were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Libraries {
    /// The driver.
    pub driver: Option<Library>,
    /// The compiler.
    pub nvrtc: Option<Library>,
    /// The products.
    pub cublas: Option<Library>,
}

impl Libraries {
    /// Those of a search.
    pub fn of(found: &Found) -> Libraries {
        let library = |version: String, path: &std::path::Path| Library { version, path: path.display().to_string() };
        Libraries {
            driver: found.driver.found.as_ref().map(|driver| library(dotted(driver.version), &driver.path)),
            nvrtc: found.nvrtc.found.as_ref().map(|nvrtc| library(dotted(nvrtc.version), &nvrtc.path)),
            cublas: found.cublas.found.as_ref().map(|cublas| {
                let (major, minor, patch) = cublas.version;
                library(format!("{major}.{minor}.{patch}"), &cublas.path)
            }),
        }
    }
}

/// The GPUs that the process sees.
///
/// # Errors
/// No driver, one too old, no GPU, or one that can't be opened: what was looked for and where.
pub fn devices() -> Result<Vec<About>> {
    of_driver(&find())
}

/// The GPUs behind the driver that was found.
///
/// # Errors
/// As [`devices`].
pub fn of_driver(found: &Found) -> Result<Vec<About>> {
    let count = found.driver.need()?.gpus()?;
    let about = |number| {
        let gpu = Gpu::open(number)?;
        let (free, total) = gpu.memory().map_err(|fault| Error::failed(fault.reason))?;
        Ok(About {
            gpu: number,
            name: gpu.name.clone(),
            capability: format!("{}.{}", gpu.architecture / 10, gpu.architecture % 10),
            multiprocessors: gpu.multiprocessors,
            memory_free: free as u64,
            memory: total as u64,
        })
    };
    (0..count).map(about).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_cuda_counts() {
        assert_eq!(numbers(12040), (12, 4));
        assert_eq!(dotted(numbers(13000)), "13.0");
        assert!(numbers(11080) < OLDEST);
    }

    #[test]
    fn an_error_of_the_computation_costs_the_worker() {
        assert!(survivable(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(!survivable(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(!survivable(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
    }

    #[test]
    fn a_size_is_short() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(140 << 30), "140.0 GiB");
    }
}
