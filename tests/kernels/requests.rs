//! Whole requests of every model have the results of the CPU's network.

use std::sync::Arc;

use batchlab::network::Spec;
use batchlab::units::{CellId, RequestId};
use batchlab::workload::cell_graph::tree::Tree;
use batchlab::workload::cell_graph::{CellGraph, CellRun, Graph};
use batchlab::workload::model::{Model, Unfolder};
use batchlab::workload::random::{self, RandomSequence};
use batchlab::workload::shape::Shape;
use rand::RngExt;

use super::checked::{self, assert_close};
use super::device::{Cut, Device, Row};
use super::host_cuda::Element;
use super::layer::Kind;

/// Rounding errors pass from node to node.
const TOLERANCE: f64 = 2e-5;

const REQUESTS: u32 = 6;

/// The room for the words of a request.
const WORDS: u32 = 20;

fn draw(model: &Model, rng: &mut RandomSequence) -> Shape {
    match model {
        Model::Seq2Seq => Shape::Seq2Seq {
            source: rng.random_range(1..=5),
            target: rng.random_range(1..=9),
        },
        model if model.takes_trees() => {
            let mut children = vec![0];
            let mut parents = vec![0];
            for _ in 0..rng.random_range(0..12) {
                let most = if *model == Model::TreeLstm { 2 } else { 5 };
                let free: Vec<usize> = (0..children.len())
                    .filter(|node| children[*node] < most)
                    .collect();
                let parent = free[rng.random_range(0..free.len())];
                children[parent] += 1;
                children.push(0);
                parents.push(parent as u32 + 1);
            }
            Shape::Tree(Arc::new(Tree::from_parents(&parents).expect("a tree")))
        }
        _ => Shape::Chain(rng.random_range(1..=9)),
    }
}

/// Chains of all requests, run of cells by run of cells: a request's state is in the slot of its number.
fn chains(device: &mut Device, model: &Model, graphs: &[&[CellRun]]) {
    for run in 0..graphs[0].len() {
        let mut inputs = Vec::new();
        let mut rows = Vec::new();
        for (request, runs) in (0..).zip(graphs) {
            let node = runs[..run].iter().map(|run| run.length).sum();
            if node > 0 {
                inputs.push(request);
            }
            let (last, inputs_end) = (node + runs[run].length - 1, inputs.len() as u32);
            rows.push(Row {
                request,
                node,
                last,
                state: request,
                words: WORDS * request,
                tokens: 0,
                inputs_end,
            });
        }
        let mut station = device.station(Kind::of(model, graphs[0][run].cell), rows.len() + 1, 0);
        checked::gather(device, &mut station, &rows, &inputs);
        for _ in 0..graphs
            .iter()
            .map(|runs| runs[run].length)
            .max()
            .expect("a request")
        {
            checked::step(device, &mut station, true);
        }
    }
}

/// Trees of all requests, the nodes of one depth and one cell together. The slot of a request's first node is given.
fn trees(device: &mut Device, model: &Model, graphs: &[&Graph], first: &[u32]) {
    let depths = graphs
        .iter()
        .flat_map(|graph| graph.depths())
        .max()
        .map_or(0, |deepest| deepest + 1);
    for (depth, cell) in (0..depths).flat_map(|depth| [(depth, CellId(0)), (depth, CellId(1))]) {
        let mut inputs = Vec::new();
        let mut rows = Vec::new();
        for ((request, graph), first) in (0..).zip(graphs).zip(first) {
            let here = |node: &u32| {
                (
                    graph.depths()[*node as usize],
                    graph.cells()[*node as usize],
                ) == (depth, cell)
            };
            for node in (0..graph.len() as u32).filter(here) {
                inputs.extend(graph.inputs(node).iter().map(|input| first + input));
                let (state, inputs_end) = (first + node, inputs.len() as u32);
                rows.push(Row {
                    request,
                    node,
                    last: node,
                    state,
                    words: 0,
                    tokens: 0,
                    inputs_end,
                });
            }
        }
        if !rows.is_empty() {
            let kind = Kind::of(model, cell);
            let mut station = device.station(
                kind,
                rows.len() + 1,
                if kind == Kind::Sum {
                    inputs.len() + 1
                } else {
                    0
                },
            );
            checked::gather(device, &mut station, &rows, &inputs);
            checked::step(device, &mut station, true);
        }
    }
}

#[test]
fn whole_requests_have_the_results_of_runs_by_themselves() {
    for (model, seed) in ["lstm", "gru", "seq2seq", "tree-lstm", "childsum-tree-lstm"]
        .into_iter()
        .zip(20..)
    {
        let model = Model::parse(model).expect("a model");
        let rng = &mut random::sequence(seed, 0, "shapes");
        let mut unfolder = Unfolder::new(&model);
        let graphs: Vec<CellGraph> = (0..REQUESTS)
            .map(|_| unfolder.unfold(&draw(&model, rng)).expect("a graph"))
            .collect();
        let spec = Spec {
            hidden: 36,
            embedding: 20,
            vocabulary: 60,
            seed,
            weights: None,
        };
        let cut = Cut {
            units: 1,
            rows: 4,
            seed,
        };
        let nodes: u64 = graphs.iter().map(CellGraph::nodes).sum();
        let Some(mut device) = Device::new(&model, &spec, Element::F32, nodes as usize, 1, cut)
        else {
            return;
        };

        let runs: Vec<&[CellRun]> = graphs
            .iter()
            .filter_map(|graph| graph_runs(graph))
            .collect();
        let shapes: Vec<&Graph> = graphs.iter().filter_map(tree).collect();
        let mut first = Vec::new();
        if shapes.is_empty() {
            chains(&mut device, &model, &runs);
        } else {
            first.extend(shapes.iter().scan(0, |end, graph| {
                Some(std::mem::replace(end, *end + graph.len() as u32))
            }));
            trees(&mut device, &model, &shapes, &first);
        }

        for (request, graph) in (0..).zip(&graphs) {
            let alone = device.network.alone(RequestId(request.into()), graph);
            let what = format!("request {request} of {}", model.name());
            // The root has no successor, and every other node has one.
            let root = tree(graph).map(|graph| {
                (0..graph.len() as u32).find(|node| graph.successors(*node).is_empty())
            });
            let slot = root.map_or(request, |root| {
                first[request as usize] + root.expect("a tree has a root")
            });
            let expected: Vec<f64> = alone.state.iter().map(|x| f64::from(*x)).collect();
            assert_close(device.state(slot), &expected, TOLERANCE, &what);
            let source = graph.nodes() as usize - alone.words.len();
            let written = &device.words[(WORDS * request) as usize + source..][..alone.words.len()];
            if model == Model::Seq2Seq {
                assert_eq!(written, alone.words, "{what}");
            }
        }
    }
}

fn graph_runs(graph: &CellGraph) -> Option<&[CellRun]> {
    match graph {
        CellGraph::Chains(runs) => Some(runs),
        CellGraph::Graph(_) => None,
    }
}

fn tree(graph: &CellGraph) -> Option<&Graph> {
    match graph {
        CellGraph::Chains(_) => None,
        CellGraph::Graph(graph) => Some(graph),
    }
}
