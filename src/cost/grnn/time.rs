use serde::Deserialize;

use super::Rnn;
use crate::units::Nanos;

/// From costs to time, a line for each kind of kernel: `launch + steps · (step_ns + cost · cost_ps)`. The model is made
/// to rank, not to predict. For the Titan V the lines are fitted to the paper's Table 1 (100 steps); on its Table 2
/// they are off by up to 0.19 ms of 0.57.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Times {
    /// A launch without its steps.
    #[serde(rename = "launch_ns")]
    pub launch: Nanos,
    pub lstm: Line,
    pub gru_single: Line,
    pub gru_double: Line,
}

/// The time of a step by its cost.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What all mappings have in common and the cost leaves out, mainly the barrier.
    pub step_ns: u64,
    /// Picoseconds per unit of cost.
    pub cost_ps: u64,
}

/// The largest value of a line: a second.
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

    /// The time of a step, rounded to a nanosecond, in integers of a millionth of a unit of cost. An infinite cost,
    /// which odd constants may produce, takes forever.
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
