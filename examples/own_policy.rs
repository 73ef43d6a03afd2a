//! A policy outside the crate: shortest job first, in padded batches.
//!
//! Once it is in the registry, it has the whole command line, the logs and the plots:
//!
//!     cargo run --release --example own_policy -- sim examples/own_policy.toml
//!
//! One line checks the laws that every policy keeps (the test at the end):
//!
//!     cargo test --example own_policy

use std::collections::BTreeMap;
use std::process::ExitCode;

use batchlab::policy::values::at_least_1;
use batchlab::prelude::*;
use serde::{Deserialize, Serialize};

fn main() -> ExitCode {
    batchlab::cli::main(&Registry::standard().with::<ShortestFirst>())
}

/// `kind = "sjf"`: the keys of its `[[policy]]` table.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ShortestFirst {
    /// The most requests in a batch.
    max_batch: u32,
}

impl Default for ShortestFirst {
    fn default() -> Self {
        ShortestFirst { max_batch: 64 }
    }
}

impl Settings for ShortestFirst {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("sjf", "the shortest requests first, padded to the longest of their batch")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("padding")?;
        at_least_1([("max_batch", self.max_batch)])?;
        Ok(Box::new(ShortestFirstPolicy { max_batch: self.max_batch as usize, waiting: BTreeMap::new() }))
    }
}

struct ShortestFirstPolicy {
    max_batch: usize,
    /// By length, then in the order of arrival.
    waiting: BTreeMap<(u32, RequestId), CellGraph>,
}

impl Policy for ShortestFirstPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.waiting.insert((request.shape.length(), request.id), request.graph.clone());
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for worker in dispatch.workers() {
            if !dispatch.is_idle(worker) || self.waiting.is_empty() {
                continue;
            }
            let mut batch = PaddedBatch::default();
            while batch.requests.len() < self.max_batch
                && let Some(((_, request), graph)) = self.waiting.pop_first()
            {
                batch.add(request, &graph);
            }
            dispatch.submit(&batch.task(worker));
        }
    }
}

#[test]
fn shortest_first_keeps_the_laws() {
    check(&ShortestFirst { max_batch: 4 }, &Guarantees { max_batch: 4, ..Guarantees::default() });
}
