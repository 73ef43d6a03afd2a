//! The LSTM step of chains, encoders and decoders, and the decoder's choice of a word. The operand is \[x|h\].

use std::sync::Arc;

use super::super::weights::Columns;
use super::{Arguments, Buffer, Call, Cell, Fault, Ground, Kernel, Matrix, Shape, Upload, Work};
use crate::backend::cuda::gpu::memory::Memory;

/// What the step does beside its arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Chain = 0,
    /// It writes the word that the decoder starts with.
    Encoder = 1,
    /// It leaves the word, the next input and the end of the launch to the kernel behind it.
    Decoder = 2,
}

/// The step.
#[derive(Debug)]
pub(in super::super) struct Lstm {
    kind: Kind,
    embedding: Arc<Memory>,
    /// \[x|h\] to the gates i, f, g, o.
    gates: Matrix,
    bias: Memory,
    hidden: u32,
    width: u32,
}

/// The places of the buffers.
const OPERAND: usize = 0;
const PRODUCT: usize = 1;
const SCORES: usize = 2;

impl Lstm {
    /// The cell of a chain, with the weights `lstm.*`.
    pub fn chain(upload: &mut Upload<'_>) -> Result<Lstm, Fault> {
        Lstm::new(upload, Kind::Chain, "lstm", "embedding.weight")
    }

    /// The cell with the weights `encoder.*`.
    pub fn encoder(upload: &mut Upload<'_>) -> Result<Lstm, Fault> {
        Lstm::new(upload, Kind::Encoder, "encoder", "embedding.weight")
    }

    fn new(upload: &mut Upload<'_>, kind: Kind, name: &str, embedding: &str) -> Result<Lstm, Fault> {
        let (hidden, width) = (upload.spec.hidden, upload.spec.embedding);
        let (of_x, of_h) = (format!("{name}.weight_ih"), format!("{name}.weight_hh"));
        let gates = upload.matrix(&[
            Columns { tensor: &of_x, width, rows: 0..4 * hidden },
            Columns { tensor: &of_h, width: hidden, rows: 0..4 * hidden },
        ])?;
        let embedding = upload.table(embedding)?;
        Ok(Lstm { kind, embedding, gates, bias: upload.bias(&format!("{name}.bias"))?, hidden, width })
    }

    /// The numbers in a row of the operand.
    fn operand(&self) -> u32 {
        self.width + self.hidden
    }

    fn words(&self, arguments: Arguments, at: &Ground<'_>) -> Arguments {
        arguments.words(self.embedding.address(), at.spec)
    }
}

impl Cell for Lstm {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let of_rows = |width: u32| of.rows as usize * width as usize;
        vec![Buffer::Elements(of_rows(self.operand())), Buffer::Floats(of_rows(self.gates.outputs))]
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        let staged = at.staged().address(at.states.pool).number(at.states.width);
        let arguments = self
            .words(staged, at)
            .number((self.kind == Kind::Decoder).into())
            .address(at.buffers[OPERAND])
            .number(self.width)
            .number(self.hidden)
            .address(at.table.age);
        at.gathering(Kernel::GatherChain, self.hidden.max(self.width), arguments)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        let (operand, product) = (at.buffers[OPERAND], at.buffers[PRODUCT]);
        let arguments = self
            .words(at.states(), at)
            .number(self.kind as u32)
            .address(operand)
            .address(product)
            .address(self.bias.address())
            .number(self.width)
            .number(self.hidden)
            .tail(at);
        vec![
            at.product(operand, self.operand(), at.rows, &self.gates, product),
            Work::Kernel(at.call(Kernel::StepLstm, self.hidden.max(self.width), arguments)),
        ]
    }
}

/// The step that reads the word in its state and writes the likeliest next one there.
#[derive(Debug)]
pub(in super::super) struct Decoder {
    step: Lstm,
    /// h to the scores of all words.
    projection: Matrix,
    bias: Memory,
}

impl Decoder {
    /// The cell with the weights `decoder.*` and `projection.*`.
    pub fn new(upload: &mut Upload<'_>) -> Result<Decoder, Fault> {
        let step = Lstm::new(upload, Kind::Decoder, "decoder", "decoder.embedding")?;
        let (words, width) = (upload.spec.vocabulary, upload.spec.hidden);
        let projection = upload.matrix(&[Columns { tensor: "projection.weight", width, rows: 0..words }])?;
        Ok(Decoder { step, projection, bias: upload.bias("projection.bias")? })
    }
}

impl Cell for Decoder {
    fn buffers(&self, of: &Shape) -> Vec<Buffer> {
        let mut buffers = self.step.buffers(of);
        buffers.push(Buffer::Floats(of.rows as usize * self.projection.outputs as usize));
        buffers
    }

    fn gather(&self, at: &Ground<'_>) -> Call {
        self.step.gather(at)
    }

    fn work(&self, at: &Ground<'_>) -> Vec<Work> {
        let mut work = self.step.work(at);
        let (operand, scores) = (at.buffers[OPERAND], at.buffers[SCORES]);
        let h = operand + u64::from(self.step.width * at.element);
        work.push(at.product(h, self.step.operand(), at.rows, &self.projection, scores));
        let arguments = at
            .states()
            .address(scores)
            .address(self.bias.address())
            .number(self.projection.outputs)
            .address(at.states.words)
            .address(self.step.embedding.address())
            .address(operand)
            .number(self.step.width)
            .number(self.step.hidden)
            .tail(at);
        // A block looks through all words of a row.
        work.push(Work::Kernel(at.call(Kernel::DecoderWord, 1, arguments)));
        work
    }
}
