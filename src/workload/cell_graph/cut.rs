//! Cutting a graph into subgraphs.

use super::{Edges, Lists};
use crate::units::CellId;

/// Cuts a graph into subgraphs, numbered by their lowest node: first the connected sets of one type. Such sets may wait
/// for each other (an A needs a B that needs an A of the same set). Each set on a cycle is split by the number of type
/// changes on the longest path to a node. Every edge between parts raises it, so no cycle remains.
pub(super) fn cut(cells: &[CellId], edges: &Edges, order: &[u32]) -> Box<[u32]> {
    let whole = connected(cells.len(), edges, |a, b| cells[a] == cells[b]);
    let circular = on_a_circle(&whole, edges);
    if !circular.iter().any(|c| *c) {
        return whole;
    }
    let mut changes = vec![0u32; cells.len()];
    for &node in order {
        for &next in edges.of(node) {
            let step = u32::from(cells[node as usize] != cells[next as usize]);
            changes[next as usize] = changes[next as usize].max(changes[node as usize] + step);
        }
    }
    connected(cells.len(), edges, |a, b| {
        cells[a] == cells[b] && (!circular[whole[a] as usize] || changes[a] == changes[b])
    })
}

/// Sets connected by edges with `joins`, numbered by lowest node.
pub(super) fn connected(nodes: usize, edges: &Edges, joins: impl Fn(usize, usize) -> bool) -> Box<[u32]> {
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
        for &next in edges.of(node) {
            if joins(node as usize, next as usize) {
                let (a, b) = (find(&mut root, node), find(&mut root, next));
                root[a.max(b) as usize] = a.min(b);
            }
        }
    }
    let mut number = vec![0u32; nodes];
    let mut count = 0;
    for node in 0..nodes as u32 {
        let lowest = find(&mut root, node);
        if lowest == node {
            number[node as usize] = count;
            count += 1;
        } else {
            number[node as usize] = number[lowest as usize];
        }
    }
    number.into()
}

/// By set: its strongly connected component has another member (Tarjan, without recursion).
fn on_a_circle(set_of: &[u32], edges: &Edges) -> Vec<bool> {
    let count = set_of.iter().max().map_or(0, |last| *last as usize + 1);
    let nodes = 0..set_of.len() as u32;
    let between = nodes.flat_map(|node| edges.of(node).iter().map(move |next| (node, *next)));
    let between = between.map(|(node, next)| (set_of[node as usize], set_of[next as usize])).filter(|(a, b)| a != b);
    let next_sets = Lists::new(count, between);
    const UNSEEN: u32 = u32::MAX;
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0u32; count]);
    let (mut on_stack, mut stack) = (vec![false; count], Vec::new());
    let mut circular = vec![false; count];
    let mut clock = 0;
    for start in 0..count {
        let mut calls: Vec<(usize, usize)> = if index[start] == UNSEEN { vec![(start, 0)] } else { vec![] };
        while let Some((set, edge)) = calls.pop() {
            if edge == 0 {
                (index[set], low[set]) = (clock, clock);
                clock += 1;
                stack.push(set);
                on_stack[set] = true;
            }
            if let Some(&next) = next_sets.of(set as u32).get(edge) {
                calls.push((set, edge + 1));
                let next = next as usize;
                if index[next] == UNSEEN {
                    calls.push((next, 0));
                } else if on_stack[next] {
                    low[set] = low[set].min(index[next]);
                }
                continue;
            }
            if let Some(&(caller, _)) = calls.last() {
                low[caller] = low[caller].min(low[set]);
            }
            if low[set] == index[set] {
                let first =
                    stack.iter().rposition(|s| *s == set).expect("a set is on the stack until its component is");
                let component = stack.split_off(first);
                for &member in &component {
                    on_stack[member] = false;
                    circular[member] = component.len() > 1;
                }
            }
        }
    }
    circular
}
