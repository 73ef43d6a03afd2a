//! A GPU with the libraries.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use super::compile::Cache;
use super::cublas::Cublas;
use super::driver::Gpu;
use super::libraries;
use super::nvrtc::Nvrtc;
use crate::base::error::{Error, Result};
use crate::core::cost::grnn::ReportedGpu;

/// A GPU, and the libraries that compile for it and multiply on it.
#[derive(Clone, Debug)]
pub struct Host {
    pub(super) gpu: Arc<Gpu>,
    pub(super) nvrtc: Nvrtc,
    pub(super) cublas: Cublas,
    pub(super) cache: Cache,
}

impl Host {
    /// Opens the first GPU that the process sees. Fails if a library is missing or too old.
    pub fn open() -> Result<Host> {
        let found = libraries::find();
        found.driver.need()?.gpus()?;
        let (nvrtc, cublas) = (found.nvrtc.need()?.clone(), found.cublas.need()?.clone());
        Ok(Host {
            gpu: Gpu::open(0)?,
            nvrtc,
            cublas,
            cache: Cache::of_user(),
        })
    }

    pub fn name(&self) -> &str {
        &self.gpu.name
    }

    pub fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors
    }

    /// The properties that the driver reports of the GPU, for a device of this name.
    pub fn reported(&self, name: &str) -> Result<ReportedGpu> {
        let ask = |attribute| self.gpu.attribute(attribute);
        Ok(ReportedGpu {
            name: name.into(),
            gpu: self.gpu.name.clone(),
            multiprocessors: self.gpu.multiprocessors,
            registers: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)
                .map_err(Error::failed)?,
            threads: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
                .map_err(Error::failed)?,
            kilohertz: ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map_err(Error::failed)?,
        })
    }
}
