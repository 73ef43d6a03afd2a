//! The streams: the tasks in flight on each, how far its signal has counted, and which stream waits for which.
//!
//! A stream runs in order, so its own tasks need no synchronisation. If a task uses data that a task of another stream has
//! not finished with, its stream waits for an event on the device. A stream records events only after another stream has
//! waited for it once; from then on it records one after each task, so that others wait no longer than they need.
//!
//! Each stream also holds, for each cell type, the rows in its operands. As long as a batch's nodes are the next nodes of
//! these rows, in the same order, the device continues from the rows that it has, without a gather.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::device::{Device, Event, Fault, Shape, Stream};
use crate::base::units::{CellId, Nanos, NodeId, RequestId, TaskId, WorkerId};
use crate::core::task::{MemberList, NodeRef};

/// The index of a stream in [`Streams`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamKey(usize);

/// A use of a slot by queued work: it is over when the stream's signal has reached this count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub stream: StreamKey,
    pub signal: u64,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub ends: Vec<RequestId>,
    /// The requests whose states it copies from other workers, and from which.
    pub migrated: Vec<(WorkerId, RequestId)>,
}

#[derive(Debug)]
pub struct InFlight {
    pub task: TaskId,
    pub submitted: Nanos,
    /// The stream's signal when it is done.
    pub signal: u64,
    pub members: MemberList,
    pub outcome: Outcome,
    /// Uses by other streams for which it waits, and when the last of these was over.
    behind: SmallVec<[Use; 2]>,
    cleared: Nanos,
}

impl InFlight {
    /// `before`: the finish of the stream's task before.
    fn start(&self, before: Nanos) -> Nanos {
        self.submitted.max(before).max(self.cleared)
    }
}

#[derive(Debug, Default)]
struct Queue {
    stream: Stream,
    /// The signal after all that is queued.
    queued: u64,
    /// The signal's present count.
    done: u64,
    finish: Nanos,
    in_flight: VecDeque<InFlight>,
    /// Whether another stream has ever waited for it.
    awaited: bool,
    /// Its events, each with the count of the signal before it.
    events: VecDeque<(u64, Event)>,
    /// For each other stream the count that this one waits for.
    behind: Vec<u64>,
    /// The uses for which the task that is being queued waits.
    waits: SmallVec<[Use; 2]>,
    rows: Vec<Rows>,
}

/// The count of a lost worker's signals: nothing more is waited for.
const LOST: u64 = u64::MAX;

impl Queue {
    fn is_lost(&self) -> bool {
        self.done == LOST
    }
}

#[derive(Debug, Default)]
pub struct Streams {
    queues: Vec<Queue>,
    index: BTreeMap<Stream, StreamKey>,
    spare: Vec<Outcome>,
}

impl Streams {
    pub fn open(&mut self, stream: Stream) -> StreamKey {
        *self.index.entry(stream).or_insert_with(|| {
            self.queues.push(Queue {
                stream,
                ..Queue::default()
            });
            StreamKey(self.queues.len() - 1)
        })
    }

    pub fn stream(&self, id: StreamKey) -> Stream {
        self.queues[id.0].stream
    }

    /// The use by the work that is queued up to the next signal.
    pub fn next_use(&self, id: StreamKey) -> Use {
        Use {
            stream: id,
            signal: self.queues[id.0].queued + 1,
        }
    }

    /// Queued work will increment the stream's signal.
    pub fn counted(&mut self, id: StreamKey) {
        self.queues[id.0].queued += 1;
    }

    pub fn is_over(&self, used: Use) -> bool {
        used.signal <= self.queues[used.stream.0].done
    }

    pub fn is_lost(&self, id: StreamKey) -> bool {
        self.queues[id.0].is_lost()
    }

    pub fn rows(&mut self, id: StreamKey, cell: CellId) -> &mut Rows {
        let rows = &mut self.queues[id.0].rows;
        if rows.len() <= cell.index() {
            rows.resize_with(cell.index() + 1, Rows::default);
        }
        &mut rows[cell.index()]
    }

    pub fn clear_rows(&mut self, id: StreamKey) {
        self.queues[id.0].rows.iter_mut().for_each(Rows::clear);
    }

    /// Makes a stream wait for a use by another stream, unless it waits for it already.
    pub fn order(
        &mut self,
        id: StreamKey,
        used: Use,
        device: &mut impl Device,
    ) -> Result<(), Fault> {
        let known = self.queues[id.0]
            .behind
            .get(used.stream.0)
            .copied()
            .unwrap_or(0);
        if used.stream == id || self.is_over(used) || used.signal <= known {
            return Ok(());
        }
        let other = &mut self.queues[used.stream.0];
        other.awaited = true;
        let (count, event) = match other.events.iter().find(|(count, _)| *count >= used.signal) {
            Some(found) => *found,
            None => {
                let new = (other.queued, device.record(other.stream)?);
                other.events.push_back(new);
                new
            }
        };
        let last = other
            .in_flight
            .partition_point(|in_flight| in_flight.signal < used.signal);
        let signal = other
            .in_flight
            .get(last)
            .map_or(used.signal, |in_flight| in_flight.signal);
        let stream = self.stream(id);
        device.wait(stream, event)?;
        let queue = &mut self.queues[id.0];
        if queue.behind.len() <= used.stream.0 {
            queue.behind.resize(used.stream.0 + 1, 0);
        }
        queue.behind[used.stream.0] = count;
        queue.waits.push(Use {
            stream: used.stream,
            signal,
        });
        Ok(())
    }

    /// Records an event after a stream's last task, if others have ever waited for this stream.
    pub fn record(&mut self, id: StreamKey, device: &mut impl Device) -> Result<(), Fault> {
        let queue = &mut self.queues[id.0];
        if queue.awaited {
            let event = device.record(queue.stream)?;
            queue.events.push_back((queue.queued, event));
        }
        Ok(())
    }

    pub fn begin(&mut self, task: TaskId, submitted: Nanos, members: MemberList) -> InFlight {
        let outcome = self.spare.pop().unwrap_or_default();
        InFlight {
            task,
            submitted,
            signal: 0,
            members,
            outcome,
            behind: SmallVec::new(),
            cleared: Nanos::ZERO,
        }
    }

    pub fn push(&mut self, id: StreamKey, mut in_flight: InFlight) {
        let queue = &mut self.queues[id.0];
        in_flight.signal = queue.queued;
        in_flight.behind = std::mem::take(&mut queue.waits);
        queue.in_flight.push_back(in_flight);
    }

    /// Adds a task for a lost worker. Nothing of it is queued; it ends after the tasks before it.
    pub fn push_lost(&mut self, id: StreamKey, in_flight: InFlight) {
        self.push(id, in_flight);
        self.queues[id.0].done = LOST;
    }

    pub fn recycle(&mut self, mut outcome: Outcome) {
        outcome.ends.clear();
        outcome.migrated.clear();
        self.spare.push(outcome);
    }

    /// Reads the signals. Returns whether a task has finished.
    pub fn look(&mut self, device: &impl Device) -> bool {
        let mut completed = false;
        for queue in &mut self.queues {
            let Some(first) = queue.in_flight.front() else {
                continue;
            };
            if !queue.is_lost() {
                queue.done = device.signalled(queue.stream);
            }
            completed |= first.signal <= queue.done;
            while queue
                .events
                .front()
                .is_some_and(|(count, _)| *count <= queue.done)
            {
                queue.events.pop_front();
            }
        }
        completed
    }

    /// Takes one finished task with its start. A task that waited for others comes after them.
    pub fn complete(&mut self, now: Nanos) -> Option<(InFlight, Nanos)> {
        let completed = |queue: &Queue| {
            queue
                .in_flight
                .front()
                .is_some_and(|first| first.signal <= queue.done && first.behind.is_empty())
        };
        let id = self.queues.iter().position(completed)?;
        let queue = &mut self.queues[id];
        let in_flight = queue.in_flight.pop_front()?;
        let start = in_flight.start(queue.finish);
        queue.finish = now;
        if queue.awaited {
            let is_over = |used: &mut Use| used.stream.0 == id && used.signal <= in_flight.signal;
            for other in self
                .queues
                .iter_mut()
                .flat_map(|queue| &mut queue.in_flight)
            {
                let waited = other.behind.len();
                other.behind.retain(|used| !is_over(used));
                if other.behind.len() < waited {
                    other.cleared = now;
                }
            }
        }
        Some((in_flight, start))
    }

    pub fn are_busy(&self) -> bool {
        self.queues.iter().any(|queue| !queue.in_flight.is_empty())
    }

    pub fn is_busy(&self, worker: WorkerId) -> bool {
        self.of(worker).any(|queue| !queue.in_flight.is_empty())
    }

    /// The task of a worker that has run longest, and since when.
    pub fn oldest(&self, worker: WorkerId) -> Option<(TaskId, Nanos)> {
        let running = |queue: &Queue| {
            let first = queue
                .in_flight
                .front()
                .filter(|first| first.behind.is_empty() && first.signal > queue.done)?;
            Some((first.task, first.start(queue.finish)))
        };
        self.of(worker)
            .filter_map(running)
            .min_by_key(|(_, since)| *since)
    }

    /// Whether a finished task copied states from a worker.
    pub fn took_from(&self, worker: WorkerId) -> bool {
        let finished = self.queues.iter().flat_map(|queue| {
            queue
                .in_flight
                .iter()
                .take_while(|in_flight| in_flight.signal <= queue.done)
        });
        finished
            .flat_map(|in_flight| &in_flight.outcome.migrated)
            .any(|(from, _)| *from == worker)
    }

    /// Ends the tasks of a lost worker. Returns the requests that fail with it: those of its tasks, and those whose
    /// states were being copied from it.
    pub fn lose(&mut self, worker: WorkerId) -> Vec<RequestId> {
        let mut requests = Vec::new();
        for queue in &mut self.queues {
            for in_flight in &queue.in_flight {
                if queue.stream.worker == worker {
                    requests.extend(in_flight.members.requests());
                }
                let from_it = in_flight
                    .outcome
                    .migrated
                    .iter()
                    .filter(|(from, _)| *from == worker);
                requests.extend(from_it.map(|(_, request)| *request));
            }
            if queue.stream.worker == worker {
                queue.done = LOST;
                queue.rows.iter_mut().for_each(Rows::clear);
            }
        }
        requests
    }

    fn of(&self, worker: WorkerId) -> impl Iterator<Item = &Queue> {
        self.queues
            .iter()
            .filter(move |queue| queue.stream.worker == worker)
    }
}

/// The rows of a cell type's last gather on a stream.
#[derive(Debug, Default)]
pub struct Rows {
    /// That of the launches; `None` before the gather.
    pub shape: Option<Shape>,
    pub members: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub request: RequestId,
    pub node: u32,
    /// The last node that the row can run.
    pub last: u32,
    /// Whether the request ends with the row's last node.
    pub ends: bool,
}

impl Member {
    pub fn at(&self) -> NodeRef {
        NodeRef {
            request: self.request,
            node: NodeId(self.node),
        }
    }

    /// Whether the request ends with the node that was queued last.
    pub fn has_ended(&self) -> bool {
        self.ends && self.node == self.last
    }
}

impl Rows {
    pub fn clear(&mut self) {
        self.shape = None;
        self.members.clear();
    }

    /// Whether these nodes are the next of all rows, in this order.
    pub fn go_on_with(&self, nodes: &[NodeRef]) -> bool {
        let next = |(row, at): (&Member, &NodeRef)| {
            row.request == at.request && at.node.0 == row.node + 1 && at.node.0 <= row.last
        };
        !nodes.is_empty()
            && self.members.len() == nodes.len()
            && self.members.iter().zip(nodes).all(next)
    }

    pub fn go_on(&mut self) {
        self.members.iter_mut().for_each(|row| row.node += 1);
    }
}
