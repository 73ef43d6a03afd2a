//! The lanes: what is in progress on each, how far its signal has counted, and who waits for whom.
//!
//! A lane runs in order, so that nothing has to be said between its own tasks. Where a task uses what another lane's task
//! has not finished with, its lane waits for a mark on the device. A lane that nobody has ever waited for is not marked; from
//! the first time on it is marked behind each of its tasks, so that others wait for no more than they need.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::device::{Device, Fault, Lane, Mark};
use super::rows::Rows;
use crate::task::MemberList;
use crate::units::{CellId, Nanos, RequestId, TaskId, WorkerId};

/// A lane's place among those of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId(u16);

/// A use of something by what is queued on a lane: it is over when the lane's signal has counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The lane.
    pub lane: LaneId,
    /// The count of its signal.
    pub signal: u64,
}

/// From which workers states are taken, and whose.
pub type Carried = Vec<(WorkerId, RequestId)>;

/// A task that is queued and not finished.
#[derive(Debug)]
pub struct Flight {
    /// The task.
    pub task: TaskId,
    /// When it was submitted.
    pub submitted: Nanos,
    /// How far the lane's signal has counted when it is done.
    pub signal: u64,
    /// What it runs.
    pub members: MemberList,
    /// The requests that end with it.
    pub ends: Vec<RequestId>,
    /// The requests whose states it takes from other workers, and from which.
    pub carried: Carried,
    /// What other lanes do that it waits for, and when the last of what it waited for was done.
    behind: SmallVec<[Use; 2]>,
    cleared: Nanos,
}

/// What is known of a lane.
#[derive(Debug)]
struct Queue {
    lane: Lane,
    /// How far its signal will have counted when all that is queued is done.
    queued: u64,
    /// How far it has counted.
    done: u64,
    /// When the last of its tasks finished.
    finish: Nanos,
    /// The tasks that have not finished, in their order.
    flying: VecDeque<Flight>,
    /// Some other lane has waited for it.
    awaited: bool,
    /// Its marks, with the count of its signal that each of them comes behind.
    marks: VecDeque<(u64, Mark)>,
    /// How far each other lane's signal has counted when this one goes on.
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

/// All lanes that have been used.
#[derive(Debug, Default)]
pub struct Lanes {
    queues: Vec<Queue>,
    /// By worker and stream.
    index: Vec<Vec<Option<LaneId>>>,
    /// Lists of finished tasks, kept for their memory.
    spare: Vec<(Vec<RequestId>, Carried)>,
}

impl Lanes {
    /// The lane's place; a lane that is met for the first time gets one.
    pub fn open(&mut self, lane: Lane) -> LaneId {
        let (worker, stream) = (lane.worker.index(), usize::from(lane.stream.0));
        if self.index.len() <= worker {
            self.index.resize_with(worker + 1, Vec::new);
        }
        let streams = &mut self.index[worker];
        if streams.len() <= stream {
            streams.resize(stream + 1, None);
        }
        *streams[stream].get_or_insert_with(|| {
            self.queues.push(Queue {
                lane,
                queued: 0,
                done: 0,
                finish: Nanos::ZERO,
                flying: VecDeque::new(),
                awaited: false,
                marks: VecDeque::new(),
                behind: Vec::new(),
                waits: SmallVec::new(),
                rows: Vec::new(),
            });
            LaneId((self.queues.len() - 1) as u16)
        })
    }

    /// The lane at a place.
    pub fn lane(&self, id: LaneId) -> Lane {
        self.queue(id).lane
    }

    /// The use of what is queued on a lane up to its next signal.
    pub fn next_use(&self, id: LaneId) -> Use {
        Use { lane: id, signal: self.queue(id).queued + 1 }
    }

    /// Work has been queued on a lane that counts its signal up by one.
    pub fn counted(&mut self, id: LaneId) {
        self.queue_mut(id).queued += 1;
    }

    /// Whether a use is over.
    pub fn is_over(&self, used: Use) -> bool {
        used.signal <= self.queue(used.lane).done
    }

    /// Whether a lane's worker is lost.
    pub fn is_lost(&self, id: LaneId) -> bool {
        self.queue(id).is_lost()
    }

    /// The rows of a cell type on a lane.
    pub fn rows(&mut self, id: LaneId, cell: CellId) -> &mut Rows {
        let rows = &mut self.queue_mut(id).rows;
        if rows.len() <= cell.index() {
            rows.resize_with(cell.index() + 1, Rows::default);
        }
        &mut rows[cell.index()]
    }

    /// Forgets what stands in a lane's operands.
    pub fn clear_rows(&mut self, id: LaneId) {
        self.queue_mut(id).rows.iter_mut().for_each(Rows::clear);
    }

    /// Makes a lane go on behind a use of something by another lane. Queues nothing if it does so anyway.
    ///
    /// # Errors
    /// Those of the device.
    pub fn order(&mut self, id: LaneId, used: Use, device: &mut impl Device) -> Result<(), Fault> {
        let known = self.queue(id).behind.get(usize::from(used.lane.0)).copied().unwrap_or(0);
        if used.lane == id || self.is_over(used) || used.signal <= known {
            return Ok(());
        }
        let other = self.queue_mut(used.lane);
        other.awaited = true;
        let (count, mark) = match other.marks.iter().find(|(count, _)| *count >= used.signal) {
            Some(found) => *found,
            None => {
                let new = (other.queued, device.mark(other.lane)?);
                other.marks.push_back(new);
                new
            }
        };
        let last = other.flying.partition_point(|flight| flight.signal < used.signal);
        let signal = other.flying.get(last).map_or(used.signal, |flight| flight.signal);
        let lane = self.lane(id);
        device.wait(lane, mark)?;
        let queue = self.queue_mut(id);
        if queue.behind.len() <= usize::from(used.lane.0) {
            queue.behind.resize(usize::from(used.lane.0) + 1, 0);
        }
        queue.behind[usize::from(used.lane.0)] = count;
        queue.waits.push(Use { lane: used.lane, signal });
        Ok(())
    }

    /// Marks a lane behind its last task, if others wait for it from time to time.
    ///
    /// # Errors
    /// Those of the device.
    pub fn mark(&mut self, id: LaneId, device: &mut impl Device) -> Result<(), Fault> {
        let queue = self.queue_mut(id);
        if queue.awaited {
            let mark = device.mark(queue.lane)?;
            queue.marks.push_back((queue.queued, mark));
        }
        Ok(())
    }

    /// A record for a task that is about to be queued.
    pub fn flight(&mut self, task: TaskId, submitted: Nanos, members: MemberList) -> Flight {
        let (ends, carried) = self.spare.pop().unwrap_or_default();
        Flight { task, submitted, signal: 0, members, ends, carried, behind: SmallVec::new(), cleared: Nanos::ZERO }
    }

    /// All of a task's work has been queued on a lane.
    pub fn push(&mut self, id: LaneId, mut flight: Flight) {
        let queue = self.queue_mut(id);
        flight.signal = queue.queued;
        flight.behind = std::mem::take(&mut queue.waits);
        queue.flying.push_back(flight);
    }

    /// A task comes to a lane whose worker is lost: nothing of it is queued, and it is over when those before it are.
    pub fn push_lost(&mut self, id: LaneId, flight: Flight) {
        self.push(id, flight);
        // The lane may be met for the first time.
        self.queue_mut(id).done = LOST;
    }

    /// Keeps a finished task's lists for their memory.
    pub fn recycle(&mut self, mut ends: Vec<RequestId>, mut carried: Carried) {
        ends.clear();
        carried.clear();
        self.spare.push((ends, carried));
    }

    /// Looks how far the signals have counted. Says whether there is a task that has finished.
    pub fn look(&mut self, device: &impl Device) -> bool {
        let mut landed = false;
        for queue in &mut self.queues {
            let Some(first) = queue.flying.front() else { continue };
            if !queue.is_lost() {
                queue.done = device.signalled(queue.lane);
            }
            landed |= first.signal <= queue.done;
            while queue.marks.front().is_some_and(|(count, _)| *count <= queue.done) {
                queue.marks.pop_front();
            }
        }
        landed
    }

    /// Takes one of the tasks that have finished, as seen at this instant, with its start. One that waited for others comes
    /// behind them.
    pub fn land(&mut self, now: Nanos) -> Option<(Flight, Nanos)> {
        let landed = |queue: &Queue| {
            queue.flying.front().is_some_and(|first| first.signal <= queue.done && first.behind.is_empty())
        };
        let id = self.queues.iter().position(landed)?;
        let queue = &mut self.queues[id];
        let flight = queue.flying.pop_front()?;
        let start = flight.submitted.max(queue.finish).max(flight.cleared);
        queue.finish = now;
        if queue.awaited {
            let is_over = |used: &mut Use| usize::from(used.lane.0) == id && used.signal <= flight.signal;
            for other in self.queues.iter_mut().flat_map(|queue| &mut queue.flying) {
                let waited = other.behind.len();
                other.behind.retain(|used| !is_over(used));
                if other.behind.len() < waited {
                    other.cleared = now;
                }
            }
        }
        Some((flight, start))
    }

    /// Whether tasks are in progress.
    pub fn are_busy(&self) -> bool {
        self.queues.iter().any(|queue| !queue.flying.is_empty())
    }

    /// Whether tasks of a worker are in progress.
    pub fn is_busy(&self, worker: WorkerId) -> bool {
        self.of(worker).any(|queue| !queue.flying.is_empty())
    }

    /// Whether a task that has finished took states from a worker.
    pub fn took_from(&self, worker: WorkerId) -> bool {
        let finished =
            self.queues.iter().flat_map(|queue| queue.flying.iter().take_while(|flight| flight.signal <= queue.done));
        finished.flat_map(|flight| &flight.carried).any(|(from, _)| *from == worker)
    }

    /// A worker is lost: what is in progress there has come to its end. Appends the requests that this takes with it: those
    /// of its tasks, and those whose states were on their way from it.
    pub fn lose(&mut self, worker: WorkerId, requests: &mut Vec<RequestId>) {
        for queue in &mut self.queues {
            for flight in &queue.flying {
                if queue.lane.worker == worker {
                    requests.extend(flight.members.requests());
                }
                requests.extend(flight.carried.iter().filter(|(from, _)| *from == worker).map(|(_, request)| *request));
            }
            if queue.lane.worker == worker {
                queue.done = LOST;
                queue.rows.iter_mut().for_each(Rows::clear);
            }
        }
    }

    fn of(&self, worker: WorkerId) -> impl Iterator<Item = &Queue> {
        self.queues.iter().filter(move |queue| queue.lane.worker == worker)
    }

    fn queue(&self, id: LaneId) -> &Queue {
        &self.queues[usize::from(id.0)]
    }

    fn queue_mut(&mut self, id: LaneId) -> &mut Queue {
        &mut self.queues[usize::from(id.0)]
    }
}
