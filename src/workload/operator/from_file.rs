//! The operators of graph models.
//!
//! The file gives the shapes of operators with weights. Other widths follow from the inputs: an elementwise result is
//! as wide as its first input, a concatenation as all of them, a slice by default as the hidden state.

use super::{Kind, Operator, Rows, Sizes, Source};
use crate::workload::graph_model::{self, GraphModel, OperatorKind};

/// The operators of each cell, by cell id. A cell without any is opaque.
pub(super) fn operators(model: &GraphModel, sizes: &Sizes) -> Vec<Vec<Operator>> {
    let of_cell = |cell: &graph_model::Cell| match cell.operators.is_empty() {
        true => vec![Operator {
            name: cell.name.clone(),
            kind: Kind::Opaque,
            rows: Rows::One,
            inputs: vec![Source::Word],
            shape: [sizes.hidden, sizes.embedding],
        }],
        false => list(&cell.operators, sizes),
    };
    model.cells().iter().map(of_cell).collect()
}

fn list(given: &[graph_model::Operator], sizes: &Sizes) -> Vec<Operator> {
    let mut list: Vec<Operator> = Vec::with_capacity(given.len());
    for operator in given {
        let source = |name: &String| match name.as_str() {
            "word" => Source::Word,
            "state" => Source::State,
            earlier => {
                let place = given.iter().position(|other| other.name == earlier);
                Source::Operator(place.expect("the file's names have been checked") as u16)
            }
        };
        let inputs: Vec<Source> = operator.inputs.iter().map(source).collect();
        let width = |input: &Source| match input {
            Source::Word => sizes.embedding,
            Source::State => sizes.hidden,
            Source::Operator(place) => list[usize::from(*place)].shape[0],
        };
        let first = inputs.first().map_or(sizes.hidden, width);
        let all = inputs.iter().map(width).sum::<u32>().max(1);
        let weight = || operator.weight.clone().expect("what has weights names them");
        let (kind, default) = match operator.kind {
            OperatorKind::Affine => {
                let bias = operator.bias.clone().unwrap_or_else(|| format!("{}.bias", weight()));
                (Kind::Affine { weight: weight(), bias }, [first, all])
            }
            OperatorKind::Matmul => (Kind::Matmul { weight: weight() }, [first, all]),
            OperatorKind::Lookup => (Kind::Lookup { table: weight() }, [first, all]),
            OperatorKind::Elementwise => (Kind::Elementwise { function: operator.name.clone() }, [first, all]),
            OperatorKind::Concat => (Kind::Concat, [all, all]),
            OperatorKind::Slice => (Kind::Slice, [sizes.hidden; 2]),
            OperatorKind::Sum => (Kind::Sum, [first, all]),
        };
        let shape = match (&kind, operator.shape) {
            // A table has a row for each word and gives one of them.
            (Kind::Lookup { .. }, Some([rows, columns])) => [columns, rows],
            (_, shape) => shape.unwrap_or(default),
        };
        list.push(Operator { name: operator.name.clone(), kind, rows: Rows::One, inputs, shape });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_from_inputs() {
        let entry = |json: &str| serde_json::from_str::<graph_model::Operator>(json).expect("an operator");
        let given = [
            entry(r#"{"name": "row", "kind": "lookup", "weight": "E", "shape": [100, 5], "inputs": ["word"]}"#),
            entry(r#"{"name": "in", "kind": "concat", "inputs": ["row", "state"]}"#),
            entry(
                r#"{"name": "gates", "kind": "affine", "weight": "W", "bias": "b", "shape": [24, 11], "inputs": ["in"]}"#,
            ),
            entry(r#"{"name": "tanh", "kind": "elementwise", "inputs": ["gates"]}"#),
            entry(r#"{"name": "part", "kind": "slice", "inputs": ["tanh"]}"#),
            entry(r#"{"name": "sum", "kind": "sum", "inputs": ["part", "state"]}"#),
        ];
        let list = list(&given, &Sizes { hidden: 6, embedding: 5, vocabulary: 100 });
        let shapes: Vec<[u32; 2]> = list.iter().map(|operator| operator.shape).collect();
        assert_eq!(shapes, [[5, 100], [11, 11], [24, 11], [24, 24], [6, 6], [6, 12]]);
        assert_eq!(list[1].inputs, [Source::Operator(0), Source::State]);
        assert_eq!(list[2].kind, Kind::Affine { weight: "W".into(), bias: "b".into() });
    }
}
