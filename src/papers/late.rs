//! Checks of Late Batching's claims (*Low Latency Model Serving with Late Batching*, AISys 2017).

use crate::base::error::Result;
use crate::lab::results::columns::Metric;
use crate::papers::findings::{Check, Findings};
use crate::papers::value::PaperValue;
use crate::papers::verdict::ClaimVerdict;

const LATE: &str = "Late Batching";
const PADDED: &str = "MXNet";

pub const CHECKS: &[(&str, Check)] = &[
    ("late-fig1", schedule),
    ("late-gain", gain_in_overload),
    ("late-fixed", cuts_at_fixed_length),
    ("late-fold", fold_is_worse),
];

/// Start and end of the batch of requests 10 to 13 in dataflow batching, and of request 10 in Late Batching.
fn schedule(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let dataflow = found.steps("fig1", "Dataflow batching")?;
    let late = found.steps("fig1", LATE)?;
    let batch = &dataflow[10.min(dataflow.len())..];
    let starts: Vec<f64> = batch.iter().map(|[start, _]| *start).collect();
    let ends: Vec<f64> = batch.iter().map(|[_, end]| *end).collect();
    let is_one_batch = all_equal(&starts) && all_equal(&ends);
    let mut ours = if is_one_batch {
        vec![starts[0], ends[0]]
    } else {
        [starts, ends].concat()
    };
    ours.extend(late[10]);
    Ok(ClaimVerdict::exact(&ours, paper))
}

fn all_equal(times: &[f64]) -> bool {
    times.iter().all(|time| *time == times[0])
}

fn gain_in_overload(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let counted = mean_gain_in_overload(found, "fig3")?;
    let tail = mean_gain_in_overload(found, "fig5-tail")?;
    let verdict = ClaimVerdict::inside(counted, paper, counted > 0.0);
    Ok(verdict.with(&format!(" ({tail:.1} % with lengths up to 330)")))
}

/// The mean gain in throughput over MXNet at loads above Late Batching's peak, in percent. In overload MXNet's
/// throughput varies with the requests that were drawn; a maximum would favour it.
fn mean_gain_in_overload(found: &Findings, figure: &str) -> Result<f64> {
    let late = found.series(figure, LATE)?;
    let padded = found.series(figure, PADDED)?;
    let pairs = late
        .points(Metric::Throughput)
        .zip(padded.points(Metric::Throughput));
    let mut gains = Vec::new();
    for ((offered, ours), (_, theirs)) in pairs {
        if offered > late.peak() {
            gains.push(100.0 * (ours / theirs - 1.0));
        }
    }
    Ok(gains.iter().sum::<f64>() / gains.len().max(1) as f64)
}

fn cuts_at_fixed_length(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let late = found.series("fig6", LATE)?;
    let padded = [found.series("fig6", PADDED)?];
    let half = late.peak() / 2.0;
    let median = late.cuts(Metric::P50, &padded, half);
    let tail = late.cuts(Metric::P99, &padded, half);
    let cuts = (median.0.min(tail.0), median.1.max(tail.1));
    Ok(ClaimVerdict::range(cuts, paper, cuts.0 > 0.0))
}

fn fold_is_worse(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let (holds_on_europarl, europarl) = compare_fold(found, "fig3", "Europarl")?;
    let (holds_at_one_length, one_length) = compare_fold(found, "fig6", "length 20")?;
    let text = format!("{europarl}; {one_length}");
    Ok(ClaimVerdict::order(
        holds_on_europarl && holds_at_one_length,
        text,
    ))
}

/// Whether Fold has a lower peak than MXNet and a latency that is nowhere lower, and the numbers that show it. Loads
/// beyond Fold's peak are left out, since its latency there only depends on the length of the run.
fn compare_fold(found: &Findings, figure: &str, requests: &str) -> Result<(bool, String)> {
    let fold = found.series(figure, "Fold")?;
    let padded = found.series(figure, PADDED)?;
    let mut loads = 0;
    let mut loads_with_lower_median = 0;
    for ((rate, folds), (_, theirs)) in fold.points(Metric::P50).zip(padded.points(Metric::P50)) {
        if rate <= fold.peak() {
            loads += 1;
            if folds < theirs {
                loads_with_lower_median += 1;
            }
        }
    }
    let folds_peak = fold.peak();
    let padded_peak = padded.peak();
    let holds = folds_peak < padded_peak && loads_with_lower_median == 0;
    let text = format!(
        "{requests}: peak {folds_peak:.0} req/s against {padded_peak:.0}, p50 lower at {loads_with_lower_median} of {loads} \
         loads below it"
    );
    Ok((holds, text))
}
