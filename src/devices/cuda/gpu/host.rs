//! A GPU with the libraries that compile for it and multiply on it.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use super::cache::KernelCache;
use super::cublas::Cublas;
use super::driver::{CLUSTERS, Gpu};
use super::libraries;
use super::nvrtc::Nvrtc;
use crate::base::error::{Error, Result};
use crate::core::cost::grnn::{Constants, ReportedGpu};

/// A GPU, and the libraries that compile for it and multiply on it.
#[derive(Clone, Debug)]
pub struct GpuHost {
    pub(super) gpu: Arc<Gpu>,
    pub(super) nvrtc: Nvrtc,
    pub(super) cublas: Cublas,
    pub(super) cache: KernelCache,
}

impl GpuHost {
    /// Opens the first GPU that the process sees. Fails if a library is missing or too old.
    pub fn open() -> Result<GpuHost> {
        let found = libraries::find();
        found.driver.need()?.gpus()?;
        let nvrtc = found.nvrtc.need()?.clone();
        let cublas = found.cublas.need()?.clone();
        Ok(GpuHost {
            gpu: Gpu::open(0)?,
            nvrtc,
            cublas,
            cache: KernelCache::user_cache(),
        })
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.gpu.name
    }

    pub fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors
    }

    /// The constants by which kernels are ranked for this GPU: its kernels keep states on chip, whatever device the
    /// constants describe.
    pub fn constants(&self, device: &Constants) -> Constants {
        let clusters = device.cluster_synchronisation;
        Constants {
            states_on_chip: true,
            cluster_synchronisation: clusters.filter(|_| self.gpu.architecture >= CLUSTERS),
            ..device.clone()
        }
    }

    /// The properties that NVIDIA's driver reports of the GPU, for a device of this name.
    pub fn report(&self, name: &str) -> Result<ReportedGpu> {
        Ok(ReportedGpu {
            name: name.into(),
            gpu: self.gpu.name.clone(),
            multiprocessors: self.gpu.multiprocessors,
            registers: self
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            threads: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            kilohertz: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        })
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32> {
        self.gpu.attribute(attribute).map_err(Error::failure)
    }
}
