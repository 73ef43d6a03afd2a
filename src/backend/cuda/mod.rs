//! The CUDA backend: the same policies on GPUs.
//!
//! The host decides everything when a task is submitted: which slots of the pool its nodes take their states from and put
//! them to, what is brought together, and what has to be over before. All of it is queued on the task's stream at once, and
//! the device runs on by itself; the host looks at a word of its own memory to see how far it has come (BatchMaker, section
//! 4.3). What GPUs do is behind the trait [`Device`].

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
use super::shared::{GLANCE, LOOKS, OVERSLEEP};
use super::{Answer, Backend};
use crate::clock;
use crate::error::{Error, Result};
use crate::network::Network;
use crate::network::reference::Output;
use crate::task::{Completion, MemberList, Task};
use crate::units::{CellId, Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::trace::Requests;

/// How often a GPU that has work is asked whether it is well: it is a call of the driver's.
const BETWEEN_CALLS: Duration = Duration::from_millis(1);

/// What a run wants of the backend beside its tasks.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The requests whose outputs are fetched ([`Cuda::output`]), ascending.
    pub keep: Vec<RequestId>,
    /// The largest batch of each cell type: batches of all sizes up to it are made ready before the clock starts, others when
    /// they are met.
    pub materialise: Vec<(CellId, u32)>,
    /// The policy's tasks are whole requests or parts of them, whose launches do not signal one by one: what is made ready is of that kind.
    pub several_launches: bool,
    /// The streams of each worker that the policy submits to; 0 where that is not known. Threads take them side by side, and GPUs
    /// make what they materialise ready on each.
    pub streams: u16,
}

/// Workers that are GPUs, on the monotonic clock.
pub struct Cuda<'d, D: Device> {
    epoch: Instant,
    device: &'d mut D,
    cells: Vec<Cell>,
    states: States,
    streams: Streams,
    plans: Plans,
    /// What is used while a task is queued.
    queued: Queued,
    /// Tasks that have finished and were not passed on, by finish, those of one instant by submission.
    due: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
    /// Lists of tasks that are done, kept for their memory.
    spare: Vec<MemberList>,
    /// When each worker was last asked whether it is well.
    asked: Vec<Instant>,
    /// How often a worker that has work is asked.
    between_calls: Duration,
    /// Workers that turned out to be lost while another's task was queued, and why.
    unwell: Vec<(WorkerId, String)>,
    /// Empty, kept for its memory.
    lost: Vec<RequestId>,
}

impl<'d, D: Device> Cuda<'d, D> {
    /// Makes the device ready for a run; the clock starts behind that. `requests` are those of the run, by their ids.
    ///
    /// # Errors
    /// A model without cells for GPUs; memory that is not there.
    pub fn new(
        device: &'d mut D,
        network: Arc<Network>,
        requests: &Requests,
        workers: usize,
        options: &Options,
    ) -> Result<Cuda<'d, D>> {
        check(network.model())?;
        // Of what is not captured there can be more: an operator for each length, a persistent kernel for each number of steps.
        let many = network.operators().is_some() || device.most_steps(1) > 0;
        let room = if many { plans::ROOM_UNCAPTURED } else { plans::ROOM };
        Cuda::with_room(device, network, requests, workers, options, room)
    }

    /// The same for any model, with room for so many plans that are made ready when they are met.
    fn with_room(
        device: &'d mut D,
        network: Arc<Network>,
        requests: &Requests,
        workers: usize,
        options: &Options,
        room: usize,
    ) -> Result<Cuda<'d, D>> {
        let cells = kept::cells(&network);
        let (kept, needs) = Kept::new(&options.keep, &requests.graphs, &network, &cells)?;
        device.begin(workers, &needs).map_err(Error::failed)?;
        let pools = Pools::new((0..workers as u16).map(|worker| device.slots(WorkerId(worker))));
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
            unwell: Vec::new(),
            lost: Vec::new(),
        };
        cuda.materialise(workers, options)?;
        cuda.epoch = clock::now();
        Ok(cuda)
    }

    /// Makes the batches ready that the run's options name, on all streams of each worker. Operators that a file lists are made ready for
    /// the most tokens that the network takes; fewer mostly run in the same kernels.
    fn materialise(&mut self, workers: usize, options: &Options) -> Result<()> {
        let listed = self.states.network().model().network().cloned();
        let count = options.streams.max(1);
        let most = listed.as_ref().and_then(|listed| listed.most_tokens()).unwrap_or(0);
        let longest = self.states.graphs().iter().map(CellGraph::nodes).max().unwrap_or(0) as u32;
        let up_to = |&(cell, largest): &(CellId, u32)| (1..=largest).map(move |rows| (cell, rows));
        let mut batches: Vec<(CellId, u32)> = options.materialise.iter().flat_map(up_to).collect();
        // The largest come first, so that memory is made for them at once.
        batches.sort_by_key(|(_, rows)| Reverse(*rows));
        let streams = (0..workers as u16).flat_map(|worker| (0..count).map(move |id| (worker, id)));
        for stream in streams.map(|(worker, id)| Stream { worker: WorkerId(worker), id: StreamId(id) }) {
            for &(cell, rows) in &batches {
                let Cell { counts_inputs, sized, .. } = self.cells[cell.index()];
                // Nearly all nodes of binary trees have two children.
                let inputs = if counts_inputs { plans::rounded(2 * rows, rows) } else { 0 };
                let tokens = if sized { most } else { 0 };
                let steps = if options.several_launches { longest.min(self.device.most_steps(rows)) } else { 0 };
                let shape = Shape { stream, cell, rows, inputs, tokens, steps, signals: !options.several_launches };
                self.plans.prepare_ahead(shape, self.device).map_err(Error::failed)?;
            }
        }
        Ok(())
    }

    /// What a request came to, if it is kept and has finished.
    pub fn output(&self, request: RequestId) -> Option<Output> {
        self.states.output(request, &*self.device)
    }

    /// What could not be queued has failed; what could is signalled, so that the task ends when it is over. A stream that can't
    /// even signal is of no more use, nor is its worker.
    fn broke_off(&mut self, id: StreamKey, in_flight: &InFlight, fault: &Fault) -> Option<String> {
        let worker = self.streams.stream(id).worker;
        for request in in_flight.members.requests() {
            self.states
                .fail(request, format!("task {} on worker {worker} could not be queued: {fault}", in_flight.task));
        }
        self.streams.clear_rows(id);
        if fault.lost {
            return Some(fault.reason.clone());
        }
        let signalled = self.wait_for_uses(id).and_then(|()| self.device.signal(self.streams.stream(id)));
        match signalled {
            Ok(()) => {
                self.streams.counted(id);
                None
            }
            Err(fault) => Some(fault.reason),
        }
    }

    /// A worker can't be used any more: what is in progress there fails, and so does what needs the states that it held.
    fn lose(&mut self, worker: WorkerId, reason: &str) {
        self.collect(); // What was done by then is done.
        self.write_off(worker, reason);
        self.states.retire(&self.streams, self.device);
    }

    fn write_off(&mut self, worker: WorkerId, reason: &str) {
        self.states.pools().lose(worker, reason);
        self.streams.lose(worker, &mut self.lost);
        for request in self.lost.drain(..) {
            self.states.fail(request, lost(worker, reason));
        }
        self.states.orphan();
    }

    /// Takes what the signals say.
    fn collect(&mut self) {
        if !self.streams.look(&*self.device) {
            return;
        }
        // States that came from a worker are worth something if it was well.
        for worker in (0..self.asked.len() as u16).map(WorkerId) {
            if self.streams.took_from(worker)
                && self.states.pools().lost(worker).is_none()
                && let Err(fault) = self.device.health(worker)
            {
                self.write_off(worker, &fault.reason);
            }
        }
        let now = self.now();
        while let Some((in_flight, start)) = self.streams.complete(now) {
            let InFlight { task, members, outcome, .. } = in_flight;
            for &request in &outcome.ends {
                self.states.finish(request, self.device);
            }
            self.streams.recycle(outcome);
            self.spare.push(members);
            self.due.push(Reverse((now, task, start)));
        }
        self.states.retire(&self.streams, self.device);
    }

    /// Gives the earliest of what has finished.
    fn next_due(&mut self) -> Option<Completion> {
        self.collect();
        self.due.pop().map(|Reverse((finish, task, start))| Completion { task, start, finish })
    }

    /// Asks the workers that have work whether they are well, if they have not been asked for a while.
    fn ask(&mut self, now: Instant) {
        for worker in 0..self.asked.len() {
            let id = WorkerId(worker as u16);
            if now.duration_since(self.asked[worker]) < self.between_calls || !self.streams.is_busy(id) {
                continue;
            }
            self.asked[worker] = now;
            if let Err(fault) = self.device.health(id) {
                self.lose(id, &fault.reason);
            }
        }
    }
}

/// Why the requests failed that were in progress on a worker.
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
        if let Some(reason) = self.states.pools().lost(task.worker) {
            let reason = lost(task.worker, reason);
            members.requests().for_each(|request| self.states.fail(request, reason.clone()));
            self.states.retire(&self.streams, self.device);
            // It comes behind those before it on its stream, which may still wait for other workers.
            let stream = self.streams.open(Stream { worker: task.worker, id: task.stream });
            let in_flight = self.streams.begin(id, submitted, members);
            self.streams.push_lost(stream, in_flight);
            return;
        }
        let stream = self.streams.open(Stream { worker: task.worker, id: task.stream });
        let mut in_flight = self.streams.begin(id, submitted, members);
        let broken = match self.queue(stream, task.steps, &mut in_flight) {
            Ok(()) => None,
            Err(fault) => self.broke_off(stream, &in_flight, &fault),
        };
        self.streams.push(stream, in_flight);
        self.unwell.extend(broken.map(|reason| (task.worker, reason)));
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
            // Nothing comes of itself, so that there is time to sleep.
            sleep(deadline?.saturating_duration_since(clock::now()).saturating_sub(OVERSLEEP));
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
    /// What was made ready ahead stays so for the next run.
    fn drop(&mut self) {
        self.plans.release_met(self.device);
    }
}
