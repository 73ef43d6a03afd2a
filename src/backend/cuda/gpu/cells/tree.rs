//! The binary tree-LSTM. A leaf's operand is \[x\], an internal node's \[h of the left|h of the right\].

use std::sync::Arc;

use super::super::weights::Columns;
use super::{Buffer, Call, Cell, Fault, Ground, Kernel, Matrix, Shape, Upload, Work};
use crate::backend::cuda::gpu::memory::Memory;

/// The places of the buffers.
const OPERAND: usize = 0;
const PRODUCT: usize = 1;

/// A node without children.
#[derive(Debug)]
pub(in super::super) struct Leaf {
    embedding: Arc<Memory>,
    /// x to the gates i, o, u.
    gates: Matrix,
    bias: Memory,
    hidden: u32,
    width: u32,
}

impl Leaf {
    /// The cell with the weights `leaf.*`.
    pub fn new(upload: &mut Upload<'_>) -> Result<Leaf, Fault> {
        Leaf::named(upload, "leaf.weight", "leaf.bias")
    }

    /// The leaf of a child-sum tree, of whose equations nothing else is left without children.
    pub fn childsum(upload: &mut Upload<'_>) -> Result<Leaf, Fault> {
        Leaf::named(upload, "childsum.weight_iou_x", "childsum.bias_iou")
    }

    fn named(upload: &mut Upload<'_>, tensor: &str, bias: &str) -> Result<Leaf, Fault> {
        let (hidden, width) = (upload.spec.hidden, upload.spec.embedding);
        let gates = upload.matrix(&[Columns { tensor, width, rows: 0..3 * hidden }])?;
        Ok(Leaf { embedding: upload.table("embedding.weight")?, gates, bias: upload.bias(bias)?, hidden, width })
    }
}

impl Cell for Leaf {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let of_rows = |width: u32| of.rows as usize * width as usize;
        vec![Buffer::Elements(of_rows(self.width)), Buffer::Floats(of_rows(self.gates.outputs))]
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        let arguments = at
            .staged()
            .words(self.embedding.address(), at.spec)
            .address(at.buffers[OPERAND])
            .number(self.width)
            .address(at.table.age);
        at.gathering(Kernel::GatherLeaf, self.width, arguments)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        let (operand, product) = (at.buffers[OPERAND], at.buffers[PRODUCT]);
        let arguments = at.states().address(product).address(self.bias.address()).number(self.hidden).tail(at);
        vec![
            at.product(operand, self.width, at.rows, &self.gates, product),
            Work::Kernel(at.call(Kernel::StepLeaf, self.hidden, arguments)),
        ]
    }
}

/// A node with one or two children.
#[derive(Debug)]
pub(in super::super) struct Internal {
    /// \[h of the left|h of the right\] to the gates i, o, u and the forget gates of the left and the right.
    gates: Matrix,
    bias: Memory,
    hidden: u32,
}

impl Internal {
    /// The cell with the weights `internal.*`.
    pub fn new(upload: &mut Upload<'_>) -> Result<Internal, Fault> {
        let hidden = upload.spec.hidden;
        let side = |tensor| Columns { tensor, width: hidden, rows: 0..5 * hidden };
        let gates = upload.matrix(&["internal.weight_left", "internal.weight_right"].map(side))?;
        Ok(Internal { gates, bias: upload.bias("internal.bias")?, hidden })
    }
}

impl Cell for Internal {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let of_rows = |width: u32| of.rows as usize * width as usize;
        vec![Buffer::Elements(of_rows(self.gates.inputs)), Buffer::Floats(of_rows(self.gates.outputs))]
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        let arguments = at
            .staged()
            .address(at.states.pool)
            .number(at.states.width)
            .address(at.buffers[OPERAND])
            .number(self.hidden)
            .address(at.table.age);
        at.gathering(Kernel::GatherPair, self.hidden, arguments)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        let (operand, product) = (at.buffers[OPERAND], at.buffers[PRODUCT]);
        let arguments = at.states().address(product).address(self.bias.address()).number(self.hidden).tail(at);
        vec![
            at.product(operand, self.gates.inputs, at.rows, &self.gates, product),
            Work::Kernel(at.call(Kernel::StepPair, self.hidden, arguments)),
        ]
    }
}
