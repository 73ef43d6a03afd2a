//! Admission control around any policy. It rejects arrivals while too many requests are in the system.

use super::{Completed, Outcomes, Policy};
use crate::base::units::{Nanos, WorkerId};
use crate::core::task::{Dispatch, NextDecode};
use crate::core::workload::trace::Request;

/// A policy with a bound on the requests in the system.
pub struct Admission {
    policy: Box<dyn Policy>,
    bound: u32,
    /// The number of requests in the system.
    inside: u32,
}

impl Admission {
    pub fn new(policy: Box<dyn Policy>, bound: u32) -> Self {
        Admission {
            policy,
            bound,
            inside: 0,
        }
    }

    /// Lets the policy work, and counts the requests that leave.
    fn count_leaving(
        &mut self,
        outcomes: &mut Outcomes,
        work: impl FnOnce(&mut dyn Policy, &mut Outcomes),
    ) {
        let before = outcomes.finished.len() + outcomes.rejected.requests.len();
        work(&mut *self.policy, outcomes);
        let after = outcomes.finished.len() + outcomes.rejected.requests.len();
        self.inside -= (after - before) as u32;
    }
}

impl Policy for Admission {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        if self.inside == self.bound {
            outcomes.reject(request.id);
            return;
        }
        self.inside += 1;
        self.count_leaving(outcomes, |policy, outcomes| {
            policy.arrive(request, outcomes)
        });
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.count_leaving(outcomes, |policy, outcomes| {
            policy.complete(completed, outcomes)
        });
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.policy.schedule(dispatch);
        self.inside -= dispatch.rejections();
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.policy.wake_at()
    }

    fn works_ahead(&self) -> bool {
        self.policy.works_ahead()
    }

    fn repeat(&mut self, worker: WorkerId) -> Option<NextDecode> {
        self.policy.repeat(worker)
    }

    fn decides_when_idle(&self) -> bool {
        self.policy.decides_when_idle()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::base::units::{RequestId, WorkerId};
    use crate::core::cost::table::{CostTable, Overhead};
    use crate::core::engine;
    use crate::core::policy::padded::Padded;
    use crate::core::policy::registry::{Settings, Setup};
    use crate::core::policy::unbatched::Unbatched;
    use crate::core::policy::whole::PaddedBatch;
    use crate::core::record::RecordOptions;
    use crate::core::record::full::FullRecord;
    use crate::core::sim::Sim;
    use crate::core::summary::laws;
    use crate::core::workload::arrivals::OpenLoop;
    use crate::core::workload::cell_graph::CellGraph;
    use crate::core::workload::class::{Class, Classes};
    use crate::core::workload::model::Model;
    use crate::core::workload::shape::Shape;
    use crate::core::workload::trace::Requests;

    /// Runs requests of one step of 10 ns on one worker.
    fn run(policy: &dyn Settings, bound: u32, arrivals: &[u64]) -> FullRecord {
        let requests =
            Requests::unfold(vec![Shape::Chain(1); arrivals.len()].into(), &Model::Lstm).unwrap();
        let arrivals: Vec<Nanos> = arrivals.iter().copied().map(Nanos).collect();
        let cells = Model::Lstm.cell_types();
        let setup = Setup {
            model: &Model::Lstm,
            cells: &cells,
            workers: 1,
            costs: None,
            longest: None,
        };
        let mut policy = Admission::new(policy.build(&setup).unwrap(), bound);
        let costs = CostTable::parse("cell,batch,ns\nlstm,1,10\nlstm,2,10\n", "costs").unwrap();
        let mut backend = Sim::new(1, costs.costs_for(&cells, Overhead::default()).unwrap());
        let mut record = FullRecord::new(requests.len(), 1, cells.len(), RecordOptions::default());
        let mut source = OpenLoop::new(&requests, &arrivals);
        engine::run(
            &mut source,
            &mut policy,
            &mut backend,
            &mut record,
            1,
            &AtomicBool::new(false),
        )
        .unwrap();
        assert_eq!(laws::littles_law(&record), Ok(()));
        record
    }

    fn rejections(record: &FullRecord) -> Vec<(u64, u64)> {
        record
            .rejections
            .iter()
            .map(|(RequestId(id), at)| (*id, at.0))
            .collect()
    }

    #[test]
    fn requests_beyond_the_bound_are_rejected_until_others_leave() {
        // At 10 a place is free before request 4 arrives.
        let record = run(&Unbatched {}, 2, &[0, 1, 2, 9, 10, 10]);
        assert_eq!(rejections(&record), [(2, 2), (3, 9), (5, 10)]);
        assert_eq!(record.rejections.len(), 3);
        let finish: Vec<u64> = record.finish.iter().map(|at| at.0).collect();
        assert_eq!(finish, [10, 20, u64::MAX, u64::MAX, 30, u64::MAX]);
    }

    /// A policy that serves one request at a time and drops those that come late, but serves `served` after all.
    struct Dropping {
        waiting: Vec<(RequestId, Nanos, CellGraph)>,
        served: Option<RequestId>,
    }

    impl Policy for Dropping {
        fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
            let deadline = request.deadline.expect("its class has one");
            assert_eq!(
                deadline,
                request.arrival + request.class.unwrap().deadline.unwrap()
            );
            self.waiting
                .push((request.id, deadline, request.graph.clone()));
        }

        fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
            let now = dispatch.now();
            self.waiting
                .iter()
                .filter(|(_, deadline, _)| *deadline <= now)
                .for_each(|(id, ..)| dispatch.reject(*id));
            self.waiting
                .retain(|(id, deadline, _)| *deadline > now || self.served == Some(*id));
            if dispatch.is_idle(WorkerId(0)) && !self.waiting.is_empty() {
                let (id, _, graph) = self.waiting.remove(0);
                let mut batch = PaddedBatch::default();
                batch.add(id, &graph);
                dispatch.submit(&batch.task(WorkerId(0)));
            }
        }
    }

    /// Runs three requests of 10 ns that arrive at 0, and one at 30, with a bound of two in the system.
    fn dropping(served: Option<RequestId>) -> FullRecord {
        let requests = Requests::unfold(vec![Shape::Chain(1); 4].into(), &Model::Lstm).unwrap();
        let class = Class {
            deadline: Some(Nanos(10)),
            ..Class::new("a".into())
        };
        let classes = Some(Arc::new(Classes {
            all: vec![class],
            of: vec![0; 4],
        }));
        let requests = Requests {
            classes,
            ..requests
        };
        let costs = CostTable::parse("cell,batch,ns\nlstm,1,10\n", "costs").unwrap();
        let cells = Model::Lstm.cell_types();
        let mut policy = Admission::new(
            Box::new(Dropping {
                waiting: Vec::new(),
                served,
            }),
            2,
        );
        let mut backend = Sim::new(1, costs.costs_for(&cells, Overhead::default()).unwrap());
        let mut record = FullRecord::new(requests.len(), 1, cells.len(), RecordOptions::default());
        record.describe_requests(&requests);
        let arrivals = [0, 0, 0, 30].map(Nanos);
        let mut source = OpenLoop::new(&requests, &arrivals);
        engine::run(
            &mut source,
            &mut policy,
            &mut backend,
            &mut record,
            1,
            &AtomicBool::new(false),
        )
        .unwrap();
        record
    }

    #[test]
    fn a_policy_rejects_when_it_forms_a_batch() {
        let record = dropping(None);
        assert_eq!(laws::littles_law(&record), Ok(()));
        assert_eq!(rejections(&record), [(2, 0), (1, 10)]);
        use crate::core::record::Outcome::{Expired, Rejected, Served};
        let departures = record.departures();
        let outcomes = [0, 1, 2, 3].map(|id| departures.get(id).1);
        assert_eq!(outcomes, [Served, Expired, Rejected, Served]);
    }

    #[test]
    #[should_panic(expected = "request 1 was submitted after it had been rejected")]
    fn a_rejected_request_is_never_served() {
        dropping(Some(RequestId(1)));
    }

    #[test]
    fn a_bound_that_is_never_reached_changes_nothing() {
        let arrivals: Vec<u64> = (0..50).map(|i| i * 7).collect();
        let (one, other) = (
            run(&Unbatched {}, 50, &arrivals),
            run(&Unbatched {}, u32::MAX, &arrivals),
        );
        assert_eq!((&one.finish, one.rejections.len()), (&other.finish, 0));
    }

    #[test]
    fn a_policy_that_waits_for_more_is_still_woken() {
        // Only two of the awaited four are admitted; the window ends the wait.
        let padded = Padded {
            max_batch: 4,
            window: Nanos(100),
            ..Padded::default()
        };
        let record = run(&padded, 2, &[0, 1, 2]);
        assert_eq!(
            record.finish[..2],
            [Nanos(200), Nanos(200)],
            "ten steps of ten, from 100 on"
        );
        assert_eq!(rejections(&record), [(2, 2)]);
    }
}
