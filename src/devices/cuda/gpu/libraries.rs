//! The driver, NVRTC and cuBLAS, which are found at run time, so that one build serves hosts with and without them.

use std::env;
use std::path::Path;

use serde::Serialize;

use super::cublas::Cublas;
use super::driver::{Driver, Gpu};
pub use super::library::set_own_python;
use super::library::{LibrarySearch, SearchPlace, file_names, format_version, toolkit_names};
use super::nvrtc::Nvrtc;
use crate::base::error::{Error, Result};

/// The libraries, and where they were searched for.
#[derive(Debug)]
pub struct FoundLibraries {
    pub driver: LibrarySearch<Driver>,
    pub nvrtc: LibrarySearch<Nvrtc>,
    pub cublas: LibrarySearch<Cublas>,
}

/// Searches for the libraries and opens them. They stay open until the program ends.
pub fn find() -> FoundLibraries {
    let places = SearchPlace::all(&|name| env::var_os(name));
    let driver = LibrarySearch::new(
        "NVIDIA driver",
        &file_names("libcuda", 1..=1),
        &places,
        Driver::bind,
    );
    // The output of libraries newer than the driver can't be loaded.
    let newest = driver.found.as_ref().map(|driver| driver.version.0);
    let gpus = driver
        .found
        .as_ref()
        .map(Driver::architectures)
        .unwrap_or_default();
    let nvrtc = LibrarySearch::new(
        "NVRTC",
        &toolkit_names("libnvrtc", newest),
        &places,
        |library, path| Nvrtc::bind(library, path)?.serving(&gpus),
    );
    let names = toolkit_names("libcublas", newest);
    // The two are installed together, so a cuBLAS of NVRTC's major version fits best; others work too.
    let major = nvrtc.found.as_ref().map(|nvrtc| nvrtc.version.0);
    let mut cublas = LibrarySearch::new("cuBLAS", &names, &places, |library, path| {
        Cublas::bind(library, path)?.serving(&gpus, major)
    });
    if cublas.found.is_none() {
        cublas = LibrarySearch::new("cuBLAS", &names, &places, |library, path| {
            Cublas::bind(library, path)?.serving(&gpus, None)
        });
    }
    FoundLibraries {
        driver,
        nvrtc,
        cublas,
    }
}

/// A GPU, as `batchlab devices` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The index among the GPUs that the process sees, which is the number of its worker.
    pub gpu: usize,
    pub name: String,
    /// The compute capability, such as `9.0`.
    pub capability: String,
    pub multiprocessors: u32,
    /// The free memory, in bytes.
    pub memory_free: u64,
    /// All memory, in bytes.
    pub memory: u64,
}

/// A library, as results and `batchlab devices` describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// The version. That of the driver is the newest CUDA that it supports.
    pub version: String,
    pub path: String,
}

/// The libraries that were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Libraries {
    pub driver: Option<Library>,
    pub nvrtc: Option<Library>,
    pub cublas: Option<Library>,
}

impl Library {
    fn new(version: String, path: &Path) -> Library {
        Library {
            version,
            path: path.display().to_string(),
        }
    }
}

impl Libraries {
    pub fn describe(found: &FoundLibraries) -> Libraries {
        Libraries {
            driver: found
                .driver
                .found
                .as_ref()
                .map(|driver| Library::new(format_version(driver.version), &driver.path)),
            nvrtc: found
                .nvrtc
                .found
                .as_ref()
                .map(|nvrtc| Library::new(format_version(nvrtc.version), &nvrtc.path)),
            cublas: found.cublas.found.as_ref().map(|cublas| {
                let (major, minor, patch) = cublas.version;
                Library::new(format!("{major}.{minor}.{patch}"), &cublas.path)
            }),
        }
    }
}

/// The GPUs that the process sees. Fails if there is no driver, or none that is new enough, or no GPU.
pub fn list_gpus(found: &FoundLibraries) -> Result<Vec<About>> {
    let mut gpus = Vec::new();
    for number in 0..found.driver.need()?.gpus()? {
        let gpu = Gpu::examine(number)?;
        let (free, total) = gpu.memory().map_err(Error::failure)?;
        gpus.push(About {
            gpu: number,
            name: gpu.name.clone(),
            capability: gpu.capability(),
            multiprocessors: gpu.multiprocessors,
            memory_free: free as u64,
            memory: total as u64,
        });
    }
    Ok(gpus)
}
