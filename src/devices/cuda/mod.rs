//! The CUDA backend.
//!
//! The host decides everything when a task is submitted: the slots from which its nodes read their states and to which
//! they write, the gathers, and the uses of these slots that have to be over before. It queues all of this on the
//! task's stream at once, and the device runs asynchronously. To follow its progress, the host reads a word of its own
//! memory (BatchMaker, section 4.3). The trait [`Device`] hides the GPUs.

pub mod device;
#[allow(unsafe_code)]
pub mod gpu;
mod kept;
mod plans;
mod queued;
mod slots;
mod states;
mod streams;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::spin_loop;
use std::sync::Arc;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use self::device::{Device, Fault, Shape, Stream};
pub use self::kept::check;
use self::kept::{Cell, Kept};
use self::plans::Plans;
use self::queued::Queued;
use self::slots::Pools;
use self::states::States;
use self::streams::{InFlight, StreamKey, Streams};
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::core::backend::Output;
use crate::core::backend::{Answer, Backend};
use crate::core::task::{Completion, MemberList, Task};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;
use crate::devices::shared::{GLANCE, LOOKS, OVERSLEEP};

/// How often a busy GPU's health is queried, which is a call to the driver.
const BETWEEN_CALLS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The requests whose outputs are copied to the host ([`Cuda::output`]), ascending.
    pub keep: Vec<RequestId>,
    /// The largest batch of each cell type. Those of its batches that are of one of the `sizes` are prepared before
    /// the clock starts, others when they are first used.
    pub materialise: Vec<(CellId, u32)>,
    /// Empty: all.
    pub sizes: Vec<u32>,
    /// Whether tasks are whole requests or parts of them, whose launches do not signal one by one. Prepared batches are
    /// then of that kind.
    pub several_launches: bool,
    /// The number of streams of each worker that the policy uses; 0 if unknown. Batches are prepared for each of them.
    pub streams: u16,
    /// The worker of a task that runs longer is given up; `None` for [`TASK_LIMIT`].
    pub task_limit: Option<Nanos>,
    /// How many plans are held beside those that were prepared ahead; `None` for as many as the memory is likely to hold.
    pub room: Option<usize>,
}

/// Far above the time of any sensible task.
pub const TASK_LIMIT: Nanos = Nanos(60_000_000_000);

/// A backend whose workers are GPUs, on the host's monotonic clock.
pub struct Cuda<'d, D: Device> {
    epoch: Instant,
    device: &'d mut D,
    cells: Vec<Cell>,
    states: States,
    streams: Streams,
    plans: Plans,
    queued: Queued,
    /// Finished tasks that were not yet reported, by finish, then by submission, with their start.
    due: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
    /// Member lists of finished tasks, kept for their memory.
    spare: Vec<MemberList>,
    asked: Vec<Instant>,
    between_calls: Duration,
    task_limit: Nanos,
    /// Workers found to be lost while a task of another was queued, and why.
    unwell: Vec<(WorkerId, String)>,
}

impl<'d, D: Device> Cuda<'d, D> {
    /// Prepares the device for a run; the clock starts afterwards. `requests` are those of the run, by id. Fails for a
    /// model without GPU cells, or if memory is short.
    pub fn new(
        device: &'d mut D,
        network: Arc<Network>,
        requests: &Requests,
        workers: usize,
        options: &Options,
    ) -> Result<Cuda<'d, D>> {
        check(network.model())?;
        // Plans that are not captured are more numerous: one for each length of an operator, or each number of steps.
        let many = network.operators().is_some() || device.most_steps(1) > 0;
        let room = options.room.unwrap_or(if many {
            plans::ROOM_UNCAPTURED
        } else {
            plans::ROOM
        });
        let cells = kept::cells(&network);
        let (kept, needs) = Kept::new(&options.keep, &requests.graphs, &network, &cells)?;
        let pools = Pools::new(device.begin(workers, &needs).map_err(Error::failed)?);
        let mut cuda = Cuda {
            epoch: clock::now(),
            device,
            cells,
            states: States::new(Arc::clone(&requests.graphs), network, kept, pools),
            streams: Streams::default(),
            plans: Plans::new(room),
            queued: Queued::default(),
            due: BinaryHeap::new(),
            spare: Vec::new(),
            asked: vec![clock::now(); workers],
            between_calls: BETWEEN_CALLS,
            task_limit: options.task_limit.unwrap_or(TASK_LIMIT),
            unwell: Vec::new(),
        };
        cuda.materialise(workers, options)?;
        cuda.epoch = clock::now();
        Ok(cuda)
    }

    /// Prepares the batches that the options name, on all streams of each worker. Operators of listed networks are
    /// prepared for the largest number of tokens; fewer mostly run in the same kernels.
    fn materialise(&mut self, workers: usize, options: &Options) -> Result<()> {
        let listed = self.states.network.model().network().cloned();
        let count = options.streams.max(1);
        let most = listed
            .as_ref()
            .and_then(|listed| listed.most_tokens)
            .unwrap_or(0);
        let longest = self
            .states
            .graphs
            .iter()
            .map(CellGraph::nodes)
            .max()
            .unwrap_or(0) as u32;
        let supported = |rows: &u32| options.sizes.is_empty() || options.sizes.contains(rows);
        let up_to = |&(cell, largest): &(CellId, u32)| {
            (1..=largest)
                .filter(supported)
                .map(move |rows| (cell, rows))
        };
        let mut batches: Vec<(CellId, u32)> = options.materialise.iter().flat_map(up_to).collect();
        // The largest come first, so that memory is allocated once.
        batches.sort_by_key(|(_, rows)| Reverse(*rows));
        let streams = (0..workers as u16).flat_map(|worker| (0..count).map(move |id| (worker, id)));
        for stream in streams.map(|(worker, id)| Stream {
            worker: WorkerId(worker),
            id: StreamId(id),
        }) {
            for &(cell, rows) in &batches {
                let Cell {
                    counts_inputs,
                    sized,
                    ..
                } = self.cells[cell.index()];
                // Nearly all nodes of binary trees have two children.
                let inputs = if counts_inputs {
                    plans::rounded(2 * rows, rows)
                } else {
                    0
                };
                let tokens = if sized { most } else { 0 };
                let steps = if options.several_launches {
                    longest.min(self.device.most_steps(rows))
                } else {
                    0
                };
                let shape = Shape {
                    stream,
                    cell,
                    rows,
                    inputs,
                    tokens,
                    steps,
                    signals: !options.several_launches,
                };
                self.plans
                    .prepare_ahead(shape, self.device)
                    .map_err(Error::failed)?;
            }
        }
        Ok(())
    }

    /// The output of a request, if it is kept and has finished.
    pub fn output(&self, request: RequestId) -> Option<Output> {
        self.states.output(request, &*self.device)
    }

    /// Handles a task that could not be queued completely: its requests fail, and the queued part is signalled, so that
    /// the task ends. If the stream can't even signal, its worker is lost; returns the reason.
    fn broke_off(&mut self, id: StreamKey, in_flight: &InFlight, fault: &Fault) -> Option<String> {
        let worker = self.streams.stream(id).worker;
        for request in in_flight.members.requests() {
            self.states.fail(
                request,
                format!(
                    "task {} on worker {worker} could not be queued: {fault}",
                    in_flight.task
                ),
            );
        }
        self.streams.clear_rows(id);
        self.queued.copies.clear();
        if fault.lost {
            return Some(fault.reason.clone());
        }
        self.wait_for_uses(id)
            .and_then(|()| self.copy_and_signal(id))
            .err()
            .map(|fault| fault.reason)
    }

    /// Gives up a worker: its tasks in flight fail, as do all requests that need the states that it holds.
    fn lose(&mut self, worker: WorkerId, reason: &str) {
        self.collect(); // What was done by then is done.
        self.write_off(worker, reason);
        self.states.retire(&self.streams, self.device);
    }

    fn write_off(&mut self, worker: WorkerId, reason: &str) {
        self.states.pools.lose(worker, reason);
        for request in self.streams.lose(worker) {
            self.states.fail(request, lost(worker, reason));
        }
        self.states.orphan();
    }

    fn collect(&mut self) {
        if !self.streams.look(&*self.device) {
            return;
        }
        // States copied from a worker are valid only if that worker was well.
        for worker in (0..self.asked.len() as u16).map(WorkerId) {
            if self.streams.took_from(worker)
                && self.states.pools.lost(worker).is_none()
                && let Err(fault) = self.device.health(worker)
            {
                self.write_off(worker, &fault.reason);
            }
        }
        let now = self.now();
        while let Some((in_flight, start)) = self.streams.complete(now) {
            let InFlight {
                task,
                members,
                outcome,
                ..
            } = in_flight;
            for &request in &outcome.ends {
                self.states.finish(request, self.device);
            }
            self.streams.recycle(outcome);
            self.spare.push(members);
            self.due.push(Reverse((now, task, start)));
        }
        self.states.retire(&self.streams, self.device);
    }

    fn next_due(&mut self) -> Option<Completion> {
        self.collect();
        self.due
            .pop()
            .map(|Reverse((finish, task, start))| Completion {
                task,
                start,
                finish,
            })
    }

    /// Queries the health of busy workers, if the last query was long enough ago, and gives up those that hang.
    fn ask(&mut self, now: Instant) {
        for worker in 0..self.asked.len() {
            let id = WorkerId(worker as u16);
            if now.duration_since(self.asked[worker]) < self.between_calls
                || !self.streams.is_busy(id)
            {
                continue;
            }
            self.asked[worker] = now;
            let time = |since: Nanos| self.now().saturating_since(since);
            let hangs = self
                .streams
                .oldest(id)
                .filter(|(_, since)| time(*since) > self.task_limit);
            if let Err(fault) = self.device.health(id) {
                self.lose(id, &fault.reason);
            } else if let Some((task, _)) = hangs {
                let limit = self.task_limit;
                let reason = format!(
                    "task {task} has run for more than {limit}, the limit of device.task_limit"
                );
                self.lose(id, &reason);
                self.device.give_up(id, &reason);
            }
        }
    }
}

fn lost(worker: WorkerId, reason: &str) -> String {
    format!("worker {worker} was lost: {reason}")
}

impl<D: Device> Backend for Cuda<'_, D> {
    fn now(&self) -> Nanos {
        Nanos(self.epoch.elapsed().as_nanos() as u64)
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let members = members.expect("the driver lists the members for a backend that wants them");
        let submitted = self.now();
        let stream = self.streams.open(Stream {
            worker: task.worker,
            id: task.stream,
        });
        let mut in_flight = self.streams.begin(id, submitted, members);
        if let Some(reason) = self.states.pools.lost(task.worker) {
            let reason = lost(task.worker, reason);
            in_flight
                .members
                .requests()
                .for_each(|request| self.states.fail(request, reason.clone()));
            self.states.retire(&self.streams, self.device);
            // It ends after the earlier tasks on its stream, which may still wait for other workers.
            self.streams.push_lost(stream, in_flight);
            return;
        }
        std::mem::swap(&mut self.queued.outcome, &mut in_flight.outcome);
        let queued = self.queue(stream, task.steps, &in_flight.members);
        std::mem::swap(&mut self.queued.outcome, &mut in_flight.outcome);
        let broken = queued
            .err()
            .and_then(|fault| self.broke_off(stream, &in_flight, &fault));
        self.streams.push(stream, in_flight);
        self.unwell
            .extend(broken.map(|reason| (task.worker, reason)));
        for (worker, reason) in std::mem::take(&mut self.unwell) {
            self.lose(worker, &reason);
        }
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        if let Some(completion) = self.next_due() {
            return Some(completion);
        }
        let deadline = until.map(|until| self.epoch + Duration::from_nanos(until.0));
        let glance = clock::now() + GLANCE;
        let deadline = deadline.map(|deadline| deadline.min(glance));
        if !self.streams.are_busy() {
            // Nothing is in flight, so there is time to sleep.
            sleep(
                deadline?
                    .saturating_duration_since(clock::now())
                    .saturating_sub(OVERSLEEP),
            );
        }
        loop {
            let now = clock::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return None;
            }
            self.ask(now);
            for _ in 0..LOOKS {
                if let Some(completion) = self.next_due() {
                    return Some(completion);
                }
                spin_loop();
            }
            yield_now();
        }
    }

    fn wants_members(&self) -> bool {
        true
    }

    fn spare(&mut self) -> Option<MemberList> {
        self.spare.pop()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.states.failure(request)
    }

    fn answer(&self, request: RequestId) -> Option<Answer> {
        self.output(request).map(Answer::Output)
    }
}

impl<D: Device> Drop for Cuda<'_, D> {
    /// Plans that were prepared ahead stay for the next run.
    fn drop(&mut self) {
        self.plans.release_met(self.device);
    }
}
