//! Policy II (DVABatch, section 7.2, figure 13): a batch that is larger than the rest of the network wants is split.

use super::Stage;
use super::conditions::{Behind, Conditions, Enter, Entry, Lines, Onward};
use super::durations::Durations;
use super::load::ByLoad;
use crate::units::Nanos;

/// For operator diversity. Behind each stage a batch is halved, and its halves again, as long as that costs no time: if what remains
/// takes a batch at least as long as both halves together. The parts run one after the other, so that the first leave early.
pub struct ByOperator {
    /// How requests come in.
    pub entry: ByLoad,
    /// What stages take.
    pub durations: Durations,
    /// The stages.
    pub stages: u32,
    /// How much longer the halves may take together, in thousandths. 0 in the paper.
    pub slack_permille: u32,
}

impl ByOperator {
    /// Whether a batch behind a stage is split into halves.
    fn splits(&self, behind: Stage, batch: u32, input: u32) -> bool {
        let rest = |batch| u128::from(self.durations.from(behind.next(), batch, input).0);
        batch > 1
            && rest(batch) * u128::from(1000 + self.slack_permille)
                >= 1000 * (rest(batch - batch / 2) + rest(batch / 2))
    }

    fn halve(&self, behind: Stage, batch: u32, input: u32, parts: &mut Vec<u32>) {
        if self.splits(behind, batch, input) {
            self.halve(behind, batch - batch / 2, input, parts);
            self.halve(behind, batch / 2, input, parts);
        } else {
            parts.push(batch);
        }
    }
}

impl Conditions for ByOperator {
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        self.entry.enter(entry)
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        self.entry.wake_at(lines, now)
    }

    fn may_split(&self, batch: u32, input: u32) -> bool {
        (0..self.stages - 1).any(|stage| self.splits(Stage(stage), batch, input))
    }

    fn behind(&mut self, at: &Behind<'_>, onward: &mut Onward) {
        if at.stage.0 + 1 < self.stages {
            self.halve(at.stage, at.row.live, at.row.input, &mut onward.parts);
        }
    }
}
