//! A reference for tests, which builds the graph of operators node by node.

use std::fmt::Debug;
use std::hash::Hash;

use super::OperatorLaunch;
use super::classes::{KeyFunction, NodeClasses};
use crate::base::units::CellId;
use crate::core::workload::cell_graph::{CellGraph, Graph};
use crate::core::workload::operator::catalogue::OperatorList;
use crate::core::workload::operator::{OperandSource, OperatorKind, RowRule};

pub struct Node<K> {
    pub key: Option<K>,
    pub elementwise: bool,
    pub inputs: Vec<usize>,
    pub depth: u32,
    pub rows: u64,
}

/// All operators in the order of building: request by request, children before parents, each cell's list in order.
pub fn build<K>(
    graphs: &[CellGraph],
    lists: &[OperatorList],
    key_of: KeyFunction<K>,
) -> Vec<Node<K>> {
    let mut nodes: Vec<Node<K>> = Vec::new();
    for graph in graphs {
        let (cells, edges) = spell_out(graph);
        let inputs_of = |node: u32| {
            edges
                .iter()
                .filter(|(_, to)| *to == node)
                .map(|(from, _)| *from)
                .collect::<Vec<_>>()
        };
        let plain = Graph::new(cells.iter().map(|(cell, _)| *cell).collect(), &edges).unwrap();
        let mut order: Vec<u32> = (0..cells.len() as u32).collect();
        order.sort_by_key(|node| (plain.depths()[*node as usize], *node));
        let mut state = vec![usize::MAX; cells.len()];
        for node in order {
            let (cell, input) = cells[node as usize];
            let before = inputs_of(node);
            let count = before.len().max(1) as u32;
            let mut copies: Vec<Vec<usize>> = Vec::new();
            for operator in &lists[cell.index()].operators {
                let mut own = Vec::new();
                for copy in 0..operator.copies(count) as usize {
                    let one = operator.rows == RowRule::ForEach;
                    let inputs: Vec<usize> = operator
                        .inputs
                        .iter()
                        .flat_map(|source| match source {
                            OperandSource::Word => vec![],
                            OperandSource::State if one => before
                                .get(copy)
                                .map(|node| state[*node as usize])
                                .into_iter()
                                .collect(),
                            OperandSource::State => {
                                before.iter().map(|node| state[*node as usize]).collect()
                            }
                            OperandSource::Operator(earlier) => {
                                let earlier = &copies[*earlier as usize];
                                if one && earlier.len() > 1 {
                                    vec![earlier[copy]]
                                } else {
                                    earlier.clone()
                                }
                            }
                        })
                        .collect();
                    let depth = inputs
                        .iter()
                        .map(|input| nodes[*input].depth + 1)
                        .max()
                        .unwrap_or(0);
                    own.push(nodes.len());
                    nodes.push(Node {
                        key: key_of(operator, count, input),
                        elementwise: matches!(
                            operator.kind,
                            OperatorKind::Elementwise { .. } | OperatorKind::Sum
                        ),
                        inputs,
                        depth,
                        rows: u64::from(operator.rows(count)),
                    });
                }
                copies.push(own);
            }
            state[node as usize] = copies.last().unwrap()[0];
        }
    }
    nodes
}

type Spelled = (Vec<(CellId, u32)>, Vec<(u32, u32)>);

fn spell_out(graph: &CellGraph) -> Spelled {
    match graph {
        CellGraph::Chains(runs) => {
            let cells: Vec<_> = runs
                .iter()
                .flat_map(|run| vec![(run.cell, run.input); run.length as usize])
                .collect();
            let edges = (1..cells.len() as u32)
                .map(|node| (node - 1, node))
                .collect();
            (cells, edges)
        }
        CellGraph::Graph(graph) => {
            let edges = (0..graph.len() as u32)
                .flat_map(|node| graph.successors(node).iter().map(move |to| (node, *to)));
            (
                graph.cells().iter().map(|cell| (*cell, 0)).collect(),
                edges.collect(),
            )
        }
    }
}

pub type Launched<K> = Vec<(Option<K>, u64)>;

fn seen<K: Eq + Clone>(nodes: &[Node<K>]) -> Vec<K> {
    let mut seen: Vec<K> = Vec::new();
    for key in nodes.iter().filter_map(|node| node.key.as_ref()) {
        if !seen.contains(key) {
            seen.push(key.clone());
        }
    }
    seen
}

pub fn by_depth<K: Eq + Clone>(nodes: &[Node<K>]) -> Launched<K> {
    let seen = seen(nodes);
    let deepest = nodes.iter().map(|node| node.depth).max().unwrap_or(0);
    let mut launched = Vec::new();
    for depth in 0..=deepest {
        for key in &seen {
            let rows: u64 = nodes
                .iter()
                .filter(|n| n.depth == depth && n.key.as_ref() == Some(key))
                .map(|n| n.rows)
                .sum();
            if rows > 0 {
                launched.push((Some(key.clone()), rows));
            }
        }
    }
    launched
}

pub fn by_agenda<K: Eq + Clone>(nodes: &[Node<K>]) -> Launched<K> {
    let seen = seen(nodes);
    let means: Vec<(u64, u64, bool)> = seen
        .iter()
        .map(|key| {
            let own: Vec<&Node<K>> = nodes
                .iter()
                .filter(|node| node.key.as_ref() == Some(key))
                .collect();
            (
                own.iter().map(|node| u64::from(node.depth)).sum(),
                own.len() as u64,
                own[0].elementwise,
            )
        })
        .collect();
    let mut done = vec![false; nodes.len()];
    let mut launched = Vec::new();
    loop {
        let ready: Vec<usize> = (0..nodes.len())
            .filter(|n| !done[*n] && nodes[*n].inputs.iter().all(|input| done[*input]))
            .collect();
        if ready.is_empty() {
            break;
        }
        if let Some(single) = ready.iter().find(|node| nodes[**node].key.is_none()) {
            done[*single] = true;
            launched.push((None, 1));
            continue;
        }
        let mut best: Option<usize> = None;
        for signature in 0..seen.len() {
            if !ready
                .iter()
                .any(|node| nodes[*node].key.as_ref() == Some(&seen[signature]))
            {
                continue;
            }
            let better = best.is_none_or(|best| {
                let (sum, count, elementwise) = means[signature];
                let (best_sum, best_count, best_elementwise) = means[best];
                let own = sum * best_count;
                let others = best_sum * count;
                own < others || own == others && elementwise && !best_elementwise
            });
            if better {
                best = Some(signature);
            }
        }
        let key = &seen[best.unwrap()];
        let members = ready
            .iter()
            .filter(|node| nodes[**node].key.as_ref() == Some(key));
        let mut rows = 0;
        for node in members {
            done[*node] = true;
            rows += nodes[*node].rows;
        }
        launched.push((Some(key.clone()), rows));
    }
    launched
}

pub fn translated<K: Hash + Eq + Clone + Debug>(
    launches: &[OperatorLaunch],
    classes: &NodeClasses<K>,
    key_of: KeyFunction<K>,
) -> Launched<K> {
    let meaning = |launch: &OperatorLaunch| {
        let places = (0..classes.all().len() as u32).flat_map(|class| {
            classes.all()[class as usize]
                .keys
                .iter()
                .enumerate()
                .map(move |(place, key)| (class, place, *key))
        });
        let (class, place, _) = places.clone().find(|(.., key)| *key == launch.key).unwrap();
        let operator = &classes.cell(class).list.operators[place];
        let class = &classes.all()[class as usize];
        key_of(operator, class.before, class.input)
    };
    launches
        .iter()
        .flat_map(|launch| match meaning(launch) {
            None => vec![(None, 1); launch.operators as usize],
            key => vec![(key, launch.rows)],
        })
        .collect()
}
