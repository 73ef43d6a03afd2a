//! LSTM on one GPU (sections 7.2 and 7.3).

use super::readings::{
    BATCHMAKER, LSTM, baselines, baselines_load_past_500_ms, best_peak, check_largest_cut,
    check_smallest_cut, load_past_500_ms, lstm_cuts, open_batches,
};
use crate::base::error::Result;
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::BatchLine;
use crate::papers::findings::Findings;
use crate::papers::numbers::range;
use crate::papers::paper::Paper;
use crate::papers::value::PaperValue;
use crate::papers::verdict::{ClaimVerdict, higher, lower, show_number};

pub(super) fn flat_latency(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let (lowest, highest) = p90_up_to_8000(found)?;
    Ok(ClaimVerdict::near(highest, paper, highest < 1.25 * lowest))
}

pub(super) fn baselines_least_latency(
    found: &Findings,
    paper: &PaperValue,
) -> Result<ClaimVerdict> {
    let mut least = f64::INFINITY;
    for series in baselines(found, LSTM)? {
        for (_, p90) in series.points(Metric::P90) {
            least = least.min(p90);
        }
    }
    let (_, ours) = p90_up_to_8000(found)?;
    higher(least, ours, paper)
}

/// BatchMaker's lowest and highest 90th percentile up to 8,000 requests a second.
fn p90_up_to_8000(found: &Findings) -> Result<(f64, f64)> {
    let points = found.series(LSTM, BATCHMAKER)?.points(Metric::P90);
    let flat = points.filter(|(rate, _)| *rate <= 8_000.0);
    Ok(range(flat.map(|(_, p90)| p90)))
}

pub(super) fn peak(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ours = found.peak(LSTM, BATCHMAKER)?;
    let verdict = higher(ours, best_peak(found, LSTM)?, paper)?;
    let with_tail = show_number(found.peak("fig7a-tail", BATCHMAKER)?, paper.unit());
    Ok(verdict.with(&format!(
        " ({with_tail} with the paper's longest sentences, up to 330)"
    )))
}

pub(super) fn baselines_overload(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let theirs = baselines_load_past_500_ms(found)?;
    lower(theirs, load_past_500_ms(found, BATCHMAKER)?, paper)
}

/// The gain over the load at which the baselines pass 500 ms, since section 7.2 calls both numbers peaks.
pub(super) fn gain(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let peak = found.peak(LSTM, BATCHMAKER)?;
    let gain = peak / baselines_load_past_500_ms(found)?;
    let over_peaks = peak / best_peak(found, LSTM)?;
    let more = format!(" ({over_peaks:.2} x over their highest throughput)");
    Ok(ClaimVerdict::near(gain, paper, gain > 1.0).with(&more))
}

pub(super) fn largest_cut(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    check_largest_cut(lstm_cuts(found)?, paper)
}

pub(super) fn smallest_cut(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    check_smallest_cut(lstm_cuts(found)?, paper)
}

/// Compares maximum batches of 512 with those of 64.
///
/// The paper says of the baselines: "At low load, all systems execute with effective batches sizes much smaller than
/// the configured maximum."
pub(super) fn maximum_batches(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let rates = ["1000", "2000", "3000", "4000", "5000", "6000", "8000"];
    let worst = largest_p90_difference(found, [LSTM, "fig7b"], BATCHMAKER, &rates)?;
    let low = baselines_p90_difference(found, &["250", "500", "1000", "2000"])?;
    let high = baselines_p90_difference(found, &["5000"])?;
    let most = found.peak(LSTM, BATCHMAKER)?;
    let least = found.peak("fig7b", BATCHMAKER)?;
    let text = format!(
        "p90 within {:.1} % at {} rates; peak {most:.0} and {least:.0} req/s; baselines' p90 within {:.1} % up to 2,000 \
         req/s, {:.0} % higher with 64 at 5,000",
        worst * 100.0,
        rates.len(),
        low * 100.0,
        high * 100.0
    );
    let holds = worst < 0.05 && low < 0.05 && most > 1.5 * least;
    Ok(ClaimVerdict::order(holds, text))
}

fn baselines_p90_difference(found: &Findings, points: &[&str]) -> Result<f64> {
    let figures = ["fig7b", LSTM];
    let mxnet = largest_p90_difference(found, figures, "MXNet", points)?;
    let tensorflow = largest_p90_difference(found, figures, "TensorFlow", points)?;
    Ok(mxnet.max(tensorflow))
}

/// The largest difference between the 90th percentiles of two figures, relative to the second.
fn largest_p90_difference(
    found: &Findings,
    figures: [&str; 2],
    policy: &str,
    points: &[&str],
) -> Result<f64> {
    let mut largest: f64 = 0.0;
    for point in points {
        let one = found.value(figures[0], policy, point, Metric::P90)?;
        let other = found.value(figures[1], policy, point, Metric::P90)?;
        largest = largest.max((one / other - 1.0).abs());
    }
    Ok(largest)
}

pub(super) fn bucket_widths(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let mut latencies = Vec::new();
    let mut peaks = Vec::new();
    for width in ["MXNet bw-1", "MXNet bw-10", "MXNet bw-40"] {
        latencies.push(found.value("fig8", width, "1000", Metric::P90)?);
        peaks.push(found.peak("fig8", width)?);
    }
    let holds = falls(&latencies) && falls(&peaks);
    let text = format!(
        "widths 1, 10, 40: p90 {} ms at 1,000 req/s; peak {} req/s",
        join_numbers(&latencies, 0),
        join_numbers(&peaks, 0)
    );
    Ok(ClaimVerdict::order(holds, text))
}

/// Compares timeouts for batches that are not full with no timeout. The text has the largest decrease and the largest
/// increase.
pub(super) fn timeouts(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let without = found.series("timeouts", "No timeout")?;
    let mut decrease = (0.0, String::new());
    let mut increase = (0.0, String::new());
    for window in ["2 ms", "10 ms", "50 ms", "100 ms"] {
        let with = found.series("timeouts", window)?;
        let pairs = with.points(Metric::P90).zip(without.points(Metric::P90));
        for ((rate, p90), (_, p90_without)) in pairs {
            let change = 100.0 * (p90 / p90_without - 1.0);
            let largest = if change < 0.0 {
                &mut decrease
            } else {
                &mut increase
            };
            if change.abs() > f64::abs(largest.0) {
                *largest = (
                    change,
                    format!("{change:+.0} % ({window}, {rate:.0} req/s)"),
                );
            }
        }
    }
    let text = format!("p90 with a timeout {} to {}", decrease.1, increase.1);
    Ok(ClaimVerdict::order(decrease.0 == 0.0, text))
}

pub(super) fn chains_throughput(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let padded = found.peak("chains", "MXNet")?;
    let dynet = found.peak("chains", "DyNet")?;
    let fold = found.peak("chains", "Fold")?;
    let text = format!(
        "peak {padded:.0} req/s, DyNet {dynet:.0} ({:.1} times), Fold {fold:.0} ({:.1} times)",
        padded / dynet,
        padded / fold
    );
    Ok(ClaimVerdict::order(padded > dynet && padded > fold, text))
}

pub(super) fn chains_latency(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let padded_at_500 = found.value("chains", "MXNet", "500", Metric::P90)?;
    let (is_below_dynet, dynet) = compare_chain_latencies(found, "DyNet")?;
    let (is_below_fold, fold) = compare_chain_latencies(found, "Fold")?;
    let text = format!("MXNet's p90 ({padded_at_500:.1} ms at 500 req/s) is below {dynet}, {fold}");
    Ok(ClaimVerdict::order(is_below_dynet && is_below_fold, text))
}

/// Whether MXNet's 90th percentile is below another policy's at all loads, and a text with the first load at which it
/// is.
fn compare_chain_latencies(found: &Findings, policy: &str) -> Result<(bool, String)> {
    let padded = found.series("chains", "MXNet")?;
    let other = found.series("chains", policy)?;
    let mut loads_below = Vec::new();
    for ((rate, ours), (_, theirs)) in padded.points(Metric::P90).zip(other.points(Metric::P90)) {
        if ours < theirs {
            loads_below.push(rate);
        }
    }
    let from = match loads_below.first() {
        Some(rate) => format!("from {rate:.0} req/s on"),
        None => "at no load".to_string(),
    };
    let at_500 = other.value("500", Metric::P90)?;
    let is_below_everywhere = loads_below.len() == padded.points(Metric::P90).count();
    Ok((
        is_below_everywhere,
        format!("{policy}'s {from} ({at_500:.1} ms at 500)"),
    ))
}

pub(super) fn moderate_batches(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let steps = StepSizes::read(found, LSTM, BATCHMAKER, "8000", 64)?;
    let text = format!(
        "{:.1} % of the steps, of {:.0} cells on average",
        steps.share_of_small, steps.mean
    );
    Ok(ClaimVerdict::order(steps.share_of_small > 50.0, text))
}

pub(super) fn batches_of_64(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let wide = share_of_64(found, "From 64")?;
    let all = share_of_64(found, "From 2")?;
    let text = format!(
        "{wide:.1} % of the steps are of 64 with sizes from 64 on, {all:.1} % with sizes from 2 on"
    );
    Ok(ClaimVerdict::order(wide > 50.0, text).mark_derived())
}

/// The share of steps that have exactly 64 cells at 5,000 requests a second, in percent.
fn share_of_64(found: &Findings, policy: &str) -> Result<f64> {
    let up_to_64 = StepSizes::read(found, "fig9-sizes", policy, "5000", 64)?;
    let up_to_63 = StepSizes::read(found, "fig9-sizes", policy, "5000", 63)?;
    Ok(up_to_64.share_of_small - up_to_63.share_of_small)
}

/// The sizes of a point's executed steps.
struct StepSizes {
    /// The share of steps with at most a given number of cells, in percent.
    share_of_small: f64,
    /// The mean number of cells of a step.
    mean: f64,
}

impl StepSizes {
    /// A step with up to `most` cells counts as small.
    fn read(
        found: &Findings,
        figure: &str,
        policy: &str,
        point: &str,
        most: u64,
    ) -> Result<StepSizes> {
        let mut lines = open_batches(found, figure, policy, point)?;
        let mut small = 0;
        let mut all = 0;
        let mut cells = 0;
        while let Some(BatchLine { batch, tasks, .. }) = lines.read()? {
            all += tasks;
            cells += batch * tasks;
            if batch <= most {
                small += tasks;
            }
        }
        Ok(StepSizes {
            share_of_small: 100.0 * small as f64 / all as f64,
            mean: cells as f64 / all as f64,
        })
    }
}

pub(super) fn queueing_time(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ours = found.value("fig9", BATCHMAKER, "5000", Metric::QueueP99)?;
    lower(ours, baselines_least_queueing_time(found)?, paper)
}

pub(super) fn baselines_queueing_time(
    found: &Findings,
    paper: &PaperValue,
) -> Result<ClaimVerdict> {
    Ok(ClaimVerdict::above(
        baselines_least_queueing_time(found)?,
        paper,
    ))
}

/// The shorter of the baselines' 99th percentiles at 5,000 requests a second.
fn baselines_least_queueing_time(found: &Findings) -> Result<f64> {
    let mxnet = found.value("fig9", "MXNet", "5000", Metric::QueueP99)?;
    let tensorflow = found.value("fig9", "TensorFlow", "5000", Metric::QueueP99)?;
    Ok(mxnet.min(tensorflow))
}

pub(super) fn ideal_of_fixed_length(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ideal = found.peak("fig11a", "TensorFlow")?;
    higher(ideal, found.peak("fig11a", BATCHMAKER)?, paper)
}

/// BatchMaker's peak as a share of the ideal that the paper states.
pub(super) fn share_of_ideal(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ideal = Paper::BatchMaker.value("bm-fixed-ideal").number();
    let share = found.peak("fig11a", BATCHMAKER)? / ideal;
    Ok(ClaimVerdict::near(share, paper, share < 1.0).mark_derived())
}

pub(super) fn variance_of_lengths(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let mut latencies = Vec::new();
    let mut throughputs = Vec::new();
    let mut ours = Vec::new();
    for figure in ["fig11a", "fig11b", "fig11c"] {
        let mxnet = found.series(figure, "MXNet")?;
        latencies.push(mxnet.value("8000", Metric::P90)?);
        throughputs.push(mxnet.peak_within(500.0));
        ours.push(found.value(figure, BATCHMAKER, "8000", Metric::P90)?);
    }
    let baseline_loses = latencies.is_sorted_by(|a, b| a < b) && falls(&throughputs);
    let batchmaker_keeps = ours[2] < 1.25 * ours[1] && ours[2] < 12.0;
    let text = format!(
        "MXNet: p90 {} ms at 8,000 req/s, {} req/s within 500 ms; BatchMaker: p90 {} ms",
        join_numbers(&latencies, 0),
        join_numbers(&throughputs, 0),
        join_numbers(&ours, 1)
    );
    Ok(ClaimVerdict::order(
        baseline_loses && batchmaker_keeps,
        text,
    ))
}

fn falls(values: &[f64]) -> bool {
    values.is_sorted_by(|before, after| before > after)
}

fn join_numbers(values: &[f64], decimals: usize) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|value| format!("{value:.decimals$}"))
        .collect();
    texts.join(", ")
}
