//! TensorFlow Fold's dynamic batching in detail (Looks et al., ICLR'17): merged graphs in a loop over levels.
//!
//! A cell's level is one more than that of its deepest argument; inputs have level 0. An iteration sees only the
//! results of the previous one, so a result that is needed later is copied in every level between, and a root's result
//! up to the last level. Each iteration calls every cell type, and the copying, even without rows. Copies of words are
//! not counted.
//!
//! The host needs `construct_ns` for each node. The share `overlap` of this time overlaps with the previous batch
//! (BatchMaker, section 7.5); during the rest the device idles. A batch takes the requests that wait when the host
//! begins.

use std::sync::Arc;

use super::merged::{DepthCounts, Levels};
use super::prelude::*;
use super::values::share;
use super::whole::FirstCome;
use crate::core::cost::CostModel;
use crate::core::task::ExtraTime;
use crate::core::workload::row_names::{COPY, EMPTY};

/// `kind = "fold"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Fold {
    /// The largest number of requests in a batch. A level may have more cells.
    #[default = 64]
    pub max_batch: u32,
    /// The host's time for each node. In a real run it only decides when the host could begin the next batch.
    #[serde(deserialize_with = "crate::base::units::nanos_or_time")]
    pub construct_ns: Nanos,
    /// The share of that time that may overlap with the previous batch. With 0 no batch is built ahead.
    #[default = 1.0]
    pub overlap: f64,
    /// Whether copies to the next level cost time.
    #[default = true]
    pub copies: bool,
}

impl Settings for Fold {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "fold",
            "whole graphs, merged level by level, with copies and built on the host (TensorFlow Fold)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        require_positive([("max_batch", self.max_batch)])?;
        share("overlap", self.overlap)?;
        Ok(Box::new(FoldPolicy {
            settings: self.clone(),
            costs: setup.costs.cloned(),
            queue: FirstCome::new(self.max_batch),
            batch: LevelBatch::new(setup.cells.len()),
            hosts: vec![HostState::default(); setup.workers],
            wake: None,
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct FoldPolicy {
    settings: Fold,
    /// The costs of the loop. If they are `None`, the loop takes no time in addition to its cells.
    costs: Option<Arc<dyn CostModel>>,
    queue: FirstCome<CellGraph>,
    batch: LevelBatch,
    hosts: Vec<HostState>,
    wake: Option<Nanos>,
}

/// The host of a worker.
#[derive(Clone, Copy, Debug, Default)]
struct HostState {
    /// When the host can build the next batch. While a batch waits for the device, this counts only the work that
    /// overlaps.
    free: Nanos,
    /// The work that the host does for the waiting batch once the device idles.
    waiting: Option<Nanos>,
}

impl Fold {
    /// The host's time for a batch with this number of nodes: ahead of the task, and while the device idles.
    fn construction(&self, nodes: u64) -> (Nanos, Nanos) {
        let all = self.construct_ns.saturating_mul(nodes);
        let ahead = Nanos::round(all.0 as f64 * self.overlap).min(all);
        (ahead, all - ahead)
    }

    fn builds_ahead(&self) -> bool {
        self.construct_ns > Nanos::ZERO && self.overlap > 0.0
    }
}

impl FoldPolicy {
    fn send(&mut self, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        let (taken, graphs) = self.queue.take(worker);
        self.batch.clear();
        let mut nodes = 0;
        for graph in graphs {
            nodes += graph.nodes();
            self.batch.add(&graph);
        }
        self.batch.build_steps();
        let now = dispatch.now();
        let idle = dispatch.is_idle(worker);
        let (host_ahead, host_during) = self.settings.construction(nodes);
        let mut task = self.batch.task(worker, taken.requests);
        task.extra = ExtraTime {
            host_ahead,
            host_during,
            device: match &self.costs {
                Some(costs) => self.batch.loop_time(&**costs, self.settings.copies),
                None => Nanos::ZERO,
            },
        };
        dispatch.submit_because(&task, || {
            let reason = taken.reason();
            if idle {
                return reason;
            }
            Reason {
                when: format!("the host had nothing to build while worker {worker} ran"),
                ..reason
            }
        });
        let overlapped = now.saturating_add(host_ahead);
        let host = &mut self.hosts[worker.index()];
        if idle {
            host.free = overlapped.saturating_add(host_during);
        } else {
            host.free = overlapped;
            host.waiting = Some(host_during);
        }
    }
}

impl Policy for FoldPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.arrive(request.id, request.graph.clone());
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        for request in completed.requests {
            outcomes.finish(*request);
        }
        let host = &mut self.hosts[completed.worker.index()];
        if let Some(during) = host.waiting.take() {
            host.free = host.free.max(completed.finish).saturating_add(during);
        }
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.wake = None;
        for unfinished in 0..=usize::from(self.settings.builds_ahead()) {
            let mut workers = dispatch.with_unfinished(unfinished);
            while !self.queue.is_empty()
                && let Some(worker) = workers.next(dispatch)
            {
                let free = self.hosts[worker.index()].free;
                if unfinished == 0 || free <= dispatch.now() {
                    self.send(worker, dispatch);
                } else {
                    self.wake = match self.wake {
                        Some(wake) => Some(wake.min(free)),
                        None => Some(free),
                    };
                }
            }
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }

    fn works_ahead(&self) -> bool {
        self.settings.builds_ahead()
    }
}

/// The graphs of a batch, merged level by level.
struct LevelBatch {
    levels: Levels,
    /// The results that are copied to the next level, counted by level.
    copied: DepthCounts,
}

impl LevelBatch {
    fn new(cells: usize) -> Self {
        LevelBatch {
            levels: Levels::new(cells),
            copied: DepthCounts::default(),
        }
    }

    fn clear(&mut self) {
        self.levels.clear();
        self.copied.clear();
    }

    /// Merges a graph.
    fn add(&mut self, graph: &CellGraph) {
        self.levels.add(graph);
        match graph {
            CellGraph::Chains(_) => self.copied.begin(graph.depth()),
            CellGraph::Graph(graph) => {
                let depths = graph.depths();
                for (node, &depth) in (0..).zip(depths) {
                    let successors = graph.successors(node).iter();
                    match successors.map(|next| depths[*next as usize]).max() {
                        Some(needed) => self.copied.add(depth + 1, needed - depth - 1),
                        None => self.copied.begin(depth + 1),
                    }
                }
            }
        }
    }

    fn build_steps(&mut self) {
        self.levels.build_steps();
    }

    fn task<'a>(&'a self, worker: WorkerId, requests: &'a [RequestId]) -> Task<'a> {
        Task::whole_requests(worker, self.levels.steps(), requests, self.levels.useful)
    }

    /// The number of results that each level's copying hands to the next.
    fn copies(&self) -> impl Iterator<Item = u32> {
        (0..self.levels.depths()).scan(0, move |count, depth| {
            *count += self.copied.change(depth);
            Some(*count as u32)
        })
    }

    /// How often a cell type is called in a level that has none of its cells.
    fn empty_calls(&self) -> u64 {
        let calls = u64::from(self.levels.depths()) * self.levels.cells() as u64;
        let steps = self.levels.steps().iter();
        calls - steps.map(|step| u64::from(step.times)).sum::<u64>()
    }

    /// The time of the loop in addition to that of its cells.
    fn loop_time(&self, costs: &dyn CostModel, copies: bool) -> Nanos {
        let empty_calls = costs
            .policy_row(EMPTY, 1)
            .saturating_mul(self.empty_calls());
        let mut time = empty_calls;
        if copies {
            for results in self.copies() {
                time = time.saturating_add(costs.policy_row(COPY, results));
            }
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::CellId;
    use crate::core::workload::cell_graph::{CellRun, Graph};
    use crate::core::workload::model::{Model, Unfolder};

    const INTERNAL: u16 = 0;
    const LEAF: u16 = 1;

    type Steps = Vec<(u16, u32, u32)>;

    /// The steps of a batch, the copies of each level and the empty calls.
    fn loop_of(graphs: &[CellGraph]) -> (Steps, Vec<u32>, u64) {
        let mut batch = LevelBatch::new(2);
        graphs.iter().for_each(|graph| batch.add(graph));
        batch.build_steps();
        let requests: Vec<RequestId> = (0..graphs.len() as u64).map(RequestId).collect();
        let task = batch.task(WorkerId(0), &requests);
        assert_eq!(
            task.useful_cells,
            task.steps.iter().map(|step| step.cells()).sum::<u64>(),
            "nothing is padded"
        );
        let steps = task
            .steps
            .iter()
            .map(|step| (step.cell.0, step.batch, step.times))
            .collect();
        (steps, batch.copies().collect(), batch.empty_calls())
    }

    fn tree(parents: &str) -> CellGraph {
        Unfolder::new(&Model::TreeLstm)
            .unfold(&format!("tree:{parents}").parse().unwrap())
            .unwrap()
    }

    fn chain(cell: u16, length: u32) -> CellRun {
        CellRun {
            cell: CellId(cell),
            length,
            input: 0,
        }
    }

    #[test]
    fn leaves_stand_together_and_shallow_arguments_are_handed_on() {
        let (steps, copies, empty) = loop_of(&[tree("4 4 5 5 0")]);
        assert_eq!(steps, [(LEAF, 3, 1), (INTERNAL, 1, 2)]);
        assert_eq!(copies, [0, 1, 0]);
        assert_eq!(
            empty, 3,
            "no inner cell at level 1, no leaf at levels 2 and 3"
        );
    }

    #[test]
    fn a_longer_way_is_a_copy_in_every_level() {
        // (((a b) c) d): c is copied once, d twice.
        let (steps, copies, empty) = loop_of(&[tree("5 5 6 7 6 7 0")]);
        assert_eq!(steps, [(LEAF, 4, 1), (INTERNAL, 1, 3)]);
        assert_eq!(copies, [0, 2, 1, 0]);
        assert_eq!(empty, 4);
    }

    #[test]
    fn roots_are_handed_on_to_the_last_level_of_the_deepest_tree() {
        let (steps, copies, empty) = loop_of(&[tree("0"), tree("3 3 0"), tree("4 4 5 5 0")]);
        assert_eq!(steps, [(LEAF, 6, 1), (INTERNAL, 2, 1), (INTERNAL, 1, 1)]);
        assert_eq!(copies, [0, 2, 2]);
        assert_eq!(empty, 3);
    }

    #[test]
    fn chains_end_at_their_own_level_and_need_no_copies_before() {
        let two = CellGraph::chains([chain(1, 1), chain(0, 2)]);
        let (steps, copies, empty) = loop_of(&[two, CellGraph::chains([chain(1, 4), chain(0, 1)])]);
        assert_eq!(
            steps,
            [
                (1, 2, 1),
                (0, 1, 1),
                (1, 1, 1),
                (0, 1, 1),
                (1, 1, 2),
                (0, 1, 1)
            ]
        );
        assert_eq!(
            copies,
            [0, 0, 0, 1, 1],
            "the first is done at level 3 and handed on to level 5"
        );
        assert_eq!(
            empty, 3,
            "five levels of two cells, in seven of which something runs"
        );
    }

    #[test]
    fn a_result_that_several_need_is_handed_on_once() {
        // Node 3 is the deepest, so node 0 is copied at levels 2 and 3.
        let edges = [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)];
        let graph =
            Graph::new(vec![CellId(LEAF), CellId(0), CellId(0), CellId(0)], &edges).unwrap();
        let (_, copies, empty) = loop_of(&[CellGraph::Graph(graph.into())]);
        assert_eq!(copies, [0, 1, 1, 0]);
        assert_eq!(empty, 4);
    }

    #[test]
    fn overlap_must_be_a_share() {
        let model = Model::TreeLstm;
        let cells = model.cell_types();
        let setup = Setup {
            model: &model,
            cells: &cells,
            workers: 1,
            costs: None,
            longest: None,
        };
        for overlap in [-0.1, 1.5, f64::NAN] {
            let error = Fold {
                overlap,
                ..Fold::default()
            }
            .build(&setup)
            .err()
            .unwrap();
            assert!(
                error.starts_with("overlap: ") && error.ends_with("must be between 0 and 1"),
                "{error}"
            );
        }
    }
}
