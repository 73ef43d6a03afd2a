//! The operators of a listed network (`docs/NETWORKS.md`). A query's state is its activation, which is the output of
//! the operator before. The length of the activation follows, behind the room for the longest one.
//!
//! An operator gathers its operand from the states, multiplies it, and writes the hyperbolic tangent of the product to
//! the states. It processes a few queries at a time to keep the operand small, because the operand of a convolution
//! contains each number many times.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Argument, BatchShape, BufferSize, DeviceFault, GpuCell, GpuMemory, GpuProduct, Matrix,
    PlannedWork, Tail, Upload, WorkSetup,
};
use crate::core::workload::dnn::{Dnn, Form, FormKind, QueryWork as Sizes};
use crate::devices::network::operators::{reads, slope, tensor, writes};

/// The largest operand or product in memory, in numbers, unless a single query has more.
const AT_ONCE: u64 = 1 << 24;

/// The indices of the buffers.
const OPERAND: usize = 0;
const PRODUCT: usize = 1;

/// The size of a state, in numbers: the widest activation, and the length of the present one.
pub fn state(network: &Dnn) -> usize {
    widest(network) as usize + 1
}

/// The largest output of an operator for one query, in numbers.
fn widest(network: &Dnn) -> u32 {
    let most = network.most_tokens.unwrap_or(0);
    network
        .distinct()
        .iter()
        .map(|operator| writes(&operator.form.work(most)) as u32)
        .max()
        .unwrap_or(0)
}

/// All operators of a network, in the order of their cell types.
pub fn all(network: &Dnn, upload: &Upload<'_>) -> Result<Vec<Box<dyn GpuCell>>, DeviceFault> {
    // Layers of equal shape share the kernels' table of sizes, which has an entry for each number of tokens.
    let mut known: BTreeMap<&Form, Arc<GpuMemory>> = BTreeMap::new();
    let mut cells: Vec<Box<dyn GpuCell>> = Vec::new();
    for operator in network.distinct() {
        let weights = tensor(operator)
            .map(|(tensor, _)| upload.matrix(&[&tensor]))
            .transpose()?;
        let own = match known.get(&operator.form) {
            Some(own) => Arc::clone(own),
            None => {
                let sizes = (0..=network.most_tokens.unwrap_or(0))
                    .flat_map(|tokens| query_sizes(&operator.form.work(tokens)));
                let own: Vec<u8> = sizes.flat_map(u32::to_le_bytes).collect();
                let own = Arc::new(GpuMemory::with_bytes(
                    upload.gpu,
                    &own,
                    "an operator's sizes",
                )?);
                known.insert(&operator.form, Arc::clone(&own));
                own
            }
        };
        cells.push(Box::new(GpuOperator {
            form: operator.form.clone(),
            weights,
            own,
            length_at: widest(network),
        }));
    }
    Ok(cells)
}

/// The sizes that kernels read for a query, in the layout of their `Own`.
fn query_sizes(work: &Sizes) -> [u32; 7] {
    let [count, rows, columns] = written_matrices(work);
    [
        count,
        rows,
        work.inner as u32,
        columns,
        reads(work) as u32,
        writes(work) as u32,
        slope(work).to_bits(),
    ]
}

/// The matrices that an operator writes for a query: number, rows and columns.
fn written_matrices(work: &Sizes) -> [u32; 3] {
    let [count, rows, columns] = match work.kind {
        FormKind::Matmul => [1, work.rows, work.count * work.columns],
        FormKind::BatchedMatmul => [work.count, work.rows, work.columns],
        FormKind::Memory => [1, 1, writes(work)],
    };
    [count as u32, rows as u32, columns as u32]
}

/// An operator of a listed network.
#[derive(Debug)]
struct GpuOperator {
    form: Form,
    /// The weights of all groups, one below the other, or `None` for an operator without weights.
    weights: Option<Matrix>,
    /// The sizes that [`query_sizes`] gives for each number of tokens.
    own: Arc<GpuMemory>,
    /// The index of an activation's length in a state.
    length_at: u32,
}

/// Some consecutive queries of a batch.
#[derive(Clone, Copy)]
struct GpuQueries {
    from: u32,
    count: u32,
}

impl GpuOperator {
    /// The number of queries of these sizes that are processed at a time.
    fn simultaneous_queries(&self, padded: &Sizes, rows: u32) -> u32 {
        let largest = reads(padded).max(writes(padded)).max(1);
        (AT_ONCE / largest).clamp(1, u64::from(rows.max(1))) as u32
    }

    /// The first arguments of kernels that read the states.
    fn queries(&self, at: &WorkSetup<'_>, some: GpuQueries) -> impl Argument {
        (
            at.table.rows,
            some.from,
            some.count,
            at.pool(),
            self.length_at,
            self.own.address(),
            at.table.age,
        )
    }

    /// Writes the operand of some queries.
    fn operand(&self, at: &WorkSetup<'_>, padded: &Sizes, some: GpuQueries) -> PlannedWork {
        let units = reads(padded) as u32;
        let [operand, product] = [OPERAND, PRODUCT].map(|place| at.buffers[place]);
        let read = (self.queries(at, some), at.spec.seed);
        match padded.kind {
            FormKind::Matmul => {
                at.call_rows("operand_rows", units, some.count, (read, operand, units))
            }
            FormKind::Memory => {
                at.call_rows("copy_numbers", units, some.count, (read, product, units))
            }
            FormKind::BatchedMatmul => {
                let [groups, rows, inner, columns] = sizes(padded);
                let pairs = (
                    operand,
                    right_of(at, padded, some),
                    (groups, rows, inner, columns),
                );
                at.call_rows("operand_pairs", units, some.count, (read, pairs))
            }
        }
    }

    /// The products of some queries.
    fn products(&self, at: &WorkSetup<'_>, padded: &Sizes, some: GpuQueries) -> Vec<PlannedWork> {
        let operand = at.buffers[OPERAND];
        let result = at.buffers[PRODUCT];
        let [groups, rows, inner, columns] = sizes(padded);
        let size = u64::from(columns) * u64::from(inner);
        match (padded.kind, &self.weights) {
            (FormKind::Matmul, Some(weights)) => (0..groups)
                .map(|group| {
                    let operand = operand + u64::from(group * inner * at.element);
                    let weights =
                        weights.address() + u64::from(group) * size * u64::from(at.element);
                    let result = result + u64::from(group * columns) * size_of::<f32>() as u64;
                    PlannedWork::Product(GpuProduct {
                        stride: groups * inner,
                        result_stride: groups * columns,
                        ..GpuProduct::contiguous(
                            [some.count * rows, inner, columns],
                            operand,
                            weights,
                            result,
                        )
                    })
                })
                .collect(),
            (FormKind::BatchedMatmul, _) => {
                let right = right_of(at, padded, some);
                let pairs = Some(some.count * groups);
                vec![PlannedWork::Product(GpuProduct {
                    pairs,
                    ..GpuProduct::contiguous([rows, inner, columns], operand, right, result)
                })]
            }
            _ => Vec::new(),
        }
    }

    /// Writes the results of some queries to their states; the last queries end the launch.
    fn squash(&self, at: &WorkSetup<'_>, padded: &Sizes, some: GpuQueries) -> PlannedWork {
        let [count, rows, columns] = written_matrices(padded);
        let is_last = u32::from(some.from + some.count >= at.shape.rows);
        let Tail {
            arrived,
            counted,
            host,
            signals,
        } = at.tail;
        let product = (
            at.states.non_finite,
            at.buffers[PRODUCT],
            count,
            rows,
            columns,
        );
        let ending = (is_last, arrived, counted, host, u32::from(signals));
        at.call_rows(
            "squash",
            writes(padded) as u32,
            some.count,
            (self.queries(at, some), product, ending),
        )
    }
}

fn sizes(work: &Sizes) -> [u32; 4] {
    [work.count, work.rows, work.inner, work.columns].map(|size| size as u32)
}

/// The address of the right matrices of some queries' operand, which follow all left ones.
fn right_of(at: &WorkSetup<'_>, padded: &Sizes, some: GpuQueries) -> u64 {
    let left = padded.count * padded.rows * padded.inner * u64::from(some.count);
    at.buffers[OPERAND] + left * u64::from(at.element)
}

impl GpuCell for GpuOperator {
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        let padded = self.form.work(shape.tokens);
        let queries = self.simultaneous_queries(&padded, shape.rows) as usize;
        let operand = reads(&padded) as usize;
        let product = writes(&padded) as usize;
        let operand = if padded.kind == FormKind::Memory {
            0
        } else {
            operand
        };
        vec![
            BufferSize::Elements(queries * operand),
            BufferSize::Floats(queries * product),
        ]
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        let padded = self.form.work(at.shape.tokens);
        let step = self.simultaneous_queries(&padded, at.shape.rows);
        let all = (0..at.shape.rows).step_by(step as usize);
        all.flat_map(|from| {
            let some = GpuQueries {
                from,
                count: step.min(at.shape.rows - from),
            };
            let operand = self.operand(at, &padded, some);
            let squash = self.squash(at, &padded, some);
            [operand]
                .into_iter()
                .chain(self.products(at, &padded, some))
                .chain([squash])
        })
        .collect()
    }
}
