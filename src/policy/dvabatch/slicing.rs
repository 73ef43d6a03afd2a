//! The stages of a network and their times (DVABatch, section 7.1).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::Stage;
use super::table::Query;
use crate::cost::timing::mean_demand;
use crate::cost::{CostModel, MemberKind};
use crate::task::{Part, Step};
use crate::units::{CellId, Nanos, NodeId, Share};

#[derive(Clone, Debug)]
pub enum Slicing {
    /// Cut every `steps` steps; a request leaves after the stage in which it ends.
    Chain { cell: CellId, steps: u32 },
    Network {
        stages: Vec<Vec<Operator>>,
        /// Each stage's first operator, then the number of operators.
        bounds: Vec<u32>,
        /// By stage, operators whose time does not depend on the input, and the others.
        counts: Vec<(u32, u32)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator {
    pub cell: CellId,
    pub times: u32,
    pub sized: bool,
}

impl Slicing {
    pub fn network(operators: &[(CellId, bool)], ranges: &[Range<usize>]) -> Slicing {
        let stage = |range: &Range<usize>| {
            let mut stage: Vec<Operator> = Vec::new();
            for &(cell, sized) in &operators[range.clone()] {
                match stage.iter_mut().find(|operator| operator.cell == cell) {
                    Some(operator) => operator.times += 1,
                    None => stage.push(Operator { cell, times: 1, sized }),
                }
            }
            stage
        };
        let count = |range: &Range<usize>| {
            let sized = operators[range.clone()].iter().filter(|(_, sized)| *sized).count();
            ((range.len() - sized) as u32, sized as u32)
        };
        Slicing::Network {
            stages: ranges.iter().map(stage).collect(),
            bounds: [0].into_iter().chain(ranges.iter().map(|range| range.end as u32)).collect(),
            counts: ranges.iter().map(count).collect(),
        }
    }

    pub fn nodes(&self, stage: Stage, of: u32) -> Range<u32> {
        let (from, to) = match self {
            Slicing::Chain { steps, .. } => {
                let from = stage.0.saturating_mul(*steps);
                (from, from.saturating_add(*steps))
            }
            Slicing::Network { bounds, .. } => (bounds[stage.index()], bounds[stage.index() + 1]),
        };
        from.min(of)..to.min(of)
    }

    pub fn is_last(&self, stage: Stage, nodes: u32) -> bool {
        self.nodes(stage, nodes).end == nodes
    }

    pub fn stages(&self, nodes: u32) -> usize {
        match self {
            Slicing::Chain { steps, .. } => nodes.div_ceil(*steps) as usize,
            Slicing::Network { stages, .. } => stages.len(),
        }
    }

    /// `longest`: the nodes of the longest query.
    pub fn steps(&self, stage: Stage, batch: u32, longest: u32, input: u32, into: &mut Vec<Step>) {
        into.clear();
        match self {
            Slicing::Chain { cell, .. } => {
                let times = self.nodes(stage, longest).len() as u32;
                into.push(Step { cell: *cell, batch, times, input });
            }
            Slicing::Network { stages, .. } => {
                let step = |&Operator { cell, times, sized }: &Operator| {
                    let input = if sized { input } else { 0 };
                    Step { cell, batch, times, input }
                };
                into.extend(stages[stage.index()].iter().map(step));
            }
        }
    }

    /// Of all its nodes.
    pub fn time(&self, stage: Stage, batch: u32, input: u32, costs: &dyn CostModel) -> Nanos {
        let mut steps = Vec::new();
        self.steps(stage, batch, u32::MAX, input, &mut steps);
        let times = steps.iter().map(|step| costs.runs(step, MemberKind::Parts).time);
        times.fold(Nanos::ZERO, Nanos::saturating_add)
    }

    /// As [`Step::cells`] counts them.
    pub fn own_cells(&self, stage: Stage, query: &Query) -> u64 {
        let input = u64::from(query.input.max(1));
        match self {
            Slicing::Chain { .. } => self.nodes(stage, query.nodes).len() as u64 * input,
            Slicing::Network { counts, .. } => {
                let (fixed, sized) = counts[stage.index()];
                u64::from(fixed) + u64::from(sized) * input
            }
        }
    }

    pub fn part(&self, stage: Stage, query: &Query) -> Part {
        let nodes = self.nodes(stage, query.nodes);
        Part { request: query.request, from: NodeId(nodes.start), to: NodeId(nodes.end) }
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
        Durations { slicing, costs, known: RefCell::default() }
    }

    /// The paper's T_remain.
    pub fn from(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |known| known.rest.get(stage.index()).copied().unwrap_or(Nanos::ZERO))
    }

    pub fn through(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.from(Stage(0), batch, input).saturating_since(self.from(stage.next(), batch, input))
    }

    pub fn demand(&self, batch: u32, input: u32) -> Share {
        self.with(batch, input, |known| known.demand)
    }

    fn with<T>(&self, batch: u32, input: u32, read: impl FnOnce(&Profile) -> T) -> T {
        let mut known = self.known.borrow_mut();
        read(known.entry((input, batch)).or_insert_with(|| self.work_out(batch, input)))
    }

    fn work_out(&self, batch: u32, input: u32) -> Profile {
        let (mut all, mut steps, mut rest) = (Vec::new(), Vec::new(), vec![Nanos::ZERO; self.slicing.stages(0)]);
        let mut sum = Nanos::ZERO;
        for (stage, rest) in rest.iter_mut().enumerate().rev() {
            let stage = Stage(stage as u32);
            sum = sum.saturating_add(self.slicing.time(stage, batch, input, &*self.costs));
            *rest = sum;
            self.slicing.steps(stage, batch, 0, input, &mut steps);
            all.append(&mut steps);
        }
        Profile { rest, demand: mean_demand(&*self.costs, &all, MemberKind::Parts) }
    }
}
