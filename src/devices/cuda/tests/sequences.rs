//! Tasks of several steps on a device with persistent kernels. The other files use such devices too, and check the
//! results.

use super::fake::Fake;
use super::staying::{Hand, bench, step};
use super::{Service, network, requests};
use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::backend::Backend;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::values::PerCell;
use crate::core::task::{MemberList, NodeRef, Part, Step};
use crate::core::workload::random;

fn whole(requests: u64) -> MemberList {
    MemberList::Requests((0..requests).map(RequestId).collect())
}

/// Parts, each given as request and nodes.
fn parts(list: &[(u32, u32, u32)]) -> MemberList {
    let part = |&(request, from, to): &(u32, u32, u32)| Part {
        request: RequestId(request.into()),
        from: NodeId(from),
        to: NodeId(to),
    };
    MemberList::Parts(list.iter().map(part).collect())
}

/// Runs tasks in sequence on chains of these lengths, and checks that all requests have the results that they have
/// alone. Returns the rows and steps of each plan in order, with the numbers of gathers and of computed rows.
fn run(
    lengths: &[&str],
    most_steps: u32,
    tasks: &[(&[Step], MemberList)],
) -> (Vec<[u32; 2]>, (u64, u64)) {
    let (mut device, network, requests) = bench("lstm", lengths);
    device.most_steps = most_steps;
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 64);
    for (steps, members) in tasks {
        hand.submit(0, steps, members.clone());
        hand.cuda.wait(None).expect("a task runs");
    }
    for request in (0..lengths.len() as u64).map(RequestId) {
        let alone = network.alone(request, &requests.graphs[request.index()]);
        assert_eq!(hand.cuda.output(request), Some(alone), "request {request}");
    }
    let plans = hand
        .cuda
        .launcher
        .device
        .shapes()
        .map(|shape| [shape.rows, shape.steps])
        .collect();
    (plans, hand.counts())
}

#[test]
fn a_step_of_whole_requests_is_one_launch() {
    let chains = ["chain:2", "chain:5", "chain:3"];
    let padded: &[Step] = &[step(0, 4, 6)];
    assert_eq!(
        run(&chains, 100, &[(padded, whole(3))]),
        (vec![[4, 6]], (1, 24)),
        "padding included"
    );
    let merged: &[Step] = &[step(0, 3, 2), step(0, 2, 1), step(0, 1, 2)];
    assert_eq!(
        run(&chains, 100, &[(merged, whole(3))]),
        (vec![[3, 2], [2, 1], [1, 2]], (3, 10))
    );
}

#[test]
fn many_steps_are_several_launches() {
    let steps: &[Step] = &[step(0, 2, 10)];
    let (plans, counts) = run(&["chain:10", "chain:3"], 4, &[(steps, whole(2))]);
    assert_eq!(
        (plans, counts),
        (vec![[2, 4], [2, 2]], (3, 20)),
        "4, 4 and 2 steps"
    );
}

#[test]
fn requests_join_and_leave_between_chunks_and_single_steps() {
    let (three, one): (&[Step], &[Step]) = (&[step(0, 2, 3)], &[step(0, 2, 1)]);
    let nodes = |list: &[(u32, u32)]| {
        let node = |(request, node): &(u32, u32)| NodeRef {
            request: RequestId((*request).into()),
            node: NodeId(*node),
        };
        MemberList::Nodes(list.iter().map(node).collect())
    };
    let tasks = [
        (three, parts(&[(0, 0, 3), (1, 0, 2)])),
        (three, parts(&[(0, 3, 6), (2, 0, 3)])),
        (one, nodes(&[(0, 6), (2, 3)])),
        (one, nodes(&[(0, 7), (2, 4)])),
        (three, parts(&[(2, 5, 8), (0, 8, 9)])),
    ];
    let (plans, counts) = run(&["chain:9", "chain:2", "chain:8"], 100, &tasks);
    assert_eq!(
        plans,
        [[2, 3], [2, 0]],
        "single steps run in the cell's own kernels"
    );
    assert_eq!(
        counts,
        (4, 6 + 6 + 2 + 2 + 6),
        "the second single step goes on from the first"
    );
}

#[test]
fn steps_that_do_not_hold_all_requests_run_one_by_one() {
    // Two of three chains run at a time.
    let steps: &[Step] = &[step(0, 2, 7)];
    let (plans, _) = run(
        &["chain:5", "chain:2", "chain:3"],
        100,
        &[(steps, whole(3))],
    );
    assert_eq!(plans, [[2, 0]]);
}

#[test]
fn a_part_that_goes_beyond_its_request_is_a_mistake_of_the_policy() {
    let (mut device, network, requests) = bench("lstm", &["chain:3"]);
    device.most_steps = 100;
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    hand.submit(0, &[step(0, 1, 4)], parts(&[(0, 0, 4)]));
    hand.cuda.wait(None).expect("a task ends");
    let said = "the policy's task lists nodes, but its steps are not one batch that holds them";
    assert_eq!(hand.cuda.failure(RequestId(0)).as_deref(), Some(said));
}

#[test]
fn kernels_are_ready_before_the_clock_starts() {
    let network = network("gru", 1);
    let mut rng = random::sequence(1, 0, "cuda sequences");
    let mut device = Fake::new(&network, random::sequence(1, 0, "cuda sequences device"));
    device.most_steps = 7;
    let requests = requests(network.model(), 30, &mut rng);
    let policy = Cellular {
        max_batch: PerCell::All(8),
        chunk: 3,
        ..Cellular::default()
    };
    let mut service = Service::new(&network, &requests, &policy);
    (
        service.options.materialise,
        service.options.several_launches,
    ) = (vec![(CellId(0), 8)], true);
    let (outputs, _) = service.serve(&mut device, &mut rng);
    for (request, output) in outputs.into_iter().enumerate() {
        assert_eq!(output, Some(service.alone(request)));
    }
    let ready: Vec<[u32; 2]> = device
        .shapes()
        .map(|shape| [shape.rows, shape.steps])
        .collect();
    let expected: Vec<[u32; 2]> = (1..=8).rev().map(|rows| [rows, 7]).collect();
    assert_eq!(
        ready, expected,
        "of all batches, for as many steps as a launch has"
    );
}

#[test]
fn without_persistent_kernels_steps_run_in_the_cells_own() {
    // This device's registers do not hold the weights.
    let chains = ["chain:5", "chain:2", "chain:3"];
    let padded: &[Step] = &[step(0, 3, 6)];
    assert_eq!(
        run(&chains, 0, &[(padded, whole(3))]),
        (vec![[3, 0]], (1, 18)),
        "one after the other"
    );
    let three: &[Step] = &[step(0, 3, 3)];
    let two: &[Step] = &[step(0, 1, 2)];
    let chunks = [
        (three, parts(&[(0, 0, 3), (1, 0, 2), (2, 0, 3)])),
        (two, parts(&[(0, 3, 5)])),
    ];
    let (plans, _) = run(&chains, 0, &chunks);
    assert_eq!(plans, [[3, 0], [1, 0]]);
}
