//! LazyBatch (Choi, Kim and Rhu, 2021), as DVABatch reads it: every operator is a stage, and batches are stretched, nothing else.

use serde::{Deserialize, Serialize};

use super::settings::{Diversity, DvaBatch, Rule, Stages};
use crate::policy::Policy;
use crate::policy::registry::{Batches, PolicyKind, Settings, Setup};
use crate::policy::values::time_with_unit;
use crate::units::Nanos;

/// `kind = "lazy"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lazy {
    /// The most queries in a batch.
    pub max_batch: u32,
    /// The age up to which a batch takes in others.
    #[serde(with = "time_with_unit")]
    pub comp_wait: Nanos,
}

impl Default for Lazy {
    fn default() -> Self {
        Lazy { max_batch: 64, comp_wait: Nanos(50_000_000) }
    }
}

impl Lazy {
    fn settings(&self) -> DvaBatch {
        DvaBatch {
            policy: Diversity::Load,
            stages: Stages::By(Rule::Operators),
            steps: 1,
            max_batch: self.max_batch,
            comp_wait: Some(self.comp_wait),
            ..DvaBatch::default()
        }
    }
}

impl Settings for Lazy {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("lazy", "networks operator by operator, whose batches take in latecomers (LazyBatch)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.settings().build(setup)
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        self.settings().streams(setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.settings().largest_batches(setup)
    }

    fn runs_parts(&self) -> bool {
        true
    }
}
