//! Tasks that are submitted one behind the other, and their times.

use super::supply::{Bench, Supply};
use super::{Profile, Subject, id_of};
use crate::error::{Error, Result};
use crate::experiment::engine::Running;
use crate::task::{Completion, FoldLoop, HostOverhead, MemberList, Members, NodeRef, Part, Step, Task};
use crate::units::{CellId, Nanos, RequestId, StreamId, TaskId, WorkerId};

/// Tasks of a flight. The first and the last have a neighbour that is none of the flight, and do not count.
const FLIGHT: usize = 6;

/// Tasks of a flight on a device whose tasks' times are those at which the host sees them. It does not look while it submits, so
/// that what ends in that time does not count either.
const SEEN_FLIGHT: usize = 32;

/// Small batches fly until so many members have run, so that they have as many samples as their noise asks for.
const ROWS: u32 = 256;
/// But no more often than this.
const MOST_FLIGHTS: u32 = 16;

/// A flight in which two cells take turns has half as many samples of each, so that there are twice as many.
const TURNS: u32 = 2;

fn flights(batch: u32) -> u32 {
    (ROWS / batch).clamp(1, MOST_FLIGHTS)
}

/// Measures each batch size once on fresh requests.
///
/// # Errors
/// As [`super::measure`].
pub fn measure(
    bench: &Bench,
    subject: &mut Subject<'_>,
    batches: &[u32],
    profile: &mut Profile,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Subject { wanted, settings, .. } = *subject;
    let largest = settings.largest();
    let seen = subject.engine.times_are_seen();
    let length = if seen { SEEN_FLIGHT } else { FLIGHT };
    let members = |batch: u32| batch as usize * length * settings.workers;
    // Beside what is measured there is a flight to warm up.
    let nodes =
        batches.iter().map(|batch| members(*batch) * flights(*batch) as usize).sum::<usize>() + members(largest);
    let supply = Supply::new(bench, wanted, settings, nodes)?;
    let backend = subject.start(&supply.requests, largest)?;
    let mut deck = Deck { runway: Runway::new(backend, settings.workers, seen), supply, length };
    let model = &wanted.model;
    let (cell, input) = match bench {
        Bench::Chains { cell, behind, .. } => {
            if let Some(before) = behind {
                for second in [false, true] {
                    deck.run_set(id_of(model, before), second, largest)?;
                }
            }
            (cell, 0)
        }
        Bench::Turns { cells, .. } => {
            let ids = [&cells[0], &cells[1]].map(|cell| id_of(model, cell));
            deck.run_set(ids[0], true, largest)?;
            deck.take_turns(ids, largest)?;
            for &batch in batches {
                for _ in 0..TURNS * flights(batch) {
                    let flown = deck.take_turns(ids, batch)?;
                    for (cell, times) in cells.iter().zip(flown.turns()) {
                        let samples = profile.turns.entry(cell.clone()).or_default().entry(batch).or_default();
                        times.into_iter().for_each(|time| samples.add(time));
                    }
                }
                go_on()?;
            }
            return Ok(());
        }
        Bench::Single { cell, input } => (cell, *input),
    };
    let id = id_of(model, cell);
    deck.fly(id, input, largest, false)?;
    for &batch in batches {
        for _ in 0..flights(batch) {
            let flown = deck.fly(id, input, batch, false)?;
            let samples = profile.cells.entry((cell.clone(), input)).or_default().entry(batch).or_default();
            flown.durations().into_iter().for_each(|time| samples.add(time));
            let between = profile.between.entry(batch).or_default();
            flown.gaps().for_each(|time| between.add(time));
            if deck.supply.goes_on() {
                let exchanged = profile.exchanged.entry(cell.clone()).or_default().entry(batch).or_default();
                deck.fly(id, input, batch, true)?.durations().into_iter().for_each(|time| exchanged.add(time));
            }
        }
        go_on()?;
    }
    Ok(())
}

/// A device with its requests.
struct Deck<'e> {
    runway: Runway<'e>,
    supply: Supply,
    /// The tasks of a flight.
    length: usize,
}

/// A device on which tasks are submitted one behind the other.
pub(super) struct Runway<'e> {
    backend: Box<dyn Running + 'e>,
    workers: usize,
    next_task: u64,
    /// The host gives tasks their times.
    seen: bool,
}

/// The tasks of a flight.
pub(super) struct Flown {
    /// Worker by worker.
    tasks: Vec<Vec<Completion>>,
    /// The host gave them their times.
    seen: bool,
}

impl Flown {
    /// How long tasks took that stood between two others.
    pub fn durations(&self) -> Vec<Nanos> {
        self.of_places(|_| true)
    }

    /// The same for the tasks at even places and for those at odd ones.
    fn turns(&self) -> [Vec<Nanos>; 2] {
        [0, 1].map(|turn| self.of_places(|place| place % 2 == turn))
    }

    /// How long each of some tasks took; where the host gave them their times, how long one of each worker's took on average,
    /// since a host that is held up sees several tasks end at once, and the time of all is what it is nevertheless. What had
    /// begun when it looked first does not count: it did not see that begin.
    fn of_places(&self, counts: impl Fn(usize) -> bool) -> Vec<Nanos> {
        let took = |task: &Completion| task.finish - task.start;
        let of_worker = |tasks: &Vec<Completion>| -> Vec<Nanos> {
            let inner = tasks.iter().enumerate().take(tasks.len() - 1).skip(1);
            let inner: Vec<&Completion> = inner.filter(|(place, _)| counts(*place)).map(|(_, task)| task).collect();
            if !self.seen {
                return inner.into_iter().map(took).collect();
            }
            let first_look = tasks[0].finish;
            let watched = inner.iter().filter(|task| task.start > first_look);
            let (time, count) = watched.fold((0, 0), |(time, count), task| (time + took(task).0, count + 1));
            vec![match time {
                // Tasks that are done as soon as they are submitted take as long as that.
                0 => Nanos((tasks[tasks.len() - 1].finish - tasks[0].start).0 / tasks.len() as u64),
                _ => Nanos(time / count),
            }]
        };
        self.tasks.iter().flat_map(of_worker).collect()
    }

    /// The time from each task to the next.
    fn gaps(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.tasks.iter().flat_map(|tasks| tasks.windows(2)).map(|pair| pair[1].start.saturating_since(pair[0].finish))
    }
}

impl Deck<'_> {
    /// Gives every worker a flight of tasks and waits for them; with `exchange` the members change from task to task.
    fn fly(&mut self, cell: CellId, input: u32, batch: u32, exchange: bool) -> Result<Flown> {
        self.run_flight(input, batch, |place| (cell, exchange && place % 2 == 1))
    }

    /// The same for two cells that take turns, each with members that stay.
    fn take_turns(&mut self, cells: [CellId; 2], batch: u32) -> Result<Flown> {
        self.run_flight(0, batch, |place| (cells[place % 2], place % 2 == 1))
    }

    /// Runs a flight; `at` says what cell runs at each place and whether on the second set of requests.
    fn run_flight(&mut self, input: u32, batch: u32, at: impl Fn(usize) -> (CellId, bool)) -> Result<Flown> {
        let supply = &mut self.supply;
        self.runway.fly(self.length, |place, worker| {
            let (cell, second) = at(place);
            of_nodes(cell, input, supply.take(worker, second, batch as usize))
        })
    }

    /// Runs the next node of every chain of each worker's first or second set.
    fn run_set(&mut self, cell: CellId, second: bool, largest: u32) -> Result<()> {
        for worker in 0..self.runway.workers {
            let nodes = self.supply.take(worker, second, largest as usize);
            let (step, members) = of_nodes(cell, 0, nodes);
            self.runway.submit(step, worker, &members);
        }
        self.runway.land(self.runway.workers).map(drop)
    }
}

/// A task that runs a cell once on each of some nodes.
pub(super) fn of_nodes(cell: CellId, input: u32, nodes: Vec<NodeRef>) -> (Step, MemberList) {
    (Step { cell, batch: nodes.len() as u32, times: 1, input }, MemberList::Nodes(nodes))
}

impl<'e> Runway<'e> {
    pub fn new(backend: Box<dyn Running + 'e>, workers: usize, seen: bool) -> Runway<'e> {
        Runway { backend, workers, next_task: 0, seen }
    }

    /// Gives every worker so many tasks and waits for them; `task` says what each place of a flight runs on each worker: nodes, or parts.
    pub fn fly(&mut self, length: usize, mut task: impl FnMut(usize, usize) -> (Step, MemberList)) -> Result<Flown> {
        let first = self.next_task;
        let mut ran = Vec::new();
        for place in 0..length {
            for worker in 0..self.workers {
                let (step, members) = task(place, worker);
                ran.extend(members.requests());
                self.submit(step, worker, &members);
            }
        }
        let mut flown = vec![Vec::with_capacity(length); self.workers];
        for completion in self.land(length * self.workers)? {
            flown[(completion.task.0 - first) as usize % self.workers].push(completion);
        }
        flown.iter_mut().for_each(|tasks| tasks.sort_unstable_by_key(|task| task.task));
        self.check(&ran)?;
        Ok(Flown { tasks: flown, seen: self.seen })
    }

    fn submit(&mut self, step: Step, worker: usize, members: &MemberList) {
        let steps = [step];
        let nodes = |list: &mut Vec<NodeRef>| {
            if let MemberList::Nodes(nodes) = members {
                list.extend_from_slice(nodes);
            }
        };
        let parts = |list: &mut Vec<Part>| {
            if let MemberList::Parts(parts) = members {
                list.extend_from_slice(parts);
            }
        };
        let requests: Vec<RequestId> = Vec::new();
        let task = Task {
            worker: WorkerId(worker as u16),
            stream: StreamId(0),
            steps: &steps,
            batch: step.batch,
            useful_cells: step.cells(),
            gather: false,
            host: HostOverhead::default(),
            fold_loop: FoldLoop::default(),
            requests: &requests,
            members: if let MemberList::Parts(_) = members { Members::Parts(&parts) } else { Members::Nodes(&nodes) },
        };
        let id = TaskId(self.next_task);
        self.next_task += 1;
        let members = MemberList::of(&task, self.backend.spare());
        self.backend.submit(id, &task, Some(members));
    }

    fn land(&mut self, tasks: usize) -> Result<Vec<Completion>> {
        let next = |_| self.backend.wait(None).ok_or_else(|| Error::failed("a task that was submitted never ended"));
        (0..tasks).map(next).collect()
    }

    /// A request that failed would be measured doing nothing.
    fn check(&mut self, requests: &[RequestId]) -> Result<()> {
        let failed = requests.iter().find_map(|request| self.backend.failure(*request));
        failed.map_or(Ok(()), |reason| Err(Error::failed(format!("a measured task failed: {reason}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks behind each other that the host sees end at these instants; the first is submitted at 100.
    fn flown(seen: bool, ends: &[u64]) -> Flown {
        let starts = std::iter::once(&100).chain(ends);
        let tasks = (0..).zip(starts.zip(ends)).map(|(task, (start, finish))| Completion {
            task: TaskId(task),
            start: Nanos(*start),
            finish: Nanos(*finish),
        });
        Flown { tasks: vec![tasks.collect()], seen }
    }

    #[test]
    fn threads_time_each_task_by_themselves() {
        let times = flown(false, &[110, 121, 133, 146, 160]).durations();
        assert_eq!(times, [11, 12, 13].map(Nanos));
        assert_eq!(flown(false, &[110, 121, 133, 146, 160]).turns(), [vec![Nanos(12)], [11, 13].map(Nanos).to_vec()]);
    }

    #[test]
    fn what_the_host_did_not_see_begin_does_not_count() {
        // Three have ended when it looks first, at 140, and the fourth is under way; then each takes 10 or 12.
        let flight = flown(true, &[140, 140, 140, 143, 153, 165, 175, 187, 197]);
        assert_eq!(flight.durations(), [Nanos(11)]);
        assert_eq!(flight.turns(), [[Nanos(10)], [Nanos(12)]]);
    }

    #[test]
    fn tasks_that_end_while_they_are_submitted_take_as_long_as_that() {
        assert_eq!(flown(true, &[140, 140, 140, 140]).durations(), [Nanos(10)]);
    }
}
