//! What decides a network beside its model.

use std::path::PathBuf;

use super::operators;
use crate::error::{Error, Result};
use crate::workload::model::Model;

/// The sizes of a network, and where its numbers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// H, the width of the hidden state.
    pub hidden: u32,
    /// E, the width of the vector that a word becomes.
    pub embedding: u32,
    /// V, the number of words.
    pub vocabulary: u32,
    /// The seed of the words, and of the weights where there is no file.
    pub seed: u64,
    /// A safetensors file of weights.
    pub weights: Option<PathBuf>,
}

/// The widest layer: its weights alone take tens of gigabytes.
const MAX_WIDTH: u32 = 1 << 16;

/// The largest vocabulary: a state holds a written word as a float32, which counts without a gap up to here.
pub const MAX_VOCABULARY: u32 = 1 << 24;

impl Spec {
    /// Whether the sizes are in range, and fit the model.
    ///
    /// # Errors
    /// Begins with what is at fault: `model` for one that is a description without weights or can't be computed, or the size: `hidden`, `embedding` or
    /// `vocabulary`.
    pub fn check(&self, model: &Model) -> Result<()> {
        if model.graph_model().is_some() {
            return Err(Error::input(format!(
                "model: {} describes cells and graphs, and has no weights to compute with; run it with batchlab sim, or \
                 take lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, dnn:NAME or dnn:FILE.csv",
                model.name()
            )));
        }
        if let Some(network) = model.network() {
            return operators::check(network);
        }
        for (key, value, most) in [
            ("hidden", self.hidden, MAX_WIDTH),
            ("embedding", self.embedding, MAX_WIDTH),
            ("vocabulary", self.vocabulary, MAX_VOCABULARY),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::input(format!("{key}: {value} is out of range; from 1 to {most}")));
            }
        }
        // The block adds its input to its output.
        if matches!(model, Model::Dnn(_)) && self.embedding != self.hidden {
            return Err(Error::input(format!(
                "embedding: {} is not the hidden width {}, which the model {} adds it to; leave it out",
                self.embedding,
                self.hidden,
                model.name(),
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_range_are_refused() {
        let spec = |hidden, embedding, vocabulary| Spec { hidden, embedding, vocabulary, seed: 1, weights: None };
        let refusal = |spec: Spec, model: &str| spec.check(&Model::parse(model).unwrap()).unwrap_err().to_string();
        assert_eq!(refusal(spec(0, 1, 1), "lstm"), "hidden: 0 is out of range; from 1 to 65536");
        assert_eq!(refusal(spec(1, 1 << 17, 1), "gru"), "embedding: 131072 is out of range; from 1 to 65536");
        assert_eq!(refusal(spec(1, 1, 1 << 25), "gru"), "vocabulary: 33554432 is out of range; from 1 to 16777216");
        assert_eq!(
            refusal(spec(8, 4, 9), "dnn:net"),
            "embedding: 4 is not the hidden width 8, which the model dnn:net adds it to; leave it out"
        );
        assert!(spec(8, 4, 1 << 24).check(&Model::Seq2Seq).is_ok());
    }
}
