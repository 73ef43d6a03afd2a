//! What the checks of several sections read from the results.

use crate::base::error::Result;
use crate::base::files::folder_name;
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::{BatchLine, LogRow as _};
use crate::lab::results::read::Log;
use crate::papers::findings::{Findings, PolicySeries};
use crate::papers::value::PaperValue;
use crate::papers::verdict::{ClaimVerdict, higher};

pub const BATCHMAKER: &str = "BatchMaker";
/// The label of batches of at most 512 encoder and 256 decoder cells.
pub const WIDE: &str = "BatchMaker-512,256";

/// The figure of the LSTM on one GPU.
pub const LSTM: &str = "fig7a";
/// The figures of Seq2Seq on two and four GPUs.
pub const TWO_GPUS: &str = "fig13a";
pub const FOUR_GPUS: &str = "fig13b";

pub fn baselines<'a>(found: &'a Findings, figure: &str) -> Result<[PolicySeries<'a>; 2]> {
    Ok([
        found.series(figure, "MXNet")?,
        found.series(figure, "TensorFlow")?,
    ])
}

/// The higher peak of the two baselines.
pub fn best_peak(found: &Findings, figure: &str) -> Result<f64> {
    let [mxnet, tensorflow] = baselines(found, figure)?;
    Ok(mxnet.peak().max(tensorflow.peak()))
}

/// The load at which a policy's 90th percentile passes 500 ms.
pub fn load_past_500_ms(found: &Findings, policy: &str) -> Result<f64> {
    let load = found.series(LSTM, policy)?.rate_at_p90(500.0);
    Ok(load.unwrap_or(f64::INFINITY))
}

/// The load at which the last of the baselines passes 500 ms. Section 7.2 calls it their peak.
pub fn baselines_load_past_500_ms(found: &Findings) -> Result<f64> {
    let mxnet = load_past_500_ms(found, "MXNet")?;
    let tensorflow = load_past_500_ms(found, "TensorFlow")?;
    Ok(mxnet.max(tensorflow))
}

/// The smallest and the largest cut of the LSTM's latency, in percent.
pub fn lstm_cuts(found: &Findings) -> Result<(f64, f64)> {
    cuts(found, LSTM, BATCHMAKER)
}

/// The smallest and the largest cut of Seq2Seq's latency on two and on four GPUs, in percent.
pub fn seq2seq_cuts(found: &Findings) -> Result<(f64, f64)> {
    let two = cuts(found, TWO_GPUS, WIDE)?;
    let four = cuts(found, FOUR_GPUS, WIDE)?;
    Ok((two.0.min(four.0), two.1.max(four.1)))
}

/// The smallest and the largest cut of the 90th percentile, at loads up to half of the baselines' best peak.
fn cuts(found: &Findings, figure: &str, policy: &str) -> Result<(f64, f64)> {
    let half = best_peak(found, figure)? / 2.0;
    let baselines = baselines(found, figure)?;
    let ours = found.series(figure, policy)?;
    Ok(ours.cuts(Metric::P90, &baselines, half))
}

pub fn check_largest_cut(cuts: (f64, f64), paper: &PaperValue) -> Result<ClaimVerdict> {
    let (smallest, largest) = cuts;
    higher(largest, smallest.max(0.0), paper)
}

pub fn check_smallest_cut(cuts: (f64, f64), paper: &PaperValue) -> Result<ClaimVerdict> {
    let (smallest, _) = cuts;
    higher(smallest, 0.0, paper)
}

/// The log of a point's batches.
pub fn open_batches(
    found: &Findings,
    figure: &str,
    policy: &str,
    point: &str,
) -> Result<Log<BatchLine>> {
    let (_, report) = found.run(figure)?;
    let folder = report.folder.path.join(folder_name(policy)).join(point);
    Log::open(&folder.join(BatchLine::FILE))
}
