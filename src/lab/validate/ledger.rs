//! The error ledger: which part of the model causes the gap between a real run and its simulation.
//!
//! A run differs from its simulation in the durations of tasks, the dispatch (late completions, late starts on idle
//! workers) and the arrivals at the policy. With all three as recorded, the simulation should equal the real run. Then
//! each term is replaced by the model's, one at a time; the change of latency is its effect.
//!
//! Recorded times are used in order. While decisions equal those of the run, each task has its own time; after that, it
//! has the times of similar tasks.

use std::collections::{BTreeMap, HashMap};
use std::iter::Cycle;
use std::sync::atomic::AtomicBool;
use std::vec;

use smallvec::SmallVec;

use super::recording::Recording;
use super::replay::{Replay, replay};
use super::results::RecordedPoint;
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, RequestId, Share, StreamId, TaskId, WorkerId};
use crate::core::backend::watcher::{Watch, Watcher};
use crate::core::cost::MemberKind;
use crate::core::cost::table::TableCosts;
use crate::core::cost::task_times::TaskTimes;
use crate::core::cost::timing::{Start, Timing};
use crate::core::record::RecordOptions;
use crate::core::record::full::FullRecord;
use crate::core::sim;
use crate::core::summary::warmup::Warmup;
use crate::core::summary::{Measure, Times, summarize};
use crate::core::task::{MemberList, Step, Task, distinct_cells};
use crate::core::workload::arrivals::{OpenLoop, RequestSupply};
use crate::core::workload::trace::{Request, Requests};
use crate::lab::run::inputs::RunInputs;
use crate::lab::scenario::LoadPoint;

/// A part of the model whose effect is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Term {
    Durations,
    /// From the first instant at which a task could be decided to its start.
    Dispatch,
    Arrivals,
}

impl Term {
    pub const ALL: [Term; 3] = [Term::Durations, Term::Dispatch, Term::Arrivals];
}

/// The latencies of the same requests in the real run and in simulations.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub real: Times,
    pub recorded: Times,
    /// The latencies if the model replaces one term, for each of [`Term::ALL`].
    pub replaced: [Times; Term::ALL.len()],
    pub model: Times,
}

impl Ledger {
    /// The change of the mean latency if the model replaces a term, as a share of the real mean.
    pub fn effect(&self, term: Term) -> Option<f64> {
        let place = Term::ALL.iter().position(|other| *other == term)?;
        Some((self.replaced[place].mean_ms? - self.recorded.mean_ms?) / self.real.mean_ms?)
    }

    /// The term with the largest effect, if any.
    pub fn owner(&self) -> Option<Term> {
        let size = |term: &Term| self.effect(*term).unwrap_or(0.0).abs();
        Term::ALL
            .into_iter()
            .filter(|term| size(term) > 0.0)
            .max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// The work of a task, which is the key of its recorded durations: steps, whether it gathers, the kind of its members,
/// and the extra times of the host, while the device idles, and of the device.
type TaskSignature = (SmallVec<[Step; 2]>, bool, MemberKind, Nanos, Nanos);

fn signature(task: &Task<'_>) -> TaskSignature {
    (
        SmallVec::from_slice(task.steps),
        task.gather,
        MemberKind::from_members(&task.members),
        task.extra.host_during,
        task.extra.device,
    )
}

/// Replays a recorded run. With a simulated device, and if the replay equals the logs, also computes the ledger.
pub fn replay_with_ledger(
    inputs: &RunInputs<'_>,
    point: &RecordedPoint,
    model: Option<&TableCosts>,
) -> Result<(Replay, Option<Ledger>)> {
    let recording = Recording::read(&point.folder, &inputs.steps)?;
    let mut alone = model.cloned();
    let mut tasks = Vec::new();
    let mut last: BTreeMap<(WorkerId, StreamId), CellId> = BTreeMap::new();
    let mut see = |_: TaskId, task: &Task<'_>, _: Option<&MemberList>| {
        let Some(model) = &mut alone else { return };
        let lane = (task.worker, task.stream);
        let before = last.get(&lane).copied();
        last.extend(task.steps.last().map(|step| (lane, step.cell)));
        tasks.push((signature(task), model.duration(task, before)));
    };
    let replay = replay(
        inputs,
        point,
        &recording,
        Watcher {
            watch: Watch::default(),
            see: &mut see,
            queued: None,
        },
    )?;
    let model = model.filter(|_| replay.difference.is_none());
    let ledger = model
        .map(|model| ledger(inputs, point, &recording, &replay, &tasks, model))
        .transpose()?;
    Ok((replay, ledger))
}

/// Computes the ledger of a run. `tasks` are in the order of submission, with the times of the simulated device
/// `model`.
fn ledger(
    inputs: &RunInputs<'_>,
    point: &RecordedPoint,
    recording: &Recording,
    replay: &Replay,
    tasks: &[(TaskSignature, Nanos)],
    model: &TableCosts,
) -> Result<Ledger> {
    if let LoadPoint::Clients(_) = point.run.load {
        return Err(Error::input(format!(
            "{}: in a closed loop arrivals follow from the run, so that they can't be replaced; a ledger needs an open loop",
            point.folder.display()
        )));
    }
    let requests = inputs.requests(point.run.replication)?;
    let recorder = &replay.record;
    let real = summarize(recorder, &inputs.measure(point.run.load));
    // Every simulation counts the same requests.
    let measure = Measure {
        warmup: Warmup::Requests(u32::try_from(real.warmup).unwrap_or(u32::MAX)),
        ..inputs.measure(point.run.load)
    };
    let latency = |by_model: &[Term]| -> Result<Times> {
        let recorded = |term: Term| !by_model.contains(&term);
        let timing = HybridTiming {
            durations: recorded(Term::Durations).then(|| RecordedDurations::new(recorder, tasks)),
            dispatch: recorded(Term::Dispatch).then(|| DispatchDelays::new(recorder, recording)),
            model: TaskTimes::new(model.clone(), &requests.graphs),
        };
        let handled: Box<dyn Iterator<Item = Nanos>> = match recorded(Term::Arrivals) {
            true => Box::new(recording.handovers()),
            false => Box::new(
                recorder
                    .arrival
                    .iter()
                    .copied()
                    .filter(|at| *at != Nanos::MAX),
            ),
        };
        let arrived = RecordedSupply {
            requests: &requests,
            arrivals: &recorder.arrival,
            next: 0,
        };
        let mut run = inputs.prepare(&point.run, RecordOptions::default())?;
        run.source = Box::new(OpenLoop::from_supply(arrived, handled));
        let mut backend = sim::backend(inputs.workers(), inputs.streams(point.run.policy), timing);
        run.serve(&mut *backend, &AtomicBool::new(false))?;
        // Requests that did not finish in the real run do not count.
        for (finish, _) in run
            .record
            .finish
            .iter_mut()
            .zip(&recorder.finish)
            .filter(|(_, real)| **real == Nanos::MAX)
        {
            *finish = Nanos::MAX;
        }
        Ok(summarize(&run.record, &measure).latency)
    };
    let [durations, dispatch, arrivals] = Term::ALL;
    Ok(Ledger {
        real: real.latency,
        recorded: latency(&[])?,
        replaced: [
            latency(&[durations])?,
            latency(&[dispatch])?,
            latency(&[arrivals])?,
        ],
        model: latency(&Term::ALL)?,
    })
}

/// Requests with their recorded arrivals, which do not depend on when they are handed to the policy.
struct RecordedSupply<'a> {
    requests: &'a Requests,
    arrivals: &'a [Nanos],
    next: usize,
}

impl RequestSupply for RecordedSupply<'_> {
    fn count(&self) -> u64 {
        self.requests.len() as u64
    }

    fn next(&mut self, _: Nanos) -> Request<'_> {
        self.next += 1;
        self.requests.request(
            RequestId(self.next as u64 - 1),
            self.arrivals[self.next - 1],
        )
    }
}

struct HybridTiming {
    durations: Option<RecordedDurations>,
    dispatch: Option<DispatchDelays>,
    model: TaskTimes,
}

impl Timing for HybridTiming {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        match &mut self.dispatch {
            Some(DispatchDelays { idle: gaps, .. }) if idle => Start {
                earliest: submit.saturating_add(gaps.next().unwrap_or_default()),
                gap: Nanos::ZERO,
            },
            Some(dispatch) => Start {
                earliest: submit,
                gap: dispatch.busy.next().unwrap_or_default(),
            },
            None => self.model.start(task, submit, idle),
        }
    }

    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos {
        let by_model = self.model.duration(task, before);
        self.durations
            .as_mut()
            .map_or(by_model, |durations| durations.next(task, by_model))
    }

    /// The share of the device that a task needs. Recorded times already include the effect of concurrent tasks.
    fn demand(&mut self, task: &Task<'_>) -> Share {
        if self.durations.is_some() {
            Share(1)
        } else {
            Timing::demand(&mut self.model, task)
        }
    }

    fn completion_delay(&mut self) -> Nanos {
        self.dispatch.as_mut().map_or(Nanos::ZERO, |dispatch| {
            dispatch.notices.next().unwrap_or_default()
        })
    }
}

/// Recorded times, which are used in order and start over after the last.
type RecordedTimes = Cycle<vec::IntoIter<Nanos>>;

/// The delays between decisions and work in a recorded run.
struct DispatchDelays {
    /// The times from the first possible start to the start, if the worker was idle at the submission.
    idle: RecordedTimes,
    /// The times from the first possible start to the start, if the worker was busy at the submission.
    busy: RecordedTimes,
    /// The times from each task's finish until the policy learned of it.
    notices: RecordedTimes,
}

impl DispatchDelays {
    fn new(real: &FullRecord, recording: &Recording) -> DispatchDelays {
        let mut idle = Vec::new();
        let mut busy = Vec::new();
        let mut notices = Vec::new();
        let reports: BTreeMap<_, _> = recording.reports().collect();
        let mut free: BTreeMap<(WorkerId, StreamId), Nanos> = BTreeMap::new();
        for row in &real.execution.tasks {
            let free = free.entry((row.worker, row.stream)).or_default();
            let gaps = if *free <= row.submit {
                &mut idle
            } else {
                &mut busy
            };
            gaps.push(row.start.saturating_since(row.submit.max(*free)));
            *free = row.finish;
            if let Some(report) = reports.get(&row.task) {
                notices.push(report.saturating_since(row.finish));
            }
        }
        let [idle, busy, notices] = [idle, busy, notices].map(|times| times.into_iter().cycle());
        DispatchDelays {
            idle,
            busy,
            notices,
        }
    }
}

/// The durations of tasks in a recorded run.
struct RecordedDurations {
    seen: HashMap<TaskSignature, RecordedTimes>,
    /// The ratios of recorded to modelled times, ascending, by cells and batch size. They serve tasks without a similar
    /// one.
    ratios: BTreeMap<SmallVec<[CellId; 2]>, BTreeMap<u32, Vec<f64>>>,
}

impl RecordedDurations {
    fn new(real: &FullRecord, tasks: &[(TaskSignature, Nanos)]) -> RecordedDurations {
        let mut seen: HashMap<TaskSignature, Vec<Nanos>> = HashMap::new();
        let mut ratios: BTreeMap<_, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for row in &real.execution.tasks {
            let Some((signature, by_model)) = tasks.get(row.task.index()) else {
                continue;
            };
            let took = row.finish.saturating_since(row.start);
            seen.entry(signature.clone()).or_default().push(took);
            let of_batch = ratios
                .entry(row.cells.clone())
                .or_default()
                .entry(row.batch)
                .or_default();
            of_batch.push(took.0 as f64 / by_model.0.max(1) as f64);
        }
        ratios
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .for_each(|ratios| ratios.sort_unstable_by(f64::total_cmp));
        RecordedDurations {
            seen: seen
                .into_iter()
                .map(|(signature, times)| (signature, times.into_iter().cycle()))
                .collect(),
            ratios,
        }
    }

    /// The next recorded time of a task with the same signature. Without one, it is the model's time, corrected by the
    /// median ratios of the nearest batch sizes of the same cells. The median of an even number is the higher middle
    /// one.
    fn next(&mut self, task: &Task<'_>, by_model: Nanos) -> Nanos {
        if let Some(time) = self.seen.get_mut(&signature(task)).and_then(Iterator::next) {
            return time;
        }
        let Some(ratios) = self.ratios.get(&distinct_cells(task.steps)) else {
            return by_model;
        };
        let median = |(batch, ratios): (&u32, &Vec<f64>)| (*batch, ratios[ratios.len() / 2]);
        let below = ratios.range(..=task.batch).next_back().map(median);
        let above = ratios.range(task.batch..).next().map(median);
        let ratio = match (below, above) {
            (Some((low, one)), Some((high, other))) if low < high => {
                one + (other - one) * f64::from(task.batch - low) / f64::from(high - low)
            }
            (one, other) => one.or(other).map_or(1.0, |(_, ratio)| ratio),
        };
        Nanos::round(by_model.0 as f64 * ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::cost::table::{CostTable, Overhead};
    use crate::core::sim;
    use crate::core::task::{Completion, ExtraTime, TaskRow};
    use crate::core::workload::model::Model;
    use crate::core::workload::shared_list::SharedList;

    fn with_task<T>(batch: u32, times: u32, work: impl FnOnce(&Task<'_>) -> T) -> T {
        let steps = [Step {
            cell: CellId(0),
            batch,
            times,
            input: 0,
        }];
        work(&Task {
            batch,
            ..Task::whole_requests(WorkerId(0), &steps, &[], 0)
        })
    }

    /// The durations of tasks, each given as batch, repetitions and nanoseconds. The model gives each step 100 ns.
    fn durations(tasks: &[(u32, u32, u64)]) -> RecordedDurations {
        let cells = Model::Lstm.cell_types();
        let table = CostTable::parse("cell,batch,ns\nlstm,1,100\nlstm,2,100\n", "costs").unwrap();
        let mut model = table.costs_for(&cells, Overhead::default()).unwrap();
        let mut real = FullRecord::new(0, 1, 1, RecordOptions::default());
        let mut submitted = Vec::new();
        for (task, &(batch, times, took)) in (0..).map(TaskId).zip(tasks) {
            let (submit, start, finish) = (Nanos(7), Nanos(9), Nanos(9 + took));
            let cells = smallvec::smallvec![CellId(0)];
            real.execution.tasks.push(TaskRow {
                task,
                worker: WorkerId(0),
                stream: StreamId(0),
                cells,
                batch,
                submit,
                start,
                finish,
            });
            submitted.push(with_task(batch, times, |task| {
                (signature(task), model.duration(task, None))
            }));
        }
        RecordedDurations::new(&real, &submitted)
    }

    /// Runs tasks of these batches on two streams in turn, one every 70 ns.
    fn on_two_streams(timing: impl Timing, batches: &[u32]) -> Vec<TaskRow> {
        let mut backend = sim::backend(1, 2, timing);
        let mut done = Vec::new();
        for (id, batch) in (0..).zip(batches) {
            done.extend(std::iter::from_fn(|| backend.wait(Some(Nanos(70 * id)))));
            let stream = StreamId((id % 2) as u16);
            with_task(*batch, 1, |task| {
                backend.submit(TaskId(id), &Task { stream, ..*task }, None)
            });
        }
        done.extend(std::iter::from_fn(|| backend.wait(None)));
        done.sort_unstable_by_key(|done| done.task);
        let row = |(done, batch): (&Completion, &u32)| TaskRow {
            task: done.task,
            worker: WorkerId(0),
            stream: StreamId((done.task.0 % 2) as u16),
            cells: smallvec::smallvec![CellId(0)],
            batch: *batch,
            submit: Nanos(70 * done.task.0),
            start: done.start,
            finish: done.finish,
        };
        done.iter().zip(batches).map(row).collect()
    }

    #[test]
    fn with_recorded_times_tasks_beside_each_other_take_what_they_took() {
        let table = CostTable::parse(
            "cell,batch,ns\nlstm,4,100\nlstm,8,160\nlaunch,1,20\n",
            "costs",
        )
        .unwrap();
        let model = table
            .costs_for(&Model::Lstm.cell_types(), Overhead::default())
            .unwrap();
        let batches: Vec<u32> = (0..40).map(|id| 1 + id * 5 % 8).collect();
        let rows = on_two_streams(model.clone(), &batches);
        let alone =
            |row: &TaskRow| with_task(row.batch, 1, |task| model.clone().duration(task, None));
        assert!(
            rows.iter().any(|row| row.finish - row.start > alone(row)),
            "some are slowed down"
        );

        let mut real = FullRecord::new(0, 1, 1, RecordOptions::default());
        real.execution.tasks = rows.clone();
        let recording = Recording {
            rounds: Vec::new(),
            reported: Vec::new(),
            tasks: Vec::new(),
            failures: BTreeMap::new(),
            finished: true,
        };
        let submitted = |batch: &u32| {
            with_task(*batch, 1, |task| {
                (signature(task), model.clone().duration(task, None))
            })
        };
        let submitted: Vec<_> = batches.iter().map(submitted).collect();
        let hybrid = HybridTiming {
            durations: Some(RecordedDurations::new(&real, &submitted)),
            dispatch: Some(DispatchDelays::new(&real, &recording)),
            model: TaskTimes::new(model, &SharedList::default()),
        };
        assert_eq!(on_two_streams(hybrid, &batches), rows);
    }

    #[test]
    fn tasks_of_other_extra_times_are_not_alike() {
        with_task(1, 2, |task| {
            let extra = |host_ahead, host_during, device| Task {
                extra: ExtraTime {
                    host_ahead: Nanos(host_ahead),
                    host_during: Nanos(host_during),
                    device: Nanos(device),
                },
                ..*task
            };
            for other in [extra(0, 1, 0), extra(0, 0, 1)] {
                assert_ne!(signature(task), signature(&other));
            }
            assert_eq!(
                signature(task),
                signature(&extra(1, 0, 0)),
                "the task does not take longer for it"
            );
        });
    }

    #[test]
    fn recorded_durations_come_in_their_order_and_over_again() {
        let mut durations = durations(&[(4, 1, 130), (8, 1, 7), (4, 1, 120)]);
        let mut next = |batch| with_task(batch, 1, |task| durations.next(task, Nanos(100))).0;
        assert_eq!(
            [next(4), next(4), next(8), next(4), next(8)],
            [130, 120, 7, 130, 7]
        );
    }

    #[test]
    fn a_task_without_its_like_is_as_far_off_the_model_as_its_neighbours() {
        let mut durations = durations(&[(4, 1, 120), (4, 1, 999), (4, 2, 240), (8, 1, 160)]);
        let mut next = |batch, times: u32| {
            with_task(batch, times, |task| {
                durations.next(task, Nanos(100) * u64::from(times))
            })
            .0
        };
        // The ratios of batch 4 are 1.2, 9.99 and 1.2; that of 8 is 1.6.
        assert_eq!([next(5, 1), next(6, 1), next(6, 3)], [130, 140, 420]);
        assert_eq!(
            [next(1, 1), next(4, 3), next(99, 1)],
            [120, 360, 160],
            "beyond, the nearest"
        );
    }
}
