//! A policy of one's own, outside of the crate: shortest job first, in padded batches.
//!
//! Adding it to the registry gives it the whole command line, the logs and the plots:
//!
//!     cargo run --release --example own_policy -- sim examples/own_policy.toml
//!
//! and one line gives it the laws that every policy keeps (the test at the end):
//!
//!     cargo test --example own_policy

use std::collections::BTreeMap;
use std::process::ExitCode;

use batchlab::policy::padded::lengthen;
use batchlab::policy::registry::{Registry, Settings, Setup};
use batchlab::policy::{Completed, Outcomes, Policy};
use batchlab::task::Dispatch;
use batchlab::task::{Step, Task};
use batchlab::units::RequestId;
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::trace::Request;
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
    const KIND: &'static str = "sjf";
    const ABOUT: &'static str = "the shortest requests first, padded to the longest of their batch";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        if !setup.model.is_sequence() {
            return Err(format!("padding takes sequences only, and the model {} has other graphs", setup.model.name()));
        }
        if self.max_batch == 0 {
            return Err("max_batch: 0 is too small; at least 1".into());
        }
        Ok(Box::new(ShortestFirstPolicy { max_batch: self.max_batch as usize, waiting: BTreeMap::new() }))
    }
}

struct ShortestFirstPolicy {
    max_batch: usize,
    /// By length, and those of one length in the order of arrival.
    waiting: BTreeMap<(u32, RequestId), CellGraph>,
}

impl Policy for ShortestFirstPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.waiting.insert((request.shape.length(), request.id), request.graph.clone());
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        completed.requests.iter().for_each(|request| outcomes.finish(*request));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for worker in dispatch.workers() {
            if !dispatch.is_idle(worker) || self.waiting.is_empty() {
                continue;
            }
            let mut requests = Vec::new();
            let mut steps: Vec<Step> = Vec::new();
            let mut useful_cells = 0;
            while requests.len() < self.max_batch
                && let Some(((_, request), graph)) = self.waiting.pop_first()
            {
                requests.push(request);
                useful_cells += lengthen(&mut steps, &graph);
            }
            dispatch.submit(&Task::whole_requests(worker, &steps, &requests, useful_cells));
        }
    }
}

#[test]
fn shortest_first_keeps_the_laws() {
    use batchlab::conformance::{Guarantees, check};
    check(&ShortestFirst { max_batch: 4 }, &Guarantees { max_batch: 4, ..Guarantees::default() });
}
