//! The streams: the tasks in flight on each, how far its signal has counted, and which stream waits for which.
//!
//! A stream runs in order, so its own tasks need no synchronisation. If a task uses data that a task of another stream
//! has not finished with, its stream waits for an event on the device. A stream records events only after another
//! stream has waited for it once; from then on it records one after each task, so that others wait no longer than they
//! need.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::device::{Device, DeviceFault, DeviceStream, Event};
use crate::base::units::{Nanos, NodeId, RequestId, TaskId, WorkerId};
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

/// What a task's completion means for requests.
#[derive(Debug, Default)]
pub struct TaskOutcome {
    /// The requests whose chains have left their rows with the task.
    pub left: Vec<RequestId>,
    /// The requests that end with the task.
    pub ends: Vec<RequestId>,
    /// The requests whose states the task copies from other workers, each after the worker that it copies from.
    pub migrated: Vec<(WorkerId, RequestId)>,
}

/// A task whose work is queued on a stream.
#[derive(Debug)]
pub struct InFlight {
    pub task: TaskId,
    pub submitted: Nanos,
    /// The task is done when the stream's signal has reached this count.
    pub signal: u64,
    /// All members, or `None` if they are in rows of chains or in [`TaskOutcome::left`].
    pub members: Option<MemberList>,
    pub outcome: TaskOutcome,
    /// The uses by other streams for which the task waits.
    behind: SmallVec<[Use; 2]>,
    /// When the last of these uses was over.
    cleared: Nanos,
}

impl InFlight {
    pub fn new(
        task: TaskId,
        submitted: Nanos,
        members: Option<MemberList>,
        outcome: TaskOutcome,
    ) -> InFlight {
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

    /// When the task began to run. `before` is the finish of the task before it on the stream.
    fn start(&self, before: Nanos) -> Nanos {
        self.submitted.max(before).max(self.cleared)
    }
}

/// An open stream and the tasks in flight on it.
#[derive(Debug, Default)]
struct OpenStream {
    stream: DeviceStream,
    /// The count that the signal will reach after all queued work.
    last_signal: u64,
    /// The signal's present count.
    done: u64,
    /// When the last finished task finished.
    finish: Nanos,
    in_flight: VecDeque<InFlight>,
    /// Whether another stream has ever waited for it.
    awaited: bool,
    /// The recorded events, each with the count of the signal before it.
    events: VecDeque<(u64, Event)>,
    /// The highest count of each other stream's signal for which this stream waits.
    behind: Vec<u64>,
    /// The uses for which the task that is being queued waits.
    waits: SmallVec<[Use; 2]>,
}

/// The count of the signals of a lost worker, for which nothing waits any more.
const LOST: u64 = u64::MAX;

impl OpenStream {
    fn is_lost(&self) -> bool {
        self.done == LOST
    }

    /// Whether the first task in flight is done, and so are those for which it waited.
    fn has_completed(&self) -> bool {
        self.in_flight
            .front()
            .is_some_and(|first| first.signal <= self.done && first.behind.is_empty())
    }

    /// The task that is running, and since when.
    fn running_task(&self) -> Option<(TaskId, Nanos)> {
        let first = self.in_flight.front()?;
        if first.behind.is_empty() && first.signal > self.done {
            Some((first.task, first.start(self.finish)))
        } else {
            None
        }
    }
}

#[derive(Debug, Default)]
pub struct Streams {
    list: Vec<OpenStream>,
    index: BTreeMap<DeviceStream, StreamKey>,
    /// The outcomes of finished tasks, kept for their memory.
    spare: Vec<TaskOutcome>,
}

impl Streams {
    /// Opens a stream, unless it is open.
    pub fn open(&mut self, stream: DeviceStream) -> StreamKey {
        *self.index.entry(stream).or_insert_with(|| {
            self.list.push(OpenStream {
                stream,
                ..OpenStream::default()
            });
            StreamKey(self.list.len() - 1)
        })
    }

    pub fn stream(&self, id: StreamKey) -> DeviceStream {
        self.list[id.0].stream
    }

    /// The use of a slot by work that is queued now: it is over with the next signal.
    pub fn next_use(&self, id: StreamKey) -> Use {
        Use {
            stream: id,
            signal: self.list[id.0].last_signal + 1,
        }
    }

    /// Notes that the queued work will increment the stream's signal once more.
    pub fn count_signal(&mut self, id: StreamKey) {
        self.list[id.0].last_signal += 1;
    }

    /// Whether the work of a use is done.
    pub fn is_over(&self, used: Use) -> bool {
        used.signal <= self.list[used.stream.0].done
    }

    /// Whether the stream's worker is lost.
    pub fn is_lost(&self, id: StreamKey) -> bool {
        self.list[id.0].is_lost()
    }

    /// Makes a stream wait for a use by another stream, unless it already does.
    pub fn wait_for(
        &mut self,
        id: StreamKey,
        used: Use,
        device: &mut impl Device,
    ) -> Result<(), DeviceFault> {
        let known = self.list[id.0]
            .behind
            .get(used.stream.0)
            .copied()
            .unwrap_or(0);
        if used.stream == id || self.is_over(used) || used.signal <= known {
            return Ok(());
        }
        let other = &mut self.list[used.stream.0];
        other.awaited = true;
        let (count, event) = match other.events.iter().find(|(count, _)| *count >= used.signal) {
            Some(found) => *found,
            None => {
                let new = (other.last_signal, device.record(other.stream)?);
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
        let open = &mut self.list[id.0];
        if open.behind.len() <= used.stream.0 {
            open.behind.resize(used.stream.0 + 1, 0);
        }
        open.behind[used.stream.0] = count;
        open.waits.push(Use {
            stream: used.stream,
            signal,
        });
        Ok(())
    }

    /// Records an event after a stream's last task, if others have ever waited for this stream.
    pub fn record(&mut self, id: StreamKey, device: &mut impl Device) -> Result<(), DeviceFault> {
        let open = &mut self.list[id.0];
        if open.awaited {
            let event = device.record(open.stream)?;
            open.events.push_back((open.last_signal, event));
        }
        Ok(())
    }

    /// An empty outcome, in the memory of an earlier one.
    pub fn new_outcome(&mut self) -> TaskOutcome {
        self.spare.pop().unwrap_or_default()
    }

    /// Adds a task, all of whose work is queued.
    pub fn push(&mut self, id: StreamKey, mut in_flight: InFlight) {
        let open = &mut self.list[id.0];
        in_flight.signal = open.last_signal;
        in_flight.behind = std::mem::take(&mut open.waits);
        open.in_flight.push_back(in_flight);
    }

    /// Adds a task for a lost worker. None of its work is queued; it ends after the tasks before it.
    pub fn push_lost(&mut self, id: StreamKey, in_flight: InFlight) {
        self.push(id, in_flight);
        self.list[id.0].done = LOST;
    }

    /// Takes back an outcome, for its memory.
    pub fn recycle(&mut self, mut outcome: TaskOutcome) {
        outcome.left.clear();
        outcome.ends.clear();
        outcome.migrated.clear();
        self.spare.push(outcome);
    }

    /// Reads the signals. Returns whether a task has finished.
    pub fn read_signals(&mut self, device: &impl Device) -> bool {
        let mut completed = false;
        for open in &mut self.list {
            let Some(first) = open.in_flight.front() else {
                continue;
            };
            if !open.is_lost() {
                open.done = device.signal_count(open.stream);
            }
            completed |= first.signal <= open.done;
            while open
                .events
                .front()
                .is_some_and(|(count, _)| *count <= open.done)
            {
                open.events.pop_front();
            }
        }
        completed
    }

    /// Removes one finished task and returns it with its start. A task that waited for others comes after them.
    pub fn complete(&mut self, now: Nanos) -> Option<(InFlight, Nanos)> {
        let id = self.list.iter().position(OpenStream::has_completed)?;
        let open = &mut self.list[id];
        let in_flight = open.in_flight.pop_front()?;
        let start = in_flight.start(open.finish);
        open.finish = now;
        if open.awaited {
            for other in self.list.iter_mut().flat_map(|open| &mut open.in_flight) {
                let waited = other.behind.len();
                other
                    .behind
                    .retain(|used| used.stream.0 != id || used.signal > in_flight.signal);
                if other.behind.len() < waited {
                    other.cleared = now;
                }
            }
        }
        Some((in_flight, start))
    }

    /// Whether a task is in flight on any stream.
    pub fn are_busy(&self) -> bool {
        self.list.iter().any(|open| !open.in_flight.is_empty())
    }

    /// Whether a task is in flight on a worker.
    pub fn is_busy(&self, worker: WorkerId) -> bool {
        self.worker_streams(worker)
            .any(|open| !open.in_flight.is_empty())
    }

    /// The task of a worker that has run longest, and since when.
    pub fn oldest_task(&self, worker: WorkerId) -> Option<(TaskId, Nanos)> {
        self.worker_streams(worker)
            .filter_map(OpenStream::running_task)
            .min_by_key(|(_, since)| *since)
    }

    /// Whether a finished task copied states from a worker.
    pub fn have_copied_from(&self, worker: WorkerId) -> bool {
        let finished = self.list.iter().flat_map(|open| {
            open.in_flight
                .iter()
                .take_while(|in_flight| in_flight.signal <= open.done)
        });
        finished
            .flat_map(|in_flight| &in_flight.outcome.migrated)
            .any(|(from, _)| *from == worker)
    }

    /// Ends the tasks of a lost worker. Returns the requests that fail with it: those of its tasks, and those whose
    /// states were being copied from it.
    pub fn lose(&mut self, worker: WorkerId) -> Vec<RequestId> {
        let mut requests = Vec::new();
        for open in &mut self.list {
            for in_flight in &open.in_flight {
                if open.stream.worker == worker {
                    let members = in_flight.members.iter();
                    requests.extend(members.flat_map(MemberList::requests));
                    requests.extend_from_slice(&in_flight.outcome.left);
                }
                let from_it = in_flight
                    .outcome
                    .migrated
                    .iter()
                    .filter(|(from, _)| *from == worker);
                requests.extend(from_it.map(|(_, request)| *request));
            }
            if open.stream.worker == worker {
                open.done = LOST;
            }
        }
        requests
    }

    fn worker_streams(&self, worker: WorkerId) -> impl Iterator<Item = &OpenStream> {
        self.list
            .iter()
            .filter(move |open| open.stream.worker == worker)
    }
}

/// A row of a gather, with one of its nodes: the one that is queued, or the next.
#[derive(Clone, Copy, Debug)]
pub struct GatheredNode {
    pub request: RequestId,
    pub node: u32,
    /// The last node that the row can run.
    pub last: u32,
    /// Whether the request ends with the row's last node.
    pub ends: bool,
}

impl GatheredNode {
    pub fn node(&self) -> NodeRef {
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
