//! Every cell computes what the CPU's does, whatever the settings.

use std::sync::Arc;

use batchlab::cuda::device::Device;
use batchlab::precision::Precision;
use batchlab::units::CellId;
use batchlab::workload::cell_graph::{CellGraph, CellRun, Graph};
use batchlab::workload::model::Model;

use crate::bench::{Bench, STREAM, inside, row};

const LENGTHS: [u32; 4] = [5, 1, 3, 4];

/// Chains of several lengths as one batch with padding, gathered anew in the middle.
fn chains(model: &Model, precision: Precision) {
    let mut bench = Bench::new(model, precision, 1);
    let plan = bench.plan(STREAM, 0, 6, 0, true);
    let rows: Vec<_> = (0..)
        .zip(LENGTHS)
        .map(|(request, length)| row(request, 0, length - 1, 0))
        .collect();
    bench.gather(plan, &rows, &[]);
    bench.launch(plan, 2);
    // Those that are left, in another order.
    let rows = [row(3, 2, 3, 1), row(0, 2, 4, 2), row(2, 2, 2, 3)];
    bench.gather(plan, &rows, &[3, 0, 2]);
    bench.launch(plan, 3);
    bench.fetch(STREAM, 0..4);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 6).unwrap();
    for (request, length) in (0..).zip(LENGTHS) {
        let expected = bench.alone(request, &CellGraph::chain(CellId(0), length));
        bench.compare(request, &expected.state, precision);
        assert!(
            !bench
                .gpus
                .take_non_finite(STREAM.worker, row(request, 0, 0, 0).state)
        );
    }
}

/// Chains, the longest first, in ever smaller batches over the rows of one gather.
fn shrinking_chains(model: &Model, precision: Precision) {
    let lengths = [6, 5, 3, 3, 1];
    let mut bench = Bench::new(model, precision, 1);
    let rows: Vec<_> = (0..)
        .zip(lengths)
        .map(|(request, length)| row(request, 0, length - 1, 0))
        .collect();
    let plan = bench.plan(STREAM, 0, 5, 0, false);
    bench.gather(plan, &rows, &[]);
    // The fourth level has a row of padding.
    for size in [5, 4, 4, 3, 2, 1] {
        let plan = bench.plan(STREAM, 0, size, 0, false);
        bench.launch(plan, 1);
    }
    bench.fetch(STREAM, 0..5);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 1).unwrap();
    for (request, length) in (0..).zip(lengths) {
        let expected = bench.alone(request, &CellGraph::chain(CellId(0), length));
        bench.compare(request, &expected.state, precision);
    }
}

#[test]
fn levels_that_shrink_run_over_the_same_rows() {
    if inside("networks::levels_that_shrink_run_over_the_same_rows", &[]) {
        for precision in Precision::ALL {
            shrinking_chains(&Model::Lstm, precision);
            shrinking_chains(&Model::Gru, precision);
        }
    }
}

#[test]
fn chains_in_all_precisions() {
    if inside("networks::chains_in_all_precisions", &[]) {
        for precision in Precision::ALL {
            chains(&Model::Lstm, precision);
            chains(&Model::Gru, precision);
        }
    }
}

/// Translations: the encoder's steps, then the decoder's, whose words come to the host.
fn translations(precision: Precision) {
    const DECODER: u16 = 0;
    const ENCODER: u16 = 1;
    let sizes = [(3, 4), (1, 2), (2, 5)];
    let mut bench = Bench::new(&Model::Seq2Seq, precision, 1);
    let encoder = bench.plan(STREAM, ENCODER, 3, 0, false);
    let rows: Vec<_> = (0..)
        .zip(sizes)
        .map(|(request, (source, _))| row(request, 0, source - 1, 0))
        .collect();
    bench.gather(encoder, &rows, &[]);
    bench.launch(encoder, 3);
    let decoder = bench.plan(STREAM, DECODER, 4, 0, true);
    let rows: Vec<_> = (0..)
        .zip(sizes)
        .map(|(request, (source, target))| row(request, source, source + target - 1, request + 1))
        .collect();
    bench.gather(decoder, &rows, &[0, 1, 2]);
    bench.launch(decoder, 5);
    bench.fetch(STREAM, 0..3);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 6).unwrap();
    for (request, (source, target)) in (0..).zip(sizes) {
        let run = |cell, length| CellRun {
            cell: CellId(cell),
            length,
            input: 0,
        };
        let expected = bench.alone(
            request,
            &CellGraph::chains([run(ENCODER, source), run(DECODER, target)]),
        );
        let words: Vec<u32> = (source..source + target)
            .map(|node| bench.gpus.word(16 * request + node))
            .collect();
        // Rounding may make another word the likeliest, and everything behind it another text.
        if words == expected.words {
            bench.compare(request, &expected.state, precision);
        }
        assert!(
            words == expected.words || precision != Precision::F32,
            "{words:?}, {:?}",
            expected.words
        );
    }
}

#[test]
fn translations_in_all_precisions() {
    if inside("networks::translations_in_all_precisions", &[]) {
        Precision::ALL.into_iter().for_each(translations);
    }
}

/// A tree of a root, of whose children one has two, and one, for `Model::ChildSumTreeLstm`, three.
/// That with cells by the number of children has to come to the same.
fn tree(model: &Model, precision: Precision) {
    let binary = *model == Model::TreeLstm;
    // The cells of the node over three leaves, or two, of the root over two nodes, and of the leaves.
    let [over_cell, root_cell, leaf_cell] = if matches!(model, Model::ChildSumByArity(_)) {
        [2, 1, 3]
    } else {
        [0, 0, 1]
    };
    // Nodes 0, 1, 2 and, of the wider tree, 3 are leaves; then come the node over them all but the first, and the root.
    let leaves: u32 = if binary { 3 } else { 4 };
    let (over, root) = (leaves, leaves + 1);
    let mut cells = vec![CellId(leaf_cell); leaves as usize];
    cells.extend([CellId(over_cell), CellId(root_cell)]);
    let mut edges: Vec<(u32, u32)> = (1..leaves).map(|leaf| (leaf, over)).collect();
    edges.extend([(0, root), (over, root)]);
    let graph = CellGraph::Graph(Arc::new(Graph::new(cells, &edges).unwrap()));

    // Every node has a slot of its own; requests 0 and 1 are of this tree.
    let slot = |request: u32, node: u32| 8 * request + node;
    let at = |request, node, inputs_end| {
        let mut row = row(request, node, node, inputs_end);
        row.state.0 = slot(request, node);
        row
    };
    let mut bench = Bench::new(model, precision, 1);
    let plan = bench.plan(STREAM, leaf_cell, 9, 0, true);
    let rows: Vec<_> = (0..2)
        .flat_map(|request| (0..leaves).map(move |leaf| at(request, leaf, 0)))
        .collect();
    bench.gather(plan, &rows, &[]);
    bench.launch(plan, 1);
    let inputs = |all: usize| if binary { 0 } else { all as u32 };
    let below: Vec<u32> = (0..2)
        .flat_map(|request| (1..leaves).map(move |leaf| slot(request, leaf)))
        .collect();
    let plan = bench.plan(STREAM, over_cell, 3, inputs(below.len() + 1), true);
    bench.gather(
        plan,
        &[at(0, over, leaves - 1), at(1, over, 2 * (leaves - 1))],
        &below,
    );
    bench.launch(plan, 1);
    let below = [slot(0, 0), slot(0, over), slot(1, 0), slot(1, over)];
    let plan = bench.plan(STREAM, root_cell, 2, inputs(below.len()), true);
    bench.gather(plan, &[at(0, root, 2), at(1, root, 4)], &below);
    bench.launch(plan, 1);
    for request in 0..2 {
        bench.fetch_to(STREAM, at(request, root, 0).state, request);
    }
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 4).unwrap();
    for request in 0..2 {
        bench.compare(request, &bench.alone(request, &graph).state, precision);
    }
}

#[test]
fn trees_in_all_precisions() {
    if inside("networks::trees_in_all_precisions", &[]) {
        for precision in Precision::ALL {
            tree(&Model::TreeLstm, precision);
            tree(&Model::ChildSumTreeLstm, precision);
            tree(&Model::ChildSumByArity(3), precision);
        }
    }
}

#[test]
fn threads_may_run_in_any_order() {
    for seed in ["1", "2", "3"] {
        if inside("networks::threads_may_run_in_any_order", &[("SEED", seed)]) {
            let precision = Precision::F32;
            chains(&Model::Lstm, precision);
            chains(&Model::Gru, precision);
            translations(precision);
            tree(&Model::TreeLstm, precision);
            tree(&Model::ChildSumTreeLstm, precision);
            return;
        }
    }
}
