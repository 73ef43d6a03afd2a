//! Reads files of trees, in the notations of published treebanks. Words, labels and relations are ignored.

use std::fmt::Display;

use super::cell_graph::tree::Tree;
use crate::base::error::plural;

/// A function that reads the trees of a text: [`parents`], [`brackets`] or [`conllu`].
pub type Notation = fn(&str) -> Result<ParsedTrees, String>;

/// The trees of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedTrees {
    pub trees: Vec<TreeAtLine>,
    /// The number of leaves without a word (`EMPTY`) that were left out, with the nodes that had no other leaves.
    pub empty_leaves: usize,
}

/// A tree and the line at which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeAtLine {
    pub line: usize,
    pub tree: Tree,
}

/// The notation of a text by its first line that is not empty: an opening bracket, a comment or the columns of CoNLL-U,
/// or otherwise parents.
pub fn notation(text: &str) -> Notation {
    let first = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("");
    match first {
        _ if first.starts_with('(') => brackets,
        _ if first.starts_with('#') || first.split('\t').count() >= COLUMNS => conllu,
        _ => parents,
    }
}

/// Reads the trees of a text, which has at least one.
pub fn read(notation: Notation, text: &str) -> Result<ParsedTrees, String> {
    let found = notation(text.trim_start_matches('\u{feff}'))?;
    if found.trees.is_empty() {
        Err("holds no trees".into())
    } else {
        Ok(found)
    }
}

/// Puts the line before the problem of a tree, and behind it what to delete to leave the tree out.
pub(super) fn refuse_tree(line: usize, lines: impl Display) -> impl FnOnce(String) -> String {
    move |problem| format!("line {line}: {problem}; to leave this tree out, delete {lines}")
}

/// Reads a tree from each line: 1-based parents, 0 for the root (SICK's `.parents`), optionally after the number of
/// leaves and a tab.
pub fn parents(text: &str) -> Result<ParsedTrees, String> {
    let mut trees = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if !text.trim().is_empty() {
            let tree = tree_line(text).map_err(refuse_tree(line, "the line"))?;
            trees.push(TreeAtLine { line, tree });
        }
    }
    Ok(ParsedTrees {
        trees,
        ..ParsedTrees::default()
    })
}

/// The tree of a line `p1 p2 …` or `leaves<TAB>p1 p2 …`.
fn tree_line(line: &str) -> Result<Tree, String> {
    let Some((leaves, parents)) = line.split_once('\t') else {
        return line.parse();
    };
    let tree: Tree = parents.parse()?;
    match leaves.trim().parse::<usize>() {
        Ok(n) if n == tree.leaves() => Ok(tree),
        Ok(n) => Err(format!(
            "says {n} leaves, but {} nodes have no children",
            tree.leaves()
        )),
        Err(_) => Err(format!("\"{leaves}\" is not a number of leaves")),
    }
}

/// The label of leaves that stand for words which are elsewhere or missing. Parsers and their evaluation (evalb) leave
/// them out.
const EMPTY: &str = "-NONE-";
const NODE: &str = "a node is written (LABEL WORD) or (LABEL NODE NODE)";

/// A bracket that has not been closed.
#[derive(Default)]
struct OpenBracket<'t> {
    line: usize,
    /// The label, then the word of a leaf.
    words: Vec<&'t str>,
    children: Vec<u32>,
    /// Whether a child was left out.
    lacks_child: bool,
}

/// Reads brackets. A node is numbered when its bracket closes: children before their parent, left before right.
#[derive(Default)]
struct BracketReader<'t> {
    open: Vec<OpenBracket<'t>>,
    parents: Vec<u32>,
    found: ParsedTrees,
}

/// Reads s-expressions (Penn, Stanford), on any number of lines: `(LABEL WORD)` is a leaf, `(LABEL NODE NODE)` an inner
/// node, as in `(3 (2 good) (2 film))`. An unlabelled bracket around a sentence is not part of the tree. Leaves
/// `(-NONE- …)` of the Penn treebank are left out, and so are nodes without other leaves.
pub fn brackets(text: &str) -> Result<ParsedTrees, String> {
    let mut reader = BracketReader::default();
    for (number, line) in (1..).zip(text.lines()) {
        for token in tokens(line) {
            let begins = reader.open.first().map_or(number, |open| open.line);
            let taken = match token {
                "(" => {
                    reader.open.push(OpenBracket {
                        line: number,
                        ..OpenBracket::default()
                    });
                    Ok(())
                }
                ")" => reader.close(),
                word => reader.word(word),
            };
            taken.map_err(refuse_tree(number, format!("it from line {begins} on")))?;
        }
    }
    match reader.open.first() {
        Some(open) => Err(refuse_tree(open.line, "it from there on")(
            "a bracket is never closed".into(),
        )),
        None => Ok(reader.found),
    }
}

fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace()
        .flat_map(|part| part.split_inclusive(['(', ')']))
        .flat_map(|part| {
            let (word, bracket) = part.split_at(part.find(['(', ')']).unwrap_or(part.len()));
            [word, bracket]
                .into_iter()
                .filter(|token| !token.is_empty())
        })
}

impl<'t> BracketReader<'t> {
    fn word(&mut self, word: &'t str) -> Result<(), String> {
        match self.open.last_mut() {
            None => Err(format!("\"{word}\" is outside of all brackets")),
            Some(open)
                if open.words.len() == 2 || !open.children.is_empty() || open.lacks_child =>
            {
                Err(next_to_another(word))
            }
            Some(open) => {
                open.words.push(word);
                Ok(())
            }
        }
    }

    fn close(&mut self) -> Result<(), String> {
        let closed = self
            .open
            .pop()
            .ok_or_else(|| "a closing bracket without an opening one".to_string())?;
        let node = match (&closed.words[..], &closed.children[..]) {
            ([_, word], [_, ..]) => return Err(next_to_another(word)),
            ([_, word], []) if closed.lacks_child => return Err(next_to_another(word)),
            ([EMPTY, _], []) => {
                self.found.empty_leaves += 1;
                None
            }
            (_, []) if closed.lacks_child => None,
            ([], []) => return Err(format!("an empty bracket; {NODE}")),
            ([label], []) => {
                return Err(format!("\"({label})\" is a label without a word; {NODE}"));
            }
            ([], [sentence]) if self.open.is_empty() => Some(*sentence),
            (_, children) => {
                self.parents.push(0);
                let node = self.parents.len() as u32;
                children
                    .iter()
                    .for_each(|child| self.parents[*child as usize - 1] = node);
                Some(node)
            }
        };
        match (self.open.last_mut(), node) {
            (Some(above), Some(node)) => above.children.push(node),
            (Some(above), None) => above.lacks_child = true,
            (None, Some(_)) => {
                let tree = Tree::from_parents(&self.parents)?;
                self.found.trees.push(TreeAtLine {
                    line: closed.line,
                    tree,
                });
                self.parents.clear();
            }
            (None, None) => {}
        }
        Ok(())
    }
}

fn next_to_another(word: &str) -> String {
    format!("\"{word}\" is next to another child; put it into brackets of its own")
}

/// The number of columns: ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
const COLUMNS: usize = 10;
const ID: usize = 0;
const HEAD: usize = 6;

/// Reads CoNLL-U: a line of ten columns for each word, the seventh of which is its head, and so its parent; an empty
/// line follows each sentence (universaldependencies.org/format.html).
pub fn conllu(text: &str) -> Result<ParsedTrees, String> {
    let mut trees = Vec::new();
    let mut heads: Vec<u32> = Vec::new();
    let mut first = None;
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        if line.trim().is_empty() {
            let line = first.take().unwrap_or(number);
            if !heads.is_empty() {
                let lines = format!("the lines up to {}", number - 1);
                let tree = Tree::from_parents(&heads).map_err(refuse_tree(line, lines))?;
                trees.push(TreeAtLine { line, tree });
                heads.clear();
            }
            continue;
        }
        let begins = *first.get_or_insert(number);
        if !line.starts_with('#') {
            let lines = format!("the lines from {begins} to the next empty one");
            heads.extend(head(line, heads.len() + 1).map_err(refuse_tree(number, lines))?);
        }
    }
    Ok(ParsedTrees {
        trees,
        ..ParsedTrees::default()
    })
}

/// The head of a word; `None` for lines that are not words of the tree: ranges (`1-2`) and nodes of the enhanced graph
/// (`2.1`).
fn head(line: &str, number: usize) -> Result<Option<u32>, String> {
    let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
    if columns.len() != COLUMNS {
        let found = plural(columns.len(), "column");
        return Err(format!(
            "has {found}; a word of CoNLL-U has {COLUMNS}, with tabs between them"
        ));
    }
    let id = columns[ID];
    if let Some((from, to)) = id.split_once(['-', '.'])
        && from.parse::<u32>().is_ok()
        && to.parse::<u32>().is_ok()
    {
        return Ok(None);
    }
    if id.parse() != Ok(number) {
        return Err(format!(
            "ID: \"{id}\" should be {number}; words are numbered 1, 2, 3 and so on"
        ));
    }
    let head = columns[HEAD];
    head.parse().map(Some).map_err(|_| {
        format!(
            "HEAD: \"{head}\" is not a word's number, 0 for the root; a file without heads has no trees"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::PathBuf;
    use std::{env, fs};

    use super::*;

    fn read(text: &str) -> Result<Vec<(usize, String)>, String> {
        let found = super::read(notation(text), text)?;
        Ok(found
            .trees
            .into_iter()
            .map(|found| (found.line, found.tree.to_string()))
            .collect())
    }

    fn trees(text: &str) -> Vec<String> {
        read(text)
            .unwrap()
            .into_iter()
            .map(|(_, tree)| tree)
            .collect()
    }

    #[test]
    fn brackets_are_numbered_from_the_leaves_up_and_may_span_lines() {
        let text = "(3 (2 (2 a) (2 fine)) (2 film))\n\n(2 yes)\n(S\n  (NP (DT the) (JJ old) (NN man))\n  (VP (VBD slept)))\n";
        let expected = [(1, "3 3 5 5 0"), (3, "0"), (4, "4 4 4 7 6 7 0")];
        assert_eq!(
            read(text).unwrap(),
            expected.map(|(line, tree)| (line, tree.to_string()))
        );
        // Penn files put an unlabelled bracket around each sentence.
        assert_eq!(
            trees("( (S (NP (PRP it)) (VP (VBZ is))) )\n((X a)(Y b))\n"),
            ["2 5 4 5 0", "3 3 0"]
        );
    }

    #[test]
    fn leaves_without_words_are_left_out_with_what_they_leave_empty() {
        let text = "( (S (NP (-NONE- *-1)) (VP (VB go) (PP (TO to) (NP (-NONE- *))))) )\n\
                    ( (S (-NONE- *T*-2)) )\n((X a)(-NONE- 0))\n";
        let found = super::read(brackets, text).unwrap();
        let trees: Vec<(usize, String)> = found
            .trees
            .iter()
            .map(|found| (found.line, found.tree.to_string()))
            .collect();
        // In the first, the words go and to stay: S (VP VB (PP TO)). The second has no words.
        assert_eq!(trees, [(1, "4 3 4 5 0".into()), (3, "0".into())]);
        assert_eq!(found.empty_leaves, 4);
        let error = super::read(brackets, "(S (-NONE- 0) word)").unwrap_err();
        assert!(
            error.starts_with("line 1: \"word\" is next to another child"),
            "{error}"
        );
    }

    #[test]
    fn conllu_gives_the_tree_of_the_heads() {
        let text = "# text = vámonos al mar\n\
            1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n\
            1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n\
            2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_\n\
            2.1\t_\t_\t_\t_\t_\t_\t_\t1:dep\t_\n\
            3\tal\ta\tADP\t_\t_\t4\tcase\t_\t_\n\
            4\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_\n\
            \n\
            # the next one ends with the file\n\
            1\tsí\tsí\tINTJ\t_\t_\t0\troot\t_\t_";
        let expected = [(1, "0 1 4 1"), (9, "0")];
        assert_eq!(
            read(text).unwrap(),
            expected.map(|(line, tree)| (line, tree.to_string()))
        );
    }

    #[test]
    fn parents_stand_with_or_without_their_leaves() {
        assert_eq!(
            trees("\u{feff}3 3 0\r\n\r\n2\t3 3 0\r\n"),
            ["3 3 0", "3 3 0"]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, message, way_out) in [
            ("", "holds no trees", ""),
            ("# nothing but a comment\n", "holds no trees", ""),
            (
                "3 3 0\n3 x 0\n",
                "line 2: \"x\" is not a parent: a whole number, 0 for the root",
                "the line",
            ),
            (
                "2\t3 3 0\n3\t3 3 0\n",
                "line 2: says 3 leaves, but 2 nodes have no children",
                "the line",
            ),
            (
                "2\t3 3 0\nx\t3 3 0\n",
                "line 2: \"x\" is not a number of leaves",
                "the line",
            ),
            (
                "(2 a)\n(2 (2 b) (2 c)\n(2 d)\n",
                "line 2: a bracket is never closed",
                "it from there on",
            ),
            (
                "(2 a)\n(2 b))\n",
                "line 2: a closing bracket without an opening one",
                "it from line 2 on",
            ),
            (
                "(2 a)\nword (2 b)\n",
                "line 2: \"word\" is outside of all brackets",
                "it from line 2 on",
            ),
            (
                "(2 a)\n(2 (2 b)\n())\n",
                "line 3: an empty bracket; a node is written (LABEL WORD) or (LABEL NODE NODE)",
                "it from line 2 on",
            ),
            (
                "(2)\n",
                "line 1: \"(2)\" is a label without a word; a node is written (LABEL WORD) or (LABEL NODE NODE)",
                "it from line 1 on",
            ),
            (
                "(2 a b)\n",
                "line 1: \"b\" is next to another child; put it into brackets of its own",
                "it from line 1 on",
            ),
            (
                "(2 (2 a) b)\n",
                "line 1: \"b\" is next to another child; put it into brackets of its own",
                "it from line 1 on",
            ),
            (
                "(2 a (2 b))\n",
                "line 1: \"a\" is next to another child; put it into brackets of its own",
                "it from line 1 on",
            ),
            (
                "# a\n1\tx\n",
                "line 2: has 2 columns; a word of CoNLL-U has 10, with tabs between them",
                "the lines from 1 to the next empty one",
            ),
            (
                "1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n",
                "line 1: HEAD: \"_\" is not a word's number, 0 for the root; \
                 a file without heads has no trees",
                "the lines from 1 to the next empty one",
            ),
            (
                "2\tx\t_\t_\t_\t_\t0\t_\t_\t_\n",
                "line 1: ID: \"2\" should be 1; words are numbered 1, 2, 3 and so on",
                "the lines from 1 to the next empty one",
            ),
            (
                "x\tx\t_\t_\t_\t_\t0\t_\t_\t_\n",
                "line 1: ID: \"x\" should be 1; words are numbered 1, 2, 3 and so on",
                "the lines from 1 to the next empty one",
            ),
            (
                "# two\n1\tx\t_\t_\t_\t_\t0\t_\t_\t_\n2\ty\t_\t_\t_\t_\t0\t_\t_\t_\n\n",
                "line 1: nodes 1 and 2 both have parent 0; a tree has one root",
                "the lines up to 3",
            ),
        ] {
            let expected = match way_out {
                "" => message.to_string(),
                lines => format!("{message}; to leave this tree out, delete {lines}"),
            };
            assert_eq!(read(text).unwrap_err(), expected, "{text:?}");
        }
    }

    /// A tree in brackets. Its nodes must be numbered from the leaves up, left before right.
    fn as_brackets(tree: &Tree) -> String {
        let mut written: Vec<String> = vec![String::new(); tree.len()];
        for node in 0..tree.len() {
            let text = std::mem::take(&mut written[node]);
            let text = if text.is_empty() {
                "(2 word)".to_string()
            } else {
                format!("(3{text})")
            };
            match tree.parents()[node] {
                Tree::NO_PARENT => return text,
                parent => written[parent as usize].extend([" ", &text]),
            }
        }
        unreachable!("a tree has a root")
    }

    fn as_conllu(tree: &Tree) -> String {
        let mut text = String::from("# a sentence\n");
        for (node, parent) in tree.parents().iter().enumerate() {
            let _ = writeln!(
                text,
                "{}\tword\t_\t_\t_\t_\t{}\t_\t_\t_",
                node + 1,
                parent.wrapping_add(1)
            );
        }
        text + "\n"
    }

    /// The variable names a folder with the public files, which are not in the repository, under `trees/`.
    #[test]
    fn the_public_trees_read_back_from_the_notations_of_their_publishers() {
        let Some(folder) = env::var_os("BATCHLAB_DATA").map(PathBuf::from) else {
            println!("skipped: BATCHLAB_DATA is not set");
            return;
        };
        let plain = |found: &ParsedTrees| {
            found
                .trees
                .iter()
                .map(|found| found.tree.clone())
                .collect::<Vec<_>>()
        };
        for (file, own, write) in [
            (
                "sst_dev.txt",
                brackets as Notation,
                as_brackets as fn(&Tree) -> String,
            ),
            ("sick_train.txt", conllu, as_conllu),
            ("sick_test.txt", parents, Tree::to_string),
        ] {
            let text = fs::read_to_string(folder.join("trees").join(file)).unwrap();
            let trees = plain(&parents(&text).unwrap());
            let published: String = trees.iter().map(|tree| write(tree) + "\n").collect();
            for notation in [own, notation(&published)] {
                assert!(
                    plain(&super::read(notation, &published).unwrap()) == trees,
                    "{file}"
                );
            }
        }
    }
}
