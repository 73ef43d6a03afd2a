//! Seq2Seq on several GPUs (section 7.4).

use super::readings::{
    FOUR_GPUS, TWO_GPUS, WIDE, best_peak, check_largest_cut, check_smallest_cut, open_batches,
    seq2seq_cuts,
};
use crate::base::error::{Error, Result};
use crate::base::units::CellId;
use crate::core::cost::CostModel as _;
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::task::Step;
use crate::lab::results::logs::BatchLine;
use crate::papers::findings::Findings;
use crate::papers::value::PaperValue;
use crate::papers::verdict::{ClaimVerdict, higher};

/// The label of batches of at most 256 cells of either kind.
const EVEN: &str = "BatchMaker-256,256";

pub(super) fn peak_of_two_gpus(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ours = found.peak(TWO_GPUS, WIDE)?;
    higher(ours, best_peak(found, TWO_GPUS)?, paper)
}

pub(super) fn peak_of_four_gpus(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let two = found.peak(TWO_GPUS, WIDE)?;
    let four = found.peak(FOUR_GPUS, WIDE)?;
    let agrees = four > 1.9 * two && four > best_peak(found, FOUR_GPUS)?;
    Ok(ClaimVerdict::near(four, paper, agrees))
}

pub(super) fn gain(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let two = found.peak(TWO_GPUS, WIDE)? / best_peak(found, TWO_GPUS)?;
    let four = found.peak(FOUR_GPUS, WIDE)? / best_peak(found, FOUR_GPUS)?;
    let verdict = ClaimVerdict::near((two + four) / 2.0, paper, two.min(four) > 1.0);
    Ok(verdict.with(&format!(" (mean of {two:.2} x and {four:.2} x)")))
}

pub(super) fn largest_cut(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    check_largest_cut(seq2seq_cuts(found)?, paper)
}

pub(super) fn smallest_cut(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    check_smallest_cut(seq2seq_cuts(found)?, paper)
}

/// The gain of 512 encoder cells over 256, as the mean of two and four GPUs.
pub(super) fn gain_of_wide_encoders(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let two = found.peak(TWO_GPUS, WIDE)? / found.peak(TWO_GPUS, EVEN)?;
    let four = found.peak(FOUR_GPUS, WIDE)? / found.peak(FOUR_GPUS, EVEN)?;
    let mean = 100.0 * ((two + four) / 2.0 - 1.0);
    Ok(ClaimVerdict::inside(mean, paper, two.min(four) > 1.0))
}

pub(super) fn share_of_decoding(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let share = 100.0 * decoding_share(found, TWO_GPUS, EVEN, "9000")?;
    Ok(ClaimVerdict::near(share, paper, share > 50.0))
}

/// The share of decoder cells in the time of all executed cells, by the cost table.
fn decoding_share(found: &Findings, figure: &str, policy: &str, point: &str) -> Result<f64> {
    let (scenario, _) = found.run(figure)?;
    let Some(table) = &scenario.device.costs else {
        return Err(Error::input(format!("{figure}: no cost table")));
    };
    let cells = scenario.workload.model.cell_types();
    let costs = CostTable::read(table)?.costs_for(&cells, Overhead::default())?;
    let mut lines = open_batches(found, figure, policy, point)?;
    let mut decoding = 0.0;
    let mut all = 0.0;
    while let Some(line) = lines.read()? {
        let BatchLine { cell, batch, tasks } = line;
        let Some(place) = cells.iter().position(|known| known.name == cell) else {
            return Err(lines.error("cell", "is not a cell of the model"));
        };
        let step = Step {
            cell: CellId(place as u16),
            batch: batch as u32,
            times: 1,
            input: 0,
        };
        let time = costs.cell(&step).0 as f64 * tasks as f64;
        all += time;
        if cell == "decoder" {
            decoding += time;
        }
    }
    Ok(decoding / all)
}
