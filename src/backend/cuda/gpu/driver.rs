//! The driver, and what it reports.

use std::fmt;
use std::path::PathBuf;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUresult};
use libloading::Library;

use super::libraries::functions;
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
    pub(super) fn bind(library: &'static Library, path: PathBuf) -> Result<Driver, String> {
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
        let count = cudarc::driver::result::init().and_then(|()| cudarc::driver::result::device::get_count());
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
}
