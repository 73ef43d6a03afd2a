use serde::{Deserialize, Serialize};

use super::order::OrderedRecord;
use super::times::Times;
use crate::base::units::Rate;
use crate::core::record::tokens::Tokens;

/// The token metrics of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenSummary {
    /// The times of the measured requests from arrival to the first token.
    pub ttft: Times,
    /// The times between tokens, over all gaps of the run. Quantiles are wrong by at most 0.1 %.
    pub tbt: Times,
    /// The mean of latency / output tokens over the measured requests (Orca, section 6; vLLM, section 6.1).
    pub normalised_ms: Option<f64>,
    /// The tokens per second from the first arrival on.
    pub throughput: Option<Rate>,
    /// The mean share of the blocks that were in use while tasks ran.
    pub kv_mean: Option<f64>,
    /// The largest share of the blocks that were in use at once.
    pub kv_peak: Option<f64>,
    pub preemptions: u64,
}

impl TokenSummary {
    /// The metrics of a run. The requests that were served count among the measured ones.
    pub(super) fn new(tokens: &Tokens, run: &OrderedRecord<'_>, measured: &[u32]) -> TokenSummary {
        let record = run.record;
        let mut first = Vec::with_capacity(measured.len());
        let mut normalised = 0.0;
        for &request in measured {
            let Some(spans) = run.spans(request) else {
                continue;
            };
            let output = tokens.sequences[request as usize].output;
            first.push(time_to_first(tokens, run, request));
            normalised += spans.latency as f64 / f64::from(output);
        }
        let began = record.arrival.iter().min().copied().unwrap_or_default();
        let end = record.execution.end;
        let seconds = end.saturating_since(began).as_secs_f64();
        let [ttft] = Times::from_rows(first.iter().map(|span| [*span]));
        TokenSummary {
            tbt: Times::from_histogram(&tokens.gaps),
            normalised_ms: ratio(normalised / 1e6, first.len() as f64),
            throughput: ratio(tokens.generated as f64, seconds).map(Rate),
            kv_mean: ratio(tokens.used_blocks as f64, tokens.all_blocks as f64),
            kv_peak: ratio(tokens.most_blocks.into(), tokens.capacity.into()),
            preemptions: tokens.preemptions,
            ttft,
        }
    }
}

/// The time from a request's arrival to its first token, in nanoseconds.
pub(super) fn time_to_first(tokens: &Tokens, run: &OrderedRecord<'_>, request: u32) -> u64 {
    let first = tokens.sequences[request as usize].first;
    first
        .saturating_since(run.record.arrival[request as usize])
        .0
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    if whole > 0.0 {
        Some(part / whole)
    } else {
        None
    }
}
