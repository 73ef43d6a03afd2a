//! Checks of DVABatch's claims.

use super::names::{DELAY, DVA, LOADS, PAIRS, PLAIN, SPLIT, STAGES, ZERO, named_files};
use crate::base::error::Result;
use crate::papers::findings::{Check, Findings};
use crate::papers::numbers::mean;
use crate::papers::value::PaperValue;
use crate::papers::verdict::{ClaimVerdict, higher};

/// The drawings of Figures 14 and 16.
const MEAN: usize = 0;
const P99: usize = 1;

/// The places of LinkNet and Unet under the high load in Figure 18.
const LINKNET: usize = 2;
const UNET: usize = 5;

/// A mean is as good as the lowest if it is at most this many percent above it. Figures can't be read more precisely.
const AS_GOOD: f64 = 3.0;

pub const CHECKS: &[(&str, Check)] = &[
    ("dva-case1", |found, paper| case(found, 0, paper)),
    ("dva-case2", |found, paper| case(found, 1, paper)),
    ("dva-case3", |found, paper| case(found, 2, paper)),
    ("dva-lengths", lengths_of_sentences),
    ("dva-avg-zero", |found, paper| {
        check_cuts(found, MEAN, ZERO, paper)
    }),
    ("dva-avg-delay", |found, paper| {
        check_cuts(found, MEAN, DELAY, paper)
    }),
    ("dva-p99-zero", |found, paper| {
        check_cuts(found, P99, ZERO, paper)
    }),
    ("dva-p99-delay", |found, paper| {
        check_cuts(found, P99, DELAY, paper)
    }),
    ("dva-mean-cut", mean_cut),
    ("dva-order-high", |found, _| {
        is_below(found, "high", DELAY, ZERO)
    }),
    ("dva-order-low", |found, _| {
        is_below(found, "low", ZERO, DELAY)
    }),
    ("dva-peak-bertbase", peak_of_bert_base),
    ("dva-peak-bertlarge", peak_of_bert_large),
    ("dva-peak-most", largest_peak_gain),
    ("dva-peak-same", equal_peaks),
    ("dva-glue", gains_by_task),
    ("dva-split", cut_by_split),
    ("dva-split-batches", batches_of_split),
    ("dva-buffers", |found, paper| {
        let papers_pairs = paper.numbers()[0];
        is_lowest(found, "fig19", "networks", &PAIRS, &[papers_pairs; 6])
    }),
    ("dva-stages", |found, paper| {
        is_lowest(found, "fig20", "stages", &STAGES, paper.numbers())
    }),
    ("dva-memory", memory_of_two_pairs),
    ("dva-overhead", overhead),
];

/// One of Figure 3's cases: the mean latency without and with DVABatch's mechanisms.
fn case(found: &Findings, case: usize, paper: &PaperValue) -> Result<ClaimVerdict> {
    let study = found.study("fig3")?;
    let without = study.values(0, PLAIN)?[case];
    let with = study.values(0, DVA)?[case];
    Ok(ClaimVerdict::exact(&[without, with], paper))
}

fn lengths_of_sentences(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let figure = found.study("fig4")?;
    let mut shares_of_5_to_20 = Vec::new();
    let mut with_long_sentences = 0;
    for workload in &figure.bars[0].series {
        let shares = figure.values(0, workload)?;
        shares_of_5_to_20.push(shares[1]);
        if shares[3] > 0.0 {
            with_long_sentences += 1;
        }
    }
    let usual = mean(&shares_of_5_to_20);
    let text = format!(
        "{usual:.1} % have 5 to 20; {with_long_sentences} of {} workloads have some over 100",
        shares_of_5_to_20.len()
    );
    let holds = usual > 50.0 && with_long_sentences > 0;
    Ok(ClaimVerdict::order(holds, text))
}

fn check_cuts(
    found: &Findings,
    drawing: usize,
    other: &str,
    paper: &PaperValue,
) -> Result<ClaimVerdict> {
    let means = mean_cuts(found, drawing, other)?;
    let agrees = means.iter().all(|cut| *cut > 0.0);
    Ok(ClaimVerdict::several(&means, paper, agrees))
}

fn mean_cut(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let mut cuts = mean_cuts(found, MEAN, ZERO)?;
    cuts.extend(mean_cuts(found, MEAN, DELAY)?);
    higher(mean(&cuts), 0.0, paper)
}

/// How far DVABatch cuts another policy's latency at each load, in percent, as means over the networks.
fn mean_cuts(found: &Findings, drawing: usize, other: &str) -> Result<Vec<f64>> {
    let ratios = ratios(found, "fig14", drawing, DVA, other)?;
    let mut means = Vec::new();
    for load in 0..LOADS.len() {
        let cuts: Vec<f64> = values_at_load(&ratios, load)
            .map(|ratio| 100.0 * (1.0 - ratio))
            .collect();
        means.push(mean(&cuts));
    }
    Ok(means)
}

/// The values of all networks at one load.
fn values_at_load(values: &[f64], load: usize) -> impl Iterator<Item = f64> {
    values.iter().skip(load).step_by(LOADS.len()).copied()
}

/// Whether one policy's mean latency is below another's under a load of Figure 14, for every network.
fn is_below(found: &Findings, load: &str, lower: &str, upper: &str) -> Result<ClaimVerdict> {
    let ratios = ratios(found, "fig14", MEAN, lower, upper)?;
    let load = LOADS
        .iter()
        .position(|known| *known == load)
        .expect("one of the loads");
    let mut holds = true;
    let mut texts = Vec::new();
    for (name, ratio) in network_names("networks").zip(values_at_load(&ratios, load)) {
        holds &= ratio < 1.0;
        texts.push(format!("{name} {ratio:.2}"));
    }
    let text = format!("{lower}'s over {upper}'s: {}", texts.join("; "));
    Ok(ClaimVerdict::order(holds, text))
}

fn peak_of_bert_base(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let gains = peak_gains(found, "fig17")?;
    let of_base = &gains[..named_files("tasks").len()];
    higher(100.0 * (mean(of_base) - 1.0), 0.0, paper)
}

fn peak_of_bert_large(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let gains = peak_gains(found, "fig17")?;
    let of_large = &gains[named_files("tasks").len()..];
    higher(mean(of_large), 1.0, paper)
}

fn largest_peak_gain(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let gains = peak_gains(found, "fig17")?;
    higher(gains.into_iter().fold(0.0, f64::max), 1.0, paper)
}

/// The networks without lengths have about the same peak under both policies.
fn equal_peaks(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let gains = peak_gains(found, "fig15")?;
    let without_lengths = &gains[2..];
    let texts: Vec<String> = without_lengths
        .iter()
        .map(|gain| format!("{:+.1}", 100.0 * (gain - 1.0)))
        .collect();
    let holds = without_lengths
        .iter()
        .all(|gain| (gain - 1.0).abs() <= 0.05);
    Ok(ClaimVerdict::order(
        holds,
        format!("{} %", texts.join("; ")),
    ))
}

/// DVABatch's peaks over DelayBatch's.
fn peak_gains(found: &Findings, figure: &str) -> Result<Vec<f64>> {
    ratios(found, figure, 0, DVA, DELAY)
}

fn gains_by_task(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let gains = peak_gains(found, "fig17")?;
    let gains_by_network = gains.chunks(named_files("tasks").len());
    let mut holds = true;
    let mut texts = Vec::new();
    for (network, gains) in network_names("berts").zip(gains_by_network) {
        let sst2 = gains[place_of_task("SST-2")];
        let mrpc = gains[place_of_task("MRPC")];
        holds &= sst2 > mrpc;
        texts.push(format!("{network}: SST-2 {sst2:.2}, MRPC {mrpc:.2} times"));
    }
    Ok(ClaimVerdict::order(holds, texts.join("; ")))
}

fn place_of_task(task: &str) -> usize {
    named_files("tasks")
        .iter()
        .position(|[_, name]| name == task)
        .expect("a task of GLUE")
}

fn cut_by_split(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ratios = ratios(found, "fig18", 0, SPLIT, DELAY)?;
    let linknet = 100.0 * (1.0 - ratios[LINKNET]);
    let unet = 100.0 * (1.0 - ratios[UNET]);
    let verdict = higher((linknet + unet) / 2.0, 0.0, paper)?;
    Ok(verdict.with(&format!(" (LinkNet {linknet:.1}, Unet {unet:.1})")))
}

fn batches_of_split(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let medians = found.study("fig18")?.values(1, SPLIT)?;
    let linknet = medians[LINKNET];
    let unet = medians[UNET];
    Ok(ClaimVerdict::several(&[linknet, unet], paper, linknet > unet).with(", the medians"))
}

/// Whether the paper's number has the lowest mean latency, or one as good, for every network of a list. It has neither
/// if its mean is certainly more than [`AS_GOOD`] above the lowest.
fn is_lowest(
    found: &Findings,
    figure: &str,
    list: &str,
    numbers: &[u32],
    papers: &[f64],
) -> Result<ClaimVerdict> {
    let above = found.study(figure)?.values(2, DVA)?;
    let above_by_network = above.chunks(numbers.len());
    let mut holds = true;
    let mut texts = Vec::new();
    for ((name, paper), above) in network_names(list).zip(papers).zip(above_by_network) {
        let mut good = Vec::new();
        for (number, above) in numbers.iter().zip(above) {
            if *above <= AS_GOOD {
                good.push(number.to_string());
            }
        }
        holds &= good.contains(&paper.to_string());
        texts.push(format!("{name} {}", good.join(", ")));
    }
    Ok(ClaimVerdict::order(holds, texts.join("; ")))
}

fn memory_of_two_pairs(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let memory = found.study("fig19")?.values(1, DVA)?;
    let of_two_pairs: Vec<f64> = memory
        .chunks(PAIRS.len())
        .map(|of_network| of_network[1])
        .collect();
    higher(mean(&of_two_pairs), 0.0, paper)
}

fn overhead(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let study = found.study("fig21")?;
    let dvabatch = study.values(0, DVA)?;
    let zero = study.values(0, ZERO)?;
    let differences: Vec<f64> = dvabatch
        .iter()
        .zip(zero)
        .map(|(ours, zero)| ours - zero)
        .collect();
    Ok(higher(mean(&differences), 0.0, paper)?.mark_derived())
}

/// The ratios of all bars of two policies.
fn ratios(
    found: &Findings,
    figure: &str,
    drawing: usize,
    ours: &str,
    theirs: &str,
) -> Result<Vec<f64>> {
    let study = found.study(figure)?;
    let ours = study.values(drawing, ours)?;
    let theirs = study.values(drawing, theirs)?;
    Ok(ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours / theirs)
        .collect())
}

/// The paper's names of a list's networks.
fn network_names(list: &str) -> impl Iterator<Item = &'static str> {
    named_files(list).iter().map(|[_, name]| name.as_str())
}
