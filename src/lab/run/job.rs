//! A run of a scenario, and its place in a sweep.

use crate::lab::scenario::{LoadPoint, PolicyEntry, Scenario};

/// One run: a policy under a load, with its own random sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The index of the policy in the scenario.
    pub policy: usize,
    pub load: LoadPoint,
    pub replication: u32,
}

/// A run of one of a sweep's scenarios, which are called its variants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SweepRun {
    pub variant: usize,
    pub run: Run,
    /// The position of the run's row in the summary.
    pub row: usize,
}

impl SweepRun {
    pub fn policy<'s>(&self, scenarios: &'s [Scenario]) -> &'s PolicyEntry {
        &scenarios[self.variant].policies[self.run.policy]
    }
}
