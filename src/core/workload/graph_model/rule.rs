//! Unfolding rules: families of nodes over indices or a tree's nodes, and each node's inputs, such as `fwd[i-1]`.
//!
//! References outside of a family's range are ignored, so the first step needs no exception. Nodes are numbered by
//! family, in the order of the file, then by index.

use std::ops::RangeInclusive;

use super::Takes;
use super::expression::{IndexValues, Linear};
use crate::base::units::CellId;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellGraph, CellRun, Graph, GraphError, circle};
use crate::core::workload::shape::Shape;

/// The most nodes of a request, more than fit any device. Chains may be longer, since they are not stored by node.
const MAX_NODES: i64 = 1 << 24;
const MAX_EDGES: usize = 1 << 26;

/// A rule that unfolds shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldingRule {
    pub takes: Takes,
    families: Vec<NodeFamily>,
    pub is_chain: bool,
}

/// The nodes of one cell type with one or more indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFamily {
    pub name: String,
    pub cell: CellId,
    /// The names of the indices; for a family over a tree the name of its node.
    pub indices: Vec<String>,
    /// The last value of each index, a sum of sizes; the first is 1. Without indices there is one node.
    pub lasts: Vec<Linear>,
    /// The numbers of children of its nodes, for a family over a tree.
    pub children: Option<RangeInclusive<u32>>,
    pub needs: Vec<Need>,
}

/// The nodes of a family that a node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub family: usize,
    pub items: Vec<IndexValues>,
}

/// The names of the sizes of a request, that of the input first.
pub fn sizes(takes: Takes) -> &'static [&'static str] {
    match takes {
        Takes::Chains => &["N"],
        Takes::Pairs => &["S", "T"],
        Takes::Trees | Takes::Graphs => &[],
    }
}

impl UnfoldingRule {
    pub fn new(takes: Takes, families: Vec<NodeFamily>) -> Result<UnfoldingRule, String> {
        let is_chain = takes != Takes::Trees && is_chain(&families, sizes(takes).len());
        let rule = UnfoldingRule {
            takes,
            families,
            is_chain,
        };
        for shape in small_shapes(takes) {
            let extent = rule.extent(&shape).expect("a shape of the rule's kind");
            rule.write_out(&extent)
                .map_err(|problem| format!("{problem} (for a request {shape})"))?;
        }
        Ok(rule)
    }

    pub fn is_sequence(&self) -> bool {
        let runs_are_families = self
            .families
            .windows(2)
            .all(|pair| pair[0].cell != pair[1].cell);
        let is_length = |last: &Linear| last.is_from_first() && last.constant == 0;
        self.is_chain && runs_are_families && self.families[0].lasts.first().is_some_and(is_length)
    }

    pub fn unfold(&self, shape: &Shape) -> Option<Result<CellGraph, String>> {
        let extent = self.extent(shape)?;
        if !self.is_chain {
            return Some(
                self.write_out(&extent)
                    .map(|graph| CellGraph::Graph(graph.into())),
            );
        }
        let run = |NodeFamily {
                       name, cell, lasts, ..
                   }: &NodeFamily| {
            let length = lasts
                .first()
                .map_or(1, |last| last.evaluate(&extent.sizes))
                .try_into();
            let length = length.map_err(|_| {
                format!(
                    "the nodes \"{name}\" of a request {shape} are more than {}",
                    u32::MAX
                )
            });
            Ok(CellRun {
                cell: *cell,
                length: length?,
                input: 0,
            })
        };
        let runs: Result<Vec<CellRun>, String> = self.families.iter().map(run).collect();
        Some(runs.map(CellGraph::chains))
    }

    /// The size of a request; `None` for a shape that the rule does not take.
    pub(super) fn extent<'s>(&self, shape: &'s Shape) -> Option<RequestExtent<'s>> {
        let (sizes, tree) = match (self.takes, shape) {
            (Takes::Chains, Shape::Chain(n) | Shape::Tokens(n)) => ([*n, 0], None),
            (Takes::Pairs, Shape::Seq2Seq { source, target }) => ([*source, *target], None),
            (Takes::Trees, Shape::Tree(tree)) => {
                ([tree.len() as u32, 0], Some(Branches::from_tree(tree)))
            }
            _ => return None,
        };
        Some(RequestExtent {
            sizes: sizes.map(i64::from),
            tree,
        })
    }

    /// The graph of a request, node by node.
    pub(super) fn write_out(&self, extent: &RequestExtent<'_>) -> Result<Graph, String> {
        let mut placed: Vec<PlacedFamily> = Vec::with_capacity(self.families.len());
        let mut nodes = 0;
        for family in &self.families {
            let family = PlacedFamily::new(family, nodes, extent);
            let end = family
                .len()
                .and_then(|len| len.checked_add(nodes))
                .filter(|nodes| *nodes <= MAX_NODES);
            nodes = end.ok_or_else(|| {
                format!("unfolds to more than {MAX_NODES} nodes; only chains are not written out and may be longer")
            })?;
            placed.push(family);
        }
        let mut cells = Vec::with_capacity(nodes as usize);
        let mut edges = Vec::new();
        for (family, at) in self.families.iter().zip(&placed) {
            for place in 0..at.len().unwrap_or(0) {
                let node = cells.len() as u32;
                cells.push(family.cell);
                let mut values = at.indices(place);
                values.extend(extent.sizes);
                for need in &family.needs {
                    let target = &placed[need.family];
                    let places = target.find(&need.items, &values, extent);
                    edges.extend(
                        places
                            .into_iter()
                            .map(|place| ((target.first + place) as u32, node)),
                    );
                }
                if edges.len() > MAX_EDGES {
                    return Err(format!("unfolds to more than {MAX_EDGES} edges"));
                }
            }
        }
        Graph::new(cells, &edges).map_err(|error| match error {
            GraphError::Cycle(cycle) => {
                let names = circle(&cycle, |node| self.name(&placed, i64::from(*node)));
                format!("nodes need each other: {names}")
            }
            GraphError::Empty => "unfolds to no node at all".to_string(),
        })
    }

    fn name(&self, placed: &[PlacedFamily], node: i64) -> String {
        let number = placed.partition_point(|family| family.first <= node) - 1;
        let family = &self.families[number];
        let at = &placed[number];
        let indices: Vec<String> = at
            .indices(node - at.first)
            .iter()
            .map(i64::to_string)
            .collect();
        if indices.is_empty() {
            family.name.clone()
        } else {
            format!("{}[{}]", family.name, indices.join(", "))
        }
    }
}

impl NodeFamily {
    /// The name of the tree's node, for a family over a tree.
    pub fn node(&self) -> Option<&str> {
        self.children.as_ref().map(|_| self.indices[0].as_str())
    }
}

/// Shapes that reveal all cycles, except those through distant references.
fn small_shapes(takes: Takes) -> Vec<Shape> {
    let shapes: &[&str] = match takes {
        Takes::Chains => &["chain:1", "chain:2", "chain:3", "chain:4"],
        Takes::Pairs => {
            return (0..16)
                .map(|n| Shape::Seq2Seq {
                    source: n / 4 + 1,
                    target: n % 4 + 1,
                })
                .collect();
        }
        Takes::Trees => &["tree:0", "tree:2 0", "tree:3 3 0", "tree:4 4 4 5 0"],
        Takes::Graphs => &[],
    };
    shapes
        .iter()
        .map(|shape| shape.parse().expect("one of some shapes"))
        .collect()
}

/// The size of a request.
pub(super) struct RequestExtent<'t> {
    /// The sizes by [`sizes`], or the number of a tree's nodes; others are 0.
    sizes: [i64; 2],
    /// The tree of a request, for rules of trees.
    tree: Option<Branches<'t>>,
}

/// A tree with the children of each node. Nodes are numbered from 1.
struct Branches<'t> {
    tree: &'t Tree,
    children: Vec<Vec<i64>>,
    root: i64,
}

impl<'t> Branches<'t> {
    fn from_tree(tree: &'t Tree) -> Branches<'t> {
        let mut children = vec![Vec::new(); tree.len()];
        let mut root = 0;
        for (node, parent) in (1..).zip(tree.parents()) {
            match *parent {
                Tree::NO_PARENT => root = node,
                parent => children[parent as usize].push(node),
            }
        }
        Branches {
            tree,
            children,
            root,
        }
    }
}

impl RequestExtent<'_> {
    /// The values of an index up to `last` that an item names at a node with these indices and sizes.
    fn index_values(&self, item: &IndexValues, values: &[i64], last: i64) -> Vec<i64> {
        let node = || values[0] as usize - 1;
        match (item, &self.tree) {
            (IndexValues::Span(low, high), _) => {
                (low.evaluate(values).max(1)..=high.evaluate(values).min(last)).collect()
            }
            (IndexValues::Itself, _) => vec![values[0]],
            (IndexValues::Children, Some(tree)) => tree.children[node()].clone(),
            // The root has the parent 0, which is not a node.
            (IndexValues::Parent, Some(tree)) => {
                vec![tree.tree.parents()[node()].wrapping_add(1).into()]
            }
            (IndexValues::Root, Some(tree)) => vec![tree.root],
            _ => (1..=last).collect(),
        }
    }
}

/// A family's nodes in a request, numbered from `first`.
struct PlacedFamily {
    first: i64,
    /// The last value of each index.
    lasts: Vec<i64>,
    /// The nodes of the tree that belong to the family, from 0, for a family over a tree.
    nodes: Option<Vec<i64>>,
}

impl PlacedFamily {
    fn new(
        NodeFamily {
            lasts, children, ..
        }: &NodeFamily,
        first: i64,
        RequestExtent { sizes, tree }: &RequestExtent<'_>,
    ) -> PlacedFamily {
        let nodes = children.as_ref().zip(tree.as_ref()).map(|(wanted, tree)| {
            let own = (0..)
                .zip(&tree.children)
                .filter(|(_, children)| wanted.contains(&(children.len() as u32)));
            own.map(|(node, _)| node).collect()
        });
        PlacedFamily {
            first,
            lasts: lasts
                .iter()
                .map(|last| last.evaluate(sizes).max(0))
                .collect(),
            nodes,
        }
    }

    fn len(&self) -> Option<i64> {
        match &self.nodes {
            None => self
                .lasts
                .iter()
                .try_fold(1i64, |len, last| len.checked_mul(*last)),
            Some(nodes) => Some(nodes.len() as i64),
        }
    }

    fn indices(&self, place: i64) -> Vec<i64> {
        let mut rest = self
            .nodes
            .as_ref()
            .map_or(place, |nodes| nodes[place as usize]);
        let mut indices = vec![0; self.lasts.len()];
        for (index, last) in indices.iter_mut().zip(&self.lasts).rev() {
            *index = rest % last + 1;
            rest /= last;
        }
        indices
    }

    /// The places that a node with these indices and sizes names.
    fn find(&self, items: &[IndexValues], values: &[i64], extent: &RequestExtent<'_>) -> Vec<i64> {
        let mut places = vec![0];
        for (item, last) in items.iter().zip(&self.lasts) {
            let named = extent.index_values(item, values, *last);
            let mut inner = Vec::with_capacity(places.len() * named.len());
            for place in places {
                inner.extend(named.iter().map(|index| place * last + index - 1));
            }
            places = inner;
        }
        if let Some(nodes) = &self.nodes {
            places = places
                .iter()
                .filter_map(|node| nodes.binary_search(node).ok())
                .map(|place| place as i64)
                .collect();
        }
        places
    }
}

/// Whether the families follow each other, each a chain along its only index, for all sizes: a family's first node
/// needs the previous family's last; all other needs point to earlier nodes. Then every two nodes are ordered.
fn is_chain(families: &[NodeFamily], sizes: usize) -> bool {
    let mut last_before = None;
    families.iter().enumerate().all(|(number, family)| {
        let Some([first, last]) = ends(number, family, sizes) else {
            return false;
        };
        let links = |need: &Need| match &need.items[..] {
            _ if need.family + 1 != number => false,
            [] | [IndexValues::All] => true,
            [IndexValues::Span(low, high)] => {
                low == high && Some(high.with_first(&first)) == last_before
            }
            _ => false,
        };
        let follows = number == 0 || family.needs.iter().any(links);
        last_before = Some(last);
        follows && family.needs.iter().all(|need| need.family <= number)
    })
}

/// The indices of the first and the last node of a family that is a chain: each node needs the one before (or after:
/// the chain runs downwards), and none the other way.
fn ends(number: usize, family: &NodeFamily, sizes: usize) -> Option<[Linear; 2]> {
    let own = family.needs.iter().filter(|need| need.family == number);
    // The first and the last of the needed nodes, counted from a node; `None` if that depends on the index.
    let distance = |bound: &Linear| bound.is_from_first().then_some(bound.constant);
    let spans: Vec<[Option<i64>; 2]> = own
        .map(|need| match &need.items[..] {
            [IndexValues::Span(low, high)] => [distance(low), distance(high)],
            _ => [None, None],
        })
        .collect();
    let all = |beyond: fn(&[Option<i64>; 2]) -> bool| spans.iter().all(beyond);
    let one = Linear {
        times: vec![0; sizes],
        constant: 1,
    };
    match &family.lasts[..] {
        [] => spans.is_empty().then(|| [one.clone(), one]),
        [last] if !last.is_positive() => None,
        [last]
            if spans.contains(&[Some(-1); 2])
                && all(|[_, high]| high.is_some_and(|steps| steps <= -1)) =>
        {
            Some([one, last.clone()])
        }
        [last]
            if spans.contains(&[Some(1); 2])
                && all(|[low, _]| low.is_some_and(|steps| steps >= 1)) =>
        {
            Some([last.clone(), one])
        }
        _ => None,
    }
}
