//! The cells as GPUs run them: which kernels and products, over which memory.

mod chains;
mod listed;
mod sequences;
mod trees;

use self::chains::{GpuDecoder, GpuGru, GpuLstm, LstmKind};
pub(super) use self::sequences::Sequences;
use self::trees::{GpuChildSum, GpuTreeNode};
use super::call::{Argument, BLOCK, KernelCall};
use super::compile::LoadedKernels;
use super::cublas::GpuProduct;
use super::fused::{self, FusedWeights};
use super::memory::GpuMemory;
use super::weights::{Matrix, Upload};
use crate::base::precision::Precision;
use crate::core::workload::model::Model;
use crate::devices::cuda::device::{BatchShape, DeviceFault, MOST_CHANGES};
use crate::devices::network::Spec;

/// A cell type with its weights on one GPU.
pub(super) trait GpuCell: std::fmt::Debug + Send {
    /// The buffers of the working memory for batches of up to this shape.
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize>;

    /// Whether all cells of the model share one working memory of a stream, because no launch continues from the rows
    /// of another.
    fn shares_memory(&self) -> bool {
        false
    }

    /// Whether its work is captured as a graph. Cells with very many shapes launch their kernels one by one.
    fn is_captured(&self) -> bool {
        !self.shares_memory()
    }

    /// The gather. By default it takes only the table of rows, for cells that have no operand for each row. Its first
    /// three arguments are [set](KernelCall::set_staged) for each batch.
    fn gather(&self, at: &WorkSetup<'_>) -> KernelCall {
        at.gathering("gather_queries", 1, ())
    }

    /// The kernel that changes single rows, for chains. Its first argument is [set](KernelCall::set_changes) for each
    /// batch.
    fn change(&self, _: &WorkSetup<'_>) -> Option<KernelCall> {
        None
    }

    /// The kernels and products that compute the batch, in order.
    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork>;

    /// The buffers of the two places of the operand, for a cell some of whose batches write the next operand elsewhere
    /// than they read this one.
    fn places(&self) -> Option<[usize; 2]> {
        None
    }

    /// Whether a batch of this size leaves the operand in the other [place](GpuCell::places).
    fn moves_operand(&self, _rows: u32) -> bool {
        false
    }
}

/// The size of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BufferSize {
    /// Numbers in the format of products.
    Elements(usize),
    /// Numbers in float32.
    Floats(usize),
}

impl BufferSize {
    pub fn bytes(self, precision: Precision) -> usize {
        match self {
            BufferSize::Elements(count) => count * precision.bytes() as usize,
            BufferSize::Floats(count) => count * size_of::<f32>(),
        }
    }
}

/// The left operand and the result of a batch's product with a matrix.
fn operand_and_product(shape: &BatchShape, matrix: &Matrix) -> [BufferSize; 2] {
    let rows = shape.rows as usize;
    [
        BufferSize::Elements(rows * matrix.inputs as usize),
        BufferSize::Floats(rows * matrix.outputs as usize),
    ]
}

/// A part of a cell's work.
#[derive(Debug)]
pub(super) enum PlannedWork {
    Kernel(KernelCall),
    Product(GpuProduct),
}

/// All cells of a model, in the order of their types ([`Model::cell_types`]).
pub(super) fn build_cells(
    model: &Model,
    upload: &mut Upload<'_>,
) -> Result<Vec<Box<dyn GpuCell>>, DeviceFault> {
    let embedding = "embedding.weight";
    Ok(match model {
        Model::Lstm => vec![Box::new(GpuLstm::new(
            upload,
            LstmKind::Chain,
            "lstm",
            embedding,
        )?)],
        Model::Gru => vec![Box::new(GpuGru::new(upload)?)],
        Model::Seq2Seq => {
            vec![
                Box::new(GpuDecoder::new(upload)?),
                Box::new(GpuLstm::new(
                    upload,
                    LstmKind::Encoder,
                    "encoder",
                    embedding,
                )?),
            ]
        }
        Model::TreeLstm => {
            vec![
                Box::new(GpuTreeNode::internal(upload)?),
                Box::new(GpuTreeNode::leaf(upload, "leaf.weight", "leaf.bias")?),
            ]
        }
        Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            // One set of weights serves all numbers of children.
            let internal = GpuChildSum::new(upload)?;
            // This is all that the equations leave of a node without children.
            let leaf = GpuTreeNode::leaf(upload, "childsum.weight_iou_x", "childsum.bias_iou")?;
            let internals = (1..model.cell_types().len())
                .map(|_| Box::new(internal.clone()) as Box<dyn GpuCell>);
            internals
                .chain([Box::new(leaf) as Box<dyn GpuCell>])
                .collect()
        }
        Model::Network(network) => listed::all(network, upload)?,
        Model::Dnn(_) | Model::Graph(_) | Model::Llm(_) => {
            unreachable!("GPUs refuse the model {}", model.name())
        }
    })
}

/// The size of a state in the pool, in numbers. It is the same for all nodes of the model.
pub(super) fn state(model: &Model, spec: &Spec) -> usize {
    model.network().map_or_else(
        || crate::devices::network::cells::state(model, spec),
        listed::state,
    )
}

/// The distance of two states in the pool, in numbers: a multiple of four, so that kernels can read four at a time.
pub(super) fn stride(state: usize) -> u32 {
    state.next_multiple_of(4) as u32
}

/// The arguments of a cell's kernels in addition to its weights: sizes, and addresses of memory.
#[derive(Debug)]
pub(super) struct WorkSetup<'a> {
    pub kernels: &'a LoadedKernels,
    pub spec: &'a Spec,
    pub multiprocessors: u32,
    /// The bytes of an element.
    pub element: u32,
    pub shape: BatchShape,
    pub buffers: Vec<u64>,
    /// Whether the operand is in the second of its [places](GpuCell::places).
    pub moved: bool,
    pub table: RowTable,
    pub states: StatePool,
    pub tail: Tail,
}

/// The rows of a cell's batch on a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowTable {
    pub rows: u64,
    pub inputs: u64,
    /// The number of launches since the gather.
    pub age: u64,
}

/// The addresses of a worker's states and words.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatePool {
    pub pool: u64,
    /// The distance of two states, as [`stride`] gives it.
    pub width: u32,
    pub non_finite: u64,
    pub words: u64,
}

/// The counters that the end of a launch updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub arrived: u64,
    pub counted: u64,
    pub host: u64,
    pub signals: bool,
}

/// The most blocks in y of a grid; kernels loop over further rows.
const MOST_ROWS: u32 = 65535;

impl WorkSetup<'_> {
    /// A launch of a kernel whose threads share the `units` of every row.
    fn call(&self, kernel: &str, units: u32, arguments: impl Argument) -> PlannedWork {
        self.call_rows(kernel, units, self.shape.rows, arguments)
    }

    /// A launch over some of the rows.
    fn call_rows(
        &self,
        kernel: &str,
        units: u32,
        rows: u32,
        arguments: impl Argument,
    ) -> PlannedWork {
        let rows = rows.min(MOST_ROWS);
        let grid = (blocks(units, rows, self.multiprocessors), rows);
        PlannedWork::Kernel(KernelCall::new(
            self.kernels.function(kernel),
            grid,
            arguments,
        ))
    }

    /// A launch of a kernel that computes all rows of a gated cell by itself.
    fn fused_call(
        &self,
        kernel: &str,
        weights: &FusedWeights,
        arguments: impl Argument,
    ) -> PlannedWork {
        let rows = self.shape.rows.div_ceil(fused::ROWS).clamp(1, MOST_ROWS);
        let grid = (weights.product.units.div_ceil(fused::UNITS), rows);
        PlannedWork::Kernel(KernelCall::new(
            self.kernels.function(kernel),
            grid,
            arguments,
        ))
    }

    /// A launch of a gather over `units` of every row. It has as few blocks as possible, because each reads the host's
    /// memory. The kernel's arguments are the staged rows, which are set for each batch, the table, `arguments`, and
    /// the age.
    fn gathering(&self, kernel: &str, units: u32, arguments: impl Argument) -> KernelCall {
        let grid = (fewest_blocks(units), self.shape.rows.min(MOST_ROWS));
        let staged = (0u64, 0u64, 0u32);
        KernelCall::new(
            self.kernels.function(kernel),
            grid,
            (staged, self.table(), arguments, self.table.age),
        )
    }

    /// A launch that changes single rows, of each of which the threads share the `units`. The kernel's arguments are
    /// the changes, the table's rows, `arguments`, and the age. Each launch sets how many rows change.
    fn changing(&self, kernel: &str, units: u32, arguments: impl Argument) -> KernelCall {
        let rows = self.shape.rows.min(MOST_CHANGES as u32);
        let grid = (blocks(units, rows, self.multiprocessors), 1);
        let function = self.kernels.function(kernel);
        let arguments = (0u64, self.table.rows, arguments, self.table.age);
        KernelCall::new(function, grid, arguments).with_changes()
    }

    /// A product of an operand with a matrix. `rows` is the number of the operand's rows, and `stride` is their
    /// distance.
    fn product(
        &self,
        operand: u64,
        stride: u32,
        rows: u32,
        weights: &Matrix,
        result: u64,
    ) -> PlannedWork {
        let Matrix {
            outputs, inputs, ..
        } = *weights;
        PlannedWork::Product(GpuProduct {
            stride,
            ..GpuProduct::contiguous([rows, inputs, outputs], operand, weights.address(), result)
        })
    }

    /// The arguments by which a kernel finds the rows of the batch.
    fn table(&self) -> impl Argument + use<> {
        (self.table.rows, self.table.inputs, self.shape.rows)
    }

    /// The widths of an input and of a state's h.
    fn widths(&self) -> impl Argument + use<> {
        (self.spec.embedding, self.spec.hidden)
    }

    /// The larger of the two widths.
    fn widest(&self) -> u32 {
        self.spec.embedding.max(self.spec.hidden)
    }

    /// The address of the pool and the distance of its states.
    fn pool(&self) -> impl Argument + use<> {
        (self.states.pool, self.states.width)
    }

    /// The table, and the states with their flags.
    fn states(&self) -> impl Argument + use<> {
        (self.table(), self.pool(), self.states.non_finite)
    }

    /// The arguments from which a kernel derives a node's word and its embedding.
    fn words(&self, embedding: &GpuMemory) -> impl Argument + use<> {
        (embedding.address(), self.spec.seed, self.spec.vocabulary)
    }

    /// The last arguments of the last kernel.
    fn tail(&self) -> impl Argument + use<> {
        let Tail {
            arrived,
            counted,
            host,
            signals,
        } = self.tail;
        (arrived, self.table.age, counted, host, u32::from(signals))
    }
}

/// The number of blocks that share the units of one row. With few rows each thread takes one unit, to fill the GPU;
/// with many rows it takes several, which it reads together.
fn blocks(units: u32, rows: u32, multiprocessors: u32) -> u32 {
    /// The blocks of 256 threads that a multiprocessor holds.
    const HELD: u32 = 8;
    let one_each = units.div_ceil(BLOCK).max(1);
    let enough = multiprocessors * HELD;
    if rows.saturating_mul(one_each) <= enough {
        one_each
    } else {
        fewest_blocks(units)
    }
}

/// The smallest number of blocks for the units of one row.
fn fewest_blocks(units: u32) -> u32 {
    /// The units that a thread reads at a time, if it has this number of units.
    const AT_ONCE: u32 = 4;
    units.div_ceil(BLOCK * AT_ONCE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_are_spread_over_more_blocks() {
        assert_eq!(blocks(1024, 1, 132), 4);
        assert_eq!(blocks(1024, 264, 132), 4);
        assert_eq!(blocks(1024, 512, 132), 1);
        assert_eq!(blocks(1, 1 << 20, 132), 1);
        assert_eq!([1, 1024, 1025].map(fewest_blocks), [1, 1, 2]);
    }

    #[test]
    fn states_begin_on_multiples_of_four() {
        assert_eq!([1, 4, 2049].map(stride), [4, 4, 2052]);
    }
}
