//! A network that a file lists, computed (`docs/NETWORKS.md`).
//!
//! The file says how large each operator's matrices are, not where their numbers come from. So there is one rule for all of them: a
//! query's activation is a row of numbers; an operator reads as many as its matrices have, from the beginning, and from the
//! beginning again where the activation ends; what it writes is the activation for the next. The first reads numbers that are
//! drawn from the seed and the request.

mod activations;
mod compute;
mod memory;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::activations::Activations;
pub use self::compute::{reads, slope, writes};
pub use self::memory::fits;
use super::product::{Block, Product};
use super::tokens::mix;
use super::weights::Weights;
use super::{Scratch, Spec};
use crate::error::{Error, Result};
use crate::units::{CellId, RequestId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::dnn::{Dnn, Kind, Operator, Size, Work};

/// The operators of a network with their weights.
#[derive(Debug)]
pub struct Operators {
    network: Arc<Dnn>,
    seed: u64,
    /// By cell type: the weights of each group, for operators that have weights.
    weights: Vec<Vec<Product>>,
}

/// An operator that someone else has computed, and what it comes to here.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    /// What it computes of the query.
    pub work: &'a Work,
    /// The activation in front of it.
    pub read: &'a [f32],
    /// What was found behind it.
    pub found: &'a [f32],
    /// What it comes to.
    pub expected: &'a [f32],
}

/// The name and the shape of an operator's weights: a row for each output, group after group.
pub fn tensor(operator: &Operator) -> Option<(String, [usize; 2])> {
    let work = operator.form.at(0);
    let shape = [(work.count * work.columns) as usize, work.inner as usize];
    (work.kind == Kind::Matmul).then(|| (format!("{}.weight", operator.name), shape))
}

/// Whether a network can be computed at all.
///
/// # Errors
/// Begins with `model`. An operator whose weights would be of another size for each request.
pub fn check(network: &Dnn) -> Result<()> {
    for operator in network.distinct().iter().filter(|operator| operator.form.kind == Kind::Matmul) {
        let form = &operator.form;
        for (column, size) in [("count", &form.count), ("inner", &form.inner), ("columns", &form.columns)] {
            if !Size::is_constant(size) {
                return Err(Error::input(format!(
                    "model: dnn:{}: {column} of the matmul \"{}\" depends on tokens, and with it the size of its weights; to \
                     compute it, make it a batched-matmul, which has none, or run it with batchlab sim",
                    network.given(),
                    operator.name
                )));
            }
        }
    }
    Ok(())
}

impl Operators {
    /// The operators of a network that was [checked](check).
    pub(super) fn new(network: &Arc<Dnn>, spec: &Spec, weights: &Weights) -> Operators {
        let packed = |operator: &Operator| {
            let Some((name, [outputs, inputs])) = tensor(operator) else { return Vec::new() };
            let taken = weights.take(&name);
            let groups = operator.form.at(0).count as usize;
            let of_group = taken.chunks_exact(outputs / groups * inputs);
            of_group.map(|weights| Product::pack(1, outputs / groups, &[Block { weights, inputs }])).collect()
        };
        let weights = network.distinct().iter().map(packed).collect();
        Operators { network: Arc::clone(network), seed: spec.seed, weights }
    }

    /// The network.
    pub fn network(&self) -> &Dnn {
        &self.network
    }

    /// The tokens of a request, 0 if it has none.
    pub fn tokens(graph: &CellGraph) -> u32 {
        match graph {
            CellGraph::Chains(runs) => runs.iter().map(|run| run.input).max().unwrap_or(0),
            CellGraph::Graph(_) => 0,
        }
    }

    /// Appends the numbers that the first operator reads of a request, drawn evenly between -1 and 1.
    pub fn draw(&self, request: RequestId, tokens: u32, numbers: &mut Vec<f32>) {
        let Some(first) = self.network.operators().next() else { return };
        let stream = mix(self.seed ^ mix(u64::from(request.0)));
        // 24 bits fill a float32 without rounding, so that the bits are the same everywhere.
        let unit = |word: u64| (word >> 40) as f32 * (1.0 / (1 << 23) as f32) - 1.0;
        let count = compute::reads(&first.form.at(tokens));
        numbers.extend((0..count).map(|place| unit(mix(stream.wrapping_add(place)))));
    }

    /// Runs an operator on a batch, all of whose queries are padded to so many tokens, or to those of the longest.
    pub fn run(&self, cell: CellId, padded_to: u32, from: &Activations, into: &mut Activations, scratch: &mut Scratch) {
        let form = &self.network.distinct()[cell.index()].form;
        // A batch of padding alone has at least one token, so that there is something to compute.
        let padded = form.at(from.longest().max(padded_to).max(1));
        match form.kind {
            Kind::Matmul => compute::matmul(form, &padded, &self.weights[cell.index()], from, into, scratch),
            Kind::BatchedMatmul => compute::batched_matmul(form, &padded, from, into, scratch),
            Kind::Memory => compute::memory(form, &padded, from, into, scratch),
        }
    }

    /// How many numbers a request's activation has behind each operator, in their order.
    pub fn lengths(&self, graph: &CellGraph) -> impl Iterator<Item = u64> + use<'_> {
        let tokens = Operators::tokens(graph);
        self.network.operators().map(move |operator| writes(&operator.form.at(tokens)))
    }

    /// Goes the way of someone else's activations, `found`, which stand behind each other: each operator by itself on what they are in
    /// front of it. `judge` is told what went into it, what was found and what it comes to here.
    ///
    /// # Errors
    /// The first that `judge` gives, with the operator's name; activations of other lengths.
    pub fn follow(
        &self,
        request: RequestId,
        graph: &CellGraph,
        found: &[f32],
        mut judge: impl FnMut(&Passed<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let total: u64 = self.lengths(graph).sum();
        if total != found.len() as u64 {
            return Err(format!("{} numbers behind its operators, not {total}", found.len()));
        }
        let (tokens, mut rest) = (Operators::tokens(graph), found);
        let (mut from, mut into, mut scratch) = (Activations::default(), Activations::default(), Scratch::default());
        from.push(tokens, |numbers| self.draw(request, tokens, numbers));
        for (operator, length) in self.network.operators().zip(self.lengths(graph)) {
            self.run(operator.cell, 0, &from, &mut into, &mut scratch);
            let (found, behind) = rest.split_at(length as usize);
            let work = operator.form.at(tokens);
            let passed = Passed { work: &work, read: from.of(0), found, expected: into.of(0) };
            judge(&passed).map_err(|wrong| format!("behind operator \"{}\", {wrong}", operator.name))?;
            from.clear();
            from.push(tokens, |numbers| numbers.extend_from_slice(found));
            rest = behind;
        }
        Ok(())
    }

    /// What a request comes to that runs alone.
    pub(super) fn alone(&self, request: RequestId, graph: &CellGraph) -> Vec<f32> {
        let tokens = Operators::tokens(graph);
        let (mut from, mut into, mut scratch) = (Activations::default(), Activations::default(), Scratch::default());
        from.push(tokens, |numbers| self.draw(request, tokens, numbers));
        for operator in self.network.operators() {
            self.run(operator.cell, 0, &from, &mut into, &mut scratch);
            std::mem::swap(&mut from, &mut into);
        }
        from.of(0).to_vec()
    }
}
