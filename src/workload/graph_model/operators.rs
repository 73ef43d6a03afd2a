//! The operators of a cell, as listed in a graph model's file.

use serde::Deserialize;

use super::{Cell, GraphModel};
use crate::workload::operator::{self, Kind, Rows, Sizes, Source};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    pub name: String,
    pub kind: OperatorKind,
    pub weight: Option<String>,
    pub bias: Option<String>,
    pub shape: Option<[u32; 2]>,
    /// `word`, `state`, or earlier operators.
    #[serde(default)]
    pub inputs: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperatorKind {
    Affine,
    Matmul,
    Elementwise,
    Lookup,
    Concat,
    Slice,
    Sum,
}

impl OperatorKind {
    fn has_weights(self) -> bool {
        matches!(self, OperatorKind::Affine | OperatorKind::Matmul | OperatorKind::Lookup)
    }
}

pub(super) fn check(operators: &[Operator], at: &str) -> Result<(), String> {
    for (place, operator) in operators.iter().enumerate() {
        let at = format!("{at}.operators[{place}]");
        let before = || operators[..place].iter().map(|other| other.name.as_str());
        if operator.name.is_empty() || ["word", "state"].contains(&operator.name.as_str()) {
            return Err(format!("{at}.name: \"{}\" can't name an operator; word and state are inputs", operator.name));
        }
        if before().any(|name| name == operator.name) {
            return Err(format!("{at}.name: a second operator \"{}\" in this cell", operator.name));
        }
        let known: Vec<&str> = ["word", "state"].into_iter().chain(before()).collect();
        if let Some((input, unknown)) =
            operator.inputs.iter().enumerate().find(|(_, input)| !known.contains(&input.as_str()))
        {
            return Err(format!("{at}.inputs[{input}]: unknown input \"{unknown}\"; known here: {}", known.join(", ")));
        }
        let needs = |key: &str| format!("{at}.{key}: missing; an operator with weights has weight and shape");
        let spare = |key: &str, who: &str| format!("{at}.{key}: only {who} has one; remove it");
        match (operator.kind.has_weights(), &operator.weight, operator.shape) {
            (true, None, _) => return Err(needs("weight")),
            (true, _, None) => return Err(needs("shape")),
            (false, Some(_), _) => return Err(spare("weight", "affine, matmul or lookup")),
            (_, _, Some([0, _] | [_, 0])) => {
                return Err(format!("{at}.shape: must be [rows, columns], each at least 1"));
            }
            _ => {}
        }
        match (operator.kind, &operator.bias) {
            (OperatorKind::Affine, None) => {
                return Err(format!("{at}.bias: missing; a product without one is of the kind matmul"));
            }
            (OperatorKind::Affine, Some(_)) | (_, None) => {}
            (_, Some(_)) => return Err(spare("bias", "affine")),
        }
    }
    Ok(())
}

/// By cell id; a cell without any is opaque.
///
/// The file gives shapes of operators with weights. Other widths follow from the inputs: an elementwise result has that
/// of the first, a concatenation of all, a slice by default of the hidden state.
pub(in crate::workload) fn operators(model: &GraphModel, sizes: &Sizes) -> Vec<Vec<operator::Operator>> {
    let of_cell = |cell: &Cell| match cell.operators.is_empty() {
        true => vec![operator::Operator {
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

fn list(given: &[Operator], sizes: &Sizes) -> Vec<operator::Operator> {
    let mut list: Vec<operator::Operator> = Vec::with_capacity(given.len());
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
            (Kind::Lookup { .. }, Some([rows, columns])) => [columns, rows],
            (_, shape) => shape.unwrap_or(default),
        };
        list.push(operator::Operator { name: operator.name.clone(), kind, rows: Rows::One, inputs, shape });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_from_inputs() {
        let entry = |json: &str| serde_json::from_str::<Operator>(json).expect("an operator");
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
