//! Chains in persistent kernels, as the backend drives them.

use batchlab::cost::grnn;
use batchlab::cuda::device::{Device, DeviceStream, StateSlot};
use batchlab::cuda::gpu::Gpus;
use batchlab::network::Spec;
use batchlab::precision::Precision;
use batchlab::step_kernels::StepKernels;
use batchlab::units::{CellId, RequestId, StreamId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;

use crate::bench::{Bench, STREAM, inside, row};
use crate::faults::with_poison;

fn spec(hidden: u32, embedding: u32) -> Spec {
    Spec {
        hidden,
        embedding,
        vocabulary: 13,
        seed: 3,
        weights: None,
    }
}

/// Chains of several lengths: a chunk of steps with padding, single steps in the cell's own kernels, and what is left in another chunk.
fn chunks(model: &Model, spec: &Spec, precision: Precision) {
    const LENGTHS: [u32; 4] = [9, 2, 5, 7];
    let mut bench = Bench::persistent(model, spec, precision, 1);
    let first = bench.plan_of_steps(STREAM, 6, 3);
    let rows: Vec<_> = (0..)
        .zip(LENGTHS)
        .map(|(request, length)| row(request, 0, 2.min(length - 1), 0))
        .collect();
    bench.gather(first, &rows, &[]);
    bench.launch(first, 1);
    let single = bench.plan(STREAM, 0, 3, 0, false);
    bench.gather(
        single,
        &[row(3, 3, 6, 1), row(0, 3, 8, 2), row(2, 3, 4, 3)],
        &[3, 0, 2],
    );
    bench.launch(single, 2);
    let rest = bench.plan_of_steps(STREAM, 2, 4);
    bench.gather(rest, &[row(0, 5, 8, 1), row(3, 5, 6, 2)], &[0, 3]);
    bench.launch(rest, 1);
    bench.fetch(STREAM, 0..4);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 1).unwrap();
    for (request, length) in (0..).zip(LENGTHS) {
        let expected = bench.alone(request, &CellGraph::chain(CellId(0), length));
        bench.compare(request, &expected.state, precision);
        assert!(
            !bench
                .gpus
                .take_non_finite(STREAM.worker, StateSlot(request))
        );
    }
}

#[test]
fn chains_go_on_from_chunk_to_chunk_and_step_to_step() {
    if inside(
        "sequences::chains_go_on_from_chunk_to_chunk_and_step_to_step",
        &[("SEED", "3")],
    ) {
        for precision in Precision::ALL {
            chunks(&Model::Lstm, &spec(9, 5), precision);
            chunks(&Model::Gru, &spec(9, 5), precision);
        }
        // Where four numbers are read at once.
        chunks(&Model::Lstm, &spec(16, 8), Precision::F32);
        chunks(&Model::Gru, &spec(16, 8), Precision::F32);
    }
}

/// A batch that no kernel is large enough for, with room that has to grow.
#[test]
fn a_batch_is_as_many_launches_as_it_needs() {
    if !inside("sequences::a_batch_is_as_many_launches_as_it_needs", &[]) {
        return;
    }
    for model in [Model::Lstm, Model::Gru] {
        let mut bench = Bench::persistent(&model, &spec(48, 7), Precision::F32, 1);
        let mut signals = 0;
        for (count, steps) in [(3, 2), (60, 4), (17, 3)] {
            let plan = bench.plan_of_steps(STREAM, count, steps);
            let length = |request: u32| 1 + request % steps;
            let rows: Vec<_> = (0..count)
                .map(|request| row(request, 0, length(request) - 1, 0))
                .collect();
            bench.gather(plan, &rows, &[]);
            bench.launch(plan, 1);
            signals += 1;
            bench.gpus.signal(STREAM).unwrap();
            bench.wait(STREAM, signals).unwrap();
            bench.fetch(STREAM, 0..count);
            signals += 1;
            bench.gpus.signal(STREAM).unwrap();
            bench.wait(STREAM, signals).unwrap();
            for request in 0..count {
                let expected = bench.alone(request, &CellGraph::chain(CellId(0), length(request)));
                bench.compare(request, &expected.state, Precision::F32);
            }
        }
    }
}

/// Two streams of one GPU: their kernels want all multiprocessors, each of them.
#[test]
fn persistent_kernels_of_one_gpu_run_one_at_a_time() {
    if !inside(
        "sequences::persistent_kernels_of_one_gpu_run_one_at_a_time",
        &[("DELAY_US", "200")],
    ) {
        return;
    }
    let mut bench = Bench::persistent(&Model::Lstm, &spec(48, 7), Precision::F32, 1);
    let streams = [0, 1].map(|id| DeviceStream {
        id: StreamId(id),
        ..STREAM
    });
    let plans = streams.map(|stream| bench.plan_of_steps(stream, 2, 6));
    for round in 0..4 {
        for (plan, at) in plans.into_iter().zip(0..) {
            let request = 4 * round + 2 * at;
            bench.gather(
                plan,
                &[row(request, 0, 5, 0), row(request + 1, 0, 3, 0)],
                &[],
            );
            bench.launch(plan, 1);
        }
    }
    for (stream, at) in streams.into_iter().zip(0..) {
        bench.fetch(stream, (0..16).filter(|request| request % 4 / 2 == at));
        bench.gpus.signal(stream).unwrap();
        bench.wait(stream, 1).unwrap();
    }
    for request in 0..16 {
        let expected = bench.alone(
            request,
            &CellGraph::chain(CellId(0), if request % 2 == 0 { 6 } else { 4 }),
        );
        bench.compare(request, &expected.state, Precision::F32);
    }
}

#[test]
fn nan_and_infinity_are_noted() {
    if !inside("sequences::nan_and_infinity_are_noted", &[]) {
        return;
    }
    const STEPS: u32 = 3;
    for model in [Model::Lstm, Model::Gru] {
        let good = Bench::persistent(&model, &spec(9, 5), Precision::F32, 1);
        let reads = |request, word| {
            (0..STEPS).any(|step| good.network.token(RequestId(request), step) == word)
        };
        let poisoned = good.network.token(RequestId(1), 1);
        let (_folder, spec) = with_poison(&model, spec(9, 5), poisoned);
        let mut bench = Bench::persistent(&model, &spec, Precision::F32, 1);
        let plan = bench.plan_of_steps(STREAM, 4, STEPS);
        bench.gather(
            plan,
            &[0, 1, 2, 3].map(|request| row(request, 0, STEPS - 1, 0)),
            &[],
        );
        bench.launch(plan, 1);
        bench.gpus.signal(STREAM).unwrap();
        bench.wait(STREAM, 1).unwrap();
        let broken: Vec<bool> = (0..4)
            .map(|slot| bench.gpus.take_non_finite(STREAM.worker, StateSlot(slot)))
            .collect();
        let expected: Vec<bool> = (0..4).map(|request| reads(request, poisoned)).collect();
        assert_eq!(broken, expected);
        assert!(expected.contains(&false), "not all sequences read the word");
    }
}

#[test]
fn what_has_no_persistent_kernels_is_refused_or_runs_in_others() {
    if !inside(
        "sequences::what_has_no_persistent_kernels_is_refused_or_runs_in_others",
        &[("DEVICES", "1")],
    ) {
        return;
    }
    let device = grnn::DataSheet::open("titan-v").unwrap();
    let made = |model: &Model, hidden| {
        Gpus::new(
            model,
            &spec(hidden, 5),
            Precision::F32,
            StepKernels::Auto,
            Some(&device),
            1,
        )
    };
    assert_eq!(
        made(&Model::TreeLstm, 9).unwrap_err().to_string(),
        "device.grnn: persistent kernels run lstm and gru, and the model is tree-lstm; leave it out"
    );
    let [narrow, wide] =
        [9, 1024].map(|hidden| made(&Model::Lstm, hidden).unwrap().has_persistent_kernels());
    assert_eq!(
        [narrow, wide],
        [true, false],
        "registers that do not hold the weights leave it to traditional kernels"
    );
}
