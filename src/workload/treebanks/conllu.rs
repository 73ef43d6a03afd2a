//! CoNLL-U: dependency trees, a word per line (universaldependencies.org/format.html). A word's parent is its head.

use super::Found;
use crate::error::{Context, Error, Result};
use crate::workload::shape::Tree;

/// ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
pub(super) const COLUMNS: usize = 10;
const ID: usize = 0;
const HEAD: usize = 6;

/// Reads all sentences of a text.
pub(super) fn read(text: &str) -> Result<Vec<Found>> {
    let mut trees = Vec::new();
    let mut heads: Vec<u32> = Vec::new();
    let mut first = None;
    // An empty line ends the last sentence if the file does not.
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        if line.trim().is_empty() {
            let line = first.take().unwrap_or(number);
            if !heads.is_empty() {
                let tree = Tree::from_parents(&heads).map_err(Error::input).within(format_args!("line {line}"))?;
                trees.push(Found { line, tree });
                heads.clear();
            }
            continue;
        }
        first.get_or_insert(number);
        if !line.starts_with('#') {
            heads.extend(head(line, heads.len() + 1).within(format_args!("line {number}"))?);
        }
    }
    Ok(trees)
}

/// The head of the word with this number; `None` for lines that are not words of the tree: the range of a token that
/// stands for several words (`1-2`), and a node of the enhanced graph only (`2.1`).
fn head(line: &str, number: usize) -> Result<Option<u32>> {
    let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
    if columns.len() != COLUMNS {
        return Err(Error::input(format!(
            "has {} columns; a word of CoNLL-U has {COLUMNS}, with tabs between them",
            columns.len()
        )));
    }
    let id = columns[ID];
    let whole = |part: &str| part.parse::<u32>().is_ok();
    if id.split_once(['-', '.']).is_some_and(|(from, to)| whole(from) && whole(to)) {
        return Ok(None);
    }
    if id.parse() != Ok(number) {
        return Err(Error::input(format!("ID: \"{id}\" should be {number}; words are numbered 1, 2, 3 and so on")));
    }
    let head = columns[HEAD];
    head.parse().map(Some).map_err(|_| {
        Error::input(format!(
            "HEAD: \"{head}\" is not a word's number, 0 for the root; a file without heads has no trees"
        ))
    })
}
