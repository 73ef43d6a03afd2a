//! TreeLSTM (section 7.5), and the abstract's ranges over all networks.

use super::readings::{BATCHMAKER, LSTM, baselines_load_past_500_ms, lstm_cuts, seq2seq_cuts};
use crate::base::error::Result;
use crate::lab::results::columns::Metric;
use crate::papers::findings::Findings;
use crate::papers::numbers::range;
use crate::papers::paper::Paper;
use crate::papers::value::PaperValue;
use crate::papers::verdict::{ClaimVerdict, higher, lower};

/// The figure of trees as in the Stanford treebank.
const TREES: &str = "fig14";
/// The figure of complete trees.
const COMPLETE: &str = "fig15";

pub(super) fn latency(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    lower(
        p90_at_1000(found, BATCHMAKER)?,
        p90_at_1000(found, "DyNet")?,
        paper,
    )
}

pub(super) fn dynets_latency(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    higher(
        p90_at_1000(found, "DyNet")?,
        p90_at_1000(found, BATCHMAKER)?,
        paper,
    )
}

pub(super) fn cut(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ratio = p90_at_1000(found, BATCHMAKER)? / p90_at_1000(found, "DyNet")?;
    let cut = 100.0 * (1.0 - ratio);
    Ok(ClaimVerdict::near(cut, paper, cut > 0.0))
}

/// The 90th percentile at 1,000 requests a second.
fn p90_at_1000(found: &Findings, policy: &str) -> Result<f64> {
    found.value(TREES, policy, "1000", Metric::P90)
}

pub(super) fn peak(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    higher(
        found.peak(TREES, BATCHMAKER)?,
        found.peak(TREES, "DyNet")?,
        paper,
    )
}

pub(super) fn dynets_peak(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    lower(
        found.peak(TREES, "DyNet")?,
        found.peak(TREES, BATCHMAKER)?,
        paper,
    )
}

pub(super) fn gain(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let gain = gain_over(found, "DyNet")?;
    Ok(ClaimVerdict::near_number(
        gain,
        papers_gain(),
        paper.unit(),
        gain > 1.0,
    ))
}

/// The ratio of the peaks that the paper states. The claim's text rounds it.
fn papers_gain() -> f64 {
    let batchmaker = Paper::BatchMaker.value("bm-tree-peak").number();
    let dynet = Paper::BatchMaker.value("bm-tree-peak-dynet").number();
    batchmaker / dynet
}

/// BatchMaker's peak over another policy's.
fn gain_over(found: &Findings, policy: &str) -> Result<f64> {
    Ok(found.peak(TREES, BATCHMAKER)? / found.peak(TREES, policy)?)
}

pub(super) fn range_of_cuts(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let chains = lstm_cuts(found)?;
    let sequences = seq2seq_cuts(found)?;
    let cuts = (chains.0.min(sequences.0), chains.1.max(sequences.1));
    Ok(ClaimVerdict::range(cuts, paper, cuts.0 > 0.0))
}

pub(super) fn range_of_gains(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let chains = found.peak(LSTM, BATCHMAKER)? / baselines_load_past_500_ms(found)?;
    let trees = gain_over(found, "DyNet")?;
    let (least, most) = range([chains, trees].map(|gain| 100.0 * (gain - 1.0)));
    Ok(ClaimVerdict::range((least, most), paper, least > 0.0))
}

pub(super) fn gain_over_fold(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let gain = gain_over(found, "Fold")?;
    let ours = found.value(TREES, BATCHMAKER, "500", Metric::P90)?;
    let folds = found.value(TREES, "Fold", "500", Metric::P90)?;
    let cut = 100.0 * (1.0 - ours / folds);
    let verdict = ClaimVerdict::near(gain, paper, gain > 1.0 && cut > 0.0);
    Ok(verdict.with(&format!(
        "; p90 latency cut by {cut:.0} % at 500 req/s (paper 87 %)"
    )))
}

pub(super) fn peak_below_ideal(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ratio = found.peak(COMPLETE, BATCHMAKER)? / found.peak(COMPLETE, "Ideal")?;
    let below = 100.0 * (1.0 - ratio);
    let ours = found.value(COMPLETE, BATCHMAKER, "500", Metric::P90)?;
    let dynets = found.value(COMPLETE, "DyNet", "500", Metric::P90)?;
    let ideal = found.value(COMPLETE, "Ideal", "500", Metric::P90)?;
    let ideal_is_slower = ideal > ours && ideal > dynets;
    Ok(ClaimVerdict::near(
        below,
        paper,
        below > 0.0 && ideal_is_slower,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_over_dynet_is_shown_as_it_is_checked() {
        let text = format!("{:.2} x", papers_gain());
        assert_eq!(Paper::BatchMaker.value("bm-tree-gain").text(), text);
    }
}
