//! Steps in one kernel (`kernels/fused.cu`): the rule by which a batch takes it instead of a product by cuBLAS, and the
//! order of its weights.
//!
//! The rule is in one place, `StepRule::batches`. It follows measurements of this kernel on an H100
//! (results/reference/gpu has all of them; µs for an LSTM step of 1024, in graphs of 24 steps):
//!
//! | rows | float32, cuBLAS | fused | bfloat16, cuBLAS | fused |
//! | --- | --- | --- | --- | --- |
//! | 1 | 12.8 | 10.8 | 10.7 | 7.5 |
//! | 8 | 27.9 | 11.7 | 10.2 | 8.0 |
//! | 16 | 38.8 | 12.2 | 10.1 | 8.7 |
//! | 32 | 34.8 | 17.3 | 10.4 | 9.9 |
//! | 64 | 41.6 | 24.8 | 12.1 | 13.4 |
//! | 128 | 66.8 | 51.3 | 14.1 | 24.7 |
//! | 256 | 107.6 | 97.6 | 18.5 | 46.2 |
//! | 512 | 187.2 | 186.7 | 23.1 | 91.1 |
//!
//! Elsewhere cuBLAS stays the default, since no measurement says that the kernel is faster. `device.step_kernels` takes
//! one or the other for all batches, for measurements.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::memory::GpuMemory;
use crate::base::precision::Precision;
use crate::base::step_kernels::StepKernels;

/// The units of a block of the kernel.
pub(super) const UNITS: u32 = 8;

/// The most rows that a block computes at a time.
pub(super) const ROWS: u32 = 64;

/// The bytes of a row in a block of inputs.
const BLOCK_BYTES: usize = 64;

/// The oldest architecture with the kernel's products of tiles.
const OLDEST: u32 = 80;

/// The architecture of the measurements.
const MEASURED: u32 = 90;

/// The product of a gated cell: the gates of each unit, the inputs and the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GatedProduct {
    pub gates: u32,
    pub inputs: u32,
    pub units: u32,
}

/// A cell's product, whatever its width.
#[derive(Clone, Copy)]
struct GatedCell {
    gates: u32,
    /// The inputs for each unit.
    inputs: u32,
}

const LSTM: GatedCell = GatedCell {
    gates: 4,
    inputs: 2,
};
const TREE_NODE: GatedCell = GatedCell {
    gates: 5,
    inputs: 2,
};
const TREE_LEAF: GatedCell = GatedCell {
    gates: 3,
    inputs: 1,
};
/// The two products of a GRU, which were measured together.
const GRU_GATES: GatedCell = GatedCell {
    gates: 2,
    inputs: 2,
};
const GRU_CANDIDATE: GatedCell = GatedCell {
    gates: 1,
    inputs: 2,
};

/// A cell whose steps were faster in one kernel, up to a number of rows.
struct MeasuredGain {
    precision: Precision,
    cell: GatedCell,
    /// The widths that were measured are the ends of this range.
    units: RangeInclusive<u32>,
    rows: u32,
}

/// What was faster. No batch above 512 was measured.
const MEASURED_GAINS: [MeasuredGain; 10] = [
    measured_gain(Precision::F32, LSTM, 512..=1024, 512),
    measured_gain(Precision::F32, TREE_NODE, 1024..=1024, 512),
    measured_gain(Precision::F32, TREE_LEAF, 1024..=1024, 512),
    measured_gain(Precision::F32, GRU_GATES, 1024..=1024, 128),
    measured_gain(Precision::F32, GRU_CANDIDATE, 1024..=1024, 128),
    measured_gain(Precision::Bf16, LSTM, 1024..=1024, 32),
    measured_gain(Precision::Bf16, TREE_NODE, 1024..=1024, 32),
    measured_gain(Precision::Bf16, TREE_LEAF, 1024..=1024, 64),
    measured_gain(Precision::Bf16, GRU_GATES, 1024..=1024, 32),
    measured_gain(Precision::Bf16, GRU_CANDIDATE, 1024..=1024, 32),
];

const fn measured_gain(
    precision: Precision,
    cell: GatedCell,
    units: RangeInclusive<u32>,
    rows: u32,
) -> MeasuredGain {
    MeasuredGain {
        precision,
        cell,
        units,
        rows,
    }
}

impl MeasuredGain {
    fn covers(&self, precision: Precision, product: GatedProduct) -> bool {
        self.precision == precision
            && self.cell.gates == product.gates
            && self.units.contains(&product.units)
            && self.cell.inputs * product.units == product.inputs
    }
}

/// What decides between the kernels of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepRule {
    pub wanted: StepKernels,
    pub precision: Precision,
    pub architecture: u32,
}

impl StepRule {
    /// The batches whose steps are one fused kernel, or why there are none.
    pub fn batches(&self, product: GatedProduct) -> Result<RangeInclusive<u32>, String> {
        let StepRule {
            wanted,
            precision,
            architecture,
        } = *self;
        let row_bytes = product.inputs as usize * precision.bytes() as usize;
        if wanted == StepKernels::Cublas {
            return Err("device.step_kernels is cublas".into());
        }
        if architecture < OLDEST {
            return Err(format!(
                "compute capability {}.{} is older than 8.0",
                architecture / 10,
                architecture % 10
            ));
        }
        if precision == Precision::Tf32 {
            return Err("fused kernels in float32 are exact to more than tf32".into());
        }
        if !row_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(format!(
                "{} inputs in {precision} are not a multiple of {BLOCK_BYTES} bytes",
                product.inputs
            ));
        }
        if wanted == StepKernels::Fused {
            return Ok(1..=u32::MAX);
        }
        let gain = MEASURED_GAINS
            .iter()
            .find(|gain| architecture == MEASURED && gain.covers(precision, product));
        match gain {
            Some(gain) => Ok(1..=gain.rows),
            None => Err("no measurement says that it is faster here".into()),
        }
    }
}

/// The weights of a cell in the order of the fused kernel.
#[derive(Clone, Debug)]
pub(super) struct FusedWeights {
    memory: Arc<GpuMemory>,
    batches: RangeInclusive<u32>,
    pub product: GatedProduct,
}

impl FusedWeights {
    pub fn new(
        memory: GpuMemory,
        batches: RangeInclusive<u32>,
        product: GatedProduct,
    ) -> FusedWeights {
        FusedWeights {
            memory: Arc::new(memory),
            batches,
            product,
        }
    }

    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Whether the steps of a batch of this size are fused.
    pub fn takes(&self, rows: u32) -> bool {
        self.batches.contains(&rows)
    }
}

/// What is fused of a network's gated products, or why nothing is although it was asked for; empty if nothing is by
/// default.
pub(super) fn describe(
    wanted: StepKernels,
    products: &[(GatedProduct, Result<RangeInclusive<u32>, String>)],
) -> String {
    let mut told: Vec<String> = Vec::new();
    for (product, batches) in products {
        let GatedProduct {
            gates,
            inputs,
            units,
        } = product;
        let outputs = gates * units;
        let text = match batches {
            Ok(batches) if *batches.end() == u32::MAX => {
                format!("fused steps of {inputs} by {outputs}")
            }
            Ok(batches) => format!(
                "fused steps of {inputs} by {outputs} for {} to {} rows",
                batches.start(),
                batches.end()
            ),
            Err(reason) if wanted == StepKernels::Fused => {
                format!("steps of {inputs} by {outputs} by cuBLAS, because {reason}")
            }
            Err(_) => continue,
        };
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told.join(", ")
}

/// Packs weights, a row for each gate of each unit, in the order in which the lanes of the fused kernel read them: by
/// blocks of units, of inputs and gates, 16 bytes for each lane. Zeros stand for the units that the last block lacks.
///
/// # Panics
///
/// If rows are no multiple of 64 bytes.
pub fn pack(rows: &[u8], gates: usize, row_bytes: usize) -> Vec<u8> {
    assert!(
        row_bytes.is_multiple_of(BLOCK_BYTES),
        "whole blocks of inputs"
    );
    let units = rows.len() / row_bytes / gates;
    let blocks = units.div_ceil(UNITS as usize);
    let mut packed = Vec::with_capacity(blocks * UNITS as usize * gates * row_bytes);
    for block in 0..blocks {
        for inputs in (0..row_bytes).step_by(BLOCK_BYTES) {
            for gate in 0..gates {
                // Four lanes have a unit, each with a quarter of the block's inputs.
                for unit in (0..UNITS as usize).map(|unit| block * UNITS as usize + unit) {
                    let row = (gate * units + unit) * row_bytes;
                    match rows.get(row + inputs..row + inputs + BLOCK_BYTES) {
                        Some(bytes) if unit < units => packed.extend_from_slice(bytes),
                        _ => packed.resize(packed.len() + BLOCK_BYTES, 0),
                    }
                }
            }
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(wanted: StepKernels, precision: Precision, architecture: u32) -> StepRule {
        StepRule {
            wanted,
            precision,
            architecture,
        }
    }

    #[test]
    fn the_default_is_fused_only_where_it_was_measured() {
        let by_default = |precision, architecture, product| {
            rule(StepKernels::Auto, precision, architecture).batches(product)
        };
        let lstm = GatedProduct {
            gates: 4,
            inputs: 2048,
            units: 1024,
        };
        let leaf = GatedProduct {
            gates: 3,
            inputs: 1024,
            ..lstm
        };
        let narrow = GatedProduct {
            inputs: 1024,
            units: 512,
            ..lstm
        };
        assert_eq!(by_default(Precision::F32, 90, lstm), Ok(1..=512));
        assert_eq!(by_default(Precision::F32, 90, narrow), Ok(1..=512));
        assert!(by_default(Precision::Bf16, 90, narrow).is_err());
        assert_eq!(by_default(Precision::Bf16, 90, lstm), Ok(1..=32));
        assert_eq!(by_default(Precision::Bf16, 90, leaf), Ok(1..=64));
        assert!(by_default(Precision::F16, 90, lstm).is_err());
        assert!(by_default(Precision::F32, 80, lstm).is_err());
        for unmeasured in [
            GatedProduct {
                units: 1025,
                ..lstm
            },
            GatedProduct {
                inputs: 1536,
                ..lstm
            },
            GatedProduct { gates: 6, ..lstm },
        ] {
            assert!(by_default(Precision::F32, 90, unmeasured).is_err());
        }
    }

    #[test]
    fn a_demand_is_met_wherever_the_kernel_can() {
        let product = GatedProduct {
            gates: 5,
            inputs: 48,
            units: 24,
        };
        let forced = |precision, architecture| {
            rule(StepKernels::Fused, precision, architecture).batches(product)
        };
        assert_eq!(forced(Precision::F32, 80), Ok(1..=u32::MAX));
        assert_eq!(
            forced(Precision::F32, 75),
            Err("compute capability 7.5 is older than 8.0".into())
        );
        assert_eq!(
            forced(Precision::Bf16, 90),
            Err("48 inputs in bf16 are not a multiple of 64 bytes".into())
        );
        assert!(forced(Precision::Tf32, 90).is_err());
        let never = rule(StepKernels::Cublas, Precision::F32, 90);
        assert!(never.batches(product).is_err());
    }

    #[test]
    fn weights_are_packed_by_units_inputs_and_gates() {
        // Two gates of nine units, whose rows have two blocks; a byte tells gate, unit and block.
        let byte = |gate: usize, unit: usize, block: usize| (gate * 100 + unit * 2 + block) as u8;
        let rows: Vec<u8> = (0..18)
            .flat_map(|row| (0..2).map(move |block| byte(row / 9, row % 9, block)))
            .flat_map(|byte| [byte; BLOCK_BYTES])
            .collect();
        let packed = pack(&rows, 2, 2 * BLOCK_BYTES);
        assert_eq!(packed.len(), 2 * 2 * 2 * 8 * BLOCK_BYTES);
        for (at, piece) in packed.chunks_exact(BLOCK_BYTES).enumerate() {
            let unit = at / 32 * 8 + at % 8;
            let expected = if unit < 9 {
                byte(at / 8 % 2, unit, at / 16 % 2)
            } else {
                0
            };
            assert_eq!(piece, [expected; BLOCK_BYTES], "piece {at}");
        }
    }
}
