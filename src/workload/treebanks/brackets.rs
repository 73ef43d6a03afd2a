//! S-expressions of the Penn and Stanford treebanks: `(LABEL WORD)` is a leaf, `(LABEL NODE NODE)` an inner node. An
//! unlabelled bracket around a whole sentence is not part of the tree.

use super::Found;
use crate::error::{Context, Error, Result};
use crate::workload::shape::Tree;

/// How a node is written, for messages.
const NODE: &str = "a node is written (LABEL WORD) or (LABEL NODE NODE)";

/// A bracket that has not been closed.
#[derive(Default)]
struct Open<'t> {
    line: usize,
    label: Option<&'t str>,
    word: Option<&'t str>,
    /// The nodes below, from 1.
    children: Vec<u32>,
}

/// The open brackets and the finished nodes of the tree. A node is numbered when its bracket closes: children before
/// their parent, left before right.
#[derive(Default)]
struct Reader<'t> {
    open: Vec<Open<'t>>,
    parents: Vec<u32>,
    trees: Vec<Found>,
}

/// Reads all trees of a text.
pub(super) fn read(text: &str) -> Result<Vec<Found>> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        for token in tokens(line) {
            let taken = match token {
                "(" => {
                    reader.open.push(Open { line: number, ..Open::default() });
                    Ok(())
                }
                ")" => reader.close(),
                word => reader.word(word),
            };
            taken.within(format_args!("line {number}"))?;
        }
    }
    match reader.open.first() {
        Some(open) => Err(Error::input(format!("line {}: a bracket that is never closed", open.line))),
        None => Ok(reader.trees),
    }
}

/// The brackets of a line, and the words between brackets and blanks.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().flat_map(|part| part.split_inclusive(['(', ')'])).flat_map(|part| {
        let (word, bracket) = part.split_at(part.find(['(', ')']).unwrap_or(part.len()));
        [word, bracket].into_iter().filter(|token| !token.is_empty())
    })
}

impl<'t> Reader<'t> {
    /// A label if it is the first in its bracket, otherwise a word.
    fn word(&mut self, word: &'t str) -> Result<()> {
        let open =
            self.open.last_mut().ok_or_else(|| Error::input(format!("\"{word}\" stands outside of all brackets")))?;
        match open {
            Open { word: Some(_), .. } => Err(beside_another(word)),
            Open { children, .. } if !children.is_empty() => Err(beside_another(word)),
            Open { label: None, .. } => {
                open.label = Some(word);
                Ok(())
            }
            Open { word: own, .. } => {
                *own = Some(word);
                Ok(())
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        let closed = self.open.pop().ok_or_else(|| Error::input("a closing bracket that closes nothing"))?;
        let outermost = self.open.is_empty();
        let node = match (closed.label, closed.word, &closed.children[..]) {
            (_, Some(word), [_, ..]) => return Err(beside_another(word)),
            (None, None, []) => return Err(Error::input(format!("an empty bracket; {NODE}"))),
            (Some(label), None, []) => {
                return Err(Error::input(format!("\"({label})\" is a label without a word; {NODE}")));
            }
            (None, None, [sentence]) if outermost => *sentence,
            (_, _, children) => {
                self.parents.push(0);
                let node = self.parents.len() as u32;
                children.iter().for_each(|child| self.parents[*child as usize - 1] = node);
                node
            }
        };
        match self.open.last_mut() {
            Some(above) => above.children.push(node),
            None => {
                let tree = Tree::from_parents(&self.parents).map_err(Error::input)?;
                self.trees.push(Found { line: closed.line, tree });
                self.parents.clear();
            }
        }
        Ok(())
    }
}

fn beside_another(word: &str) -> Error {
    Error::input(format!("\"{word}\" stands beside another child; put it into brackets of its own"))
}
