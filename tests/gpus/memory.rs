//! Memory that grows, is kept, and is not there.

use batchlab::cuda::device::{BatchShape, Device, DeviceBatch, MemoryNeeds, StateSlot};
use batchlab::cuda::gpu::Gpus;
use batchlab::network::Spec;
use batchlab::precision::Precision;
use batchlab::step_kernels::StepKernels;
use batchlab::units::CellId;
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;

use crate::bench::{Bench, STREAM, inside, needs, row, spec};

const LENGTH: u32 = 6;

fn expect(bench: &Bench, request: u32) {
    bench.compare(
        request,
        &bench
            .alone(request, &CellGraph::chain(CellId(0), LENGTH))
            .state,
        Precision::F32,
    );
}

#[test]
fn a_batch_goes_on_while_the_memory_of_its_stream_grows() {
    if !inside(
        "memory::a_batch_goes_on_while_the_memory_of_its_stream_grows",
        &[],
    ) {
        return;
    }
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let small = bench.plan(STREAM, 0, 2, 0, true);
    bench.gather(
        small,
        &[row(0, 0, LENGTH - 1, 0), row(1, 0, LENGTH - 1, 0)],
        &[],
    );
    bench.launch(small, 2);
    let large = bench.plan(STREAM, 0, 33, 0, true);
    assert_ne!(small, large);
    assert_eq!(small, bench.plan(STREAM, 0, 2, 0, true));
    bench.launch(small, 4);
    let rows: Vec<_> = (2..35)
        .map(|request| row(request, 0, LENGTH - 1, 0))
        .collect();
    bench.gather(large, &rows, &[]);
    bench.launch(large, LENGTH);
    bench.fetch(STREAM, 0..35);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 6 + u64::from(LENGTH) + 1).unwrap();
    (0..35).for_each(|request| expect(&bench, request));
}

#[test]
fn what_is_ready_stays_ready_for_a_run_that_needs_more() {
    if !inside(
        "memory::what_is_ready_stays_ready_for_a_run_that_needs_more",
        &[],
    ) {
        return;
    }
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let plan = bench.plan(STREAM, 0, 2, 0, true);
    for states in [10, 64, 100, 5000] {
        let slots = bench
            .gpus
            .begin(
                1,
                &MemoryNeeds {
                    states,
                    words: states as u32,
                    ..needs()
                },
            )
            .unwrap();
        assert!(u64::from(slots[0]) >= states);
        assert_eq!(bench.gpus.signal_count(STREAM), 0);
        assert_eq!(bench.gpus.record(STREAM).unwrap().number, 0);
        assert_eq!(bench.plan(STREAM, 0, 2, 0, true), plan);
        let slot = StateSlot(states as u32 - 1);
        let mut last = row(8, 0, LENGTH - 1, 0);
        last.state = slot;
        bench.gather(plan, &[last], &[]);
        bench.launch(plan, LENGTH);
        bench.fetch_to(STREAM, slot, 8);
        bench.gpus.signal(STREAM).unwrap();
        bench.wait(STREAM, u64::from(LENGTH) + 1).unwrap();
        expect(&bench, 8);
    }
    bench.gpus.release(plan);
    assert!(!bench.gpus.launch(plan).unwrap_err().lost);
}

#[test]
fn states_take_what_memory_there_is() {
    if !inside(
        "memory::states_take_what_memory_there_is",
        &[("MEMORY", "80000000")],
    ) {
        return;
    }
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let slots = bench
        .gpus
        .begin(
            1,
            &MemoryNeeds {
                states: 1 << 30,
                ..needs()
            },
        )
        .unwrap()[0];
    // A state of 2·9 numbers takes 20, so that it begins on a multiple of four; three quarters of the memory are for states.
    let fit = 80_000_000 / 80 * 3 / 4;
    assert!((fit * 9 / 10..=fit).contains(&slots), "{slots} of {fit}");

    // What the stream then asks for is not there.
    let shape = BatchShape {
        stream: STREAM,
        cell: CellId(0),
        rows: 1 << 20,
        inputs: 0,
        tokens: 0,
        steps: 0,
        signals: true,
    };
    let fault = bench.gpus.prepare(shape).unwrap_err();
    assert!(!fault.lost);
    assert!(
        fault.reason.contains("GPU 0 (Host CUDA) has no memory for"),
        "{fault}"
    );
    assert!(
        fault.reason.contains("MiB are wanted") && fault.reason.contains("MiB are free"),
        "{fault}"
    );
}

#[test]
fn weights_that_do_not_fit_are_told_with_figures() {
    if !inside(
        "memory::weights_that_do_not_fit_are_told_with_figures",
        &[("MEMORY", "100000")],
    ) {
        return;
    }
    let wide = Spec {
        hidden: 200,
        ..spec()
    };
    let error = Gpus::new(
        &Model::Lstm,
        &wide,
        Precision::F32,
        StepKernels::Auto,
        None,
        1,
    )
    .unwrap_err();
    assert_eq!(error.exit_code(), 1);
    let error = error.to_string();
    assert!(
        error.starts_with("GPU 0 (Host CUDA) has no memory for weights: 640.6 KiB are wanted, "),
        "{error}"
    );
    assert!(error.contains("the cpu backend none"), "{error}");
}

#[test]
fn a_batch_that_is_too_large_for_its_plan_is_refused() {
    if !inside(
        "memory::a_batch_that_is_too_large_for_its_plan_is_refused",
        &[],
    ) {
        return;
    }
    let mut bench = Bench::new(&Model::ChildSumTreeLstm, Precision::F32, 1);
    let plan = bench.plan(STREAM, 0, 2, 3, true);
    for (rows, inputs) in [
        (&[row(0, 0, 0, 0); 3][..], &[][..]),
        (&[row(0, 0, 0, 4)], &[StateSlot(0); 4]),
    ] {
        let fault = bench
            .gpus
            .gather(plan, &DeviceBatch { rows, inputs })
            .unwrap_err();
        assert!(
            fault.reason.ends_with("for a plan of 2 rows and 3 inputs") && !fault.lost,
            "{fault}"
        );
    }
}
