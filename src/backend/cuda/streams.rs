//! The streams: what is in progress on each, how far its signal has counted, and who waits for whom.
//!
//! A stream runs in order, so that nothing has to be said between its own tasks. Where a task uses what another stream's task
//! has not finished with, its stream waits for an event on the device. A stream that nobody has ever waited for is not recorded; from
//! the first time on it is recorded behind each of its tasks, so that others wait for no more than they need.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::device::{Device, Event, Fault, Stream};
use super::rows::Rows;
use crate::task::MemberList;
use crate::units::{CellId, Nanos, RequestId, TaskId, WorkerId};

/// A stream's place among those of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey(u16);

/// A use of something by what is queued on a stream: it is over when the stream's signal has counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The stream.
    pub stream: StreamKey,
    /// The count of its signal.
    pub signal: u64,
}

/// From which workers states are taken, and whose.
pub type Migrated = Vec<(WorkerId, RequestId)>;

/// A task that is queued and not finished.
#[derive(Debug)]
pub struct InFlight {
    /// The task.
    pub task: TaskId,
    /// When it was submitted.
    pub submitted: Nanos,
    /// How far the stream's signal has counted when it is done.
    pub signal: u64,
    /// What it runs.
    pub members: MemberList,
    /// The requests that end with it.
    pub ends: Vec<RequestId>,
    /// The requests whose states it takes from other workers, and from which.
    pub migrated: Migrated,
    /// What other streams do that it waits for, and when the last of what it waited for was done.
    behind: SmallVec<[Use; 2]>,
    cleared: Nanos,
}

/// What is known of a stream.
#[derive(Debug)]
struct Queue {
    stream: Stream,
    /// How far its signal will have counted when all that is queued is done.
    queued: u64,
    /// How far it has counted.
    done: u64,
    /// When the last of its tasks finished.
    finish: Nanos,
    /// The tasks that have not finished, in their order.
    in_flight: VecDeque<InFlight>,
    /// Some other stream has waited for it.
    awaited: bool,
    /// Its events, with the count of its signal that each of them comes behind.
    events: VecDeque<(u64, Event)>,
    /// How far each other stream's signal has counted when this one goes on.
    behind: Vec<u64>,
    /// What the task that is being queued waits for.
    waits: SmallVec<[Use; 2]>,
    /// What stands in the operands of each cell type.
    rows: Vec<Rows>,
}

/// How far the signals of a worker have counted that is lost: nothing more is to be waited for.
const LOST: u64 = u64::MAX;

impl Queue {
    fn is_lost(&self) -> bool {
        self.done == LOST
    }
}

/// All streams that have been used.
#[derive(Debug, Default)]
pub struct Streams {
    queues: Vec<Queue>,
    /// By worker and stream.
    index: Vec<Vec<Option<StreamKey>>>,
    /// Lists of finished tasks, kept for their memory.
    spare: Vec<(Vec<RequestId>, Migrated)>,
}

impl Streams {
    /// The stream's place; a stream that is met for the first time gets one.
    pub fn open(&mut self, stream: Stream) -> StreamKey {
        let (worker, place) = (stream.worker.index(), stream.id.index());
        if self.index.len() <= worker {
            self.index.resize_with(worker + 1, Vec::new);
        }
        let of_worker = &mut self.index[worker];
        if of_worker.len() <= place {
            of_worker.resize(place + 1, None);
        }
        *of_worker[place].get_or_insert_with(|| {
            self.queues.push(Queue {
                stream,
                queued: 0,
                done: 0,
                finish: Nanos::ZERO,
                in_flight: VecDeque::new(),
                awaited: false,
                events: VecDeque::new(),
                behind: Vec::new(),
                waits: SmallVec::new(),
                rows: Vec::new(),
            });
            StreamKey((self.queues.len() - 1) as u16)
        })
    }

    /// The stream at a place.
    pub fn stream(&self, id: StreamKey) -> Stream {
        self.queue(id).stream
    }

    /// The use of what is queued on a stream up to its next signal.
    pub fn next_use(&self, id: StreamKey) -> Use {
        Use { stream: id, signal: self.queue(id).queued + 1 }
    }

    /// Work has been queued on a stream that counts its signal up by one.
    pub fn counted(&mut self, id: StreamKey) {
        self.queue_mut(id).queued += 1;
    }

    /// Whether a use is over.
    pub fn is_over(&self, used: Use) -> bool {
        used.signal <= self.queue(used.stream).done
    }

    /// Whether a stream's worker is lost.
    pub fn is_lost(&self, id: StreamKey) -> bool {
        self.queue(id).is_lost()
    }

    /// The rows of a cell type on a stream.
    pub fn rows(&mut self, id: StreamKey, cell: CellId) -> &mut Rows {
        let rows = &mut self.queue_mut(id).rows;
        if rows.len() <= cell.index() {
            rows.resize_with(cell.index() + 1, Rows::default);
        }
        &mut rows[cell.index()]
    }

    /// Forgets what stands in a stream's operands.
    pub fn clear_rows(&mut self, id: StreamKey) {
        self.queue_mut(id).rows.iter_mut().for_each(Rows::clear);
    }

    /// Makes a stream go on behind a use of something by another stream. Queues nothing if it does so anyway.
    ///
    /// # Errors
    /// Those of the device.
    pub fn order(&mut self, id: StreamKey, used: Use, device: &mut impl Device) -> Result<(), Fault> {
        let known = self.queue(id).behind.get(usize::from(used.stream.0)).copied().unwrap_or(0);
        if used.stream == id || self.is_over(used) || used.signal <= known {
            return Ok(());
        }
        let other = self.queue_mut(used.stream);
        other.awaited = true;
        let (count, event) = match other.events.iter().find(|(count, _)| *count >= used.signal) {
            Some(found) => *found,
            None => {
                let new = (other.queued, device.record(other.stream)?);
                other.events.push_back(new);
                new
            }
        };
        let last = other.in_flight.partition_point(|in_flight| in_flight.signal < used.signal);
        let signal = other.in_flight.get(last).map_or(used.signal, |in_flight| in_flight.signal);
        let stream = self.stream(id);
        device.wait(stream, event)?;
        let queue = self.queue_mut(id);
        if queue.behind.len() <= usize::from(used.stream.0) {
            queue.behind.resize(usize::from(used.stream.0) + 1, 0);
        }
        queue.behind[usize::from(used.stream.0)] = count;
        queue.waits.push(Use { stream: used.stream, signal });
        Ok(())
    }

    /// Marks a stream behind its last task, if others wait for it from time to time.
    ///
    /// # Errors
    /// Those of the device.
    pub fn record(&mut self, id: StreamKey, device: &mut impl Device) -> Result<(), Fault> {
        let queue = self.queue_mut(id);
        if queue.awaited {
            let event = device.record(queue.stream)?;
            queue.events.push_back((queue.queued, event));
        }
        Ok(())
    }

    /// A record for a task that is about to be queued.
    pub fn begin(&mut self, task: TaskId, submitted: Nanos, members: MemberList) -> InFlight {
        let (ends, migrated) = self.spare.pop().unwrap_or_default();
        InFlight { task, submitted, signal: 0, members, ends, migrated, behind: SmallVec::new(), cleared: Nanos::ZERO }
    }

    /// All of a task's work has been queued on a stream.
    pub fn push(&mut self, id: StreamKey, mut in_flight: InFlight) {
        let queue = self.queue_mut(id);
        in_flight.signal = queue.queued;
        in_flight.behind = std::mem::take(&mut queue.waits);
        queue.in_flight.push_back(in_flight);
    }

    /// A task comes to a stream whose worker is lost: nothing of it is queued, and it is over when those before it are.
    pub fn push_lost(&mut self, id: StreamKey, in_flight: InFlight) {
        self.push(id, in_flight);
        // The stream may be met for the first time.
        self.queue_mut(id).done = LOST;
    }

    /// Keeps a finished task's lists for their memory.
    pub fn recycle(&mut self, mut ends: Vec<RequestId>, mut migrated: Migrated) {
        ends.clear();
        migrated.clear();
        self.spare.push((ends, migrated));
    }

    /// Looks how far the signals have counted. Says whether there is a task that has finished.
    pub fn look(&mut self, device: &impl Device) -> bool {
        let mut completed = false;
        for queue in &mut self.queues {
            let Some(first) = queue.in_flight.front() else { continue };
            if !queue.is_lost() {
                queue.done = device.signalled(queue.stream);
            }
            completed |= first.signal <= queue.done;
            while queue.events.front().is_some_and(|(count, _)| *count <= queue.done) {
                queue.events.pop_front();
            }
        }
        completed
    }

    /// Takes one of the tasks that have finished, as seen at this instant, with its start. One that waited for others comes
    /// behind them.
    pub fn complete(&mut self, now: Nanos) -> Option<(InFlight, Nanos)> {
        let completed = |queue: &Queue| {
            queue.in_flight.front().is_some_and(|first| first.signal <= queue.done && first.behind.is_empty())
        };
        let id = self.queues.iter().position(completed)?;
        let queue = &mut self.queues[id];
        let in_flight = queue.in_flight.pop_front()?;
        let start = in_flight.submitted.max(queue.finish).max(in_flight.cleared);
        queue.finish = now;
        if queue.awaited {
            let is_over = |used: &mut Use| usize::from(used.stream.0) == id && used.signal <= in_flight.signal;
            for other in self.queues.iter_mut().flat_map(|queue| &mut queue.in_flight) {
                let waited = other.behind.len();
                other.behind.retain(|used| !is_over(used));
                if other.behind.len() < waited {
                    other.cleared = now;
                }
            }
        }
        Some((in_flight, start))
    }

    /// Whether tasks are in progress.
    pub fn are_busy(&self) -> bool {
        self.queues.iter().any(|queue| !queue.in_flight.is_empty())
    }

    /// Whether tasks of a worker are in progress.
    pub fn is_busy(&self, worker: WorkerId) -> bool {
        self.of(worker).any(|queue| !queue.in_flight.is_empty())
    }

    /// Whether a task that has finished took states from a worker.
    pub fn took_from(&self, worker: WorkerId) -> bool {
        let finished = self
            .queues
            .iter()
            .flat_map(|queue| queue.in_flight.iter().take_while(|in_flight| in_flight.signal <= queue.done));
        finished.flat_map(|in_flight| &in_flight.migrated).any(|(from, _)| *from == worker)
    }

    /// A worker is lost: what is in progress there has come to its end. Appends the requests that this takes with it: those
    /// of its tasks, and those whose states were on their way from it.
    pub fn lose(&mut self, worker: WorkerId, requests: &mut Vec<RequestId>) {
        for queue in &mut self.queues {
            for in_flight in &queue.in_flight {
                if queue.stream.worker == worker {
                    requests.extend(in_flight.members.requests());
                }
                requests
                    .extend(in_flight.migrated.iter().filter(|(from, _)| *from == worker).map(|(_, request)| *request));
            }
            if queue.stream.worker == worker {
                queue.done = LOST;
                queue.rows.iter_mut().for_each(Rows::clear);
            }
        }
    }

    fn of(&self, worker: WorkerId) -> impl Iterator<Item = &Queue> {
        self.queues.iter().filter(move |queue| queue.stream.worker == worker)
    }

    fn queue(&self, id: StreamKey) -> &Queue {
        &self.queues[usize::from(id.0)]
    }

    fn queue_mut(&mut self, id: StreamKey) -> &mut Queue {
        &mut self.queues[usize::from(id.0)]
    }
}
