//! A computation that panics, or results in NaN or infinity, fails with its reason; all others finish.

use std::sync::Arc;

use super::toy::{self, Kind, Mix};
use super::{Cpu, serve};
use crate::base::units::{CellId, RequestId, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::padded::Padded;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::policy::unbatched::Unbatched;
use crate::core::policy::values::PerCell;
use crate::core::record::full::FullRecord;
use crate::core::task::{MemberList, Step, Task};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::{BatchInputs, Network, NetworkCell, Scratch};
use crate::devices::tests::policy_mistakes::{self, ByHand};

/// The failure of rows whose first word is a multiple of 16.
#[derive(Debug)]
enum Trouble {
    Panic,
    NotANumber,
}

#[derive(Debug)]
struct Faulty(Mix, Trouble);

impl NetworkCell for Faulty {
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
        self.0.run(batch, out, scratch);
        for row in 0..batch.rows {
            let word = batch.tokens[batch.tokens_of(row).start];
            match self.1 {
                _ if !word.is_multiple_of(16) => {}
                Trouble::Panic => panic!("the word {word} is too much"),
                Trouble::NotANumber => out[row * toy::WIDTH + 2] = f32::NAN,
            }
            let states = batch.states_of(row);
            if batch.states[states.start * toy::WIDTH..states.end * toy::WIDTH]
                .iter()
                .any(|number| number.is_nan())
            {
                out[row * toy::WIDTH] = f32::NAN;
            }
        }
    }

    fn word(&self, state: &[f32]) -> Option<u32> {
        self.0.word(state)
    }
}

fn policies() -> [Box<dyn Settings>; 3] {
    [
        Box::new(Cellular {
            max_batch: PerCell::All(4),
            ..Cellular::default()
        }),
        Box::new(Padded {
            max_batch: 4,
            ..Padded::default()
        }),
        Box::new(Unbatched {}),
    ]
}

fn serve_chains(
    network: &Arc<Network>,
    requests: &Requests,
    policy: &dyn Settings,
    rng: &mut RandomSequence,
) -> (Vec<Option<u64>>, FullRecord) {
    let model = Kind::Chains.model();
    let cells = Kind::Chains.cells();
    serve(
        network,
        &Setup {
            model: &model,
            cells: &cells,
            workers: 2,
            costs: None,
            longest: None,
        },
        requests,
        policy,
        rng,
    )
}

fn is_trouble(network: &Network, request: RequestId, graph: &CellGraph) -> bool {
    (0..graph.nodes() as u32).any(|node| network.token(request, node).is_multiple_of(16))
}

#[test]
fn nan_and_infinity_fail_only_their_requests() {
    let healthy = toy::network();
    let network = toy::of_cells(vec![Box::new(Faulty(
        Mix {
            salt: 0,
            writes: true,
        },
        Trouble::NotANumber,
    ))]);
    for (case, policy) in (0..).zip(policies()) {
        let mut rng = random::sequence(case, 0, "cpu failures");
        let requests = Kind::Chains.requests(60, &mut rng);
        let (digests, record) = serve_chains(&network, &requests, &*policy, &mut rng);
        for (request, digest) in (0..).map(RequestId).zip(digests) {
            let graph = &requests.graphs[request.index()];
            let failed = record.failures.iter().find(|(id, ..)| *id == request);
            assert_eq!(
                failed.is_some(),
                is_trouble(&network, request, graph),
                "request {request} by {policy:?}"
            );
            match failed {
                None => assert_eq!(digest, Some(toy::alone(&healthy, request, graph))),
                Some((_, _, reason)) => {
                    assert!(
                        reason.starts_with("non-finite numbers in the state after node "),
                        "{reason}"
                    );
                    assert!(reason.ends_with(" (cell toy)"), "{reason}");
                    assert_eq!(digest, None);
                }
            }
        }
    }
}

#[test]
fn a_task_that_breaks_off_takes_its_requests_with_it_and_no_others() {
    let healthy = toy::network();
    let network = toy::of_cells(vec![Box::new(Faulty(
        Mix {
            salt: 0,
            writes: true,
        },
        Trouble::Panic,
    ))]);
    for (case, policy) in (0..).zip(policies()) {
        let mut rng = random::sequence(case, 1, "cpu failures");
        let requests = Kind::Chains.requests(60, &mut rng);
        let (digests, record) = serve_chains(&network, &requests, &*policy, &mut rng);
        assert!(
            record.failures.len() < requests.len(),
            "some are without trouble"
        );
        for (request, digest) in (0..).map(RequestId).zip(digests) {
            let graph = &requests.graphs[request.index()];
            match record.failures.iter().find(|(id, ..)| *id == request) {
                None => assert_eq!(
                    digest,
                    Some(toy::alone(&healthy, request, graph)),
                    "by {policy:?}"
                ),
                Some((_, _, reason)) => {
                    assert!(
                        reason.contains(" broke off in task ") && reason.contains("is too much"),
                        "{reason}"
                    );
                    assert_eq!(digest, None);
                }
            }
        }
    }
}

#[test]
fn a_policy_that_runs_nodes_out_of_order_is_told() {
    policy_mistakes::nodes_out_of_order(&by_hand);
}

#[test]
fn parts_out_of_order_are_told() {
    policy_mistakes::parts_out_of_order(&by_hand);
}

fn by_hand(network: &Arc<Network>, requests: &Requests, tasks: &[ByHand]) -> Vec<Option<String>> {
    let mut cpu = Cpu::new(Arc::clone(network), requests, 1, 2, None).expect("threads");
    for (id, (steps, members)) in (0..).map(TaskId).zip(tasks) {
        cpu.submit(
            id,
            &Task::whole_requests(WorkerId(0), steps, &[], 1),
            Some(members.clone()),
        );
        cpu.wait(None).expect("a task runs");
    }
    let failures = (0..requests.len() as u64)
        .map(|request| cpu.failure(RequestId(request)))
        .collect();
    assert_eq!(cpu.failure(RequestId(0)), None, "a reason is given once");
    assert_eq!(cpu.digest(RequestId(0)), None);
    failures
}

#[test]
fn a_backend_that_is_dropped_leaves_its_tasks_undone() {
    /// A cell that takes so long that its tasks are still running when the backend is dropped.
    #[derive(Debug)]
    struct Slow(Mix);
    impl NetworkCell for Slow {
        fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.0.run(batch, out, scratch);
        }
    }
    let network = toy::of_cells(vec![Box::new(Slow(Mix {
        salt: 0,
        writes: false,
    }))]);
    let graphs = vec![CellGraph::chain(CellId(0), u32::MAX)];
    let requests = Requests {
        shapes: vec![Shape::Chain(u32::MAX)].into(),
        graphs: graphs.into(),
        classes: None,
    };
    let mut cpu = Cpu::new(Arc::clone(&network), &requests, 1, 1, None).expect("a thread");
    let steps = [Step {
        cell: CellId(0),
        batch: 1,
        times: u32::MAX,
        input: 0,
    }];
    let task = Task::whole_requests(WorkerId(0), &steps, &[], 1);
    for id in 0..3 {
        cpu.submit(
            TaskId(id),
            &task,
            Some(MemberList::Requests(vec![RequestId(0)])),
        );
    }
    assert_eq!(cpu.wait(Some(cpu.now())), None, "a month has not passed");
    drop(cpu);
}
