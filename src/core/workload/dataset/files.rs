//! The files of datasets.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::{ShapeFamily, mismatch, takes};
use crate::base::shipped;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::generators::Shares;
use crate::core::workload::import::sentences;
use crate::core::workload::input::locate;
use crate::core::workload::model::Model;
use crate::core::workload::shape::{MAX_LENGTH, Shape};
use crate::core::workload::treebanks::{self, notation, refuse_tree};

/// Reads a file. Messages begin with the line, if there is one.
pub(super) fn read(
    path: &Path,
    model: &Model,
    family: &ShapeFamily,
) -> Result<Shares<Shape>, String> {
    let bytes = shipped::read(path).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => {
            "no such file; a dataset is a file, constant:SIZE (constant:fixed for requests without lengths), \
             complete-tree:LEAVES or generator:NAME"
                .into()
        }
        _ => format!("cannot be read: {cause}"),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| "not a text file in UTF-8")?;
    match family {
        ShapeFamily::Trees => read_trees(&text, model, family),
        ShapeFamily::Graphs(_) => Err(mismatch(model, family, "is a file")),
        ShapeFamily::Lengths(shape) if !is_table(path, &text) => {
            read_sentences(&text, model, family, shape)
        }
        ShapeFamily::Lengths(shape) => {
            read_histogram(&text, &LENGTHS, model, family, |n| shape(n[0]))
        }
        ShapeFamily::Pairs(shape) => {
            read_histogram(&text, &PAIRS, model, family, |n| shape((n[0], n[1])))
        }
    }
}

const LENGTHS: [&str; 2] = ["length", "count"];
const PAIRS: [&str; 3] = ["src_len", "tgt_len", "count"];

fn is_table(path: &Path, text: &str) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("csv"))
        || is_header(text, &LENGTHS)
}

/// Reads a table of lengths, with a count in the last column.
fn read_histogram(
    text: &str,
    columns: &[&str],
    model: &Model,
    family: &ShapeFamily,
    shape: impl Fn(&[u32]) -> Shape,
) -> Result<Shares<Shape>, String> {
    if !is_header(text, columns) {
        let header = text
            .lines()
            .next()
            .unwrap_or("")
            .trim_start_matches('\u{feff}');
        if header.contains('\t') && !header.contains(',') {
            return Err(mismatch(model, family, "line 1: is a tree"));
        }
        return Err(format!(
            "line 1: the header is \"{header}\", but {}",
            takes(model, family)
        ));
    }
    let mut counts: Vec<(Vec<u32>, u64)> = Vec::new();
    let mut total: u64 = 0;
    for (number, line) in (2..)
        .zip(text.lines().skip(1))
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let row = histogram_row(line, columns).map_err(locate(format_args!("line {number}")))?;
        let sum = total.checked_add(row.1);
        total =
            sum.ok_or_else(|| format!("line {number}: the counts sum to more than {}", u64::MAX))?;
        counts.push(row);
    }
    if total == 0 {
        return Err("the counts sum to 0; at least one has to be above".into());
    }
    // The order of rows must not matter.
    counts.sort_unstable();
    Ok(counts
        .into_iter()
        .map(|(lengths, count)| (shape(&lengths), count as f64))
        .collect())
}

fn histogram_row(line: &str, columns: &[&str]) -> Result<(Vec<u32>, u64), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != columns.len() {
        return Err(format!(
            "\"{line}\" has {} fields; it takes {}: {}",
            fields.len(),
            columns.len(),
            columns.join(",")
        ));
    }
    let (count, lengths) = fields
        .split_last()
        .expect("there is a column for the count");
    let length = |(field, name): (&&str, &&str)| {
        let length = field.parse().ok().filter(|n| (1..=MAX_LENGTH).contains(n));
        length.ok_or_else(|| {
            format!("{name}: \"{field}\" is not a whole number from 1 to {MAX_LENGTH}")
        })
    };
    let lengths = lengths
        .iter()
        .zip(columns)
        .map(length)
        .collect::<Result<_, String>>()?;
    let count = count
        .parse()
        .map_err(|_| format!("count: \"{count}\" is not a whole number, 0 or more"))?;
    Ok((lengths, count))
}

fn read_sentences(
    text: &str,
    model: &Model,
    family: &ShapeFamily,
    shape: impl Fn(u32) -> Shape,
) -> Result<Shares<Shape>, String> {
    if let Some(tree) = treebanks::read(notation(text), text)
        .ok()
        .and_then(|found| found.trees.into_iter().next())
    {
        return Err(mismatch(
            model,
            family,
            &format!("line {}: is a tree", tree.line),
        ));
    }
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for length in sentences(text) {
        *counts.entry(length).or_insert(0) += 1;
    }
    if counts.is_empty() {
        return Err("holds no sentences".into());
    }
    Ok(counts
        .into_iter()
        .map(|(length, count)| (shape(length), count as f64))
        .collect())
}

fn read_trees(text: &str, model: &Model, family: &ShapeFamily) -> Result<Shares<Shape>, String> {
    if is_header(text, &LENGTHS) || is_header(text, &PAIRS) {
        let first = text.lines().next().unwrap_or("");
        let but = takes(model, family);
        return Err(format!(
            "line 1: \"{first}\" is the header of a histogram, but {but}"
        ));
    }
    let mut trees = Vec::new();
    for found in treebanks::read(notation(text), text)?.trees {
        model
            .check_tree(&found.tree)
            .map_err(refuse_tree(found.line, "it"))?;
        trees.push(found.tree);
    }
    // The file's order may not affect results.
    trees.sort_unstable_by(|a, b| (a.len(), a.parents()).cmp(&(b.len(), b.parents())));
    Ok(trees
        .chunk_by(Tree::eq)
        .map(|equal| {
            let tree = Arc::new(equal[0].clone());
            (Shape::Tree(tree), equal.len() as f64)
        })
        .collect())
}

fn is_header(text: &str, columns: &[&str]) -> bool {
    let first = text
        .lines()
        .next()
        .unwrap_or("")
        .trim_start_matches('\u{feff}');
    first.split(',').map(str::trim).eq(columns.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{open_named, open_text};

    #[test]
    fn public_files_are_read_as_they_are() {
        for (name, text, model, histogram) in [
            (
                "words.en",
                "one two three\n\none two\nthree two one\n",
                "lstm",
                vec![(2, 1.0 / 3.0), (3, 2.0 / 3.0)],
            ),
            ("words.txt", "length counts\n", "dnn:bert", vec![(2, 1.0)]),
            (
                "dev.txt",
                "(3 (2 good) (2 film))\n",
                "tree-lstm",
                vec![(3, 1.0)],
            ),
            (
                "a.parents",
                "3 3 0\n0\n",
                "childsum-tree-lstm",
                vec![(1, 0.5), (3, 0.5)],
            ),
            (
                "en.conllu",
                "# one\n1\tyes\t_\t_\t_\t_\t0\t_\t_\t_\n",
                "childsum-tree-lstm",
                vec![(1, 1.0)],
            ),
        ] {
            assert_eq!(
                open_named(name, text, model).unwrap().histogram(),
                histogram,
                "{name}"
            );
        }
        for (name, text, message) in [
            (
                "dev.txt",
                "(3 (2 good) (2 film))\n",
                "line 1: is a tree, but the model lstm takes",
            ),
            (
                "a.parents",
                "3 3 0\n",
                "line 1: is a tree, but the model lstm takes",
            ),
            (
                "words.csv",
                "good film\n",
                "line 1: the header is \"good film\", but the model lstm takes",
            ),
            ("words.txt", "\n", "holds no sentences"),
        ] {
            let error = open_named(name, text, "lstm").unwrap_err().to_string();
            assert!(error.contains(&format!("{name}: {message}")), "{error}");
        }
    }

    #[test]
    fn a_broken_file_is_named_with_its_line() {
        for (text, model, message) in [
            (
                "len,n\n3,1\n",
                "lstm",
                "line 1: the header is \"len,n\", but the model lstm takes a CSV file with the header length,count",
            ),
            (
                "length,count\n3,1\n",
                "seq2seq",
                "line 1: the header is \"length,count\", but the model seq2seq takes a CSV file with the header \
                 src_len,tgt_len,count",
            ),
            (
                "2\t3 3 0\n",
                "lstm",
                "line 1: is a tree, but the model lstm takes a CSV file with the header length,count, a",
            ),
            ("", "lstm", "line 1: the header is \"\", but"),
            (
                "length,count\n3,1\n0,4\n",
                "lstm",
                "line 3: length: \"0\" is not a whole number from 1 to 1073741824",
            ),
            (
                "length,count\n\n3,-1\n",
                "lstm",
                "line 3: count: \"-1\" is not a whole number, 0 or more",
            ),
            (
                "length,count\n3\n",
                "lstm",
                "line 2: \"3\" has 1 fields; it takes 2: length,count",
            ),
            (
                "length,count\n",
                "lstm",
                "the counts sum to 0; at least one has to be above",
            ),
            (
                "length,count\n3,0\n",
                "lstm",
                "the counts sum to 0; at least one has to be above",
            ),
            (
                "length,count\n3,18446744073709551615\n4,1\n",
                "lstm",
                "line 3: the counts sum to more than 18446744073709551615",
            ),
            (
                "src_len,tgt_len,count\n3,x,1\n",
                "seq2seq",
                "line 2: tgt_len: \"x\" is not a whole number from 1",
            ),
            (
                "length,count\n3,1\n",
                "tree-lstm",
                "line 1: \"length,count\" is the header of a histogram, but the model",
            ),
            (
                "2\t3 3 0\n3\t3 3 0\n",
                "tree-lstm",
                "line 2: says 3 leaves, but 2 nodes have no children",
            ),
            (
                "2\t3 3 0\nx\t3 3 0\n",
                "tree-lstm",
                "line 2: \"x\" is not a number of leaves",
            ),
            (
                "2\t3 3 9\n",
                "tree-lstm",
                "line 1: node 3 has parent 9, but the tree has 3 nodes",
            ),
            (
                "2\t3 3 0\n(2 a)\n",
                "tree-lstm",
                "line 2: \"(2\" is not a parent: a whole number, 0 for the root",
            ),
            (
                "(2 a)\n(2 b\n",
                "tree-lstm",
                "line 2: a bracket is never closed",
            ),
            ("\n", "tree-lstm", "holds no trees"),
        ] {
            let error = open_text(text, model).unwrap_err().to_string();
            let (file, rest) = error.split_once("data.csv: ").unwrap();
            assert!(
                !file.is_empty() && rest.starts_with(message),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn windows_line_ends_and_a_byte_order_mark_are_read() {
        let dataset = open_text("\u{feff}length,count\r\n3,1\r\n", "lstm").unwrap();
        assert_eq!(dataset.histogram(), [(3, 1.0)]);
    }
}
