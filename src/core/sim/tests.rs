//! Checks of the shared device by hand, by its laws, against a naive device, and against single streams.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::base::units::{StreamId, WorkerId};
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::task::{ExtraTime, Members, Step};
use crate::core::workload::model::Model;

/// A task of a script. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Job {
    submit: u64,
    worker: u16,
    stream: u16,
    /// The time from the submission to the earliest start.
    lag: u64,
    /// The time from the end of the previous task.
    gap: u64,
    alone: u64,
    demand: Share,
    notice: u64,
}

const HALF: Share = Share(Share::WHOLE.0 / 2);

impl Job {
    /// A task on the first worker without a lag or a gap.
    fn new(submit: u64, stream: u16, alone: u64, demand: Share) -> Job {
        Job {
            submit,
            worker: 0,
            stream,
            lag: 0,
            gap: 0,
            alone,
            demand,
            notice: 0,
        }
    }

    fn work(&self) -> u128 {
        u128::from(self.alone) << 32
    }
}

struct Script<'j> {
    jobs: std::slice::Iter<'j, Job>,
    present: Option<Job>,
}

impl Script<'_> {
    fn new(jobs: &[Job]) -> Script<'_> {
        Script {
            jobs: jobs.iter(),
            present: None,
        }
    }

    fn present(&self) -> Job {
        self.present.expect("the start is asked first")
    }
}

impl Timing for Script<'_> {
    fn start(&mut self, _: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        self.present = self.jobs.next().copied();
        let job = self.present();
        let gap = if idle { 0 } else { job.gap };
        Start {
            earliest: submit + Nanos(job.lag),
            gap: Nanos(gap),
        }
    }

    fn duration(&mut self, _: &Task<'_>, _: Option<CellId>) -> Nanos {
        Nanos(self.present().alone)
    }

    fn demand(&mut self, _: &Task<'_>) -> Share {
        self.present().demand
    }

    fn completion_delay(&mut self) -> Nanos {
        Nanos(self.present().notice)
    }
}

const STEP: [Step; 1] = [Step {
    cell: CellId(0),
    batch: 1,
    times: 1,
    input: 0,
}];

fn task_on(worker: u16, stream: u16) -> Task<'static> {
    Task {
        stream: StreamId(stream),
        ..Task::whole_requests(WorkerId(worker), &STEP, &[], 1)
    }
}

/// The completions of a script, each with the instant at which it is reported.
fn reports(jobs: &[Job]) -> Vec<(Nanos, Completion)> {
    let mut backend = SharedSim::new(2, 4, Script::new(jobs));
    let mut reports = Vec::new();
    for (id, job) in (0..).zip(jobs) {
        while let Some(completion) = backend.wait(Some(Nanos(job.submit))) {
            reports.push((backend.now(), completion));
        }
        assert_eq!(backend.now(), Nanos(job.submit));
        backend.submit(TaskId(id), &task_on(job.worker, job.stream), None);
    }
    while let Some(completion) = backend.wait(None) {
        reports.push((backend.now(), completion));
    }
    reports
}

fn rows(jobs: &[Job]) -> Vec<(u64, u64, u64)> {
    reports(jobs)
        .into_iter()
        .map(|(_, done)| (done.task.0, done.start.0, done.finish.0))
        .collect()
}

fn spans(jobs: &[Job]) -> Vec<(u64, u64)> {
    let mut rows = rows(jobs);
    rows.sort_unstable();
    rows.into_iter()
        .map(|(_, start, finish)| (start, finish))
        .collect()
}

#[test]
fn two_tasks_that_fill_the_device_take_twice_as_long() {
    let pair = |demand| rows(&[Job::new(5, 0, 40, demand), Job::new(5, 1, 40, demand)]);
    assert_eq!(pair(Share::WHOLE), [(0, 5, 85), (1, 5, 85)]);
    assert_eq!(pair(HALF), [(0, 5, 45), (1, 5, 45)]);
    // Tasks of one stream run in sequence, and tasks of two workers at the same time.
    assert_eq!(
        rows(&[Job::new(5, 2, 40, Share::WHOLE); 2]),
        [(0, 5, 45), (1, 45, 85)]
    );
    let apart = [
        Job::new(5, 0, 40, Share::WHOLE),
        Job {
            worker: 1,
            ..Job::new(5, 0, 40, Share::WHOLE)
        },
    ];
    assert_eq!(rows(&apart), [(0, 5, 45), (1, 5, 45)]);
}

#[test]
fn three_tasks_and_one_after_them_by_hand() {
    let jobs = [
        Job::new(0, 0, 100, HALF),
        Job::new(20, 1, 60, HALF),
        Job::new(50, 2, 30, Share::WHOLE),
        Job::new(50, 2, 8, HALF),
    ];
    // Until 50 the first two fit. Then the demands are twice the device, so 30 ns of work take until 110. Then the last
    // two fit again, and the first has 20 left.
    assert_eq!(
        rows(&jobs),
        [(1, 20, 110), (2, 50, 110), (3, 110, 118), (0, 0, 130)]
    );
}

#[test]
fn speeds_are_rounded_down_and_finishes_up() {
    // At two thirds of full speed, 30 ns of work take 45, minus 2^-32 of a nanosecond's work.
    let demand = Share::from_ratio(3, 4);
    assert_eq!(
        spans(&[Job::new(0, 0, 30, demand), Job::new(0, 1, 30, demand)]),
        [(0, 46); 2]
    );
    assert_eq!(speed(3 << 31), Share(((1 << 33) - 2) / 3));
    assert_eq!(
        [speed(0), speed(1 << 32), speed(1 << 33)],
        [Share::WHOLE, Share::WHOLE, HALF]
    );
}

#[test]
fn no_time_is_no_time_and_ends_are_the_end() {
    // A task without work ends when it begins.
    let none = |submit, stream| Job::new(submit, stream, 0, Share::WHOLE);
    let jobs = [
        Job::new(0, 0, 10, Share::WHOLE),
        none(3, 1),
        none(3, 1),
        Job::new(3, 1, 1, Share::WHOLE),
    ];
    assert_eq!(rows(&jobs), [(1, 3, 3), (2, 3, 3), (3, 3, 5), (0, 0, 11)]);
    let long = Job::new(7, 0, u64::MAX, Share::WHOLE);
    let end = u64::MAX;
    assert_eq!(
        rows(&[long, long, Job { stream: 1, ..long }]),
        [(0, 7, end), (1, end, end), (2, 7, end)]
    );
}

#[test]
fn each_stream_remembers_what_it_ran() {
    struct Before(Vec<Option<CellId>>);
    impl Timing for &mut Before {
        fn start(&mut self, _: &Task<'_>, submit: Nanos, _: bool) -> Start {
            Start {
                earliest: submit,
                gap: Nanos::ZERO,
            }
        }
        fn duration(&mut self, _: &Task<'_>, before: Option<CellId>) -> Nanos {
            self.0.push(before);
            Nanos(3)
        }
    }
    let mut before = Before(Vec::new());
    let mut backend = SharedSim::new(1, 2, &mut before);
    for (id, stream) in [0, 1, 0, 1].into_iter().enumerate() {
        let steps = [Step {
            cell: CellId(id as u16),
            ..STEP[0]
        }];
        backend.submit(
            TaskId(id as u64),
            &Task {
                steps: &steps,
                ..task_on(0, stream)
            },
            None,
        );
    }
    assert_eq!(before.0, [None, None, Some(CellId(0)), Some(CellId(1))]);
}

#[test]
#[should_panic(expected = "a policy that uses 4 streams submitted a task to stream 4")]
fn a_stream_that_was_not_asked_for_is_a_mistake() {
    reports(&[Job::new(0, 4, 1, HALF)]);
}

/// The spans of the tasks on a naive device, which advances by single nanoseconds.
fn naive(jobs: &[Job]) -> Vec<(u64, u64)> {
    let mut spans = vec![(0, 0); jobs.len()];
    for worker in 0..2 {
        let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); 4];
        for (id, job) in jobs.iter().enumerate() {
            if job.worker == worker {
                queues[usize::from(job.stream)].push_back(id);
            }
        }
        let mut free = [0u64; 4];
        let mut running: Vec<(usize, u128)> = Vec::new();
        let mut now = 0;
        loop {
            // Repeat until nothing changes at this instant.
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for (queue, free) in queues.iter_mut().zip(&mut free) {
                    let Some(&first) = queue.front() else {
                        continue;
                    };
                    let job = jobs[first];
                    let busy = *free > job.submit;
                    let start = (job.submit + job.lag).max(*free + if busy { job.gap } else { 0 });
                    match running.iter().position(|(id, _)| *id == first) {
                        Some(place) if running[place].1 == 0 => {
                            running.remove(place);
                            queue.pop_front();
                            (spans[first].1, *free, changed) = (now, now, true);
                        }
                        None if start == now => {
                            running.push((first, job.work()));
                            (spans[first].0, changed) = (now, true);
                        }
                        _ => {}
                    }
                }
            }
            if queues.iter().all(VecDeque::is_empty) {
                break;
            }
            let demands: u128 = running
                .iter()
                .map(|(id, _)| u128::from(jobs[*id].demand.0))
                .sum();
            let speed = (1u128 << 64) / demands.max(1 << 32);
            for (_, left) in &mut running {
                *left = left.saturating_sub(speed);
            }
            now += 1;
        }
    }
    spans
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let demand = prop_oneof![
        Just(Share::WHOLE),
        Just(HALF),
        Just(Share(1)),
        (1u64..=1 << 32).prop_map(Share)
    ];
    let sometimes = |most: u64| prop_oneof![Just(0), 0..most];
    let job = (
        sometimes(60),
        0u16..2,
        0u16..4,
        (sometimes(30), sometimes(9)),
        sometimes(200),
        demand,
        sometimes(20),
    );
    prop::collection::vec(job, 0..40).prop_map(|jobs| {
        let mut clock = 0;
        let mut job = |(after, worker, stream, (lag, gap), alone, demand, notice)| {
            clock += after;
            Job {
                submit: clock,
                worker,
                stream,
                lag,
                gap,
                alone,
                demand,
                notice,
            }
        };
        jobs.into_iter().map(&mut job).collect()
    })
}

fn laws(jobs: &[Job], spans: &[(u64, u64)]) -> Result<(), String> {
    for worker in 0..2 {
        let of_worker: Vec<usize> = (0..jobs.len())
            .filter(|id| jobs[*id].worker == worker)
            .collect();
        for (place, &id) in of_worker.iter().enumerate() {
            let before = of_worker[..place]
                .iter()
                .rfind(|other| jobs[**other].stream == jobs[id].stream);
            let ready = jobs[id]
                .submit
                .max(before.map_or(0, |before| spans[*before].1));
            if spans[id].0 < ready {
                return Err(format!("task {id} starts before {ready}"));
            }
        }
        let mut instants: Vec<u64> = of_worker
            .iter()
            .flat_map(|id| [spans[*id].0, spans[*id].1])
            .collect();
        instants.sort_unstable();
        let mut got = vec![0u128; jobs.len()];
        for pair in instants.windows(2) {
            let running = || {
                of_worker
                    .iter()
                    .filter(|id| spans[**id].0 <= pair[0] && pair[1] <= spans[**id].1)
            };
            let demands: u64 = running().map(|id| jobs[*id].demand.0).sum();
            let speed = u128::from(speed(demands).0);
            if speed > 1 << 32 || speed * u128::from(demands) > 1 << 64 {
                return Err(format!(
                    "more than the device is handed out from {} on",
                    pair[0]
                ));
            }
            running().for_each(|id| got[*id] += speed * u128::from(pair[1] - pair[0]));
        }
        for id in of_worker {
            let work = jobs[id].work();
            if got[id] < work || got[id] >= work + (1 << 32) {
                return Err(format!("task {id} got {} of {work}", got[id]));
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_is_the_naive_one_and_keeps_the_laws(jobs in jobs()) {
        let spans = spans(&jobs);
        prop_assert_eq!(&spans, &naive(&jobs));
        prop_assert_eq!(laws(&jobs, &spans), Ok(()));
    }

    #[test]
    fn completions_are_reported_in_order(jobs in jobs()) {
        let reports = reports(&jobs);
        let keys: Vec<_> = reports.iter().map(|(now, done)| (*now, done.finish, done.task)).collect();
        prop_assert!(keys.is_sorted());
        for (now, done) in reports {
            prop_assert_eq!(now, done.finish + Nanos(jobs[done.task.index()].notice));
        }
    }

    #[test]
    fn with_one_stream_it_is_the_simple_one(script in script()) {
        prop_assert_eq!(played(&mut SharedSim::new(2, 3, device()), &script), played(&mut Sim::new(2, device()), &script));
    }
}

#[test]
fn a_law_that_is_broken_is_found() {
    let jobs = [
        Job::new(0, 0, 40, Share::WHOLE),
        Job::new(0, 1, 40, Share::WHOLE),
        Job::new(9, 1, 40, HALF),
    ];
    let spans = spans(&jobs);
    assert_eq!(laws(&jobs, &spans), Ok(()));
    let broken = |id: usize, span| {
        let mut spans = spans.clone();
        spans[id] = span;
        laws(&jobs, &spans).is_err()
    };
    assert!(
        broken(0, (0, spans[0].1 + 2)) && broken(0, (0, spans[0].1 - 2)),
        "the work"
    );
    assert!(broken(2, (spans[2].0 - 1, spans[2].1)), "the order");
}

#[derive(Clone, Debug)]
enum Action {
    Wait(Option<u64>),
    Submit {
        worker: u16,
        steps: Vec<Step>,
        gather: bool,
        whole: bool,
        extra: ExtraTime,
    },
}

fn script() -> impl Strategy<Value = Vec<Action>> {
    let step = (0u16..2, 1u32..9, 1u32..4).prop_map(|(cell, batch, times)| Step {
        cell: CellId(cell),
        batch,
        times,
        input: 0,
    });
    let extra = (
        prop_oneof![Just(0), 0u64..50],
        prop_oneof![Just(0), 0u64..50],
        prop_oneof![Just(0), 0u64..50],
    )
        .prop_map(|(host_ahead, host_during, device)| ExtraTime {
            host_ahead: Nanos(host_ahead),
            host_during: Nanos(host_during),
            device: Nanos(device),
        });
    let submit = (
        0u16..2,
        prop::collection::vec(step, 1..4),
        any::<bool>(),
        any::<bool>(),
        extra,
    )
        .prop_map(|(worker, steps, gather, whole, extra)| Action::Submit {
            worker,
            steps,
            gather,
            whole,
            extra,
        });
    let wait = prop_oneof![
        Just(Action::Wait(None)),
        (0u64..200).prop_map(|time| Action::Wait(Some(time)))
    ];
    prop::collection::vec(prop_oneof![submit, wait], 0..60)
}

/// A batch of one fills an eighth of the device.
fn device() -> TableCosts {
    let rows = "cell,batch,ns\nencoder,1,10\nencoder,8,11\nencoder.switch,1,7\ndecoder,1,20\ndecoder,8,30\ndecoder.switch,1,3\n\
                encoder.whole,1,9\nwhole,1,2\ntask,1,4\ngather,1,5\ngather,8,12\nlaunch,1,6\n";
    let table = CostTable::parse(rows, "costs").unwrap();
    table
        .costs_for(&Model::Seq2Seq.cell_types(), Overhead::default())
        .unwrap()
}

fn played(backend: &mut dyn Backend, script: &[Action]) -> Vec<(Nanos, Option<Completion>)> {
    let mut seen = Vec::new();
    let mut tasks = 0;
    for action in script {
        match action {
            Action::Wait(time) => {
                let until = time.map(|time| backend.now() + Nanos(time));
                let completion = backend.wait(until);
                seen.push((backend.now(), completion));
            }
            Action::Submit {
                worker,
                steps,
                gather,
                whole,
                extra,
            } => {
                let members = if *whole {
                    Members::Requests
                } else {
                    Members::Nodes(&|_| ())
                };
                let task = Task::whole_requests(WorkerId(*worker), steps, &[], 1);
                backend.submit(
                    TaskId(tasks),
                    &Task {
                        gather: *gather,
                        extra: *extra,
                        members,
                        batch: 3,
                        ..task
                    },
                    None,
                );
                tasks += 1;
            }
        }
    }
    while let Some(completion) = backend.wait(None) {
        seen.push((backend.now(), Some(completion)));
    }
    seen
}
