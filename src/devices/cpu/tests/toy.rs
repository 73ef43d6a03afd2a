//! A network of whole numbers that detects any confusion of states, and its reference.

use std::sync::Arc;

use rand::RngExt;

use crate::base::units::{CellId, RequestId};
use crate::core::backend::Output;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellGraph, CellRun, Graph, SharedGraph};
use crate::core::workload::model::{CellType, Model};
use crate::core::workload::random::RandomSequence;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::{BatchInputs, Network, NetworkCell, Scratch, Spec};

pub const WIDTH: usize = 5;

/// Hashes a row's words and states, in order, to numbers that a float32 represents.
#[derive(Debug)]
pub struct Mix {
    pub salt: u32,
    pub writes: bool,
}

impl NetworkCell for Mix {
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], _: &mut Scratch) {
        assert_eq!(out.len(), batch.rows * WIDTH);
        assert_eq!(batch.states_at.len(), batch.rows);
        for (row, out) in out.chunks_exact_mut(WIDTH).enumerate() {
            let tokens = &batch.tokens[batch.tokens_of(row)];
            assert!(!tokens.is_empty(), "every row has a word");
            assert!(batch.padded_to == 0 || tokens.len() <= batch.padded_to as usize);
            let states = batch.states_of(row);
            let states = &batch.states[states.start * WIDTH..states.end * WIDTH];
            let words = tokens
                .iter()
                .copied()
                .chain(states.iter().map(|number| *number as u32));
            let hash = words.fold(self.salt, |hash, word| {
                (hash.rotate_left(7) ^ word).wrapping_mul(0x9e37_79b1)
            });
            for (place, number) in (1..).zip(out) {
                *number = ((hash ^ place).wrapping_mul(0x85eb_ca6b) >> 12) as f32;
            }
        }
    }

    fn word(&self, state: &[f32]) -> Option<u32> {
        self.writes.then_some(state[0] as u32)
    }
}

/// A network of three cells, of which the first writes words.
pub fn network() -> Arc<Network> {
    let cell = |salt| {
        Box::new(Mix {
            salt,
            writes: salt == 0,
        }) as Box<dyn NetworkCell>
    };
    of_cells((0..3).map(cell).collect())
}

pub fn of_cells(cells: Vec<Box<dyn NetworkCell>>) -> Arc<Network> {
    let width = WIDTH as u32;
    let spec = Spec {
        hidden: width,
        embedding: width,
        vocabulary: 1000,
        seed: 11,
        weights: None,
    };
    let cells = cells.into_iter().map(Arc::from).collect();
    Arc::new(Network::from_cells(
        &Model::Dnn("toy".into()),
        &spec,
        cells,
        WIDTH,
    ))
}

pub fn alone(network: &Network, request: RequestId, graph: &CellGraph) -> u64 {
    // Each node with its cell, input size and needed nodes, by ascending depth.
    let nodes: Vec<(u32, CellId, u32, Vec<u32>)> = match graph {
        CellGraph::Chains(runs) => {
            let cells = runs
                .iter()
                .flat_map(|run| (0..run.length).map(|_| (run.cell, run.input)));
            (0u32..)
                .zip(cells)
                .map(|(n, (cell, input))| (n, cell, input, n.checked_sub(1).into_iter().collect()))
                .collect()
        }
        CellGraph::Graph(graph) => {
            let mut order: Vec<u32> = (0..graph.len() as u32).collect();
            order.sort_by_key(|node| graph.depths()[*node as usize]);
            let needs = |node: u32| {
                (0..graph.len() as u32).filter(move |n| graph.successors(*n).contains(&node))
            };
            order
                .into_iter()
                .map(|n| (n, graph.cells()[n as usize], 0, needs(n).collect()))
                .collect()
        }
    };
    let mut states = vec![[0.0; WIDTH]; nodes.len()];
    let mut words = vec![None; nodes.len()];
    for (node, cell, input, needs) in &nodes {
        let tokens: Vec<u32> = match input {
            0 => vec![network.token(request, *node)],
            size => (0..*size)
                .map(|place| network.token(request, place))
                .collect(),
        };
        let taken: Vec<f32> = needs
            .iter()
            .flat_map(|input| states[*input as usize])
            .collect();
        let all = 0..needs.len() as u32;
        let batch = BatchInputs {
            rows: 1,
            tokens: &tokens,
            token_ends: &[tokens.len() as u32],
            padded_to: 0,
            states: &taken,
            states_at: &[all],
        };
        let cell = network.cell(*cell);
        cell.run(&batch, &mut states[*node as usize], &mut Scratch::default());
        words[*node as usize] = cell.word(&states[*node as usize]);
    }
    let is_needed = |node: usize| {
        nodes
            .iter()
            .any(|(_, _, _, needs)| needs.contains(&(node as u32)))
    };
    let state = (0..nodes.len())
        .filter(|node| !is_needed(*node))
        .flat_map(|node| states[node])
        .collect();
    Output {
        state,
        words: words.into_iter().flatten().collect(),
    }
    .digest()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Chains,
    /// A run of one cell type, then one of another.
    Pairs,
    Sized,
    /// Leaves under internal nodes.
    Trees,
    /// Graphs of three types in any order.
    Graphs,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Chains,
        Kind::Pairs,
        Kind::Sized,
        Kind::Trees,
        Kind::Graphs,
    ];

    /// A model of the same shape for policies.
    pub fn model(self) -> Model {
        match self {
            Kind::Chains => Model::Lstm,
            Kind::Pairs => Model::Seq2Seq,
            Kind::Sized => Model::Dnn("toy".into()),
            Kind::Trees | Kind::Graphs => Model::TreeLstm,
        }
    }

    pub fn sequences(self) -> bool {
        !matches!(self, Kind::Trees | Kind::Graphs)
    }

    pub fn cells(self) -> Vec<CellType> {
        if self != Kind::Graphs {
            return self.model().cell_types();
        }
        let cell = |name: &str, priority| CellType::new(name, priority, false);
        vec![cell("a", 1), cell("b", 0), cell("c", 0)]
    }

    pub fn requests(self, count: usize, rng: &mut RandomSequence) -> Requests {
        let (shapes, graphs): (Vec<Shape>, Vec<CellGraph>) =
            (0..count).map(|_| self.request(rng)).unzip();
        Requests {
            shapes: shapes.into(),
            graphs: graphs.into(),
            classes: None,
        }
    }

    fn request(self, rng: &mut RandomSequence) -> (Shape, CellGraph) {
        let length = rng.random_range(1..=9);
        let run = |cell, length, input| CellRun {
            cell: CellId(cell),
            length,
            input,
        };
        match self {
            Kind::Chains => (Shape::Chain(length), CellGraph::chain(CellId(0), length)),
            Kind::Pairs => {
                let target = rng.random_range(1..=9);
                let shape = Shape::Seq2Seq {
                    source: length,
                    target,
                };
                (
                    shape,
                    CellGraph::chains([run(1, length, 0), run(0, target, 0)]),
                )
            }
            Kind::Sized => (
                Shape::Tokens(length),
                CellGraph::chains([run(0, 1, length)]),
            ),
            Kind::Trees => {
                // The parent of each node but the root comes later. Parents are counted from 1.
                let nodes = 2 * length;
                let mut parents: Vec<u32> = (0..nodes - 1)
                    .map(|node| rng.random_range(node + 1..nodes) + 1)
                    .collect();
                parents.push(0);
                let tree = Arc::new(Tree::from_parents(&parents).expect("a tree"));
                // Programs on the crate may list the graphs of trees.
                let graph = if rng.random() {
                    SharedGraph::Tree(Arc::clone(&tree))
                } else {
                    tree.graph().clone().into()
                };
                (Shape::Tree(tree), CellGraph::Graph(graph))
            }
            Kind::Graphs => {
                let nodes = length + 3;
                let cells = (0..nodes).map(|_| CellId(rng.random_range(0..3))).collect();
                let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
                // Even numbers rank before odd ones, so that nodes are not numbered in the order of their depths.
                let rank = |node: u32| (node % 2, node);
                let edges: Vec<(u32, u32)> = pairs
                    .filter(|(a, b)| rank(*a) < rank(*b) && rng.random_bool(0.3))
                    .collect();
                (
                    Shape::Fixed,
                    CellGraph::Graph(
                        Graph::new(cells, &edges)
                            .expect("edges of ascending rank")
                            .into(),
                    ),
                )
            }
        }
    }
}
