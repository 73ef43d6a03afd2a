//! What streams and workers promise each other.

use batchlab::cuda::device::{Device, DeviceStream, StateSlot};
use batchlab::precision::Precision;
use batchlab::units::{CellId, StreamId, WorkerId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;

use crate::bench::{Bench, STREAM, inside, row};

/// A chain whose steps change streams: each waits for the event of the one before.
#[test]
fn a_stream_waits_for_the_events_of_another() {
    if !inside(
        "order::a_stream_waits_for_the_events_of_another",
        &[("DELAY_US", "500")],
    ) {
        return;
    }
    const STEPS: u32 = 9;
    let streams = [0, 1, 2].map(|id| DeviceStream {
        id: StreamId(id),
        ..STREAM
    });
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let plans = streams.map(|stream| bench.plan(stream, 0, 1, 0, true));
    let mut before = None;
    for step in 0..STEPS {
        let at = step as usize % streams.len();
        if let Some(event) = before {
            bench.gpus.wait(streams[at], event).unwrap();
        }
        let inputs = if step == 0 { &[][..] } else { &[0] };
        bench.gather(
            plans[at],
            &[row(0, step, step, inputs.len() as u32)],
            inputs,
        );
        bench.launch(plans[at], 1);
        before = Some(bench.gpus.record(streams[at]).unwrap());
    }
    bench.fetch(streams[2], 0..1);
    bench.gpus.signal(streams[2]).unwrap();
    bench.wait(streams[2], 4).unwrap();
    bench.compare(
        0,
        &bench.alone(0, &CellGraph::chain(CellId(0), STEPS)).state,
        Precision::F32,
    );
}

/// More events than a stream has handles: a wait for an early one may take longer, but ends.
#[test]
fn events_are_used_again() {
    if !inside("order::events_are_used_again", &[]) {
        return;
    }
    let other = DeviceStream {
        id: StreamId(1),
        ..STREAM
    };
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let first = bench.gpus.record(STREAM).unwrap();
    let events: Vec<_> = (0..200)
        .map(|_| bench.gpus.record(STREAM).unwrap())
        .collect();
    assert_eq!((first.number, events[199].number), (0, 200));
    bench.gpus.wait(other, first).unwrap();
    bench.gpus.wait(STREAM, events[3]).unwrap();
    for stream in [STREAM, other] {
        bench.gpus.signal(stream).unwrap();
        bench.wait(stream, 1).unwrap();
    }
}

/// A chain that goes on on another GPU.
#[test]
fn a_state_is_copied_to_another_worker() {
    if !inside(
        "order::a_state_is_copied_to_another_worker",
        &[("DEVICES", "2"), ("DELAY_US", "500")],
    ) {
        return;
    }
    let there = DeviceStream {
        worker: WorkerId(1),
        id: StreamId(1),
    };
    let mut bench = Bench::new(&Model::Gru, Precision::F32, 2);
    let (here_plan, there_plan) = (
        bench.plan(STREAM, 0, 1, 0, true),
        bench.plan(there, 0, 2, 0, true),
    );
    bench.gather(here_plan, &[row(7, 0, 4, 0)], &[]);
    bench.launch(here_plan, 3);
    let event = bench.gpus.record(STREAM).unwrap();
    bench.gpus.wait(there, event).unwrap();
    bench
        .gpus
        .copy_peer((STREAM.worker, StateSlot(7)), (there, StateSlot(30)))
        .unwrap();
    // And once more on the same GPU.
    bench
        .gpus
        .copy_peer((there.worker, StateSlot(30)), (there, StateSlot(7)))
        .unwrap();
    bench.gather(there_plan, &[row(7, 3, 4, 1)], &[7]);
    bench.launch(there_plan, 2);
    bench.fetch(there, 7..8);
    bench.gpus.signal(there).unwrap();
    bench.wait(there, 3).unwrap();
    bench.compare(
        7,
        &bench.alone(7, &CellGraph::chain(CellId(0), 5)).state,
        Precision::F32,
    );
    assert_eq!(bench.gpus.signal_count(STREAM), 3);
}

/// Many gathers without a signal, so that none of their memory may be used again.
#[test]
fn a_task_may_gather_as_often_as_it_likes() {
    if !inside(
        "order::a_task_may_gather_as_often_as_it_likes",
        &[("DELAY_US", "200")],
    ) {
        return;
    }
    const STEPS: u32 = 200;
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let plan = bench.plan(STREAM, 0, 2, 0, false);
    for round in 1..=2 {
        for step in 0..STEPS {
            let inputs = if step == 0 { &[][..] } else { &[3, 4] };
            let ends = inputs.len() as u32;
            bench.gather(
                plan,
                &[row(3, step, step, ends / 2), row(4, step, step, ends)],
                inputs,
            );
            bench.launch(plan, 1);
        }
        bench.fetch(STREAM, 3..5);
        bench.gpus.signal(STREAM).unwrap();
        bench.wait(STREAM, round).unwrap();
        for request in [3, 4] {
            let alone = bench.alone(request, &CellGraph::chain(CellId(0), STEPS));
            bench.compare(request, &alone.state, Precision::F32);
        }
    }
}
