//! The operators of a cell, as listed in a graph model's file.

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Later operators of the cell refer to it.
    pub name: String,
    pub kind: OperatorKind,
    /// The name of its weights, which operators may share.
    pub weight: Option<String>,
    /// The name of its bias.
    pub bias: Option<String>,
    /// The rows and columns of the weights.
    pub shape: Option<[u32; 2]>,
    /// `word`, `state`, or the names of earlier operators.
    #[serde(default)]
    pub inputs: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperatorKind {
    /// A product with weights, plus a bias.
    Affine,
    /// A product with weights.
    Matmul,
    /// A function of each number of its inputs.
    Elementwise,
    /// A row of a table of weights.
    Lookup,
    /// The concatenation of its inputs.
    Concat,
    /// A part of its input.
    Slice,
    /// The sum of its inputs.
    Sum,
}

impl OperatorKind {
    fn has_weights(self) -> bool {
        matches!(self, OperatorKind::Affine | OperatorKind::Matmul | OperatorKind::Lookup)
    }
}

/// Checks that each operator has the keys of its kind and that its inputs exist; `at` is the place of the cell.
pub(super) fn check(operators: &[Operator], at: &str) -> Result<(), String> {
    for (place, operator) in operators.iter().enumerate() {
        let at = format!("{at}.operators[{place}]");
        let before = || operators[..place].iter().map(|other| other.name.as_str());
        if operator.name.is_empty() || ["word", "state"].contains(&operator.name.as_str()) {
            return Err(format!(
                "{at}.name: \"{}\" is no name of an operator; word and state are inputs",
                operator.name
            ));
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
