//! Paged memory for keys and values (vLLM, SOSP 2023, sections 4.3 and 4.5; the order of prompts is that of its first
//! releases): sequences get a block when they need one. While prompts wait and fit, iterations feed prompts only;
//! otherwise all sequences decode. Without a free block, the latest arrivals are preempted and computed again later.

use super::prelude::*;
use super::sequences::{Continuous, KvMemory};

/// `kind = "vllm"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Vllm {
    /// The largest number of tokens of the prompts of an iteration. A longer prompt runs alone.
    #[default = 2048]
    pub max_batched_tokens: u32,
    /// The largest number of sequences in an iteration.
    #[default = 256]
    pub max_batch: u32,
    /// The number of tokens in a block of keys and values.
    #[default = 16]
    pub block: u32,
    /// The share of the blocks that stays free when a request is admitted next to others.
    #[default = 0.01]
    pub watermark: f64,
}

impl Settings for Vllm {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "vllm",
            "language models: paged memory, prompts first, the latest arrivals are preempted (vLLM)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        require_positive([("max_batched_tokens", self.max_batched_tokens)])?;
        let memory = KvMemory::new("vllm", setup, self.block, None);
        let most = u64::from(self.max_batched_tokens);
        let policy = Continuous::new(
            setup,
            self.max_batch,
            self.watermark,
            memory,
            move |iteration| {
                while let Some(prompt) = iteration.next_prompt()
                    && (iteration.tokens() == 0 || iteration.tokens() + prompt <= most)
                    && iteration.feed(prompt)
                {}
                if iteration.tokens() == 0 {
                    iteration.decode();
                }
            },
        )?;
        Ok(Box::new(policy))
    }

    fn iterates(&self) -> bool {
        true
    }
}
