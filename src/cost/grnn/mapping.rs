use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of persistent kernels. They differ in how often all blocks wait for each other in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rnn {
    /// One synchronisation.
    Lstm,
    /// Two synchronisations: blocks wait for the product of the reset gate with the state.
    GruDouble,
    /// One synchronisation: each block computes all of the reset gate that it needs.
    GruSingle,
}

impl Rnn {
    /// The gates whose products a work group computes together: all four of an LSTM, or the update and reset gates of a
    /// GRU.
    pub fn gates(self) -> u32 {
        match self {
            Rnn::Lstm => 4,
            Rnn::GruDouble | Rnn::GruSingle => 2,
        }
    }

    /// Synchronisations of all blocks per step.
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

/// The problem size of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sizes {
    pub rnn: Rnn,
    /// The width of the state.
    pub hidden: u32,
    /// Sequences that run together.
    pub batch: u32,
}

/// How a step's outputs are divided into tiles, one for each block, and a tile among its threads (GRNN, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mapping {
    /// TW: elements of the state per tile. The last tile of a row may be narrower.
    pub tile_width: u32,
    /// TH: sequences per tile.
    pub tile_height: u32,
    /// GPB: work groups per block.
    pub groups: u32,
    /// WS: threads per work group, over which a dot product is spread; a power of two up to a warp.
    pub group_size: u32,
}

impl Mapping {
    /// Threads per block.
    pub fn threads(&self) -> u32 {
        self.groups * self.group_size
    }

    /// The outputs (an element of the state and a gate) that a work group computes for each sequence of its tile.
    pub fn sub_tile_width(&self, rnn: Rnn) -> u32 {
        (self.tile_width * rnn.gates()).div_ceil(self.groups)
    }

    /// The blocks of a row of the grid, which share the sequences of a tile and wait for each other.
    pub fn columns(&self, sizes: &Sizes) -> u32 {
        sizes.hidden.div_ceil(self.tile_width)
    }

    /// The rows of the grid, which are independent.
    pub fn rows(&self, sizes: &Sizes) -> u32 {
        sizes.batch.div_ceil(self.tile_height)
    }

    /// The blocks of the grid, each on a multiprocessor of its own at the same time.
    pub fn blocks(&self, sizes: &Sizes) -> u32 {
        self.columns(sizes) * self.rows(sizes)
    }
}
