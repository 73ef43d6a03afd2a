//! Times of operators from a device's data sheet: a roofline with wave quantisation (DVABatch, section 3.2).
//!
//! An operator is one kernel: a launch, then the longer of products and memory traffic. A product takes `ceil(tiles /
//! multiprocessors)` waves with the fastest shape of tiles and number of slices of the inner dimension. Weights move
//! once per batch, the rest per query. Times are rounded up to 1 ns: never below the data sheet's limits.

mod kernels;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

pub use self::kernels::RooflineKernels;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::shipped::{self, BuiltIn, Shipped};
use crate::base::units::Nanos;
use crate::core::workload::dnn::{FormKind, QueryWork};
use crate::core::workload::input;

/// A device's data sheet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    pub name: String,
    pub multiprocessors: u64,
    bandwidth_mb_s: u64,
    memory_mb: Option<u64>,
    #[serde(rename = "launch_ns")]
    pub launch: Nanos,
    #[serde(rename = "latency_ns")]
    latency: Nanos,
    f32: Option<ArithmeticUnit>,
    tf32: Option<ArithmeticUnit>,
    bf16: Option<ArithmeticUnit>,
    f16: Option<ArithmeticUnit>,
    /// The table that [`grnn::DataSheet`](crate::core::cost::grnn::DataSheet) reads.
    #[serde(rename = "grnn")]
    _grnn: Option<IgnoredAny>,
    /// The unit of the precision.
    #[serde(skip)]
    pub unit: ArithmeticUnit,
}

/// The speed of a device in one precision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArithmeticUnit {
    /// The floating-point operations per ns of all multiprocessors together.
    pub peak_gflops: u64,
    /// The bytes of a number.
    pub bytes: u64,
    tiles: Vec<Tile>,
    /// The smallest inner dimension of a slice, if products are divided along it between blocks.
    slice: Option<u64>,
}

/// The part of a product that a block computes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tile {
    rows: u64,
    columns: u64,
    /// The rate in percent of the multiprocessor's peak.
    efficiency: u64,
}

impl ArithmeticUnit {
    /// The rate with the most efficient tiles, in hundredths of an operation per ns.
    fn best_rate(&self) -> u64 {
        let efficiencies = self.tiles.iter().map(|tile| tile.efficiency);
        self.peak_gflops * efficiencies.max().unwrap_or(100)
    }
}

/// The largest number in a device file: a thousand times that of the largest device.
const MAX: f64 = (1u64 << 40) as f64;
/// The largest side of a tile and the most bytes of a number: their products must not overflow.
const MAX_TILE: f64 = (1 << 16) as f64;

fn range(key: &str) -> Option<RangeInclusive<f64>> {
    match key.rsplit('.').next()? {
        _ if key.starts_with("grnn") => None,
        "launch_ns" | "latency_ns" => Some(0.0..=MAX),
        "bytes" | "rows" | "columns" => Some(1.0..=MAX_TILE),
        "efficiency" => Some(1.0..=100.0),
        _ => Some(1.0..=MAX),
    }
}

impl Roofline {
    /// The units that the file lists.
    fn units(&self) -> impl Iterator<Item = (Precision, &ArithmeticUnit)> {
        let Roofline {
            f32,
            tf32,
            bf16,
            f16,
            ..
        } = self;
        let units = [
            (Precision::F32, f32),
            (Precision::Tf32, tf32),
            (Precision::Bf16, bf16),
            (Precision::F16, f16),
        ];
        units
            .into_iter()
            .filter_map(|(precision, unit)| Some((precision, unit.as_ref()?)))
    }

    pub fn read(path: &Path, precision: Precision) -> Result<Roofline> {
        let text = shipped::text(path)?;
        Roofline::parse(&text, &path.display().to_string(), precision)
    }

    pub fn parse(text: &str, file: &str, precision: Precision) -> Result<Roofline> {
        let mut sheet: Roofline = input::settings(text, file, range).map_err(Error::input)?;
        let units: Vec<(Precision, &ArithmeticUnit)> = sheet.units().collect();
        if let Some((of, _)) = units.iter().find(|(_, unit)| unit.tiles.is_empty()) {
            return Err(Error::input(format!(
                "{file}: {of}.tiles: empty; kernels have at least one shape of tiles"
            )));
        }
        let unit = units.iter().find(|(of, _)| *of == precision).map(|(_, unit)| (*unit).clone()).ok_or_else(|| {
            let known: Vec<String> = units.iter().map(|(of, _)| of.to_string()).collect();
            Error::input(format!(
                "{file}: no table [{precision}], so the times in that precision are unknown (device.precision); \
                 it has: {}",
                if known.is_empty() { "none".to_string() } else { known.join(", ") }
            ))
        })?;
        sheet.unit = unit;
        Ok(sheet)
    }

    /// The file of a GPU and its data sheet in float32. The driver's name of the GPU, such as "NVIDIA TITAN V", must
    /// contain the device's name as whole words: a GH200 is not an H200.
    pub fn find_for_gpu(gpu: &str) -> Option<(&'static str, Roofline)> {
        let gpu = words(gpu);
        for BuiltIn { name: file, text } in Shipped::Device.all() {
            let sheet =
                Roofline::parse(text, file, Precision::F32).expect("a shipped file is complete");
            let name = words(&sheet.name);
            if gpu.windows(name.len()).any(|part| part == name) {
                return Some((file, sheet));
            }
        }
        None
    }

    /// The time of an operator's kernel, without its launch.
    pub fn busy(&self, work: &QueryWork, batch: u32) -> Nanos {
        self.computing(work, batch)
            .max(self.traffic(work.traffic(batch)))
    }

    /// The time of multiplying each of these rows with all numbers of some matrices once, with the most efficient
    /// tiles.
    pub(super) fn products(&self, rows: u32, numbers: u64) -> Nanos {
        let flops = 2 * u128::from(rows) * u128::from(numbers);
        nanos(div_ceil(flops * 100, u128::from(self.unit.best_rate())))
    }

    /// The most rows whose [products](Roofline::products) take at most this time.
    pub(super) fn most_rows(&self, numbers: u64, time: Nanos) -> u32 {
        let flops = u128::from(time.0) * u128::from(self.unit.best_rate()) / 100;
        let rows = flops / (2 * u128::from(numbers)).max(1);
        u32::try_from(rows).unwrap_or(u32::MAX)
    }

    /// The bytes of the device's memory.
    pub fn memory(&self) -> Option<u64> {
        self.memory_mb.map(|mb| mb.saturating_mul(1_000_000))
    }

    /// The time of an operator's products, with the fastest tiles and number of slices.
    fn computing(&self, work: &QueryWork, batch: u32) -> Nanos {
        let batch = u128::from(batch);
        let (rows, count) = match work.kind {
            FormKind::Memory => return Nanos::ZERO,
            FormKind::Matmul => (batch * u128::from(work.rows), u128::from(work.count)),
            FormKind::BatchedMatmul => (u128::from(work.rows), batch * u128::from(work.count)),
        };
        let results = count * rows * u128::from(work.columns);
        let mut fastest: Option<u128> = None;
        for tile in &self.unit.tiles {
            let across = u128::from(work.columns.div_ceil(tile.columns));
            let tiles = count * div_ceil(rows, u128::from(tile.rows)) * across;
            let mut slices = 1;
            while slices == 1 || self.can_slice(work.inner, slices) {
                let time = self.sliced_time(tile, tiles, work.inner, slices, results);
                fastest = Some(fastest.map_or(time, |before| before.min(time)));
                slices *= 2;
            }
        }
        nanos(fastest.unwrap_or(0))
    }

    /// Whether products can be divided between blocks into these slices of the inner dimension.
    fn can_slice(&self, inner: u64, slices: u64) -> bool {
        self.unit.slice.is_some_and(|least| inner / slices >= least)
    }

    /// The time of products in slices: blocks write the sums of their slices, which another kernel adds up.
    fn sliced_time(
        &self,
        tile: &Tile,
        tiles: u128,
        inner: u64,
        slices: u64,
        results: u128,
    ) -> u128 {
        let multiprocessors = self.multiprocessors;
        let waves = div_ceil(tiles * u128::from(slices), u128::from(multiprocessors));
        let flops_of_wave = 2
            * u128::from(tile.rows * tile.columns)
            * u128::from(inner.div_ceil(slices))
            * u128::from(multiprocessors);
        let time = div_ceil(
            waves * flops_of_wave * 100,
            u128::from(self.unit.peak_gflops * tile.efficiency),
        );
        if slices == 1 {
            return time;
        }
        let adding = self.traffic(results * u128::from(slices + 1));
        time + u128::from(self.launch.saturating_add(adding).0)
    }

    /// The time of reading or writing these numbers.
    #[inline]
    pub(super) fn traffic(&self, elements: u128) -> Nanos {
        let bytes = elements * u128::from(self.unit.bytes);
        nanos(div_ceil(bytes * 1000, u128::from(self.bandwidth_mb_s))).max(self.latency)
    }

    /// A lower bound in ns for a query's share of the time of any batch: products at the best tiles' rate, or traffic
    /// without weights.
    pub fn share_ns(&self, work: &QueryWork) -> f64 {
        let computing = work.flops(1) as f64 * 100.0 / self.unit.best_rate() as f64;
        let moving = (u128::from(work.elements) * u128::from(self.unit.bytes)) as f64 * 1000.0
            / self.bandwidth_mb_s as f64;
        computing.max(moving)
    }
}

/// Divides in 64 bits if possible, since a 128-bit division takes several times as long. Rounds up.
fn div_ceil(number: u128, by: u128) -> u128 {
    match (u64::try_from(number), u64::try_from(by)) {
        (Ok(number), Ok(by)) => u128::from(number.div_ceil(by)),
        _ => number.div_ceil(by),
    }
}

/// The lower-case words of a name.
fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .collect()
}

fn nanos(time: u128) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}
