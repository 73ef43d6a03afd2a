//! Requests that runs share, so that they are drawn once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use serde_json::json;

use crate::base::error::Result;
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::trace::Requests;
use crate::lab::scenario::Scenario;

/// The weight of the requests that stay in memory for runs that start later. Of heavier replications only the last one
/// stays.
const KEPT: usize = 1_000_000;

const UNBROKEN: &str = "drawing requests does not panic";

/// The requests of one workload: the scenario's seed, workload and classes, and the part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestsKey {
    pub workload: Arc<str>,
    pub replication: u32,
    /// The number of requests.
    pub count: u32,
}

impl RequestsKey {
    pub fn new(scenario: &Scenario) -> RequestsKey {
        let workload = json!([scenario.seed, scenario.workload, scenario.classes]);
        RequestsKey {
            workload: workload.to_string().into(),
            replication: 0,
            count: 0,
        }
    }
}

/// The requests of the runs of a sweep.
#[derive(Debug, Default)]
pub struct SharedRequests {
    drawn: Mutex<HashMap<RequestsKey, Arc<Mutex<Weak<Requests>>>>>,
    /// The requests that were drawn last.
    kept: Mutex<VecDeque<KeptRequests>>,
}

#[derive(Debug)]
struct KeptRequests {
    #[expect(dead_code, reason = "it keeps the requests in memory")]
    requests: Arc<Requests>,
    weight: usize,
}

impl SharedRequests {
    /// The requests of a key, which are drawn if they are not in memory.
    pub(super) fn find_or_draw(
        &self,
        key: RequestsKey,
        draw: impl FnOnce() -> Result<Requests>,
    ) -> Result<Arc<Requests>> {
        let count = key.count as usize;
        let place = Arc::clone(self.drawn.lock().expect(UNBROKEN).entry(key).or_default());
        // The lock is held while drawing, so that runs which start together draw only once.
        let mut place = place.lock().expect(UNBROKEN);
        if let Some(requests) = place.upgrade() {
            return Ok(requests);
        }
        // A request weighs at least 1.
        drop(self.make_room(count));
        let requests = Arc::new(draw()?);
        *place = Arc::downgrade(&requests);
        let weight = weigh(&requests);
        let mut kept = self.make_room(weight);
        kept.push_back(KeptRequests {
            requests: Arc::clone(&requests),
            weight,
        });
        Ok(requests)
    }

    /// Forgets the oldest requests until requests of this weight fit among those that are kept.
    fn make_room(&self, weight: usize) -> MutexGuard<'_, VecDeque<KeptRequests>> {
        let mut kept = self.kept.lock().expect(UNBROKEN);
        let mut sum: usize = kept.iter().map(|kept| kept.weight).sum();
        while sum + weight > KEPT
            && let Some(oldest) = kept.pop_front()
        {
            sum -= oldest.weight;
        }
        kept
    }
}

/// A measure of the memory of requests: 1 for each, and the nodes of each graph that is stored and no chain.
fn weigh(requests: &Requests) -> usize {
    let nodes = requests.graphs.values().iter().map(|graph| match graph {
        CellGraph::Chains(_) => 0,
        CellGraph::Graph(graph) => graph.len(),
    });
    requests.graphs.len() + nodes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;
    use crate::core::workload::shape::Shape;

    fn key(replication: u32, count: u32) -> RequestsKey {
        RequestsKey {
            workload: "chains".into(),
            replication,
            count,
        }
    }

    #[test]
    fn requests_are_drawn_once_as_long_as_they_are_few() {
        let shared = SharedRequests::default();
        let find = |key: RequestsKey| {
            let mut is_drawn = false;
            let count = key.count as usize;
            let requests = shared.find_or_draw(key, || {
                is_drawn = true;
                let shapes = vec![Shape::Chain(1); count];
                Ok(Requests::unfold(shapes.into(), &Model::Lstm).unwrap())
            });
            (is_drawn, requests.unwrap())
        };
        let is_drawn = |replication, count| find(key(replication, count)).0;
        assert!(is_drawn(0, 600_000) && is_drawn(1, 400_000));
        assert!(!is_drawn(0, 600_000) && !is_drawn(1, 400_000));
        assert!(
            is_drawn(2, 1) && is_drawn(0, 600_000),
            "the oldest has left"
        );
        let (_, long) = find(key(3, 1_500_000));
        assert!(!is_drawn(3, 1_500_000), "the last one stays, however long");
        assert!(is_drawn(4, 1) && !is_drawn(3, 1_500_000), "a run holds it");
        drop(long);
        assert!(is_drawn(3, 1_500_000));
    }
}
