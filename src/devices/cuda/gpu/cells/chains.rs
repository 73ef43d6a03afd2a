//! The recurrent cells of chains: the LSTM step, the decoder's choice of a word, and the canonical GRU. The operand
//! is \[x|h\].

use std::sync::Arc;

use super::{
    Argument, BatchShape, BufferSize, DeviceFault, FusedWeights, GpuCell, GpuMemory, KernelCall,
    Matrix, PlannedWork, Upload, WorkSetup, operand_and_product,
};

/// The additional work of an LSTM step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum LstmKind {
    Chain = 0,
    /// Writes the word that the decoder starts with.
    Encoder = 1,
    /// Leaves the word, the next input and the end of the launch to the next kernel.
    Decoder = 2,
}

/// An LSTM step.
#[derive(Debug)]
pub(in super::super) struct GpuLstm {
    kind: LstmKind,
    embedding: Arc<GpuMemory>,
    /// The weights from \[x|h\] to the gates i, f, g and o.
    gates: Matrix,
    /// The same for fused kernels. A decoder has none: its words need h in the operand, in a place that does not move.
    fused: Option<FusedWeights>,
    bias: Arc<GpuMemory>,
}

/// The indices of the buffers.
const OPERAND: usize = 0;
const PRODUCT: usize = 1;
const SCORES: usize = 2;
/// The second place of the operand, for a cell with fused kernels.
const MOVED: usize = 2;

impl GpuLstm {
    pub fn new(
        upload: &mut Upload<'_>,
        kind: LstmKind,
        name: &str,
        embedding: &str,
    ) -> Result<GpuLstm, DeviceFault> {
        let tensors = ["ih", "hh"].map(|part| format!("{name}.weight_{part}"));
        let tensors = tensors.each_ref().map(String::as_str);
        let gates = upload.matrix(&tensors)?;
        let fused = match kind {
            LstmKind::Decoder => None,
            _ => upload.fuse(&gates, &tensors, 0..usize::MAX)?,
        };
        let embedding = upload.table(embedding)?;
        Ok(GpuLstm {
            kind,
            embedding,
            gates,
            fused,
            bias: upload.bias(&format!("{name}.bias"))?,
        })
    }
}

impl GpuCell for GpuLstm {
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        let [operand, product] = operand_and_product(shape, &self.gates);
        let mut buffers = vec![operand, product];
        if self.fused.is_some() {
            buffers.push(operand);
        }
        buffers
    }

    fn places(&self) -> Option<[usize; 2]> {
        self.fused.as_ref().map(|_| [OPERAND, MOVED])
    }

    fn moves_operand(&self, rows: u32) -> bool {
        self.fused.as_ref().is_some_and(|fused| fused.takes(rows))
    }

    fn gather(&self, at: &WorkSetup<'_>) -> KernelCall {
        gather(at, &self.embedding, self.kind == LstmKind::Decoder)
    }

    fn change(&self, at: &WorkSetup<'_>) -> Option<KernelCall> {
        change(at, &self.embedding, self.kind == LstmKind::Decoder)
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        if let Some(fused) = self
            .fused
            .as_ref()
            .filter(|fused| fused.takes(at.shape.rows))
        {
            let operand = operand(at);
            let next = at.buffers[if at.moved { OPERAND } else { MOVED }];
            let arguments = (
                at.states(),
                at.words(&self.embedding),
                u32::from(self.kind == LstmKind::Encoder),
                (operand, next, fused.address(), self.bias.address()),
                at.widths(),
                at.tail(),
            );
            return vec![at.fused_call("fused_lstm", fused, arguments)];
        }
        let operand = at.buffers[OPERAND];
        let product = at.buffers[PRODUCT];
        let words = at.words(&self.embedding);
        let kind = self.kind as u32;
        let bias = self.bias.address();
        let arguments = (
            at.states(),
            words,
            kind,
            operand,
            product,
            bias,
            at.widths(),
            at.tail(),
        );
        vec![
            at.product(
                operand,
                self.gates.inputs,
                at.shape.rows,
                &self.gates,
                product,
            ),
            at.call("step_lstm", at.widest(), arguments),
        ]
    }
}

/// The address of \[x|h\].
fn operand(at: &WorkSetup<'_>) -> u64 {
    at.buffers[if at.moved { MOVED } else { OPERAND }]
}

/// The gather of \[x|h\]. With `feeds_back`, x is the embedding of the word in the state.
fn gather(at: &WorkSetup<'_>, embedding: &GpuMemory, feeds_back: bool) -> KernelCall {
    let arguments = chain_operand(at, embedding, feeds_back);
    at.gathering("gather_chain", at.widest(), arguments)
}

/// The gather of single rows.
fn change(at: &WorkSetup<'_>, embedding: &GpuMemory, feeds_back: bool) -> Option<KernelCall> {
    let arguments = chain_operand(at, embedding, feeds_back);
    Some(at.changing("change_chain", at.widest(), arguments))
}

/// The arguments of which \[x|h\] is made.
fn chain_operand(
    at: &WorkSetup<'_>,
    embedding: &GpuMemory,
    feeds_back: bool,
) -> impl Argument + use<> {
    (
        at.pool(),
        at.words(embedding),
        u32::from(feeds_back),
        operand(at),
        at.widths(),
    )
}

/// The step that reads the word in its state and writes the likeliest next one there.
#[derive(Debug)]
pub(in super::super) struct GpuDecoder {
    step: GpuLstm,
    /// The weights from h to the scores of all words.
    projection: Matrix,
    bias: Arc<GpuMemory>,
}

impl GpuDecoder {
    pub fn new(upload: &mut Upload<'_>) -> Result<GpuDecoder, DeviceFault> {
        let step = GpuLstm::new(upload, LstmKind::Decoder, "decoder", "decoder.embedding")?;
        let projection = upload.matrix(&["projection.weight"])?;
        Ok(GpuDecoder {
            step,
            projection,
            bias: upload.bias("projection.bias")?,
        })
    }
}

impl GpuCell for GpuDecoder {
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        let mut buffers = self.step.buffers(shape);
        buffers.push(BufferSize::Floats(
            shape.rows as usize * self.projection.outputs as usize,
        ));
        buffers
    }

    fn gather(&self, at: &WorkSetup<'_>) -> KernelCall {
        self.step.gather(at)
    }

    fn change(&self, at: &WorkSetup<'_>) -> Option<KernelCall> {
        self.step.change(at)
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        let GpuDecoder {
            step,
            projection,
            bias,
        } = self;
        let operand = at.buffers[OPERAND];
        let scores = at.buffers[SCORES];
        let h = operand + u64::from(at.spec.embedding * at.element);
        let found = (scores, bias.address(), projection.outputs, at.states.words);
        let next = (step.embedding.address(), operand, at.widths());
        let mut work = step.work(at);
        work.push(at.product(h, step.gates.inputs, at.shape.rows, projection, scores));
        // One block looks through all words of a row.
        work.push(at.call("decoder_word", 1, (at.states(), found, next, at.tail())));
        work
    }
}

/// The GRU whose reset gate precedes the recurrent product, so that there are two products in sequence, over \[x|h\]
/// and \[x|r∘h\].
#[derive(Debug)]
pub(in super::super) struct GpuGru {
    embedding: Arc<GpuMemory>,
    /// The weights from \[x|h\] to the gates r and z.
    gates: Matrix,
    /// The weights from \[x|r∘h\] to the new value n.
    candidate: Matrix,
    /// Both for fused kernels.
    fused: Option<[FusedWeights; 2]>,
    /// The biases of r, z and n.
    bias: Arc<GpuMemory>,
}

impl GpuGru {
    pub fn new(upload: &mut Upload<'_>) -> Result<GpuGru, DeviceFault> {
        let tensors = ["gru.weight_ih", "gru.weight_hh"];
        let hidden = upload.spec.hidden as usize;
        let [of_gates, of_candidate] = [0..2 * hidden, 2 * hidden..3 * hidden];
        let gates = upload.rows(&tensors, of_gates.clone())?;
        let candidate = upload.rows(&tensors, of_candidate.clone())?;
        let fused_gates = upload.fuse(&gates, &tensors, of_gates)?;
        let fused_candidate = upload.fuse(&candidate, &tensors, of_candidate)?;
        Ok(GpuGru {
            embedding: upload.table("embedding.weight")?,
            gates,
            candidate,
            fused: fused_gates.zip(fused_candidate).map(Into::into),
            bias: upload.bias("gru.bias")?,
        })
    }
}

impl GpuCell for GpuGru {
    /// The buffers are the operands of both products, and their results.
    fn buffers(&self, shape: &BatchShape) -> Vec<BufferSize> {
        let [operand, gates] = operand_and_product(shape, &self.gates);
        let [candidate, values] = operand_and_product(shape, &self.candidate);
        vec![operand, candidate, gates, values]
    }

    fn gather(&self, at: &WorkSetup<'_>) -> KernelCall {
        gather(at, &self.embedding, false)
    }

    fn change(&self, at: &WorkSetup<'_>) -> Option<KernelCall> {
        change(at, &self.embedding, false)
    }

    fn work(&self, at: &WorkSetup<'_>) -> Vec<PlannedWork> {
        let [operand, candidate, gates, values] = at.buffers[..] else {
            unreachable!("a GRU has four buffers")
        };
        let units = at.widest();
        let bias = self.bias.address();
        let words = at.words(&self.embedding);
        if let Some([of_gates, of_candidate]) = &self.fused
            && [of_gates, of_candidate]
                .iter()
                .all(|fused| fused.takes(at.shape.rows))
        {
            let reset = (
                at.table(),
                at.pool(),
                (operand, candidate, gates, of_gates.address(), bias),
                at.widths(),
                at.table.age,
            );
            let update = (
                at.states(),
                words,
                (operand, candidate, gates, of_candidate.address(), bias),
                at.widths(),
                at.tail(),
            );
            return vec![
                at.fused_call("fused_gru_reset", of_gates, reset),
                at.fused_call("fused_gru_update", of_candidate, update),
            ];
        }
        let reset = (
            at.table(),
            at.pool(),
            gates,
            bias,
            operand,
            candidate,
            at.widths(),
            at.table.age,
        );
        let update = (
            at.states(),
            words,
            operand,
            gates,
            values,
            bias,
            at.widths(),
            at.tail(),
        );
        vec![
            at.product(
                operand,
                self.gates.inputs,
                at.shape.rows,
                &self.gates,
                gates,
            ),
            at.call("gru_reset", units, reset),
            at.product(
                candidate,
                self.gates.inputs,
                at.shape.rows,
                &self.candidate,
                values,
            ),
            at.call("gru_update", units, update),
        ]
    }
}
