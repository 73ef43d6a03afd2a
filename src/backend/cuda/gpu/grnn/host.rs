//! What persistent kernels are compiled with and run on.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::backend::cuda::gpu::cache::Cache;
use crate::backend::cuda::gpu::cublas::Cublas;
use crate::backend::cuda::gpu::failed;
use crate::backend::cuda::gpu::libraries;
use crate::backend::cuda::gpu::nvrtc::Nvrtc;
use crate::backend::cuda::gpu::opened::Gpu;
use crate::cost::grnn::Reported;
use crate::error::Result;

/// A GPU, and the libraries that compile for it and multiply on it.
#[derive(Debug)]
pub struct Host {
    pub(super) gpu: Arc<Gpu>,
    pub(super) nvrtc: Nvrtc,
    pub(super) cublas: Cublas,
    pub(super) cache: Cache,
}

impl Host {
    /// Opens the first GPU that the process sees.
    ///
    /// # Errors
    /// No driver, or one too old; no NVRTC, no cuBLAS: what was looked for and where. No GPU, or one that can't be opened.
    pub fn open() -> Result<Host> {
        let found = libraries::find();
        found.driver.need()?.gpus()?;
        let (nvrtc, cublas) = (found.nvrtc.need()?.clone(), found.cublas.need()?.clone());
        Ok(Host { gpu: Gpu::open(0)?, nvrtc, cublas, cache: Cache::of_user() })
    }

    /// What has been opened.
    pub(in crate::backend::cuda::gpu) fn of(gpu: &Arc<Gpu>, nvrtc: &Nvrtc, cublas: &Cublas, cache: &Cache) -> Host {
        Host { gpu: Arc::clone(gpu), nvrtc: nvrtc.clone(), cublas: cublas.clone(), cache: cache.clone() }
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.gpu.name
    }

    /// Its multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors
    }

    /// What its driver says of it, for a device of this name.
    ///
    /// # Errors
    /// A GPU that can't be asked.
    pub fn reported(&self, name: &str) -> Result<Reported> {
        let ask = |attribute| self.gpu.attribute(attribute).map_err(failed);
        Ok(Reported {
            name: name.into(),
            gpu: self.gpu.name.clone(),
            multiprocessors: self.gpu.multiprocessors,
            registers: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            threads: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            kilohertz: ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        })
    }
}
