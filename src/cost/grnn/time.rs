//! From costs to time. The model ranks, it does not predict; the lines here are what it takes to simulate with it all the same.
//!
//! A launch that computes some steps of a batch takes `launch + steps · (barriers + cost · factor)`. For the Titan V the lines are fitted to the
//! paper's Table 1, where sequences have 100 steps; on its Table 2 they miss by up to 0.19 ms of 0.57.

use serde::Deserialize;

use super::Rnn;
use crate::units::Nanos;

/// A line for each network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Times {
    /// What a launch takes beside its steps.
    #[serde(rename = "launch_ns")]
    pub launch: Nanos,
    /// Of an LSTM.
    pub lstm: Line,
    /// Of a GRU with one synchronisation.
    pub gru_single: Line,
    /// Of a GRU with two.
    pub gru_double: Line,
}

/// What a step takes, by its cost.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Whatever its cost: what all mappings have in common and the cost leaves out, the barrier above all.
    pub step_ns: u64,
    /// For each unit of cost.
    pub cost_ps: u64,
}

/// The largest number of a line: a second.
const MAX_NS: u64 = 1_000_000_000;

impl Times {
    pub(super) fn check(&self) -> Result<(), String> {
        let lines = [("lstm", self.lstm), ("gru-single", self.gru_single), ("gru-double", self.gru_double)];
        let of_lines = lines.into_iter().flat_map(|(name, line)| {
            [(format!("{name}.step_ns"), line.step_ns), (format!("{name}.cost_ps"), line.cost_ps)]
        });
        let mut all = of_lines.chain([("launch_ns".to_string(), self.launch.0)]);
        match all.find(|(_, value)| *value > MAX_NS) {
            Some((key, value)) => {
                Err(format!("grnn.time.{key}: {value} is out of range; a whole number from 0 to {MAX_NS}"))
            }
            None => Ok(()),
        }
    }

    /// What a step of this cost takes, to the nearest nanosecond. Counted in whole numbers, from millionths of a unit of cost on. A cost that no
    /// number holds, which constants of a device's file may come to, takes for ever.
    pub fn step(&self, rnn: Rnn, cost: f64) -> Nanos {
        let line = match rnn {
            Rnn::Lstm => self.lstm,
            Rnn::GruSingle => self.gru_single,
            Rnn::GruDouble => self.gru_double,
        };
        let cost = (cost * 1e6).round() as u128;
        let by_cost = cost.saturating_mul(line.cost_ps.into()).saturating_add(500_000_000) / 1_000_000_000;
        Nanos(line.step_ns).saturating_add(Nanos(u64::try_from(by_cost).unwrap_or(u64::MAX)))
    }
}
