//! Chains of an LSTM or GRU in persistent kernels: many steps of a batch in one launch (GRNN, sections 5 and 6).
//!
//! A launch has four parts: the gather of states and words, one product for all steps, the persistent kernel, and the
//! scatter of the states. A batch larger than that of any kernel becomes several launches in sequence, in the same
//! memory.

use std::sync::Arc;

use super::{Argument, Buffer, Call, Cell, Fault, Kernel, Memory, Setup, Shape, Upload, Work};
use crate::backend::cuda::gpu::failed;
use crate::backend::cuda::gpu::grnn::{At, Chosen, Host};
use crate::cost::grnn::{self, Device};
use crate::error::{Error, Result};
use crate::workload::model::Model;

/// The most numbers in the inputs of a launch, unless a single step has more: 256 MiB.
const MOST_NUMBERS: u64 = 1 << 26;

/// The indices of the buffers.
const VECTORS: usize = 0;
const INPUTS: usize = 1;
const HIDDEN: usize = 2;
const BESIDE: usize = 3;
const LENGTHS: usize = 4;
const ARRIVED: usize = 5;

#[derive(Debug)]
pub(in super::super) struct Sequences {
    chosen: Chosen,
    embedding: Arc<Memory>,
    hidden: u32,
    /// The state has a c after its h.
    has_c: bool,
}

impl Sequences {
    /// Copies a model's weights to a GPU. `device` describes the GPU to GRNN's performance model.
    pub fn new(host: Host, model: &Model, device: &Device, upload: &mut Upload<'_>) -> Result<Sequences> {
        let cell = grnn::Cell::of(model)?;
        let embedding = upload.table("embedding.weight").map_err(failed)?;
        let chosen = Chosen::new(host, cell, upload.weights, upload.spec, device, upload.precision)?;
        Ok(Sequences { chosen, embedding, hidden: upload.spec.hidden, has_c: cell == grnn::Cell::Lstm })
    }

    pub fn most_steps(&self, rows: u32) -> u32 {
        let of_step = self.chosen.runs_as(rows) * u64::from(self.chosen.layer().gates() * self.hidden);
        (MOST_NUMBERS / of_step.max(1)).clamp(1, u32::MAX.into()) as u32
    }

    /// Compiles and loads the kernels for a batch.
    pub fn make_ready(&mut self, rows: u32) -> Result<(), Fault> {
        self.chosen.make_ready(rows).map_err(|error: Error| Fault { reason: error.to_string(), lost: false })
    }

    /// The c of a launch's sequences; 0 for a GRU.
    fn cells(&self, at: &Setup<'_>) -> u64 {
        if self.has_c { at.buffers[BESIDE] } else { 0 }
    }

    /// Gathers the states and the words of some rows as `size` sequences.
    fn take(&self, at: &Setup<'_>, some: impl Argument, size: u32) -> Call {
        let (width, input_width) = (at.spec.embedding, self.chosen.layer().row());
        let vectors = (at.words(&self.embedding), width, at.buffers[VECTORS], input_width);
        let states = (at.buffers[HIDDEN], self.cells(at), self.hidden, at.buffers[LENGTHS]);
        let arguments = (some, size, at.steps, at.pool(), vectors, states);
        at.call_rows(Kernel::TakeSequences, input_width.max(self.hidden), size * at.steps, arguments)
    }

    /// Scatters the final states of `count` rows into their slots.
    fn give(&self, at: &Setup<'_>, some: impl Argument, count: u32, size: u32) -> Call {
        let last = u64::from(at.steps) * u64::from(size * self.hidden) * size_of::<f32>() as u64;
        let states = (at.buffers[HIDDEN] + last, self.cells(at), self.hidden);
        let arguments = (some, at.pool(), at.states.non_finite, states);
        at.call_rows(Kernel::GiveSequences, self.hidden, count, arguments)
    }
}

impl Cell for Sequences {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let (steps, hidden) = (of.steps as usize, self.hidden as usize);
        // Launches run in sequence, so the largest determines the memory.
        let largest = self.chosen.runs_as(of.rows) as usize;
        let layer = self.chosen.layer();
        vec![
            Buffer::Elements(steps * largest * layer.row() as usize),
            Buffer::Floats(steps * largest * layer.gates() as usize * hidden),
            Buffer::Floats((steps + 1) * largest * hidden),
            Buffer::Floats(self.chosen.beside()),
            Buffer::Floats(largest),
            Buffer::Floats(largest),
        ]
    }

    fn is_captured(&self) -> bool {
        false
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        at.gathering(Kernel::GatherQueries, 1, at.table.age)
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        let places = At {
            lengths: at.buffers[LENGTHS],
            inputs: at.buffers[INPUTS],
            hidden: at.buffers[HIDDEN],
            beside: at.buffers[BESIDE],
            arrived: at.buffers[ARRIVED],
        };
        let mut from = 0;
        let mut work = Vec::new();
        for (count, kernel) in self.chosen.launches(at.rows) {
            let (some, size) = ((at.table.rows, from, count), kernel.configuration().sizes().batch);
            let (product, call) = self.chosen.launch(kernel, at.steps, at.buffers[VECTORS], places);
            work.push(Work::Kernel(self.take(at, some, size)));
            work.push(Work::Product(product));
            work.push(Work::Kernel(call));
            work.push(Work::Kernel(self.give(at, some, count, size)));
            from += count;
        }
        work
    }
}
