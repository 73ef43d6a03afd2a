//! Persistent kernels for recurrent networks (GRNN, sections 5 and 6): all steps of a batch in one launch, with the
//! weights in registers from the first step to the last.
//!
//! A [`Configuration`] has the sizes of a kernel; a [`Host`] compiles and runs it; a [`Layer`] has the network's
//! weights on the GPU, which all its kernels share; a [`Persistent`] kernel runs sequences; a [`Tuner`] finds the
//! fastest mapping; [`measure`] measures the GPU for the performance model.

mod configuration;
mod kernel;
mod layer;
mod micro;
mod persistent;

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

pub use self::configuration::{Configuration, HEADERS};
pub use self::kernel::Chosen;
pub use self::layer::Layer;
pub(super) use self::layer::{BESIDE, HIDDEN, INPUTS, LENGTHS, VECTORS};
pub use self::micro::{MICRO, MICRO_HEADERS, measure, micro_options};
pub use self::persistent::{Persistent, States, Tuned, Tuner};
use super::compile::Cache;
use super::cublas::Cublas;
use super::driver::Gpu;
use super::libraries;
use super::nvrtc::Nvrtc;
use crate::backend::cuda::gpu::failed;
use crate::cost::grnn::Reported;
use crate::error::Result;

/// A GPU, and the libraries that compile for it and multiply on it.
#[derive(Debug)]
pub struct Host {
    gpu: Arc<Gpu>,
    nvrtc: Nvrtc,
    cublas: Cublas,
    cache: Cache,
}

impl Host {
    /// Opens the first GPU that the process sees. Fails if a library is missing or too old.
    pub fn open() -> Result<Host> {
        let found = libraries::find();
        found.driver.need()?.gpus()?;
        let (nvrtc, cublas) = (found.nvrtc.need()?.clone(), found.cublas.need()?.clone());
        Ok(Host { gpu: Gpu::open(0)?, nvrtc, cublas, cache: Cache::of_user() })
    }

    pub(super) fn of(gpu: &Arc<Gpu>, nvrtc: &Nvrtc, cublas: &Cublas, cache: &Cache) -> Host {
        Host { gpu: Arc::clone(gpu), nvrtc: nvrtc.clone(), cublas: cublas.clone(), cache: cache.clone() }
    }

    pub fn name(&self) -> &str {
        &self.gpu.name
    }

    pub fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors
    }

    /// The properties that the driver reports of the GPU, for a device of this name.
    pub fn reported(&self, name: &str) -> Result<Reported> {
        let ask = |attribute| self.gpu.attribute(attribute);
        Ok(Reported {
            name: name.into(),
            gpu: self.gpu.name.clone(),
            multiprocessors: self.gpu.multiprocessors,
            registers: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR).map_err(failed)?,
            threads: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK).map_err(failed)?,
            kilohertz: ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map_err(failed)?,
        })
    }
}
