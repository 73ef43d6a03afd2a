//! The canonical GRU: the reset gate stands before the recurrent product, so that there are two products, one behind the
//! other, over \[x|h\] and \[x|r∘h\].

use std::sync::Arc;

use super::super::weights::Columns;
use super::{Buffer, Call, Cell, Fault, Ground, Kernel, Matrix, Shape, Upload, Work};
use crate::backend::cuda::gpu::memory::Memory;

/// The cell of a chain.
#[derive(Debug)]
pub(in super::super) struct Gru {
    embedding: Arc<Memory>,
    /// \[x|h\] to the gates r and z.
    gates: Matrix,
    /// \[x|r∘h\] to the new value n.
    candidate: Matrix,
    /// Of r, z and n.
    bias: Memory,
    hidden: u32,
    width: u32,
}

/// The places of the buffers.
const OPERAND: usize = 0;
const CANDIDATE: usize = 1;
const GATES: usize = 2;
const VALUES: usize = 3;

impl Gru {
    /// The cell with the weights `gru.*`.
    pub fn new(upload: &mut Upload<'_>) -> Result<Gru, Fault> {
        let (hidden, width) = (upload.spec.hidden, upload.spec.embedding);
        let rows = |rows: std::ops::Range<u32>| {
            [
                Columns { tensor: "gru.weight_ih", width, rows: rows.clone() },
                Columns { tensor: "gru.weight_hh", width: hidden, rows },
            ]
        };
        Ok(Gru {
            embedding: upload.table("embedding.weight")?,
            gates: upload.matrix(&rows(0..2 * hidden))?,
            candidate: upload.matrix(&rows(2 * hidden..3 * hidden))?,
            bias: upload.bias("gru.bias")?,
            hidden,
            width,
        })
    }

    /// The numbers in a row of either operand.
    fn operand(&self) -> u32 {
        self.width + self.hidden
    }
}

impl Cell for Gru {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let of_rows = |width: u32| of.rows as usize * width as usize;
        vec![
            Buffer::Elements(of_rows(self.operand())),
            Buffer::Elements(of_rows(self.operand())),
            Buffer::Floats(of_rows(2 * self.hidden)),
            Buffer::Floats(of_rows(self.hidden)),
        ]
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        let arguments = at
            .staged()
            .address(at.states.pool)
            .number(at.states.width)
            .words(self.embedding.address(), at.spec)
            .number(0)
            .address(at.buffers[OPERAND])
            .number(self.width)
            .number(self.hidden)
            .address(at.table.age);
        at.gathering(Kernel::GatherChain, self.hidden.max(self.width), arguments)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        let [operand, candidate, gates, values] = [OPERAND, CANDIDATE, GATES, VALUES].map(|place| at.buffers[place]);
        let units = self.hidden.max(self.width);
        let reset = at
            .table()
            .address(at.states.pool)
            .number(at.states.width)
            .address(gates)
            .address(self.bias.address())
            .address(operand)
            .address(candidate)
            .number(self.width)
            .number(self.hidden)
            .address(at.table.age);
        let update = at
            .states()
            .words(self.embedding.address(), at.spec)
            .address(operand)
            .address(gates)
            .address(values)
            .address(self.bias.address())
            .number(self.width)
            .number(self.hidden)
            .tail(at);
        vec![
            at.product(operand, self.operand(), at.rows, &self.gates, gates),
            Work::Kernel(at.call(Kernel::GruReset, units, reset)),
            at.product(candidate, self.operand(), at.rows, &self.candidate, values),
            Work::Kernel(at.call(Kernel::GruUpdate, units, update)),
        ]
    }
}
