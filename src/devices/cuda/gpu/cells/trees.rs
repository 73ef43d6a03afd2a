//! The tree-LSTMs, binary and child-sum. The operand is \[x\] for a leaf, \[h of the left|h of the right\] for a binary
//! internal node, and \[x|Σh\] for a child-sum node.

use std::sync::Arc;

use super::{
    BatchShape, BufferSize, DeviceFault, FusedWeights, GpuCell, GpuMemory, KernelCall, Matrix,
    PlannedWork, Upload, WorkSetup, operand_and_product,
};

/// A node that needs one product: a leaf, or an internal node of a binary tree, which has one or two children.
#[derive(Debug)]
pub(in super::super) struct GpuTreeNode {
    /// The embeddings of words for a leaf, or `None` for an internal node.
    embedding: Option<Arc<GpuMemory>>,
    /// The weights of the gates. A leaf has weights from x to the gates i, o and u. An internal node has weights from
    /// \[h of the left|h of the right\] to these and to the forget gates of the left and the right.
    gates: Matrix,
    /// The same for fused kernels.
    fused: Option<FusedWeights>,
    bias: Arc<GpuMemory>,
}

impl GpuTreeNode {
    /// A node without children.
    pub fn leaf(
        upload: &mut Upload<'_>,
        tensor: &str,
        bias: &str,
    ) -> Result<GpuTreeNode, DeviceFault> {
        let gates = upload.matrix(&[tensor])?;
        Ok(GpuTreeNode {
            embedding: Some(upload.table("embedding.weight")?),
            fused: upload.fuse(&gates, &[tensor], 0..usize::MAX)?,
            gates,
            bias: upload.bias(bias)?,
        })
    }

    /// A node with children in a binary tree.
    pub fn internal(upload: &mut Upload<'_>) -> Result<GpuTreeNode, DeviceFault> {
        let tensors = ["internal.weight_left", "internal.weight_right"];
        let gates = upload.matrix(&tensors)?;
        Ok(GpuTreeNode {
            embedding: None,
            fused: upload.fuse(&gates, &tensors, 0..usize::MAX)?,
            gates,
            bias: upload.bias("internal.bias")?,
        })
    }
}

impl GpuCell for GpuTreeNode {
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        operand_and_product(shape, &self.gates).into()
    }

    fn gather(&self, at: &WorkSetup<'_>) -> KernelCall {
        let width = at.spec.embedding;
        let hidden = at.spec.hidden;
        let operand = at.buffers[0];
        match &self.embedding {
            Some(embedding) => {
                at.gathering("gather_leaf", width, (at.words(embedding), operand, width))
            }
            None => at.gathering("gather_pair", hidden, (at.pool(), operand, hidden)),
        }
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        let hidden = at.spec.hidden;
        let bias = self.bias.address();
        if let Some(fused) = self
            .fused
            .as_ref()
            .filter(|fused| fused.takes(at.shape.rows))
        {
            let kernel = if self.embedding.is_some() {
                "fused_leaf"
            } else {
                "fused_pair"
            };
            let factors = (at.buffers[0], fused.address(), bias);
            let sizes = (self.gates.inputs, hidden);
            let arguments = (at.states(), factors, sizes, at.tail());
            return vec![at.fused_call(kernel, fused, arguments)];
        }
        let product = at.buffers[1];
        let kernel = if self.embedding.is_some() {
            "step_leaf"
        } else {
            "step_pair"
        };
        let arguments = (at.states(), product, bias, hidden, at.tail());
        vec![
            at.product(
                at.buffers[0],
                self.gates.inputs,
                at.shape.rows,
                &self.gates,
                product,
            ),
            at.call(kernel, hidden, arguments),
        ]
    }
}

/// A child-sum node that has children. The children's h are rows of an operand of their own, because each child has a
/// forget gate.
#[derive(Clone, Debug)]
pub(in super::super) struct GpuChildSum {
    embedding: Arc<GpuMemory>,
    /// The weights from \[x|Σh\] to the gates i, o and u.
    gates: Matrix,
    gates_bias: Arc<GpuMemory>,
    /// The weights from x to its part of the forget gates.
    forget_word: Matrix,
    /// The weights from a child's h to its part of the child's forget gate.
    forget_child: Matrix,
    forget_bias: Arc<GpuMemory>,
}

impl GpuChildSum {
    pub fn new(upload: &mut Upload<'_>) -> Result<GpuChildSum, DeviceFault> {
        Ok(GpuChildSum {
            embedding: upload.table("embedding.weight")?,
            gates: upload.matrix(&["childsum.weight_iou_x", "childsum.weight_iou_h"])?,
            gates_bias: upload.bias("childsum.bias_iou")?,
            forget_word: upload.matrix(&["childsum.weight_f_x"])?,
            forget_child: upload.matrix(&["childsum.weight_f_h"])?,
            forget_bias: upload.bias("childsum.bias_f")?,
        })
    }
}

impl GpuCell for GpuChildSum {
    /// The buffers are the operand, the children's operand, and the products: the gates, the word's part of the forget
    /// gates, and the children's part.
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        let [operand, gates] = operand_and_product(shape, &self.gates);
        let [_, forget_word] = operand_and_product(shape, &self.forget_word);
        let shape_of_children = BatchShape {
            rows: shape.inputs,
            ..*shape
        };
        let [children, forget_child] = operand_and_product(&shape_of_children, &self.forget_child);
        vec![operand, children, gates, forget_word, forget_child]
    }

    fn gather(&self, at: &WorkSetup<'_>) -> KernelCall {
        let words = at.words(&self.embedding);
        let operand = at.buffers[0];
        let children = at.buffers[1];
        let arguments = (
            at.pool(),
            words,
            operand,
            children,
            at.shape.inputs,
            at.widths(),
        );
        at.gathering("gather_sum", at.widest(), arguments)
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        let [operand, children, gates, forget_word, forget_child] = at.buffers[..] else {
            unreachable!("a child-sum node has five buffers")
        };
        let stride = self.gates.inputs;
        let mut work = vec![
            at.product(operand, stride, at.shape.rows, &self.gates, gates),
            at.product(
                operand,
                stride,
                at.shape.rows,
                &self.forget_word,
                forget_word,
            ),
        ];
        // A batch without children has no rows for them.
        if at.shape.inputs > 0 {
            work.push(at.product(
                children,
                at.spec.hidden,
                at.shape.inputs,
                &self.forget_child,
                forget_child,
            ));
        }
        let gates_bias = self.gates_bias.address();
        let forget_bias = self.forget_bias.address();
        let biased = (gates, gates_bias, forget_word, forget_child, forget_bias);
        work.push(at.call(
            "step_sum",
            at.spec.hidden,
            (at.states(), biased, at.spec.hidden, at.tail()),
        ));
        work
    }
}
