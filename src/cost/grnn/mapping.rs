//! How a recurrent network's step is laid over a GPU (GRNN, section 5: output-based tiling with a configurable mapping).

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a persistent kernel computes, and how often all of its blocks wait for each other in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rnn {
    /// An LSTM, with one synchronisation a step.
    Lstm,
    /// A GRU whose blocks wait for the product of the reset gate with the state: two synchronisations.
    GruDouble,
    /// A GRU whose blocks each compute all of the reset gate that they need: one synchronisation.
    GruSingle,
}

impl Rnn {
    /// The gates whose products a work group computes together: those of an LSTM, or the update and reset gates of a GRU.
    pub fn gates(self) -> u32 {
        match self {
            Rnn::Lstm => 4,
            Rnn::GruDouble | Rnn::GruSingle => 2,
        }
    }

    /// Synchronisations of all blocks in a step.
    pub fn synchronisations(self) -> u32 {
        if self == Rnn::GruDouble { 2 } else { 1 }
    }
}

impl fmt::Display for Rnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rnn::Lstm => "lstm",
            Rnn::GruDouble => "gru-double",
            Rnn::GruSingle => "gru-single",
        })
    }
}

/// What a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sizes {
    /// The network.
    pub rnn: Rnn,
    /// The width of its state.
    pub hidden: u32,
    /// The sequences that run together.
    pub batch: u32,
}

/// How the outputs of a step are cut into tiles, one for each block, and a tile into the work of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mapping {
    /// TW: the elements of the state in a block's tile. The last tile of a row may be narrower.
    pub tile_width: u32,
    /// TH: the sequences in a block's tile.
    pub tile_height: u32,
    /// GPB: the work groups of a block.
    pub groups: u32,
    /// WS: the threads of a work group, over which a dot product is spread; a power of two up to a warp.
    pub group_size: u32,
}

impl Mapping {
    /// The threads of a block.
    pub fn threads(&self) -> u32 {
        self.groups * self.group_size
    }

    /// The outputs (an element of the state, and a gate) that a work group computes for each sequence of its tile.
    pub fn sub_tile_width(&self, rnn: Rnn) -> u32 {
        (self.tile_width * rnn.gates()).div_ceil(self.groups)
    }

    /// The blocks along a row of the grid, which share the sequences of a tile and wait for each other.
    pub fn columns(&self, sizes: &Sizes) -> u32 {
        sizes.hidden.div_ceil(self.tile_width)
    }

    /// The rows of the grid, which know nothing of each other.
    pub fn rows(&self, sizes: &Sizes) -> u32 {
        sizes.batch.div_ceil(self.tile_height)
    }

    /// The blocks of the grid, which must all be on the device at once: one for each multiprocessor that is used.
    pub fn blocks(&self, sizes: &Sizes) -> u32 {
        self.columns(sizes) * self.rows(sizes)
    }
}
