//! The execution of cells operator by operator, for policies that batch below cells. The operators are those of
//! [`Model::operators`](crate::core::workload::model::Model::operators); a launch runs one of them for many nodes.
//!
//! The results equal those of the cells bit for bit. So a sigmoid is kept as its reciprocal and a tanh as a fraction,
//! and the product that takes them divides once, as a cell does.

use std::sync::Arc;

use rten_simd::Isa;
use rten_simd::ops::{FloatOps, NumOps};

use super::cells::Affine;
use super::cells::gated::CHILDREN;
use super::elementwise::{Formula, apply, one_and_exp_of_negative, tanh_fraction};
pub use super::product::MatrixRows as Left;
use super::weights::Weights;
use super::{NetworkCell, Spec};
use crate::base::error::{Error, Result};
use crate::core::workload::model::Model;
use crate::core::workload::operator::catalogue::{Catalogue, OperatorList};
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule};

/// The cells of a network as programs of operators, with the weights that they use.
#[derive(Debug)]
pub struct OperatorPrograms {
    /// The width of a hidden state.
    pub hidden: usize,
    /// The program of each cell type, with biases in their products.
    operators: Vec<CellProgram>,
    /// The same programs, with each bias as an operator of its own.
    kernels: Vec<CellProgram>,
    products: Vec<Stacked>,
    /// The embeddings, table after table.
    pub vectors: Vec<f32>,
    embedding: usize,
    vocabulary: u32,
}

/// A cell's operators, in the order of its list.
#[derive(Debug)]
pub struct CellProgram {
    pub operators: Vec<Op>,
    /// The operators whose outputs are h, c and the word of the new state.
    pub state: [Option<u16>; 3],
}

/// An operator of a cell, ready to run.
#[derive(Debug)]
pub struct Op {
    pub rows: RowRule,
    pub inputs: Vec<OperatorInput>,
    /// The width of a row of the output, in numbers.
    pub width: usize,
    /// The width of a left row, in numbers, if the operator is a product.
    pub inner: usize,
    pub action: OperatorAction,
    /// The number of operators before this one that run once, and of those that run for each input cell.
    before: [u32; 2],
}

/// An input of an operator.
#[derive(Clone, Copy, Debug)]
pub struct OperatorInput {
    pub from: InputOrigin,
    /// The column of the source at which a row of the input begins.
    pub column: usize,
    /// The distance from this column to that of the operator's next copy.
    pub step: usize,
    pub width: usize,
    /// The smallest number of rows. Missing rows are zeros.
    pub least: usize,
}

/// The source of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputOrigin {
    /// The embedding of the node's word.
    Word,
    /// A part of the input cells' states: h, c or the word.
    State(usize),
    /// An earlier operator of the cell.
    Operator(u16),
}

/// What an operator computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    /// A product by its index, and whether its bias is added.
    Product(usize, bool),
    /// The addition of a product's bias.
    Bias(usize),
    Sigmoid,
    Tanh,
    /// The product of a sigmoid and a tanh, or of a sigmoid and plain numbers.
    Times,
    Sum,
    Copy,
    /// The embedding of a word that the decoder has written.
    Lookup,
    /// The word with the largest score.
    Largest,
}

/// The products that a list of operators calls by one name. Their results are side by side.
#[derive(Debug)]
struct Stacked {
    products: Vec<Arc<Affine>>,
    /// The biases of all products, or nothing if the cell has no bias here.
    bias: Vec<f32>,
}

/// The rows that an operator reads from one input.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    pub data: &'a [f32],
    /// The distance from one row to the next in `data`.
    pub stride: usize,
    /// The number of rows for each row of the output.
    pub each: usize,
}

impl OperatorPrograms {
    /// Makes the programs with the weights of the model's cells. Fails if the cells have no operators.
    pub fn new(
        model: &Model,
        spec: &Spec,
        cells: &[Arc<dyn NetworkCell>],
    ) -> Result<OperatorPrograms> {
        let mut products: Vec<Stacked> = Vec::new();
        for cell in cells {
            // Cells that share their weights have products of the same names.
            let mut own: Vec<Arc<Affine>> = Vec::new();
            for affine in cell.affines() {
                if products.iter().all(|known| !known.is_named(affine.name)) {
                    own.push(Arc::clone(affine));
                }
            }
            for group in own.chunk_by(|a, b| a.name == b.name) {
                products.push(Stacked::new(group));
            }
        }
        if products.is_empty() {
            return Err(Error::input(format!(
                "model: the CPU computes {} in whole cells only; operator by operator it has lstm, seq2seq, tree-lstm and \
                 childsum-tree-lstm",
                model.name()
            )));
        }
        let catalogue = Catalogue::new(model, &spec.sizes());
        let least = if *model == Model::TreeLstm {
            CHILDREN
        } else {
            0
        };
        let operators = programs(&catalogue.operators, &products, spec, least);
        let kernels = programs(&catalogue.kernels, &products, spec, least);
        let weights = Weights::open(model, spec)?;
        let mut vectors = weights.take("embedding.weight");
        if *model == Model::Seq2Seq {
            vectors.extend(weights.take("decoder.embedding"));
        }
        let hidden = spec.hidden as usize;
        let embedding = spec.embedding as usize;
        Ok(OperatorPrograms {
            hidden,
            operators,
            kernels,
            products,
            vectors,
            embedding,
            vocabulary: spec.vocabulary,
        })
    }

    /// The program of each cell type. With `kernels`, a bias is an operator of its own.
    pub fn programs(&self, kernels: bool) -> &[CellProgram] {
        if kernels {
            &self.kernels
        } else {
            &self.operators
        }
    }

    /// The beginning of a word's embedding.
    pub fn vector(&self, word: u32) -> usize {
        word as usize * self.embedding
    }

    /// Writes `rows` rows of a launch's product to `out`.
    pub fn multiply(&self, op: &Op, left: Left<'_>, out: &mut [f32], memory: &mut Vec<f32>) {
        let OperatorAction::Product(place, with_bias) = op.action else {
            return;
        };
        let Stacked { products, bias } = &self.products[place];
        let mut begin = 0;
        for affine in products {
            for panel in &affine.product.panels {
                let units = panel.units();
                let wide = panel.units().len();
                let sums = panel
                    .multiply(left, memory)
                    .chunks_exact(affine.gates * wide);
                for (sums, out) in sums.zip(out.chunks_exact_mut(op.width)) {
                    let gates = out[begin..].chunks_exact_mut(affine.units());
                    sums.chunks_exact(wide)
                        .zip(gates)
                        .for_each(|(sums, out)| out[units.clone()].copy_from_slice(sums));
                }
            }
            begin += affine.gates * affine.units();
        }
        if with_bias {
            out.chunks_exact_mut(op.width)
                .for_each(|out| add(out, bias));
        }
    }

    /// Runs an operator that computes no product of matrices. All rows of the output have the same number of input
    /// rows.
    pub fn run(&self, op: &Op, operands: &[Operand<'_>], out: &mut [f32]) {
        let width = op.inputs.first().map_or(0, |input| input.width);
        // The row of an input for a row of the output, where each input has one.
        let row = |number: usize, row: usize| {
            let Operand { data, stride, .. } = operands[number];
            &data[row * stride..][..op.inputs[number].width]
        };
        for (place, out) in out.chunks_exact_mut(op.width).enumerate() {
            match op.action {
                OperatorAction::Sigmoid => apply(Reciprocal, [row(0, place)], [out]),
                OperatorAction::Tanh => {
                    let (above, below) = out.split_at_mut(width);
                    apply(Fraction, [row(0, place)], [above, below]);
                }
                OperatorAction::Times if op.inputs[1].width == op.width => {
                    apply(GateTimes, [row(0, place), row(1, place)], [out])
                }
                OperatorAction::Times => {
                    let (above, below) = row(1, place).split_at(op.width);
                    apply(TimesTanh, [row(0, place), above, below], [out]);
                }
                OperatorAction::Bias(product) => {
                    out.copy_from_slice(row(0, place));
                    add(out, &self.products[product].bias);
                }
                OperatorAction::Sum => {
                    let mut rows = operands.iter().enumerate().flat_map(|(input, operand)| {
                        (place * operand.each..(place + 1) * operand.each)
                            .map(move |at| row(input, at))
                    });
                    match operands {
                        // A cell begins the sum of its children's rows with zeros.
                        [_] => out.fill(0.0),
                        _ => out.copy_from_slice(rows.next().expect("a sum has operands")),
                    }
                    rows.for_each(|row| add(out, row));
                }
                OperatorAction::Lookup => {
                    let from = self.vector(self.vocabulary + row(0, place)[0] as u32);
                    out.copy_from_slice(&self.vectors[from..from + op.width]);
                }
                OperatorAction::Largest => out[0] = largest(row(0, place)),
                OperatorAction::Copy | OperatorAction::Product(..) => {
                    out.copy_from_slice(row(0, place))
                }
            }
        }
    }
}

/// Adds a row, or nothing if it is empty: some cells have no bias.
fn add(out: &mut [f32], row: &[f32]) {
    out.iter_mut().zip(row).for_each(|(out, x)| *out += x);
}

/// The place of the largest score, the lowest in a tie; NaN if all scores are NaN or minus infinity.
fn largest(scores: &[f32]) -> f32 {
    let scores = (0..)
        .zip(scores)
        .filter(|(_, score)| **score > f32::NEG_INFINITY);
    let best = scores.reduce(|best: (u32, _), next| if next.1 > best.1 { next } else { best });
    best.map_or(f32::NAN, |(place, _)| place as f32)
}

/// The indices of the parts of a state.
const H: usize = 0;
const C: usize = 1;
const WORD: usize = 2;

impl Stacked {
    /// Stacks products of one name.
    fn new(products: &[Arc<Affine>]) -> Stacked {
        let biases = products.iter().flat_map(|affine| &affine.bias);
        Stacked {
            products: products.to_vec(),
            bias: biases.copied().collect(),
        }
    }

    fn is_named(&self, name: &str) -> bool {
        self.products[0].name == name
    }
}

/// The programs of all cell types.
fn programs(
    lists: &[OperatorList],
    products: &[Stacked],
    spec: &Spec,
    least: usize,
) -> Vec<CellProgram> {
    lists
        .iter()
        .map(|list| CellProgram::new(list, products, spec, least))
        .collect()
}

/// The index of the product whose weights a list calls by this name, such as `lstm.weight`.
fn product_of(name: &str, products: &[Stacked]) -> usize {
    let (owner, _) = name
        .rsplit_once('.')
        .expect("weights have the name of a product");
    products
        .iter()
        .position(|known| known.is_named(owner))
        .expect("a product of the model's cells")
}

impl CellProgram {
    /// Makes the program of a cell from its list of operators. `least` is the number of input cells for which the cell
    /// has weights, or 0 if it takes any number.
    fn new(list: &OperatorList, products: &[Stacked], spec: &Spec, least: usize) -> CellProgram {
        let hidden = spec.hidden as usize;
        let embedding = spec.embedding as usize;
        let list = &list.operators;
        // Operators that read a part of a row read adjacent parts, in the order of the list.
        let mut read = vec![0; list.len()];
        let mut operators: Vec<Op> = Vec::with_capacity(list.len());
        let mut before = [0, 0];
        for operator in list {
            let width = operator.shape[0] as usize;
            let action = action(operator, products);
            let reads_c = matches!(operator.kind, OperatorKind::Elementwise { .. })
                || operator.name == "child.c";
            let mut inputs = Vec::with_capacity(operator.inputs.len());
            for source in &operator.inputs {
                let (from, whole) = match *source {
                    OperandSource::Word => (InputOrigin::Word, embedding),
                    OperandSource::State
                        if matches!(operator.kind, OperatorKind::Lookup { .. }) =>
                    {
                        (InputOrigin::State(WORD), 1)
                    }
                    OperandSource::State => {
                        (InputOrigin::State(if reads_c { C } else { H }), hidden)
                    }
                    OperandSource::Operator(place) => (
                        InputOrigin::Operator(place),
                        operators[place as usize].width,
                    ),
                };
                let least = if operator.rows == RowRule::One {
                    least
                } else {
                    0
                };
                let mut input = OperatorInput {
                    from,
                    column: 0,
                    step: 0,
                    width: whole,
                    least,
                };
                if let (
                    InputOrigin::Operator(place),
                    OperatorAction::Copy | OperatorAction::Sigmoid | OperatorAction::Tanh,
                ) = (from, action)
                    && width < whole
                {
                    let column = read[place as usize];
                    read[place as usize] += width;
                    let step = if operator.rows == RowRule::ForEach {
                        width
                    } else {
                        0
                    };
                    input = OperatorInput {
                        column,
                        step,
                        width,
                        ..input
                    };
                }
                inputs.push(input);
            }
            let width = if action == OperatorAction::Tanh {
                2 * width
            } else {
                width
            };
            // A sum over the rows of one input has one row.
            let sums_rows = action == OperatorAction::Sum && operator.inputs.len() == 1;
            let rows = if sums_rows {
                RowRule::One
            } else {
                operator.rows
            };
            operators.push(Op {
                rows,
                inputs,
                width,
                inner: operator.shape[1] as usize,
                action,
                before,
            });
            before[usize::from(operator.rows == RowRule::ForEach)] += 1;
        }
        let c = place_of("c.tanh", list).and_then(|tanh| {
            match operators[tanh as usize].inputs[0].from {
                InputOrigin::Operator(place) => Some(place),
                InputOrigin::Word | InputOrigin::State(_) => None,
            }
        });
        let word = operators
            .iter()
            .position(|op| op.action == OperatorAction::Largest)
            .map(|place| place as u16);
        CellProgram {
            operators,
            state: [place_of("h", list), c, word],
        }
    }

    /// The number of outputs of a node with `before` input cells. Each copy of an operator has its own.
    pub fn outputs(&self, before: u32) -> usize {
        self.operators
            .iter()
            .map(|op| {
                if op.rows == RowRule::ForEach {
                    before as usize
                } else {
                    1
                }
            })
            .sum()
    }
}

impl Op {
    /// The place of a copy's output among those of a node with `before` input cells.
    pub fn place(&self, before: u32) -> usize {
        (self.before[0] + self.before[1] * before) as usize
    }
}

/// The place of an operator in a list.
fn place_of(name: &str, list: &[Operator]) -> Option<u16> {
    let place = list.iter().position(|operator| operator.name == name)?;
    Some(place as u16)
}

fn action(operator: &Operator, products: &[Stacked]) -> OperatorAction {
    match &operator.kind {
        OperatorKind::Affine { weight, .. } => {
            OperatorAction::Product(product_of(weight, products), true)
        }
        OperatorKind::Matmul { weight } => {
            OperatorAction::Product(product_of(weight, products), false)
        }
        OperatorKind::Sum => OperatorAction::Sum,
        OperatorKind::Lookup { .. } if operator.inputs == [OperandSource::State] => {
            OperatorAction::Lookup
        }
        OperatorKind::Lookup { .. }
        | OperatorKind::Concat
        | OperatorKind::Slice
        | OperatorKind::Opaque => OperatorAction::Copy,
        OperatorKind::Elementwise { function } => match function.as_str() {
            "sigmoid" => OperatorAction::Sigmoid,
            "tanh" => OperatorAction::Tanh,
            "argmax" => OperatorAction::Largest,
            "product" => OperatorAction::Times,
            other => OperatorAction::Bias(product_of(other.trim_start_matches("add "), products)),
        },
    }
}

/// 1 / σ(x).
struct Reciprocal;

impl Formula<1, 1> for Reciprocal {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, [x]: [I::F32; 1], _: [I::F32; 1]) -> [I::F32; 1] {
        [one_and_exp_of_negative(isa, x)]
    }
}

/// tanh(x) as a fraction.
struct Fraction;

impl Formula<1, 2> for Fraction {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, [x]: [I::F32; 1], _: [I::F32; 2]) -> [I::F32; 2] {
        let (above, below) = tanh_fraction(isa, x);
        [above, below]
    }
}

/// A sigmoid, given its reciprocal, times x.
struct GateTimes;

impl Formula<2, 1> for GateTimes {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, [gate, x]: [I::F32; 2], _: [I::F32; 1]) -> [I::F32; 1] {
        [isa.f32().div(x, gate)]
    }
}

/// A sigmoid, given its reciprocal, times a fraction.
struct TimesTanh;

impl Formula<3, 1> for TimesTanh {
    #[inline(always)]
    fn apply<I: Isa>(
        &self,
        isa: I,
        [gate, above, below]: [I::F32; 3],
        _: [I::F32; 1],
    ) -> [I::F32; 1] {
        let ops = isa.f32();
        [ops.div(above, ops.mul(below, gate))]
    }
}
