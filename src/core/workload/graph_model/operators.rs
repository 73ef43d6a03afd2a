//! The operators of a cell, as listed in a graph model's file.

use serde::Deserialize;

use crate::core::workload::operator::{self, OperandSource, OperatorKind, RowRule, Sizes};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphOperator {
    pub name: String,
    pub kind: GraphOperatorKind,
    pub weight: Option<String>,
    pub bias: Option<String>,
    pub shape: Option<[u32; 2]>,
    /// The inputs: `word`, `state`, or earlier operators.
    #[serde(default)]
    pub inputs: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphOperatorKind {
    Affine,
    Matmul,
    Elementwise,
    Lookup,
    Concat,
    Slice,
    Sum,
}

pub(super) fn check(operators: &[GraphOperator], at: &str) -> Result<(), String> {
    for (place, operator) in operators.iter().enumerate() {
        let GraphOperator {
            name,
            kind,
            weight,
            bias,
            shape,
            inputs,
        } = operator;
        let at = format!("{at}.operators[{place}]");
        if name.is_empty() || ["word", "state"].contains(&name.as_str()) {
            return Err(format!(
                "{at}.name: \"{name}\" can't name an operator; word and state are inputs"
            ));
        }
        let before = operators[..place].iter().map(|other| other.name.as_str());
        let known: Vec<&str> = ["word", "state"].into_iter().chain(before).collect();
        if known.contains(&name.as_str()) {
            return Err(format!(
                "{at}.name: a second operator \"{name}\" in this cell"
            ));
        }
        if let Some(input) = inputs
            .iter()
            .position(|input| !known.contains(&input.as_str()))
        {
            return Err(format!(
                "{at}.inputs[{input}]: unknown input \"{}\"; known here: {}",
                inputs[input],
                known.join(", ")
            ));
        }
        let is_affine = *kind == GraphOperatorKind::Affine;
        let has_weights =
            is_affine || matches!(kind, GraphOperatorKind::Matmul | GraphOperatorKind::Lookup);
        let problem = match (weight, shape, bias) {
            (None, ..) if has_weights => {
                "weight: missing; an operator with weights has weight and shape"
            }
            (_, None, _) if has_weights => {
                "shape: missing; an operator with weights has weight and shape"
            }
            (Some(_), ..) if !has_weights => {
                "weight: only affine, matmul or lookup has one; remove it"
            }
            (_, Some([0, _] | [_, 0]), _) => "shape: must be [rows, columns], each at least 1",
            (.., None) if is_affine => "bias: missing; a product without one is of the kind matmul",
            (.., Some(_)) if !is_affine => "bias: only affine has one; remove it",
            _ => continue,
        };
        return Err(format!("{at}.{problem}"));
    }
    Ok(())
}

/// The operators of a cell. The file gives the shapes of operators with weights. Other widths follow from the
/// inputs: an elementwise result has that of the first, a concatenation the sum of all, and a slice by default that
/// of the hidden state.
pub(in crate::core::workload) fn operators(
    given: &[GraphOperator],
    sizes: &Sizes,
) -> Vec<operator::Operator> {
    let mut list: Vec<operator::Operator> = Vec::with_capacity(given.len());
    for GraphOperator {
        name,
        kind,
        weight,
        bias,
        shape,
        inputs,
    } in given
    {
        let inputs: Vec<OperandSource> = inputs
            .iter()
            .map(|name| operator::source(name, ["word", "state"], &list))
            .collect();
        let width = |input: &OperandSource| match input {
            OperandSource::Word => sizes.embedding,
            OperandSource::State => sizes.hidden,
            OperandSource::Operator(place) => list[usize::from(*place)].shape[0],
        };
        let first = inputs.first().map_or(sizes.hidden, width);
        let all = inputs.iter().map(width).sum::<u32>().max(1);
        let named = |name: &Option<String>| {
            name.clone()
                .expect("the file's operators have been checked")
        };
        let (kind, default) = match kind {
            GraphOperatorKind::Affine => (
                OperatorKind::Affine {
                    weight: named(weight),
                    bias: named(bias),
                },
                [first, all],
            ),
            GraphOperatorKind::Matmul => (
                OperatorKind::Matmul {
                    weight: named(weight),
                },
                [first, all],
            ),
            GraphOperatorKind::Lookup => (
                OperatorKind::Lookup {
                    table: named(weight),
                },
                [first, all],
            ),
            GraphOperatorKind::Elementwise => (
                OperatorKind::Elementwise {
                    function: name.clone(),
                },
                [first, all],
            ),
            GraphOperatorKind::Concat => (OperatorKind::Concat, [all, all]),
            GraphOperatorKind::Slice => (OperatorKind::Slice, [sizes.hidden; 2]),
            GraphOperatorKind::Sum => (OperatorKind::Sum, [first, all]),
        };
        let shape = match (&kind, shape) {
            (OperatorKind::Lookup { .. }, Some([rows, columns])) => [*columns, *rows],
            (_, shape) => shape.unwrap_or(default),
        };
        list.push(operator::Operator {
            name: name.clone(),
            kind,
            rows: RowRule::One,
            inputs,
            shape,
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_from_inputs() {
        let entry = |json: &str| serde_json::from_str::<GraphOperator>(json).expect("an operator");
        let given = [
            entry(
                r#"{"name": "row", "kind": "lookup", "weight": "E", "shape": [100, 5], "inputs": ["word"]}"#,
            ),
            entry(r#"{"name": "in", "kind": "concat", "inputs": ["row", "state"]}"#),
            entry(
                r#"{"name": "gates", "kind": "affine", "weight": "W", "bias": "b", "shape": [24, 11], "inputs": ["in"]}"#,
            ),
            entry(r#"{"name": "tanh", "kind": "elementwise", "inputs": ["gates"]}"#),
            entry(r#"{"name": "part", "kind": "slice", "inputs": ["tanh"]}"#),
            entry(r#"{"name": "sum", "kind": "sum", "inputs": ["part", "state"]}"#),
        ];
        let list = operators(
            &given,
            &Sizes {
                hidden: 6,
                embedding: 5,
                vocabulary: 100,
            },
        );
        let shapes: Vec<[u32; 2]> = list.iter().map(|operator| operator.shape).collect();
        assert_eq!(
            shapes,
            [[5, 100], [11, 11], [24, 11], [24, 24], [6, 6], [6, 12]]
        );
        assert_eq!(
            list[1].inputs,
            [OperandSource::Operator(0), OperandSource::State]
        );
        assert_eq!(
            list[2].kind,
            OperatorKind::Affine {
                weight: "W".into(),
                bias: "b".into()
            }
        );
    }
}
