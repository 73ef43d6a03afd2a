//! The CUDA backend.
//!
//! The host decides everything when a task is submitted: which slots its nodes read and write, what is gathered, and
//! which earlier uses of these slots must be over. It queues all of this on the task's stream at once (`launcher`),
//! and the device runs asynchronously. To follow the progress, the host reads a word of its own memory (BatchMaker,
//! section 4.3). The trait [`Device`] hides the GPUs.

pub mod device;
#[allow(unsafe_code)]
pub mod gpu;
mod launcher;
mod outputs;
mod plans;
mod rows;
mod slots;
mod states;
mod streams;
#[cfg(test)]
mod tests;
mod whole;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::spin_loop;
use std::sync::Arc;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use self::device::{Device, DeviceStream};
use self::launcher::Launcher;
pub use self::outputs::check;
use self::streams::{InFlight, TaskOutcome};
use crate::base::clock;
use crate::base::error::Result;
use crate::base::units::{CellId, Nanos, RequestId, TaskId, WorkerId};
use crate::core::backend::{Answer, Backend, Output};
use crate::core::task::{Completion, MemberList, Task};
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;
use crate::devices::waiting::{GLANCE, LOOKS, OVERSLEEP};

/// The time between two queries of a busy GPU's health, each of which is a call of NVIDIA's driver.
const BETWEEN_CALLS: Duration = Duration::from_millis(1);

/// The options of a run on GPUs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The requests whose outputs are copied to the host ([`Cuda::output`]), ascending.
    pub keep: Vec<RequestId>,
    /// The largest batch of each cell type. Batches up to it whose size is one of `sizes` are prepared before the clock
    /// starts, other batches when they are first used.
    pub materialise: Vec<(CellId, u32)>,
    /// The batch sizes to prepare, or all sizes if this is empty.
    pub sizes: Vec<u32>,
    /// Whether tasks are whole requests or parts of them, so that only the last launch of a task is followed by a
    /// signal. Batches are prepared accordingly.
    pub several_launches: bool,
    /// The number of streams of each worker that the policy uses; 0 if unknown. Batches are prepared for each of them.
    pub streams: u16,
    /// The longest time of a task, after which its worker is given up; `None` for [`TASK_LIMIT`].
    pub task_limit: Option<Nanos>,
    /// The number of plans that are held in addition to those prepared ahead, or `None` for as many as the memory is
    /// likely to hold.
    pub room: Option<usize>,
}

/// The default limit on the time of a task, far above the time of any sensible task.
pub const TASK_LIMIT: Nanos = Nanos(60_000_000_000);

/// A backend whose workers are GPUs, on the host's monotonic clock.
pub struct Cuda<'d, D: Device> {
    epoch: Instant,
    launcher: Launcher<'d, D>,
    /// The finished tasks that are not yet reported: finish, task and start. They are ordered by finish, then by
    /// submission.
    due: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
    /// Member lists of finished tasks, kept for their memory.
    spare: Vec<MemberList>,
    /// When the health of each worker was last queried.
    asked: Vec<Instant>,
    between_calls: Duration,
    task_limit: Nanos,
}

impl<'d, D: Device> Cuda<'d, D> {
    /// Prepares the device for a run of these requests; the clock starts afterwards. Fails for a model without GPU
    /// cells, or if memory is short.
    pub fn new(
        device: &'d mut D,
        network: Arc<Network>,
        requests: &Requests,
        workers: usize,
        options: &Options,
    ) -> Result<Cuda<'d, D>> {
        check(network.model())?;
        let launcher = Launcher::new(device, network, requests, workers, options)?;
        Ok(Cuda {
            epoch: clock::now(),
            launcher,
            due: BinaryHeap::new(),
            spare: Vec::new(),
            asked: vec![clock::now(); workers],
            between_calls: BETWEEN_CALLS,
            task_limit: options.task_limit.unwrap_or(TASK_LIMIT),
        })
    }

    /// The output of a request, if it is kept and has finished.
    pub fn output(&self, request: RequestId) -> Option<Output> {
        self.launcher.states.output(request, &*self.launcher.device)
    }

    /// Gives up a worker: its tasks in flight fail, as do all requests that need the states that it holds.
    fn lose(&mut self, worker: WorkerId, reason: &str) {
        // Tasks that finished before count as done.
        self.collect();
        self.write_off(worker, reason);
        self.retire();
    }

    /// Returns the slots of failed requests that have no queued work any more.
    fn retire(&mut self) {
        self.launcher
            .states
            .retire(&self.launcher.streams, self.launcher.device);
    }

    /// Fails the requests that need a lost worker.
    fn write_off(&mut self, worker: WorkerId, reason: &str) {
        let Launcher {
            states, streams, ..
        } = &mut self.launcher;
        states.pools.lose(worker, reason);
        let mut requests = states.running_requests(worker, streams);
        requests.extend(streams.lose(worker));
        for request in requests {
            states.fail(request, worker_lost(worker, reason));
        }
        states.orphan();
    }

    /// Reads the signals, and ends the tasks that have finished.
    fn collect(&mut self) {
        if !self.launcher.streams.read_signals(&*self.launcher.device) {
            return;
        }
        // A state that was copied from a worker is valid only if that worker is not lost.
        for worker in (0..self.asked.len() as u16).map(WorkerId) {
            if self.launcher.streams.have_copied_from(worker)
                && self.launcher.states.pools.lost(worker).is_none()
                && let Err(fault) = self.launcher.device.health(worker)
            {
                self.write_off(worker, &fault.reason);
            }
        }
        let now = self.now();
        while let Some((in_flight, start)) = self.launcher.streams.complete(now) {
            let InFlight {
                task,
                members,
                outcome,
                ..
            } = in_flight;
            for &request in &outcome.ends {
                self.launcher.states.finish(request, self.launcher.device);
            }
            self.launcher.streams.recycle(outcome);
            self.spare.extend(members);
            self.due.push(Reverse((now, task, start)));
        }
        self.retire();
    }

    /// The next completion to report, after reading the signals.
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

    /// The oldest task of a worker, if it has run for longer than the limit.
    fn hanging_task(&self, worker: WorkerId) -> Option<TaskId> {
        let (task, since) = self.launcher.streams.oldest_task(worker)?;
        if self.now().saturating_since(since) > self.task_limit {
            Some(task)
        } else {
            None
        }
    }

    /// Queries the health of busy workers, if the last query was long enough ago, and gives up those that hang.
    fn check_health(&mut self, now: Instant) {
        for worker in 0..self.asked.len() {
            let id = WorkerId(worker as u16);
            if now.duration_since(self.asked[worker]) < self.between_calls
                || !self.launcher.streams.is_busy(id)
            {
                continue;
            }
            self.asked[worker] = now;
            let hanging_task = self.hanging_task(id);
            if let Err(fault) = self.launcher.device.health(id) {
                self.lose(id, &fault.reason);
            } else if let Some(task) = hanging_task {
                let limit = self.task_limit;
                let reason = format!(
                    "task {task} has run for more than {limit}, the limit of device.task_limit"
                );
                self.lose(id, &reason);
                self.launcher.device.give_up(id, &reason);
            }
        }
    }
}

/// The message for requests that fail with a worker.
fn worker_lost(worker: WorkerId, reason: &str) -> String {
    format!("worker {worker} was lost: {reason}")
}

impl<D: Device> Backend for Cuda<'_, D> {
    fn now(&self) -> Nanos {
        self.epoch.elapsed().into()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let submitted = self.now();
        let stream = self.launcher.streams.open(DeviceStream {
            worker: task.worker,
            id: task.stream,
        });
        let members = match members {
            None if self.launcher.follows(stream, task) => None,
            None => Some(MemberList::from_task(task, self.spare.pop())),
            listed => listed,
        };
        if let Some(reason) = self.launcher.states.pools.lost(task.worker) {
            let reason = worker_lost(task.worker, reason);
            let members = members.unwrap_or_else(|| MemberList::from_task(task, self.spare.pop()));
            for request in members.requests() {
                self.launcher.states.fail(request, reason.clone());
            }
            self.retire();
            // The task ends after the earlier tasks of its stream, which may still wait for other workers.
            let in_flight = InFlight::new(id, submitted, Some(members), TaskOutcome::default());
            self.launcher.streams.push_lost(stream, in_flight);
            return;
        }
        let (outcome, lost) = self.launcher.submit(stream, id, task, members.as_ref());
        let in_flight = InFlight::new(id, submitted, members, outcome);
        self.launcher.streams.push(stream, in_flight);
        if let Some(reason) = lost {
            self.launcher.unwell.push((task.worker, reason));
        }
        for (worker, reason) in std::mem::take(&mut self.launcher.unwell) {
            self.lose(worker, &reason);
        }
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        if let Some(completion) = self.next_due() {
            return Some(completion);
        }
        let deadline = until.map(|until| self.epoch + Duration::from(until));
        let glance = clock::now() + GLANCE;
        let deadline = deadline.map(|deadline| deadline.min(glance));
        if !self.launcher.streams.are_busy() {
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
            self.check_health(now);
            for _ in 0..LOOKS {
                if let Some(completion) = self.next_due() {
                    return Some(completion);
                }
                spin_loop();
            }
            yield_now();
        }
    }

    fn spare(&mut self) -> Option<MemberList> {
        self.spare.pop()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.launcher.states.failure(request)
    }

    fn answer(&self, request: RequestId) -> Option<Answer> {
        self.output(request).map(Answer::Output)
    }
}

impl<D: Device> Drop for Cuda<'_, D> {
    /// Plans that were prepared ahead stay for the next run.
    fn drop(&mut self) {
        self.launcher.release_plans();
    }
}
