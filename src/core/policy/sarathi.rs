//! Stall-free batches with chunked prefills (Sarathi-Serve, OSDI 2024, section 4, algorithm 3): each iteration has a
//! budget of tokens. All sequences decode in it; the rest goes to the prompt that is partly fed, then to new ones.
//! Memory is paged and sequences are preempted as in vLLM.

use super::prelude::*;
use super::sequences::{Continuous, KvMemory};

/// `kind = "sarathi"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Sarathi {
    /// The number of tokens in an iteration. It is at least `max_batch`, so that every sequence decodes in each
    /// iteration.
    #[default = 512]
    pub token_budget: u32,
    /// The largest number of sequences in an iteration.
    #[default = 128]
    pub max_batch: u32,
    /// The number of tokens in a block of keys and values.
    #[default = 16]
    pub block: u32,
    /// The share of the blocks that stays free when a request is admitted next to others.
    #[default = 0.01]
    pub watermark: f64,
}

impl Settings for Sarathi {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "sarathi",
            "language models: a budget of tokens, decodes first, prompts in chunks (Sarathi-Serve)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        if self.token_budget < self.max_batch {
            return Err(format!(
                "token_budget: {} tokens are fewer than max_batch ({}); all sequences decode",
                self.token_budget, self.max_batch
            ));
        }
        let memory = KvMemory::new("sarathi", setup, self.block, None);
        let budget = u64::from(self.token_budget);
        let policy = Continuous::new(
            setup,
            self.max_batch,
            self.watermark,
            memory,
            move |iteration| {
                iteration.decode();
                while iteration.feed(budget - iteration.tokens()) {}
            },
        )?;
        Ok(Box::new(policy))
    }

    fn iterates(&self) -> bool {
        true
    }
}
