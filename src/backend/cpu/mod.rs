//! The CPU backend: real networks in real time.
//!
//! A worker is a thread with a queue of its own, or several, each of which has some of its streams. Jobs to a thread and reports from
//! it travel in queues without locks; the states of requests stand in a table with a lock for each request, which is held for
//! copies alone. A thread keeps the rows of a batch in place as long as its members stay.

mod queries;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod whole;
mod worker;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use self::table::Table;
use self::threads::{Cores, Pinned};
pub use self::whole::StepTime;
use self::worker::{Job, Report, Worker};
use super::shared::{GLANCE, OVERSLEEP};
use super::{Answer, Backend};
use crate::clock;
use crate::error::{Error, Result};
use crate::network::Network;
use crate::task::{Completion, MemberList, Task};
use crate::units::{Nanos, RequestId, TaskId, WorkerId};
use crate::workload::trace::Requests;

/// Workers that are threads, on the monotonic clock.
pub struct Cpu {
    epoch: Instant,
    table: Arc<Table>,
    /// A queue for each thread, those of one worker behind each other.
    jobs: Vec<Sender<Job>>,
    /// The threads of a worker.
    lanes: usize,
    reports: Receiver<Report>,
    /// Reports that have come and were not passed on, by finish, those of one instant by submission.
    due: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
    /// Lists of tasks that are done, kept for their memory.
    spare: Vec<MemberList>,
    /// Tasks that were submitted and not passed on.
    unfinished: usize,
    /// The driver has a core of its own, on which it may spin.
    spins: bool,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Held for its end.
    _pinned: Option<Pinned>,
}

/// The threads of each of so many workers that have so many streams: one for each stream, but together no more than there are cores.
pub fn lanes(workers: usize, streams: u16) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    usize::from(streams).min(cores / workers.max(1)).max(1)
}

impl Cpu {
    /// Starts the workers; the clock starts when they are ready. `requests` are those of the run, by their ids. The
    /// calling thread is taken for the driver's: where there are more cores than workers it keeps to one of them until
    /// the value is dropped.
    ///
    /// # Errors
    /// A thread that can't be started.
    pub fn new(network: Arc<Network>, requests: &Requests, workers: usize) -> Result<Cpu> {
        Cpu::start(network, requests, [workers, 1], None)
    }

    /// The same with so many threads for each worker, which its streams share in turn: the tasks of one stream run in order, those
    /// of streams on different threads side by side.
    ///
    /// # Errors
    /// Those of [`Cpu::new`].
    pub fn with_lanes(network: Arc<Network>, requests: &Requests, workers: usize, lanes: usize) -> Result<Cpu> {
        Cpu::start(network, requests, [workers, lanes.max(1)], None)
    }

    /// The same with workers that tell `log` of each step that they run inside of tasks of whole requests, in order. A
    /// driver need not listen before the end of the run.
    ///
    /// # Errors
    /// Those of [`Cpu::new`].
    pub fn logging(network: Arc<Network>, requests: &Requests, workers: usize, log: Sender<StepTime>) -> Result<Cpu> {
        Cpu::start(network, requests, [workers, 1], Some(log))
    }

    fn start(
        network: Arc<Network>,
        requests: &Requests,
        [workers, lanes]: [usize; 2],
        log: Option<Sender<StepTime>>,
    ) -> Result<Cpu> {
        let threads = workers * lanes;
        let mut cores = Cores::share(threads);
        let (reporter, reports) = channel();
        let mut cpu = Cpu {
            epoch: clock::now(),
            table: Arc::new(Table::new(Arc::clone(&requests.graphs), Arc::clone(&network))),
            jobs: Vec::with_capacity(threads),
            lanes,
            reports,
            due: BinaryHeap::new(),
            spare: Vec::new(),
            unfinished: 0,
            spins: cores.spare,
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::with_capacity(threads),
            _pinned: None,
        };
        // Nothing is sent: the queue closes when each worker has dropped its end.
        let (setting_up, ready) = channel::<std::convert::Infallible>();
        for (id, lane) in (0..workers as u16).flat_map(|id| (0..lanes).map(move |lane| (id, lane))) {
            let (sender, jobs) = channel();
            let worker = Worker::new(WorkerId(id), Arc::clone(&network), Arc::clone(&cpu.table), Arc::clone(&cpu.stop))
                .alone(threads == 1)
                .spinning(cores.spare)
                .logging(log.clone());
            let (core, reporter, setting_up) = (cores.for_worker(), reporter.clone(), setting_up.clone());
            let serve = move || {
                core.into_iter().for_each(threads::keep_to);
                // The products of a worker run on its own thread. Without the pool they would run on others, and
                // come to the same.
                let _pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
                drop(setting_up);
                worker.serve(&jobs, &reporter);
            };
            let thread = thread::Builder::new().name(format!("worker {id}.{lane}")).spawn(serve);
            cpu.threads.push(thread.map_err(|cause| Error::failed(format!("worker {id} can't be started: {cause}")))?);
            cpu.jobs.push(sender);
        }
        drop(setting_up);
        let _ = ready.recv();
        cpu._pinned = cores.pin_driver();
        cpu.epoch = clock::now();
        Ok(cpu)
    }

    /// The digest of what a request came to ([`Output::digest`](crate::network::reference::Output::digest)), once it has
    /// finished.
    pub fn digest(&self, request: RequestId) -> Option<u64> {
        self.table.digest(request)
    }

    /// The time on the run's clock.
    fn on_clock(&self, instant: Instant) -> Nanos {
        Nanos(instant.saturating_duration_since(self.epoch).as_nanos() as u64)
    }

    fn note(&mut self, report: Report) {
        let (start, finish) = (self.on_clock(report.start), self.on_clock(report.finish));
        self.due.push(Reverse((finish, report.task, start)));
        self.spare.push(report.members);
    }

    /// Takes what has been reported and gives the earliest.
    fn next_due(&mut self) -> Option<Completion> {
        while let Ok(report) = self.reports.try_recv() {
            self.note(report);
        }
        let Reverse((finish, task, start)) = self.due.pop()?;
        self.unfinished -= 1;
        Some(Completion { task, start, finish })
    }

    /// Waits for a report, but not beyond `deadline`. While nothing runs there is time to sleep even for a driver that
    /// has a core of its own: the next event is at the deadline.
    fn await_report(&self, deadline: Option<Instant>) -> Option<Report> {
        if self.spins && self.unfinished > 0 {
            return threads::spin(&self.reports, deadline);
        }
        let Some(deadline) = deadline else { return self.reports.recv().ok() };
        let sleep = deadline.saturating_duration_since(clock::now()).saturating_sub(OVERSLEEP);
        match self.reports.recv_timeout(sleep) {
            Ok(report) => Some(report),
            Err(_) => threads::spin(&self.reports, Some(deadline)),
        }
    }
}

impl Backend for Cpu {
    fn now(&self) -> Nanos {
        self.on_clock(clock::now())
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let members = members.expect("the driver lists the members for a backend that wants them");
        self.unfinished += 1;
        // A worker outlives its queue: it breaks off in no task.
        let thread = task.worker.index() * self.lanes + task.stream.index() % self.lanes;
        let _ = self.jobs[thread].send(Job { id, steps: SmallVec::from_slice(task.steps), members });
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        if let Some(completion) = self.next_due() {
            return Some(completion);
        }
        if until.is_none() && self.unfinished == 0 {
            return None;
        }
        let now = clock::now();
        let deadline = until.map(|until| (self.epoch + Duration::from_nanos(until.0)).min(now + GLANCE));
        if deadline.is_some_and(|deadline| deadline <= now) {
            return None;
        }
        let report = self.await_report(deadline)?;
        self.note(report);
        self.next_due()
    }

    fn wants_members(&self) -> bool {
        true
    }

    fn spare(&mut self) -> Option<MemberList> {
        self.spare.pop()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.table.failure(request)
    }

    fn answer(&self, request: RequestId) -> Option<Answer> {
        self.digest(request).map(Answer::Digest)
    }
}

impl Drop for Cpu {
    /// Tasks that have not begun are left undone.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
