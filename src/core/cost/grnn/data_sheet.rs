//! The table `[grnn]` of a device file.

use std::ops::RangeInclusive;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::KernelTimes;
use crate::base::error::{Error, Result};
use crate::base::shipped::{self, Shipped};
use crate::core::workload::input;

/// A GPU in GRNN's performance model (Figure 10). The unit of cost is the time of a dependent fused multiply-add.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSheet {
    pub name: String,
    /// SMs: the multiprocessors, each with one block.
    pub multiprocessors: u32,
    #[serde(rename = "grnn")]
    pub constants: Constants,
}

/// The constants of the performance model, by the names of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constants {
    /// NS: the warp schedulers of a multiprocessor.
    pub schedulers: u32,
    /// The 32-bit registers of a multiprocessor.
    pub registers: u32,
    /// The largest number of threads in a block.
    pub threads: u32,
    /// The weights that fit a thread's registers.
    pub thread_weights: u32,
    /// The registers that a thread needs for other values than weights.
    pub thread_registers: u32,
    /// FC: the latency of a fused multiply-add, in cycles.
    pub fma_cycles: u32,
    /// L2B: the bytes per cycle from L2 to a multiprocessor.
    pub l2_bytes: u32,
    /// SC: the cost of a second synchronisation, with which both take two round trips to L2.
    pub second_synchronisation: u32,
    /// Whether kernels keep states on chip where a row is one block or one cluster, as this project's do. Their costs
    /// then count every wait, since not all mappings wait. The paper's kernels always pass states through L2, and its
    /// formula leaves out the first wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub states_on_chip: bool,
    /// The cost of passing on states within a cluster, barrier included; `None` if the GPU has no clusters or if it was
    /// not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_synchronisation: Option<u32>,
    /// FPS: the multiply-adds in the time of a shuffle.
    pub shuffle: u32,
    pub products: Products,
    pub reductions: Reductions,
    /// The times of kernels by cost, or `None` if they were not measured.
    pub time: Option<KernelTimes>,
}

/// The cost of products by a scheduler's warps and the outputs for each loaded element of the state (equation 12).
/// Above a product `bound` of warps and outputs, the scheduler is always busy and the cost is proportional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// S1: the factor of doubling the warps.
    pub warps: f64,
    /// S2: the factor of doubling the outputs.
    pub outputs: f64,
    pub bound: u32,
    /// The cost of multiply-adds at the bound.
    pub bound_cost: f64,
}

impl Products {
    pub fn cost(&self, warps: u32, outputs: u32) -> f64 {
        if warps * outputs > self.bound {
            return self.bound_cost * (f64::from(warps * outputs) / f64::from(self.bound));
        }
        let by_warps = libm::pow(self.warps, libm::log2(warps.into()));
        let by_outputs = libm::pow(self.outputs, libm::log2(outputs.into()));
        by_warps * by_outputs
    }
}

/// The cost of reductions by the values that a scheduler's warps reduce (equation 14). Above `bound`, shuffles run one
/// after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reductions {
    /// S3: the factor of one more value.
    pub value: f64,
    /// The number of values from which the cost is proportional.
    pub bound: u32,
    /// The number of values whose cost below the bound is that at the bound.
    pub bound_values: u32,
}

impl Reductions {
    pub fn cost(&self, shuffles: f64, values: u32) -> f64 {
        if values < self.bound {
            return shuffles * libm::pow(self.value, values.into());
        }
        let at_bound = shuffles * libm::pow(self.value, self.bound_values.into());
        at_bound * (f64::from(values) / f64::from(self.bound))
    }
}

#[derive(Deserialize)]
/// What GRNN reads of a device file.
struct DeviceFile {
    name: String,
    multiprocessors: u32,
    grnn: Option<Constants>,
}

/// The blocks of the largest cluster that every GPU with clusters runs.
pub const CLUSTER_BLOCKS: u32 = 8;

const MOST: f64 = (1 << 24) as f64;

fn range(key: &str) -> Option<RangeInclusive<f64>> {
    Some(match key.strip_prefix("grnn.") {
        // Batches up to 32 times this are tried.
        None if key == "multiprocessors" => 1.0..=4096.0,
        None => return None,
        // Times are in nanoseconds, or in picoseconds for a unit of cost.
        Some(key) if key.starts_with("time.") => 0.0..=1e9,
        Some(
            "products.warps" | "products.outputs" | "products.bound_cost" | "reductions.value",
        ) => 0.001..=1000.0,
        Some(
            "thread_registers" | "second_synchronisation" | "shuffle" | "reductions.bound_values",
        ) => 0.0..=MOST,
        Some(_) => 1.0..=MOST,
    })
}

impl Constants {
    /// The most blocks of a row whose states stay on chip.
    pub fn cluster_blocks(&self) -> u32 {
        match self.cluster_synchronisation {
            Some(_) => CLUSTER_BLOCKS,
            None => 1,
        }
    }
}

impl DataSheet {
    pub fn open(given: &str) -> Result<DataSheet> {
        DataSheet::read(&Shipped::Device.find(Path::new(given))?)
    }

    pub fn read(path: &Path) -> Result<DataSheet> {
        let text = shipped::text(path)?;
        DataSheet::parse(&text, &path.display().to_string())
    }

    pub fn parse(text: &str, file: &str) -> Result<DataSheet> {
        let DeviceFile {
            name,
            multiprocessors,
            grnn,
        } = input::settings(text, file, range).map_err(Error::input)?;
        let constants = grnn.ok_or_else(|| {
            Error::input(format!(
                "{file}: no table [grnn], so the speed of persistent kernels on the {name} is unknown; \
                 scenarios/devices/titan-v.toml shows what it holds"
            ))
        })?;
        let Reductions {
            value,
            bound,
            bound_values,
        } = constants.reductions;
        let most = bound.max(bound_values);
        if libm::pow(value, most.into()).is_infinite() {
            return Err(Error::input(format!(
                "{file}: grnn.reductions: {value} to the power of {most} is larger than any number; take a smaller value, bound or bound_values"
            )));
        }
        Ok(DataSheet {
            name,
            multiprocessors,
            constants,
        })
    }

    /// The text that [`DataSheet::parse`] reads.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("numbers and names are TOML")
    }
}
