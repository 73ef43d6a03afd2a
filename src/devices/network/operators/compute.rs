//! The computation of each kind of operator on a batch. The bits of a query depend on neither the batch nor its
//! padding: zeros are added last and change nothing.

use rten_simd::Isa;
use rten_simd::ops::{BitOps, NumOps};

use super::activations::{Activations, cycle};
use crate::core::workload::dnn::{Form, FormKind, QueryWork};
use crate::devices::network::elementwise::{Formula, apply, tanh};
use crate::devices::network::product::{MatrixRows, PackedWeights, multiply};
use crate::devices::network::{Scratch, first};

/// A factor on all sums, with which numbers neither fade nor saturate over a hundred operators.
const GAIN: f32 = 5.0 / 3.0;

/// The matrix rows that a product computes at once. More rows would only take more memory.
const BLOCK: usize = 256;

/// tanh(a x).
#[derive(Clone, Copy)]
struct Squash(f32);

impl Squash {
    fn from_work(work: &QueryWork) -> Squash {
        Squash(slope(work))
    }

    fn put(self, sums: &[f32], into: &mut [f32]) {
        apply(self, [sums], [into]);
    }
}

impl Formula<1, 1> for Squash {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, [x]: [I::F32; 1], _: [I::F32; 1]) -> [I::F32; 1] {
        let ops = isa.f32();
        [tanh(isa, ops.mul(x, ops.splat(self.0)))]
    }
}

/// The factor by which an operator scales its sums. Numbers between -1 and 1 have a mean square of a third.
pub fn slope(work: &QueryWork) -> f32 {
    match work.kind {
        FormKind::Memory => GAIN,
        _ => GAIN * (3.0 / work.inner as f32).sqrt(),
    }
}

pub fn reads(work: &QueryWork) -> u64 {
    let left = work.count * work.rows * work.inner;
    match work.kind {
        FormKind::Matmul => left,
        FormKind::BatchedMatmul => left + work.count * work.inner * work.columns,
        FormKind::Memory => half(work) as u64,
    }
}

pub fn writes(work: &QueryWork) -> u64 {
    match work.kind {
        FormKind::Memory => half(work) as u64,
        _ => work.count * work.rows * work.columns,
    }
}

/// Half of a memory operator's elements: it reads one half and writes the other.
fn half(work: &QueryWork) -> usize {
    work.elements.div_ceil(2).max(1) as usize
}

/// Multiplies by the weights of each group. A row has the inputs of all groups, and its result has their outputs.
pub fn matmul(
    form: &Form,
    padded: &QueryWork,
    groups: &[PackedWeights],
    x: &Activations,
    y: &mut Activations,
    scratch: &mut Scratch,
) {
    let rows = padded.rows as usize;
    let inner = padded.inner as usize;
    let columns = padded.columns as usize;
    let wide = groups.len() * inner;
    let out = groups.len() * columns;
    let own_rows = |tokens: u32| form.work(tokens).rows as usize;
    let y = y.lay_out(x, rows * out, |tokens| own_rows(tokens) * out);
    let as_they_stand = x.as_slots(rows * wide, |tokens| own_rows(tokens) * wide);
    let squash = Squash::from_work(padded);
    let total = x.queries() * rows;
    for begin in (0..total).step_by(BLOCK) {
        let count = BLOCK.min(total - begin);
        let operand = match as_they_stand {
            Some(numbers) => &numbers[begin * wide..(begin + count) * wide],
            None => gather_left(
                x,
                rows,
                wide,
                begin,
                first(&mut scratch.operand, count * wide),
            ),
        };
        let y = &mut y[begin * out..(begin + count) * out];
        for (group, product) in groups.iter().enumerate() {
            for panel in &product.panels {
                let left = MatrixRows {
                    data: &operand[group * inner..],
                    stride: wide,
                    count,
                };
                let sums = panel.multiply(left, &mut scratch.product);
                let units = panel.units();
                if units.len() == out {
                    squash.put(sums, y);
                    continue;
                }
                let place = group * columns + units.start;
                for (sums, y) in sums.chunks_exact(units.len()).zip(y.chunks_exact_mut(out)) {
                    squash.put(sums, &mut y[place..place + units.len()]);
                }
            }
        }
    }
}

/// Gathers the left matrix from row `begin` on.
fn gather_left<'a>(
    x: &Activations,
    rows: usize,
    wide: usize,
    begin: usize,
    into: &'a mut [f32],
) -> &'a [f32] {
    let end = begin + into.len() / wide;
    for query in begin / rows..end.div_ceil(rows) {
        let from = begin.max(query * rows);
        let to = end.min((query + 1) * rows);
        let part = &mut into[(from - begin) * wide..(to - begin) * wide];
        cycle(x.values(query), (from - query * rows) * wide, part);
    }
    into
}

/// Multiplies each query's left matrices by its right ones, all padded with zeros. Its activation begins with the left
/// ones.
pub fn batched_matmul(
    form: &Form,
    padded: &QueryWork,
    x: &Activations,
    y: &mut Activations,
    scratch: &mut Scratch,
) {
    // The library's products of a single row have other bits.
    let rows = padded.rows.max(2) as usize;
    let inner = padded.inner as usize;
    let columns = padded.columns as usize;
    let slot = writes(padded) as usize;
    let y = y.lay_out(x, slot, |tokens| writes(&form.work(tokens)) as usize);
    let Scratch {
        operand,
        more,
        product,
    } = scratch;
    for (query, y) in (0..x.queries()).zip(y.chunks_exact_mut(slot)) {
        let numbers = x.values(query);
        let own = form.work(x.tokens(query));
        let own_count = own.count as usize;
        let own_rows = own.rows as usize;
        let own_inner = own.inner as usize;
        let own_columns = own.columns as usize;
        let squash = Squash::from_work(&own);
        let left_size = own_rows * own_inner;
        let right_size = own_inner * own_columns;
        for place in 0..padded.count as usize {
            let is_own = !numbers.is_empty() && place < own_count;
            let own = |size: [usize; 2]| if is_own { size } else { [0, 0] };
            let left = matrix(
                [rows, inner],
                own([own_rows, own_inner]),
                numbers,
                place * left_size,
                operand,
            );
            let from = own_count * left_size + place * right_size;
            let right = matrix(
                [inner, columns],
                own([own_inner, own_columns]),
                numbers,
                from,
                more,
            );
            let sums = multiply(
                MatrixRows {
                    data: left,
                    stride: inner,
                    count: rows,
                },
                inner,
                right,
                columns,
                product,
            );
            if is_own {
                let size = own_rows * own_columns;
                let y = y[place * size..(place + 1) * size].chunks_exact_mut(own_columns);
                sums.chunks_exact(columns)
                    .zip(y)
                    .for_each(|(sums, y)| squash.put(&sums[..own_columns], y));
            }
        }
    }
}

/// A matrix of `rows` and `columns`, in place or gathered in `memory`. The query has its first `own` rows and columns;
/// the rest is zeros.
fn matrix<'a>(
    [rows, columns]: [usize; 2],
    own: [usize; 2],
    numbers: &'a [f32],
    from: usize,
    memory: &'a mut Vec<f32>,
) -> &'a [f32] {
    let whole = from..from + rows * columns;
    if own == [rows, columns] && whole.end <= numbers.len() {
        return &numbers[whole];
    }
    let matrix = first(memory, rows * columns);
    matrix.fill(0.0);
    for (row, matrix) in matrix.chunks_exact_mut(columns).take(own[0]).enumerate() {
        cycle(numbers, from + row * own[1], &mut matrix[..own[1]]);
    }
    matrix
}

pub fn memory(
    form: &Form,
    padded: &QueryWork,
    x: &Activations,
    y: &mut Activations,
    scratch: &mut Scratch,
) {
    let slot = half(padded);
    let y = y.lay_out(x, slot, |tokens| half(&form.work(tokens)));
    for (query, y) in (0..x.queries()).zip(y.chunks_exact_mut(slot)) {
        let numbers = x.values(query);
        let read = if slot <= numbers.len() {
            &numbers[..slot]
        } else {
            let read = first(&mut scratch.operand, slot);
            cycle(numbers, 0, read);
            read
        };
        Squash::from_work(padded).put(read, y);
    }
}
