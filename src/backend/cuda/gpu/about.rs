//! What this host has of CUDA.

use serde::Serialize;

use super::driver::dotted;
use super::libraries::{Found, find};
use super::opened::Gpu;
use crate::error::{Error, Result};

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
