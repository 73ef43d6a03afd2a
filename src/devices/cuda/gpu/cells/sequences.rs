//! Chains of an LSTM or GRU in persistent kernels: many steps of a batch in one launch (GRNN, sections 5 and 6).
//!
//! A launch has four parts: the gather of states and words, one product for all steps, the persistent kernel, and the
//! scatter of the states. A batch larger than that of any kernel becomes several launches in sequence, in the same
//! memory.

use std::sync::Arc;

use super::{
    Argument, BatchShape, BufferSize, DeviceFault, GpuCell, GpuMemory, PlannedWork, Upload,
    WorkSetup,
};
use crate::base::error::{Error, Result};
use crate::core::cost::grnn::{self, DataSheet};
use crate::core::workload::model::Model;
use crate::devices::cuda::gpu::grnn::{
    BESIDE, GpuHost, HIDDEN, INPUTS, KernelChoice, LENGTHS, VECTORS,
};

/// The most numbers in the inputs of a launch, unless a single step has more: 256 MiB.
const MOST_NUMBERS: usize = 1 << 26;

/// The sequences of a chain's cell in persistent kernels.
#[derive(Debug)]
pub(in super::super) struct Sequences {
    chosen: KernelChoice,
    embedding: Arc<GpuMemory>,
}

impl Sequences {
    /// Copies a model's weights to a GPU. `device` describes the GPU to GRNN's performance model. Returns `None` if its
    /// registers do not hold the weights.
    pub fn new(
        host: GpuHost,
        model: &Model,
        device: &DataSheet,
        upload: &mut Upload<'_>,
    ) -> Result<Option<Sequences>> {
        let cell = grnn::RecurrentCell::from_model(model)?;
        let embedding = upload.table("embedding.weight").map_err(Error::failure)?;
        Ok(KernelChoice::new(host, cell, device, upload)?
            .map(|chosen| Sequences { chosen, embedding }))
    }

    /// The largest number of steps in a launch of `rows` chains.
    pub fn most_steps(&self, rows: u32) -> u32 {
        let numbers = self.chosen.layer.buffers(1, self.chosen.runs_as(rows), 0)[INPUTS];
        (MOST_NUMBERS / numbers.max(1)).max(1) as u32
    }

    /// Compiles and loads the kernels for a batch.
    pub fn make_ready(&mut self, rows: u32) -> Result<(), DeviceFault> {
        self.chosen
            .make_ready(rows)
            .map_err(|error: Error| DeviceFault::survivable(error.to_string()))
    }

    /// The address of the c of a launch's sequences; 0 for a GRU.
    fn cells(&self, at: &WorkSetup<'_>) -> u64 {
        if self.chosen.layer.has_c() {
            at.buffers[BESIDE]
        } else {
            0
        }
    }

    /// Gathers the states and the words of some rows as `size` sequences.
    fn take(&self, at: &WorkSetup<'_>, some: impl Argument, size: u32) -> PlannedWork {
        let width = at.spec.embedding;
        let input_width = self.chosen.layer.row();
        let vectors = (
            at.words(&self.embedding),
            width,
            at.buffers[VECTORS],
            input_width,
        );
        let states = (
            at.buffers[HIDDEN],
            self.cells(at),
            at.spec.hidden,
            at.buffers[LENGTHS],
        );
        let arguments = (some, size, at.shape.steps, at.pool(), vectors, states);
        at.call_rows(
            "take_sequences",
            input_width.max(at.spec.hidden),
            size * at.shape.steps,
            arguments,
        )
    }

    /// Scatters the final states of `count` rows into their slots.
    fn give(&self, at: &WorkSetup<'_>, some: impl Argument, count: u32, size: u32) -> PlannedWork {
        let last =
            u64::from(at.shape.steps) * u64::from(size * at.spec.hidden) * size_of::<f32>() as u64;
        let states = (at.buffers[HIDDEN] + last, self.cells(at), at.spec.hidden);
        let arguments = (some, at.pool(), at.states.non_finite, states);
        at.call_rows("give_sequences", at.spec.hidden, count, arguments)
    }
}

impl GpuCell for Sequences {
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        // Launches run in sequence, so the largest determines the memory.
        let largest = self.chosen.runs_as(shape.rows);
        let numbers =
            self.chosen
                .layer
                .buffers(shape.steps as usize, largest, self.chosen.extra_numbers());
        let mut buffers = numbers.map(BufferSize::Floats);
        buffers[VECTORS] = BufferSize::Elements(numbers[VECTORS]);
        buffers.into()
    }

    fn is_captured(&self) -> bool {
        false
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        let mut from = 0;
        let mut work = Vec::new();
        for (count, kernel) in self.chosen.launches(at.shape.rows) {
            let some = (at.table.rows, from, count);
            let size = kernel.configuration.sizes().batch;
            let (product, call) =
                kernel.launch(at.shape.steps, size, &self.chosen.layer, &at.buffers);
            let take = self.take(at, some, size);
            let give = self.give(at, some, count, size);
            work.extend([
                take,
                PlannedWork::Product(product),
                PlannedWork::Kernel(call),
                give,
            ]);
            from += count;
        }
        work
    }
}
