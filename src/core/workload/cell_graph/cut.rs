//! Cutting a graph into subgraphs.

use super::{Edges, Lists, longest};
use crate::base::units::CellId;

/// Cuts a graph into subgraphs, numbered by their lowest node: first the connected sets of one type. Such sets may wait
/// for each other (an A needs a B that needs an A of the same set). Each set on a cycle is split by the number of type
/// changes on the longest path to a node. Every edge between parts raises it, so no cycle remains.
pub(super) fn cut(cells: &[CellId], edges: &Edges, order: &[u32]) -> Box<[u32]> {
    let whole = connected_sets(cells.len(), edges, |a, b| cells[a] == cells[b]);
    let circular = find_circles(&whole, edges);
    if !circular.iter().any(|c| *c) {
        return whole;
    }
    let changes = longest(order, edges, |a, b| u32::from(cells[a] != cells[b]));
    connected_sets(cells.len(), edges, |a, b| {
        cells[a] == cells[b] && (!circular[whole[a] as usize] || changes[a] == changes[b])
    })
}

/// The set of each node. Sets are connected by the edges that `joins` allows, and numbered by their lowest node.
pub(super) fn connected_sets(
    nodes: usize,
    edges: &Edges,
    joins: impl Fn(usize, usize) -> bool,
) -> Box<[u32]> {
    // Union-find; the lower node is the root.
    let mut root: Vec<u32> = (0..nodes as u32).collect();
    fn find(root: &mut [u32], mut node: u32) -> u32 {
        while root[node as usize] != node {
            root[node as usize] = root[root[node as usize] as usize];
            node = root[node as usize];
        }
        node
    }
    for node in 0..nodes as u32 {
        for &next in edges.list(node) {
            if joins(node as usize, next as usize) {
                let a = find(&mut root, node);
                let b = find(&mut root, next);
                root[a.max(b) as usize] = a.min(b);
            }
        }
    }
    let mut number = Vec::with_capacity(nodes);
    let mut numbers = 0..;
    for node in 0..nodes as u32 {
        let lowest = find(&mut root, node);
        let known = number.get(lowest as usize).copied();
        number.extend(known.or_else(|| numbers.next()));
    }
    number.into()
}

/// Whether the strongly connected component of each set has another member (Kosaraju).
fn find_circles(set_of: &[u32], edges: &Edges) -> Vec<bool> {
    let count = set_of.iter().max().map_or(0, |last| *last as usize + 1);
    let nodes = 0..set_of.len() as u32;
    let between = nodes.flat_map(|node| edges.list(node).iter().map(move |next| (node, *next)));
    let between = between
        .map(|(node, next)| (set_of[node as usize], set_of[next as usize]))
        .filter(|(a, b)| a != b);
    let next = Lists::new(count, between.clone());
    let before = Lists::new(count, between.map(|(a, b)| (b, a)));
    let mut seen = vec![false; count];
    let mut left = Vec::with_capacity(count);
    for set in 0..count as u32 {
        visit(set, &next, &mut seen, &mut left);
    }
    // The component of the set that was left last is what it reaches backwards.
    let mut circular = vec![false; count];
    seen.fill(false);
    let mut component = Vec::new();
    for set in left.into_iter().rev() {
        visit(set, &before, &mut seen, &mut component);
        let has_others = component.len() > 1;
        component
            .drain(..)
            .for_each(|member| circular[member as usize] = has_others);
    }
    circular
}

/// Visits what has not been seen, depth first and without recursion. `left` gets the visited sets in post-order.
fn visit(set: u32, next: &Lists, seen: &mut [bool], left: &mut Vec<u32>) {
    if std::mem::replace(&mut seen[set as usize], true) {
        return;
    }
    let mut calls = vec![(set, 0)];
    while let Some((set, edge)) = calls.pop() {
        match next.list(set).get(edge) {
            None => left.push(set),
            Some(&to) => {
                calls.push((set, edge + 1));
                if !std::mem::replace(&mut seen[to as usize], true) {
                    calls.push((to, 0));
                }
            }
        }
    }
}
