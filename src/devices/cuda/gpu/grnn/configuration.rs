//! The sizes and options with which a persistent kernel is compiled and launched.

use crate::base::error::{Error, Result};
use crate::core::cost::grnn::{
    CLUSTER_BLOCKS, Exchange, Mapping, Rnn, RnnSizes, weights_of_thread,
};
use crate::devices::cuda::gpu::compile::file;

/// The threads of a warp.
const WARP: u32 = 32;

/// The most threads of a block.
const THREADS: u32 = 1024;

/// The most registers of a thread.
const REGISTERS: u32 = 255;

/// The registers of a multiprocessor.
const OF_MULTIPROCESSOR: u32 = 65_536;

/// The registers of a thread that hold no weights (GRNN, equation 5).
const BESIDE_WEIGHTS: u32 = 32;

/// A persistent kernel: the network's sizes, the mapping of a step to the GPU, and how its blocks pass on states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    sizes: RnnSizes,
    mapping: Mapping,
    exchange: Exchange,
}

impl Configuration {
    /// Checks that a kernel can be made of the mapping: groups are powers of two up to a warp, share the outputs evenly
    /// and have a thread for each sum; blocks are not too large. It runs on any GPU: several blocks of a row exchange
    /// states in memory.
    pub fn new(sizes: RnnSizes, mapping: Mapping) -> Result<Configuration> {
        let Mapping {
            tile_width,
            tile_height,
            groups,
            group_size,
        } = mapping;
        let outputs = tile_width * sizes.rnn.gates();
        let wrong = if [
            sizes.hidden,
            sizes.batch,
            tile_width,
            tile_height,
            groups,
            group_size,
        ]
        .contains(&0)
        {
            "a size is 0".to_string()
        } else if group_size > WARP || !group_size.is_power_of_two() {
            format!("a group has 1, 2, 4, 8, 16 or {WARP} threads")
        } else if !outputs.is_multiple_of(groups) {
            format!("its {outputs} outputs are no multiple of the groups")
        } else if mapping.sub_tile_width(sizes.rnn) * tile_height > group_size {
            format!(
                "a group has {} sums, and has to have a thread for each",
                mapping.sub_tile_width(sizes.rnn) * tile_height
            )
        } else if mapping.threads() > THREADS {
            format!("a block has up to {THREADS} threads")
        } else {
            return Ok(Configuration {
                sizes,
                mapping,
                exchange: mapping.exchange(&sizes, 1),
            });
        };
        Err(Error::input(format!(
            "a tile of {tile_width} by {tile_height} with {groups} groups of {group_size} threads is not a mapping of {}: {wrong}",
            sizes.rnn
        )))
    }

    pub fn sizes(&self) -> RnnSizes {
        self.sizes
    }

    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    pub fn exchange(&self) -> Exchange {
        self.exchange
    }

    /// The same kernel with a cluster for each row, for GPUs that have clusters; `None` if a row is no cluster.
    pub fn cluster(self) -> Option<Configuration> {
        let exchange = self.mapping.exchange(&self.sizes, CLUSTER_BLOCKS);
        (exchange == Exchange::Cluster).then_some(Configuration { exchange, ..self })
    }

    /// The name and the text of the kernel's file.
    pub fn source(&self) -> (&'static str, &'static str) {
        Configuration::source_of(self.sizes.rnn)
    }

    pub(super) fn source_of(rnn: Rnn) -> (&'static str, &'static str) {
        file(if rnn == Rnn::Lstm {
            "grnn_lstm.cu"
        } else {
            "grnn_gru.cu"
        })
    }

    /// The name of the kernel.
    pub fn kernel(&self) -> &'static str {
        if self.sizes.rnn == Rnn::Lstm {
            "persistent_lstm"
        } else {
            "persistent_gru"
        }
    }

    /// The compiler's options in addition to the architecture.
    pub fn options(&self) -> Vec<String> {
        let registers = format!("--maxrregcount={}", self.registers());
        [
            self.constants(),
            vec!["-DELEMENT=0".into(), "--std=c++17".into(), registers],
        ]
        .concat()
    }

    /// The constants of the compilation. The batch is not one of them: a kernel runs any batch for which its grid has
    /// rows.
    pub fn constants(&self) -> Vec<String> {
        let Mapping {
            tile_width,
            tile_height,
            groups,
            group_size,
        } = self.mapping;
        let constants = [
            ("HIDDEN", self.sizes.hidden),
            ("TILE_WIDTH", tile_width),
            ("TILE_HEIGHT", tile_height),
            ("GROUPS", groups),
            ("GROUP_SIZE", group_size),
            ("SYNCHRONISATIONS", self.sizes.rnn.synchronisations()),
            (
                "EXCHANGE",
                match self.exchange {
                    Exchange::Memory => 0,
                    Exchange::Block => 1,
                    Exchange::Cluster => 2,
                },
            ),
        ];
        constants
            .into_iter()
            .map(|(name, value)| format!("-D{name}={value}"))
            .collect()
    }

    /// The registers of a thread, to which the compiler is limited: its weights, and the number that the performance
    /// model reserves for other values. A block of a valid mapping then fits a multiprocessor. Multiprocessors allocate
    /// registers in eights, to four warps at a time. The performance model ignores this, so a few blocks get fewer
    /// registers.
    pub fn registers(&self) -> u32 {
        let weights = weights_of_thread(&self.mapping, &self.sizes).ceil() as u32;
        let threads = self.mapping.threads().next_multiple_of(4 * WARP);
        (weights + BESIDE_WEIGHTS)
            .min(OF_MULTIPROCESSOR / threads / 8 * 8)
            .min(REGISTERS)
    }

    /// The shared memory of a block in bytes: the states of a tile's sequences, which are two in a cluster, the products
    /// of its outputs, and the values that are combined with them; for a GRU with one synchronisation also the gated
    /// states.
    pub fn shared_bytes(&self) -> u32 {
        let Mapping {
            tile_width,
            tile_height,
            ..
        } = self.mapping;
        let tiles = if self.exchange == Exchange::Cluster {
            2
        } else {
            1
        };
        let state = tiles * self.sizes.hidden.next_multiple_of(WARP);
        let products = tile_width * self.sizes.rnn.gates();
        let numbers = match self.sizes.rnn {
            // The input's part of each gate, c, h, and the sequence's length.
            Rnn::Lstm => state + products + 7 * tile_width,
            // The input's part of each gate, h, and the length.
            Rnn::GruDouble => state + products + 5 * tile_width,
            // The input's part of the gates that are multiplied together, h, and the length.
            Rnn::GruSingle => 2 * state + products + 4 * tile_width,
        };
        numbers * tile_height * size_of::<f32>() as u32
    }

    /// The size in numbers of what a batch needs in addition to the states of h: an LSTM's c, or the numbers that the
    /// blocks of a GRU exchange.
    pub fn extra_numbers(&self, batch: u32) -> usize {
        let states = batch as usize * self.sizes.hidden as usize;
        match self.sizes.rnn {
            Rnn::Lstm | Rnn::GruDouble => states,
            Rnn::GruSingle => 2 * self.mapping.columns(&self.sizes) as usize * states,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(
        rnn: Rnn,
        [tile_width, tile_height, groups, group_size]: [u32; 4],
    ) -> Result<Configuration> {
        let mapping = Mapping {
            tile_width,
            tile_height,
            groups,
            group_size,
        };
        Configuration::new(
            RnnSizes {
                rnn,
                hidden: 256,
                batch: 20,
            },
            mapping,
        )
    }

    #[test]
    fn invalid_mappings_are_refused() {
        for (mapping, reason) in [
            ([32, 2, 32, 0], "a size is 0"),
            ([32, 2, 32, 12], "a group has 1, 2, 4, 8, 16 or 32 threads"),
            ([32, 2, 32, 64], "a group has 1, 2, 4, 8, 16 or 32 threads"),
            (
                [32, 2, 24, 8],
                "its 128 outputs are no multiple of the groups",
            ),
            (
                [32, 4, 32, 8],
                "a group has 16 sums, and has to have a thread for each",
            ),
            ([64, 2, 64, 32], "a block has up to 1024 threads"),
        ] {
            let message = configuration(Rnn::Lstm, mapping).unwrap_err().to_string();
            let [width, height, groups, group] = mapping;
            let beginning = format!(
                "a tile of {width} by {height} with {groups} groups of {group} threads is not a mapping of lstm"
            );
            assert_eq!(message, format!("{beginning}: {reason}"));
        }
    }

    #[test]
    fn shared_memory_has_what_the_kernel_takes() {
        let of = |rnn, mapping| configuration(rnn, mapping).unwrap();
        let lstm = of(Rnn::Lstm, [32, 2, 32, 8]);
        assert_eq!(
            (lstm.shared_bytes(), lstm.extra_numbers(20)),
            (4 * 2 * (256 + 128 + 224), 20 * 256)
        );
        let double = of(Rnn::GruDouble, [48, 1, 32, 8]);
        assert_eq!(
            (double.shared_bytes(), double.extra_numbers(20)),
            (4 * (256 + 96 + 240), 20 * 256)
        );
        let single = of(Rnn::GruSingle, [50, 1, 50, 8]);
        assert_eq!(
            (single.shared_bytes(), single.extra_numbers(20)),
            (4 * (512 + 100 + 200), 2 * 6 * 20 * 256)
        );
        assert_eq!(lstm.constants()[1], "-DTILE_WIDTH=32");
    }

    #[test]
    fn registers_are_given_out_by_eights() {
        let of = |rnn, hidden, [tile_width, tile_height, groups, group_size]: [u32; 4]| {
            let mapping = Mapping {
                tile_width,
                tile_height,
                groups,
                group_size,
            };
            Configuration::new(
                RnnSizes {
                    rnn,
                    hidden,
                    batch: 1,
                },
                mapping,
            )
            .unwrap()
            .registers()
        };
        assert_eq!(of(Rnn::Lstm, 256, [32, 2, 32, 8]), 128 + 32);
        assert_eq!(of(Rnn::Lstm, 1024, [14, 1, 8, 32]), 255);
        // 704 threads of 57 + 32 registers need fewer than 65,536, but 768 of 96 need more.
        assert_eq!(of(Rnn::Lstm, 57 * 8, [22, 1, 88, 8]), 80);
    }
}
