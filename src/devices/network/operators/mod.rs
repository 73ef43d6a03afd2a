//! Listed networks, whose operators a file lists (`docs/NETWORKS.md`). The file defines the sizes of matrices, not
//! their values: an operator reads the query's activation cyclically until its matrices are full, and its result is the
//! next activation. The first operator reads numbers drawn from the seed and the request.

mod activations;
mod compute;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::activations::Activations;
pub use self::compute::{reads, slope, writes};
use super::product::{Block, PackedWeights};
use super::weights::Weights;
use super::{Scratch, Spec};
use crate::base::error::{Error, Result};
use crate::base::memory::{binary_size, require};
use crate::base::units::{CellId, RequestId};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::dnn::{Dnn, FormKind, ListedOperator, QueryWork, SizeByTokens};
use crate::core::workload::random::split_mix;

/// The operators of a listed network, with their weights.
#[derive(Debug)]
pub struct Operators {
    network: Arc<Dnn>,
    seed: u64,
    /// The weights of each group, for each cell type.
    weights: Vec<Vec<PackedWeights>>,
}

/// An operator's results on two devices, from the same activation.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    pub work: &'a QueryWork,
    /// The activation that the operator read.
    pub read: &'a [f32],
    /// The other device's result.
    pub found: &'a [f32],
    /// The CPU's result.
    pub expected: &'a [f32],
}

/// The name and the shape of an operator's weights: a row for each output, group after group. `None` if it has no
/// weights.
pub fn tensor(operator: &ListedOperator) -> Option<(String, [usize; 2])> {
    let work = operator.form.work(0);
    if work.kind != FormKind::Matmul {
        return None;
    }
    let shape = [(work.count * work.columns) as usize, work.inner as usize];
    Some((format!("{}.weight", operator.name), shape))
}

/// Refuses weights that would have another size for each request.
pub fn check(network: &Dnn) -> Result<()> {
    for operator in network
        .distinct()
        .iter()
        .filter(|operator| operator.form.kind == FormKind::Matmul)
    {
        let form = &operator.form;
        for (column, size) in [
            ("count", &form.count),
            ("inner", &form.inner),
            ("columns", &form.columns),
        ] {
            if !SizeByTokens::is_constant(size) {
                return Err(Error::input(format!(
                    "model: dnn:{}: {column} of the matmul \"{}\" depends on tokens, and with it the size of its weights; to \
                     compute it, make it a batched-matmul, which has none, or run it with batchlab sim",
                    network.given, operator.name
                )));
            }
        }
    }
    Ok(())
}

impl Operators {
    pub(super) fn new(network: &Arc<Dnn>, spec: &Spec, weights: &Weights) -> Operators {
        let weights = network
            .distinct()
            .iter()
            .map(|operator| pack_groups(operator, weights))
            .collect();
        Operators {
            network: Arc::clone(network),
            seed: spec.seed,
            weights,
        }
    }

    /// The list of the operators.
    pub fn network(&self) -> &Dnn {
        &self.network
    }

    /// The tokens of a request, or 0 if it has none.
    pub fn tokens(graph: &CellGraph) -> u32 {
        match graph {
            CellGraph::Chains(runs) => runs.iter().map(|run| run.input).max().unwrap_or(0),
            CellGraph::Graph(_) => 0,
        }
    }

    /// Appends the first operator's input, drawn uniformly from -1 to 1.
    pub fn draw(&self, request: RequestId, tokens: u32, numbers: &mut Vec<f32>) {
        let Some(first) = self.network.operators().next() else {
            return;
        };
        let stream = split_mix(self.seed ^ split_mix(request.0));
        for place in 0..compute::reads(&first.form.work(tokens)) {
            let word = split_mix(stream.wrapping_add(place));
            // 24 bits fit a float32 without rounding, so the number is the same on every machine.
            numbers.push((word >> 40) as f32 * (1.0 / (1 << 23) as f32) - 1.0);
        }
    }

    /// Runs an operator on a batch, padded to `padded_to` tokens or to the longest query.
    pub fn run(
        &self,
        cell: CellId,
        padded_to: u32,
        from: &Activations,
        into: &mut Activations,
        scratch: &mut Scratch,
    ) {
        let form = &self.network.distinct()[cell.index()].form;
        // A batch of nothing but padding has one token.
        let padded = form.work(from.longest().max(padded_to).max(1));
        match form.kind {
            FormKind::Matmul => compute::matmul(
                form,
                &padded,
                &self.weights[cell.index()],
                from,
                into,
                scratch,
            ),
            FormKind::BatchedMatmul => compute::batched_matmul(form, &padded, from, into, scratch),
            FormKind::Memory => compute::memory(form, &padded, from, into, scratch),
        }
    }

    /// The length of the activation after each operator.
    pub fn lengths(&self, graph: &CellGraph) -> impl Iterator<Item = u64> + use<'_> {
        let tokens = Operators::tokens(graph);
        self.network
            .operators()
            .map(move |operator| writes(&operator.form.work(tokens)))
    }

    /// Runs each operator on another device's activation before it (`found`, in the order of the operators), and passes
    /// both results to `judge`.
    pub fn follow(
        &self,
        request: RequestId,
        graph: &CellGraph,
        found: &[f32],
        mut judge: impl FnMut(&Passed<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let total: u64 = self.lengths(graph).sum();
        if total != found.len() as u64 {
            return Err(format!(
                "{} numbers after its operators, not {total}",
                found.len()
            ));
        }
        let tokens = Operators::tokens(graph);
        let mut rest = found;
        let mut from = Activations::default();
        let mut into = Activations::default();
        let mut scratch = Scratch::default();
        from.push(tokens, |numbers| self.draw(request, tokens, numbers));
        for (operator, length) in self.network.operators().zip(self.lengths(graph)) {
            self.run(operator.cell, 0, &from, &mut into, &mut scratch);
            let (found, after) = rest.split_at(length as usize);
            let work = operator.form.work(tokens);
            let passed = Passed {
                work: &work,
                read: from.values(0),
                found,
                expected: into.values(0),
            };
            judge(&passed)
                .map_err(|wrong| format!("after operator \"{}\", {wrong}", operator.name))?;
            from.clear();
            from.push(tokens, |numbers| numbers.extend_from_slice(found));
            rest = after;
        }
        Ok(())
    }

    /// The last activation of a request that runs alone.
    pub(super) fn alone(&self, request: RequestId, graph: &CellGraph) -> Vec<f32> {
        let tokens = Operators::tokens(graph);
        let mut from = Activations::default();
        let mut into = Activations::default();
        let mut scratch = Scratch::default();
        from.push(tokens, |numbers| self.draw(request, tokens, numbers));
        for operator in self.network.operators() {
            self.run(operator.cell, 0, &from, &mut into, &mut scratch);
            std::mem::swap(&mut from, &mut into);
        }
        from.values(0).to_vec()
    }
}

/// The weights of each group of an operator, packed.
fn pack_groups(operator: &ListedOperator, weights: &Weights) -> Vec<PackedWeights> {
    let Some((name, [outputs, inputs])) = tensor(operator) else {
        return Vec::new();
    };
    let groups = operator.form.work(0).count as usize;
    let outputs = outputs / groups;
    weights
        .take(&name)
        .chunks_exact(outputs * inputs)
        .map(|weights| PackedWeights::pack(1, outputs, &[Block { weights, inputs }]))
        .collect()
}

const FLOAT: u128 = size_of::<f32>() as u128;

/// Checks that a network's weights and a query fit the free memory, where the system reports it.
pub fn fits(network: &Dnn) -> Result<()> {
    let [weights, query] = needs(network);
    let what = format!(
        "model: dnn:{}, with {} for its weights and {} for a query,",
        network.given,
        binary_size(weights),
        binary_size(query)
    );
    require(
        weights + query,
        what,
        "take a smaller network, or run it with batchlab sim",
    )
}

/// The bytes of the weights while the largest are packed, and the bytes of a query.
fn needs(network: &Dnn) -> [u128; 2] {
    let mut weights = 0;
    let mut largest = 0;
    let mut query = 0;
    for operator in network.distinct() {
        let bytes = operator.form.work(0).weights() * FLOAT;
        weights += bytes;
        largest = largest.max(bytes);
        let work = operator.form.work(network.most_tokens.unwrap_or(0));
        let matrices = u128::from(reads(&work)) / u128::from(work.count.max(1));
        let numbers = u128::from(reads(&work)) + u128::from(writes(&work)) + matrices;
        query = query.max(numbers * FLOAT);
    }
    // While the largest weights are packed, they are in memory twice.
    [weights + largest, query]
}
