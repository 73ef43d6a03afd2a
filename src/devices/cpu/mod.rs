//! The CPU backend: it computes networks in real time. A worker is a thread with a queue, or several threads that share
//! its streams. Jobs and reports travel in lock-free queues. The states of requests are in a table with a lock for each
//! request, held only for copies.

mod launches;
mod queries;
mod rows;
mod state_places;
mod table;
#[cfg(test)]
mod tests;
mod threads;
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

use self::table::StateTable;
use self::threads::{Cores, Pinned};
pub use self::worker::StepTime;
use self::worker::{CpuWorker, TaskReport, WorkerJob};
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, RequestId, TaskId, WorkerId};
use crate::core::backend::{Answer, Backend, Launched};
use crate::core::task::{Completion, MemberList, Task};
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;
use crate::devices::waiting::{GLANCE, OVERSLEEP};

/// A backend whose workers are threads, on the monotonic clock.
pub struct Cpu {
    epoch: Instant,
    table: Arc<StateTable>,
    /// The queue of each thread, worker by worker.
    jobs: Vec<Sender<WorkerJob>>,
    /// The number of threads of each worker.
    lanes: usize,
    reports: Receiver<TaskReport>,
    /// The completions to report, ordered by finish, then by submission. The last item is the start of the task.
    due: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
    /// The member lists of completed tasks, kept for their memory.
    spare: Vec<MemberList>,
    unfinished: usize,
    launched: Launched,
    /// Whether the engine has a core of its own and may spin.
    spins: bool,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _pinned: Option<Pinned>,
}

/// The threads of a worker: one for each stream, as long as all threads together have a core each.
pub fn lanes(workers: usize, streams: u16) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    usize::from(streams).min(cores / workers.max(1)).max(1)
}

impl Cpu {
    /// Starts the workers, then the clock. Each worker has `lanes` threads, among which its streams are distributed. If
    /// there are more cores than threads, the calling thread, which is the engine's, keeps to one of them until the
    /// value is dropped. With a `log`, workers send it the time of each step of tasks of whole requests, in order.
    pub fn new(
        network: Arc<Network>,
        requests: &Requests,
        workers: usize,
        lanes: usize,
        log: Option<Sender<StepTime>>,
    ) -> Result<Cpu> {
        let threads = workers * lanes;
        let mut cores = Cores::share(threads);
        let (reporter, reports) = channel();
        let mut cpu = Cpu {
            epoch: clock::now(),
            table: Arc::new(StateTable::new(
                requests.graphs.clone(),
                Arc::clone(&network),
            )),
            jobs: Vec::with_capacity(threads),
            lanes,
            reports,
            due: BinaryHeap::new(),
            spare: Vec::new(),
            unfinished: 0,
            launched: Launched::default(),
            spins: cores.spare,
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::with_capacity(threads),
            _pinned: None,
        };
        // Nothing is sent: the queue closes when all workers have dropped their ends, that is, when they are ready.
        let (setting_up, ready) = channel::<std::convert::Infallible>();
        for (id, lane) in (0..workers as u16).flat_map(|id| (0..lanes).map(move |lane| (id, lane)))
        {
            let (sender, jobs) = channel();
            let network = Arc::clone(&network);
            let table = Arc::clone(&cpu.table);
            let stop = Arc::clone(&cpu.stop);
            let mut worker = CpuWorker::new(WorkerId(id), network, table, stop);
            worker.alone = threads == 1;
            worker.spins = cores.spare;
            worker.log = log.clone();
            let core = cores.free.next();
            let reporter = reporter.clone();
            let setting_up = setting_up.clone();
            let thread = thread::Builder::new()
                .name(format!("worker {id}.{lane}"))
                .spawn(move || {
                    if let Some(core) = core {
                        threads::keep_to(core);
                    }
                    // Without the pool, products would run on other threads than the worker's, with the same results.
                    let _pool = rayon::ThreadPoolBuilder::new()
                        .num_threads(1)
                        .use_current_thread()
                        .build();
                    drop(setting_up);
                    worker.serve(&jobs, &reporter);
                });
            cpu.threads.push(thread.map_err(|cause| {
                Error::failure(format!("worker {id} can't be started: {cause}"))
            })?);
            cpu.jobs.push(sender);
        }
        drop(setting_up);
        let _ = ready.recv();
        cpu._pinned = cores.pin_engine();
        cpu.epoch = clock::now();
        Ok(cpu)
    }

    /// The [digest](crate::core::backend::Output::digest) of a finished request's output.
    pub fn digest(&self, request: RequestId) -> Option<u64> {
        self.table.digest(request)
    }

    /// An instant on the backend's clock.
    fn clock_instant(&self, instant: Instant) -> Nanos {
        instant.saturating_duration_since(self.epoch).into()
    }

    /// Notes a completed task.
    fn note(&mut self, report: TaskReport) {
        let start = self.clock_instant(report.start);
        let finish = self.clock_instant(report.finish);
        self.due.push(Reverse((finish, report.task, start)));
        self.launched += report.launched;
        self.spare.push(report.members);
    }

    /// Takes all reports and returns the earliest completion.
    fn next_due(&mut self) -> Option<Completion> {
        while let Ok(report) = self.reports.try_recv() {
            self.note(report);
        }
        let Reverse((finish, task, start)) = self.due.pop()?;
        self.unfinished -= 1;
        Some(Completion {
            task,
            start,
            finish,
        })
    }

    /// Waits for a report, at most until the deadline. While nothing runs, the next event is at the deadline, so that
    /// the engine sleeps even if it may spin.
    fn await_report(&self, deadline: Option<Instant>) -> Option<TaskReport> {
        if self.spins && self.unfinished > 0 {
            return threads::spin(&self.reports, deadline);
        }
        let Some(deadline) = deadline else {
            return self.reports.recv().ok();
        };
        let sleep = deadline
            .saturating_duration_since(clock::now())
            .saturating_sub(OVERSLEEP);
        match self.reports.recv_timeout(sleep) {
            Ok(report) => Some(report),
            Err(_) => threads::spin(&self.reports, Some(deadline)),
        }
    }
}

impl Backend for Cpu {
    fn now(&self) -> Nanos {
        self.clock_instant(clock::now())
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let members = members.expect("the engine lists the members for a backend that wants them");
        self.unfinished += 1;
        // A worker outlives its queue, so the queue is open.
        let thread = task.worker.index() * self.lanes + task.stream.index() % self.lanes;
        let _ = self.jobs[thread].send(WorkerJob {
            id,
            steps: SmallVec::from_slice(task.steps),
            members,
        });
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        if let Some(completion) = self.next_due() {
            return Some(completion);
        }
        if until.is_none() && self.unfinished == 0 {
            return None;
        }
        let now = clock::now();
        let deadline = until.map(|until| (self.epoch + Duration::from(until)).min(now + GLANCE));
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

    fn launches(&self) -> Option<Launched> {
        Some(self.launched)
    }
}

impl Drop for Cpu {
    /// Stops the workers. Tasks that have not begun do not run.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs.clear();
        for thread in self.threads.drain(..) {
            // If the thread panicked, it has printed the panic.
            let _ = thread.join();
        }
    }
}
