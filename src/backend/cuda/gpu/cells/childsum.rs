//! A node of the child-sum tree-LSTM that has children. The operand is \[x|Σh\]; the children's h are rows of an operand of
//! their own, because each has a forget gate.

use std::sync::Arc;

use super::super::weights::Columns;
use super::{Buffer, Call, Cell, Fault, Ground, Kernel, Matrix, Shape, Upload, Work};
use crate::backend::cuda::gpu::memory::Memory;

/// The cell.
#[derive(Debug)]
pub(in super::super) struct Internal {
    embedding: Arc<Memory>,
    /// \[x|Σh\] to the gates i, o, u.
    gates: Matrix,
    gates_bias: Memory,
    /// x to its part of the forget gates.
    forget_word: Matrix,
    /// A child's h to its part of its forget gate.
    forget_child: Matrix,
    forget_bias: Memory,
    hidden: u32,
    width: u32,
}

/// The places of the buffers.
const OPERAND: usize = 0;
const CHILDREN: usize = 1;
const GATES: usize = 2;
const FORGET_WORD: usize = 3;
const FORGET_CHILD: usize = 4;

impl Internal {
    /// The cell with the weights `childsum.*`.
    pub fn new(upload: &mut Upload<'_>) -> Result<Internal, Fault> {
        let (hidden, width) = (upload.spec.hidden, upload.spec.embedding);
        let columns = |tensor, width, rows| Columns { tensor, width, rows: 0..rows };
        Ok(Internal {
            embedding: upload.table("embedding.weight")?,
            gates: upload.matrix(&[
                columns("childsum.weight_iou_x", width, 3 * hidden),
                columns("childsum.weight_iou_h", hidden, 3 * hidden),
            ])?,
            gates_bias: upload.bias("childsum.bias_iou")?,
            forget_word: upload.matrix(&[columns("childsum.weight_f_x", width, hidden)])?,
            forget_child: upload.matrix(&[columns("childsum.weight_f_h", hidden, hidden)])?,
            forget_bias: upload.bias("childsum.bias_f")?,
            hidden,
            width,
        })
    }
}

impl Cell for Internal {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let (rows, inputs, hidden) = (of.rows as usize, of.inputs as usize, self.hidden as usize);
        vec![
            Buffer::Elements(rows * (self.width as usize + hidden)),
            Buffer::Elements(inputs * hidden),
            Buffer::Floats(rows * 3 * hidden),
            Buffer::Floats(rows * hidden),
            Buffer::Floats(inputs * hidden),
        ]
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        let arguments = at
            .staged()
            .address(at.states.pool)
            .number(at.states.width)
            .words(self.embedding.address(), at.spec)
            .address(at.buffers[OPERAND])
            .address(at.buffers[CHILDREN])
            .number(at.inputs)
            .number(self.width)
            .number(self.hidden)
            .address(at.table.age);
        at.gathering(Kernel::GatherSum, self.hidden.max(self.width), arguments)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        let [operand, children, gates, forget_word, forget_child] =
            [OPERAND, CHILDREN, GATES, FORGET_WORD, FORGET_CHILD].map(|place| at.buffers[place]);
        let stride = self.width + self.hidden;
        let arguments = at
            .states()
            .address(gates)
            .address(self.gates_bias.address())
            .address(forget_word)
            .address(forget_child)
            .address(self.forget_bias.address())
            .number(self.hidden)
            .tail(at);
        let mut work = vec![
            at.product(operand, stride, at.rows, &self.gates, gates),
            at.product(operand, stride, at.rows, &self.forget_word, forget_word),
        ];
        // A batch without children has no rows for them.
        if at.inputs > 0 {
            work.push(at.product(children, self.hidden, at.inputs, &self.forget_child, forget_child));
        }
        work.push(Work::Kernel(at.call(Kernel::StepSum, self.hidden, arguments)));
        work
    }
}
