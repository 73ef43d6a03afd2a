//! Operators: the parts of a cell (a product, an elementwise function, a slice), for systems that batch below cells
//! (DyNet, JIT dynamic batching).

mod built_in;
pub mod catalogue;

/// An operator of a cell. The last one of a cell's list gives its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub name: String,
    pub kind: OperatorKind,
    pub rows: RowRule,
    pub inputs: Vec<OperandSource>,
    /// The width of an output row, and of all inputs; for [`OperatorKind::Lookup`] the second is the table's rows.
    pub shape: [u32; 2],
}

/// What an operator computes. Equal names of weights, also in two cells, mean the same weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperatorKind {
    Matmul {
        weight: String,
    },
    Affine {
        weight: String,
        bias: String,
    },
    /// A function of each element: `sigmoid`, `tanh`, `product`, …
    Elementwise {
        function: String,
    },
    /// The sum of its inputs by element, or of its input's rows.
    Sum,
    Lookup {
        table: String,
    },
    Concat,
    Slice,
    /// A network with unknown operators, which can't be batched.
    Opaque,
}

/// How often an operator runs at a node, and over how many matrix rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowRule {
    /// It runs once, over one row.
    One,
    /// It runs once for each preceding cell (child), over one row each.
    ForEach,
    /// It runs once, over a row for each preceding cell.
    Stacked,
}

/// An input of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandSource {
    /// An earlier operator, by its place in the list. A [`RowRule::ForEach`] operator takes the output for the same
    /// preceding cell; others take all.
    Operator(u16),
    Word,
    /// The state of one preceding cell for [`RowRule::ForEach`], and otherwise the states of all.
    State,
}

/// The widths of a model's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub hidden: u32,
    pub embedding: u32,
    pub vocabulary: u32,
}

impl Sizes {
    /// The largest width: wider layers take tens of gigabytes.
    pub const MAX_WIDTH: u32 = 1 << 16;
    /// The largest vocabulary: a decoder keeps its word as a float32, which is exact up to this number.
    pub const MAX_VOCABULARY: u32 = 1 << 24;

    /// The sizes of a hidden state and embeddings of one width, with the 30,000 words of BatchMaker's decoder.
    pub fn square(hidden: u32) -> Sizes {
        Sizes {
            hidden,
            embedding: hidden,
            vocabulary: 30_000,
        }
    }
}

/// An input by its name: a word, a state, or one of the operators before.
///
/// # Panics
/// The name is none of these.
pub(super) fn source(name: &str, [word, state]: [&str; 2], before: &[Operator]) -> OperandSource {
    match before.iter().position(|operator| operator.name == name) {
        _ if name == word => OperandSource::Word,
        _ if name == state => OperandSource::State,
        place => {
            OperandSource::Operator(place.expect("inputs stand before those who take them") as u16)
        }
    }
}

/// Operators with equal signatures can run as one in DyNet (Neubig, Goldberg and Dyer, 2017).
///
/// Products must have the same weights and input size; sums and elementwise functions only the same type. Slices and
/// concatenations depend on sizes, and a slice on its position, for which its name stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signature {
    kind: OperatorKind,
    sizes: Option<(String, [u32; 2], u32)>,
}

impl Operator {
    /// The signature at a node with `before` preceding cells; `None` if DyNet can't batch the operator.
    pub fn signature(&self, before: u32) -> Option<Signature> {
        let sizes = match self.kind {
            OperatorKind::Opaque => return None,
            OperatorKind::Sum | OperatorKind::Elementwise { .. } => None,
            OperatorKind::Slice => Some((self.name.clone(), self.shape, self.layout(before))),
            OperatorKind::Matmul { .. }
            | OperatorKind::Affine { .. }
            | OperatorKind::Lookup { .. }
            | OperatorKind::Concat => Some((String::new(), self.shape, self.layout(before))),
        };
        Some(Signature {
            kind: self.kind.clone(),
            sizes,
        })
    }

    /// The number of preceding cells if the operator takes something of all, otherwise 1 (JIT dynamic batching, section
    /// 4.2).
    pub fn layout(&self, before: u32) -> u32 {
        let all_states = self.rows == RowRule::One && self.inputs.contains(&OperandSource::State);
        if all_states || self.rows == RowRule::Stacked {
            before
        } else {
            1
        }
    }

    /// How often the operator runs at a node with `before` preceding cells.
    pub fn copies(&self, before: u32) -> u32 {
        if self.rows == RowRule::ForEach {
            before
        } else {
            1
        }
    }

    /// The rows of each run at a node with `before` preceding cells.
    pub fn rows(&self, before: u32) -> u32 {
        if self.rows == RowRule::Stacked {
            before
        } else {
            1
        }
    }
}

/// The kernels of some operators: a product with a bias becomes a product and an addition (JIT dynamic batching,
/// section 4.1).
pub fn kernels(operators: &[Operator]) -> Vec<Operator> {
    let mut kernels: Vec<Operator> = Vec::with_capacity(2 * operators.len());
    let mut place = Vec::with_capacity(operators.len());
    for operator in operators {
        let inputs = operator.inputs.iter().map(|source| match source {
            OperandSource::Operator(earlier) => OperandSource::Operator(place[*earlier as usize]),
            other => *other,
        });
        let mut kernel = Operator {
            inputs: inputs.collect(),
            ..operator.clone()
        };
        if let OperatorKind::Affine { weight, bias } = &operator.kind {
            kernel.name = format!("{}.product", operator.name);
            kernel.kind = OperatorKind::Matmul {
                weight: weight.clone(),
            };
            kernels.push(kernel);
            kernel = Operator {
                name: format!("{}.bias", operator.name),
                kind: OperatorKind::Elementwise {
                    function: format!("add {bias}"),
                },
                rows: operator.rows,
                inputs: vec![OperandSource::Operator(kernels.len() as u16 - 1)],
                shape: [operator.shape[0]; 2],
            };
        }
        place.push(kernels.len() as u16);
        kernels.push(kernel);
    }
    kernels
}

/// The depths of a cell's operators in a request's graph of operators, given the depth of the preceding states: the
/// larger of the distance from the word, and the states' depth plus the distance from them. So a batch can be counted
/// by cells of equal depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths {
    /// The edges to each operator from one without operators as inputs, and from a state; `None` without a path.
    edges: Vec<[Option<u32>; 2]>,
}

impl Depths {
    pub fn from_operators(list: &[Operator]) -> Depths {
        let mut edges: Vec<[Option<u32>; 2]> = Vec::with_capacity(list.len());
        for operator in list {
            let inputs = operator.inputs.iter().map(|source| match source {
                OperandSource::Word => [Some(0), None],
                OperandSource::State => [Some(0), Some(1)],
                OperandSource::Operator(earlier) => {
                    edges[*earlier as usize].map(|edges| edges.map(|edges| edges + 1))
                }
            });
            let longest = inputs.fold([Some(0), None], |[word, state], input| {
                [word.max(input[0]), state.max(input[1])]
            });
            edges.push(longest);
        }
        Depths { edges }
    }

    /// The depth of an operator. `states` is the depth of the operator that gives the deepest preceding state (for
    /// [`RowRule::ForEach`] that of its cell), or `None` without preceding cells.
    pub fn depth(&self, operator: usize, states: Option<u32>) -> u32 {
        let [from_word, from_state] = self.edges[operator];
        from_word
            .max(states.zip(from_state).map(|(depth, edges)| depth + edges))
            .unwrap_or(0)
    }

    /// The depth of the operator that gives the cell's state.
    pub fn state(&self, states: Option<u32>) -> u32 {
        self.depth(self.edges.len() - 1, states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;

    fn operator(kind: OperatorKind, rows: RowRule, inputs: &[OperandSource]) -> Operator {
        Operator {
            name: "o".into(),
            kind,
            rows,
            inputs: inputs.to_vec(),
            shape: [4, 8],
        }
    }

    fn affine(weight: &str) -> OperatorKind {
        OperatorKind::Affine {
            weight: weight.into(),
            bias: "b".into(),
        }
    }

    #[test]
    fn products_are_told_apart_by_weights_and_sizes_and_functions_by_their_type() {
        let one = |kind| operator(kind, RowRule::One, &[OperandSource::Word]);
        let narrow = Operator {
            shape: [4, 7],
            ..one(affine("w"))
        };
        assert_eq!(one(affine("w")).signature(1), one(affine("w")).signature(3));
        assert_ne!(one(affine("w")).signature(1), one(affine("v")).signature(1));
        assert_ne!(one(affine("w")).signature(1), narrow.signature(1));
        assert_ne!(
            one(affine("w")).signature(1),
            one(OperatorKind::Matmul { weight: "w".into() }).signature(1)
        );
        let function = |function: &str| OperatorKind::Elementwise {
            function: function.into(),
        };
        let wide = Operator {
            shape: [9, 9],
            name: "p".into(),
            ..one(function("tanh"))
        };
        assert_eq!(one(function("tanh")).signature(1), wide.signature(1));
        assert_ne!(
            one(function("tanh")).signature(1),
            one(function("sigmoid")).signature(1)
        );
        assert_eq!(
            one(OperatorKind::Sum).signature(1),
            operator(OperatorKind::Sum, RowRule::Stacked, &[]).signature(5)
        );
        assert_ne!(
            one(OperatorKind::Slice).signature(1),
            Operator {
                name: "p".into(),
                ..one(OperatorKind::Slice)
            }
            .signature(1)
        );
        assert_eq!(one(OperatorKind::Opaque).signature(1), None);
    }

    #[test]
    fn what_takes_something_of_all_children_has_a_layout_by_their_number() {
        for (rows, source, layout) in [
            (RowRule::One, OperandSource::State, 3),
            (RowRule::One, OperandSource::Word, 1),
            (RowRule::Stacked, OperandSource::Operator(0), 3),
            (RowRule::ForEach, OperandSource::State, 1),
        ] {
            let operator = operator(affine("w"), rows, &[source]);
            assert_eq!(operator.layout(3), layout, "{operator:?}");
            assert_eq!(operator.signature(3) == operator.signature(2), layout == 1);
        }
    }

    #[test]
    fn a_product_with_a_bias_is_two_kernels() {
        let tanh = OperatorKind::Elementwise {
            function: "tanh".into(),
        };
        let list = [
            operator(affine("w"), RowRule::One, &[OperandSource::Word]),
            operator(tanh, RowRule::One, &[OperandSource::Operator(0)]),
        ];
        let kernels = kernels(&list);
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["o.product", "o.bias", "o"]);
        assert_eq!(kernels[1].inputs, [OperandSource::Operator(0)]);
        assert_eq!(kernels[2].inputs, [OperandSource::Operator(1)]);
    }

    #[test]
    fn a_step_of_an_lstm_stands_behind_the_state_before() {
        let list = &Model::Lstm.operators(&Sizes::square(4))[0];
        let depths = Depths::from_operators(list);
        let place = |name: &str| {
            list.iter()
                .position(|operator| operator.name == name)
                .unwrap()
        };
        let at = |name, states| depths.depth(place(name), states);
        // Lookup 0, gates 1, slices 2, functions 3, products 4, c 5, its tanh 6, h 7.
        assert_eq!(
            [
                "lookup", "gates", "f.slice", "f", "kept", "c", "c.tanh", "h"
            ]
            .map(|name| at(name, None)),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!(
            ["lookup", "gates", "kept", "h"].map(|name| at(name, Some(7))),
            [0, 8, 11, 14]
        );
        assert_eq!(depths.state(Some(7)), 14);
        let takes_state = |name: &str| depths.edges[place(name)][1].is_some();
        assert!(!takes_state("lookup") && takes_state("i"));
    }

    #[test]
    fn a_way_from_the_word_can_be_longer_than_one_from_the_state() {
        let list = &Model::Gru.operators(&Sizes::square(4))[0];
        let depths = Depths::from_operators(list);
        // lookup 0, gate 1, sigmoid 2, reset 3, n 4, tanh 5, new 6, h 7 without a state.
        assert_eq!(depths.state(None), 7);
        assert_eq!(
            depths.state(Some(0)),
            7,
            "an initial state is there at depth 0, as the looked-up word is"
        );
        assert_eq!(depths.state(Some(7)), 14);
    }
}
