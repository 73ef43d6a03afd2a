//! The recurrent cells of chains: the LSTM step, the decoder's choice of a word, and the canonical GRU. An operand is
//! \[x|h\].

use std::sync::Arc;

use super::{
    Buffer, Call, Cell, Fault, Matrix, Memory, Setup, Shape, Upload, Work, operand_and_product,
};

/// Additional work of an LSTM step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Chain = 0,
    /// Writes the word that the decoder starts with.
    Encoder = 1,
    /// Leaves the word, the next input and the end of the launch to the kernel after it.
    Decoder = 2,
}

#[derive(Debug)]
pub(in super::super) struct Lstm {
    kind: Kind,
    embedding: Arc<Memory>,
    /// \[x|h\] to the gates i, f, g, o.
    gates: Matrix,
    bias: Arc<Memory>,
}

/// The indices of the buffers.
const OPERAND: usize = 0;
const PRODUCT: usize = 1;
const SCORES: usize = 2;

impl Lstm {
    pub fn new(
        upload: &mut Upload<'_>,
        kind: Kind,
        name: &str,
        embedding: &str,
    ) -> Result<Lstm, Fault> {
        let gates = upload.matrix(&[&format!("{name}.weight_ih"), &format!("{name}.weight_hh")])?;
        let embedding = upload.table(embedding)?;
        Ok(Lstm {
            kind,
            embedding,
            gates,
            bias: upload.bias(&format!("{name}.bias"))?,
        })
    }
}

impl Cell for Lstm {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        operand_and_product(of, &self.gates).into()
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        gather(at, &self.embedding, self.kind == Kind::Decoder)
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        let (operand, product) = (at.buffers[OPERAND], at.buffers[PRODUCT]);
        let (words, kind, bias) = (
            at.words(&self.embedding),
            self.kind as u32,
            self.bias.address(),
        );
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

/// Gathers \[x|h\]. With `feeds_back`, x is of the word in the state.
fn gather(at: &Setup<'_>, embedding: &Memory, feeds_back: bool) -> Call {
    let arguments = (
        at.pool(),
        at.words(embedding),
        u32::from(feeds_back),
        at.buffers[OPERAND],
        at.widths(),
    );
    at.gathering("gather_chain", at.widest(), arguments)
}

/// The step that reads the word in its state and writes the likeliest next one there.
#[derive(Debug)]
pub(in super::super) struct Decoder {
    step: Lstm,
    /// h to the scores of all words.
    projection: Matrix,
    bias: Arc<Memory>,
}

impl Decoder {
    pub fn new(upload: &mut Upload<'_>) -> Result<Decoder, Fault> {
        let step = Lstm::new(upload, Kind::Decoder, "decoder", "decoder.embedding")?;
        let projection = upload.matrix(&["projection.weight"])?;
        Ok(Decoder {
            step,
            projection,
            bias: upload.bias("projection.bias")?,
        })
    }
}

impl Cell for Decoder {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let mut buffers = self.step.buffers(of);
        buffers.push(Buffer::Floats(
            of.rows as usize * self.projection.outputs as usize,
        ));
        buffers
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        self.step.gather(at)
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        let Decoder {
            step,
            projection,
            bias,
        } = self;
        let (operand, scores) = (at.buffers[OPERAND], at.buffers[SCORES]);
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

/// The GRU whose reset gate precedes the recurrent product, so that there are two products in sequence, over \[x|h\] and
/// \[x|r∘h\].
#[derive(Debug)]
pub(in super::super) struct Gru {
    embedding: Arc<Memory>,
    /// \[x|h\] to the gates r and z.
    gates: Matrix,
    /// \[x|r∘h\] to the new value n.
    candidate: Matrix,
    /// Of r, z and n.
    bias: Arc<Memory>,
}

impl Gru {
    pub fn new(upload: &mut Upload<'_>) -> Result<Gru, Fault> {
        let (tensors, hidden) = (
            ["gru.weight_ih", "gru.weight_hh"],
            upload.spec.hidden as usize,
        );
        Ok(Gru {
            embedding: upload.table("embedding.weight")?,
            gates: upload.rows(&tensors, 0..2 * hidden)?,
            candidate: upload.rows(&tensors, 2 * hidden..3 * hidden)?,
            bias: upload.bias("gru.bias")?,
        })
    }
}

impl Cell for Gru {
    /// The operands of both products, and their results.
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let [operand, gates] = operand_and_product(of, &self.gates);
        let [candidate, values] = operand_and_product(of, &self.candidate);
        vec![operand, candidate, gates, values]
    }

    fn gather(&self, at: &Setup<'_>) -> Call {
        gather(at, &self.embedding, false)
    }

    fn work(&self, at: &Setup<'_>) -> Vec<Work> {
        let [operand, candidate, gates, values] = at.buffers[..] else {
            unreachable!("a GRU has four buffers")
        };
        let (units, bias, words) = (at.widest(), self.bias.address(), at.words(&self.embedding));
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
