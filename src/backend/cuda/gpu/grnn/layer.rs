//! The weights of a recurrent network as its persistent kernels read them.

use super::Host;
use crate::backend::cuda::gpu::cublas::Product;
use crate::backend::cuda::gpu::failed;
use crate::backend::cuda::gpu::memory::Memory;
use crate::backend::cuda::gpu::settings::Precision;
use crate::backend::cuda::gpu::weights::elements;
use crate::cost::grnn::Cell;
use crate::error::Result;
use crate::network::Spec;
use crate::network::weights::Weights;
use crate::workload::model::Model;

/// The weights on a GPU.
///
/// The recurrent matrix is the network's tensor as it is: a row for each output, gate by gate, whose numbers stand in the order
/// in which the threads of a group share them out. The matrix of the inputs has the biases as one more column, with which a 1 at
/// the end of each input is multiplied, so that one product for all steps gives all that does not depend on the state.
#[derive(Debug)]
pub struct Layer {
    pub(super) cell: Cell,
    pub(super) hidden: u32,
    /// The width of an input.
    pub(super) embedding: u32,
    pub(super) recurrent: Memory,
    /// \[gates × hidden, [`Layer::row`]\].
    input: Memory,
}

impl Layer {
    /// Takes the weights `lstm.*` or `gru.*` of a network to a GPU.
    ///
    /// # Errors
    /// Memory that is not there.
    pub fn new(host: &Host, cell: Cell, weights: &Weights, spec: &Spec) -> Result<Layer> {
        Layer::with_inputs_in(host, cell, weights, spec, Precision::F32)
    }

    /// The same, for inputs in another format. What the steps multiply is float32 in all of them.
    ///
    /// # Errors
    /// Memory that is not there.
    pub(super) fn with_inputs_in(
        host: &Host,
        cell: Cell,
        weights: &Weights,
        spec: &Spec,
        precision: Precision,
    ) -> Result<Layer> {
        let tensor = |name: &str| weights.take(&format!("{}.{name}", cell.name()));
        let (embedding, row) = (spec.embedding as usize, row(spec.embedding) as usize);
        let input = with_bias(&tensor("weight_ih"), &tensor("bias"), embedding, row);
        let on_gpu = |numbers: &[f32], precision| Memory::holding(&host.gpu, &elements(numbers, precision), "weights");
        Ok(Layer {
            cell,
            hidden: spec.hidden,
            embedding: spec.embedding,
            recurrent: on_gpu(&tensor("weight_hh"), Precision::F32).map_err(failed)?,
            input: on_gpu(&input, precision).map_err(failed)?,
        })
    }

    /// The numbers of an input with its 1, and with zeros up to a width at which rows begin where they are read fast.
    pub(in crate::backend::cuda::gpu) fn row(&self) -> u32 {
        row(self.embedding)
    }

    /// The gates of an element, whose products with the inputs come before the launch.
    pub(in crate::backend::cuda::gpu) fn gates(&self) -> u32 {
        match self.cell {
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }

    /// What so many inputs come to: the product of their [rows](Layer::row) with the matrix, \[rows, gates, hidden\].
    pub(in crate::backend::cuda::gpu) fn product(&self, inputs: u64, rows: u32, result: u64) -> Product {
        let outputs = self.gates() * self.hidden;
        Product {
            operand: inputs,
            stride: self.row(),
            weights: self.input.address(),
            result,
            result_stride: outputs,
            rows,
            inputs: self.row(),
            outputs,
        }
    }

    /// Inputs as the product takes them, from vectors behind each other.
    pub(super) fn inputs(&self, vectors: &[f32]) -> Vec<f32> {
        let (embedding, row) = (self.embedding as usize, self.row() as usize);
        let ones = vec![1.0; vectors.len() / embedding];
        with_bias(vectors, &ones, embedding, row)
    }
}

/// The model of a cell.
pub(super) fn model(cell: Cell) -> Model {
    match cell {
        Cell::Lstm => Model::Lstm,
        Cell::Gru => Model::Gru,
    }
}

fn row(embedding: u32) -> u32 {
    (embedding + 1).next_multiple_of(4)
}

/// Rows of `width` numbers with one more number each, and zeros behind it up to `to`.
fn with_bias(rows: &[f32], last: &[f32], width: usize, to: usize) -> Vec<f32> {
    let mut joined = Vec::with_capacity(last.len() * to);
    for (row, last) in rows.chunks_exact(width).zip(last) {
        joined.extend_from_slice(row);
        joined.push(*last);
        joined.resize(joined.len().next_multiple_of(to), 0.0);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_are_a_column() {
        assert_eq!([row(3), row(4), row(256)], [4, 8, 260]);
        let joined = with_bias(&[1.0, 2.0, 3.0, 4.0], &[0.5, 0.25], 2, 4);
        assert_eq!(joined, [1.0, 2.0, 0.5, 0.0, 3.0, 4.0, 0.25, 0.0]);
        assert_eq!(with_bias(&[1.0, 2.0, 3.0], &[9.0], 3, 4), [1.0, 2.0, 3.0, 9.0]);
    }
}
