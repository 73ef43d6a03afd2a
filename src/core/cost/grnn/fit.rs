//! Fits a GPU's constants to micro-benchmarks (GRNN, section 7.1.3): the slopes of products (S1, S2) and reductions
//! (S3) by least squares in logarithms, through the baseline's 1. The bounds are the Titan V's, not fitted.

use super::{Constants, DataSheet, Products, Reductions};
use crate::base::error::{Error, Result};

/// The published ranking's bounds, and its division of a thread's registers.
const PRODUCTS: u32 = 8;
const REDUCTIONS: u32 = 12;
const THREAD_WEIGHTS: u32 = 224;
const THREAD_REGISTERS: u32 = 32;

/// The warp schedulers of a multiprocessor. Drivers do not report them, but all float32 GPUs since 2014 have 4.
pub const SCHEDULERS: u32 = 4;

/// What the driver reports of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedGpu {
    pub name: String,
    pub gpu: String,
    pub multiprocessors: u32,
    /// The 32-bit registers of a multiprocessor.
    pub registers: u32,
    pub threads: u32,
    pub kilohertz: u32,
}

/// The results of the micro-benchmarks, in cycles of a multiprocessor.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroBenchmarks {
    /// FC: the cycles of a multiply-add.
    pub fma: f64,
    /// The cycles of a shuffle and an addition.
    pub shuffle: f64,
    /// The bytes per cycle from L2 to a multiprocessor that reads by itself, and to each if all read.
    pub l2: [f64; 2],
    /// The cycles of a barrier of a row of blocks, one on each multiprocessor.
    pub barrier: f64,
    /// The cycles of a barrier of a cluster, with the transfer of states; `None` on a GPU without clusters.
    pub cluster: Option<f64>,
    /// The cycles of one more element of the state, by warps and outputs.
    pub products: Vec<MeasuredProduct>,
    /// The cycles of a reduction over a warp, divided by its 5 steps.
    pub reductions: Vec<MeasuredReduction>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredProduct {
    pub warps: u32,
    pub outputs: u32,
    pub cycles: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredReduction {
    /// The values that a scheduler's warps reduce together.
    pub values: u32,
    pub cycles: f64,
}

impl MicroBenchmarks {
    /// Fits the data sheet of a GPU.
    pub fn data_sheet(&self, reported: &ReportedGpu) -> Result<DataSheet> {
        self.check()?;
        Ok(DataSheet {
            name: reported.name.clone(),
            multiprocessors: reported.multiprocessors,
            constants: Constants {
                schedulers: SCHEDULERS,
                registers: reported.registers,
                threads: reported.threads,
                thread_weights: THREAD_WEIGHTS,
                thread_registers: THREAD_REGISTERS,
                fma_cycles: whole(self.fma),
                // The performance model halves this number where multiprocessors share a path.
                l2_bytes: whole(self.l2[0]),
                second_synchronisation: whole(self.barrier / self.fma),
                states_on_chip: true,
                cluster_synchronisation: self.cluster.map(|cycles| whole(cycles / self.fma)),
                shuffle: whole(self.shuffle / self.fma),
                products: products(&self.products)?,
                reductions: reductions(&self.reductions, self.shuffle)?,
                time: None,
            },
        })
    }

    /// The largest relative errors of the fitted constants for products and for reductions.
    pub fn misses(&self, constants: &Constants) -> [f64; 2] {
        let baseline = self
            .products
            .iter()
            .find(|point| (point.warps, point.outputs) == (1, 1));
        let baseline = baseline.map_or(f64::NAN, |point| point.cycles);
        let product = |point: &MeasuredProduct| {
            (constants.products.cost(point.warps, point.outputs) * baseline / point.cycles - 1.0)
                .abs()
        };
        let reduction = |point: &MeasuredReduction| {
            (constants.reductions.cost(self.shuffle, point.values) / point.cycles - 1.0).abs()
        };
        [
            self.products.iter().map(product).fold(0.0, f64::max),
            self.reductions.iter().map(reduction).fold(0.0, f64::max),
        ]
    }

    fn check(&self) -> Result<()> {
        let single = [
            ("a multiply-add", self.fma),
            ("a shuffle", self.shuffle),
            ("a barrier", self.barrier),
        ];
        let cluster = self.cluster.map(|cycles| ("a cluster's barrier", cycles));
        let bytes = self.l2.map(|bytes| ("bytes of the L2 cache", bytes));
        let points = self
            .products
            .iter()
            .map(|point| ("a product", point.cycles));
        let points = points.chain(
            self.reductions
                .iter()
                .map(|point| ("a reduction", point.cycles)),
        );
        for (what, number) in single.into_iter().chain(cluster).chain(bytes).chain(points) {
            if !(number.is_finite() && number > 0.0) {
                return Err(Error::failure(format!(
                    "{what}: {number} was measured, and only positive numbers can be fitted"
                )));
            }
        }
        Ok(())
    }
}

/// Fits S1 and S2: `log cost = log warps · log2(warps) + log outputs · log2(outputs)`.
fn products(points: &[MeasuredProduct]) -> Result<Products> {
    let baseline = points
        .iter()
        .find(|point| (point.warps, point.outputs) == (1, 1));
    let baseline = baseline
        .ok_or_else(|| lacking("products have no baseline of one warp and one output"))?
        .cycles;
    let both = |point: &MeasuredProduct| point.warps * point.outputs;
    // The sums of the normal equations: w is the logarithm of the warps, o of the outputs, y of the cost.
    let [mut ww, mut wo, mut oo, mut wy, mut oy] = [0.0; 5];
    for point in points.iter().filter(|point| both(point) <= PRODUCTS) {
        let w = f64::from(point.warps).log2();
        let o = f64::from(point.outputs).log2();
        let y = (point.cycles / baseline).ln();
        ww += w * w;
        wo += w * o;
        oo += o * o;
        wy += w * y;
        oy += o * y;
    }
    let determinant = ww * oo - wo * wo;
    if determinant <= 0.0 {
        return Err(lacking(
            "products up to the bound do not differ in both warps and outputs",
        ));
    }
    let above = points.iter().filter(|point| both(point) > PRODUCTS);
    let in_proportion = above
        .map(|point| (point.cycles / baseline * f64::from(PRODUCTS) / f64::from(both(point))).ln());
    let bound_cost =
        mean(in_proportion).ok_or_else(|| lacking("no products are above the bound"))?;
    Ok(Products {
        warps: growth((wy * oo - oy * wo) / determinant),
        outputs: growth((oy * ww - wy * wo) / determinant),
        bound: PRODUCTS,
        bound_cost: round_as_in_file(bound_cost.exp()),
    })
}

/// Fits S3: `log cost = log value · values`, where a shuffle costs 1.
fn reductions(points: &[MeasuredReduction], shuffle: f64) -> Result<Reductions> {
    let mut xx = 0.0;
    let mut xy = 0.0;
    for point in points.iter().filter(|point| point.values < REDUCTIONS) {
        let x = f64::from(point.values);
        let y = (point.cycles / shuffle).ln();
        xx += x * x;
        xy += x * y;
    }
    if xx == 0.0 {
        return Err(lacking("no reductions are below the bound"));
    }
    let value = growth(xy / xx);
    let above = points.iter().filter(|point| point.values >= REDUCTIONS);
    let in_proportion = above.map(|point| {
        (point.cycles / shuffle * f64::from(REDUCTIONS) / f64::from(point.values)).ln()
    });
    let at_bound =
        mean(in_proportion).ok_or_else(|| lacking("no reductions are above the bound"))?;
    let bound_values = if value > 1.0 {
        (at_bound / value.ln()).round().max(0.0) as u32
    } else {
        0
    };
    Ok(Reductions {
        value,
        bound: REDUCTIONS,
        bound_values,
    })
}

/// A whole number of at least 1.
fn whole(number: f64) -> u32 {
    (number.round() as u32).max(1)
}

/// The factor of a slope in logarithms. It is at least 1, since more work never takes less time.
fn growth(slope: f64) -> f64 {
    round_as_in_file(slope.exp().max(1.0))
}

/// Rounds to six decimals, as in the file, so that both agree.
fn round_as_in_file(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut count = 0u32;
    let mut sum = 0.0;
    for number in numbers {
        count += 1;
        sum += number;
    }
    if count == 0 {
        return None;
    }
    Some(sum / f64::from(count))
}

fn lacking(what: &str) -> Error {
    Error::failure(format!("nothing can be fitted: {what}"))
}

/// The text of a device file with this data sheet.
pub fn file(device: &DataSheet, measured: &MicroBenchmarks, reported: &ReportedGpu) -> String {
    let ReportedGpu { gpu, kilohertz, .. } = reported;
    let [alone, shared] = measured.l2;
    let cluster = match measured.cluster {
        Some(cycles) => format!(", of a cluster {cycles:.0}"),
        None => String::new(),
    };
    format!(
        "# {gpu}, as batchlab grnn fit has measured it, at {} MHz by the driver.\n\
         #\n\
         # Cycles: a multiply-add {:.2}, a shuffle with its addition {:.2}, a synchronisation of all multiprocessors {:.0}{cluster}.\n\
         # Bytes of the L2 cache a cycle and multiprocessor: {alone:.1} alone, {shared:.1} while all read. products and reductions are\n\
         # fitted (docs/GRNN.md); their bounds, thread_weights and thread_registers are the Titan V's, and the schedulers are those of all\n\
         # such GPUs.\n\
         {}",
        kilohertz / 1000,
        measured.fma,
        measured.shuffle,
        measured.barrier,
        device.text(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported() -> ReportedGpu {
        ReportedGpu {
            name: "My \"GPU\"".into(),
            gpu: "Some GPU".into(),
            multiprocessors: 80,
            registers: 65536,
            threads: 1024,
            kilohertz: 1_455_000,
        }
    }

    fn measured(constants: &Constants, mut noise: impl FnMut() -> f64) -> MicroBenchmarks {
        let (products, reductions) = (&constants.products, &constants.reductions);
        let fma = f64::from(constants.fma_cycles);
        let shuffle = fma * f64::from(constants.shuffle);
        let mut of_products = Vec::new();
        let mut of_reductions = Vec::new();
        for warps in [1u32, 2, 4, 8] {
            for outputs in [1u32, 2, 4, 8] {
                let powers = products.warps.powf(f64::from(warps).log2())
                    * products.outputs.powf(f64::from(outputs).log2());
                let both = warps * outputs;
                let in_proportion =
                    products.bound_cost * f64::from(both) / f64::from(products.bound);
                let cost = if both <= products.bound {
                    powers
                } else {
                    in_proportion
                };
                of_products.push(MeasuredProduct {
                    warps,
                    outputs,
                    cycles: fma * cost * noise(),
                });
            }
            for values in [1, 2, 4, 8, 16].map(|values| warps * values) {
                let at = |values: u32| reductions.value.powi(values as i32);
                let in_proportion =
                    at(reductions.bound_values) * f64::from(values) / f64::from(reductions.bound);
                let cost = if values < reductions.bound {
                    at(values)
                } else {
                    in_proportion
                };
                of_reductions.push(MeasuredReduction {
                    values,
                    cycles: shuffle * cost * noise(),
                });
            }
        }
        MicroBenchmarks {
            fma: fma * noise(),
            shuffle: shuffle * noise(),
            l2: [
                f64::from(constants.l2_bytes) * noise(),
                f64::from(constants.l2_bytes) / 2.0 * noise(),
            ],
            barrier: f64::from(constants.second_synchronisation) * fma * noise(),
            cluster: constants
                .cluster_synchronisation
                .map(|cost| f64::from(cost) * fma * noise()),
            products: of_products,
            reductions: of_reductions,
        }
    }

    fn near(found: f64, known: f64, within: f64) {
        assert!((found / known - 1.0).abs() <= within, "{found} for {known}");
    }

    fn known() -> [Constants; 2] {
        let titan = DataSheet::open("titan-v").unwrap().constants;
        let other = Constants {
            fma_cycles: 6,
            l2_bytes: 48,
            second_synchronisation: 350,
            cluster_synchronisation: Some(70),
            shuffle: 5,
            products: Products {
                warps: 1.25,
                outputs: 1.75,
                bound: 8,
                bound_cost: 3.2,
            },
            reductions: Reductions {
                value: 1.11,
                bound: 12,
                bound_values: 5,
            },
            ..titan.clone()
        };
        [titan, other]
    }

    #[test]
    fn constants_come_back_from_what_they_make() {
        for known in known() {
            let found = measured(&known, || 1.0)
                .data_sheet(&reported())
                .unwrap()
                .constants;
            assert!(
                measured(&known, || 1.0)
                    .misses(&found)
                    .iter()
                    .all(|miss| *miss < 1e-9),
                "{found:?}"
            );
            assert_eq!(
                found,
                Constants {
                    states_on_chip: true,
                    time: None,
                    ..known
                }
            );
        }
    }

    #[test]
    fn noise_moves_them_by_no_more_than_itself() {
        let mut drawn = 1u64;
        for (known, turn) in known().into_iter().cycle().zip(0..200) {
            let noise = || {
                drawn = drawn
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                1.0 + 0.02 * ((drawn >> 33) as f64 / f64::from(1u32 << 30) - 1.0)
            };
            let found = measured(&known, noise)
                .data_sheet(&reported())
                .unwrap()
                .constants;
            near(found.products.warps, known.products.warps, 0.04);
            near(found.products.outputs, known.products.outputs, 0.04);
            near(found.products.bound_cost, known.products.bound_cost, 0.05);
            near(found.reductions.value, known.reductions.value, 0.02);
            assert!(
                found.shuffle.abs_diff(known.shuffle) <= 1,
                "turn {turn}: {found:?}"
            );
            assert_eq!(found.fma_cycles, known.fma_cycles);
        }
    }

    #[test]
    fn what_can_not_be_fitted_is_named() {
        let [titan, _] = known();
        let good = measured(&titan, || 1.0);
        let without = |keep: fn(&MeasuredProduct) -> bool| MicroBenchmarks {
            products: good.products.iter().copied().filter(keep).collect(),
            ..good.clone()
        };
        let reduced = |keep: fn(&MeasuredReduction) -> bool| MicroBenchmarks {
            reductions: good.reductions.iter().copied().filter(keep).collect(),
            ..good.clone()
        };
        for (bad, reason) in [
            (
                MicroBenchmarks {
                    fma: 0.0,
                    ..good.clone()
                },
                "a multiply-add: 0 was measured",
            ),
            (
                MicroBenchmarks {
                    barrier: f64::NAN,
                    ..good.clone()
                },
                "a barrier: NaN was measured",
            ),
            (
                without(|point| point.warps > 1),
                "products have no baseline",
            ),
            (
                without(|point| point.warps == 1),
                "do not differ in both warps and outputs",
            ),
            (
                without(|point| point.warps * point.outputs <= 8),
                "no products are above the bound",
            ),
            (
                reduced(|point| point.values >= 12),
                "no reductions are below the bound",
            ),
            (
                reduced(|point| point.values < 12),
                "no reductions are above the bound",
            ),
        ] {
            let message = bad.data_sheet(&reported()).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}: {reason}");
        }
    }

    #[test]
    fn more_work_takes_no_less_time() {
        let [titan, _] = known();
        let mut flat = measured(&titan, || 1.0);
        flat.products
            .iter_mut()
            .for_each(|point| point.cycles = 9.0 / f64::from(point.warps));
        flat.reductions
            .iter_mut()
            .for_each(|point| point.cycles = flat.shuffle / 2.0);
        let found = flat.data_sheet(&reported()).unwrap().constants;
        assert_eq!((found.products.warps, found.products.outputs), (1.0, 1.0));
        assert_eq!(
            (found.reductions.value, found.reductions.bound_values),
            (1.0, 0)
        );
    }

    #[test]
    fn a_file_says_what_was_found() {
        // Reductions whose cost grows so slowly that `bound_values` is large.
        let [titan, _] = known();
        let flat = Reductions {
            value: 1.000_002_4,
            bound: 12,
            bound_values: 200_000,
        };
        let measured = measured(
            &Constants {
                reductions: flat,
                ..titan
            },
            {
                let mut turn = 0;
                move || {
                    turn += 1;
                    1.0 + 1e-7 * f64::from(turn % 7)
                }
            },
        );
        let device = measured.data_sheet(&reported()).unwrap();
        let text = file(&device, &measured, &reported());
        let read = DataSheet::parse(&text, "fitted.toml").unwrap();
        assert_eq!(
            (read.name.as_str(), read.multiprocessors),
            ("My \"GPU\"", 80)
        );
        assert_eq!(read, device);
        let [products, reductions] = measured.misses(&read.constants);
        assert!(
            products < 1e-5 && reductions < 1e-4,
            "{products} {reductions}"
        );
        assert!(
            text.starts_with("# Some GPU, as batchlab grnn fit has measured it, at 1455 MHz"),
            "{text}"
        );
    }
}
