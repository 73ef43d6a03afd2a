//! Checks of DVABatch's claims.

use super::{DELAY, DVA, LOADS, PAIRS, PLAIN, SPLIT, STAGES, ZERO, named};
use crate::base::error::Result;
use crate::papers::findings::mean;
use crate::papers::verdict::higher;
use crate::papers::{Check, Findings, Verdict};

/// Drawings of Figures 14 and 16.
const MEAN: usize = 0;
const P99: usize = 1;

pub const CHECKS: &[(&str, Check)] = &[
    ("dva-case1", |found| case(found, 0, 2.5, 4.0)),
    ("dva-case2", |found| case(found, 1, 2.875, 4.0)),
    ("dva-case3", |found| case(found, 2, 5.25, 8.0)),
    ("dva-lengths", |found| {
        let figure = found.study("fig4")?;
        let workloads = figure.bars[0]
            .series
            .iter()
            .map(|workload| figure.values(0, workload));
        let shares = workloads.collect::<Result<Vec<_>>>()?;
        let usual = mean(
            &shares
                .iter()
                .map(|of_words| of_words[1])
                .collect::<Vec<_>>(),
        );
        let some = shares.iter().filter(|of_words| of_words[3] > 0.0).count();
        let text = format!(
            "{usual:.1} % have 5 to 20; {some} of {} workloads have some over 100",
            shares.len()
        );
        Ok(Verdict::order(usual > 50.0 && some > 0, text))
    }),
    ("dva-avg-zero", |found| {
        cuts(found, MEAN, ZERO, [16.1, 39.0, 57.7])
    }),
    ("dva-avg-delay", |found| {
        cuts(found, MEAN, DELAY, [35.4, 47.3, 48.5])
    }),
    ("dva-p99-zero", |found| {
        cuts(found, P99, ZERO, [16.9, 27.4, 53.7])
    }),
    ("dva-p99-delay", |found| {
        cuts(found, P99, DELAY, [45.2, 45.1, 29.2])
    }),
    ("dva-mean-cut", |found| {
        let cuts = [
            mean_cuts(found, MEAN, ZERO)?,
            mean_cuts(found, MEAN, DELAY)?,
        ]
        .concat();
        higher(mean(&cuts), 0.0, 40.7, "%")
    }),
    ("dva-order-high", |found| {
        order(found, "high", [DELAY, ZERO])
    }),
    ("dva-order-low", |found| order(found, "low", [ZERO, DELAY])),
    ("dva-peak-bertbase", |found| {
        higher(
            100.0 * (mean(&gains(found, "fig17")?[..named("tasks").len()]) - 1.0),
            0.0,
            46.81,
            "%",
        )
    }),
    ("dva-peak-bertlarge", |found| {
        higher(
            mean(&gains(found, "fig17")?[named("tasks").len()..]),
            1.0,
            1.37,
            "times",
        )
    }),
    ("dva-peak-most", |found| {
        higher(
            gains(found, "fig17")?.into_iter().fold(0.0, f64::max),
            1.0,
            2.12,
            "times",
        )
    }),
    ("dva-peak-same", |found| {
        // Of the networks without lengths.
        let gains = gains(found, "fig15")?.split_off(2);
        let shown: Vec<String> = gains
            .iter()
            .map(|gain| format!("{:+.1}", 100.0 * (gain - 1.0)))
            .collect();
        let holds = gains.iter().all(|gain| (gain - 1.0).abs() <= 0.05);
        Ok(Verdict::order(holds, format!("{} %", shown.join("; "))))
    }),
    ("dva-glue", |found| {
        let tasks = named("tasks");
        let place = |task| {
            tasks
                .iter()
                .position(|[_, name]| name == task)
                .expect("a task of GLUE")
        };
        let (mut holds, mut shown) = (true, Vec::new());
        for ([_, network], gains) in named("berts")
            .iter()
            .zip(gains(found, "fig17")?.chunks(tasks.len()))
        {
            let [sst2, mrpc] = ["SST-2", "MRPC"].map(|task| gains[place(task)]);
            holds &= sst2 > mrpc;
            shown.push(format!("{network}: SST-2 {sst2:.2}, MRPC {mrpc:.2} times"));
        }
        Ok(Verdict::order(holds, shown.join("; ")))
    }),
    ("dva-split", |found| {
        let ratios = ratios(found, "fig18", 0, [SPLIT, DELAY])?;
        // Under the high load.
        let [linknet, unet] = [2, 5].map(|place: usize| 100.0 * (1.0 - ratios[place]));
        let each = format!(" (LinkNet {linknet:.1}, Unet {unet:.1})");
        Ok(higher((linknet + unet) / 2.0, 0.0, 15.0, "%")?.with(&each))
    }),
    ("dva-split-batches", |found| {
        let medians = found.study("fig18")?.values(1, SPLIT)?;
        // Under the high load.
        let [linknet, unet] = [2, 5].map(|place: usize| medians[place]);
        Ok(Verdict::several(
            &[linknet, unet],
            &[50.0, 30.0],
            "queries, the medians",
            linknet > unet,
        ))
    }),
    ("dva-buffers", |found| {
        lowest(found, "fig19", "networks", &PAIRS, &[2; 6])
    }),
    ("dva-stages", |found| {
        lowest(found, "fig20", "stages", &STAGES, &[2, 4, 4])
    }),
    ("dva-memory", |found| {
        let memory = found.study("fig19")?.values(1, DVA)?;
        let of_two_pairs: Vec<f64> = memory
            .chunks(PAIRS.len())
            .map(|by_pairs| by_pairs[1])
            .collect();
        higher(mean(&of_two_pairs), 0.0, 200.0, "MB")
    }),
    ("dva-overhead", |found| {
        let means = |policy| found.study("fig21")?.values(0, policy);
        let more: Vec<f64> = means(DVA)?
            .iter()
            .zip(means(ZERO)?)
            .map(|(ours, zero)| ours - zero)
            .collect();
        Ok(higher(mean(&more), 0.0, 0.29, "ms")?.derived())
    }),
];

fn case(found: &Findings, case: usize, with: f64, without: f64) -> Result<Verdict> {
    let study = found.study("fig3")?;
    let ours = [study.values(0, PLAIN)?[case], study.values(0, DVA)?[case]];
    Ok(Verdict::exact(&ours, &[without, with], "T"))
}

/// Of all bars of two policies.
fn ratios(
    found: &Findings,
    figure: &str,
    drawing: usize,
    [ours, theirs]: [&str; 2],
) -> Result<Vec<f64>> {
    let values = |policy| found.study(figure)?.values(drawing, policy);
    Ok(values(ours)?
        .iter()
        .zip(values(theirs)?)
        .map(|(ours, theirs)| ours / theirs)
        .collect())
}

/// DVABatch's peaks over DelayBatch's.
fn gains(found: &Findings, figure: &str) -> Result<Vec<f64>> {
    ratios(found, figure, 0, [DVA, DELAY])
}

/// By which DVABatch cuts another policy's latency at each load, in percent, as means over the networks.
fn mean_cuts(found: &Findings, drawing: usize, other: &str) -> Result<Vec<f64>> {
    let ratios = ratios(found, "fig14", drawing, [DVA, other])?;
    let cuts = |load| {
        ratios
            .iter()
            .skip(load)
            .step_by(LOADS.len())
            .map(|ratio| 100.0 * (1.0 - ratio))
    };
    Ok((0..LOADS.len())
        .map(|load| mean(&cuts(load).collect::<Vec<_>>()))
        .collect())
}

fn cuts(found: &Findings, drawing: usize, other: &str, paper: [f64; 3]) -> Result<Verdict> {
    let means = mean_cuts(found, drawing, other)?;
    Ok(Verdict::several(
        &means,
        &paper,
        "%",
        means.iter().all(|cut| *cut > 0.0),
    ))
}

/// Whether one policy's mean latency is below another's under a load of figure 14, for every network.
fn order(found: &Findings, load: &str, [lower, upper]: [&str; 2]) -> Result<Verdict> {
    let ratios = ratios(found, "fig14", MEAN, [lower, upper])?;
    let place = LOADS
        .iter()
        .position(|known| *known == load)
        .expect("one of the loads");
    let ratios: Vec<f64> = ratios
        .into_iter()
        .skip(place)
        .step_by(LOADS.len())
        .collect();
    let shown: Vec<String> = each_network("networks")
        .zip(&ratios)
        .map(|(name, ratio)| format!("{name} {ratio:.2}"))
        .collect();
    Ok(Verdict::order(
        ratios.iter().all(|ratio| *ratio < 1.0),
        format!("{lower}'s over {upper}'s: {}", shown.join("; ")),
    ))
}

fn each_network(list: &str) -> impl Iterator<Item = &'static str> {
    named(list).iter().map(|[_, name]| name.as_str())
}

/// Means that are not above the lowest by more than this are as good, in percent: as far as figures can be read.
const AS_GOOD: f64 = 3.0;

/// Whether the paper's number has the lowest mean latency or is as good, for every network of a list: unless its mean is for
/// certain more than [`AS_GOOD`] above the lowest.
fn lowest(
    found: &Findings,
    figure: &str,
    list: &str,
    numbers: &[u32],
    paper: &[u32],
) -> Result<Verdict> {
    let above = found.study(figure)?.values(2, DVA)?;
    let (mut holds, mut shown) = (true, Vec::new());
    for ((name, paper), above) in each_network(list)
        .zip(paper)
        .zip(above.chunks(numbers.len()))
    {
        let good: Vec<u32> = numbers
            .iter()
            .zip(above)
            .filter(|(_, above)| **above <= AS_GOOD)
            .map(|(n, _)| *n)
            .collect();
        holds &= good.contains(paper);
        let good: Vec<String> = good.iter().map(u32::to_string).collect();
        shown.push(format!("{name} {}", good.join(", ")));
    }
    Ok(Verdict::order(holds, shown.join("; ")))
}
