//! A kernel that was compiled with constants, loaded on a GPU.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{CUfunction, CUmodule};

use super::Host;
use crate::backend::cuda::gpu::compile::{compiled, target};
use crate::backend::cuda::gpu::nvrtc::Source;
use crate::backend::cuda::gpu::opened::Gpu;
use crate::error::{Error, Result};

/// A kernel's module on a GPU.
#[derive(Debug)]
pub(super) struct Loaded {
    pub gpu: Arc<Gpu>,
    module: CUmodule,
    pub function: CUfunction,
}

// SAFETY: a module and its function belong to a context, not to a thread, and every call makes the context the calling thread's first.
unsafe impl Send for Loaded {}

impl Loaded {
    /// Compiles a source, or finds it in the cache, and loads the kernel of this name. The GPU's context is the thread's.
    ///
    /// # Errors
    /// A kernel that the compiler refuses, or that the driver can't load.
    pub fn new(host: &Host, source: &Source<'_>, options: &[String], kernel: &str) -> Result<Loaded> {
        let gpu = &host.gpu;
        let image = compiled(source, options, &host.nvrtc, target(gpu, &host.nvrtc)?, &host.cache)?;
        let failed = |error| Error::failed(gpu.fault(format_args!("{} can't be loaded", source.name), error).reason);
        // SAFETY: the image is what the compiler made, or the same bytes from the cache, with a zero behind it.
        let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(failed)?;
        let mut loaded = Loaded { gpu: Arc::clone(gpu), module, function: std::ptr::null_mut() };
        let kernel = CString::new(kernel).expect("the names have no zeros");
        // SAFETY: the module was loaded above, and is kept for as long as the function.
        loaded.function = unsafe { result::module::get_function(module, kernel) }.map_err(failed)?;
        Ok(loaded)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was loaded once, and its function is not launched any more. A GPU that is lost can't unload.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
