//! A fault makes its own requests fail, with its reason, and no others.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;

use super::super::device::Device as _;
use super::fake::{Fake, Trouble};
use super::staying::{Hand, bench, step};
use super::{MODELS, Service, network, random_policy, requests};
use crate::base::units::{Nanos, NodeId, RequestId, WorkerId};
use crate::core::backend::Backend;
use crate::core::task::{Completion, MemberList, NodeRef};
use crate::core::workload::random;
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;
use crate::devices::tests::policy_mistakes::{self, ByHand};

/// Serves random requests by random policies on a faulty device, and checks the outputs of the requests that did not
/// fail. Returns the reasons of the failures, and the number of requests.
fn in_trouble(
    name: &str,
    cases: u64,
    trouble: impl Fn(u64) -> (Trouble, u32),
) -> (Vec<String>, usize) {
    let mut reasons = Vec::new();
    let mut count = 0;
    for case in 0..cases {
        let mut rng = random::sequence(case, 0, name);
        let network = network(MODELS[case as usize % MODELS.len()], case);
        let requests = requests(network.model(), 30, &mut rng);
        let policy = random_policy(network.model(), &mut rng);
        let mut service = Service::new(&network, &requests, &*policy);
        (service.workers, service.streams, service.astray) =
            (1 + case as usize % 3, 2, case % 2 == 0);
        // The host learns of a worker's death by a query, or earlier by a refused call.
        service.options.task_limit = Some(Nanos(1_000_000_000));
        service.between_calls = Duration::from_micros([0, 30, 200, 1000][rng.random_range(0..4)]);
        let mut device = Fake::new(&network, random::sequence(case, 1, name));
        (device.trouble, device.slots) = trouble(case);
        device.most_steps = [0, 0, 3, 100][rng.random_range(0..4)];
        let (outputs, record) = service.serve(&mut device, &mut rng);
        for (request, output) in outputs.into_iter().enumerate() {
            let failed = record.failures.iter().any(|(id, ..)| id.index() == request);
            assert_eq!(
                output,
                (!failed).then(|| service.alone(request)),
                "request {request} in case {case}"
            );
        }
        reasons.extend(record.failures.into_iter().map(|(_, _, reason)| reason));
        count += requests.len();
    }
    (reasons, count)
}

#[test]
fn a_launch_that_fails_takes_the_requests_of_its_task() {
    let trouble = |case| {
        (
            Trouble {
                launch: Some(1 + case % 7),
                ..Trouble::default()
            },
            1000,
        )
    };
    let (reasons, count) = in_trouble("failing launches", 30, trouble);
    assert!(
        !reasons.is_empty() && reasons.len() < count / 2,
        "{} of {count} failed",
        reasons.len()
    );
    for reason in reasons {
        assert!(
            reason.ends_with(" could not be queued: too many resources"),
            "{reason}"
        );
    }
}

#[test]
fn plans_give_way_where_there_is_no_memory_for_more() {
    // Two plans are enough for everything; without any plan nothing runs.
    let (reasons, _) = in_trouble("little memory", 20, |_| {
        (
            Trouble {
                prepare: Some((1, 2)),
                ..Trouble::default()
            },
            1000,
        )
    });
    assert_eq!(reasons, [""; 0]);
    let (reasons, count) = in_trouble("no memory", 20, |_| {
        (
            Trouble {
                prepare: Some((1, 0)),
                ..Trouble::default()
            },
            1000,
        )
    });
    assert_eq!(reasons.len(), count);
    assert!(
        reasons
            .iter()
            .all(|reason| reason.ends_with(" could not be queued: out of memory"))
    );
}

#[test]
fn a_pool_that_is_full_takes_no_more_requests() {
    let (reasons, count) = in_trouble("full pools", 30, |_| (Trouble::default(), 6));
    assert!(
        !reasons.is_empty() && reasons.len() < count,
        "{} of {count} failed",
        reasons.len()
    );
    for reason in reasons {
        assert!(
            reason.ends_with(" has no room for more than 6 states"),
            "{reason}"
        );
    }
}

#[test]
fn a_nan_makes_its_own_request_fail() {
    let trouble = |case| {
        (
            Trouble {
                not_a_number: Some((RequestId(case % 30), 0)),
                ..Trouble::default()
            },
            1000,
        )
    };
    let (reasons, _) = in_trouble("no numbers", 30, trouble);
    assert_eq!(
        reasons,
        ["non-finite numbers in a state of the request"; 30]
    );
}

#[test]
fn a_worker_that_is_lost_takes_what_it_has_and_no_more() {
    for refuses in [false, true] {
        let trouble = |case| {
            (
                Trouble {
                    dies: Some((WorkerId(0), 20 + case)),
                    refuses,
                    ..Trouble::default()
                },
                1000,
            )
        };
        let (reasons, count) = in_trouble("lost workers", 60, trouble);
        assert!(
            !reasons.is_empty() && reasons.len() < count,
            "{} of {count} failed",
            reasons.len()
        );
        for reason in reasons {
            assert!(reason.contains("it fell off the bus"), "{reason}");
        }
    }
}

#[test]
fn a_task_that_does_not_end_takes_its_worker_and_no_more() {
    let trouble = |case| {
        (
            Trouble {
                dies: Some((WorkerId(0), 20 + case)),
                hangs: true,
                ..Trouble::default()
            },
            1000,
        )
    };
    let (reasons, count) = in_trouble("hanging tasks", 6, trouble);
    assert!(
        !reasons.is_empty() && reasons.len() < count,
        "{} of {count} failed",
        reasons.len()
    );
    for reason in reasons {
        assert!(
            reason.contains("worker 0")
                && reason.contains(" has run for more than 1s, the limit of "),
            "{reason}"
        );
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
    let mut device = Fake::new(network, random::sequence(5, 0, "by hand"));
    let mut hand = Hand::new(&mut device, network, requests, 1, 8);
    for (steps, members) in tasks {
        hand.submit(0, steps, members.clone());
        hand.cuda.wait(None).expect("a task runs");
    }
    let failures = (0..requests.len() as u64)
        .map(|request| hand.cuda.failure(RequestId(request)))
        .collect();
    assert_eq!(
        hand.cuda.failure(RequestId(0)),
        None,
        "a reason is given once"
    );
    assert_eq!(hand.cuda.output(RequestId(0)), None);
    assert_eq!(
        hand.cuda.launcher.states.pools.used_slots(),
        0,
        "all slots have been returned"
    );
    failures
}

#[test]
fn a_task_of_a_lost_worker_fails_at_once_and_finished_requests_stay() {
    let (mut device, network, requests) = bench("lstm", &["chain:1", "chain:2", "chain:1"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 2, 8);
    hand.run(2, &[(0, 0), (1, 0)]);
    hand.cuda.lose(WorkerId(0), "it fell off the bus");
    hand.run(1, &[(2, 0)]);
    let lost = "worker 0 was lost: it fell off the bus";
    assert_eq!(hand.cuda.failure(RequestId(2)).as_deref(), Some(lost));
    // The state of the second request can't be copied to the other worker.
    let node = NodeRef {
        request: RequestId(1),
        node: NodeId(1),
    };
    hand.submit(1, &[step(0, 1, 1)], MemberList::Nodes(vec![node]));
    hand.cuda.wait(None).expect("a task runs");
    let reason = "its state was on worker 0, which is lost: it fell off the bus";
    assert_eq!(hand.cuda.failure(RequestId(1)).as_deref(), Some(reason));
    assert_eq!(
        hand.cuda.output(RequestId(0)),
        Some(network.alone(RequestId(0), &requests.graphs[0]))
    );
    assert_eq!(
        hand.cuda.launcher.states.pools.used_slots(),
        0,
        "all slots have been given back"
    );
}

#[test]
fn tasks_of_a_lost_worker_are_over_in_their_order() {
    for case in 0..50 {
        let (mut device, network, requests) = bench("lstm", &["chain:2", "chain:1"]);
        device.shuffle(random::sequence(case, 0, "order of the lost"));
        let mut hand = Hand::new(&mut device, &network, &requests, 2, 8);
        let node = |request, node| {
            MemberList::Nodes(vec![NodeRef {
                request: RequestId(request),
                node: NodeId(node),
            }])
        };
        hand.submit(1, &[step(0, 1, 1)], node(0, 0));
        // This task copies the state from the other worker, so it still waits for that worker when its own is lost.
        hand.submit(0, &[step(0, 1, 1)], node(0, 1));
        hand.cuda.launcher.device.trouble = Trouble {
            dies: Some((WorkerId(0), 0)),
            ..Trouble::default()
        };
        let fault = hand
            .cuda
            .launcher
            .device
            .health(WorkerId(0))
            .expect_err("it is dead");
        hand.cuda.lose(WorkerId(0), &fault.reason);
        hand.submit(0, &[step(0, 1, 1)], node(1, 0));
        let mut of_worker_0: Vec<Completion> = (0..3)
            .map(|_| hand.cuda.wait(None).expect("all come to their end"))
            .filter(|done| done.task.0 > 0)
            .collect();
        of_worker_0.sort_by_key(|done| done.task);
        let [waited, behind] = &of_worker_0[..] else {
            panic!("two tasks")
        };
        assert!(
            waited.start <= waited.finish && waited.finish <= behind.start,
            "{waited:?} and {behind:?} in case {case}"
        );
    }
}

#[test]
fn a_worker_is_not_blamed_for_its_neighbours_loss() {
    let (mut device, network, requests) = bench("lstm", &["chain:2", "chain:1"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 2, 8);
    let node = |request, node| NodeRef {
        request: RequestId(request),
        node: NodeId(node),
    };
    hand.submit(0, &[step(0, 1, 1)], MemberList::Nodes(vec![node(0, 0)]));
    hand.cuda.launcher.device.trouble = Trouble {
        dies: Some((WorkerId(0), 0)),
        refuses: true,
        ..Trouble::default()
    };
    // The first row can neither wait for the lost worker nor copy the state from it; the second is not affected.
    hand.submit(
        1,
        &[step(0, 2, 1)],
        MemberList::Nodes(vec![node(0, 1), node(1, 0)]),
    );
    for _ in 0..2 {
        hand.cuda.wait(None).expect("both tasks come to their end");
    }
    assert_eq!(
        hand.cuda.failure(RequestId(0)).as_deref(),
        Some("worker 0 was lost: it fell off the bus")
    );
    assert_eq!(hand.cuda.failure(RequestId(1)), None);
    assert_eq!(
        hand.cuda.output(RequestId(1)),
        Some(network.alone(RequestId(1), &requests.graphs[1]))
    );
    assert_eq!(hand.cuda.launcher.states.pools.lost(WorkerId(1)), None);
    assert_eq!(
        hand.cuda.launcher.states.pools.used_slots(),
        0,
        "all slots have been given back"
    );
}

#[test]
fn an_idle_backend_comes_back_in_time() {
    let (mut device, network, requests) = bench("lstm", &["chain:1"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    assert_eq!(hand.cuda.wait(None), None, "nothing runs");
    let until = crate::base::units::Nanos(hand.cuda.now().0 + 300_000);
    assert_eq!(hand.cuda.wait(Some(until)), None);
    assert!(hand.cuda.now() >= until);
    assert_eq!(
        hand.cuda.wait(Some(crate::base::units::Nanos::MAX)),
        None,
        "a user who wants to stop is heard"
    );
}
