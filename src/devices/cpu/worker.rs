//! A thread of a worker, which runs its jobs in order.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::launches::{OperatorLauncher, OperatorMemory};
use super::queries::CpuQueries;
use super::rows::CpuRows;
use super::table::StateTable;
use super::threads;
use crate::base::clock;
use crate::base::units::{CellId, Nanos, RequestId, TaskId, WorkerId};
use crate::core::backend::Launched;
use crate::core::task::{Launches, MemberList, NodeRef, Part, Step};
use crate::devices::network::{Network, Scratch};
use crate::devices::ready_list::ReadyList;
use crate::devices::task_checks;

/// How long a worker spins for its next job. Waking up takes as long as many tasks, so this is longer than the gaps
/// between requests at any measured load.
const PATIENCE: Duration = Duration::from_millis(200);

/// A task for a worker.
pub struct WorkerJob {
    pub id: TaskId,
    pub steps: SmallVec<[Step; 1]>,
    pub members: MemberList,
}

impl WorkerJob {
    /// The step and the nodes, if the task is one batch of nodes.
    fn batch(&self) -> Option<(&Step, &[NodeRef])> {
        match (&self.members, &self.steps[..]) {
            (MemberList::Nodes(nodes), [step])
                if step.times == 1 && nodes.len() <= step.batch as usize =>
            {
                Some((step, nodes))
            }
            _ => None,
        }
    }
}

/// A completed task, on the machine's clock.
pub struct TaskReport {
    pub task: TaskId,
    pub start: Instant,
    /// When all states of the task were in place.
    pub finish: Instant,
    /// The member list, returned for its memory.
    pub members: MemberList,
    pub launched: Launched,
}

/// The time of a step in a task of whole requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    pub task: TaskId,
    pub cell: CellId,
    /// The number of rows, with padding.
    pub batch: u32,
    /// The time from before the gather until ended rows are in the table.
    pub time: Nanos,
    /// Whether no row joined or ended at this step.
    pub stayed: bool,
}

/// A thread of a worker.
pub struct CpuWorker {
    id: WorkerId,
    /// Whether this is the only thread, which may hold states back because no other needs them.
    pub alone: bool,
    /// Whether the thread has a core of its own, so that it may spin for its next job.
    pub spins: bool,
    network: Arc<Network>,
    table: Arc<StateTable>,
    stop: Arc<AtomicBool>,
    work: WorkerMemory,
    /// What the present task has launched.
    launched: Launched,
    /// The receiver of the times of steps of whole requests.
    pub log: Option<Sender<StepTime>>,
}

/// What a worker keeps between its jobs, unless one of them panics.
#[derive(Default)]
struct WorkerMemory {
    /// The rows of each cell type.
    batches: Vec<CpuRows>,
    queries: CpuQueries,
    /// The cell type whose rows are newer than the table.
    ahead: Option<CellId>,
    scratch: Scratch,
    operators: OperatorMemory,
    list: ReadyList,
    nodes: Vec<NodeRef>,
}

impl CpuWorker {
    pub fn new(
        id: WorkerId,
        network: Arc<Network>,
        table: Arc<StateTable>,
        stop: Arc<AtomicBool>,
    ) -> CpuWorker {
        let work = WorkerMemory::default();
        let launched = Launched::default();
        CpuWorker {
            id,
            alone: false,
            spins: false,
            network,
            table,
            stop,
            work,
            launched,
            log: None,
        }
    }

    /// Runs jobs until the queue is closed.
    pub fn serve(mut self, jobs: &Receiver<WorkerJob>, reports: &Sender<TaskReport>) {
        let mut next = None;
        while let Some(job) = next.take().or_else(|| self.await_job(jobs)) {
            let start = clock::now();
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                self.run(&job);
                next = jobs.try_recv().ok();
                self.settle(next.as_ref());
            }));
            if let Err(panic) = outcome {
                self.abandon(&job, &*panic);
            }
            // If the engine is gone, the queue of jobs is closed too.
            let finish = clock::now();
            let launched = std::mem::take(&mut self.launched);
            let _ = reports.send(TaskReport {
                task: job.id,
                start,
                finish,
                members: job.members,
                launched,
            });
        }
    }

    /// Waits for the next job; `None` when the queue is closed.
    fn await_job(&self, jobs: &Receiver<WorkerJob>) -> Option<WorkerJob> {
        let spun = if self.spins {
            threads::spin(jobs, Some(clock::now() + PATIENCE))
        } else {
            None
        };
        spun.or_else(|| jobs.recv().ok())
    }

    /// Runs a job, whose rows may then be newer than the table.
    pub fn run(&mut self, job: &WorkerJob) {
        if let Some((step, nodes)) = job.batch() {
            return self.run_nodes(step, nodes);
        }
        match (&job.members, &job.steps[..]) {
            (MemberList::Requests(requests), steps) => self.run_whole(job.id, steps, requests),
            (MemberList::Operators(requests, launches), _) => {
                self.run_operators(requests, launches)
            }
            (MemberList::Parts(list), steps) if task_checks::parts_fit(list, steps) => {
                self.run_parts(steps, list)
            }
            (members, _) => {
                members.requests().for_each(|request| {
                    self.table
                        .fail(request, task_checks::NOT_ONE_BATCH.to_string())
                });
            }
        }
    }

    /// Runs a task of whole requests. Requests with nodes that the steps do not reach fail.
    fn run_whole(&mut self, task: TaskId, steps: &[Step], requests: &[RequestId]) {
        self.put_ahead();
        self.work.batches.iter_mut().for_each(CpuRows::clear);
        self.work.list.begin(requests, &self.table.graphs);
        for step in steps {
            for _ in 0..step.times {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let began = if self.log.is_some() {
                    Some(clock::now())
                } else {
                    None
                };
                let stayed = self.run_step(step);
                if let (Some(log), Some(began)) = (&self.log, began) {
                    let time = began.elapsed().into();
                    // The receiver may be gone.
                    let _ = log.send(StepTime {
                        task,
                        cell: step.cell,
                        batch: step.batch,
                        time,
                        stayed,
                    });
                }
            }
        }
        self.put_ahead();
        self.work
            .batches
            .iter_mut()
            .for_each(|rows| rows.dismiss(&self.table, |_| true, |_| ()));
        requests
            .iter()
            .for_each(|request| self.table.expect_done(*request));
        self.work.batches.iter_mut().for_each(CpuRows::clear);
    }

    /// Runs a step of whole requests once. Rows stay in place as long as no node is ready to join them; ended rows stay
    /// as padding while the step keeps its size. Returns whether no row joined or ended.
    fn run_step(&mut self, step: &Step) -> bool {
        let size = step.batch as usize;
        self.launched.launches += 1;
        if let Some(operators) = self.network.operators() {
            let WorkerMemory {
                queries,
                scratch,
                list,
                nodes,
                ..
            } = &mut self.work;
            nodes.clear();
            list.take(step.cell, size, nodes);
            let stayed = queries.run(step, nodes, operators, &self.table, scratch);
            nodes
                .iter()
                .for_each(|node| list.note_run(*node, &self.table.graphs));
            return stayed;
        }
        self.make_room(step.cell);
        let CpuWorker {
            network,
            table,
            work:
                WorkerMemory {
                    batches,
                    list,
                    nodes,
                    scratch,
                    ..
                },
            launched,
            ..
        } = self;
        let rows = &mut batches[step.cell.index()];
        nodes.clear();
        nodes.extend(rows.next_nodes());
        let stay =
            (1..=rows.len()).contains(&size) && nodes.len() <= size && list.is_empty(step.cell);
        if stay {
            rows.gather(nodes, size, table);
        } else {
            let began = clock::now();
            rows.dismiss(table, |_| true, |node| list.note_run(node, &table.graphs));
            nodes.clear();
            list.take(step.cell, size, nodes);
            launched.copied_bytes += rows.gather(nodes, size, table);
            launched.copies += 1;
            launched.copying += began.elapsed();
        }
        rows.run(network, step.input, scratch);
        let mut none_ended = true;
        rows.dismiss(
            table,
            |row| row.next().is_none(),
            |node| {
                none_ended = false;
                list.note_run(node, &table.graphs);
            },
        );
        stay && none_ended
    }

    /// Runs operators, launch by launch. Requests with nodes that the launches do not reach fail.
    fn run_operators(&mut self, requests: &[RequestId], launches: &Launches) {
        self.put_ahead();
        let Some(operators) = &self.network.by_operator else {
            for request in requests {
                self.table.fail(
                    *request,
                    "this network computes whole cells only".to_string(),
                );
            }
            return;
        };
        let programs = operators.programs(launches.kernels);
        let memory = &mut self.work.operators;
        memory.begin(requests, programs, operators.hidden, &self.table);
        let mut launcher = OperatorLauncher {
            memory,
            operators,
            programs,
            network: &self.network,
            launched: &mut self.launched,
        };
        for units in launches.each() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            launcher.launch(units, &launches.waves);
        }
        launcher.put_states(&self.table);
        for request in requests {
            self.table.expect_done(*request);
        }
    }

    /// Runs parts of chains. Rows of ended parts stay as padding.
    fn run_parts(&mut self, steps: &[Step], list: &[Part]) {
        let mut nodes = Vec::with_capacity(list.len());
        for place in 0..task_checks::longest_part(list) {
            match task_checks::part_nodes(list, place, steps, &self.table.graphs, &mut nodes) {
                Ok(step) => self.run_nodes(&step, &nodes),
                Err(reason) => nodes
                    .iter()
                    .for_each(|at| self.table.fail(at.request, reason.clone())),
            }
        }
    }

    /// Runs one batch of nodes.
    fn run_nodes(&mut self, step: &Step, nodes: &[NodeRef]) {
        if let Some(operators) = self.network.operators() {
            self.work
                .queries
                .run(step, nodes, operators, &self.table, &mut self.work.scratch);
            return;
        }
        self.make_room(step.cell);
        if self.work.ahead != Some(step.cell) {
            self.put_ahead();
        }
        let rows = &mut self.work.batches[step.cell.index()];
        rows.gather(nodes, step.batch as usize, &self.table);
        rows.run(&self.network, step.input, &mut self.work.scratch);
        self.work.ahead = Some(step.cell);
    }

    /// Writes newer states to the table, except those of rows that the next job continues. Without a next job, the only
    /// worker writes just the states of rows that end, because the job that it waits for may continue the others.
    pub fn settle(&mut self, next: Option<&WorkerJob>) {
        if let Some(operators) = self.network.operators() {
            let batch = next.and_then(WorkerJob::batch);
            if !batch.is_some_and(|(step, nodes)| {
                self.work.queries.continue_with(operators, step, nodes)
            }) {
                self.work.queries.put(&self.table);
            }
            return;
        }
        let Some(cell) = self.work.ahead else { return };
        let rows = &mut self.work.batches[cell.index()];
        match next.map(WorkerJob::batch) {
            Some(Some((step, nodes))) if step.cell == cell => rows.put_leavers(nodes, &self.table),
            None if self.alone => rows.put_chosen(&self.table, |row| row.next().is_none()),
            _ => self.put_ahead(),
        }
    }

    /// Writes all states that are newer than the table.
    fn put_ahead(&mut self) {
        self.work.queries.put(&self.table);
        if let Some(cell) = self.work.ahead.take() {
            self.work.batches[cell.index()].put_chosen(&self.table, |_| true);
        }
    }

    /// Makes rows for a cell type, unless there are some.
    fn make_room(&mut self, cell: CellId) {
        for new in self.work.batches.len()..=cell.index() {
            self.work
                .batches
                .push(CpuRows::new(CellId(new as u16), self.network.state()));
        }
    }

    /// Makes the requests of a job that panicked fail, and drops the memory that it used.
    fn abandon(&mut self, job: &WorkerJob, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let message = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        for request in job.members.requests() {
            self.table.fail(
                request,
                format!("worker {} broke off in task {}: {message}", self.id, job.id),
            );
        }
        self.work = WorkerMemory::default();
    }
}
