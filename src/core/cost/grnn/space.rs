//! The mappings of a network, and which of them a GPU can run (GRNN, sections 5, 7.1.1 and 7.2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::DataSheet;

/// The kinds of persistent kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rnn {
    /// An LSTM with one synchronisation.
    Lstm,
    /// A GRU with two synchronisations: blocks wait for the reset gate's product.
    GruDouble,
    /// A GRU with one synchronisation: each block computes all that it needs of the reset gate.
    GruSingle,
}

impl Rnn {
    /// The gates that a work group computes together: all of an LSTM, update and reset of a GRU.
    pub fn gates(self) -> u32 {
        match self {
            Rnn::Lstm => 4,
            Rnn::GruDouble | Rnn::GruSingle => 2,
        }
    }

    pub fn synchronisations(self) -> u32 {
        if self == Rnn::GruDouble { 2 } else { 1 }
    }
}

impl fmt::Display for Rnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A kind of kernel and the sizes of its network and batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RnnSizes {
    pub rnn: Rnn,
    pub hidden: u32,
    pub batch: u32,
}

/// How outputs are divided into tiles (one per block), and a tile among threads (GRNN, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mapping {
    /// TW: the elements of the state per tile; the last of a row may be narrower.
    pub tile_width: u32,
    /// TH: the sequences per tile.
    pub tile_height: u32,
    /// GPB: the work groups per block.
    pub groups: u32,
    /// WS: the threads per work group, which share a dot product; a power of two up to a warp.
    pub group_size: u32,
}

/// Writes `TW,TH,GPB,WS`.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{},{},{},{}",
            self.tile_width, self.tile_height, self.groups, self.group_size
        )
    }
}

impl FromStr for Mapping {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Mapping, &'static str> {
        let numbers = text
            .split(',')
            .map(|part| part.trim().parse().ok().filter(|number| *number > 0));
        match numbers.collect::<Option<Vec<u32>>>().as_deref() {
            Some(&[tile_width, tile_height, groups, group_size]) => Ok(Mapping {
                tile_width,
                tile_height,
                groups,
                group_size,
            }),
            _ => Err(
                "four whole numbers above 0: the width and height of a tile, work groups, and threads of each, as 32,2,32,8",
            ),
        }
    }
}

/// How the blocks of a row pass on their elements of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// Through memory, that is, the L2 cache: all blocks are resident, and count those that have arrived.
    Memory,
    /// Not at all: a row is one block, which keeps the state in its shared memory.
    Block,
    /// Within a cluster, whose blocks write into each other's shared memory.
    Cluster,
}

impl Mapping {
    pub fn threads(&self) -> u32 {
        self.groups * self.group_size
    }

    pub fn sub_tile_width(&self, rnn: Rnn) -> u32 {
        (self.tile_width * rnn.gates()).div_ceil(self.groups)
    }

    /// The blocks of a row of the grid, which share sequences and wait for each other.
    pub fn columns(&self, sizes: &RnnSizes) -> u32 {
        sizes.hidden.div_ceil(self.tile_width)
    }

    /// The fastest exchange on a GPU with clusters of up to this number of blocks, 1 if it has none. A GRU
    /// with one synchronisation pays with more products for saving one in memory; elsewhere there is nothing to save.
    pub fn exchange(&self, sizes: &RnnSizes, cluster_blocks: u32) -> Exchange {
        let columns = self.columns(sizes);
        if sizes.rnn == Rnn::GruSingle {
            Exchange::Memory
        } else if columns == 1 {
            Exchange::Block
        } else if columns <= cluster_blocks {
            Exchange::Cluster
        } else {
            Exchange::Memory
        }
    }

    pub fn rows(&self, sizes: &RnnSizes) -> u32 {
        sizes.batch.div_ceil(self.tile_height)
    }

    /// The blocks, each of which runs on its own multiprocessor.
    pub fn blocks(&self, sizes: &RnnSizes) -> u32 {
        self.columns(sizes) * self.rows(sizes)
    }
}

/// The mappings that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The largest width of a tile.
    pub widest: u32,
    /// Whether to include blocks whose threads do not divide evenly into warps per scheduler; the published ranking
    /// does not.
    pub uneven: bool,
}

impl Default for Space {
    fn default() -> Self {
        Space {
            widest: 64,
            uneven: false,
        }
    }
}

const GROUP_SIZES: [u32; 6] = [1, 2, 4, 8, 16, 32];
pub(super) const LARGEST_GROUP: u32 = 32;

impl Space {
    /// The number of mappings, valid or not.
    pub fn size(&self, rnn: Rnn, batch: u32) -> u64 {
        let mut groups = 0;
        for width in 1..=self.widest {
            groups += divisors(rnn.gates() * width).count() as u64;
        }
        groups * divisors(batch).count() as u64 * GROUP_SIZES.len() as u64
    }

    /// Passes each valid mapping to `take`.
    pub fn each_valid(&self, sizes: &RnnSizes, device: &DataSheet, mut take: impl FnMut(Mapping)) {
        let heights = (1..=LARGEST_GROUP).filter(|height| sizes.batch.is_multiple_of(*height));
        let heights: Vec<u32> = heights.collect();
        let mut counts = Vec::new();
        for tile_width in 1..=self.widest {
            counts.clear();
            for &tile_height in &heights {
                let tile = Mapping {
                    tile_width,
                    tile_height,
                    groups: 1,
                    group_size: 1,
                };
                if !is_resident(&tile, sizes, device) {
                    continue;
                }
                if counts.is_empty() {
                    counts.extend(divisors(sizes.rnn.gates() * tile_width));
                }
                for &groups in &counts {
                    for group_size in GROUP_SIZES {
                        let mapping = Mapping {
                            groups,
                            group_size,
                            ..tile
                        };
                        if self.is_valid(&mapping, sizes, device) {
                            take(mapping);
                        }
                    }
                }
            }
        }
    }

    /// Whether all blocks run at once, the weights fit in registers, and a group's outputs fit its threads. The mapping
    /// must be of this space.
    pub fn is_valid(&self, mapping: &Mapping, sizes: &RnnSizes, device: &DataSheet) -> bool {
        let limits = &device.constants;
        let threads = mapping.threads();
        let weights = weights_of_thread(mapping, sizes);
        is_resident(mapping, sizes, device)
            && threads <= limits.threads
            && mapping.sub_tile_width(sizes.rnn) * mapping.tile_height <= mapping.group_size
            && weights <= f64::from(limits.thread_weights)
            && (weights + f64::from(limits.thread_registers)) * f64::from(threads)
                <= f64::from(limits.registers)
            && (self.uneven || threads.is_multiple_of(32 * limits.schedulers))
    }
}

/// Whether each block has a multiprocessor of its own. A grid may be far too large for 32 bits.
fn is_resident(mapping: &Mapping, sizes: &RnnSizes, device: &DataSheet) -> bool {
    u64::from(mapping.columns(sizes)) * u64::from(mapping.rows(sizes))
        <= u64::from(device.multiprocessors)
}

/// The weights that a thread keeps in registers.
pub fn weights_of_thread(mapping: &Mapping, sizes: &RnnSizes) -> f64 {
    let RnnSizes { rnn, hidden, .. } = *sizes;
    let of_gates =
        f64::from(mapping.sub_tile_width(rnn)) * f64::from(hidden) / f64::from(mapping.group_size);
    match rnn {
        Rnn::Lstm => of_gates,
        Rnn::GruDouble => of_gates * 1.5,
        // The other weights are spread over the whole block, which needs them for all outputs.
        Rnn::GruSingle => {
            of_gates + f64::from(mapping.tile_width * hidden.div_ceil(mapping.threads()))
        }
    }
}

fn divisors(of: u32) -> impl Iterator<Item = u32> {
    (1..=of).filter(move |number| of.is_multiple_of(*number))
}
