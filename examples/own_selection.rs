//! Cellular batching with another selection rule, outside the crate: a worker runs the cell type whose head request has
//! waited longest, where Algorithm 1 looks at full batches and priorities.
//!
//!     cargo run --release --example own_selection -- sim examples/own_selection.toml
//!     cargo test --example own_selection

use std::process::ExitCode;

use batchlab::policy::registry::Batches;
use batchlab::prelude::*;
use serde::{Deserialize, Serialize};

fn main() -> ExitCode {
    batchlab::cli::main(&Registry::standard().with::<LongestWait>())
}

/// `kind = "longest-wait"`: the keys are those of `cellular`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct LongestWait(Cellular);

impl Settings for LongestWait {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "longest-wait",
            "cell by cell: the cell type whose head request has waited longest",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.0.build_with(OldestHead, setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.0.largest_batches(setup)
    }

    fn runs_parts(&self) -> bool {
        self.0.runs_parts()
    }
}

struct OldestHead;

impl SelectionRule for OldestHead {
    fn choose<'a>(&mut self, cells: impl Iterator<Item = CellView<'a>>) -> Option<Choice> {
        let ready = cells.filter_map(|cell| Some((cell.head_arrival()?, cell)));
        let (_, oldest) = ready.min_by_key(|(arrival, _)| *arrival)?;
        Some(oldest.chosen("its head request has waited longest"))
    }
}

#[test]
fn it_keeps_the_laws() {
    use batchlab::policy::values::PerCell;

    for (max_tasks, max_batch, chunk) in [(1, 4, 1), (5, 512, 1), (3, 5, 2)] {
        let policy = LongestWait(Cellular {
            max_tasks,
            max_batch: PerCell::All(max_batch),
            chunk,
            ..Cellular::default()
        });
        check(
            &policy,
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}
