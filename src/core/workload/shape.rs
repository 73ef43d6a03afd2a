//! The size of a request, before a model unfolds it. Text form: `chain:24`, `seq2seq:24>27`, `tree:5 5 6 6 7 7 0`,
//! `tokens:37`, `fixed`, `graph:2`, `llm:1020>129`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::cell_graph::tree::Tree;

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
