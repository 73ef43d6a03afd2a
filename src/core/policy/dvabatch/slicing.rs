//! The stages of a network and their times (DVABatch, section 7.1).

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use super::Stage;
use super::table::Query;
use crate::base::grow::grow;
use crate::base::units::{NodeId, Share};
use crate::core::cost::timing::mean_demand;
use crate::core::cost::{CostModel, MemberKind};
use crate::core::policy::prelude::*;
use crate::core::task::Part;
use crate::core::workload::dnn::Dnn;

/// How a model is cut into stages.
#[derive(Clone, Debug)]
pub enum Slicing {
    /// A chain is cut after every `steps` steps. A request leaves after the stage in which it ends.
    Chain {
        cell: CellId,
        steps: u32,
    },
    Network(Vec<NetworkStage>),
}

/// A stage of a network.
#[derive(Clone, Debug)]
pub struct NetworkStage {
    nodes: Range<u32>,
    /// The number of nodes that take the input.
    sized: u32,
    /// A step for each operator, with a batch of 1 and, if it takes the input, an input of 1.
    operators: Vec<Step>,
}

impl Slicing {
    pub fn network(network: &Dnn, ranges: &[Range<usize>]) -> Slicing {
        let stages = ranges.iter();
        Slicing::Network(
            stages
                .map(|range| NetworkStage::new(network, range))
                .collect(),
        )
    }

    /// The nodes of a stage in a request with `of` nodes.
    pub fn nodes(&self, stage: Stage, of: u32) -> Range<u32> {
        let (from, to) = match self {
            Slicing::Chain { steps, .. } => {
                let from = stage.0.saturating_mul(*steps);
                (from, from.saturating_add(*steps))
            }
            Slicing::Network(stages) => {
                let nodes = &stages[stage.index()].nodes;
                (nodes.start, nodes.end)
            }
        };
        from.min(of)..to.min(of)
    }

    /// Whether a request with this number of nodes ends in a stage.
    pub fn is_last(&self, stage: Stage, nodes: u32) -> bool {
        self.nodes(stage, nodes).end == nodes
    }

    /// The number of stages of a request with this number of nodes.
    pub fn stages(&self, nodes: u32) -> usize {
        match self {
            Slicing::Chain { steps, .. } => nodes.div_ceil(*steps) as usize,
            Slicing::Network(stages) => stages.len(),
        }
    }

    /// The number of nodes of a request, and its input size.
    pub fn size(&self, request: &Request<'_>) -> (u32, u32) {
        if let Slicing::Network(stages) = self {
            let nodes = stages.last().map_or(0, |stage| stage.nodes.end);
            let takes_input = stages.iter().any(|stage| stage.sized > 0);
            let input = if takes_input {
                request.shape.length()
            } else {
                0
            };
            return (nodes, input);
        }
        let input = match &request.graph {
            CellGraph::Chains(runs) => runs.iter().map(|run| run.input).max().unwrap_or(0),
            CellGraph::Graph(_) => 0,
        };
        (request.graph.nodes() as u32, input)
    }

    /// Adds the steps of a stage for a batch of queries, of which the longest has `longest` nodes.
    pub fn add_steps(
        &self,
        stage: Stage,
        batch: u32,
        longest: u32,
        input: u32,
        steps: &mut Vec<Step>,
    ) {
        match self {
            Slicing::Chain { cell, .. } => steps.push(Step {
                cell: *cell,
                batch,
                times: self.nodes(stage, longest).len() as u32,
                input,
            }),
            Slicing::Network(stages) => {
                let operators = stages[stage.index()].operators.iter();
                steps.extend(operators.map(|step| Step {
                    batch,
                    input: step.input * input,
                    ..*step
                }));
            }
        }
    }

    /// The time of all nodes of a stage.
    pub fn time(&self, stage: Stage, batch: u32, input: u32, costs: &dyn CostModel) -> Nanos {
        let mut steps = Vec::new();
        self.add_steps(stage, batch, u32::MAX, input, &mut steps);
        let mut time = Nanos::ZERO;
        for step in &steps {
            time = time.saturating_add(costs.runs(step, MemberKind::Parts).time);
        }
        time
    }

    /// The cells of a query in a stage, as [`Step::cells`] counts them.
    pub fn own_cells(&self, stage: Stage, query: &Query) -> u64 {
        let nodes = self.nodes(stage, query.nodes).len() as u64;
        let sized = match self {
            Slicing::Chain { .. } => nodes,
            Slicing::Network(stages) => stages[stage.index()].sized.into(),
        };
        nodes - sized + sized * u64::from(query.input.max(1))
    }

    /// The part of a query that runs in a stage.
    pub fn part(&self, stage: Stage, query: &Query) -> Part {
        let nodes = self.nodes(stage, query.nodes);
        Part {
            request: query.request,
            from: NodeId(nodes.start),
            to: NodeId(nodes.end),
        }
    }
}

impl NetworkStage {
    /// The stage of a range of a network's operators.
    fn new(network: &Dnn, range: &Range<usize>) -> NetworkStage {
        let mut stage = NetworkStage {
            nodes: range.start as u32..range.end as u32,
            sized: 0,
            operators: Vec::new(),
        };
        for operator in network.operators().skip(range.start).take(range.len()) {
            let input = u32::from(!operator.form.is_constant());
            stage.sized += input;
            let mut steps = stage.operators.iter_mut();
            match steps.find(|step| step.cell == operator.cell) {
                Some(step) => step.times += 1,
                None => stage.operators.push(Step {
                    cell: operator.cell,
                    batch: 1,
                    times: 1,
                    input,
                }),
            }
        }
        stage
    }
}

/// The times of stages, profiled before serving (section 7.2).
pub struct StageDurations {
    slicing: Arc<Slicing>,
    costs: Arc<dyn CostModel>,
    /// The times that have been computed, in the order of inputs.
    known: RefCell<Vec<InputProfiles>>,
}

/// The times of batches with one input.
struct InputProfiles {
    input: u32,
    by_batch: Vec<Option<StageProfile>>,
}

/// The times of one batch.
struct StageProfile {
    /// The time from the beginning of each stage to the end of the last.
    rest: Vec<Nanos>,
    /// The usable share of the device: the mean over steps, weighted by time.
    demand: Share,
}

impl StageDurations {
    /// The times of a network's stages. Chains have none, because their requests end in different stages.
    pub fn new(slicing: Arc<Slicing>, costs: Arc<dyn CostModel>) -> StageDurations {
        StageDurations {
            slicing,
            costs,
            known: RefCell::default(),
        }
    }

    /// The time from the beginning of a stage to the end of the last, the paper's T_remain.
    pub fn from(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with_profile(batch, input, |profile| {
            let rest = profile.rest.get(stage.index());
            rest.copied().unwrap_or(Nanos::ZERO)
        })
    }

    /// The time from the beginning of the first stage to the end of this one.
    pub fn through(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.from(Stage(0), batch, input)
            .saturating_since(self.from(stage.next(), batch, input))
    }

    /// The share of the device that a batch can use.
    pub fn demand(&self, batch: u32, input: u32) -> Share {
        self.with_profile(batch, input, |profile| profile.demand)
    }

    fn with_profile<T>(&self, batch: u32, input: u32, read: impl FnOnce(&StageProfile) -> T) -> T {
        let mut known = self.known.borrow_mut();
        let place = match known.binary_search_by_key(&input, |profiles| profiles.input) {
            Ok(place) => place,
            Err(place) => {
                let by_batch = Vec::new();
                known.insert(place, InputProfiles { input, by_batch });
                place
            }
        };
        let profile = grow(&mut known[place].by_batch, batch as usize);
        read(profile.get_or_insert_with(|| self.profile(batch, input)))
    }

    fn profile(&self, batch: u32, input: u32) -> StageProfile {
        let mut all = Vec::new();
        let mut rest = vec![Nanos::ZERO; self.slicing.stages(0)];
        let mut sum = Nanos::ZERO;
        for (stage, rest) in rest.iter_mut().enumerate().rev() {
            let stage = Stage(stage as u32);
            sum = sum.saturating_add(self.slicing.time(stage, batch, input, &*self.costs));
            *rest = sum;
            self.slicing.add_steps(stage, batch, 0, input, &mut all);
        }
        StageProfile {
            rest,
            demand: mean_demand(&*self.costs, &all, MemberKind::Parts),
        }
    }
}
