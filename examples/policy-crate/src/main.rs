//! Earliest deadline first: padded batches of the most urgent requests. Late requests are rejected.
//!
//! Once it is in the registry, it has the whole command line, the logs and the figures:
//!
//!     cargo check                 # mistakes of the language, in under a second after an edit
//!     cargo test                  # the laws that every policy keeps
//!     cargo run -- sim edf.toml
//!
//! README.md says more, and `cargo doc --open` shows the interface.

use std::collections::BTreeMap;
use std::process::ExitCode;

use batchlab::policy::values::require_positive;
use batchlab::prelude::*;
use serde::{Deserialize, Serialize};

fn main() -> ExitCode {
    batchlab::cli::main(&Registry::standard().with::<EarliestDeadline>())
}

/// `kind = "edf"`: the keys of its `[[policy]]` table.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EarliestDeadline {
    /// The most requests in a batch.
    max_batch: u32,
}

impl Default for EarliestDeadline {
    fn default() -> Self {
        EarliestDeadline { max_batch: 64 }
    }
}

impl Settings for EarliestDeadline {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "edf",
            "the earliest deadlines first, in padded batches; late requests are rejected",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("padding")?;
        require_positive([("max_batch", self.max_batch)])?;
        Ok(Box::new(Queue {
            max_batch: self.max_batch as usize,
            waiting: BTreeMap::new(),
        }))
    }
}

struct Queue {
    max_batch: usize,
    /// By deadline, then in the order of arrival. Requests without a deadline come last.
    waiting: BTreeMap<(Nanos, RequestId), CellGraph>,
}

impl Policy for Queue {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.waiting.insert(
            (request.deadline.unwrap_or(Nanos::MAX), request.id),
            request.graph.clone(),
        );
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        while let Some(first) = self
            .waiting
            .first_entry()
            .filter(|first| first.key().0 < dispatch.now())
        {
            dispatch.reject(first.remove_entry().0.1);
        }
        let mut idle = dispatch.idle();
        while !self.waiting.is_empty()
            && let Some(worker) = idle.next(dispatch)
        {
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
fn earliest_deadline_first_keeps_the_laws() {
    check(
        &EarliestDeadline { max_batch: 4 },
        &Guarantees {
            max_batch: 4,
            ..Guarantees::default()
        },
    );
}
