//! Persistent kernels loaded on a GPU, and the choice of those for a network's batches.

use std::collections::BTreeMap;

use cudarc::driver::result;
use cudarc::driver::sys::CUfunction_attribute;

use super::tuned_mapping::Tuned;
use super::{Configuration, GpuHost, Layer};
use crate::base::error::{Error, Result};
use crate::core::cost::grnn::{
    DataSheet, Exchange, KernelLaunches, Mapping, RankedMapping, RecurrentCell, Rnn, RnnSizes,
    Space, rank,
};
use crate::devices::cuda::gpu::call::{self, Function, KernelCall, Residency};
use crate::devices::cuda::gpu::compile::LoadedKernels;
use crate::devices::cuda::gpu::cublas::GpuProduct;
use crate::devices::cuda::gpu::driver::{CLUSTERS, Gpu};
use crate::devices::cuda::gpu::weights::Upload;

/// The dynamic shared memory that a kernel may use without a special attribute, in bytes.
const SHARED: u32 = 48 << 10;

/// A persistent kernel that is loaded on a GPU.
#[derive(Debug)]
pub struct Kernel {
    kernels: LoadedKernels,
    /// The sizes and the mapping. The batch of the sizes is the largest that the kernel runs.
    pub configuration: Configuration,
}

impl Kernel {
    /// Compiles a kernel, or finds it in the cache, and loads it: with clusters if the GPU has them and room for all at
    /// the same time. Fails if not all blocks are resident at the same time, or if they have too little shared memory.
    pub fn new(host: &GpuHost, configuration: Configuration) -> Result<Kernel> {
        if host.gpu.architecture >= CLUSTERS
            && let Some(cluster) = configuration.cluster()
        {
            let kernel = Kernel::load(host, cluster)?;
            if kernel.check_room(&host.gpu).is_ok() {
                return Ok(kernel);
            }
        }
        let kernel = Kernel::load(host, configuration)?;
        kernel.check_room(&host.gpu)?;
        Ok(kernel)
    }

    fn load(host: &GpuHost, configuration: Configuration) -> Result<Kernel> {
        let kernels =
            LoadedKernels::load(host, [configuration.source().0], &configuration.options())?;
        Ok(Kernel {
            kernels,
            configuration,
        })
    }

    fn function(&self) -> &Function {
        self.kernels.function(self.configuration.kernel())
    }

    /// The launch of some steps of a batch, and the product of its inputs, which comes first. `at` has the addresses of
    /// the layer's [buffers](Layer::buffers).
    pub fn launch(
        &self,
        steps: u32,
        batch: u32,
        layer: &Layer,
        at: &[u64],
    ) -> (GpuProduct, KernelCall) {
        let [vectors, inputs, hidden, beside, lengths, arrived] = *at else {
            unreachable!("a launch has six buffers")
        };
        let sizes = RnnSizes {
            batch,
            ..self.configuration.sizes()
        };
        let mapping = self.configuration.mapping();
        let arguments = (
            steps,
            batch,
            lengths,
            inputs,
            layer.recurrent.address(),
            hidden,
            beside,
            arrived,
        );
        let call = KernelCall::new(
            self.function(),
            (mapping.columns(&sizes), mapping.rows(&sizes)),
            arguments,
        )
        .with_threads(mapping.threads())
        .with_shared(self.configuration.shared_bytes())
        .with_residency(self.residency());
        (layer.product(vectors, steps * batch, inputs), call)
    }

    fn residency(&self) -> Residency {
        match self.configuration.exchange() {
            Exchange::Memory => Residency::All,
            Exchange::Block => Residency::Free,
            Exchange::Cluster => {
                let sizes = self.configuration.sizes();
                Residency::Clusters(self.configuration.mapping().columns(&sizes))
            }
        }
    }

    /// Checks that all blocks are resident at the same time. Those of one block a row need not be, but a second turn
    /// would double the time.
    fn check_room(&self, gpu: &Gpu) -> Result<()> {
        let Kernel { configuration, .. } = self;
        let sizes = configuration.sizes();
        let mapping = configuration.mapping();
        let shared = configuration.shared_bytes();
        let function = self.function().raw;
        if shared > SHARED {
            let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function's module is loaded.
            unsafe { result::function::set_function_attribute(function, most, shared as i32) }
                .map_err(|_| {
                    Error::failure(format!(
                        "a block of {mapping:?} takes {shared} bytes of shared memory, more than {gpu} has"
                    ))
                })?;
        }
        let room = match self.residency() {
            Residency::Clusters(blocks) => {
                let clusters = call::count_active_clusters(
                    gpu,
                    self.function(),
                    mapping.threads(),
                    shared,
                    blocks,
                );
                clusters.map_err(Error::failure)? * blocks
            }
            Residency::All | Residency::Free => {
                let threads = mapping.threads() as i32;
                let shared = shared as usize;
                let blocks = gpu
                    .call("a persistent kernel can't be asked for its size", || {
                        // SAFETY: the function's module is loaded.
                        unsafe {
                            result::occupancy::max_active_block_per_multiprocessor(
                                function, threads, shared,
                            )
                        }
                    })
                    .map_err(Error::failure)?;
                blocks.max(0) as u32 * gpu.multiprocessors
            }
        };
        if mapping.blocks(&sizes) > room {
            return Err(Error::failure(format!(
                "{} blocks of {mapping:?} for {sizes:?} have to be on {gpu} at once, which has room for {room}",
                mapping.blocks(&sizes),
            )));
        }
        Ok(())
    }
}

/// The number of mappings that are tried for a batch, best first. The performance model may expect more blocks to fit
/// than NVIDIA's driver does.
const TRIED: usize = 5;

/// The kernels of a network on a GPU for each batch. Each has the mapping that was measured to be the fastest, or else
/// the performance model's first.
#[derive(Debug)]
pub struct KernelChoice {
    kernels: BTreeMap<u32, Kernel>,
    launches: KernelLaunches,
    pub(in crate::devices::cuda::gpu) layer: Layer,
    device: DataSheet,
    host: GpuHost,
}

impl KernelChoice {
    /// Copies a network's weights to a GPU, and determines which batches have kernels. `device` describes the GPU to
    /// the performance model; the number of multiprocessors is the GPU's own. The inputs have the format of `upload`.
    ///
    /// Returns `None` if the registers do not hold the weights; traditional kernels run then (GRNN, section 4).
    pub fn new(
        host: GpuHost,
        cell: RecurrentCell,
        device: &DataSheet,
        upload: &Upload<'_>,
    ) -> Result<Option<KernelChoice>> {
        let Upload {
            weights,
            spec,
            precision,
            ..
        } = *upload;
        let device = DataSheet {
            multiprocessors: host.multiprocessors(),
            constants: host.constants(&device.constants),
            ..device.clone()
        };
        let launches = KernelLaunches::new(cell, spec.hidden, &device, &Space::default());
        if launches.largest().is_none() {
            return Ok(None);
        }
        let layer = Layer::new(&host, cell, weights, spec, precision)?;
        Ok(Some(KernelChoice {
            kernels: BTreeMap::new(),
            launches,
            layer,
            device,
            host,
        }))
    }

    /// Compiles the kernels for a batch, or finds them in the cache, and loads them.
    pub fn make_ready(&mut self, batch: u32) -> Result<()> {
        let wanted: Vec<(u32, RankedMapping)> = self.launches.kernels(batch).copied().collect();
        for (runs_as, first) in wanted {
            if !self.kernels.contains_key(&runs_as) {
                let kernel = self.kernel(runs_as, first.rnn, first.mapping)?;
                self.kernels.insert(runs_as, kernel);
            }
        }
        Ok(())
    }

    /// The kernel for a batch. `first` is the first mapping in the performance model's ranking. A mapping whose clusters
    /// do not fit at once is not what was ranked, and gives way to the next one.
    fn kernel(&self, batch: u32, rnn: Rnn, first: Mapping) -> Result<Kernel> {
        let hidden = self.layer.hidden;
        let make = |rnn, mapping| {
            Kernel::new(
                &self.host,
                Configuration::new(RnnSizes { rnn, hidden, batch }, mapping)?,
            )
        };
        if let Some(Tuned { rnn, mapping, .. }) =
            Tuned::recall(&self.host, self.layer.cell, hidden, batch)
            && let Ok(kernel) = make(rnn, mapping)
        {
            return Ok(kernel);
        }
        let is_as_ranked = |kernel: &Kernel| {
            let sizes = kernel.configuration.sizes();
            let clusters = self.device.constants.cluster_blocks();
            let ranked = kernel.configuration.mapping().exchange(&sizes, clusters);
            kernel.configuration.exchange() == ranked
        };
        let kernel = make(rnn, first);
        if kernel.as_ref().is_ok_and(is_as_ranked) {
            return kernel;
        }
        let others = rank(
            self.layer.cell,
            hidden,
            batch,
            &self.device,
            &Space::default(),
        );
        let mut others = others.into_iter().take(TRIED).skip(1);
        let next = others.find_map(|other| {
            let kernel = make(other.rnn, other.mapping).ok();
            kernel.filter(is_as_ranked)
        });
        match next {
            Some(next) => Ok(next),
            None => kernel.map_err(|refused| {
                Error::failure(format!(
                    "none of the first {TRIED} mappings for a batch of {batch} can be run: {refused}"
                ))
            }),
        }
    }

    /// The launches of a batch that [is ready](KernelChoice::make_ready): the number of sequences in each, and its
    /// kernel, whose batch may be larger.
    pub(in crate::devices::cuda::gpu) fn launches(
        &self,
        batch: u32,
    ) -> impl Iterator<Item = (u32, &Kernel)> {
        let sizes = self.launches.sizes(batch);
        sizes
            .zip(self.launches.kernels(batch))
            .map(|(size, (runs_as, _))| (size, &self.kernels[runs_as]))
    }

    /// The sequences in each launch of a batch, padding included.
    pub(in crate::devices::cuda::gpu) fn runs_as(&self, batch: u32) -> usize {
        self.launches
            .kernels(batch)
            .map(|(runs_as, _)| *runs_as as usize)
            .max()
            .unwrap_or(0)
    }

    /// The most numbers that a launch needs in addition to the states of h.
    pub(in crate::devices::cuda::gpu) fn extra_numbers(&self) -> usize {
        let configurations = self.kernels.values().map(|kernel| kernel.configuration);
        configurations
            .map(|configuration| configuration.extra_numbers(configuration.sizes().batch))
            .max()
            .unwrap_or(0)
    }
}
