//! Checks of BatchMaker's claims (*Low Latency RNN Inference with Cellular Batching*, EuroSys 2018).

use super::verdict::{higher, lower, shown};
use super::{Check, Findings, Series, Verdict, range};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::units::CellId;
use crate::core::cost::CostModel as _;
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::task::Step;
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::{BatchLine, LogRow};
use crate::lab::results::read::Log;

const OURS: &str = "BatchMaker";
/// Batches of 512 encoder and 256 decoder cells, and of 256 of both.
const WIDE: &str = "BatchMaker-512,256";
const EVEN: &str = "BatchMaker-256,256";

/// Figure 5's example and single steps of a V100.
const DEVICE: &[(&str, Check)] = &[
    ("bm-fig5-graph", |found| {
        let mut ends = finish_steps(found, "Graph batching")?;
        ends.dedup();
        Ok(Verdict::exact(&ends, &[5.0, 12.0], "steps"))
    }),
    ("bm-fig5-cell", |found| {
        let finish = finish_steps(found, "Cellular batching")?;
        Ok(Verdict::exact(
            &finish[..3.min(finish.len())],
            &[2.0, 3.0, 3.0],
            "steps",
        ))
    }),
    ("bm-v100-64", |found| {
        let [small, step] = [
            step_us(found, "One step", 2)?,
            step_us(found, "One step", 64)?,
        ];
        Ok(Verdict::near(step, 185.0, "µs", small == step))
    }),
    ("bm-v100-512", |found| {
        let step = |batch| step_us(found, "One step", batch);
        let doubles = |batch| Ok((step(2 * batch)? / step(batch)? - 2.0).abs() < 0.02);
        Ok(Verdict::near(
            step(512)?,
            784.0,
            "µs",
            doubles(1024)? && doubles(512)?,
        ))
    }),
    ("bm-v100-64-real", |found| {
        Ok(Verdict::near(step_us(found, OURS, 64)?, 250.0, "µs", true))
    }),
];

/// LSTM (sections 7.2 and 7.3).
const LSTM: &[(&str, Check)] = &[
    ("bm-lstm-lat-flat", |found| {
        let (lowest, highest) = flat_p90(found)?;
        Ok(Verdict::near(highest, 12.0, "ms", highest < 1.25 * lowest))
    }),
    ("bm-lstm-lat-base", |found| {
        let p90 = baselines(found, "fig7a")?
            .into_iter()
            .flat_map(|series| series.points(Metric::P90));
        let smallest = p90.map(|(_, p90)| p90).fold(f64::INFINITY, f64::min);
        higher(smallest, flat_p90(found)?.1, 25.0, "ms")
    }),
    ("bm-lstm-peak", |found| {
        let verdict = higher(
            found.peak("fig7a", OURS)?,
            best_peak(found, "fig7a")?,
            20_000.0,
            "req/s",
        )?;
        let with_tail = shown(found.peak("fig7a-tail", OURS)?, "req/s");
        Ok(verdict.with(&format!(
            " ({with_tail} with the paper's longest sentences, up to 330)"
        )))
    }),
    ("bm-lstm-peak-base", |found| {
        lower(
            overloaded(found)?,
            passes_500(found, OURS)?,
            16_000.0,
            "req/s",
        )
    }),
    ("bm-lstm-gain", |found| {
        // Section 7.2 calls both numbers peaks.
        let peak = found.peak("fig7a", OURS)?;
        let gain = peak / overloaded(found)?;
        let of_all = peak / best_peak(found, "fig7a")?;
        Ok(Verdict::near(gain, 1.25, "x", gain > 1.0)
            .with(&format!(" ({of_all:.2} x over their highest throughput)")))
    }),
    ("bm-lstm-cut-most", |found| {
        most_cut(lstm_cuts(found)?, 90.5)
    }),
    ("bm-lstm-cut-least", |found| {
        least_cut(lstm_cuts(found)?, 37.5)
    }),
    ("bm-bmax", |found| {
        // The largest difference between two figures' p90.
        let apart = |[one, other]: [&str; 2], policy: &str, points: &[&str]| -> Result<f64> {
            let p90 = |figure, point| found.at(figure, policy, point, Metric::P90);
            let differences = points
                .iter()
                .map(|point| Ok((p90(one, point)? / p90(other, point)? - 1.0).abs()));
            Ok(differences
                .collect::<Result<Vec<f64>>>()?
                .into_iter()
                .fold(0.0, f64::max))
        };
        let points = ["1000", "2000", "3000", "4000", "5000", "6000", "8000"];
        let worst = apart(["fig7a", "fig7b"], OURS, &points)?;
        // "At low load, all systems execute with effective batches sizes much smaller than the configured maximum."
        let of_baselines = |points: &[&str]| -> Result<f64> {
            let apart = |policy| apart(["fig7b", "fig7a"], policy, points);
            Ok(apart("MXNet")?.max(apart("TensorFlow")?))
        };
        let (low, high) = (
            of_baselines(&["250", "500", "1000", "2000"])?,
            of_baselines(&["5000"])?,
        );
        let (most, least) = (found.peak("fig7a", OURS)?, found.peak("fig7b", OURS)?);
        let text = format!(
            "p90 within {:.1} % at {} rates; peak {most:.0} and {least:.0} req/s; baselines' p90 within {:.1} % up to 2,000 \
             req/s, {:.0} % higher with 64 at 5,000",
            worst * 100.0,
            points.len(),
            low * 100.0,
            high * 100.0
        );
        Ok(Verdict::order(
            worst < 0.05 && low < 0.05 && most > 1.5 * least,
            text,
        ))
    }),
    ("bm-fig8", |found| {
        let (mut low, mut peak) = (Vec::new(), Vec::new());
        for width in ["MXNet bw-1", "MXNet bw-10", "MXNet bw-40"] {
            low.push(found.at("fig8", width, "1000", Metric::P90)?);
            peak.push(found.peak("fig8", width)?);
        }
        let holds = low.is_sorted_by(|a, b| a > b) && peak.is_sorted_by(|a, b| a > b);
        let (low, peak) = (listed(&low, 0), listed(&peak, 0));
        Ok(Verdict::order(
            holds,
            format!("widths 1, 10, 40: p90 {low} ms at 1,000 req/s; peak {peak} req/s"),
        ))
    }),
    ("bm-no-timeout", |found| {
        let none = found.series("timeouts", "No timeout")?;
        let (mut least, mut most) = ((0.0, String::new()), (0.0, String::new()));
        for window in ["2 ms", "10 ms", "50 ms", "100 ms"] {
            let with = found.series("timeouts", window)?;
            for ((rate, p90), (_, without)) in
                with.points(Metric::P90).zip(none.points(Metric::P90))
            {
                let more = 100.0 * (p90 / without - 1.0);
                let end = if more < 0.0 { &mut least } else { &mut most };
                if more.abs() > f64::abs(end.0) {
                    *end = (more, format!("{more:+.0} % ({window}, {rate:.0} req/s)"));
                }
            }
        }
        Ok(Verdict::order(
            least.0 == 0.0,
            format!("p90 with a timeout {} to {}", least.1, most.1),
        ))
    }),
    ("bm-chains", |found| {
        let [padded, dynet, fold] =
            ["MXNet", "DyNet", "Fold"].map(|policy| found.peak("chains", policy));
        let (padded, dynet, fold) = (padded?, dynet?, fold?);
        let times = |of: f64| format!("{of:.0} ({:.1} times)", padded / of);
        let text = format!(
            "peak {padded:.0} req/s, DyNet {}, Fold {}",
            times(dynet),
            times(fold)
        );
        Ok(Verdict::order(padded > dynet && padded > fold, text))
    }),
    ("bm-chains-latency", |found| {
        let padded = found.series("chains", "MXNet")?;
        let compared = ["DyNet", "Fold"].map(|policy| {
            let other = found.series("chains", policy)?;
            let below: Vec<f64> = padded
                .points(Metric::P90)
                .zip(other.points(Metric::P90))
                .filter(|((_, ours), (_, theirs))| ours < theirs)
                .map(|((rate, _), _)| rate)
                .collect();
            let all = padded.points(Metric::P90).count();
            let least = below.first().map_or("at no load".into(), |rate| {
                format!("from {rate:.0} req/s on")
            });
            Ok((
                below.len() == all,
                format!(
                    "{policy}'s {least} ({:.1} ms at 500)",
                    other.at("500", Metric::P90)?
                ),
            ))
        });
        let [dynet, fold]: [Result<(bool, String)>; 2] = compared;
        let (dynet, fold) = (dynet?, fold?);
        let text = format!(
            "MXNet's p90 ({:.1} ms at 500 req/s) is below {}, {}",
            padded.at("500", Metric::P90)?,
            dynet.1,
            fold.1
        );
        Ok(Verdict::order(dynet.0 && fold.0, text))
    }),
    ("bm-batch-moderate", |found| {
        let (share, mean) = steps_up_to(found, "fig7a", OURS, "8000", 64)?;
        Ok(Verdict::order(
            share > 50.0,
            format!("{share:.1} % of the steps, of {mean:.0} cells on average"),
        ))
    }),
    ("bm-batch-64", |found| {
        let of = |policy| -> Result<f64> {
            Ok(steps_up_to(found, "fig9-sizes", policy, "5000", 64)?.0
                - steps_up_to(found, "fig9-sizes", policy, "5000", 63)?.0)
        };
        let (wide, all) = (of("From 64")?, of("From 2")?);
        let text = format!(
            "{wide:.1} % of the steps are of 64 with sizes from 64 on, {all:.1} % with sizes from 2 on"
        );
        Ok(Verdict::order(wide > 50.0, text).derived())
    }),
    ("bm-queue99", |found| {
        lower(
            found.at("fig9", OURS, "5000", Metric::QueueP99)?,
            least_queue(found)?,
            1.38,
            "ms",
        )
    }),
    ("bm-queue99-base", |found| {
        Ok(Verdict::above(least_queue(found)?, 100.0, "ms"))
    }),
    ("bm-fixed-ideal", |found| {
        higher(
            found.peak("fig11a", "TensorFlow")?,
            found.peak("fig11a", OURS)?,
            27_136.0,
            "req/s",
        )
    }),
    ("bm-fixed", |found| {
        let share = found.peak("fig11a", OURS)? / 27_136.0;
        Ok(Verdict::near(share, 0.87, "", share < 1.0).derived())
    }),
    ("bm-fig11", |found| {
        let (mut latency, mut throughput, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        for figure in ["fig11a", "fig11b", "fig11c"] {
            let mxnet = found.series(figure, "MXNet")?;
            latency.push(mxnet.at("8000", Metric::P90)?);
            throughput.push(mxnet.peak_within(500.0));
            ours.push(found.at(figure, OURS, "8000", Metric::P90)?);
        }
        let lose = latency.is_sorted_by(|a, b| a < b) && throughput.is_sorted_by(|a, b| a > b);
        let keeps = ours[2] < 1.25 * ours[1] && ours[2] < 12.0;
        let (latency, throughput, ours) = (
            listed(&latency, 0),
            listed(&throughput, 0),
            listed(&ours, 1),
        );
        let text = format!(
            "MXNet: p90 {latency} ms at 8,000 req/s, {throughput} req/s within 500 ms; BatchMaker: p90 {ours} ms"
        );
        Ok(Verdict::order(lose && keeps, text))
    }),
];

/// Seq2Seq on several GPUs (section 7.4).
const SEQ2SEQ: &[(&str, Check)] = &[
    ("bm-s2s-2gpu", |found| {
        higher(
            found.peak("fig13a", WIDE)?,
            best_peak(found, "fig13a")?,
            8_500.0,
            "req/s",
        )
    }),
    ("bm-s2s-4gpu", |found| {
        let [two, four] = [found.peak("fig13a", WIDE)?, found.peak("fig13b", WIDE)?];
        Ok(Verdict::near(
            four,
            17_000.0,
            "req/s",
            four > 1.9 * two && four > best_peak(found, "fig13b")?,
        ))
    }),
    ("bm-s2s-gain", |found| {
        let gain = |figure| Ok(found.peak(figure, WIDE)? / best_peak(found, figure)?);
        let (two, four): (f64, f64) = (gain("fig13a")?, gain("fig13b")?);
        let text = format!(" (mean of {two:.2} x and {four:.2} x)");
        Ok(Verdict::near((two + four) / 2.0, 1.6, "x", two.min(four) > 1.0).with(&text))
    }),
    ("bm-s2s-cut-most", |found| most_cut(s2s_cuts(found)?, 82.6)),
    ("bm-s2s-cut-least", |found| {
        least_cut(s2s_cuts(found)?, 17.5)
    }),
    ("bm-s2s-512-256", |found| {
        let gain = |figure| Ok(found.peak(figure, WIDE)? / found.peak(figure, EVEN)?);
        let (two, four): (f64, f64) = (gain("fig13a")?, gain("fig13b")?);
        let mean = 100.0 * ((two + four) / 2.0 - 1.0);
        Ok(Verdict::inside(mean, (3.5, 6.0), "%", two.min(four) > 1.0))
    }),
    ("bm-s2s-share", |found| {
        let share = 100.0 * decoding_share(found, "fig13a", EVEN, "9000")?;
        Ok(Verdict::near(share, 75.0, "%", share > 50.0))
    }),
];

/// TreeLSTM (section 7.5).
const TREES: &[(&str, Check)] = &[
    ("bm-tree-1k", |found| {
        lower(tree_p90(found, OURS)?, tree_p90(found, "DyNet")?, 6.8, "ms")
    }),
    ("bm-tree-1k-dynet", |found| {
        higher(tree_p90(found, "DyNet")?, tree_p90(found, OURS)?, 9.5, "ms")
    }),
    ("bm-tree-peak", |found| {
        higher(
            found.peak("fig14", OURS)?,
            found.peak("fig14", "DyNet")?,
            3_100.0,
            "req/s",
        )
    }),
    ("bm-tree-peak-dynet", |found| {
        lower(
            found.peak("fig14", "DyNet")?,
            found.peak("fig14", OURS)?,
            2_100.0,
            "req/s",
        )
    }),
    ("bm-tree-gain", |found| {
        let gain = found.peak("fig14", OURS)? / found.peak("fig14", "DyNet")?;
        Ok(Verdict::near(gain, 3_100.0 / 2_100.0, "x", gain > 1.0))
    }),
    ("bm-tree-cut", |found| {
        let cut = 100.0 * (1.0 - tree_p90(found, OURS)? / tree_p90(found, "DyNet")?);
        Ok(Verdict::near(cut, 28.0, "%", cut > 0.0))
    }),
    ("bm-abstract-cut", |found| {
        let (chains, sequences) = (lstm_cuts(found)?, s2s_cuts(found)?);
        let cuts = (chains.0.min(sequences.0), chains.1.max(sequences.1));
        Ok(Verdict::range(cuts, (17.5, 90.5), "%", cuts.0 > 0.0))
    }),
    ("bm-abstract-gain", |found| {
        let chains = found.peak("fig7a", OURS)? / overloaded(found)?;
        let trees = found.peak("fig14", OURS)? / found.peak("fig14", "DyNet")?;
        let (least, most) = range([chains, trees].map(|gain| 100.0 * (gain - 1.0)));
        Ok(Verdict::range(
            (least, most),
            (25.0, 80.0),
            "%",
            least > 0.0,
        ))
    }),
    ("bm-tree-fold", |found| {
        let p90 = |policy| found.at("fig14", policy, "500", Metric::P90);
        let gain = found.peak("fig14", OURS)? / found.peak("fig14", "Fold")?;
        let cut = 100.0 * (1.0 - p90(OURS)? / p90("Fold")?);
        let text = format!("; p90 latency cut by {cut:.0} % at 500 req/s (paper 87 %)");
        Ok(Verdict::near(gain, 4.0, "x", gain > 1.0 && cut > 0.0).with(&text))
    }),
    ("bm-fig15", |found| {
        let below = 100.0 * (1.0 - found.peak("fig15", OURS)? / found.peak("fig15", "Ideal")?);
        let p90 = |policy| found.at("fig15", policy, "500", Metric::P90);
        let slower = p90("Ideal")? > p90(OURS)? && p90("Ideal")? > p90("DyNet")?;
        Ok(Verdict::near(below, 30.0, "%", below > 0.0 && slower))
    }),
];

pub const CHECKS: &[&[(&str, Check)]] = &[DEVICE, LSTM, SEQ2SEQ, TREES];

fn baselines<'a>(found: &'a Findings, figure: &str) -> Result<[Series<'a>; 2]> {
    Ok([
        found.series(figure, "MXNet")?,
        found.series(figure, "TensorFlow")?,
    ])
}

/// Of either baseline at any load.
fn best_peak(found: &Findings, figure: &str) -> Result<f64> {
    Ok(baselines(found, figure)?
        .iter()
        .map(Series::peak)
        .fold(0.0, f64::max))
}

/// The load at which a policy's 90th percentile passes 500 ms.
fn passes_500(found: &Findings, policy: &str) -> Result<f64> {
    Ok(found
        .series("fig7a", policy)?
        .rate_at_p90(500.0)
        .unwrap_or(f64::INFINITY))
}

/// The later of the baselines' loads at which it does.
fn overloaded(found: &Findings) -> Result<f64> {
    Ok(passes_500(found, "MXNet")?.max(passes_500(found, "TensorFlow")?))
}

fn lstm_cuts(found: &Findings) -> Result<(f64, f64)> {
    cuts(found, "fig7a", OURS)
}

/// On two and four GPUs.
fn s2s_cuts(found: &Findings) -> Result<(f64, f64)> {
    let (two, four) = (cuts(found, "fig13a", WIDE)?, cuts(found, "fig13b", WIDE)?);
    Ok((two.0.min(four.0), two.1.max(four.1)))
}

fn most_cut((least, most): (f64, f64), paper: f64) -> Result<Verdict> {
    higher(most, least.max(0.0), paper, "%")
}

fn least_cut((least, _): (f64, f64), paper: f64) -> Result<Verdict> {
    higher(least, 0.0, paper, "%")
}

/// The share of executed steps with up to `most` cells, in percent, and the mean number of cells of a step.
fn steps_up_to(
    found: &Findings,
    figure: &str,
    policy: &str,
    point: &str,
    most: u64,
) -> Result<(f64, f64)> {
    let mut rows = batches(found, figure, policy, point)?;
    let (mut small, mut all, mut cells) = (0, 0, 0);
    while let Some(BatchLine { batch, tasks, .. }) = rows.read()? {
        all += tasks;
        cells += batch * tasks;
        if batch <= most {
            small += tasks;
        }
    }
    Ok((100.0 * small as f64 / all as f64, cells as f64 / all as f64))
}

fn batches(found: &Findings, figure: &str, policy: &str, point: &str) -> Result<Log<BatchLine>> {
    let folder = &found.run(figure)?.1.folder.path;
    Log::open(
        &folder
            .join(folder_name(policy))
            .join(point)
            .join(BatchLine::FILE),
    )
}

/// Of the 90th percentile, up to half of the baselines' best peak.
fn cuts(found: &Findings, figure: &str, policy: &str) -> Result<(f64, f64)> {
    let half = best_peak(found, figure)? / 2.0;
    Ok(found
        .series(figure, policy)?
        .cuts(Metric::P90, &baselines(found, figure)?, half))
}

fn listed(values: &[f64], decimals: usize) -> String {
    values
        .iter()
        .map(|value| format!("{value:.decimals$}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// BatchMaker's lowest and highest up to 8,000 req/s.
fn flat_p90(found: &Findings) -> Result<(f64, f64)> {
    let p90 = found.series("fig7a", OURS)?.points(Metric::P90);
    Ok(range(
        p90.filter(|(rate, _)| *rate <= 8_000.0).map(|(_, p90)| p90),
    ))
}

/// The shorter of the baselines' 99th percentiles at 5,000 req/s.
fn least_queue(found: &Findings) -> Result<f64> {
    let queue = |policy| found.at("fig9", policy, "5000", Metric::QueueP99);
    Ok(queue("MXNet")?.min(queue("TensorFlow")?))
}

/// At 1,000 req/s.
fn tree_p90(found: &Findings, policy: &str) -> Result<f64> {
    found.at("fig14", policy, "1000", Metric::P90)
}

/// The median latency of `batch` clients in a closed loop, in microseconds.
fn step_us(found: &Findings, policy: &str, batch: u32) -> Result<f64> {
    Ok(1e3 * found.at("fig3", policy, &format!("clients-{batch}"), Metric::P50)?)
}

/// Of Figure 5's requests, ascending, in steps of a millisecond.
fn finish_steps(found: &Findings, policy: &str) -> Result<Vec<f64>> {
    let mut steps: Vec<f64> = found
        .steps("fig5", policy)?
        .iter()
        .map(|[_, finish]| *finish)
        .collect();
    steps.sort_by(f64::total_cmp);
    Ok(steps)
}

/// Of decoder cells in the time of all executed cells, by the cost table.
fn decoding_share(found: &Findings, figure: &str, policy: &str, point: &str) -> Result<f64> {
    let (scenario, _) = found.run(figure)?;
    let table = scenario
        .device
        .costs
        .as_ref()
        .ok_or_else(|| Error::input(format!("{figure}: no cost table")))?;
    let cells = scenario.workload.model.cell_types();
    let device = CostTable::read(table)?.device(&cells, Overhead::default())?;
    let mut rows = batches(found, figure, policy, point)?;
    let (mut decoding, mut all) = (0.0, 0.0);
    while let Some(BatchLine {
        cell: name,
        batch,
        tasks,
    }) = rows.read()?
    {
        let known = cells.iter().position(|cell| cell.name == name);
        let cell =
            CellId(known.ok_or_else(|| rows.error("cell", "is not a cell of the model"))? as u16);
        let step = Step {
            cell,
            batch: batch as u32,
            times: 1,
            input: 0,
        };
        let time = device.cell(&step).0 as f64 * tasks as f64;
        all += time;
        if name == "decoder" {
            decoding += time;
        }
    }
    Ok(decoding / all)
}
