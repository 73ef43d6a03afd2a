//! The nodes of a rule's families in the graph of one request.

use super::expression::{Item, Relative, Sizes};
use super::rule::Range;
use crate::workload::shape::Tree;

/// The children of each node of a tree.
pub(super) struct Branches<'t> {
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

/// A family of one request.
pub(super) struct Placed {
    /// The number of its first node.
    pub first: i64,
    at: At,
}

enum At {
    /// The largest value of each index; 0 if it has no values.
    Indices(Vec<i64>),
    /// The nodes of the tree, 0-based and ascending.
    Tree(Vec<u32>),
}

impl Placed {
    /// The family whose first node has the number `first`. `tree` is given for rules of trees.
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

    /// The number of its nodes, unless it overflows.
    pub fn len(&self) -> Option<i64> {
        match &self.at {
            At::Indices(lasts) => lasts.iter().try_fold(1i64, |len, last| len.checked_mul(*last)),
            At::Tree(nodes) => Some(nodes.len() as i64),
        }
    }

    /// The indices, from 1, of a node of the family.
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

    /// Appends the nodes of the family that a reference means, in a node with these indices.
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
                // Replaces each place so far by one place for each value of the next index.
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
