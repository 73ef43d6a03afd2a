//! Every cell computes what the CPU's does, whatever the settings.

use batchlab::cuda::device::Device;
use batchlab::network::Spec;
use batchlab::precision::Precision;
use batchlab::step_kernels::StepKernels;
use batchlab::units::CellId;
use batchlab::workload::cell_graph::{CellGraph, CellRun, Graph};
use batchlab::workload::model::Model;

use crate::bench::{Bench, STREAM, inside, row, spec};

const LENGTHS: [u32; 4] = [5, 1, 3, 4];

/// Chains of several lengths as one batch with padding, gathered anew in the middle.
fn chains(mut bench: Bench, precision: Precision) {
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
            chains(Bench::new(&Model::Lstm, precision, 1), precision);
            chains(Bench::new(&Model::Gru, precision, 1), precision);
        }
    }
}

/// Translations: the encoder's steps, then the decoder's, whose words come to the host.
fn translations(mut bench: Bench, precision: Precision) {
    const DECODER: u16 = 0;
    const ENCODER: u16 = 1;
    let sizes = [(3, 4), (1, 2), (2, 5)];
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
        for precision in Precision::ALL {
            translations(Bench::new(&Model::Seq2Seq, precision, 1), precision);
        }
    }
}

/// A tree of a root, of whose children one has two, and one, for `Model::ChildSumTreeLstm`, three.
/// That with cells by the number of children has to come to the same.
fn tree(mut bench: Bench, precision: Precision) {
    let model = bench.network.model();
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
    let graph = CellGraph::Graph(Graph::new(cells, &edges).unwrap().into());

    // Every node has a slot of its own; requests 0 and 1 are of this tree.
    let slot = |request: u32, node: u32| 8 * request + node;
    let at = |request, node, inputs_end| {
        let mut row = row(request, node, node, inputs_end);
        row.state.0 = slot(request, node);
        row
    };
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
            tree(Bench::new(&Model::TreeLstm, precision, 1), precision);
            tree(
                Bench::new(&Model::ChildSumTreeLstm, precision, 1),
                precision,
            );
            tree(
                Bench::new(&Model::ChildSumByArity(3), precision, 1),
                precision,
            );
        }
    }
}

#[test]
fn threads_may_run_in_any_order() {
    for seed in ["1", "2", "3"] {
        if inside("networks::threads_may_run_in_any_order", &[("SEED", seed)]) {
            let precision = Precision::F32;
            chains(Bench::new(&Model::Lstm, precision, 1), precision);
            chains(Bench::new(&Model::Gru, precision, 1), precision);
            translations(Bench::new(&Model::Seq2Seq, precision, 1), precision);
            tree(Bench::new(&Model::TreeLstm, precision, 1), precision);
            tree(
                Bench::new(&Model::ChildSumTreeLstm, precision, 1),
                precision,
            );
            return;
        }
    }
}

/// What has fused kernels, with widths that they take in every format.
fn fused_bench(model: &Model, precision: Precision) -> Bench {
    let spec = Spec {
        hidden: 32,
        embedding: 64,
        ..spec()
    };
    Bench::of_steps(model, &spec, precision, StepKernels::Fused)
}

#[test]
fn steps_are_fused_on_demand() {
    for seed in ["0", "1"] {
        let settings = [("CAPABILITY", "90"), ("SEED", seed)];
        if inside("networks::steps_are_fused_on_demand", &settings) {
            for precision in Precision::ALL {
                let told = |bench: &Bench| bench.gpus.describe_steps().to_string();
                let bench = fused_bench(&Model::Lstm, precision);
                if precision == Precision::Tf32 {
                    assert!(told(&bench).starts_with("steps of 96 by 128 by cuBLAS, because "));
                } else {
                    assert_eq!(told(&bench), "fused steps of 96 by 128");
                }
                chains(bench, precision);
                chains(fused_bench(&Model::Gru, precision), precision);
                translations(fused_bench(&Model::Seq2Seq, precision), precision);
                tree(fused_bench(&Model::TreeLstm, precision), precision);
                tree(fused_bench(&Model::ChildSumTreeLstm, precision), precision);
            }
            return;
        }
    }
}

#[test]
fn fused_steps_and_others_take_turns() {
    let settings = [("CAPABILITY", "90")];
    if !inside("networks::fused_steps_and_others_take_turns", &settings) {
        return;
    }
    // The widths of which the default takes some batches.
    let spec = Spec {
        hidden: 1024,
        embedding: 1024,
        ..spec()
    };
    let precision = Precision::Bf16;
    let mut bench = Bench::of_steps(&Model::Lstm, &spec, precision, StepKernels::Auto);
    let described = bench.gpus.describe_steps();
    assert_eq!(described, "fused steps of 2048 by 4096 for 1 to 32 rows");
    let plans = [9, 8, 33].map(|rows| bench.plan(STREAM, 0, rows, 0, true));
    let rows: Vec<_> = (0..7).map(|request| row(request, 0, 3, 0)).collect();
    bench.gather(plans[0], &rows, &[]);
    // From the first place of the operand to the second and back, to the second again, and back by a copy.
    for plan in [plans[0], plans[1], plans[1], plans[2]] {
        bench.launch(plan, 1);
    }
    bench.fetch(STREAM, 0..7);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 5).unwrap();
    for request in 0..7 {
        let expected = bench.alone(request, &CellGraph::chain(CellId(0), 4));
        bench.compare(request, &expected.state, precision);
    }
}
