//! A persistent kernel as it is loaded on a GPU, and its launches.

use cudarc::driver::result;
use cudarc::driver::sys::CUfunction_attribute;

use super::loaded::Loaded;
use super::{Configuration, HEADERS, Host, Layer};
use crate::backend::cuda::gpu::call::{Arguments, Call};
use crate::backend::cuda::gpu::failed;
use crate::backend::cuda::gpu::nvrtc::Source;
use crate::cost::grnn::Sizes;
use crate::error::{Error, Result};

/// Dynamic shared memory that a kernel may have without being allowed more, in bytes.
const SHARED: u32 = 48 << 10;

/// A kernel that runs sequences of a network.
#[derive(Debug)]
pub struct Kernel {
    loaded: Loaded,
    configuration: Configuration,
}

/// Where a launch finds what it reads, and puts what it writes: addresses on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The steps of each sequence.
    pub lengths: u64,
    /// What the inputs come to: \[steps, batch, gates, hidden\].
    pub inputs: u64,
    /// \[steps + 1, batch, hidden\].
    pub hidden: u64,
    /// The c of an LSTM's sequences, or what the blocks of a GRU exchange.
    pub beside: u64,
    /// A zero for each row of the grid.
    pub arrived: u64,
}

impl Kernel {
    /// Compiles a kernel, or finds it in the cache, and loads it.
    ///
    /// # Errors
    /// A kernel that the compiler refuses; a mapping whose blocks are not all on the GPU at once, or have more shared memory than it has.
    pub fn new(host: &Host, configuration: Configuration) -> Result<Kernel> {
        host.gpu.bind().map_err(failed)?;
        let (name, text) = configuration.source();
        let source = Source { name, text, headers: &HEADERS };
        let loaded = Loaded::new(host, &source, &configuration.options(), configuration.kernel())?;
        let kernel = Kernel { loaded, configuration };
        kernel.check_room()?;
        Ok(kernel)
    }

    /// What it was compiled with. The batch of its sizes is the largest that it runs.
    pub fn configuration(&self) -> Configuration {
        self.configuration
    }

    /// The launch of so many steps of a batch, with all blocks on the GPU at once.
    pub(in crate::backend::cuda::gpu) fn call(&self, steps: u32, batch: u32, layer: &Layer, at: At) -> Call {
        let (sizes, mapping) = (Sizes { batch, ..self.configuration.sizes() }, self.configuration.mapping());
        let arguments = Arguments::default()
            .number(steps)
            .number(batch)
            .address(at.lengths)
            .address(at.inputs)
            .address(layer.recurrent.address())
            .address(at.hidden)
            .address(at.beside)
            .address(at.arrived);
        Call::new(self.loaded.function, (mapping.columns(&sizes), mapping.rows(&sizes)), arguments)
            .of_threads(mapping.threads())
            .cooperative(self.configuration.shared())
    }

    /// Checks that all blocks are on the GPU at once.
    fn check_room(&self) -> Result<()> {
        let (gpu, function) = (&self.loaded.gpu, self.loaded.function);
        let (sizes, mapping, shared) =
            (self.configuration.sizes(), self.configuration.mapping(), self.configuration.shared());
        let asked = |error| Error::failed(gpu.fault("a persistent kernel can't be asked for its size", error).reason);
        if shared > SHARED {
            let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let too_much = |_| {
                Error::failed(format!(
                    "a block of {mapping:?} takes {shared} bytes of shared memory, more than {gpu} has"
                ))
            };
            // SAFETY: the function's module is loaded.
            unsafe { result::function::set_function_attribute(function, most, shared as i32) }.map_err(too_much)?;
        }
        let (threads, shared) = (mapping.threads() as i32, shared as usize);
        // SAFETY: the function's module is loaded.
        let blocks = unsafe { result::occupancy::max_active_block_per_multiprocessor(function, threads, shared) }
            .map_err(asked)?;
        let room = blocks.max(0) as u32 * gpu.multiprocessors;
        if mapping.blocks(&sizes) > room {
            return Err(Error::failed(format!(
                "{} blocks of {mapping:?} for {sizes:?} have to be on {gpu} at once, which has room for {room}",
                mapping.blocks(&sizes),
            )));
        }
        Ok(())
    }
}
