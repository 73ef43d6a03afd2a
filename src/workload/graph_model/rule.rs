//! Unfolding rules: families of nodes over indices or a tree's nodes, and each node's inputs, such as `fwd[i-1]`.
//!
//! References outside of a family's range are ignored, so the first step needs no exception. Nodes are numbered by
//! family, in the order of the file, then by index.

use std::ops::RangeInclusive;

use super::Takes;
use super::expression::{Item, Linear, Relative, Size, Sizes};
use crate::units::CellId;
use crate::workload::cell_graph::{CellGraph, Graph, GraphError, Run};
use crate::workload::shape::{Shape, Tree};

/// More than fits any device. Chains may be longer: they are not stored by node.
const MAX_NODES: i64 = 1 << 24;
const MAX_EDGES: usize = 1 << 26;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    takes: Takes,
    families: Vec<Family>,
    chain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub name: String,
    pub cell: CellId,
    pub range: Range,
    pub needs: Vec<Need>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Each from 1 to a sum; without indices one node.
    Indices(Vec<Linear>),
    /// A tree's nodes with this number of children.
    Tree(RangeInclusive<u32>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub family: usize,
    pub items: Vec<Item>,
}

impl Rule {
    pub fn new(takes: Takes, families: Vec<Family>) -> Result<Rule, String> {
        let chain = takes != Takes::Trees && is_chain(&families);
        let rule = Rule { takes, families, chain };
        for shape in small_shapes(takes) {
            let graph = rule.written_out(&shape);
            graph.map_err(|problem| format!("{problem} (for a request {shape})"))?;
        }
        Ok(rule)
    }

    pub fn takes(&self) -> Takes {
        self.takes
    }

    pub fn is_chain(&self) -> bool {
        self.chain
    }

    pub fn is_sequence(&self) -> bool {
        let size = if self.takes == Takes::Pairs { Size::S } else { Size::N };
        let mut length = Linear::default();
        length.sizes[size as usize] = 1;
        let runs_are_families = self.families.windows(2).all(|pair| pair[0].cell != pair[1].cell);
        self.chain && runs_are_families && self.families[0].range.last() == Some(&length)
    }

    pub fn unfold(&self, shape: &Shape) -> Option<Result<CellGraph, String>> {
        let (sizes, _) = self.sizes(shape)?;
        if !self.chain {
            return Some(self.written_out(shape).map(|graph| CellGraph::Graph(graph.into())));
        }
        let mut runs = Vec::with_capacity(self.families.len());
        for Family { name, cell, range, .. } in &self.families {
            match range.last().map_or(1, |last| last.at(&[], &sizes)).try_into() {
                Ok(length) => runs.push(Run { cell: *cell, length, input: 0 }),
                Err(_) => {
                    return Some(Err(format!("the nodes \"{name}\" of a request {shape} are more than {}", u32::MAX)));
                }
            }
        }
        Some(Ok(CellGraph::chains(runs)))
    }

    fn sizes<'s>(&self, shape: &'s Shape) -> Option<(Sizes, Option<&'s Tree>)> {
        match (self.takes, shape) {
            (Takes::Chains, Shape::Chain(n) | Shape::Tokens(n)) => Some(([i64::from(*n), 0, 0], None)),
            (Takes::Pairs, Shape::Seq2Seq { source, target }) => {
                Some(([0, i64::from(*source), i64::from(*target)], None))
            }
            (Takes::Trees, Shape::Tree(tree)) => Some(([0; 3], Some(tree))),
            _ => None,
        }
    }

    pub(super) fn written_out(&self, shape: &Shape) -> Result<Graph, String> {
        let (sizes, tree) = self.sizes(shape).expect("a shape of the rule's kind");
        let tree = tree.map(Branches::of);
        let mut placed: Vec<Placed> = Vec::with_capacity(self.families.len());
        let mut nodes = 0;
        for family in &self.families {
            let family = Placed::new(&family.range, nodes, &sizes, tree.as_ref());
            nodes = family
                .len()
                .and_then(|len| len.checked_add(nodes))
                .filter(|nodes| *nodes <= MAX_NODES)
                .ok_or_else(|| {
                    format!("unfolds to more than {MAX_NODES} nodes; only chains are not written out and may be longer")
                })?;
            placed.push(family);
        }
        let mut cells = Vec::with_capacity(nodes as usize);
        let mut edges = Vec::new();
        let mut needed = Vec::new();
        for (family, at) in self.families.iter().zip(&placed) {
            for place in 0..at.len().unwrap_or(0) {
                let node = cells.len() as u32;
                cells.push(family.cell);
                let indices = at.indices(place);
                for need in &family.needs {
                    placed[need.family].find(&need.items, &indices, &sizes, tree.as_ref(), &mut needed);
                    edges.extend(needed.drain(..).map(|before| (before as u32, node)));
                }
                if edges.len() > MAX_EDGES {
                    return Err(format!("unfolds to more than {MAX_EDGES} edges"));
                }
            }
        }
        Graph::new(cells, &edges).map_err(|error| match error {
            GraphError::Cycle(cycle) => {
                let names: Vec<String> = cycle.iter().map(|node| self.name(&placed, i64::from(*node))).collect();
                format!("nodes need each other: {} -> {}", names.join(" -> "), names[0])
            }
            GraphError::Empty => "unfolds to no node at all".to_string(),
            other => other.to_string(),
        })
    }

    fn name(&self, placed: &[Placed], node: i64) -> String {
        let family = placed.partition_point(|family| family.first <= node) - 1;
        let indices: Vec<String> =
            placed[family].indices(node - placed[family].first).iter().map(i64::to_string).collect();
        match indices.is_empty() {
            true => self.families[family].name.clone(),
            false => format!("{}[{}]", self.families[family].name, indices.join(", ")),
        }
    }
}

impl Range {
    pub fn last(&self) -> Option<&Linear> {
        match self {
            Range::Indices(lasts) => lasts.first(),
            Range::Tree(_) => None,
        }
    }
}

/// They reveal all cycles except those through distant references.
fn small_shapes(takes: Takes) -> Vec<Shape> {
    let sizes = 1..=4u32;
    match takes {
        Takes::Chains => sizes.map(Shape::Chain).collect(),
        Takes::Pairs => {
            let pair = |source| (1..=4).map(move |target| Shape::Seq2Seq { source, target });
            sizes.flat_map(pair).collect()
        }
        Takes::Trees => {
            let parents: [&[u32]; 4] = [&[0], &[2, 0], &[3, 3, 0], &[4, 4, 4, 5, 0]];
            let tree = |parents: &&[u32]| Shape::Tree(Tree::from_parents(parents).expect("one of some trees").into());
            parents.iter().map(tree).collect()
        }
        Takes::Graphs => Vec::new(),
    }
}

struct Branches<'t> {
    tree: &'t Tree,
    children: Vec<Vec<u32>>,
    root: u32,
}

impl<'t> Branches<'t> {
    pub fn of(tree: &'t Tree) -> Branches<'t> {
        let mut children = vec![Vec::new(); tree.len()];
        let mut root = 0;
        for (node, parent) in (0u32..).zip(tree.parents()) {
            match *parent {
                Tree::NO_PARENT => root = node,
                parent => children[parent as usize].push(node),
            }
        }
        Branches { tree, children, root }
    }

    fn relatives(&self, node: i64, relative: Relative) -> Vec<u32> {
        let of = |node: i64| node as usize - 1;
        match relative {
            Relative::Itself => vec![of(node) as u32],
            Relative::Children => self.children[of(node)].clone(),
            Relative::Parent => vec![self.tree.parents()[of(node)]],
            Relative::Root => vec![self.root],
        }
    }
}

struct Placed {
    pub first: i64,
    at: At,
}

enum At {
    Indices(Vec<i64>),
    Tree(Vec<u32>),
}

impl Placed {
    /// Nodes are numbered from `first`. `tree` is given for rules of trees.
    pub fn new(range: &Range, first: i64, sizes: &Sizes, tree: Option<&Branches<'_>>) -> Placed {
        let at = match (range, tree) {
            (Range::Indices(lasts), _) => At::Indices(lasts.iter().map(|last| last.at(&[], sizes).max(0)).collect()),
            (Range::Tree(children), Some(tree)) => {
                let fits = |node: &u32| children.contains(&(tree.children[*node as usize].len() as u32));
                At::Tree((0..tree.children.len() as u32).filter(fits).collect())
            }
            (Range::Tree(_), None) => unreachable!("only rules for trees have such families"),
        };
        Placed { first, at }
    }

    pub fn len(&self) -> Option<i64> {
        match &self.at {
            At::Indices(lasts) => lasts.iter().try_fold(1i64, |len, last| len.checked_mul(*last)),
            At::Tree(nodes) => Some(nodes.len() as i64),
        }
    }

    pub fn indices(&self, place: i64) -> Vec<i64> {
        match &self.at {
            At::Tree(nodes) => vec![i64::from(nodes[place as usize]) + 1],
            At::Indices(lasts) => {
                let mut indices = vec![0; lasts.len()];
                let mut rest = place;
                for (index, last) in indices.iter_mut().zip(lasts).rev() {
                    *index = rest % last + 1;
                    rest /= last;
                }
                indices
            }
        }
    }

    pub fn find(
        &self,
        items: &[Item],
        indices: &[i64],
        sizes: &Sizes,
        tree: Option<&Branches<'_>>,
        out: &mut Vec<i64>,
    ) {
        let from = out.len();
        out.push(self.first);
        match &self.at {
            At::Indices(lasts) => {
                for (item, last) in items.iter().zip(lasts) {
                    let (low, high) = match item {
                        Item::Span(low, high) => (low.at(indices, sizes).max(1), high.at(indices, sizes).min(*last)),
                        _ => (1, *last),
                    };
                    let before: Vec<i64> = out.drain(from..).map(|place| place - self.first).collect();
                    let (first, last) = (self.first, *last);
                    out.extend(
                        before
                            .into_iter()
                            .flat_map(|place| (low..=high).map(move |index| first + place * last + index - 1)),
                    );
                }
            }
            At::Tree(nodes) => {
                out.pop();
                match (items.first(), tree) {
                    (Some(Item::Tree(relative)), Some(tree)) => {
                        let relatives = tree.relatives(indices.first().copied().unwrap_or(1), *relative);
                        let places = relatives.iter().filter_map(|relative| nodes.binary_search(relative).ok());
                        out.extend(places.map(|place| self.first + place as i64));
                    }
                    _ => out.extend((0..nodes.len() as i64).map(|place| self.first + place)),
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Whether the families follow each other, each a chain along its only index, for all sizes: within each family a node
/// needs the one before (or after: [`Direction::Down`]), and none the other way; a family's first node needs the
/// previous family's last; all other needs point to earlier families. Then every two nodes are ordered.
fn is_chain(families: &[Family]) -> bool {
    let mut before: Option<(usize, &Family, Direction)> = None;
    for (number, family) in families.iter().enumerate() {
        let Some(direction) = direction(number, family) else { return false };
        if family.needs.iter().any(|need| need.family > number) {
            return false;
        }
        if let Some((last_number, last, last_direction)) = before {
            let of_first = match (direction, family.range.last()) {
                (Direction::Down, Some(last)) => last.clone(),
                _ => Linear::number(1),
            };
            let wanted = match (last_direction, last.range.last()) {
                (Direction::Up, Some(last)) => last.clone(),
                _ => Linear::number(1),
            };
            let linked = |need: &Need| {
                need.family == last_number
                    && match &need.items[..] {
                        [] | [Item::All] => true,
                        [Item::Span(low, high)] => low == high && high.with_first(&of_first).as_ref() == Some(&wanted),
                        _ => false,
                    }
            };
            if !family.needs.iter().any(linked) {
                return false;
            }
        }
        before = Some((number, family, direction));
    }
    true
}

fn direction(number: usize, family: &Family) -> Option<Direction> {
    let Range::Indices(lasts) = &family.range else { return None };
    let own = || family.needs.iter().filter(|need| need.family == number).map(|need| &need.items[..]);
    match &lasts[..] {
        [] if own().next().is_none() => Some(Direction::Up),
        [last] if last.is_positive() => {
            // From a node to the needed one that is nearest in a direction; `None` if it depends on the index.
            let nearest = |item: &[Item], up: bool| match item {
                [Item::Span(low, high)] => {
                    let bound = if up { low } else { high };
                    (bound.sizes == [0; 3] && bound.indices == [1]).then_some(bound.constant)
                }
                _ => None,
            };
            let by = |steps| move |item: &[Item]| [true, false].map(|up| nearest(item, up)) == [Some(steps); 2];
            if own().any(by(-1)) && own().all(|item| nearest(item, false).is_some_and(|steps| steps <= -1)) {
                Some(Direction::Up)
            } else if own().any(by(1)) && own().all(|item| nearest(item, true).is_some_and(|steps| steps >= 1)) {
                Some(Direction::Down)
            } else {
                None
            }
        }
        _ => None,
    }
}
