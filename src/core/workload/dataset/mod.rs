//! Datasets: the shapes that requests are drawn from, without arrival times. All but the generator of trees are a table
//! of shapes with weights.

mod files;
mod sampler;

use crate::core::workload::shared_list::SharedList;
use std::path::PathBuf;
use std::sync::Arc;

pub use self::sampler::Sampler;
use super::generators::{self, GENERATORS, Generator, Shares, Treebank};
use super::graph_model::{GraphModel, Takes};
use super::input::locate;
use super::model::{Model, Unfolder};
use super::random::RandomSequence;
use super::shape::Shape;
use crate::base::error::{Error, Result};

const MAX_COMPLETE_LEAVES: u32 = 1 << 20;

/// A source of shapes.
#[derive(Debug)]
pub struct Dataset {
    spec: String,
    shapes: Shapes,
}

#[derive(Debug)]
enum Shapes {
    /// A table of shapes, in an order that does not depend on the file's.
    Table(Shares<Shape>),
    /// A table of leaf counts; each draw grows a new tree.
    Treebank {
        leaves: Shares<u32>,
        trees: Box<Treebank>,
    },
}

/// The shapes that a model takes.
enum ShapeFamily {
    Lengths(fn(u32) -> Shape),
    Pairs(fn((u32, u32)) -> Shape),
    Trees,
    Graphs(Vec<u32>),
}

impl ShapeFamily {
    fn from_model(model: &Model) -> ShapeFamily {
        match model.unfolds() {
            Some(Takes::Chains) => ShapeFamily::Lengths(Shape::Chain),
            Some(Takes::Pairs) => {
                ShapeFamily::Pairs(|(source, target)| Shape::Seq2Seq { source, target })
            }
            Some(Takes::Trees) => ShapeFamily::Trees,
            Some(Takes::Graphs) => {
                ShapeFamily::Graphs(model.graph_model().map_or(Vec::new(), GraphModel::weights))
            }
            None if model.is_llm() => {
                ShapeFamily::Pairs(|(prompt, output)| Shape::Llm { prompt, output })
            }
            None => ShapeFamily::Lengths(Shape::Tokens),
        }
    }
}

impl Dataset {
    /// Opens a dataset for a model. `spec` is one of
    ///
    /// - a path, resolved with `find`: a CSV file `length,count` or a text with a sentence per line (chains, tokens);
    ///   `src_len,tgt_len,count` (seq2seq); or trees in a treebank's [notation](super::treebanks::Notation);
    /// - `constant:24`, `constant:24>27` (seq2seq), or a shape in full: `constant:fixed`, `constant:tree:3 3 0`;
    /// - `complete-tree:16`, the complete binary tree of 16 leaves;
    /// - `generator:graphs`, the graphs of a graph model's file, by weight;
    /// - `generator:NAME`, one of [`GENERATORS`].
    pub fn open(spec: &str, model: &Model, find: &dyn Fn(&str) -> PathBuf) -> Result<Dataset> {
        let family = ShapeFamily::from_model(model);
        let shapes = match spec.split_once(':') {
            Some(("constant", size)) => constant(size, model, &family).map_err(locate(spec)),
            Some(("complete-tree", leaves)) => {
                complete_tree(leaves, model, &family).map_err(locate(spec))
            }
            Some(("generator", name)) => generator(name, model, &family).map_err(locate(spec)),
            _ => {
                let path = find(spec);
                files::read(&path, model, &family)
                    .map(Shapes::Table)
                    .map_err(locate(path.display()))
            }
        };
        Ok(Dataset {
            spec: spec.to_string(),
            shapes: shapes.map_err(Error::Input)?,
        })
    }

    /// Draws `n` shapes with replacement, without those longer than `max_length` (by [`cut_length`]).
    ///
    /// A table is sorted by length and takes one random number per shape: one stream draws long requests at the same
    /// places from any histogram.
    pub fn sample(
        &self,
        n: usize,
        max_length: Option<u32>,
        rng: &mut RandomSequence,
    ) -> Result<SharedList<Shape>> {
        let sampler = self.sampler(max_length)?;
        Ok((0..n).map(|_| sampler.draw(rng)).collect())
    }

    /// A sampler that draws shapes as [`Dataset::sample`] does, one by one.
    pub fn sampler(&self, max_length: Option<u32>) -> Result<Sampler<'_>> {
        let limit = max_length.unwrap_or(u32::MAX);
        let weights = self
            .sizes()
            .map(|(cut, _, weight)| if cut <= limit { weight } else { 0.0 });
        Sampler::new(&self.shapes, weights).ok_or_else(|| {
            let shortest = self.sizes().map(|(cut, ..)| cut).min().unwrap_or(0);
            Error::input(format!(
                "max_length = {limit} leaves nothing of the dataset {}: its shortest shape has length {shortest}",
                self.spec
            ))
        })
    }

    /// The number of shapes of a table; `None` if each draw makes a new one.
    pub fn shapes(&self) -> Option<usize> {
        match &self.shapes {
            Shapes::Table(rows) => Some(rows.len()),
            Shapes::Treebank { .. } => None,
        }
    }

    /// The longest [length](Shape::length) that [`Dataset::sample`] draws with this limit.
    pub fn longest(&self, max_length: Option<u32>) -> u32 {
        let limit = max_length.unwrap_or(u32::MAX);
        let drawn = self
            .sizes()
            .filter(|(cut, _, weight)| *weight > 0.0 && *cut <= limit);
        drawn.map(|(_, length, _)| length).max().unwrap_or(0)
    }

    /// What `max_length` limits, the length and the weight of each row.
    fn sizes(&self) -> Box<dyn Iterator<Item = (u32, u32, f64)> + '_> {
        match &self.shapes {
            Shapes::Table(rows) => Box::new(
                rows.iter()
                    .map(|(shape, weight)| (cut_length(shape), shape.length(), *weight)),
            ),
            Shapes::Treebank { leaves, .. } => {
                Box::new(leaves.iter().map(|(n, weight)| (*n, 2 * n - 1, *weight)))
            }
        }
    }
}

/// What `max_length` limits: the longer side for seq2seq, prompt and output for language models, leaves for trees.
pub fn cut_length(shape: &Shape) -> u32 {
    match shape {
        Shape::Seq2Seq { source, target } => *source.max(target),
        Shape::Llm { prompt, output } => prompt.saturating_add(*output),
        Shape::Tree(tree) => tree.leaves() as u32,
        Shape::Chain(n) | Shape::Tokens(n) => *n,
        Shape::Fixed | Shape::Graph(_) => 1,
    }
}

fn constant(size: &str, model: &Model, family: &ShapeFamily) -> Result<Shapes, String> {
    let in_full = size.contains(|c: char| c.is_alphabetic());
    let text = match family {
        _ if in_full => size.to_string(),
        ShapeFamily::Lengths(shape) => format!("{}:{size}", shape(1).kind()),
        ShapeFamily::Graphs(_) => format!("graph:{size}"),
        ShapeFamily::Pairs(shape) if size.contains('>') => {
            format!("{}:{size}", shape((1, 1)).kind())
        }
        ShapeFamily::Pairs(shape) => format!("{}:{size}>{size}", shape((1, 1)).kind()),
        ShapeFamily::Trees => {
            let name = model.name();
            return Err(format!(
                "the model {name} takes trees; write complete-tree:{size} or constant:tree:PARENTS"
            ));
        }
    };
    let shape: Shape = text.parse()?;
    Unfolder::new(model).unfold(&shape)?;
    Ok(Shapes::Table(vec![(shape, 1.0)]))
}

fn complete_tree(leaves: &str, model: &Model, family: &ShapeFamily) -> Result<Shapes, String> {
    if !matches!(family, ShapeFamily::Trees) {
        return Err(mismatch(model, family, "is a tree"));
    }
    let is_not =
        || format!("\"{leaves}\" is not a whole number of leaves from 1 to {MAX_COMPLETE_LEAVES}");
    let number = leaves
        .parse()
        .ok()
        .filter(|n| (1..=MAX_COMPLETE_LEAVES).contains(n))
        .ok_or_else(is_not)?;
    Ok(Shapes::Table(vec![(
        Shape::Tree(Arc::new(generators::complete_tree(number))),
        1.0,
    )]))
}

fn generator(name: &str, model: &Model, family: &ShapeFamily) -> Result<Shapes, String> {
    let Some((_, generator)) = GENERATORS.iter().find(|(known, _)| *known == name) else {
        let known = GENERATORS.map(|(known, _)| known).join(", ");
        return Err(format!("unknown generator \"{name}\"; known: {known}"));
    };
    let not_for = |what| Err(mismatch(model, family, what));
    match (generator, family) {
        (Generator::Lengths(shares), ShapeFamily::Lengths(shape)) => Ok(table(shares(), shape)),
        (Generator::Lengths(_), _) => not_for("draws single lengths"),
        (
            Generator::Pairs(shares) | Generator::Conversations(shares),
            ShapeFamily::Pairs(shape),
        ) => Ok(table(shares(), shape)),
        // A step for each token of the prompt and of the output.
        (Generator::Conversations(shares), ShapeFamily::Lengths(shape)) => {
            Ok(table(shares(), |(prompt, output)| shape(prompt + output)))
        }
        (Generator::Pairs(_) | Generator::Conversations(_), _) => not_for("draws pairs of lengths"),
        (Generator::Trees, ShapeFamily::Trees) => Ok(Shapes::Treebank {
            leaves: Treebank::leaves(),
            trees: Box::default(),
        }),
        (Generator::Trees, _) => not_for("draws trees"),
        (Generator::Graphs, ShapeFamily::Graphs(weights)) => Ok(table(
            (1..).zip(weights.iter().copied().map(f64::from)).collect(),
            Shape::Graph,
        )),
        (Generator::Graphs, _) => not_for("draws the graphs that a model's file lists"),
    }
}

fn table<T>(shares: Shares<T>, shape: impl Fn(T) -> Shape) -> Shapes {
    Shapes::Table(
        shares
            .into_iter()
            .map(|(size, share)| (shape(size), share))
            .collect(),
    )
}

fn mismatch(model: &Model, family: &ShapeFamily, what: &str) -> String {
    let way_out = match family {
        ShapeFamily::Lengths(shape) if shape(1).kind() == "tokens" => {
            "constant:N, constant:fixed (requests without lengths), generator:europarl-en, -de or paper-lstm"
        }
        ShapeFamily::Lengths(_) => "constant:N, generator:europarl-en, -de or paper-lstm",
        ShapeFamily::Pairs(_) => {
            "constant:S>T, generator:europarl-de-en, azure-conversation or sharegpt"
        }
        ShapeFamily::Trees => "complete-tree:N, generator:treebank",
        ShapeFamily::Graphs(_) => "constant:K, generator:graphs",
    };
    format!("{what}, but {}, or {way_out}", takes(model, family))
}

fn takes(model: &Model, family: &ShapeFamily) -> String {
    let files = match family {
        ShapeFamily::Lengths(_) => {
            "a CSV file with the header length,count, a text with one sentence a line"
        }
        ShapeFamily::Pairs(_) => "a CSV file with the header src_len,tgt_len,count",
        ShapeFamily::Trees => "a file of trees (parents a line, PTB brackets or CoNLL-U)",
        ShapeFamily::Graphs(_) => "the graphs of its own file",
    };
    format!("the model {} takes {files}", model.name())
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;
    use crate::core::workload::random;

    fn open(spec: &str, model: &str) -> Result<Dataset> {
        Dataset::open(spec, &Model::parse(model).unwrap(), &|path| {
            PathBuf::from(path)
        })
    }

    pub(super) fn open_text(text: &str, model: &str) -> Result<Dataset> {
        open_named("data.csv", text, model)
    }

    pub(super) fn open_named(name: &str, text: &str, model: &str) -> Result<Dataset> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), text).unwrap();
        Dataset::open(name, &Model::parse(model).unwrap(), &|name| {
            dir.path().join(name)
        })
    }

    fn draw(dataset: &Dataset, n: usize, max_length: Option<u32>) -> SharedList<Shape> {
        dataset
            .sample(n, max_length, &mut random::sequence(1, 0, "shapes"))
            .unwrap()
    }

    impl Dataset {
        /// Ascending [lengths](Shape::length); shares sum to 1.
        pub fn histogram(&self) -> Shares<u32> {
            let mut shares: Shares<u32> = match &self.shapes {
                Shapes::Table(rows) => rows
                    .iter()
                    .map(|(shape, weight)| (shape.length(), *weight))
                    .collect(),
                Shapes::Treebank { leaves, .. } => leaves
                    .iter()
                    .map(|(n, weight)| (2 * n - 1, *weight))
                    .collect(),
            };
            shares.sort_by_key(|(length, _)| *length);
            shares.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                kept.1 += if same { next.1 } else { 0.0 };
                same
            });
            let total: f64 = shares.iter().map(|(_, weight)| weight).sum();
            shares.iter_mut().for_each(|(_, weight)| *weight /= total);
            shares
        }
    }

    #[test]
    fn every_model_has_a_constant_dataset() {
        for (spec, model, shape) in [
            ("constant:24", "lstm", "chain:24"),
            ("constant:24", "gru", "chain:24"),
            ("constant:24", "dnn:bert", "tokens:24"),
            ("constant:fixed", "dnn:resnet50", "fixed"),
            ("constant:24>27", "seq2seq", "seq2seq:24>27"),
            ("constant:24", "seq2seq", "seq2seq:24>24"),
            ("constant:tree:3 3 0", "tree-lstm", "tree:3 3 0"),
            ("complete-tree:2", "tree-lstm", "tree:3 3 0"),
        ] {
            let shapes = draw(&open(spec, model).unwrap(), 3, None);
            assert_eq!(
                shapes.iter().map(Shape::to_string).collect::<Vec<_>>(),
                [shape; 3],
                "{spec}"
            );
        }
    }

    #[test]
    fn a_histogram_is_drawn_in_its_proportions_whatever_its_order() {
        let dataset = open_text("length,count\n3,1\n7,0\n5,3\n", "lstm").unwrap();
        assert_eq!(dataset.histogram(), [(3, 0.25), (5, 0.75), (7, 0.0)]);
        let shapes = draw(&dataset, 40_000, None);
        let fives = shapes
            .iter()
            .filter(|shape| **shape == Shape::Chain(5))
            .count();
        assert!(fives.abs_diff(30_000) < 350, "{fives}"); // four standard deviations
        assert!(shapes.iter().all(|shape| *shape != Shape::Chain(7)));
        assert_eq!(
            shapes,
            draw(
                &open_text("length,count\n5,3\n7,0\n3,1\n", "lstm").unwrap(),
                40_000,
                None
            )
        );
    }

    #[test]
    fn max_length_leaves_the_others_in_proportion() {
        let dataset = open_text("length,count\n3,1\n5,3\n9,96\n", "dnn:bert").unwrap();
        let shapes = draw(&dataset, 40_000, Some(5));
        let fives = shapes
            .iter()
            .filter(|shape| **shape == Shape::Tokens(5))
            .count();
        assert!(fives.abs_diff(30_000) < 350, "{fives}");
        let error = dataset
            .sample(1, Some(2), &mut random::sequence(1, 0, "shapes"))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "max_length = 2 leaves nothing of the dataset data.csv: its shortest shape has length 3"
        );
        let pairs = open_text("src_len,tgt_len,count\n2,9,5\n9,2,5\n4,5,1\n", "seq2seq").unwrap();
        assert!(
            draw(&pairs, 20, Some(5))
                .iter()
                .all(|shape| shape.to_string() == "seq2seq:4>5")
        );
        let trees = draw(
            &open("generator:treebank", "tree-lstm").unwrap(),
            50,
            Some(4),
        );
        assert!(trees.iter().all(|shape| cut_length(shape) <= 4));
    }

    #[test]
    fn trees_of_a_file_are_shared() {
        let dataset = open_text("2\t3 3 0\n1\t0\n\n2\t3 3 0\n2\t3 3 0\n", "tree-lstm").unwrap();
        assert_eq!(dataset.histogram(), [(1, 0.25), (3, 0.75)]);
        let Shapes::Table(rows) = &dataset.shapes else {
            panic!("a table")
        };
        for shape in draw(&dataset, 20, None).iter() {
            let Shape::Tree(drawn) = shape else {
                panic!("a tree")
            };
            assert!(
                rows.iter()
                    .any(|(row, _)| matches!(row, Shape::Tree(tree) if Arc::ptr_eq(tree, drawn)))
            );
        }
    }

    #[test]
    fn the_shipped_histograms_have_the_published_statistics() {
        let mean = |dataset: &Dataset| {
            dataset
                .histogram()
                .iter()
                .map(|(n, share)| f64::from(*n) * share)
                .sum::<f64>()
        };
        let english = open("traces/europarl-en.csv", "lstm").unwrap();
        assert!((mean(&english) - 24.6).abs() < 0.05);
        let short: f64 = english
            .histogram()
            .iter()
            .filter(|(n, _)| *n < 100)
            .map(|(_, share)| share)
            .sum();
        assert!((short - 0.9984).abs() < 0.00005);
        assert_eq!(english.histogram().last().unwrap().0, 148);
        let pairs = open("traces/europarl-de-en.csv", "seq2seq").unwrap();
        assert!((mean(&pairs) - 23.1).abs() < 0.05);
        let drawn = draw(&pairs, 100_000, None);
        let target = drawn.iter().map(|shape| match shape {
            Shape::Seq2Seq { target, .. } => f64::from(*target),
            _ => panic!("a pair"),
        });
        assert!((target.sum::<f64>() / 1e5 - 25.5).abs() < 0.25);
    }

    #[test]
    fn generators_draw_the_shapes_of_their_models() {
        for (name, model, kind) in [
            ("europarl-en", "lstm", "chain"),
            ("europarl-de", "dnn:bert", "tokens"),
            ("paper-lstm", "gru", "chain"),
            ("europarl-de-en", "seq2seq", "seq2seq"),
            ("treebank", "tree-lstm", "tree"),
        ] {
            let dataset = open(&format!("generator:{name}"), model).unwrap();
            let shapes = draw(&dataset, 100, None);
            assert!(shapes.iter().all(|shape| shape.kind() == kind));
            assert_eq!(
                shapes,
                draw(&dataset, 100, None),
                "the same seed draws the same shapes"
            );
            let total: f64 = dataset.histogram().iter().map(|(_, share)| share).sum();
            assert!((total - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_dataset_that_cannot_be_says_why() {
        for (spec, model, message) in [
            (
                "generator:wmt",
                "lstm",
                "generator:wmt: unknown generator \"wmt\"; known: europarl-en, europarl-de, europarl-de-en, paper-lstm, treebank, graphs, \
                 azure-conversation, sharegpt",
            ),
            (
                "generator:europarl-en",
                "seq2seq",
                "generator:europarl-en: draws single lengths, but the model seq2seq takes a CSV file with the header \
                 src_len,tgt_len,count, or constant:S>T, generator:europarl-de-en, azure-conversation or sharegpt",
            ),
            (
                "generator:treebank",
                "lstm",
                "generator:treebank: draws trees, but the model lstm takes a CSV file with the header length,count, a \
                 text with one sentence a line, or constant:N, generator:europarl-en, -de or paper-lstm",
            ),
            (
                "generator:europarl-de-en",
                "tree-lstm",
                "generator:europarl-de-en: draws pairs of lengths, but the model tree-lstm takes a file of trees (parents \
                 a line, PTB brackets or CoNLL-U), or complete-tree:N, generator:treebank",
            ),
            (
                "no/such.csv",
                "lstm",
                "no/such.csv: no such file; a dataset is a file, constant:SIZE (constant:fixed for requests without lengths), \
                 complete-tree:LEAVES or generator:NAME",
            ),
            (
                "constant:0",
                "lstm",
                "constant:0: bad shape \"chain:0\": \"0\" is not a whole number from 1 to 1073741824",
            ),
            (
                "constant:fixed",
                "lstm",
                "constant:fixed: the model lstm takes no fixed shapes; it takes: chain:N, tokens:N",
            ),
            (
                "constant:5",
                "tree-lstm",
                "constant:5: the model tree-lstm takes trees; write complete-tree:5 or constant:tree:PARENTS",
            ),
            (
                "complete-tree:0",
                "tree-lstm",
                "complete-tree:0: \"0\" is not a whole number of leaves from 1 to 1048576",
            ),
        ] {
            let error = open(spec, model).unwrap_err();
            assert_eq!(
                (error.to_string().as_str(), error.exit_code()),
                (message, 2)
            );
        }
        assert!(
            open("complete-tree:4", "lstm")
                .unwrap_err()
                .to_string()
                .contains("is a tree, but the model lstm takes")
        );
    }

    /// The variable names a folder with the public files, which are not in the repository, under `trees/`.
    #[test]
    fn the_public_trees_are_read() {
        let Some(folder) = env::var_os("BATCHLAB_DATA").map(PathBuf::from) else {
            println!("skipped: BATCHLAB_DATA is not set");
            return;
        };
        for (file, trees, nodes) in [
            ("sst_train.txt", 8_544.0, 318_582.0),
            ("sst_dev.txt", 1_101.0, 41_447.0),
            ("sick_train.txt", 9_000.0, 87_089.0),
            ("sick_test.txt", 9_854.0, 95_218.0),
        ] {
            let path = folder.join("trees").join(file);
            let dataset = Dataset::open(file, &Model::TreeLstm, &|_| path.clone()).unwrap();
            let Shapes::Table(rows) = &dataset.shapes else {
                panic!("a table")
            };
            assert_eq!(
                rows.iter().map(|(_, count)| count).sum::<f64>(),
                trees,
                "{file}"
            );
            assert_eq!(
                rows.iter()
                    .map(|(tree, count)| f64::from(tree.length()) * count)
                    .sum::<f64>(),
                nodes,
                "{file}"
            );
        }
    }
}
