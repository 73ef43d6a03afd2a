//! Trees, which their parents describe.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::OnceLock;

use smallvec::{SmallVec, smallvec};

use super::Graph;
use crate::base::units::CellId;

/// A tree, given by the parent of each node (the `.parents` convention).
#[derive(Clone, Debug)]
pub struct Tree {
    /// The parents, counted from 0; [`Tree::NO_PARENT`] for the root.
    parents: Box<[u32]>,
    leaves: u32,
    height: u32,
    /// The graph with two cell types, once someone has asked for it.
    graph: OnceLock<Box<Graph>>,
}

/// The parents determine the rest of a tree.
impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        self.parents == other.parents
    }
}

impl Eq for Tree {}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parents.hash(state);
    }
}

impl Tree {
    pub const NO_PARENT: u32 = u32::MAX;

    /// The cell type of inner nodes, if leaves have one type and all other nodes another.
    pub const INNER: CellId = CellId(0);

    /// The cell type of leaves, if leaves have one type and all other nodes another.
    pub const LEAF: CellId = CellId(1);

    /// Makes a tree of the parents of its nodes, counted from 1; the root has 0.
    pub fn from_parents(one_based: &[u32]) -> Result<Tree, String> {
        let parents: Box<[u32]> = one_based
            .iter()
            .map(|parent| parent.wrapping_sub(1))
            .collect();
        if let Some(heights) = heights_in_order(&parents) {
            return Ok(Tree::new(parents, &heights));
        }
        check_parents(one_based)?;
        let heights = climb(&parents).map_err(|node| {
            format!(
                "node {} never reaches the root: its parents form a cycle",
                node + 1
            )
        })?;
        Ok(Tree::new(parents, &heights))
    }

    /// Makes a tree of the parents of its nodes, counted from 0. Each parent stands behind its children.
    ///
    /// # Panics
    /// The parents are in another order, or the last node is not the root.
    pub(in crate::core::workload) fn from_ordered_parents(parents: Box<[u32]>) -> Tree {
        let heights = heights_in_order(&parents).expect("each node stands behind its children");
        Tree::new(parents, &heights)
    }

    fn new(parents: Box<[u32]>, heights: &[u32]) -> Tree {
        let leaves = heights.iter().filter(|height| **height == 0).count();
        Tree {
            leaves: leaves as u32,
            height: heights.iter().max().copied().unwrap_or(0),
            parents,
            graph: OnceLock::new(),
        }
    }

    #[allow(clippy::len_without_is_empty)] // a tree has at least one node
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// The parent of each node, counted from 0; [`Tree::NO_PARENT`] for the root.
    pub fn parents(&self) -> &[u32] {
        &self.parents
    }

    pub fn child_counts(&self) -> Vec<u32> {
        count_children(&self.parents)
    }

    pub fn leaves(&self) -> usize {
        self.leaves as usize
    }

    /// For each node, the edges to its deepest leaf.
    pub fn heights(&self) -> Vec<u32> {
        match heights_in_order(&self.parents) {
            Some(heights) => heights.into_vec(),
            None => climb(&self.parents).expect("a tree has no cycle"),
        }
    }

    /// The edges from the root to the deepest leaf.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The graph in which leaves have the cell type [`Tree::LEAF`] and other nodes [`Tree::INNER`]. Its lists are many
    /// times as long as the parents, so they are made when they are first needed.
    pub fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| {
            let graph = Graph::from_tree(self, |children| {
                if children == 0 {
                    Tree::LEAF
                } else {
                    Tree::INNER
                }
            });
            Box::new(graph)
        })
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, parent) in self.parents.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(f, "{gap}{}", parent.wrapping_add(1))?;
        }
        Ok(())
    }
}

impl FromStr for Tree {
    type Err = String;

    fn from_str(text: &str) -> Result<Tree, String> {
        let mut parents = Vec::with_capacity(text.len() / 2 + 1);
        if !read_plain(text.as_bytes(), &mut parents) {
            parents.clear();
            for parent in text.split_whitespace() {
                let parent = parent.parse::<u32>().map_err(|_| {
                    format!("\"{parent}\" is not a parent: a whole number, 0 for the root")
                })?;
                parents.push(parent);
            }
        }
        Tree::from_parents(&parents)
    }
}

/// Reads numbers of up to nine digits with single blanks between them, as most trees are written. Returns `false` for
/// any other text.
fn read_plain(text: &[u8], numbers: &mut Vec<u32>) -> bool {
    let mut number = 0;
    let mut digits = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 && digits < 9 {
            number = 10 * number + u32::from(digit);
            digits += 1;
        } else if *byte == b' ' && digits > 0 {
            numbers.push(number);
            number = 0;
            digits = 0;
        } else {
            return false;
        }
    }
    numbers.push(number);
    digits > 0
}

/// The heights of a tree's nodes. Those of most parse trees need no memory of their own.
type Heights = SmallVec<[u32; 128]>;

/// The heights of the nodes, if each has a later one as its parent, and the last is the root. Most trees are in this
/// order, which leaves no room for a cycle or a second root.
fn heights_in_order(parents: &[u32]) -> Option<Heights> {
    let (&Tree::NO_PARENT, others) = parents.split_last()? else {
        return None;
    };
    let mut heights: Heights = smallvec![0; parents.len()];
    for (node, &parent) in others.iter().enumerate() {
        if parent as usize <= node {
            return None;
        }
        let height = heights[node] + 1;
        let highest = heights.get_mut(parent as usize)?;
        *highest = height.max(*highest);
    }
    Some(heights)
}

/// Refuses parents, counted from 1, that do not exist, and all but one root.
fn check_parents(one_based: &[u32]) -> Result<(), String> {
    let n = one_based.len();
    if n == 0 {
        return Err("a tree has at least one node".into());
    }
    if let Some((node, parent)) = (1u32..)
        .zip(one_based)
        .find(|(_, parent)| **parent as usize > n)
    {
        return Err(format!(
            "node {node} has parent {parent}, but the tree has {n} nodes"
        ));
    }
    let mut roots = (1u32..)
        .zip(one_based)
        .filter(|(_, parent)| **parent == 0)
        .map(|(node, _)| node);
    match (roots.next(), roots.next()) {
        (None, _) => {
            Err("no node has parent 0, so the parents form a cycle; a tree has one root".into())
        }
        (Some(first), Some(second)) => Err(format!(
            "nodes {first} and {second} both have parent 0; a tree has one root"
        )),
        (Some(_), None) => Ok(()),
    }
}

fn count_children(parents: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; parents.len()];
    for &parent in parents {
        if parent != Tree::NO_PARENT {
            counts[parent as usize] += 1;
        }
    }
    counts
}

/// The heights of the nodes in any order. The error is the lowest node that is on a cycle or above one.
fn climb(parents: &[u32]) -> Result<Vec<u32>, usize> {
    let children = count_children(parents);
    let mut missing = children.clone();
    let mut heights = vec![0; parents.len()];
    for mut node in (0..parents.len()).filter(|node| children[*node] == 0) {
        while parents[node] != Tree::NO_PARENT {
            let parent = parents[node] as usize;
            heights[parent] = heights[parent].max(heights[node] + 1);
            missing[parent] -= 1;
            if missing[parent] > 0 {
                break;
            }
            node = parent;
        }
    }
    match missing.iter().position(|missing| *missing > 0) {
        Some(node) => Err(node),
        None => Ok(heights),
    }
}
