//! Persistent kernels for recurrent networks (GRNN, sections 5 and 6): all steps of a batch in one launch, with the weights in
//! registers from the first to the last.
//!
//! A [`Configuration`] says what a kernel is compiled and launched with; a [`Host`] has what that takes; a [`Layer`] is the
//! network's weights on the GPU, which all kernels of a network share; a [`Persistent`] kernel runs sequences;
//! a [`Tuner`] finds the fastest. What the performance model has to know of a GPU, [`measure`] finds out.

mod configuration;
mod kernel;
mod layer;
mod micro;
mod persistent;

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

pub use self::configuration::{Configuration, HEADERS};
pub(super) use self::kernel::At;
pub use self::kernel::Chosen;
pub use self::layer::Layer;
pub use self::micro::{MICRO, MICRO_HEADERS, measure, micro_options};
pub use self::persistent::{Persistent, States, Tuned, Tuner};
use super::cache::Cache;
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
    pub(super) fn of(gpu: &Arc<Gpu>, nvrtc: &Nvrtc, cublas: &Cublas, cache: &Cache) -> Host {
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
