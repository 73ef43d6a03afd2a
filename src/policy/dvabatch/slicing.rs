//! What the stages of a network are (DVABatch, section 7.1).

use std::ops::Range;

use super::Stage;
use super::table::Query;
use crate::task::{Part, Step};
use crate::units::{CellId, NodeId};

/// A network, cut into stages. A request's nodes stand one behind the other, and each stage has some of them.
#[derive(Clone, Debug)]
pub enum Slicing {
    /// A chain of one cell, unrolled: so many steps a stage, and as many stages as the longest request needs. A request leaves behind the
    /// stage in which it ends.
    Chain {
        /// The cell.
        cell: CellId,
        /// The steps of a stage.
        steps: u32,
    },
    /// The operators of a network, which all requests pass.
    Network {
        /// The operators of each stage.
        stages: Vec<Vec<Operator>>,
        /// Where each stage begins, and behind the last where it ends, as numbers of operators.
        bounds: Vec<u32>,
        /// For each stage how many of its operators do not depend on the input, and how many do.
        counts: Vec<(u32, u32)>,
    },
}

/// An operator of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Its cell type.
    pub cell: CellId,
    /// How often the stage has it.
    pub times: u32,
    /// Its time depends on the size of the input.
    pub sized: bool,
}

impl Slicing {
    /// A network of these operators, cut into these ranges, which follow each other.
    pub fn network(operators: &[(CellId, bool)], ranges: &[Range<usize>]) -> Slicing {
        let stage = |range: &Range<usize>| {
            let mut stage: Vec<Operator> = Vec::new();
            for &(cell, sized) in &operators[range.clone()] {
                // The order inside of a stage is the device's, so that equal operators need only be counted.
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

    /// The nodes that a stage has of a request with so many.
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

    /// Whether a request of so many nodes is done behind a stage.
    pub fn is_last(&self, stage: Stage, nodes: u32) -> bool {
        self.nodes(stage, nodes).end == nodes
    }

    /// The stages that a request of so many nodes passes.
    pub fn stages(&self, nodes: u32) -> usize {
        match self {
            Slicing::Chain { steps, .. } => nodes.div_ceil(*steps) as usize,
            Slicing::Network { stages, .. } => stages.len(),
        }
    }

    /// The steps of a stage for a batch whose longest query has so many nodes, padded to this input.
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

    /// How many cells of a stage are a query's own, as [`Step::cells`] counts them.
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

    /// The part of a query that a stage runs.
    pub fn part(&self, stage: Stage, query: &Query) -> Part {
        let nodes = self.nodes(stage, query.nodes);
        Part { request: query.request, from: NodeId(nodes.start), to: NodeId(nodes.end) }
    }
}
