//! Cells operator by operator, for policies that batch below cells. The operators are those of
//! [`Model::operators`](crate::core::workload::model::Model::operators); a launch runs one of them for many nodes.
//!
//! Results have the bits of the cells. So a sigmoid is kept as its reciprocal and a tanh as a fraction, and the product
//! that takes them divides once, as a cell does.

use std::sync::Arc;

use rten_simd::Isa;
use rten_simd::ops::{FloatOps, NumOps};

use super::cells::Affine;
use super::cells::gated::CHILDREN;
use super::elementwise::{Formula, apply, one_and_exp_of_negative, tanh_fraction};
pub use super::product::Rows as Left;
use super::weights::Weights;
use super::{Cell, Spec};
use crate::base::error::{Error, Result};
use crate::core::workload::model::Model;
use crate::core::workload::operator::catalogue::{Catalogue, OperatorList};
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule};

#[derive(Debug)]
pub struct ByOperator {
    /// The width of a hidden state.
    pub hidden: usize,
    operators: Vec<Program>,
    kernels: Vec<Program>,
    products: Vec<Stacked>,
    /// The vectors of words, table after table.
    pub vectors: Vec<f32>,
    embedding: usize,
    vocabulary: u32,
}

/// A cell's operators, in the order of its list.
#[derive(Debug)]
pub struct Program {
    pub operators: Vec<Op>,
    /// The operators that give h, c and the word of the new state.
    pub state: [Option<u16>; 3],
}

#[derive(Debug)]
pub struct Op {
    pub rows: RowRule,
    pub inputs: Vec<Input>,
    /// The numbers of a row of the output.
    pub width: usize,
    /// Those of a left row of a product.
    pub inner: usize,
    pub action: Action,
    /// Operators before it that run once, and those that run for each input cell.
    before: [u32; 2],
}

#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub from: From,
    /// Where a row of the input begins in a row of its source, and how much further for each copy.
    pub column: usize,
    pub step: usize,
    pub width: usize,
    /// Missing rows are zeros.
    pub least: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The vector of the node's word.
    Word,
    /// A part of the input cells' states: h, c or the word.
    State(usize),
    /// An earlier operator of the cell.
    Operator(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// With its bias, or without it.
    Product(usize, bool),
    Bias(usize),
    Sigmoid,
    Tanh,
    /// Of a sigmoid, by a tanh or by plain numbers.
    Times,
    Sum,
    Copy,
    /// The vector of a word that the decoder has written.
    Lookup,
    Largest,
}

/// The products of the cells that a list of operators calls by one name: their results stand side by side.
#[derive(Debug)]
struct Stacked {
    products: Vec<Arc<Affine>>,
    /// Empty if the cell has no bias here.
    bias: Vec<f32>,
}

/// Rows for an operator: `each` of them for a row of the output.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    pub data: &'a [f32],
    pub stride: usize,
    pub each: usize,
}

impl ByOperator {
    /// With the weights of the model's cells. Fails for cells without operators, or with other ones than their lists.
    pub fn new(model: &Model, spec: &Spec, cells: &[Arc<dyn Cell>]) -> Result<ByOperator> {
        let mut products: Vec<Stacked> = Vec::new();
        for cell in cells {
            let is_new = |own: &&Arc<Affine>| {
                products
                    .iter()
                    .all(|known| known.products[0].name != own.name)
            };
            let own: Vec<_> = cell.affines().into_iter().filter(is_new).cloned().collect();
            products.extend(own.chunk_by(|a, b| a.name == b.name).map(|own| {
                Stacked {
                    products: own.to_vec(),
                    bias: own
                        .iter()
                        .flat_map(|affine| affine.bias.iter().copied())
                        .collect(),
                }
            }));
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
        let programs = |lists: &[OperatorList]| {
            lists
                .iter()
                .map(|list| Program::new(list, &products, spec, least))
                .collect()
        };
        let (operators, kernels) = (programs(&catalogue.operators), programs(&catalogue.kernels));
        let weights = Weights::open(model, spec)?;
        let mut vectors = weights.take("embedding.weight");
        if *model == Model::Seq2Seq {
            vectors.extend(weights.take("decoder.embedding"));
        }
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        Ok(ByOperator {
            hidden,
            operators,
            kernels,
            products,
            vectors,
            embedding,
            vocabulary: spec.vocabulary,
        })
    }

    /// By cell type; with `kernels`, a bias is apart from its product.
    pub fn programs(&self, kernels: bool) -> &[Program] {
        if kernels {
            &self.kernels
        } else {
            &self.operators
        }
    }

    /// Where a word's vector begins.
    pub fn vector(&self, word: u32) -> usize {
        word as usize * self.embedding
    }

    /// Writes `rows` rows of a launch's product to `out`.
    pub fn multiply(&self, op: &Op, left: Left<'_>, out: &mut [f32], memory: &mut Vec<f32>) {
        let Action::Product(place, with_bias) = op.action else {
            return;
        };
        let Stacked { products, bias } = &self.products[place];
        let mut begin = 0;
        for affine in products {
            for panel in &affine.product.panels {
                let (units, wide) = (panel.units(), panel.units().len());
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

    /// Runs any other operator on rows of equal numbers of inputs.
    pub fn run(&self, op: &Op, operands: &[Operand<'_>], out: &mut [f32]) {
        let width = op.inputs.first().map_or(0, |input| input.width);
        let row = |number: usize, row: usize| {
            let Operand { data, stride, .. } = operands[number];
            &data[row * stride..][..op.inputs[number].width]
        };
        for (place, out) in out.chunks_exact_mut(op.width).enumerate() {
            match op.action {
                Action::Sigmoid => apply(Reciprocal, [row(0, place)], [out]),
                Action::Tanh => {
                    let (above, below) = out.split_at_mut(width);
                    apply(Fraction, [row(0, place)], [above, below]);
                }
                Action::Times if op.inputs[1].width == op.width => {
                    apply(Times, [row(0, place), row(1, place)], [out])
                }
                Action::Times => {
                    let (above, below) = row(1, place).split_at(op.width);
                    apply(TimesTanh, [row(0, place), above, below], [out]);
                }
                Action::Bias(product) => {
                    out.copy_from_slice(row(0, place));
                    add(out, &self.products[product].bias);
                }
                Action::Sum => {
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
                Action::Lookup => {
                    let from = self.vector(self.vocabulary + row(0, place)[0] as u32);
                    out.copy_from_slice(&self.vectors[from..from + op.width]);
                }
                Action::Largest => out[0] = largest(row(0, place)),
                Action::Copy | Action::Product(..) => out.copy_from_slice(row(0, place)),
            }
        }
    }
}

/// Without a row, nothing changes: some cells have no bias.
fn add(out: &mut [f32], row: &[f32]) {
    out.iter_mut().zip(row).for_each(|(out, x)| *out += x);
}

/// The lowest place of the largest score; NaN if all are NaN or minus infinity.
fn largest(scores: &[f32]) -> f32 {
    let scores = (0..)
        .zip(scores)
        .filter(|(_, score)| **score > f32::NEG_INFINITY);
    let best = scores.reduce(|best: (u32, _), next| if next.1 > best.1 { next } else { best });
    best.map_or(f32::NAN, |(place, _)| place as f32)
}

const H: usize = 0;
const C: usize = 1;
const WORD: usize = 2;

impl Program {
    /// `least`: the input cells for which the cell has weights, if their number is fixed.
    fn new(list: &OperatorList, products: &[Stacked], spec: &Spec, least: usize) -> Program {
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        let list = &list.operators;
        let product = |name: &str| {
            let is_it = |known: &Stacked| {
                name.rsplit_once('.')
                    .is_some_and(|(of, _)| of == known.products[0].name)
            };
            products
                .iter()
                .position(is_it)
                .expect("a product of the model's cells")
        };
        // Readers of a part of a row stand side by side in it, in the order of the list.
        let mut read = vec![0; list.len()];
        let mut operators: Vec<Op> = Vec::with_capacity(list.len());
        let mut before = [0, 0];
        for operator in list {
            let width = operator.shape[0] as usize;
            let action = action(operator, product);
            let reads_c = matches!(operator.kind, OperatorKind::Elementwise { .. })
                || operator.name == "child.c";
            let input = |source: &OperandSource| {
                let (from, whole) = match *source {
                    OperandSource::Word => (From::Word, embedding),
                    OperandSource::State
                        if matches!(operator.kind, OperatorKind::Lookup { .. }) =>
                    {
                        (From::State(WORD), 1)
                    }
                    OperandSource::State => (From::State(if reads_c { C } else { H }), hidden),
                    OperandSource::Operator(place) => {
                        (From::Operator(place), operators[place as usize].width)
                    }
                };
                let least = if operator.rows == RowRule::One {
                    least
                } else {
                    0
                };
                let mut input = Input {
                    from,
                    column: 0,
                    step: 0,
                    width: whole,
                    least,
                };
                if let (From::Operator(place), Action::Copy | Action::Sigmoid | Action::Tanh) =
                    (from, action)
                    && width < whole
                {
                    let column = read[place as usize];
                    read[place as usize] += width;
                    let step = if operator.rows == RowRule::ForEach {
                        width
                    } else {
                        0
                    };
                    input = Input {
                        column,
                        step,
                        width,
                        ..input
                    };
                }
                input
            };
            let inputs: Vec<Input> = operator.inputs.iter().map(input).collect();
            let width = if action == Action::Tanh {
                2 * width
            } else {
                width
            };
            // A sum over the rows of one input has one row.
            let sums_rows = action == Action::Sum && operator.inputs.len() == 1;
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
        let named = |name: &str| {
            list.iter()
                .position(|operator| operator.name == name)
                .map(|place| place as u16)
        };
        let c = named("c.tanh").and_then(|tanh| match operators[tanh as usize].inputs[0].from {
            From::Operator(place) => Some(place),
            From::Word | From::State(_) => None,
        });
        let word = operators
            .iter()
            .position(|op| op.action == Action::Largest)
            .map(|place| place as u16);
        Program {
            operators,
            state: [named("h"), c, word],
        }
    }

    /// The outputs of a node with `before` input cells, each copy by itself.
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

fn action(operator: &Operator, product: impl Fn(&str) -> usize) -> Action {
    match &operator.kind {
        OperatorKind::Affine { weight, .. } => Action::Product(product(weight), true),
        OperatorKind::Matmul { weight } => Action::Product(product(weight), false),
        OperatorKind::Sum => Action::Sum,
        OperatorKind::Lookup { .. } if operator.inputs == [OperandSource::State] => Action::Lookup,
        OperatorKind::Lookup { .. }
        | OperatorKind::Concat
        | OperatorKind::Slice
        | OperatorKind::Opaque => Action::Copy,
        OperatorKind::Elementwise { function } => match function.as_str() {
            "sigmoid" => Action::Sigmoid,
            "tanh" => Action::Tanh,
            "argmax" => Action::Largest,
            "product" => Action::Times,
            other => Action::Bias(product(other.trim_start_matches("add "))),
        },
    }
}

/// 1 / σ(x).
struct Reciprocal;

impl Formula<1, 1> for Reciprocal {
    #[inline(always)]
    fn of<I: Isa>(&self, isa: I, [x]: [I::F32; 1], _: [I::F32; 1]) -> [I::F32; 1] {
        [one_and_exp_of_negative(isa, x)]
    }
}

/// tanh(x) as a fraction.
struct Fraction;

impl Formula<1, 2> for Fraction {
    #[inline(always)]
    fn of<I: Isa>(&self, isa: I, [x]: [I::F32; 1], _: [I::F32; 2]) -> [I::F32; 2] {
        let (above, below) = tanh_fraction(isa, x);
        [above, below]
    }
}

/// A sigmoid, given its reciprocal, times x.
struct Times;

impl Formula<2, 1> for Times {
    #[inline(always)]
    fn of<I: Isa>(&self, isa: I, [gate, x]: [I::F32; 2], _: [I::F32; 1]) -> [I::F32; 1] {
        [isa.f32().div(x, gate)]
    }
}

/// A sigmoid, given its reciprocal, times a fraction.
struct TimesTanh;

impl Formula<3, 1> for TimesTanh {
    #[inline(always)]
    fn of<I: Isa>(&self, isa: I, [gate, above, below]: [I::F32; 3], _: [I::F32; 1]) -> [I::F32; 1] {
        let ops = isa.f32();
        [ops.div(above, ops.mul(below, gate))]
    }
}
