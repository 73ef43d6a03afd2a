//! The operators of the built-in models: the CPU backend's equations in the form of DyNet's and MXNet's builders, with
//! one product for all gates, then a slice for each.
//!
//! `built_in.csv` lists them by cell. The inputs `WORD` and `STATE` are sources; other inputs are operators of the
//! cell. Widths are in hidden units (`h`), embeddings (`e`) and words of the vocabulary (`v`). The child-sum cell is
//! MXNet's symbolic form for K children: 22 + 2K operators. With the word, six weights and two states per child it has
//! 29 + 4K nodes; for one child the 33 of JIT dynamic batching (section 3).

use super::{OperandSource, Operator, OperatorKind, RowRule, Sizes, source};
use crate::core::workload::graph_model::{self, GraphCell};
use crate::core::workload::model::Model;

const TABLE: &str = include_str!("built_in.csv");

impl Model {
    /// The operators of each cell, in the order of the cell ids. A cell that lists no operators is opaque.
    pub fn operators(&self, sizes: &Sizes) -> Vec<Vec<Operator>> {
        let cells = |names: &[&str]| names.iter().map(|name| cell(name, sizes)).collect();
        match self {
            Model::Lstm => cells(&["lstm"]),
            Model::Gru => cells(&["gru"]),
            Model::Seq2Seq => cells(&["decoder", "encoder"]),
            Model::TreeLstm => cells(&["internal", "leaf"]),
            Model::ChildSumTreeLstm => cells(&["childsum internal", "childsum leaf"]),
            Model::ChildSumByArity(most) => cells(
                &[
                    &vec!["childsum internal"; *most as usize][..],
                    &["childsum leaf"],
                ]
                .concat(),
            ),
            Model::Graph(model) => model
                .cells
                .iter()
                .map(|cell| graph_operators(cell, sizes))
                .collect(),
            Model::Dnn(_) | Model::Network(_) | Model::Llm(_) => self
                .cell_types()
                .iter()
                .map(|cell| opaque(&cell.name, sizes))
                .collect(),
        }
    }
}

/// The operators of a graph model's cell.
fn graph_operators(cell: &GraphCell, sizes: &Sizes) -> Vec<Operator> {
    match &cell.operators[..] {
        [] => opaque(&cell.name, sizes),
        listed => graph_model::operators::operators(listed, sizes),
    }
}

/// The operators that the table lists for a cell.
fn cell(cell: &str, sizes: &Sizes) -> Vec<Operator> {
    let mut operators: Vec<Operator> = Vec::new();
    for line in TABLE
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|line| line[0] == cell)
    {
        let [_, name, kind, rows, inputs, width, inner] = line[..] else {
            panic!("{cell}: {line:?}")
        };
        let inputs = inputs
            .split(' ')
            .map(|input| source(input, ["WORD", "STATE"], &operators))
            .collect();
        let rows = match rows {
            "for-each" => RowRule::ForEach,
            "stacked" => RowRule::Stacked,
            _ => RowRule::One,
        };
        let shape = [width, inner].map(|text| text.split('+').map(|part| sizes.size(part)).sum());
        operators.push(Operator {
            name: name.into(),
            kind: self::kind(kind),
            rows,
            inputs,
            shape,
        });
    }
    operators
}

fn kind(text: &str) -> OperatorKind {
    match text.split_once(' ') {
        Some(("affine", name)) => OperatorKind::Affine {
            weight: format!("{name}.weight"),
            bias: format!("{name}.bias"),
        },
        Some((_, table)) => OperatorKind::Lookup {
            table: table.into(),
        },
        None if text == "sum" => OperatorKind::Sum,
        None if text == "slice" => OperatorKind::Slice,
        None if text == "concat" => OperatorKind::Concat,
        None => OperatorKind::Elementwise {
            function: text.into(),
        },
    }
}

impl Sizes {
    /// The width of a text such as `h`, `4h` or a plain number.
    pub(crate) fn size(&self, text: &str) -> u32 {
        let number = text.trim_end_matches(['h', 'e', 'v']);
        let unit = match &text[number.len()..] {
            "h" => self.hidden,
            "e" => self.embedding,
            "v" => self.vocabulary,
            _ => 1,
        };
        unit * if number.is_empty() {
            1
        } else {
            number.parse().expect("the table has whole numbers")
        }
    }
}

fn opaque(name: &str, sizes: &Sizes) -> Vec<Operator> {
    let shape = [sizes.hidden, sizes.embedding];
    vec![Operator {
        name: name.into(),
        kind: OperatorKind::Opaque,
        rows: RowRule::One,
        inputs: vec![OperandSource::Word],
        shape,
    }]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn models() -> impl Iterator<Item = Model> {
        [
            "lstm",
            "gru",
            "seq2seq",
            "tree-lstm",
            "childsum-tree-lstm",
            "dnn:net",
        ]
        .into_iter()
        .map(|name| Model::parse(name).unwrap())
    }

    fn parameters(operator: &Operator) -> Vec<&str> {
        match &operator.kind {
            OperatorKind::Affine { weight, bias } => vec![weight, bias],
            OperatorKind::Lookup { table: name } | OperatorKind::Matmul { weight: name } => {
                vec![name]
            }
            _ => Vec::new(),
        }
    }

    fn count(operators: &[Operator], before: u32) -> u32 {
        operators
            .iter()
            .map(|operator| operator.copies(before))
            .sum()
    }

    #[test]
    fn every_cell_has_a_list_whose_inputs_stand_before_those_who_take_them() {
        for model in models() {
            let lists = model.operators(&Sizes::square(8));
            assert_eq!(lists.len(), model.cell_types().len());
            for list in lists {
                let names: BTreeSet<&str> =
                    list.iter().map(|operator| operator.name.as_str()).collect();
                assert_eq!(names.len(), list.len(), "{model:?}");
                for (place, operator) in list.iter().enumerate() {
                    assert!(!operator.inputs.is_empty());
                    for input in &operator.inputs {
                        assert!(
                            !matches!(input, OperandSource::Operator(earlier) if *earlier as usize >= place)
                        );
                    }
                }
                let taken: BTreeSet<u16> = list
                    .iter()
                    .flat_map(|operator| &operator.inputs)
                    .filter_map(|input| match input {
                        OperandSource::Operator(earlier) => Some(*earlier),
                        _ => None,
                    })
                    .collect();
                assert_eq!(taken.len(), list.len() - 1, "{model:?}");
            }
        }
    }

    #[test]
    fn the_child_sum_cell_has_the_operators_and_the_graph_nodes_of_mxnets() {
        let lists = Model::ChildSumTreeLstm.operators(&Sizes::square(150));
        for children in 1..=9 {
            assert_eq!(count(&lists[0], children), 22 + 2 * children);
        }
        let weights: BTreeSet<&str> = lists[0].iter().flat_map(parameters).collect();
        assert_eq!(weights.len(), 6);
        assert_eq!(lists[0][0].signature(3), lists[1][0].signature(0));
    }

    #[test]
    fn other_cells_have_the_operators_of_their_equations() {
        let counts = |model: Model| {
            model
                .operators(&Sizes::square(4))
                .iter()
                .map(|list| count(list, 2))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(Model::Lstm), [15]);
        assert_eq!(counts(Model::Gru), [12]);
        assert_eq!(counts(Model::Seq2Seq), [17, 15]);
        assert_eq!(counts(Model::TreeLstm), [17, 11]);
        assert_eq!(counts(Model::Dnn("net".into())), [1]);
    }

    #[test]
    fn shapes_follow_from_the_sizes() {
        let sizes = Sizes {
            hidden: 4,
            embedding: 3,
            vocabulary: 50,
        };
        let shape = |model: &Model, cell: usize, name: &str| {
            let lists = model.operators(&sizes);
            lists[cell]
                .iter()
                .find(|operator| operator.name == name)
                .unwrap()
                .shape
        };
        assert_eq!(shape(&Model::Lstm, 0, "gates"), [16, 7]);
        assert_eq!(shape(&Model::Seq2Seq, 0, "scores"), [50, 4]);
        assert_eq!(shape(&Model::TreeLstm, 0, "gates"), [20, 8]);
        assert_eq!(shape(&Model::TreeLstm, 1, "gates"), [12, 3]);
        assert_eq!(shape(&Model::ChildSumTreeLstm, 0, "word"), [16, 3]);
        assert_eq!(shape(&Model::Lstm, 0, "lookup"), [3, 50]);
    }
}
