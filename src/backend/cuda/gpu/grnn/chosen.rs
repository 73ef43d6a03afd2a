//! The kernels that a network's batches run in.

use std::collections::BTreeMap;

use super::kernel::{At, Kernel};
use super::tune::Tuned;
use super::{Configuration, Host, Layer};
use crate::backend::cuda::gpu::call::Call;
use crate::backend::cuda::gpu::cublas::Product;
use crate::cost::grnn::{Cell, Device, Launches, Mapping, Ranked, Rnn, Sizes, Space, rank};
use crate::error::{Error, Result};
use crate::gpu_settings::Precision;
use crate::network::Spec;
use crate::network::weights::Weights;

/// How many mappings are tried for a batch, from the best on, before it is given up: the model may count more blocks as fitting than the
/// driver does.
const TRIED: usize = 5;

/// The kernels of a network on a GPU, by the batches that they were chosen for: of each the mapping that was measured to be the fastest there,
/// or else the model's first.
#[derive(Debug)]
pub struct Chosen {
    kernels: BTreeMap<u32, Kernel>,
    launches: Launches,
    layer: Layer,
    device: Device,
    host: Host,
    cell: Cell,
}

impl Chosen {
    /// Takes a network's weights to a GPU, and finds out which batches have kernels. `device` is what the model knows of the GPU, whose
    /// number of multiprocessors is asked. The inputs are in this format.
    ///
    /// # Errors
    /// Weights that the registers don't hold; memory that is not there.
    pub fn new(
        host: Host,
        cell: Cell,
        weights: &Weights,
        spec: &Spec,
        device: &Device,
        precision: Precision,
    ) -> Result<Chosen> {
        let device = Device { multiprocessors: host.multiprocessors(), ..device.clone() };
        let launches = Launches::new(cell, spec.hidden, &device, &Space::default());
        launches.check(cell, spec.hidden, host.name())?;
        let layer = Layer::with_inputs_in(&host, cell, weights, spec, precision)?;
        Ok(Chosen { kernels: BTreeMap::new(), launches, layer, device, host, cell })
    }

    /// Compiles the kernels that a batch of so many sequences runs in, or finds them in the cache, and loads them.
    ///
    /// # Errors
    /// A kernel that the compiler refuses; a batch of which the GPU runs none of the first mappings.
    pub fn make_ready(&mut self, batch: u32) -> Result<()> {
        let wanted: Vec<(u32, Ranked)> = self.launches.of(batch).copied().collect();
        for (runs_as, first) in wanted {
            if !self.kernels.contains_key(&runs_as) {
                let kernel = self.kernel(runs_as, first.rnn, first.mapping)?;
                self.kernels.insert(runs_as, kernel);
            }
        }
        Ok(())
    }

    /// The kernel for a batch whose first mapping this is.
    fn kernel(&self, batch: u32, rnn: Rnn, first: Mapping) -> Result<Kernel> {
        let hidden = self.layer.hidden;
        let make = |rnn, mapping| Kernel::new(&self.host, Configuration::new(Sizes { rnn, hidden, batch }, mapping)?);
        if let Some(Tuned { rnn, mapping, .. }) = Tuned::recall(&self.host, self.cell, hidden, batch)
            && let Ok(kernel) = make(rnn, mapping)
        {
            return Ok(kernel);
        }
        make(rnn, first).or_else(|refused| {
            let others = rank(self.cell, hidden, batch, &self.device, &Space::default());
            let mut others = others.into_iter().take(TRIED).skip(1);
            others.find_map(|other| make(other.rnn, other.mapping).ok()).ok_or_else(|| {
                Error::failed(format!(
                    "none of the first {TRIED} mappings for a batch of {batch} can be run: {refused}"
                ))
            })
        })
    }

    /// The launches of a batch that [was made ready](Chosen::make_ready): how many of its sequences are in each, and its kernel, whose batch may be
    /// larger.
    pub(in crate::backend::cuda::gpu) fn launches(&self, batch: u32) -> impl Iterator<Item = (u32, &Kernel)> {
        let sizes = self.launches.sizes(batch);
        sizes.zip(self.launches.of(batch)).map(|(size, (runs_as, _))| (size, &self.kernels[runs_as]))
    }

    /// The sequences in each launch of a batch, those of padding included.
    pub(in crate::backend::cuda::gpu) fn runs_as(&self, batch: u32) -> u64 {
        self.launches.of(batch).map(|(runs_as, _)| u64::from(*runs_as)).max().unwrap_or(0)
    }

    /// What is multiplied with the inputs, and how wide they are.
    pub(in crate::backend::cuda::gpu) fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The most numbers that a launch needs beside the states of h.
    pub(in crate::backend::cuda::gpu) fn beside(&self) -> usize {
        let most = |kernel: &Kernel| {
            let Sizes { rnn, hidden, batch } = kernel.configuration().sizes();
            let exchanged = kernel.configuration().exchanged(batch);
            if rnn == Rnn::Lstm { batch as usize * hidden as usize } else { exchanged }
        };
        self.kernels.values().map(most).max().unwrap_or(0)
    }

    /// The launch of a kernel's own batch, padding included, over so many steps, and the product in front of it that its inputs are.
    pub(in crate::backend::cuda::gpu) fn launch(
        &self,
        kernel: &Kernel,
        steps: u32,
        vectors: u64,
        at: At,
    ) -> (Product, Call) {
        let batch = kernel.configuration().sizes().batch;
        (self.layer.product(vectors, steps * batch, at.inputs), kernel.call(steps, batch, &self.layer, at))
    }
}
