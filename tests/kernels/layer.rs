//! The cells' weights in the order in which a device has them, rounded to its number format.

use std::ops::Range;

use batchlab::cuda::gpu::fused::pack;
use batchlab::network::Spec;
use batchlab::network::weights::{Weights, tensors};
use batchlab::units::CellId;
use batchlab::workload::model::Model;

use super::host_cuda::Element;
use super::memory::{Elements, Memory, bits_of, floats, rounded};

/// The cells that have kernels of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lstm,
    Encoder,
    Decoder,
    Gru,
    Leaf,
    Pair,
    SumLeaf,
    Sum,
}

impl Kind {
    pub const CHAINS: [Kind; 4] = [Kind::Lstm, Kind::Encoder, Kind::Decoder, Kind::Gru];
    pub const TREES: [Kind; 4] = [Kind::Leaf, Kind::Pair, Kind::SumLeaf, Kind::Sum];

    pub fn model(self) -> Model {
        match self {
            Kind::Lstm => Model::Lstm,
            Kind::Encoder | Kind::Decoder => Model::Seq2Seq,
            Kind::Gru => Model::Gru,
            Kind::Leaf | Kind::Pair => Model::TreeLstm,
            Kind::SumLeaf | Kind::Sum => Model::ChildSumTreeLstm,
        }
    }

    /// Its number in the model.
    pub fn cell(self) -> CellId {
        let name = match self {
            Kind::Lstm => "lstm",
            Kind::Encoder => "encoder",
            Kind::Decoder => "decoder",
            Kind::Gru => "gru",
            Kind::Leaf | Kind::SumLeaf => "leaf",
            Kind::Pair | Kind::Sum => "internal",
        };
        let number = self
            .model()
            .cell_types()
            .iter()
            .position(|cell| cell.name == name);
        CellId(number.expect("a cell of the model") as u16)
    }

    /// The cell with this number of a model.
    pub fn of(model: &Model, cell: CellId) -> Kind {
        let all = Kind::CHAINS.into_iter().chain(Kind::TREES);
        all.into_iter()
            .find(|kind| kind.model() == *model && kind.cell() == cell)
            .expect("a cell with kernels")
    }

    pub fn is_chain(self) -> bool {
        Kind::CHAINS.contains(&self)
    }

    /// Whether a fused kernel computes its steps, or two do.
    pub fn is_gated(self) -> bool {
        !matches!(self, Kind::Decoder | Kind::Sum)
    }

    pub fn is_leaf(self) -> bool {
        matches!(self, Kind::Leaf | Kind::SumLeaf)
    }
}

/// A matrix with a row for each output.
pub struct Matrix {
    pub outputs: usize,
    pub inputs: usize,
    numbers: Vec<f64>,
}

impl Matrix {
    /// The products of rows of `stride` numbers, of which those from `from` on are multiplied.
    pub fn times(&self, rows: usize, operand: &[f32], stride: usize, from: usize) -> Vec<f64> {
        let rows = (0..rows).map(|row| &operand[row * stride + from..][..self.inputs]);
        rows.flat_map(|x| {
            self.numbers
                .chunks_exact(self.inputs)
                .map(|weights| dot(weights, x))
        })
        .collect()
    }

    /// The weights of gates, packed for the fused kernels.
    pub fn pack(&self, element: Element, hidden: usize) -> Memory<u8> {
        let width = if element == Element::F32 { 4 } else { 2 };
        let bytes = self.numbers.iter().flat_map(|number| {
            let bits = bits_of(element, *number as f32).to_le_bytes();
            bits.into_iter().take(width)
        });
        let bytes: Vec<u8> = bytes.collect();
        let packed = pack(&bytes, self.outputs / hidden, self.inputs * width);
        let mut memory = Memory::new(packed.len(), 0, 0xa5);
        memory.copy_from_slice(&packed);
        memory
    }
}

fn dot(weights: &[f64], x: &[f32]) -> f64 {
    // Eight sums, so that the loop takes no longer than its memory.
    let mut sums = [0.0; 8];
    for (weights, x) in weights.chunks(8).zip(x.chunks(8)) {
        for ((sum, weight), x) in sums.iter_mut().zip(weights).zip(x) {
            *sum += weight * f64::from(*x);
        }
    }
    sums.iter().sum()
}

/// What a cell has of weights.
pub struct Layer {
    /// A row for each word.
    pub embedding: Elements,
    /// In the order in which the cell uses them.
    pub matrices: Vec<Matrix>,
    pub biases: Vec<Memory<f32>>,
}

impl Layer {
    pub fn new(kind: Kind, spec: &Spec, element: Element) -> Layer {
        let source = Source {
            weights: Weights::open(&kind.model(), spec).expect("weights from a seed"),
            model: kind.model(),
            spec,
            element,
        };
        let h = spec.hidden as usize;
        let lstm = |name: &str| {
            source.matrix(
                &[&format!("{name}.weight_ih"), &format!("{name}.weight_hh")],
                0..4 * h,
            )
        };
        let gru = |rows| source.matrix(&["gru.weight_ih", "gru.weight_hh"], rows);
        let of_sum = ["childsum.weight_iou_x", "childsum.weight_iou_h"];
        let (matrices, biases) = match kind {
            Kind::Lstm => (vec![lstm("lstm")], vec!["lstm.bias"]),
            Kind::Encoder => (vec![lstm("encoder")], vec!["encoder.bias"]),
            Kind::Decoder => {
                let projection = source.matrix(&["projection.weight"], 0..spec.vocabulary as usize);
                (
                    vec![lstm("decoder"), projection],
                    vec!["decoder.bias", "projection.bias"],
                )
            }
            Kind::Gru => (vec![gru(0..2 * h), gru(2 * h..3 * h)], vec!["gru.bias"]),
            Kind::Leaf => (
                vec![source.matrix(&["leaf.weight"], 0..3 * h)],
                vec!["leaf.bias"],
            ),
            Kind::Pair => {
                let children = ["internal.weight_left", "internal.weight_right"];
                (
                    vec![source.matrix(&children, 0..5 * h)],
                    vec!["internal.bias"],
                )
            }
            Kind::SumLeaf => (
                vec![source.matrix(&of_sum[..1], 0..3 * h)],
                vec!["childsum.bias_iou"],
            ),
            Kind::Sum => {
                let forget = ["childsum.weight_f_x", "childsum.weight_f_h"]
                    .map(|name| source.matrix(&[name], 0..h));
                let gates = source.matrix(&of_sum, 0..3 * h);
                let [of_word, of_child] = forget;
                (
                    vec![gates, of_word, of_child],
                    vec!["childsum.bias_iou", "childsum.bias_f"],
                )
            }
        };
        let embedding = if kind == Kind::Decoder {
            "decoder.embedding"
        } else {
            "embedding.weight"
        };
        Layer {
            embedding: Elements::of(element, &source.weights.take(embedding)),
            matrices,
            biases: biases.into_iter().map(|name| source.bias(name)).collect(),
        }
    }
}

struct Source<'a> {
    weights: Weights,
    model: Model,
    spec: &'a Spec,
    element: Element,
}

impl Source<'_> {
    /// Some rows of tensors side by side.
    fn matrix(&self, names: &[&str], rows: Range<usize>) -> Matrix {
        let shapes = tensors(&self.model, self.spec);
        let inputs = |name: &str| {
            shapes
                .iter()
                .find(|tensor| tensor.name == name)
                .expect("a tensor")
                .shape[1]
        };
        let parts: Vec<(Vec<f32>, usize)> = names
            .iter()
            .map(|name| (self.weights.take(name), inputs(name)))
            .collect();
        let mut numbers = Vec::new();
        for row in rows.clone() {
            for (part, inputs) in &parts {
                let row = &part[row * inputs..(row + 1) * inputs];
                numbers.extend(row.iter().map(|x| f64::from(rounded(self.element, *x))));
            }
        }
        Matrix {
            outputs: rows.len(),
            inputs: parts.iter().map(|part| part.1).sum(),
            numbers,
        }
    }

    fn bias(&self, name: &str) -> Memory<f32> {
        let numbers = self.weights.take(name);
        let mut bias = floats(numbers.len());
        bias.copy_from_slice(&numbers);
        bias
    }
}
