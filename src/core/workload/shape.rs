//! The size of a request, before a model unfolds it. Text form: `chain:24`, `seq2seq:24>27`, `tree:5 5 6 6 7 7 0`,
//! `tokens:37`, `fixed`, `graph:2`, `llm:1020>129`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The size of a request. It takes 16 bytes, since a trace holds millions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Chain(u32),
    Seq2Seq {
        source: u32,
        target: u32,
    },
    Tree(Arc<Tree>),
    Tokens(u32),
    Fixed,
    /// The number, from 1, of a graph of the model's file.
    Graph(u32),
    /// A prompt and its output, in tokens. Policies don't see the output.
    Llm {
        prompt: u32,
        output: u32,
    },
}

impl Shape {
    /// The number of steps, source steps, nodes or tokens; for a language model the tokens of the prompt, and otherwise
    /// 1.
    pub fn length(&self) -> u32 {
        match self {
            Shape::Chain(n) | Shape::Tokens(n) => *n,
            Shape::Seq2Seq { source: length, .. } | Shape::Llm { prompt: length, .. } => *length,
            Shape::Tree(tree) => tree.len() as u32,
            Shape::Fixed | Shape::Graph(_) => 1,
        }
    }

    /// The shape as a policy sees it, which does not know how long a language model's output will be.
    #[inline]
    pub fn without_output(&self) -> Cow<'_, Shape> {
        match self {
            Shape::Llm { prompt, .. } => Cow::Owned(Shape::Tokens(*prompt)),
            _ => Cow::Borrowed(self),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Shape::Chain(_) => "chain",
            Shape::Seq2Seq { .. } => "seq2seq",
            Shape::Tree(_) => "tree",
            Shape::Tokens(_) => "tokens",
            Shape::Fixed => "fixed",
            Shape::Graph(_) => "graph",
            Shape::Llm { .. } => "llm",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Shape::Chain(n) | Shape::Tokens(n) | Shape::Graph(n) => write!(f, ":{n}"),
            Shape::Seq2Seq {
                source: a,
                target: b,
            }
            | Shape::Llm {
                prompt: a,
                output: b,
            } => write!(f, ":{a}>{b}"),
            Shape::Tree(tree) => write!(f, ":{tree}"),
            Shape::Fixed => Ok(()),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let (kind, size) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "chain" => Ok(Shape::Chain(size_of(size, text)?)),
            "tokens" => Ok(Shape::Tokens(size_of(size, text)?)),
            "seq2seq" => {
                let [source, target] = pair_of(size, text, "seq2seq:SOURCE>TARGET")?;
                Ok(Shape::Seq2Seq { source, target })
            }
            "llm" => {
                let [prompt, output] = pair_of(size, text, "llm:PROMPT>OUTPUT")?;
                Ok(Shape::Llm { prompt, output })
            }
            "tree" => size.parse::<Tree>().map(|tree| Shape::Tree(Arc::new(tree))),
            "fixed" if size.is_empty() => Ok(Shape::Fixed),
            "graph" => Ok(Shape::Graph(size_of(size, text)?)),
            _ => Err(format!(
                "bad shape \"{text}\"; known: chain:N, seq2seq:S>T, tree:PARENTS, tokens:N, fixed, graph:K, llm:P>O (N, S, T, \
                 K, P and O at least 1)"
            )),
        }
    }
}

/// The largest length, so that the sum of a seq2seq request's halves fits in 32 bits.
pub const MAX_LENGTH: u32 = 1 << 30;

fn pair_of(sizes: &str, shape: &str, written: &str) -> Result<[u32; 2], String> {
    let (first, second) = sizes.split_once('>').ok_or_else(|| {
        let kind = shape.split(':').next().unwrap_or_default();
        format!("bad shape \"{shape}\": a {kind} shape is written {written}")
    })?;
    Ok([size_of(first, shape)?, size_of(second, shape)?])
}

fn size_of(digits: &str, shape: &str) -> Result<u32, String> {
    match digits.parse::<u32>() {
        Ok(n) if (1..=MAX_LENGTH).contains(&n) => Ok(n),
        _ => Err(format!(
            "bad shape \"{shape}\": \"{digits}\" is not a whole number from 1 to {MAX_LENGTH}"
        )),
    }
}

/// A tree, given by the parent of each node (the `.parents` convention).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The parents, counted from 0; [`Tree::NO_PARENT`] for the root.
    parents: Box<[u32]>,
}

impl Tree {
    pub const NO_PARENT: u32 = u32::MAX;

    /// Makes a tree of the parents of its nodes, counted from 1; the root has 0.
    pub fn from_parents(one_based: &[u32]) -> Result<Tree, String> {
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
                return Err(
                    "no node has parent 0, so the parents form a cycle; a tree has one root".into(),
                );
            }
            (Some(first), Some(second)) => {
                return Err(format!(
                    "nodes {first} and {second} both have parent 0; a tree has one root"
                ));
            }
            (Some(_), None) => {}
        }
        let tree = Tree {
            parents: one_based.iter().map(|p| p.wrapping_sub(1)).collect(),
        };
        match tree.heights().1.iter().position(|missing| *missing > 0) {
            Some(node) => Err(format!(
                "node {} never reaches the root: its parents form a cycle",
                node + 1
            )),
            None => Ok(tree),
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
        let mut counts = vec![0; self.len()];
        for &parent in &self.parents {
            if parent != Tree::NO_PARENT {
                counts[parent as usize] += 1;
            }
        }
        counts
    }

    pub fn leaves(&self) -> usize {
        self.child_counts()
            .iter()
            .filter(|&&children| children == 0)
            .count()
    }

    /// For each node, the edges to its deepest leaf, and the number of its children on cycles, which trees do not have.
    pub fn heights(&self) -> (Box<[u32]>, Vec<u32>) {
        let children = self.child_counts();
        let mut heights = vec![0u32; self.len()];
        let mut missing = children.clone();
        for mut node in (0..self.len()).filter(|node| children[*node] == 0) {
            while let Some(parent) = Some(self.parents[node]).filter(|p| *p != Tree::NO_PARENT) {
                let parent = parent as usize;
                heights[parent] = heights[parent].max(heights[node] + 1);
                missing[parent] -= 1;
                if missing[parent] > 0 {
                    break;
                }
                node = parent;
            }
        }
        (heights.into(), missing)
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
        let parents = text
            .split_whitespace()
            .map(|p| {
                p.parse::<u32>()
                    .map_err(|_| format!("\"{p}\" is not a parent: a whole number, 0 for the root"))
            })
            .collect::<Result<Vec<u32>, String>>()?;
        Tree::from_parents(&parents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_read_back_as_they_print() {
        for text in [
            "chain:24",
            "seq2seq:24>27",
            "tree:5 5 6 6 7 7 0",
            "tree:0",
            "tokens:37",
            "fixed",
            "graph:2",
            "llm:1020>129",
        ] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_shapes_say_what_is_allowed() {
        for (text, part) in [
            ("chain:0", "from 1"),
            ("chain:x", "\"x\""),
            ("seq2seq:3", "SOURCE>TARGET"),
            ("ring:3", "known: chain:N"),
            ("fixed:3", "known: chain:N"),
            ("tree:", "at least one"),
            ("tree:2 0 9", "parent 9"),
            ("tree:0 0", "one root"),
            ("tree:2 1", "cycle"),
            ("tree:2 1 0", "node 1 never reaches the root"),
        ] {
            let error = text.parse::<Shape>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_shape_stays_small() {
        assert_eq!(std::mem::size_of::<Shape>(), 16);
    }
}
