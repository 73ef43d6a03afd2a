//! The cells as GPUs run them, a file each: which kernels and products, over which memory.

mod childsum;
mod gru;
mod listed;
mod lstm;
mod sequences;
mod tree;

use std::sync::Arc;

pub(super) use self::sequences::Sequences;
use super::call::{Arguments, BLOCK, Call};
use super::compile::{Kernel, Kernels};
use super::cublas::{Pairs, Product};
use super::weights::{Matrix, Upload, element};
use crate::backend::cuda::device::{Fault, Shape};
use crate::gpu_settings::Precision;
use crate::network::Spec;
use crate::workload::model::Model;

/// A cell type with its weights on one GPU.
pub(super) trait Cell: std::fmt::Debug + Send {
    /// The working memory of batches up to one, as many buffers as the cell has, in its own order.
    fn buffers(&self, of: &Shape) -> Vec<Buffer>;

    /// Whether all cells of the model work in one memory of a stream, since no launch goes on from what another has left there.
    fn shares_memory(&self) -> bool {
        false
    }

    /// Whether what it queues is captured as a graph, if the settings ask for graphs: where there are a few batches, and not also many lengths.
    fn is_captured(&self) -> bool {
        !self.shares_memory()
    }

    /// What brings the batch together. Its first three arguments are set at each launch: where the host's rows stand, where
    /// their inputs stand, and how many rows there are.
    fn gather(&self, at: &Ground<'_>) -> Call;

    /// What computes the batch, in this order.
    fn work(&self, at: &Ground<'_>) -> Vec<Work>;
}

/// Several cell types with one set of weights.
impl<C: Cell + Sync> Cell for Arc<C> {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        (**self).buffers(of)
    }

    fn shares_memory(&self) -> bool {
        (**self).shares_memory()
    }

    fn is_captured(&self) -> bool {
        (**self).is_captured()
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        (**self).gather(at)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        (**self).work(at)
    }
}

/// A piece of working memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// So many elements.
    Elements(usize),
    /// So many float32.
    Floats(usize),
}

impl Buffer {
    /// Its size in a number format.
    pub fn bytes(self, precision: Precision) -> usize {
        match self {
            Buffer::Elements(count) => count * element(precision),
            Buffer::Floats(count) => count * size_of::<f32>(),
        }
    }
}

/// Something to queue.
#[derive(Debug)]
pub(super) enum Work {
    Kernel(Call),
    Product(Product),
    Pairs(Pairs),
}

/// All cells of a model that GPUs run, in the order of their types ([`Model::cell_types`]).
///
/// # Errors
/// Memory that is not there.
pub(super) fn of_model(model: &Model, upload: &mut Upload<'_>) -> Result<Vec<Box<dyn Cell>>, Fault> {
    Ok(match model {
        Model::Lstm => vec![Box::new(lstm::Lstm::chain(upload)?)],
        Model::Gru => vec![Box::new(gru::Gru::new(upload)?)],
        Model::Seq2Seq => vec![Box::new(lstm::Decoder::new(upload)?), Box::new(lstm::Lstm::encoder(upload)?)],
        Model::TreeLstm => vec![Box::new(tree::Internal::new(upload)?), Box::new(tree::Leaf::new(upload)?)],
        Model::ChildSumTreeLstm => {
            vec![Box::new(childsum::Internal::new(upload)?), Box::new(tree::Leaf::childsum(upload)?)]
        }
        Model::ChildSumByArity(most) => {
            // One set of weights, whatever the number of children.
            let internal = Arc::new(childsum::Internal::new(upload)?);
            let mut cells: Vec<Box<dyn Cell>> =
                (0..*most).map(|_| Box::new(Arc::clone(&internal)) as Box<dyn Cell>).collect();
            cells.push(Box::new(tree::Leaf::childsum(upload)?));
            cells
        }
        Model::Network(network) => listed::all(network, upload)?,
        Model::Dnn(_) | Model::Graph(_) => unreachable!("GPUs refuse the model {}", model.name()),
    })
}

/// The numbers of a state in the pool, whichever node of the model it is behind.
pub(super) fn state(model: &Model, spec: &Spec) -> usize {
    model.network().map_or_else(|| crate::network::cells::state(model, spec), listed::state)
}

/// How far states are apart in the pool, in numbers: so that each begins where four numbers can be read at once.
pub(super) fn stride(state: usize) -> u32 {
    state.next_multiple_of(4) as u32
}

/// What a cell's kernels get beside its weights: sizes, and addresses of memory.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub kernels: &'a Kernels,
    pub spec: &'a Spec,
    pub multiprocessors: u32,
    /// The bytes of an element.
    pub element: u32,
    /// The rows of the batch.
    pub rows: u32,
    /// The input states of all rows, where the cell counts them.
    pub inputs: u32,
    /// The tokens that each row is padded to, where the cell has a size.
    pub tokens: u32,
    /// The steps of each row, where they are many.
    pub steps: u32,
    /// The cell's buffers.
    pub buffers: Vec<u64>,
    pub table: Table,
    pub states: States,
    pub tail: Tail,
}

/// Where a stream keeps the rows of a cell's batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub rows: u64,
    pub inputs: u64,
    /// The launches since the gather.
    pub age: u64,
}

/// The states of a worker's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct States {
    pub pool: u64,
    /// [`stride`].
    pub width: u32,
    pub non_finite: u64,
    pub words: u64,
}

/// What the end of a launch counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub arrived: u64,
    pub counted: u64,
    pub host: u64,
    pub signals: bool,
}

/// The most rows of blocks that a grid has; kernels take the rows behind them too.
const MOST_ROWS: u32 = 65535;

impl Ground<'_> {
    /// A launch of a kernel whose threads share out so many units of every row.
    fn call(&self, kernel: Kernel, units: u32, arguments: Arguments) -> Call {
        self.call_rows(kernel, units, self.rows, arguments)
    }

    /// The same for one that reads the host's rows: as few blocks a row as there may be, since each of them asks the host.
    fn gathering(&self, kernel: Kernel, units: u32, arguments: Arguments) -> Call {
        Call::new(self.kernels.function(kernel), (fewest_blocks(units), self.rows.min(MOST_ROWS)), arguments)
    }

    /// The same for some of the rows.
    fn call_rows(&self, kernel: Kernel, units: u32, rows: u32, arguments: Arguments) -> Call {
        let rows = rows.min(MOST_ROWS);
        Call::new(self.kernels.function(kernel), (blocks(units, rows, self.multiprocessors), rows), arguments)
    }

    /// A product with a matrix: the operand, how far its rows are apart, and how many there are.
    fn product(&self, operand: u64, stride: u32, rows: u32, weights: &Matrix, result: u64) -> Work {
        let Matrix { outputs, inputs, .. } = *weights;
        Work::Product(Product {
            operand,
            stride,
            weights: weights.address(),
            result,
            result_stride: outputs,
            rows,
            inputs,
            outputs,
        })
    }

    /// The first arguments of a gather, which are set when it is launched, and the table that it writes.
    fn staged(&self) -> Arguments {
        let staged = Arguments::default().address(0).address(0).number(0);
        staged.address(self.table.rows).address(self.table.inputs).number(self.rows)
    }

    /// The first arguments of all others: the table.
    fn table(&self) -> Arguments {
        Arguments::default().address(self.table.rows).address(self.table.inputs).number(self.rows)
    }

    /// The table and the states.
    fn states(&self) -> Arguments {
        self.table().address(self.states.pool).number(self.states.width).address(self.states.non_finite)
    }
}

impl Arguments {
    /// What gives a node its word.
    fn words(self, embedding: u64, spec: &Spec) -> Arguments {
        self.address(embedding).long(spec.seed).number(spec.vocabulary)
    }

    /// The same for a kernel that has been given the launches since the gather.
    fn ending(self, at: &Ground<'_>) -> Arguments {
        let Tail { arrived, counted, host, signals } = at.tail;
        self.address(arrived).address(counted).address(host).number(signals.into())
    }

    /// What the last kernel ends with.
    fn tail(self, at: &Ground<'_>) -> Arguments {
        let Tail { arrived, counted, host, signals } = at.tail;
        self.address(arrived).address(at.table.age).address(counted).address(host).number(signals.into())
    }
}

/// How many blocks share out the units of one row. A batch of few rows fills the GPU with a unit a thread; one of many rows
/// leaves a thread several, which it reads together.
fn blocks(units: u32, rows: u32, multiprocessors: u32) -> u32 {
    /// Blocks that a multiprocessor holds at once: 2048 threads.
    const HELD: u32 = 8;
    let one_each = units.div_ceil(BLOCK).max(1);
    let enough = multiprocessors * HELD;
    if rows.saturating_mul(one_each) <= enough { one_each } else { fewest_blocks(units) }
}

/// The blocks of a row whose threads all have several units.
fn fewest_blocks(units: u32) -> u32 {
    /// The units that a thread reads at once, if it has so many.
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
