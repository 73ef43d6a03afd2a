//! The cost of a step with a mapping (GRNN, Figure 10), in dependent multiply-adds, and its time.
//!
//! The costs are those of the published ranking, not of the printed equations: a dot product is spread over a work
//! group, not a sub-tile (equation 8), and fitted functions jump at their bounds. Terms are rounded and added as in the
//! ranking, so that costs are equal to the last bit.

use serde::{Deserialize, Serialize};

use super::{DataSheet, Exchange, Mapping, Rnn, RnnSizes};
use crate::base::units::Nanos;

/// The terms of a step's cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// GC: the cost of moving the state from L2 to shared memory (equation 10), 2 decimals.
    pub memory: f64,
    /// SC: the cost of a second synchronisation; that of the first is left out. Of kernels that keep states on chip, the
    /// cost of all waits for other blocks.
    pub synchronisation: f64,
    /// RC: the cost of sums over a group (equation 14).
    pub reduction: f64,
    /// PC: the cost of each thread's products (equation 12), 2 decimals.
    pub product: f64,
}

impl Cost {
    pub fn estimate(mapping: &Mapping, sizes: &RnnSizes, device: &DataSheet) -> Cost {
        let constants = &device.constants;
        let RnnSizes { rnn, hidden, .. } = *sizes;
        let [hidden, width, height] =
            [hidden, mapping.tile_width, mapping.tile_height].map(f64::from);
        let synchronisations = f64::from(rnn.synchronisations());

        // Two multiprocessors share a path to the L2 cache.
        let state = 4.0 * hidden * height;
        let bytes = match rnn {
            Rnn::Lstm => state,
            Rnn::GruDouble => state * 2.0,
            // The reset gate's partial sums, one from each block of the row.
            Rnn::GruSingle => state + hidden * (hidden / width) * height * 4.0,
        };
        let sharing = 1 + 2 * mapping.blocks(sizes) / device.multiprocessors;
        let memory = bytes * f64::from(sharing)
            / (f64::from(constants.fma_cycles) * f64::from(constants.l2_bytes));
        let second = constants.second_synchronisation;
        let exchange = mapping.exchange(sizes, constants.cluster_blocks());
        let [memory, waits, wait] = match exchange {
            _ if !constants.states_on_chip => [memory, synchronisations - 1.0, second.into()],
            Exchange::Memory => [memory, synchronisations, second.into()],
            Exchange::Block => [0.0, 0.0, 0.0],
            Exchange::Cluster => [
                0.0,
                synchronisations,
                constants.cluster_synchronisation.unwrap_or(second).into(),
            ],
        };

        let product = product(mapping, sizes, device);
        let product = match rnn {
            Rnn::Lstm => product,
            Rnn::GruDouble => product * 1.5,
            Rnn::GruSingle => product + width + hidden / width,
        };
        let reductions = if rnn == Rnn::Lstm { 1.0 } else { 2.0 };
        Cost {
            memory: hundredths(memory),
            synchronisation: waits * wait,
            reduction: reductions * reduction(mapping, sizes, device),
            product: hundredths(product),
        }
    }

    /// TC, the sum of the terms (equation 15).
    pub fn total(&self) -> f64 {
        self.memory + self.synchronisation + self.reduction + self.product
    }
}

/// The warps of each scheduler (equation 6).
fn warps_of_scheduler(mapping: &Mapping, device: &DataSheet) -> u32 {
    mapping
        .threads()
        .div_ceil(32)
        .div_ceil(device.constants.schedulers)
}

fn product(mapping: &Mapping, sizes: &RnnSizes, device: &DataSheet) -> f64 {
    let warps = warps_of_scheduler(mapping, device);
    let outputs = mapping.sub_tile_width(sizes.rnn);
    let each = device.constants.products.cost(warps, outputs);
    each * f64::from(mapping.tile_height)
        * (f64::from(sizes.hidden) / f64::from(mapping.group_size))
}

fn reduction(mapping: &Mapping, sizes: &RnnSizes, device: &DataSheet) -> f64 {
    let constants = &device.constants;
    let values = warps_of_scheduler(mapping, device)
        * mapping.sub_tile_width(sizes.rnn)
        * mapping.tile_height;
    // Below a warp, another step moves the sum.
    let steps = mapping.group_size.ilog2() + u32::from(mapping.group_size < 32);
    let shuffles = f64::from(steps * constants.shuffle);
    constants.reductions.cost(shuffles, values)
}

/// Rounds to hundredths; ties go to an even last digit. Formatting rounds the exact value, while a product with a
/// hundred could be inexact.
fn hundredths(number: f64) -> f64 {
    format!("{number:.2}").parse().expect("a number of digits")
}

/// The times of kernels by cost: `launch + steps · (step_ns + cost · cost_ps)` for each kind of kernel. The performance
/// model ranks rather than predicts: the Titan V's lines are fitted to Table 1 and miss Table 2 by up to 0.19 ms of
/// 0.57.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KernelTimes {
    #[serde(rename = "launch_ns")]
    pub launch: Nanos,
    pub lstm: StepLine,
    pub gru_single: StepLine,
    pub gru_double: StepLine,
}

/// The time of a step as a line over its cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepLine {
    /// The time that is common to all mappings and not in the cost, mainly that of the barrier.
    pub step_ns: u64,
    /// The picoseconds of a unit of cost.
    pub cost_ps: u64,
}

impl KernelTimes {
    /// The time of a step with this cost, computed in millionths of a unit and rounded to 1 ns. An infinite cost takes
    /// forever.
    pub fn step(&self, rnn: Rnn, cost: f64) -> Nanos {
        let line = match rnn {
            Rnn::Lstm => self.lstm,
            Rnn::GruSingle => self.gru_single,
            Rnn::GruDouble => self.gru_double,
        };
        let cost = (cost * 1e6).round() as u128;
        let by_cost = cost
            .saturating_mul(line.cost_ps.into())
            .saturating_add(500_000_000)
            / 1_000_000_000;
        Nanos(line.step_ns).saturating_add(Nanos(u64::try_from(by_cost).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_digit() {
        for (number, rounded) in [
            (0.125, 0.12),
            (0.375, 0.38),
            (2.625, 2.62),
            (1.005, 1.0),
            (2.675, 2.67),
            (24.0, 24.0),
        ] {
            assert_eq!(hundredths(number), rounded, "{number}");
        }
    }
}
