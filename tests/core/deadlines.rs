//! Laws of the policies with deadlines, where a batch takes exactly the time that they know, and Symphony's steady state.

use std::sync::Arc;

use batchlab::cost::table::Overhead;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::units::{Nanos, RequestId};
use batchlab::workload::class::{Class, Classes};
use batchlab::workload::random;
use batchlab::workload::shape::Shape;
use batchlab::workload::trace::Requests;
use rand::RngExt as _;

use crate::lab::{Device, policy};

/// A step of b requests takes 2 b + 5.
const COSTS: &str = "lstm,1,7\nlstm,2,9";
/// By window for early drop, if there is one.
const POLICIES: [(&str, Option<usize>); 4] = [
    ("kind = 'nexus'\nmax_batch = 6", Some(6)),
    ("kind = 'clockwork'\nbatch_sizes = [1, 2, 4, 6]", None),
    ("kind = 'symphony'\nmax_batch = 6", None),
    (
        "kind = 'symphony'\nmax_batch = 6\ntarget_batch = 3",
        Some(3),
    ),
];

struct Case {
    lengths: Vec<u32>,
    arrivals: Vec<u64>,
    /// After the arrival.
    deadlines: Vec<u64>,
    record: FullRecord,
}

/// A queue that is at times empty and at times overloaded, under one policy.
fn run(settings: &str, number: u32) -> Case {
    let mut rng = random::sequence(number.into(), 0, "deadlines");
    let count = rng.random_range(1..80);
    let mut draw = |from: u64, to: u64| -> Vec<u64> {
        (0..count).map(|_| rng.random_range(from..=to)).collect()
    };
    let lengths: Vec<u32> = draw(1, 3).into_iter().map(|length| length as u32).collect();
    let mut clock = 0;
    let arrivals: Vec<u64> = draw(0, 8)
        .into_iter()
        .map(|gap| {
            clock += gap;
            clock
        })
        .collect();
    let deadlines = draw(5, 90);
    let device = Device::new("lstm", 1 + number as usize % 3, COSTS, Overhead::default());
    let classes = deadlines.iter().enumerate().map(|(place, deadline)| Class {
        deadline: Some(Nanos(*deadline)),
        ..Class::new(place.to_string().into())
    });
    let classes = Arc::new(Classes {
        all: classes.collect(),
        of: (0..count as u16).collect(),
    });
    let requests = device.requests(lengths.iter().map(|length| Shape::Chain(*length)));
    let requests = Requests {
        classes: Some(classes),
        ..requests
    };
    let times: Vec<Nanos> = arrivals.iter().copied().map(Nanos).collect();
    let record = device.run(
        &*policy(settings),
        &requests,
        &times,
        RecordOptions::default(),
    );
    Case {
        lengths,
        arrivals,
        deadlines,
        record,
    }
}

impl Case {
    fn due(&self, request: usize) -> u64 {
        self.arrivals[request] + self.deadlines[request]
    }

    fn time(&self, batch: &[usize]) -> u64 {
        let longest = batch
            .iter()
            .map(|request| self.lengths[*request])
            .max()
            .unwrap_or(0);
        u64::from(longest) * (2 * batch.len() as u64 + 5)
    }

    /// The rejected request, and those that waited just before and are due later, the earliest deadline first. At one instant,
    /// requests with earlier deadlines are sent or rejected before.
    fn waiting(&self, rejected: usize) -> Vec<usize> {
        let FullRecord {
            start, rejections, ..
        } = &self.record;
        let place = rejections
            .iter()
            .position(|(request, _)| request.index() == rejected)
            .expect("it was rejected");
        let now = rejections[place].1;
        let gone = |request: usize| {
            rejections[..place]
                .iter()
                .any(|(RequestId(other), _)| *other == request as u64)
        };
        let order = |request: usize| (self.due(request), request);
        let mut waiting: Vec<usize> = (0..start.len())
            .filter(|request| {
                self.arrivals[*request] <= now.0 && start[*request] >= now && !gone(*request)
            })
            .filter(|request| order(*request) >= order(rejected))
            .collect();
        waiting.sort_by_key(|request| order(*request));
        waiting
    }
}

#[test]
fn what_is_started_ends_in_time_and_what_is_rejected_could_not() {
    for (kind, window) in POLICIES {
        let (mut served, mut rejected, mut dropped_early) = (0, 0, 0);
        for number in 0..400 {
            let case = run(kind, number);
            for (request, finish) in case
                .record
                .finish
                .iter()
                .enumerate()
                .filter(|(_, at)| **at < Nanos::MAX)
            {
                assert!(
                    finish.0 <= case.due(request),
                    "{kind}, case {number}: request {request} is late"
                );
                served += 1;
            }
            for (request, at) in &case.record.rejections {
                let (request, now) = (request.index(), at.0);
                let alone = now + case.time(&[request]);
                let late = match window {
                    Some(window) => {
                        let waiting = case.waiting(request);
                        now + case.time(&waiting[..waiting.len().min(window)]) > case.due(request)
                    }
                    None => alone > case.due(request),
                };
                assert!(
                    late,
                    "{kind}, case {number}: request {request} could have ended in time"
                );
                rejected += 1;
                dropped_early += u32::from(alone <= case.due(request));
            }
            assert_eq!(case.record.failures, [], "{kind}, case {number}");
        }
        assert!(
            served > 2_000 && rejected > 2_000,
            "{kind}: {served} served, {rejected} rejected"
        );
        assert_eq!(
            dropped_early > 0,
            window.is_some(),
            "{kind} drops {dropped_early} early"
        );
    }
}

/// Regular arrivals on N workers: staggered, each batch of b gathers for l(b) / N and runs for l(b), so that deadlines of
/// (1 + 1/N) l(b) allow batches of b at N b / l(b) requests per time. Without coordination they would have to be 2 l(b).
#[test]
fn symphony_reaches_its_staggered_steady_state() {
    let (batch, time) = (8, 24_000);
    for workers in [1, 2, 3, 4] {
        // l(b) = 2000 b + 8000.
        let device = Device::new(
            "lstm",
            workers,
            "lstm,1,10000\nlstm,2,12000",
            Overhead::default(),
        );
        let gap = time / (batch * workers as u64);
        let count = 200 * batch as usize;
        let deadline = Some(Nanos(time + time / workers as u64));
        let class = Class {
            deadline,
            ..Class::new("all".into())
        };
        let classes = Some(Arc::new(Classes {
            all: vec![class],
            of: vec![0; count],
        }));
        let requests = Requests {
            classes,
            ..device.requests(vec![Shape::Chain(1); count])
        };
        let arrivals: Vec<Nanos> = (0..count as u64).map(|place| Nanos(place * gap)).collect();
        let settings = policy("kind = 'symphony'\nmax_batch = 64");
        let record = device.run(
            &*settings,
            &requests,
            &arrivals,
            RecordOptions {
                tasks: true,
                ..RecordOptions::default()
            },
        );
        assert_eq!(record.rejections.len(), 0, "{workers} workers");
        let steady = &record.execution.tasks
            [record.execution.tasks.len() / 4..record.execution.tasks.len() * 3 / 4];
        let batches: Vec<u32> = steady.iter().map(|task| task.batch).collect();
        assert_eq!(
            batches,
            vec![batch as u32; steady.len()],
            "{workers} workers"
        );
        assert!(
            steady
                .windows(2)
                .all(|pair| (pair[1].start - pair[0].start).0 == time / workers as u64)
        );
    }
}
