//! Checks of DVABatch's claims.

use super::loads::{PAIRS, SPLIT, STAGES, TASKS};
use super::operators::{PLAIN, WORDS};
use super::{DELAY, DVA, LOADS, NETWORKS, ZERO};
use crate::error::Result;
use crate::papers::findings::mean;
use crate::papers::verdict::higher;
use crate::papers::{Check, Findings, Verdict};

pub const CHECKS: &[(&str, Check)] = &[
    ("dva-case1", |found| case(found, "I", 2.5, 4.0)),
    ("dva-case2", |found| case(found, "II", 2.875, 4.0)),
    ("dva-case3", |found| case(found, "III", 5.25, 8.0)),
    ("dva-lengths", |found| {
        let figure = found.study("fig4")?;
        let shares = |words: usize| -> Result<Vec<f64>> {
            figure.bars[0].series.iter().map(|workload| figure.value(0, "", WORDS[words].0, workload)).collect()
        };
        let (usual, long) = (shares(1)?, shares(3)?);
        let mean = mean(&usual);
        let some = long.iter().filter(|share| **share > 0.0).count();
        let text = format!("{mean:.1} % have 5 to 20; {some} of {} workloads have some over 100", usual.len());
        Ok(Verdict::order(mean > 50.0 && some > 0, text))
    }),
    ("dva-avg-zero", |found| cuts(found, MEAN, ZERO, [16.1, 39.0, 57.7])),
    ("dva-avg-delay", |found| cuts(found, MEAN, DELAY, [35.4, 47.3, 48.5])),
    ("dva-p99-zero", |found| cuts(found, P99, ZERO, [16.9, 27.4, 53.7])),
    ("dva-p99-delay", |found| cuts(found, P99, DELAY, [45.2, 45.1, 29.2])),
    ("dva-mean-cut", |found| {
        let cuts = ZERO_AND_DELAY.map(|other| mean_cuts(found, MEAN, other));
        let all = cuts.into_iter().collect::<Result<Vec<_>>>()?.concat();
        higher(mean(&all), 0.0, 46.4, "%")
    }),
    ("dva-peak-bertbase", |found| higher(100.0 * (mean(&glue_gains(found, "BertBase")?) - 1.0), 0.0, 46.81, "%")),
    ("dva-peak-bertlarge", |found| higher(mean(&glue_gains(found, "BertLarge")?), 1.0, 1.37, "times")),
    ("dva-peak-most", |found| {
        let gains = [glue_gains(found, "BertBase")?, glue_gains(found, "BertLarge")?].concat();
        higher(gains.into_iter().fold(0.0, f64::max), 1.0, 2.12, "times")
    }),
    ("dva-peak-same", |found| {
        let gain = |(_, network): &(&str, &str)| gain(found, "fig15", network, "");
        let gains: Vec<f64> = NETWORKS[2..].iter().map(gain).collect::<Result<_>>()?;
        let shown: Vec<String> = gains.iter().map(|gain| format!("{:+.1}", 100.0 * (gain - 1.0))).collect();
        let holds = gains.iter().all(|gain| (gain - 1.0).abs() <= 0.05);
        Ok(Verdict::order(holds, format!("{} %", shown.join("; "))))
    }),
    ("dva-glue", |found| {
        let (mut holds, mut shown) = (true, Vec::new());
        for (_, network) in &NETWORKS[..2] {
            let (sst2, mrpc) = (gain(found, "fig17", network, "SST-2")?, gain(found, "fig17", network, "MRPC")?);
            holds &= sst2 > mrpc;
            shown.push(format!("{network}: SST-2 {sst2:.2}, MRPC {mrpc:.2} times"));
        }
        Ok(Verdict::order(holds, shown.join("; ")))
    }),
    ("dva-split", |found| {
        let value = |network: &str, policy: &str| found.study("fig18")?.value(0, network, "high", policy);
        let cut = |network| Ok(100.0 * (1.0 - value(network, SPLIT)? / value(network, DELAY)?));
        let (linknet, unet): (f64, f64) = (cut("LinkNet")?, cut("Unet")?);
        let each = format!(" (LinkNet {linknet:.1}, Unet {unet:.1})");
        Ok(higher((linknet + unet) / 2.0, 0.0, 15.0, "%")?.with(&each))
    }),
    ("dva-buffers", |found| {
        let (mut best, mut direction) = (Vec::new(), true);
        for (_, network) in NETWORKS {
            let means = by_number(found, "fig19", 0, network, &PAIRS)?;
            best.push(f64::from(fewest(&PAIRS, &means, 0.01)));
            // The second pair helps, further ones do not.
            direction &= means[1] < means[0] && means[2..].iter().all(|mean| *mean > 0.97 * means[1]);
        }
        Ok(Verdict::several(&best, &[2.0; 6], "pairs", direction))
    }),
    ("dva-stages", |found| {
        let best = |network| Ok(f64::from(fewest(&STAGES, &by_number(found, "fig20", 1, network, &STAGES)?, 0.03)));
        let ours: [f64; 3] = [best("BertBase")?, best("LinkNet")?, best("ResNet152")?];
        Ok(Verdict::several(&ours, &[2.0, 4.0, 4.0], "stages", ours.iter().all(|best| *best > 1.0 && *best < 16.0)))
    }),
    ("dva-memory", |found| {
        higher(mean_of_networks(|network| found.study("fig19")?.value(1, network, "2", DVA))?, 0.0, 200.0, "MB")
    }),
    ("dva-overhead", |found| {
        let value = |network: &str, policy: &str| found.study("fig21")?.value(0, network, "", policy);
        let mean = mean_of_networks(|network| Ok(value(network, DVA)? - value(network, ZERO)?))?;
        Ok(higher(mean, 0.0, 0.29, "ms")?.derived())
    }),
];

fn case(found: &Findings, case: &str, with: f64, without: f64) -> Result<Verdict> {
    let study = found.study("fig3")?;
    let ours = [study.value(0, "", case, PLAIN)?, study.value(0, "", case, DVA)?];
    Ok(Verdict::exact(&ours, &[without, with], "T"))
}

/// Drawings of Figures 14 and 16.
const MEAN: usize = 0;
const P99: usize = 1;

const ZERO_AND_DELAY: [&str; 2] = [ZERO, DELAY];

/// By which DVABatch cuts another policy's latency at each load, in percent, as means over the networks.
fn mean_cuts(found: &Findings, drawing: usize, other: &str) -> Result<Vec<f64>> {
    let of_load = |(load, _): (&str, f64)| {
        let value = |network: &str, policy: &str| found.study("fig14")?.value(drawing, network, load, policy);
        mean_of_networks(|network| Ok(100.0 * (1.0 - value(network, DVA)? / value(network, other)?)))
    };
    LOADS.into_iter().map(of_load).collect()
}

fn cuts(found: &Findings, drawing: usize, other: &str, paper: [f64; 3]) -> Result<Verdict> {
    let means = mean_cuts(found, drawing, other)?;
    Ok(Verdict::several(&means, &paper, "%", means.iter().all(|cut| *cut > 0.0)))
}

fn mean_of_networks(value: impl Fn(&str) -> Result<f64>) -> Result<f64> {
    Ok(mean(&NETWORKS.iter().map(|(_, network)| value(network)).collect::<Result<Vec<_>>>()?))
}

/// DVABatch's peak over DelayBatch's.
fn gain(found: &Findings, figure: &str, network: &str, group: &str) -> Result<f64> {
    let value = |policy| found.study(figure)?.value(0, network, group, policy);
    Ok(value(DVA)? / value(DELAY)?)
}

fn glue_gains(found: &Findings, network: &str) -> Result<Vec<f64>> {
    TASKS.iter().map(|(_, task)| gain(found, "fig17", network, task)).collect()
}

/// DVABatch's values at each number of pairs or stages.
fn by_number(found: &Findings, figure: &str, drawing: usize, network: &str, numbers: &[u32]) -> Result<Vec<f64>> {
    let study = found.study(figure)?;
    numbers.iter().map(|number| study.value(drawing, network, &number.to_string(), DVA)).collect()
}

/// The smallest number whose value exceeds the lowest by at most `share`.
fn fewest(numbers: &[u32], values: &[f64], share: f64) -> u32 {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let good = numbers.iter().zip(values).find(|(_, value)| **value <= lowest * (1.0 + share));
    good.map_or(0, |(number, _)| *number)
}
