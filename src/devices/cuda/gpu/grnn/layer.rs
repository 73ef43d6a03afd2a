//! The weights of a recurrent network in the layout of its persistent kernels.

use half::{bf16, f16};

use super::GpuHost;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::core::cost::grnn::RecurrentCell;
use crate::devices::cuda::gpu::cublas::GpuProduct;
use crate::devices::cuda::gpu::memory::GpuMemory;
use crate::devices::cuda::gpu::weights::elements;
use crate::devices::network::Spec;
use crate::devices::network::weights::Weights;

/// The buffers of a launch: the input vectors; their products, \[steps, batch, gates, hidden\]; the states,
/// \[steps + 1, batch, hidden\]; an LSTM's c, or the values that the blocks of a GRU exchange; the steps of each
/// sequence; a zero for each row of the grid.
pub(in crate::devices::cuda::gpu) const VECTORS: usize = 0;
pub(in crate::devices::cuda::gpu) const INPUTS: usize = 1;
pub(in crate::devices::cuda::gpu) const HIDDEN: usize = 2;
pub(in crate::devices::cuda::gpu) const BESIDE: usize = 3;
pub(in crate::devices::cuda::gpu) const LENGTHS: usize = 4;
pub(super) const ARRIVED: usize = 5;

/// The weights on a GPU.
///
/// The recurrent matrix is the network's tensor: a row for each output, gate by gate, whose numbers are in the order in
/// which the threads of a group share them. The input matrix has the bias as two additional columns, which are
/// multiplied by ones at the end of each input. So one product for all steps computes everything that does not depend
/// on the state. The second column is the rounding error of the first.
#[derive(Debug)]
pub struct Layer {
    pub(super) cell: RecurrentCell,
    pub(super) hidden: u32,
    /// The width of an input.
    pub(super) embedding: u32,
    pub(super) recurrent: GpuMemory,
    /// The input matrix, \[gates × hidden, [`Layer::row`]\].
    input: GpuMemory,
}

impl Layer {
    /// Copies the weights `lstm.*` or `gru.*` of a network to a GPU, for inputs of this format. The recurrent weights
    /// are always float32.
    pub fn new(
        host: &GpuHost,
        cell: RecurrentCell,
        weights: &Weights,
        spec: &Spec,
        precision: Precision,
    ) -> Result<Layer> {
        let name = cell.name();
        let embedding = spec.embedding as usize;
        let row = row(spec.embedding) as usize;
        let biases: Vec<[f32; 2]> = weights
            .take(&format!("{name}.bias"))
            .into_iter()
            .map(|bias| split(bias, precision))
            .collect();
        let input = join(
            &weights.take(&format!("{name}.weight_ih")),
            &biases,
            embedding,
            row,
        );
        let recurrent = weights.take(&format!("{name}.weight_hh"));
        Ok(Layer {
            cell,
            hidden: spec.hidden,
            embedding: spec.embedding,
            recurrent: copy(host, &recurrent, Precision::F32)?,
            input: copy(host, &input, precision)?,
        })
    }

    /// The length of an input with its ones, padded with zeros to a width that is read fast.
    pub(in crate::devices::cuda::gpu) fn row(&self) -> u32 {
        row(self.embedding)
    }

    /// The number of gates of an element whose products with the inputs are computed before the launch.
    pub(in crate::devices::cuda::gpu) fn gates(&self) -> u32 {
        if self.has_c() { 4 } else { 3 }
    }

    /// The numbers in each buffer of a launch, in the order of [`VECTORS`] and the following.
    pub(in crate::devices::cuda::gpu) fn buffers(
        &self,
        steps: usize,
        batch: usize,
        beside: usize,
    ) -> [usize; 6] {
        let states = batch * self.hidden as usize;
        let vectors = steps * batch * self.row() as usize;
        [
            vectors,
            steps * states * self.gates() as usize,
            (steps + 1) * states,
            beside,
            batch,
            batch,
        ]
    }

    /// Whether a state has a c in addition to its h.
    pub(in crate::devices::cuda::gpu) fn has_c(&self) -> bool {
        self.cell == RecurrentCell::Lstm
    }

    /// The product of input [rows](Layer::row) with the matrix: \[rows, gates, hidden\].
    pub(super) fn product(&self, inputs: u64, rows: u32, result: u64) -> GpuProduct {
        let outputs = self.gates() * self.hidden;
        GpuProduct::contiguous(
            [rows, self.row(), outputs],
            inputs,
            self.input.address(),
            result,
        )
    }

    /// Brings contiguous input vectors into the layout of the product.
    pub(super) fn inputs(&self, vectors: &[f32]) -> Vec<f32> {
        let embedding = self.embedding as usize;
        let row = self.row() as usize;
        let ones = vec![[1.0; 2]; vectors.len() / embedding];
        join(vectors, &ones, embedding, row)
    }
}

/// Copies weights to a GPU.
fn copy(host: &GpuHost, numbers: &[f32], precision: Precision) -> Result<GpuMemory> {
    GpuMemory::with_bytes(&host.gpu, &elements(numbers, precision), "weights")
        .map_err(Error::failure)
}

/// The length of an input with its ones, rounded up to a multiple of eight. Eight numbers of a 16-bit format have as
/// many bytes as are read at a time.
fn row(embedding: u32) -> u32 {
    (embedding + 2).next_multiple_of(8)
}

/// Splits a number into a value that the format represents exactly and the remainder.
fn split(number: f32, precision: Precision) -> [f32; 2] {
    /// The bits of a float32's mantissa that products in TF32 ignore.
    const UNREAD: u32 = (1 << 13) - 1;
    let near = match precision {
        Precision::F32 => number,
        Precision::Tf32 => f32::from_bits(number.to_bits() & !UNREAD),
        Precision::Bf16 => bf16::from_f32(number).to_f32(),
        Precision::F16 => f16::from_f32(number).to_f32(),
    };
    [near, number - near]
}

/// Rows of `width` numbers with two more numbers each, padded with zeros to length `to`.
fn join(rows: &[f32], lasts: &[[f32; 2]], width: usize, to: usize) -> Vec<f32> {
    let mut joined = Vec::with_capacity(lasts.len() * to);
    for (row, lasts) in rows.chunks_exact(width).zip(lasts) {
        joined.extend_from_slice(row);
        joined.extend_from_slice(lasts);
        joined.resize(joined.len().next_multiple_of(to), 0.0);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_are_two_columns() {
        assert_eq!([row(6), row(7), row(256)], [8, 16, 264]);
        let with_biases = join(&[1.0, 2.0, 3.0, 4.0], &[[0.5, 0.0], [0.25, 9.0]], 2, 5);
        assert_eq!(
            with_biases,
            [1.0, 2.0, 0.5, 0.0, 0.0, 3.0, 4.0, 0.25, 9.0, 0.0]
        );
        assert_eq!(join(&[1.0, 2.0], &[[9.0, 8.0]], 2, 4), [1.0, 2.0, 9.0, 8.0]);
    }

    #[test]
    fn a_bias_loses_little_in_any_format() {
        for precision in Precision::ALL {
            for bias in [0.1f32, -0.3, 1.7, 0.0, 6.0e-3] {
                let [near, rest] = split(bias, precision);
                assert_eq!(near + rest, bias, "{precision}");
                // Each is rounded once more when it is copied to the GPU, which leaves the first as it is.
                let bytes = elements(&[near], precision);
                let again = match precision {
                    Precision::F32 | Precision::Tf32 => {
                        f32::from_le_bytes(bytes.try_into().unwrap())
                    }
                    Precision::Bf16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
                    Precision::F16 => f16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
                };
                assert_eq!(again, near, "{precision}");
                assert!(rest.abs() <= bias.abs() / 256.0, "{precision}");
            }
        }
    }
}
