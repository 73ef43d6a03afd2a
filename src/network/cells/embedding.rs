//! Words as vectors.

use crate::network::weights::Weights;

/// A table that holds a row for each word.
#[derive(Debug)]
pub struct Embedding {
    rows: Vec<f32>,
    width: usize,
}

impl Embedding {
    /// The table of this name, whose rows are `width` numbers wide.
    pub(super) fn new(weights: &Weights, name: &str, width: usize) -> Embedding {
        Embedding { rows: weights.take(name), width }
    }

    /// The numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The row of a word below the size of the vocabulary.
    pub fn row(&self, word: u32) -> &[f32] {
        &self.rows[word as usize * self.width..(word as usize + 1) * self.width]
    }
}
