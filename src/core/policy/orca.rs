//! Iteration-level scheduling with selective batching (Orca, OSDI 2022, sections 3 and 4.2, algorithm 1): after each
//! iteration, ended sequences leave and requests join with their whole prompts. Each sequence has memory for the
//! longest one from the start, so none is ever preempted. Selective batching pads nothing: the products take the tokens
//! of all members together, and attention reads each member's own keys and values.

use super::prelude::*;
use super::sequences::{Continuous, KvMemory};

/// `kind = "orca"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Orca {
    /// The largest number of sequences in an iteration.
    #[default = 256]
    pub max_batch: u32,
    /// The longest sequence, prompt and output, for which each request has memory.
    #[default = 2048]
    pub max_length: u32,
}

impl Settings for Orca {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "orca",
            "language models: requests join and leave at each iteration, memory for the longest output (Orca)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let memory = KvMemory::new("orca", setup, 1, Some(self.max_length));
        let policy = Continuous::new(setup, self.max_batch, 0.0, memory, |iteration| {
            iteration.decode();
            while iteration.feed(u64::MAX) {}
        })?;
        Ok(Box::new(policy))
    }

    fn iterates(&self) -> bool {
        true
    }
}
