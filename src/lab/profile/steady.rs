//! Trains of tasks that run back to back on each worker, submitted at once, so that no task waits for the host.

use std::iter::repeat_n;
use std::ops::Range;

use super::samples::{ProfileClock, STEPS, TASKS, TaskKind, TimedTask, as_seen};
use super::targets::{ProfileTarget, shape_with_input};
use super::{NetworkProfile, ProfileSubject, build_requests, id_of};
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::task::{Completion, MemberList, NodeRef, Part, Step, Task};
use crate::core::workload::dnn::ListedOperator;
use crate::core::workload::model::Model;
use crate::core::workload::shape::{MAX_LENGTH, Shape};
use crate::core::workload::trace::Requests;
use crate::lab::run::executor::Preparation;

/// The tasks of a train, of which the first and the last do not count.
const TRAIN: usize = 6;

/// The tasks of a train on a GPU, where tasks that end before the host's first look do not count either.
const SEEN_TRAIN: usize = 32;

/// The trains of each length of tasks in persistent kernels.
const LAUNCH_TRAINS: u32 = 3;

/// The number of members after which a batch size has run often enough. Small batches are noisier, so they run more
/// often.
pub(super) const ROWS: u32 = 256;

/// The most trains of a batch size.
const MOST_TRAINS: u32 = 16;

/// The words of a typical sentence. In a batch of sentences, one member in this number ends with each step.
pub(super) const WORDS: u32 = 20;

/// The sets of requests on which an operator is measured.
const SETS: usize = 8;

/// What trains run: one cell on members of two sets of requests, or two cells that alternate, each on its own set.
#[derive(Debug)]
pub struct SteadyBench {
    cells: [String; 2],
    shapes: [Shape; 2],
    input: u32,
}

impl SteadyBench {
    /// One cell on members of two sets of equal requests.
    fn single_cell(cell: &str, shape: &Shape, input: u32) -> SteadyBench {
        SteadyBench {
            cells: [cell.to_string(), cell.to_string()],
            shapes: [shape.clone(), shape.clone()],
            input,
        }
    }

    /// The kinds of tasks that are measured, of which a size may be doubtful.
    pub fn kinds(&self) -> &'static [TaskKind] {
        let [cell, other] = &self.cells;
        if cell == other {
            &TASKS
        } else {
            &[TaskKind::Switched]
        }
    }

    /// The cell and one of its requests, if one cell runs in long chains.
    pub fn chain(&self) -> Option<(&str, &Shape)> {
        let [cell, other] = &self.cells;
        let is_chain = matches!(self.shapes[0], Shape::Chain(_) | Shape::Seq2Seq { .. });
        if is_chain && cell == other {
            Some((cell, &self.shapes[0]))
        } else {
            None
        }
    }
}

/// What trains run for a network.
pub fn benches(wanted: &ProfileTarget) -> Vec<SteadyBench> {
    match &wanted.model {
        Model::Lstm | Model::Gru => wanted
            .cells
            .iter()
            .map(|cell| SteadyBench::single_cell(cell, &Shape::Chain(MAX_LENGTH), 0))
            .collect(),
        Model::Seq2Seq => {
            let shapes = [(MAX_LENGTH, 1), (1, MAX_LENGTH)]
                .map(|(source, target)| Shape::Seq2Seq { source, target });
            let mut benches = Vec::new();
            for cell in &wanted.cells {
                let shape = &shapes[usize::from(cell != "encoder")];
                benches.push(SteadyBench::single_cell(cell, shape, 0));
            }
            if benches.len() > 1 {
                benches.push(SteadyBench {
                    cells: ["encoder", "decoder"].map(String::from),
                    shapes,
                    input: 0,
                });
            }
            benches
        }
        Model::Dnn(cell) => wanted
            .input_sizes()
            .iter()
            .map(|input| SteadyBench::single_cell(cell, &shape_with_input(*input), *input))
            .collect(),
        _ => Vec::new(),
    }
}

/// Visits each batch size once, on new requests.
pub fn measure(
    bench: &SteadyBench,
    subject: &mut ProfileSubject<'_>,
    batches: &[u32],
    profile: &mut NetworkProfile,
) -> Result<()> {
    let ProfileSubject {
        wanted,
        settings,
        steps,
        ..
    } = *subject;
    let most = batches.iter().max().copied().unwrap_or(1);
    let workers = settings.workers;
    let largest = most as usize;
    let length = if subject.host_observed_times() {
        SEEN_TRAIN
    } else {
        TRAIN
    };
    let single = matches!(wanted.model, Model::Dnn(_));
    let shapes = if single {
        let members: u32 = batches
            .iter()
            .map(|batch| batch * trains_of_size(*batch))
            .sum();
        vec![bench.shapes[0].clone(); (members as usize + largest) * length * workers]
    } else {
        let mut shapes = Vec::new();
        for _ in 0..workers {
            for shape in &bench.shapes {
                shapes.extend(repeat_n(shape.clone(), largest));
            }
        }
        shapes
    };
    let mut fresh = 0;
    let mut members = |worker: usize, set: usize, batch: usize| {
        let first = if single {
            fresh
        } else {
            (2 * worker + set) * largest
        };
        fresh += batch;
        first..first + batch
    };
    let requests = build_requests(shapes, &wanted.model)?;
    let preparation = Preparation {
        batch_sizes: batches.to_vec(),
        ..subject.preparation(most)?
    };
    let mut trains = Trains::with_preparation(subject, &requests, &preparation)?;
    for set in (0..2).filter(|set| bench.cells[*set] == "decoder") {
        let encoder = id_of(&wanted.model, "encoder");
        trains.run_nodes(1, |_, worker| (encoder, 0, members(worker, set, largest)))?;
    }
    let ids = bench
        .cells
        .each_ref()
        .map(|cell| id_of(&wanted.model, cell));
    let turns = ids[0] != ids[1];
    let mut run = |batch: u32, alternate: bool| {
        trains.run_nodes(length, |place, worker| {
            let turn = if alternate { place % 2 } else { 0 };
            let (set, others) = if turns {
                (turn, 0)
            } else {
                (0, turn * batch.div_ceil(WORDS) as usize)
            };
            let members = members(worker, set, batch as usize);
            (
                ids[set],
                bench.input,
                members.start + others..members.end + others,
            )
        })
    };
    // Warm up.
    run(most, turns)?;
    let runs: &[(TaskKind, bool)] = match (single, turns) {
        (true, _) => &[(TaskKind::Task, false)],
        (_, true) => &[(TaskKind::Switched, true)],
        _ => &[(TaskKind::Task, false), (TaskKind::Exchanged, true)],
    };
    for &batch in batches {
        // Two cells that take turns have half as many samples each.
        for _ in 0..trains_of_size(batch) * if turns { 2 } else { 1 } {
            for &(kind, alternate) in runs {
                let train = run(batch, alternate)?;
                for (turn, cell) in bench
                    .cells
                    .iter()
                    .enumerate()
                    .take(if turns { 2 } else { 1 })
                {
                    let durations = train.durations_at(|place| !turns || place % 2 == turn);
                    profile
                        .times
                        .samples(kind, cell, bench.input, batch)
                        .extend(durations);
                }
                if kind == TaskKind::Task {
                    train
                        .gaps()
                        .for_each(|gap| profile.between.entry(batch).or_default().add(gap));
                }
            }
        }
        steps.count()?;
    }
    Ok(())
}

/// The number of trains of a batch size.
fn trains_of_size(batch: u32) -> u32 {
    (ROWS / batch).clamp(1, MOST_TRAINS)
}

/// Measures the operators of a listed network one by one, for devices that do not time the steps of a task. One set of
/// requests runs before the measurement, because a library loads its kernels at their first use.
pub fn measure_operators(
    subject: &mut ProfileSubject<'_>,
    input: u32,
    batch: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let wanted = subject.wanted;
    let workers = subject.settings.workers;
    let size = batch as usize;
    let Some(network) = wanted.model.network() else {
        return Ok(());
    };
    let requests = build_requests(
        vec![shape_with_input(input); (SETS + 1) * workers * size],
        &wanted.model,
    )?;
    let mut trains = Trains::start(subject, &requests, batch)?;
    let mut pass = |first: usize, sets: usize, operator: &ListedOperator| {
        trains.run_nodes(sets, |set, worker| {
            let from = ((first + set) * workers + worker) * size;
            (
                operator.cell,
                network.input(operator, input),
                from..from + size,
            )
        })
    };
    for operator in network.operators() {
        pass(0, 1, operator)?;
    }
    for operator in network.operators() {
        let durations = pass(1, SETS, operator)?.durations();
        profile
            .times
            .samples(
                TaskKind::Task,
                &operator.name,
                network.input(operator, input),
                batch,
            )
            .extend(durations);
    }
    Ok(())
}

/// Measures tasks of parts of chains in two lengths. Members stay, because a launch gathers and scatters in any case.
/// If the device runs the cell in traditional kernels, nothing is measured.
pub fn measure_persistent(
    cell: &str,
    subject: &mut ProfileSubject<'_>,
    batches: &[u32],
    profile: &mut NetworkProfile,
) -> Result<()> {
    let ProfileSubject {
        wanted,
        settings,
        steps,
        ..
    } = *subject;
    if subject.engine.traditional().is_some() {
        return batches.iter().try_for_each(|_| steps.count());
    }
    let largest = batches.iter().max().map_or(1, |most| *most as usize);
    let id = id_of(&wanted.model, cell);
    let requests = build_requests(
        vec![Shape::Chain(MAX_LENGTH); settings.workers * largest],
        &wanted.model,
    )?;
    // There is a kernel for each batch size, and most sizes are not measured.
    let mut trains = Trains::start(subject, &requests, 0)?;
    let mut run = |length: usize, batch: u32, times: u32| {
        trains.run_back_to_back(length, |_, worker, supply| {
            let first = worker * largest;
            let parts = supply.parts(first..first + batch as usize, times).collect();
            (
                Step {
                    cell: id,
                    batch,
                    times,
                    input: 0,
                },
                MemberList::Parts(parts),
            )
        })
    };
    for &batch in batches {
        for length in STEPS.into_iter().rev() {
            run(1, batch, length)?;
        }
        for _ in 0..LAUNCH_TRAINS {
            for length in STEPS {
                let durations = run(SEEN_TRAIN, batch, length)?.durations();
                profile
                    .times
                    .samples(TaskKind::Persistent(length), cell, 0, batch)
                    .extend(durations);
            }
        }
        steps.count()?;
    }
    Ok(())
}

/// The next node of each request.
pub(super) struct NodeSupply(Vec<u32>);

impl NodeSupply {
    /// The next parts of some requests, each of this number of nodes.
    pub(super) fn parts(
        &mut self,
        requests: Range<usize>,
        nodes: u32,
    ) -> impl Iterator<Item = Part> {
        let from = requests.start as u32;
        (from..)
            .zip(&mut self.0[requests])
            .map(move |(request, next)| {
                *next += nodes;
                Part {
                    request: RequestId(request.into()),
                    from: NodeId(*next - nodes),
                    to: NodeId(*next),
                }
            })
    }

    /// The next nodes of some requests.
    pub(super) fn nodes(&mut self, requests: Range<usize>) -> Vec<NodeRef> {
        self.parts(requests, 1)
            .map(|part| NodeRef {
                request: part.request,
                node: part.from,
            })
            .collect()
    }
}

/// Runs trains of tasks on one backend.
pub(super) struct Trains<'e> {
    backend: Box<dyn Backend + 'e>,
    now: &'e ProfileClock,
    /// When the backend started, since the start of the profile.
    started: Nanos,
    workers: usize,
    submitted: u64,
    supply: NodeSupply,
    /// Whether task times are those at which the host observed them.
    seen: bool,
}

impl<'e> Trains<'e> {
    fn start(
        subject: &'e mut ProfileSubject<'_>,
        requests: &Requests,
        largest: u32,
    ) -> Result<Trains<'e>> {
        let preparation = subject.preparation(largest)?;
        Trains::with_preparation(subject, requests, &preparation)
    }

    pub(super) fn with_preparation(
        subject: &'e mut ProfileSubject<'_>,
        requests: &Requests,
        preparation: &Preparation,
    ) -> Result<Trains<'e>> {
        let workers = subject.settings.workers;
        let seen = subject.host_observed_times();
        let now = subject.now;
        let started = subject.now.time.get();
        let (backend, _) = subject.start_with(requests, preparation)?;
        Ok(Trains {
            backend,
            now,
            started,
            workers,
            submitted: 0,
            supply: NodeSupply(vec![0; requests.len()]),
            seen,
        })
    }

    /// Runs a train of tasks of single nodes. `task` gives the cell, the input and the requests of the task at a place
    /// for a worker.
    fn run_nodes(
        &mut self,
        length: usize,
        mut task: impl FnMut(usize, usize) -> (CellId, u32, Range<usize>),
    ) -> Result<Train> {
        self.run_back_to_back(length, |place, worker, supply| {
            let (cell, input, requests) = task(place, worker);
            (
                Step {
                    cell,
                    batch: requests.len() as u32,
                    times: 1,
                    input,
                },
                MemberList::Nodes(supply.nodes(requests)),
            )
        })
    }

    /// Runs a train on each worker. `task` gives the task at a place for a worker.
    fn run_back_to_back(
        &mut self,
        length: usize,
        mut task: impl FnMut(usize, usize, &mut NodeSupply) -> (Step, MemberList),
    ) -> Result<Train> {
        self.run_side_by_side(1, length, |place, (worker, _), supply| {
            task(place, worker, supply)
        })
    }

    /// Runs a train on each of the first `streams` streams of each worker. `task` gives the task at a place for a
    /// worker's stream.
    pub(super) fn run_side_by_side(
        &mut self,
        streams: u16,
        length: usize,
        mut task: impl FnMut(usize, (usize, u16), &mut NodeSupply) -> (Step, MemberList),
    ) -> Result<Train> {
        let first = self.submitted;
        let mut requests = Vec::new();
        let lanes: Vec<(usize, u16)> = (0..self.workers)
            .flat_map(|worker| (0..streams).map(move |stream| (worker, stream)))
            .collect();
        for (place, lane) in
            (0..length).flat_map(|place| lanes.iter().map(move |lane| (place, *lane)))
        {
            let (step, members) = task(place, lane, &mut self.supply);
            requests.extend(members.requests());
            let steps = [step];
            let task = Task::whole_requests(WorkerId(lane.0 as u16), &steps, &[], step.cells());
            let task = Task {
                batch: step.batch,
                stream: StreamId(lane.1),
                ..task
            };
            self.backend
                .submit(TaskId(self.submitted), &task, Some(members));
            self.submitted += 1;
        }
        let mut tasks = vec![Vec::with_capacity(length); lanes.len()];
        for _ in first..self.submitted {
            let done = self
                .backend
                .wait(None)
                .ok_or_else(|| Error::failure("a task that was submitted never ended"))?;
            tasks[(done.task.0 - first) as usize % lanes.len()].push(done);
        }
        for tasks in &mut tasks {
            tasks.sort_unstable_by_key(|task: &Completion| task.task);
        }
        self.now
            .time
            .set(self.started.saturating_add(self.backend.now()));
        // A failed request computes nothing, so its time would be wrong.
        match requests
            .into_iter()
            .find_map(|request| self.backend.failure(request))
        {
            Some(reason) => Err(Error::failure(format!("a measured task failed: {reason}"))),
            None => Ok(Train {
                tasks,
                seen: self.seen,
                started: self.started,
                block: self.now.block.get(),
            }),
        }
    }
}

/// The tasks of a train that has run.
pub(super) struct Train {
    /// The completed tasks of each stream of each worker.
    tasks: Vec<Vec<Completion>>,
    seen: bool,
    /// When the backend started, since the start of the profile.
    started: Nanos,
    block: u32,
}

impl Train {
    /// The times of tasks between two others.
    pub(super) fn durations(&self) -> Vec<TimedTask> {
        self.durations_at(|_| true)
    }

    /// The times of the inner tasks at the places that count. On a GPU, tasks that began before the host's first look
    /// do not count.
    fn durations_at(&self, counts: impl Fn(usize) -> bool) -> Vec<TimedTask> {
        let mut tasks: Vec<Vec<(TimedTask, bool)>> = Vec::new();
        for of_stream in &self.tasks {
            let mut timed = Vec::new();
            for (place, task) in of_stream.iter().enumerate() {
                let is_inner = (1..of_stream.len() - 1).contains(&place);
                let is_watched = !self.seen || task.start > of_stream[0].finish;
                timed.push((
                    self.timed_task(task),
                    is_inner && counts(place) && is_watched,
                ));
            }
            tasks.push(timed);
        }
        if self.seen {
            return as_seen(&tasks);
        }
        tasks
            .into_iter()
            .flatten()
            .filter(|(_, counts)| *counts)
            .map(|(timed, _)| timed)
            .collect()
    }

    fn timed_task(&self, task: &Completion) -> TimedTask {
        TimedTask {
            time: task.finish - task.start,
            at: self.started + task.start,
            block: self.block,
        }
    }

    /// The times from the finish of each task to the start of the next.
    fn gaps(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.tasks
            .iter()
            .flat_map(|tasks| tasks.windows(2))
            .map(|pair| pair[1].start.saturating_since(pair[0].finish))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train whose first task is submitted at 100.
    fn train(seen: bool, ends: &[u64]) -> Train {
        let starts = std::iter::once(&100).chain(ends);
        let tasks = (0..)
            .zip(starts.zip(ends))
            .map(|(task, (start, finish))| Completion {
                task: TaskId(task),
                start: Nanos(*start),
                finish: Nanos(*finish),
            });
        Train {
            tasks: vec![tasks.collect()],
            seen,
            started: Nanos::ZERO,
            block: 0,
        }
    }

    fn times(found: Vec<TimedTask>) -> Vec<Nanos> {
        found.iter().map(|one| one.time).collect()
    }

    fn turns(train: &Train) -> [Vec<Nanos>; 2] {
        [0, 1].map(|turn| times(train.durations_at(|place| place % 2 == turn)))
    }

    #[test]
    fn threads_time_each_task_by_themselves() {
        let train = train(false, &[110, 121, 133, 146, 160]);
        assert_eq!(times(train.durations()), [11, 12, 13].map(Nanos));
        assert_eq!(train.durations()[1].at, Nanos(121));
        assert_eq!(
            turns(&train),
            [vec![Nanos(12)], [11, 13].map(Nanos).to_vec()]
        );
    }

    #[test]
    fn tasks_that_the_host_did_not_see_begin_do_not_count() {
        // At the first look, at 140, three tasks have ended and the fourth runs.
        let train = train(true, &[140, 140, 140, 143, 153, 165, 175, 187, 197]);
        assert_eq!(times(train.durations()), [Nanos(11)]);
        assert_eq!(turns(&train), [[Nanos(10)], [Nanos(12)]]);
    }

    #[test]
    fn tasks_that_end_while_they_are_submitted_take_as_long_as_that() {
        assert_eq!(
            times(train(true, &[140, 140, 140, 140]).durations()),
            [Nanos(10)]
        );
    }

    #[test]
    fn requests_go_on_where_they_ended() {
        let mut supply = NodeSupply(vec![0; 6]);
        let part = |request, from, to| Part {
            request: RequestId(request),
            from: NodeId(from),
            to: NodeId(to),
        };
        assert_eq!(
            supply.parts(3..5, 4).collect::<Vec<_>>(),
            [part(3, 0, 4), part(4, 0, 4)]
        );
        assert_eq!(
            supply.parts(3..6, 32).collect::<Vec<_>>(),
            [part(3, 4, 36), part(4, 4, 36), part(5, 0, 32)]
        );
        assert_eq!(
            supply.nodes(5..6),
            [NodeRef {
                request: RequestId(5),
                node: NodeId(32)
            }]
        );
    }
}
