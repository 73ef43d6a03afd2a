//! The stages of a network and their times (DVABatch, section 7.1).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::Stage;
use super::table::Query;
use crate::base::units::{NodeId, Share};
use crate::core::cost::timing::mean_demand;
use crate::core::cost::{CostModel, MemberKind};
use crate::core::policy::prelude::*;
use crate::core::task::Part;
use crate::core::workload::dnn::Dnn;

#[derive(Clone, Debug)]
pub enum Slicing {
    /// Cut every `steps` steps; a request leaves after the stage in which it ends.
    Chain {
        cell: CellId,
        steps: u32,
    },
    Network(Vec<Cut>),
}

/// A stage of a network.
#[derive(Clone, Debug)]
pub struct Cut {
    nodes: Range<u32>,
    /// How many take the input.
    sized: u32,
    /// A step for each operator, of a batch of 1 and, if it takes the input, an input of 1.
    operators: Vec<Step>,
}

impl Slicing {
    pub fn network(network: &Dnn, ranges: &[Range<usize>]) -> Slicing {
        let cut = |range: &Range<usize>| {
            let mut cut = Cut {
                nodes: range.start as u32..range.end as u32,
                sized: 0,
                operators: Vec::new(),
            };
            for operator in network.operators().skip(range.start).take(range.len()) {
                let input = u32::from(!operator.form.is_constant());
                cut.sized += input;
                match cut
                    .operators
                    .iter_mut()
                    .find(|step| step.cell == operator.cell)
                {
                    Some(step) => step.times += 1,
                    None => cut.operators.push(Step {
                        cell: operator.cell,
                        batch: 1,
                        times: 1,
                        input,
                    }),
                }
            }
            cut
        };
        Slicing::Network(ranges.iter().map(cut).collect())
    }

    pub fn nodes(&self, stage: Stage, of: u32) -> Range<u32> {
        let (from, to) = match self {
            Slicing::Chain { steps, .. } => {
                let from = stage.0.saturating_mul(*steps);
                (from, from.saturating_add(*steps))
            }
            Slicing::Network(cuts) => (
                cuts[stage.index()].nodes.start,
                cuts[stage.index()].nodes.end,
            ),
        };
        from.min(of)..to.min(of)
    }

    pub fn is_last(&self, stage: Stage, nodes: u32) -> bool {
        self.nodes(stage, nodes).end == nodes
    }

    pub fn stages(&self, nodes: u32) -> usize {
        match self {
            Slicing::Chain { steps, .. } => nodes.div_ceil(*steps) as usize,
            Slicing::Network(cuts) => cuts.len(),
        }
    }

    /// `longest`: the nodes of the longest query.
    pub fn steps(&self, stage: Stage, batch: u32, longest: u32, input: u32) -> SmallVec<[Step; 4]> {
        match self {
            Slicing::Chain { cell, .. } => {
                let times = self.nodes(stage, longest).len() as u32;
                smallvec![Step {
                    cell: *cell,
                    batch,
                    times,
                    input
                }]
            }
            Slicing::Network(cuts) => {
                let step = |step: &Step| Step {
                    batch,
                    input: step.input * input,
                    ..*step
                };
                cuts[stage.index()].operators.iter().map(step).collect()
            }
        }
    }

    /// Of all its nodes.
    pub fn time(&self, stage: Stage, batch: u32, input: u32, costs: &dyn CostModel) -> Nanos {
        let steps = self.steps(stage, batch, u32::MAX, input);
        let times = steps
            .iter()
            .map(|step| costs.runs(step, MemberKind::Parts).time);
        times.fold(Nanos::ZERO, Nanos::saturating_add)
    }

    /// As [`Step::cells`] counts them.
    pub fn own_cells(&self, stage: Stage, query: &Query) -> u64 {
        let nodes = self.nodes(stage, query.nodes).len() as u64;
        let sized = match self {
            Slicing::Chain { .. } => nodes,
            Slicing::Network(cuts) => cuts[stage.index()].sized.into(),
        };
        nodes - sized + sized * u64::from(query.input.max(1))
    }

    pub fn part(&self, stage: Stage, query: &Query) -> Part {
        let nodes = self.nodes(stage, query.nodes);
        Part {
            request: query.request,
            from: NodeId(nodes.start),
            to: NodeId(nodes.end),
        }
    }
}

/// Times of stages, profiled before serving (section 7.2).
pub struct Durations {
    slicing: Arc<Slicing>,
    costs: Arc<dyn CostModel>,
    known: RefCell<BTreeMap<(u32, u32), Profile>>,
}

struct Profile {
    rest: Vec<Nanos>,
    /// The usable share of the device: the mean over steps, weighted by time.
    demand: Share,
}

impl Durations {
    /// Not for chains, whose requests end in different stages.
    pub fn new(slicing: Arc<Slicing>, costs: Arc<dyn CostModel>) -> Durations {
        Durations {
            slicing,
            costs,
            known: RefCell::default(),
        }
    }

    /// The paper's T_remain.
    pub fn from(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |known| {
            known
                .rest
                .get(stage.index())
                .copied()
                .unwrap_or(Nanos::ZERO)
        })
    }

    pub fn through(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.from(Stage(0), batch, input)
            .saturating_since(self.from(stage.next(), batch, input))
    }

    pub fn demand(&self, batch: u32, input: u32) -> Share {
        self.with(batch, input, |known| known.demand)
    }

    fn with<T>(&self, batch: u32, input: u32, read: impl FnOnce(&Profile) -> T) -> T {
        let mut known = self.known.borrow_mut();
        read(
            known
                .entry((input, batch))
                .or_insert_with(|| self.work_out(batch, input)),
        )
    }

    fn work_out(&self, batch: u32, input: u32) -> Profile {
        let (mut all, mut rest) = (Vec::new(), vec![Nanos::ZERO; self.slicing.stages(0)]);
        let mut sum = Nanos::ZERO;
        for (stage, rest) in rest.iter_mut().enumerate().rev() {
            let stage = Stage(stage as u32);
            sum = sum.saturating_add(self.slicing.time(stage, batch, input, &*self.costs));
            *rest = sum;
            all.extend(self.slicing.steps(stage, batch, 0, input));
        }
        Profile {
            rest,
            demand: mean_demand(&*self.costs, &all, MemberKind::Parts),
        }
    }
}
