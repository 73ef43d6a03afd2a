//! The tree-LSTMs, binary and child-sum. The operand of a leaf is \[x\], of a binary internal node \[h of the left|h of
//! the right\], of a child-sum node \[x|Σh\].

use std::sync::Arc;

use super::{Buffer, Call, Cell, Fault, Kernel, Matrix, Memory, Setup, Shape, Upload, Work, operand_and_product};

/// A node without children.
#[derive(Debug)]
pub(in super::super) struct Leaf {
    embedding: Arc<Memory>,
    /// x to the gates i, o, u.
    gates: Matrix,
    bias: Arc<Memory>,
}

impl Leaf {
    pub fn new(upload: &mut Upload<'_>, tensor: &str, bias: &str) -> Result<Leaf, Fault> {
        let gates = upload.matrix(&[tensor])?;
        Ok(Leaf { embedding: upload.table("embedding.weight")?, gates, bias: upload.bias(bias)? })
    }
}

impl Cell for Leaf {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        operand_and_product(of, &self.gates).into()
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        let width = at.spec.embedding;
        at.gathering(Kernel::GatherLeaf, width, (at.words(&self.embedding), at.buffers[0], width))
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        step(at, Kernel::StepLeaf, &self.gates, &self.bias)
    }
}

/// A node with one or two children.
#[derive(Debug)]
pub(in super::super) struct Internal {
    /// \[h of the left|h of the right\] to the gates i, o, u and the forget gates of the left and the right.
    gates: Matrix,
    bias: Arc<Memory>,
}

impl Internal {
    pub fn new(upload: &mut Upload<'_>) -> Result<Internal, Fault> {
        let gates = upload.matrix(&["internal.weight_left", "internal.weight_right"])?;
        Ok(Internal { gates, bias: upload.bias("internal.bias")? })
    }
}

impl Cell for Internal {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        operand_and_product(of, &self.gates).into()
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        at.gathering(Kernel::GatherPair, at.spec.hidden, (at.pool(), at.buffers[0], at.spec.hidden))
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        step(at, Kernel::StepPair, &self.gates, &self.bias)
    }
}

/// One product, and a kernel that applies the gates.
fn step(at: &Setup<'_>, kernel: Kernel, gates: &Matrix, bias: &Memory) -> Vec<Work> {
    let (operand, product) = (at.buffers[0], at.buffers[1]);
    let hidden = at.spec.hidden;
    let arguments = (at.states(), product, bias.address(), hidden, at.tail());
    vec![
        at.product(operand, gates.inputs, at.shape.rows, gates, product),
        Work::Kernel(at.call(kernel, hidden, arguments)),
    ]
}

/// A child-sum node that has children. The children's h are rows of an operand of their own, because each child has a
/// forget gate.
#[derive(Clone, Debug)]
pub(in super::super) struct ChildSum {
    embedding: Arc<Memory>,
    /// \[x|Σh\] to the gates i, o, u.
    gates: Matrix,
    gates_bias: Arc<Memory>,
    /// x to its part of the forget gates.
    forget_word: Matrix,
    /// A child's h to its part of its forget gate.
    forget_child: Matrix,
    forget_bias: Arc<Memory>,
}

impl ChildSum {
    pub fn new(upload: &mut Upload<'_>) -> Result<ChildSum, Fault> {
        Ok(ChildSum {
            embedding: upload.table("embedding.weight")?,
            gates: upload.matrix(&["childsum.weight_iou_x", "childsum.weight_iou_h"])?,
            gates_bias: upload.bias("childsum.bias_iou")?,
            forget_word: upload.matrix(&["childsum.weight_f_x"])?,
            forget_child: upload.matrix(&["childsum.weight_f_h"])?,
            forget_bias: upload.bias("childsum.bias_f")?,
        })
    }
}

impl Cell for ChildSum {
    /// The operand, the children's operand, and the products: gates, the word's part of the forget gates, the children's.
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let [operand, gates] = operand_and_product(of, &self.gates);
        let [_, forget_word] = operand_and_product(of, &self.forget_word);
        let of_children = Shape { rows: of.inputs, ..*of };
        let [children, forget_child] = operand_and_product(&of_children, &self.forget_child);
        vec![operand, children, gates, forget_word, forget_child]
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        let (words, operand, children) = (at.words(&self.embedding), at.buffers[0], at.buffers[1]);
        let arguments = (at.pool(), words, operand, children, at.shape.inputs, at.widths());
        at.gathering(Kernel::GatherSum, at.widest(), arguments)
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        let [operand, children, gates, forget_word, forget_child] = at.buffers[..] else {
            unreachable!("a child-sum node has five buffers")
        };
        let stride = self.gates.inputs;
        let mut work = vec![
            at.product(operand, stride, at.shape.rows, &self.gates, gates),
            at.product(operand, stride, at.shape.rows, &self.forget_word, forget_word),
        ];
        // A batch without children has no rows for them.
        if at.shape.inputs > 0 {
            work.push(at.product(children, at.spec.hidden, at.shape.inputs, &self.forget_child, forget_child));
        }
        let (gates_bias, forget_bias) = (self.gates_bias.address(), self.forget_bias.address());
        let biased = (gates, gates_bias, forget_word, forget_child, forget_bias);
        work.push(Work::Kernel(at.call(
            Kernel::StepSum,
            at.spec.hidden,
            (at.states(), biased, at.spec.hidden, at.tail()),
        )));
        work
    }
}
