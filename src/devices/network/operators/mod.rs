//! Listed networks, whose operators a file lists (`docs/NETWORKS.md`). The file defines the sizes of matrices, not
//! their values: an operator reads the query's activation cyclically until its matrices are full, and its result is the
//! next activation. The first reads numbers drawn from the seed and the request.

mod activations;
mod compute;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::activations::Activations;
pub use self::compute::{reads, slope, writes};
use super::product::{Block, Product};
use super::weights::Weights;
use super::{Scratch, Spec};
use crate::base::error::{Error, Result};
use crate::base::memory::{gibibytes, require};
use crate::base::units::{CellId, RequestId};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::dnn::{Dnn, FormKind, ListedOperator, QueryWork, SizeByTokens};
use crate::core::workload::random::split_mix;

#[derive(Debug)]
pub struct Operators {
    network: Arc<Dnn>,
    seed: u64,
    /// For each cell type, the weights of each group.
    weights: Vec<Vec<Product>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    pub work: &'a QueryWork,
    pub read: &'a [f32],
    pub found: &'a [f32],
    pub expected: &'a [f32],
}

/// A row for each output, group after group.
pub fn tensor(operator: &ListedOperator) -> Option<(String, [usize; 2])> {
    let work = operator.form.at(0);
    let shape = [(work.count * work.columns) as usize, work.inner as usize];
    (work.kind == FormKind::Matmul).then(|| (format!("{}.weight", operator.name), shape))
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
        let packed = |operator: &ListedOperator| {
            let Some((name, [outputs, inputs])) = tensor(operator) else {
                return Vec::new();
            };
            let taken = weights.take(&name);
            let groups = operator.form.at(0).count as usize;
            let of_group = taken.chunks_exact(outputs / groups * inputs);
            of_group
                .map(|weights| Product::pack(1, outputs / groups, &[Block { weights, inputs }]))
                .collect()
        };
        let weights = network.distinct().iter().map(packed).collect();
        Operators {
            network: Arc::clone(network),
            seed: spec.seed,
            weights,
        }
    }

    pub fn network(&self) -> &Dnn {
        &self.network
    }

    /// 0 for a request without tokens.
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
        // 24 bits fit a float32 without rounding, the same on every machine.
        let unit = |word: u64| (word >> 40) as f32 * (1.0 / (1 << 23) as f32) - 1.0;
        let count = compute::reads(&first.form.at(tokens));
        numbers.extend((0..count).map(|place| unit(split_mix(stream.wrapping_add(place)))));
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
        // Even a batch of padding only needs one token.
        let padded = form.at(from.longest().max(padded_to).max(1));
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

    pub fn lengths(&self, graph: &CellGraph) -> impl Iterator<Item = u64> + use<'_> {
        let tokens = Operators::tokens(graph);
        self.network
            .operators()
            .map(move |operator| writes(&operator.form.at(tokens)))
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
        let (tokens, mut rest) = (Operators::tokens(graph), found);
        let (mut from, mut into, mut scratch) = (
            Activations::default(),
            Activations::default(),
            Scratch::default(),
        );
        from.push(tokens, |numbers| self.draw(request, tokens, numbers));
        for (operator, length) in self.network.operators().zip(self.lengths(graph)) {
            self.run(operator.cell, 0, &from, &mut into, &mut scratch);
            let (found, after) = rest.split_at(length as usize);
            let work = operator.form.at(tokens);
            let passed = Passed {
                work: &work,
                read: from.of(0),
                found,
                expected: into.of(0),
            };
            judge(&passed)
                .map_err(|wrong| format!("after operator \"{}\", {wrong}", operator.name))?;
            from.clear();
            from.push(tokens, |numbers| numbers.extend_from_slice(found));
            rest = after;
        }
        Ok(())
    }

    pub(super) fn alone(&self, request: RequestId, graph: &CellGraph) -> Vec<f32> {
        let tokens = Operators::tokens(graph);
        let (mut from, mut into, mut scratch) = (
            Activations::default(),
            Activations::default(),
            Scratch::default(),
        );
        from.push(tokens, |numbers| self.draw(request, tokens, numbers));
        for operator in self.network.operators() {
            self.run(operator.cell, 0, &from, &mut into, &mut scratch);
            std::mem::swap(&mut from, &mut into);
        }
        from.of(0).to_vec()
    }
}

const FLOAT: u128 = size_of::<f32>() as u128;

/// Checks the free memory, where the system reports it.
pub fn fits(network: &Dnn) -> Result<()> {
    let [weights, query] = needs(network);
    let what = format!(
        "model: dnn:{}, with {} for its weights and {} for a query,",
        network.given,
        gibibytes(weights),
        gibibytes(query)
    );
    require(
        weights + query,
        what,
        "take a smaller network, or run it with batchlab sim",
    )
}

/// The bytes of the weights, while the largest is packed, and of a query.
fn needs(network: &Dnn) -> [u128; 2] {
    let works = network
        .distinct()
        .iter()
        .map(|operator| operator.form.at(network.most_tokens.unwrap_or(0)));
    let sizes = || {
        network
            .distinct()
            .iter()
            .map(|operator| operator.form.at(0).weights() * FLOAT)
    };
    let of_query = |work: QueryWork| {
        let matrices = u128::from(reads(&work)) / u128::from(work.count.max(1));
        (u128::from(reads(&work)) + u128::from(writes(&work)) + matrices) * FLOAT
    };
    // Of the largest, both forms are then in memory.
    let weights = sizes().sum::<u128>() + sizes().max().unwrap_or(0);
    [weights, works.map(of_query).max().unwrap_or(0)]
}
