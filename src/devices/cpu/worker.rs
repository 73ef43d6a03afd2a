//! A thread of a worker, which runs its jobs in order.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::launches::Memory;
use super::queries::Queries;
use super::rows::Rows;
use super::table::Table;
use super::threads;
use crate::base::clock;
use crate::base::units::{CellId, Nanos, RequestId, TaskId, WorkerId};
use crate::core::backend::Launched;
use crate::core::task::{MemberList, NodeRef, Part, Step};
use crate::devices::network::{Network, Scratch};
use crate::devices::ready_list::ReadyList;
use crate::devices::shared;

/// Waking up takes as long as many tasks, so a worker spins longer than the gaps between requests at any measured load.
const PATIENCE: Duration = Duration::from_millis(200);

pub struct Job {
    pub id: TaskId,
    pub steps: SmallVec<[Step; 1]>,
    pub members: MemberList,
}

impl Job {
    /// The step and the nodes of a task that is one batch of nodes.
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
pub struct Report {
    pub task: TaskId,
    pub start: Instant,
    /// When all of its states were in place.
    pub finish: Instant,
    /// For its memory.
    pub members: MemberList,
    pub launched: Launched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    pub task: TaskId,
    pub cell: CellId,
    /// The number of rows, with padding.
    pub batch: u32,
    /// From before the gather until ended rows are in the table.
    pub time: Nanos,
    /// No row joined or ended at this step.
    pub stayed: bool,
}

pub struct Worker {
    id: WorkerId,
    /// The only worker may hold states back, as no other needs them.
    pub alone: bool,
    /// With a core of its own, it may spin for its next job.
    pub spins: bool,
    pub(super) network: Arc<Network>,
    pub(super) table: Arc<Table>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) work: Work,
    /// By the present task.
    pub(super) launched: Launched,
    /// Receives the times of steps of whole requests.
    pub log: Option<Sender<StepTime>>,
}

/// What a worker keeps between its jobs, unless one panics.
#[derive(Default)]
pub(super) struct Work {
    batches: Vec<Rows>,
    queries: Queries,
    /// The cell type whose rows are newer than the table.
    ahead: Option<CellId>,
    scratch: Scratch,
    pub memory: Memory,
    list: ReadyList,
    nodes: Vec<NodeRef>,
}

impl Worker {
    pub fn new(
        id: WorkerId,
        network: Arc<Network>,
        table: Arc<Table>,
        stop: Arc<AtomicBool>,
    ) -> Worker {
        let (work, launched) = (Work::default(), Launched::default());
        Worker {
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

    pub fn serve(mut self, jobs: &Receiver<Job>, reports: &Sender<Report>) {
        let mut next = None;
        while let Some(job) = next.take().or_else(|| self.await_job(jobs)) {
            let start = clock::now();
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let run = || {
                self.run(&job);
                next = jobs.try_recv().ok();
                self.settle(next.as_ref());
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                self.broke_off(&job, &*panic);
            }
            // If the driver is gone, the queue of jobs is closed too.
            let (finish, launched) = (clock::now(), std::mem::take(&mut self.launched));
            let _ = reports.send(Report {
                task: job.id,
                start,
                finish,
                members: job.members,
                launched,
            });
        }
    }

    fn await_job(&self, jobs: &Receiver<Job>) -> Option<Job> {
        let spun = if self.spins {
            threads::spin(jobs, Some(clock::now() + PATIENCE))
        } else {
            None
        };
        spun.or_else(|| jobs.recv().ok())
    }

    /// Its rows may then be newer than the table.
    pub fn run(&mut self, job: &Job) {
        if let Some((step, nodes)) = job.batch() {
            return self.run_nodes(step, nodes);
        }
        match (&job.members, &job.steps[..]) {
            (MemberList::Requests(requests), steps) => self.run_whole(job.id, steps, requests),
            (MemberList::Operators(requests, launches), _) => {
                self.run_operators(requests, launches)
            }
            (MemberList::Parts(list), steps) if shared::parts_fit(list, steps) => {
                self.run_parts(steps, list)
            }
            (members, _) => {
                members.requests().for_each(|request| {
                    self.table.fail(request, shared::NOT_ONE_BATCH.to_string())
                });
            }
        }
    }

    /// Requests with nodes that the steps do not reach fail.
    fn run_whole(&mut self, task: TaskId, steps: &[Step], requests: &[RequestId]) {
        self.put_ahead();
        self.work.batches.iter_mut().for_each(Rows::clear);
        self.work.list.begin(requests, &self.table.graphs);
        for step in steps {
            for _ in 0..step.times {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let began = self.log.is_some().then(clock::now);
                let stayed = self.run_step(step);
                if let (Some(log), Some(began)) = (&self.log, began) {
                    let time = Nanos(began.elapsed().as_nanos() as u64);
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
        self.work.batches.iter_mut().for_each(Rows::clear);
    }

    /// Runs a step of whole requests once. Rows stay in place as long as no node is ready to join; ended rows run on as padding while the
    /// step keeps its size. Returns whether no row joined or ended.
    fn run_step(&mut self, step: &Step) -> bool {
        let size = step.batch as usize;
        self.launched.launches += 1;
        if let Some(operators) = self.network.operators() {
            let Work {
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
                .for_each(|node| list.ran(*node, &self.table.graphs));
            return stayed;
        }
        self.make_room(step.cell);
        let Worker {
            network,
            table,
            work:
                Work {
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
            rows.dismiss(table, |_| true, |node| list.ran(node, &table.graphs));
            nodes.clear();
            list.take(step.cell, size, nodes);
            launched.copied_bytes += rows.gather(nodes, size, table);
            launched.copies += 1;
            launched.copying += began.elapsed();
        }
        rows.run(network, step.input, scratch);
        let mut all_go_on = true;
        let ended = |node| {
            all_go_on = false;
            list.ran(node, &table.graphs);
        };
        rows.dismiss(table, |row| row.next().is_none(), ended);
        stay && all_go_on
    }

    /// Runs parts of chains. Rows of ended parts stay as padding.
    fn run_parts(&mut self, steps: &[Step], list: &[Part]) {
        let mut nodes = Vec::with_capacity(list.len());
        for place in 0..shared::longest_part(list) {
            match shared::part_nodes(list, place, steps, &self.table.graphs, &mut nodes) {
                Ok(step) => self.run_nodes(&step, &nodes),
                Err(reason) => nodes
                    .iter()
                    .for_each(|at| self.table.fail(at.request, reason.clone())),
            }
        }
    }

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

    /// Writes newer states to the table, except those of rows with which the next job goes on. Without a next job, the
    /// only worker waits for one and writes those of rows that end.
    pub fn settle(&mut self, next: Option<&Job>) {
        if let Some(operators) = self.network.operators() {
            let batch = next.and_then(Job::batch);
            if !batch
                .is_some_and(|(step, nodes)| self.work.queries.go_on_with(operators, step, nodes))
            {
                self.work.queries.put(&self.table);
            }
            return;
        }
        let Some(cell) = self.work.ahead else { return };
        let rows = &mut self.work.batches[cell.index()];
        match next.map(Job::batch) {
            Some(Some((step, nodes))) if step.cell == cell => rows.put_leavers(nodes, &self.table),
            None if self.alone => rows.put_those(&self.table, |row| row.next().is_none()),
            _ => self.put_ahead(),
        }
    }

    pub(super) fn put_ahead(&mut self) {
        self.work.queries.put(&self.table);
        if let Some(cell) = self.work.ahead.take() {
            self.work.batches[cell.index()].put_those(&self.table, |_| true);
        }
    }

    fn make_room(&mut self, cell: CellId) {
        for new in self.work.batches.len()..=cell.index() {
            self.work
                .batches
                .push(Rows::new(CellId(new as u16), self.network.state()));
        }
    }

    /// A job panicked: its requests fail, and the memory that it used is dropped.
    fn broke_off(&mut self, job: &Job, panic: &(dyn Any + Send)) {
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
        self.work = Work::default();
    }
}
