//! Cell graphs, to which requests unfold, and their subgraphs (BatchMaker, sections 3.1 and 4.3).
//!
//! A node is one call of a cell; an edge says that the later node takes the earlier one's output. Chains are stored as
//! lengths and trees as parents; requests with the same shape share one graph.

mod cut;
#[cfg(test)]
mod tests;
pub mod tree;

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use self::cut::{connected_sets, cut};
use self::tree::Tree;
use crate::base::units::CellId;

/// The nodes of a request and the edges between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CellGraph {
    /// Runs of one cell type each, one after another. Neighbours differ in cell type, so each is one subgraph.
    Chains(CellRuns),
    Graph(SharedGraph),
}

/// A graph that is no chain. It dereferences to its lists, and those of a tree are made at first use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SharedGraph {
    Listed(Arc<Graph>),
    /// A tree in which leaves have the cell type [`Tree::LEAF`] and other nodes [`Tree::INNER`].
    Tree(Arc<Tree>),
}

impl SharedGraph {
    /// The number of nodes.
    #[allow(clippy::len_without_is_empty)] // a graph has at least one node
    pub fn len(&self) -> usize {
        match self {
            SharedGraph::Listed(graph) => graph.len(),
            SharedGraph::Tree(tree) => tree.len(),
        }
    }
}

impl Deref for SharedGraph {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        match self {
            SharedGraph::Listed(graph) => graph,
            SharedGraph::Tree(tree) => tree.graph(),
        }
    }
}

impl From<Graph> for SharedGraph {
    fn from(graph: Graph) -> SharedGraph {
        SharedGraph::Listed(Arc::new(graph))
    }
}

/// A chain of cells of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellRun {
    pub cell: CellId,
    pub length: u32,
    /// The input size, for cells whose time depends on it (tokens); otherwise 0.
    pub input: u32,
}

/// The runs of a chain. More than two are shared by all clones, so that requests of a long network take little memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CellRuns {
    One([CellRun; 1]),
    Two([CellRun; 2]),
    Shared(Arc<[CellRun]>),
}

impl Deref for CellRuns {
    type Target = [CellRun];
    fn deref(&self) -> &[CellRun] {
        match self {
            CellRuns::One(runs) => runs,
            CellRuns::Two(runs) => runs,
            CellRuns::Shared(runs) => runs,
        }
    }
}

impl CellGraph {
    pub fn chain(cell: CellId, length: u32) -> CellGraph {
        CellGraph::Chains(CellRuns::One([CellRun {
            cell,
            length,
            input: 0,
        }]))
    }

    /// A chain of runs, one after another; neighbours of one cell type are merged.
    pub fn chains(runs: impl IntoIterator<Item = CellRun>) -> CellGraph {
        let mut merged: SmallVec<[CellRun; 2]> = SmallVec::new();
        for run in runs {
            match merged.last_mut() {
                Some(last) if last.cell == run.cell && last.input == run.input => {
                    last.length += run.length
                }
                _ => merged.push(run),
            }
        }
        CellGraph::Chains(match merged[..] {
            [run] => CellRuns::One([run]),
            [first, second] => CellRuns::Two([first, second]),
            _ => CellRuns::Shared(merged[..].into()),
        })
    }

    /// The bytes that the graph takes in addition to this value. Requests with the same tree share them.
    pub fn shared_bytes(&self) -> usize {
        match self {
            CellGraph::Chains(_) => 0,
            CellGraph::Graph(graph) => size_of::<Graph>() + graph.bytes_of_lists(),
        }
    }

    pub fn nodes(&self) -> u64 {
        match self {
            CellGraph::Chains(runs) => runs.iter().map(|run| u64::from(run.length)).sum(),
            CellGraph::Graph(graph) => graph.len() as u64,
        }
    }

    /// The number of nodes on the longest path.
    pub fn depth(&self) -> u32 {
        match self {
            CellGraph::Chains(runs) => runs.iter().map(|run| run.length).sum(),
            CellGraph::Graph(SharedGraph::Tree(tree)) => tree.height() + 1,
            CellGraph::Graph(graph) => graph.depths().iter().max().map_or(0, |deepest| deepest + 1),
        }
    }

    /// The most nodes of each cell type at the same depth.
    pub fn widths(&self, cells: usize) -> Vec<u32> {
        let mut widths = vec![0; cells];
        match self {
            CellGraph::Chains(runs) => runs.iter().for_each(|run| widths[run.cell.index()] = 1),
            CellGraph::Graph(graph) => {
                let mut counts = vec![0u32; cells * self.depth() as usize];
                for (cell, depth) in graph.cells().iter().zip(graph.depths()) {
                    let count = &mut counts[*depth as usize * cells + cell.index()];
                    *count += 1;
                    widths[cell.index()] = widths[cell.index()].max(*count);
                }
            }
        }
        widths
    }
}

/// The lists of a directed acyclic graph of typed cells.
#[derive(Clone, Debug)]
pub struct Graph {
    cells: Box<[CellId]>,
    edges: Edges,
    inner_inputs: Box<[u32]>,
    subgraph_of: Box<[u32]>,
    subgraphs: Box<[Subgraph]>,
    entries: Lists,
    depths: Box<[u32]>,
    inputs: OnceLock<Lists>,
}

/// Cells and edges determine the rest of a graph.
impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        self.cells == other.cells && self.edges == other.edges
    }
}

impl Eq for Graph {}

impl Hash for Graph {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.cells, &self.edges).hash(state);
    }
}

/// A maximal connected set of nodes of one cell type, which the scheduler queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subgraph {
    pub cell: CellId,
    pub nodes: u32,
    /// The edges from other subgraphs, all of which must be satisfied before the release.
    pub outer_inputs: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Edges {
    /// The node that takes each node's output, or [`Tree::NO_PARENT`].
    Parents(Box<[u32]>),
    Lists(Lists),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lists {
    /// The bounds of each node's list: that of node `n` is `targets[offsets[n]..offsets[n + 1]]`.
    offsets: Box<[u32]>,
    targets: Box<[u32]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    Empty,
    Cycle(Vec<u32>),
}

/// The text of a cycle, such as `1 -> 2 -> 1`.
pub fn circle(nodes: &[u32], name: impl Fn(&u32) -> String) -> String {
    nodes
        .iter()
        .chain(&nodes[..1])
        .map(name)
        .collect::<Vec<_>>()
        .join(" -> ")
}

impl Graph {
    /// An edge `(a, b)` says that node `b` needs node `a`; duplicates count once.
    ///
    /// # Panics
    /// An edge names a node that does not exist.
    pub fn new(cells: Vec<CellId>, edges: &[(u32, u32)]) -> Result<Graph, GraphError> {
        if cells.is_empty() {
            return Err(GraphError::Empty);
        }
        let mut sorted = edges.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let edges = Edges::Lists(Lists::new(cells.len(), sorted.into_iter()));
        let order = topological_order(cells.len(), &edges)?;
        let depths = longest(&order, &edges, |_, _| 1);
        let subgraph_of = cut(&cells, &edges, &order);
        Ok(Graph::assemble(cells.into(), edges, subgraph_of, depths))
    }

    /// The graph of a tree, in which the cell of a node depends on the number of its children. Connected nodes of one
    /// type are a subgraph. Contracting them leaves a tree, so that no subgraph waits for itself.
    pub fn from_tree(tree: &Tree, cell: impl Fn(u32) -> CellId) -> Graph {
        let children = tree.child_counts();
        let cells: Box<[CellId]> = children.iter().map(|count| cell(*count)).collect();
        let edges = Edges::Parents(tree.parents().into());
        let subgraph_of = connected_sets(cells.len(), &edges, |a, b| cells[a] == cells[b]);
        Graph::assemble(cells, edges, subgraph_of, tree.heights().into())
    }

    fn assemble(
        cells: Box<[CellId]>,
        edges: Edges,
        subgraph_of: Box<[u32]>,
        depths: Box<[u32]>,
    ) -> Graph {
        let count = subgraph_of
            .iter()
            .max()
            .map_or(0, |last| *last as usize + 1);
        let mut inner_inputs = vec![0u32; cells.len()];
        let mut subgraphs = vec![
            Subgraph {
                cell: cells[0],
                nodes: 0,
                outer_inputs: 0
            };
            count
        ];
        for (node, &home) in subgraph_of.iter().enumerate() {
            subgraphs[home as usize].cell = cells[node];
            subgraphs[home as usize].nodes += 1;
            for &next in edges.list(node as u32) {
                let subgraph = subgraph_of[next as usize];
                if subgraph == home {
                    inner_inputs[next as usize] += 1;
                } else {
                    subgraphs[subgraph as usize].outer_inputs += 1;
                }
            }
        }
        let nodes = (0..cells.len() as u32).filter(|node| inner_inputs[*node as usize] == 0);
        let entries = Lists::new(count, nodes.map(|node| (subgraph_of[node as usize], node)));
        Graph {
            cells,
            edges,
            inner_inputs: inner_inputs.into(),
            subgraph_of,
            subgraphs: subgraphs.into(),
            entries,
            depths,
            inputs: OnceLock::new(),
        }
    }

    fn bytes_of_lists(&self) -> usize {
        let edges = match &self.edges {
            Edges::Parents(parents) => size_of_val(&**parents),
            Edges::Lists(lists) => lists.bytes(),
        };
        size_of_val(&*self.cells)
            + edges
            + size_of_val(&*self.inner_inputs)
            + size_of_val(&*self.subgraph_of)
            + size_of_val(&*self.subgraphs)
            + self.entries.bytes()
            + size_of_val(&*self.depths)
            + self.inputs.get().map_or(0, Lists::bytes)
    }

    #[allow(clippy::len_without_is_empty)] // a graph has at least one node
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn cells(&self) -> &[CellId] {
        &self.cells
    }

    pub fn successors(&self, node: u32) -> &[u32] {
        self.edges.list(node)
    }

    pub fn inputs(&self, node: u32) -> &[u32] {
        let inputs = self.inputs.get_or_init(|| {
            let nodes = 0..self.len() as u32;
            let edges =
                nodes.flat_map(|from| self.successors(from).iter().map(move |to| (*to, from)));
            Lists::new(self.len(), edges)
        });
        inputs.list(node)
    }

    /// The number of each node's inputs within its subgraph.
    pub fn inner_inputs(&self) -> &[u32] {
        &self.inner_inputs
    }

    pub fn subgraph_of(&self) -> &[u32] {
        &self.subgraph_of
    }

    /// The subgraphs, in the order of their lowest nodes.
    pub fn subgraphs(&self) -> &[Subgraph] {
        &self.subgraphs
    }

    /// The nodes of a subgraph without inputs from it, ascending. They are ready at its release.
    pub fn entries(&self, subgraph: u32) -> &[u32] {
        self.entries.list(subgraph)
    }

    /// The depth of each node: 0 without inputs, otherwise 1 more than that of the deepest input.
    pub fn depths(&self) -> &[u32] {
        &self.depths
    }
}

impl Edges {
    fn list(&self, node: u32) -> &[u32] {
        let node = node as usize;
        match self {
            Edges::Parents(parents) => match parents[node] {
                Tree::NO_PARENT => &[],
                _ => &parents[node..=node],
            },
            Edges::Lists(lists) => lists.list(node as u32),
        }
    }
}

impl Lists {
    fn bytes(&self) -> usize {
        size_of_val(&*self.offsets) + size_of_val(&*self.targets)
    }

    /// Makes lists of pairs of a list and an item; the items stay in order.
    fn new(lists: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut offsets = vec![0u32; lists + 1];
        pairs
            .clone()
            .for_each(|(list, _)| offsets[list as usize + 1] += 1);
        (0..lists).for_each(|list| offsets[list + 1] += offsets[list]);
        let mut targets = vec![0; offsets[lists] as usize];
        let mut next = offsets.clone();
        for (list, target) in pairs {
            targets[next[list as usize] as usize] = target;
            next[list as usize] += 1;
        }
        Lists {
            offsets: offsets.into(),
            targets: targets.into(),
        }
    }

    fn list(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.targets[self.offsets[node] as usize..self.offsets[node + 1] as usize]
    }
}

/// The nodes in an order in which each comes after its inputs.
fn topological_order(nodes: usize, edges: &Edges) -> Result<Vec<u32>, GraphError> {
    let mut missing = vec![0u32; nodes];
    for node in 0..nodes as u32 {
        edges
            .list(node)
            .iter()
            .for_each(|next| missing[*next as usize] += 1);
    }
    let mut order: Vec<u32> = (0..nodes as u32)
        .filter(|n| missing[*n as usize] == 0)
        .collect();
    let mut done = 0;
    while done < order.len() {
        for &next in edges.list(order[done]) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                order.push(next);
            }
        }
        done += 1;
    }
    if order.len() < nodes {
        Err(GraphError::Cycle(find_cycle(&missing, edges)))
    } else {
        Ok(order)
    }
}

/// A cycle of the nodes that miss inputs. Each has a predecessor among them, so that walking backwards must return to a
/// node.
fn find_cycle(missing: &[u32], edges: &Edges) -> Vec<u32> {
    let mut before = vec![u32::MAX; missing.len()];
    let mut stuck = None;
    for node in 0..missing.len() as u32 {
        if missing[node as usize] == 0 {
            continue;
        }
        stuck.get_or_insert(node);
        for next in edges.list(node) {
            if missing[*next as usize] > 0 {
                before[*next as usize] = node;
            }
        }
    }
    // As many steps as there are nodes end within the cycle.
    let mut within = stuck.expect("a node is stuck");
    for _ in 0..missing.len() {
        within = before[within as usize];
    }
    let mut cycle = Vec::new();
    let mut node = within;
    loop {
        node = before[node as usize];
        cycle.push(node);
        if node == within {
            break;
        }
    }
    cycle.reverse();
    let lowest = (0..cycle.len())
        .min_by_key(|i| cycle[*i])
        .expect("a cycle has a node");
    cycle.rotate_left(lowest);
    cycle
}

/// The longest path to each node, by the lengths of the edges.
fn longest(order: &[u32], edges: &Edges, length: impl Fn(usize, usize) -> u32) -> Box<[u32]> {
    let mut longest = vec![0u32; order.len()];
    for node in order.iter().map(|node| *node as usize) {
        for next in edges.list(node as u32).iter().map(|next| *next as usize) {
            longest[next] = longest[next].max(longest[node] + length(node, next));
        }
    }
    longest.into()
}
