//! Parts of policies that batch whole requests.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::sync::Arc;

use super::prelude::*;
use crate::core::cost::timing::task_time;
use crate::core::cost::{CostModel, Extra};
use crate::core::workload::cell_graph::{CellRun, CellRuns};

/// When a rule may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTimes {
    /// At each instant with an event.
    EachInstant,
    /// Only while a worker is idle ([`Policy::decides_when_idle`]).
    IdleWorkers,
}

/// A policy that is a rule on a queue. The rule sends and drops at the times that `times` names, and returns the instant
/// at which it has to be asked again even without events.
pub fn policy_from_rule<Q: 'static>(
    times: RuleTimes,
    queue: Q,
    arrive: impl FnMut(&mut Q, &Request<'_>) + 'static,
    rule: impl FnMut(&mut Q, &mut Dispatch<'_>) -> Option<Nanos> + 'static,
) -> Box<dyn Policy> {
    Box::new(ByRule {
        times,
        queue,
        arrive,
        rule,
        wake: None,
    })
}

struct ByRule<Q, A, R> {
    times: RuleTimes,
    queue: Q,
    arrive: A,
    rule: R,
    wake: Option<Nanos>,
}

impl<Q, A: FnMut(&mut Q, &Request<'_>), R: FnMut(&mut Q, &mut Dispatch<'_>) -> Option<Nanos>> Policy
    for ByRule<Q, A, R>
{
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        (self.arrive)(&mut self.queue, request);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.wake = (self.rule)(&mut self.queue, dispatch);
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }

    fn decides_when_idle(&self) -> bool {
        self.times == RuleTimes::IdleWorkers
    }
}

/// Requests in the order of arrival, and what a policy keeps of each.
pub struct FirstCome<K> {
    max_batch: usize,
    requests: VecDeque<RequestId>,
    kept: VecDeque<K>,
    /// The requests of the last batch.
    taken: Vec<RequestId>,
}

/// A batch that was taken from the front of a queue.
#[derive(Clone, Copy)]
pub struct Taken<'a> {
    pub worker: WorkerId,
    pub requests: &'a [RequestId],
    /// The number of requests that still wait.
    pub left: usize,
    pub max_batch: usize,
}

impl<K> FirstCome<K> {
    pub fn new(max_batch: u32) -> Self {
        FirstCome {
            max_batch: max_batch as usize,
            requests: VecDeque::new(),
            kept: VecDeque::new(),
            taken: Vec::new(),
        }
    }

    pub fn arrive(&mut self, request: RequestId, kept: K) {
        self.requests.push_back(request);
        self.kept.push_back(kept);
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// What the policy keeps of the request that has waited longest.
    pub fn first(&self) -> Option<&K> {
        self.kept.front()
    }

    /// Takes a batch for a worker, with what the policy keeps of its requests.
    pub fn take(&mut self, worker: WorkerId) -> (Taken<'_>, Drain<'_, K>) {
        let size = self.requests.len().min(self.max_batch);
        self.taken.clear();
        self.taken.extend(self.requests.drain(..size));
        let taken = Taken {
            worker,
            requests: &self.taken,
            left: self.requests.len(),
            max_batch: self.max_batch,
        };
        (taken, self.kept.drain(..size))
    }
}

/// A policy that calls `submit` with a batch for each idle worker: the requests that have waited longest, and what the
/// policy keeps of each.
pub fn first_come<K: 'static>(
    max_batch: u32,
    keep: fn(&Request<'_>) -> K,
    mut submit: impl FnMut(Taken<'_>, Drain<'_, K>, &mut Dispatch<'_>) + 'static,
) -> Result<Box<dyn Policy>, String> {
    require_positive([("max_batch", max_batch)])?;
    Ok(policy_from_rule(
        RuleTimes::IdleWorkers,
        FirstCome::new(max_batch),
        move |queue: &mut FirstCome<K>, request: &Request<'_>| {
            queue.arrive(request.id, keep(request));
        },
        move |queue, dispatch| {
            let mut idle = dispatch.idle();
            while !queue.is_empty()
                && let Some(worker) = idle.next(dispatch)
            {
                let (taken, kept) = queue.take(worker);
                submit(taken, kept, dispatch);
            }
            None
        },
    ))
}

/// The graph of a request, which most policies keep.
pub fn graph(request: &Request<'_>) -> CellGraph {
    request.graph.clone()
}

impl Taken<'_> {
    /// The number of requests that waited before.
    pub fn waiting(&self) -> usize {
        self.requests.len() + self.left
    }

    pub fn reason(&self) -> Reason {
        let waiting = self.waiting();
        Reason {
            what: "the requests that have waited longest".into(),
            size: match self.left {
                0 => format!("all {waiting} that wait"),
                _ => format!("max_batch ({}) of {waiting} that wait", self.max_batch),
            },
            when: format!("worker {} had nothing to do", self.worker),
        }
    }

    /// Why the batch has its size, for policies that evaluate it as one graph.
    pub fn size_of_evaluation(&self) -> String {
        let waiting = self.waiting();
        let max_batch = self.max_batch;
        match self.left {
            0 => format!("all {waiting} waiting requests (max_batch is {max_batch})"),
            _ => format!("max_batch ({max_batch}) of {waiting} waiting requests"),
        }
    }
}

/// A request that waits for its batch.
#[derive(Clone)]
pub struct Waiting {
    pub request: RequestId,
    pub arrival: Nanos,
    /// The instant at which the request is too late; [`Nanos::MAX`] if it never is.
    pub due: Nanos,
    pub length: u32,
    pub graph: CellGraph,
}

impl Waiting {
    #[inline]
    pub fn new(request: &Request<'_>, due: Nanos) -> Waiting {
        Waiting {
            request: request.id,
            arrival: request.arrival,
            due,
            length: request.shape.length(),
            graph: request.graph.clone(),
        }
    }
}

/// A batch of chains that are padded to the longest member's steps.
#[derive(Debug, Default)]
pub struct PaddedBatch {
    pub requests: Vec<RequestId>,
    pub steps: Vec<Step>,
    useful_cells: u64,
    /// The last shared runs of a member, and their useful cells.
    shared: Option<(Arc<[CellRun]>, u64)>,
    /// The memory that [`PaddedBatch::time`] uses.
    padded: Vec<Step>,
}

impl PaddedBatch {
    pub fn clear(&mut self) {
        self.requests.clear();
        self.steps.clear();
        self.useful_cells = 0;
        self.shared = None;
    }

    /// Replaces the members. Panics like [`PaddedBatch::add`].
    pub fn fill<W: Borrow<Waiting>>(&mut self, members: impl IntoIterator<Item = W>) {
        self.clear();
        self.extend(members);
    }

    /// Adds members. Panics like [`PaddedBatch::add`].
    pub fn extend<W: Borrow<Waiting>>(&mut self, members: impl IntoIterator<Item = W>) {
        // Members with the last one's runs are counted first, because they may be many and have many steps.
        let mut like_last = 0;
        for member in members {
            let Waiting { request, graph, .. } = member.borrow();
            if self.is_like_last(graph) {
                self.requests.push(*request);
                like_last += 1;
            } else {
                self.repeat_last(like_last);
                like_last = 0;
                self.add(*request, graph);
            }
        }
        self.repeat_last(like_last);
    }

    /// Adds a request.
    ///
    /// # Panics
    /// If its graph is not a chain: refuse such models with
    /// [`Setup::require_sequences`](super::registry::Setup::require_sequences).
    pub fn add(&mut self, request: RequestId, graph: &CellGraph) {
        self.requests.push(request);
        if self.is_like_last(graph) {
            self.repeat_last(1);
            return;
        }
        let CellGraph::Chains(runs) = graph else {
            panic!("only chains can be padded")
        };
        for (step, run) in self.steps.iter_mut().zip(runs.iter()) {
            step.batch += 1;
            step.times = run.length.max(step.times);
            step.input = run.input.max(step.input);
        }
        let further = runs.iter().skip(self.steps.len());
        self.steps.extend(further.map(|run| step_of_run(run, 1)));
        let useful = runs.iter().map(|run| step_of_run(run, 1).cells()).sum();
        self.useful_cells += useful;
        self.shared = match runs {
            CellRuns::Shared(runs) => Some((Arc::clone(runs), useful)),
            _ => None,
        };
    }

    /// Whether a graph has the runs of the last member, which are shared.
    fn is_like_last(&self, graph: &CellGraph) -> bool {
        match (graph, &self.shared) {
            (CellGraph::Chains(CellRuns::Shared(runs)), Some((last, _))) => Arc::ptr_eq(runs, last),
            _ => false,
        }
    }

    /// Adds the runs of the last member this many times.
    fn repeat_last(&mut self, times: u32) {
        if times > 0
            && let Some((runs, useful)) = &self.shared
        {
            self.useful_cells += useful * u64::from(times);
            for step in &mut self.steps[..runs.len()] {
                step.batch += times;
            }
        }
    }

    pub fn task(&self, worker: WorkerId) -> Task<'_> {
        Task::whole_requests(worker, &self.steps, &self.requests, self.useful_cells)
    }

    /// The time from the submission to the end on an idle worker, with `more` requests that are like the longest.
    pub fn time(&mut self, more: u32, costs: &(impl CostModel + ?Sized)) -> Nanos {
        self.padded.clear();
        for step in &self.steps {
            let grown = Step {
                batch: step.batch + more,
                ..*step
            };
            self.padded.extend(grown.pad(costs.batches(step.cell)));
        }
        let batch = self.requests.len() as u32 + more;
        let task = Task {
            batch,
            ..Task::new(WorkerId(0), &self.padded, &[], 0)
        };
        costs
            .extra(Extra::Launch, batch)
            .saturating_add(task_time(costs, &task, None))
    }
}

/// The steps of this number of equal requests, from the lowest depth up. Neighbours of one cell type are one step.
pub fn one_by_one(graph: &CellGraph, batch: u32) -> Vec<Step> {
    match graph {
        CellGraph::Chains(runs) => runs.iter().map(|run| step_of_run(run, batch)).collect(),
        CellGraph::Graph(graph) => {
            let depths = graph.depths().iter().copied();
            let cells = graph.cells().iter().copied();
            let mut order: Vec<(u32, CellId)> = depths.zip(cells).collect();
            order.sort_unstable();
            let mut steps: Vec<Step> = Vec::new();
            for (_, cell) in order {
                match steps.last_mut() {
                    Some(last) if last.cell == cell => last.times += 1,
                    _ => steps.push(Step {
                        cell,
                        batch,
                        times: 1,
                        input: 0,
                    }),
                }
            }
            steps
        }
    }
}

fn step_of_run(run: &CellRun, batch: u32) -> Step {
    Step {
        cell: run.cell,
        batch,
        times: run.length,
        input: run.input,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::cell_graph::Graph;

    #[test]
    fn cells_run_after_their_inputs() {
        let cells = [0, 1, 0, 1, 0].map(CellId).to_vec();
        let graph = CellGraph::Graph(
            Graph::new(cells, &[(2, 1), (1, 0), (0, 4), (3, 4)])
                .unwrap()
                .into(),
        );
        let steps: Vec<(u16, u32)> = one_by_one(&graph, 1)
            .iter()
            .map(|step| (step.cell.0, step.times))
            .collect();
        // Depth 0 has nodes 2 and 3, depth 1 has node 1, depth 2 has node 0, and depth 3 has node 4.
        assert_eq!(steps, [(0, 1), (1, 2), (0, 2)]);
    }
}
