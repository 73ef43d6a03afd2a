//! No batching: one request at a time, first come first served.

use super::prelude::*;
use super::whole::{first_come, graph, one_by_one};

/// `kind = "unbatched"`, formerly `"immediate"`; no keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Unbatched {}

impl Settings for Unbatched {
    fn describe(&self) -> PolicyKind {
        let about =
            "no batching: one request at a time, one cell after another, first come first served";
        PolicyKind {
            alias: Some("immediate"),
            ..PolicyKind::new("unbatched", about)
        }
    }

    fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        first_come(1, graph, |taken, graphs, dispatch| {
            for graph in graphs {
                let steps = one_by_one(&graph, 1);
                let task = Task::without_padding(taken.worker, &steps, taken.requests);
                dispatch.submit_because(&task, || taken.reason());
            }
        })
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(1))
    }
}
