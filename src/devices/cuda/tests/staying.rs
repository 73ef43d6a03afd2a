//! While the members of a batch stay, nothing is gathered again; the number of plans stays within its bound.

use super::fake::Fake;
use super::{Cuda, Options, Service, network};
use crate::base::units::{CellId, NodeId, RequestId, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::values::{BatchSizes, PerCell};
use crate::core::task::{Completion, MemberList, NodeRef, Step, Task};
use crate::core::workload::model::Model;
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;

/// Requests of these shapes on the network of a model.
pub fn bench(
    model: &str,
    shapes: &[&str],
) -> (
    Fake,
    std::sync::Arc<crate::devices::network::Network>,
    Requests,
) {
    let network = network(model, 5);
    let shapes: Vec<Shape> = shapes
        .iter()
        .map(|shape| shape.parse().expect("a shape"))
        .collect();
    let requests = Requests::unfold(shapes.into(), &Model::parse(model).expect("a model"))
        .expect("shapes of the model");
    (
        Fake::new(&network, random::sequence(5, 0, "staying")),
        network,
        requests,
    )
}

/// A backend to which tests submit tasks by hand.
pub struct Hand<'d> {
    pub cuda: Cuda<'d, Fake>,
    next: u64,
}

impl<'d> Hand<'d> {
    pub fn new(
        device: &'d mut Fake,
        network: &std::sync::Arc<crate::devices::network::Network>,
        requests: &Requests,
        workers: usize,
        room: usize,
    ) -> Hand<'d> {
        let keep = (0..requests.len() as u64).map(RequestId).collect();
        let options = Options {
            keep,
            room: Some(room),
            ..Options::default()
        };
        let network = std::sync::Arc::clone(network);
        let cuda =
            Cuda::new(device, network, requests, workers, &options).expect("a device that is well");
        Hand { cuda, next: 0 }
    }

    pub fn submit(&mut self, worker: u16, steps: &[Step], members: MemberList) {
        let task = Task {
            batch: 1,
            ..Task::new(WorkerId(worker), steps, &[], 1)
        };
        self.cuda.submit(TaskId(self.next), &task, Some(members));
        self.next += 1;
    }

    /// Submits nodes, each given as request and node, and waits for them.
    pub fn run(&mut self, batch: u32, nodes: &[(u32, u32)]) -> Completion {
        let node = |(request, node): &(u32, u32)| NodeRef {
            request: RequestId((*request).into()),
            node: NodeId(*node),
        };
        let members = MemberList::Nodes(nodes.iter().map(node).collect());
        self.submit(0, &[step(0, batch, 1)], members);
        self.cuda.wait(None).expect("a task runs")
    }

    /// The number of rows that were gathered.
    pub fn gathered(&self) -> u64 {
        self.cuda.launcher.device.gathered()
    }

    /// The numbers of gathers, and of computed rows.
    pub fn counts(&self) -> (u64, u64) {
        self.cuda.launcher.device.counts()
    }
}

pub fn step(cell: u16, batch: u32, times: u32) -> Step {
    Step {
        cell: CellId(cell),
        batch,
        times,
        input: 0,
    }
}

#[test]
fn rows_that_continue_are_not_gathered_again() {
    let (mut device, network, requests) = bench("lstm", &["chain:6", "chain:4", "chain:6"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    let gathered = |hand: &mut Hand<'_>, batch, nodes: &[(u32, u32)]| {
        let before = hand.gathered();
        hand.run(batch, nodes);
        hand.gathered() - before
    };
    assert_eq!(gathered(&mut hand, 2, &[(0, 0), (1, 0)]), 2);
    assert_eq!(gathered(&mut hand, 2, &[(0, 1), (1, 1)]), 0, "they stay");
    assert_eq!(
        gathered(&mut hand, 2, &[(1, 2), (0, 2)]),
        0,
        "in another order"
    );
    assert_eq!(
        gathered(&mut hand, 3, &[(1, 3), (0, 3), (2, 0)]),
        1,
        "one joins"
    );
    assert_eq!(
        gathered(&mut hand, 2, &[(0, 4), (2, 1)]),
        1,
        "one has left, and the last takes its row"
    );
    assert_eq!(
        gathered(&mut hand, 3, &[(0, 5), (2, 2)]),
        0,
        "the batch is larger, and the rows stay"
    );
    for node in 3..6 {
        let moves = u64::from(node == 3);
        assert_eq!(
            gathered(&mut hand, 1, &[(2, node)]),
            moves,
            "to the first row"
        );
    }
    assert_eq!(
        hand.counts().0,
        1,
        "only the first batch was gathered as a whole"
    );
    for request in 0..3 {
        let alone = network.alone(RequestId(request), &requests.graphs[request as usize]);
        assert_eq!(hand.cuda.output(RequestId(request)), Some(alone));
    }
}

#[test]
fn a_task_that_follows_costs_the_chains_that_join() {
    let chains: Vec<String> = (0..40).map(|at| format!("chain:{}", 3 + at % 7)).collect();
    let shapes: Vec<&str> = chains.iter().map(String::as_str).collect();
    let (mut device, network, requests) = bench("lstm", &shapes);
    let policy = Cellular {
        max_tasks: 1,
        max_batch: PerCell::All(8),
        batch_sizes: BatchSizes(Some(vec![8])),
        ahead: 1,
        ..Cellular::default()
    };
    let service = Service::new(&network, &requests, &policy);
    let (outputs, record) = service.serve(&mut device, &mut random::sequence(1, 0, "following"));
    for (request, output) in outputs.into_iter().enumerate() {
        assert_eq!(output, Some(service.alone(request)), "request {request}");
    }
    assert!(record.execution.tasks.len() > 25);
    assert_eq!(
        device.gathered(),
        40,
        "each request is gathered once, when it joins"
    );
}

#[test]
fn a_request_that_a_list_has_twice_fails() {
    let (mut device, network, requests) = bench("lstm", &["chain:6", "chain:6"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    hand.run(2, &[(0, 0), (1, 0)]);
    hand.run(3, &[(0, 1), (1, 1), (1, 1)]);
    let twice = "the policy ran node 1 twice";
    assert_eq!(hand.cuda.failure(RequestId(1)).as_deref(), Some(twice));
    for node in 2..6 {
        hand.run(1, &[(0, node)]);
    }
    let alone = network.alone(RequestId(0), &requests.graphs[0]);
    assert_eq!(hand.cuda.output(RequestId(0)), Some(alone));
}

#[test]
fn a_request_that_joins_twice_fails_and_takes_no_row() {
    let (mut device, network, requests) = bench("lstm", &["chain:6", "chain:6", "chain:5"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    hand.run(3, &[(0, 0), (0, 0), (1, 0)]);
    assert!(hand.cuda.failure(RequestId(0)).is_some());
    for node in 0..5 {
        hand.run(2, &[(1, node + 1), (2, node)]);
    }
    for request in [1, 2] {
        let alone = network.alone(RequestId(request), &requests.graphs[request as usize]);
        assert_eq!(hand.cuda.output(RequestId(request)), Some(alone));
    }
}

#[test]
fn ended_rows_of_whole_requests_stay_as_padding() {
    let (mut device, network, requests) = bench("lstm", &["chain:2", "chain:5", "chain:3"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    let whole = MemberList::Requests((0..3).map(RequestId).collect());
    hand.submit(0, &[step(0, 3, 6)], whole);
    hand.cuda.wait(None).expect("a task runs");
    assert_eq!(
        hand.counts(),
        (1, 18),
        "three rows, six times, though no request has six nodes"
    );
    for request in 0..3 {
        let alone = network.alone(RequestId(request), &requests.graphs[request as usize]);
        assert_eq!(hand.cuda.output(RequestId(request)), Some(alone));
    }
}

/// The gathers, launched rows and launches of a task of whole requests with these steps. All requests have the results
/// that they have alone.
fn run_whole(model: &str, shapes: &[&str], steps: &[Step]) -> (u64, u64) {
    let (mut device, network, requests) = bench(model, shapes);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 64);
    let all = (0..shapes.len() as u64).map(RequestId);
    hand.submit(0, steps, MemberList::Requests(all.clone().collect()));
    hand.cuda.wait(None).expect("a task runs");
    for request in all {
        let alone = network.alone(request, &requests.graphs[request.index()]);
        assert_eq!(hand.cuda.output(request), Some(alone), "request {request}");
    }
    hand.counts()
}

#[test]
fn a_level_that_shrinks_is_not_gathered() {
    let chains = ["chain:2", "chain:5", "chain:3", "chain:5", "chain:1"];
    let levels = [step(0, 5, 1), step(0, 4, 1), step(0, 3, 1), step(0, 2, 2)];
    for model in ["lstm", "gru"] {
        assert_eq!(run_whole(model, &chains, &levels), (1, 16), "{model}");
    }
    // Sizes that the device supports may be larger than what is left.
    let padded = [step(0, 8, 2), step(0, 4, 1), step(0, 2, 3)];
    assert_eq!(run_whole("lstm", &chains, &padded), (1, 26));
    // Two of three chains run at a time, so others join.
    let (gathers, _) = run_whole("lstm", &chains[..3], &[step(0, 2, 6)]);
    assert!(gathers > 1);
}

#[test]
fn a_level_that_grows_is_gathered() {
    // Decoders join at the second, third and fourth level; from then on they only end.
    let translations = ["seq2seq:1>2", "seq2seq:3>4", "seq2seq:2>3", "seq2seq:3>1"];
    let levels = [
        step(1, 4, 1),
        step(0, 1, 1),
        step(1, 3, 1),
        step(0, 2, 1),
        step(1, 2, 1),
        step(0, 3, 1),
        step(0, 2, 1),
        step(0, 1, 2),
    ];
    assert_eq!(run_whole("seq2seq", &translations, &levels), (4, 19));
}

#[test]
fn encoders_and_decoders_of_whole_requests_keep_their_rows_apart() {
    let (mut device, network, requests) = bench("seq2seq", &["seq2seq:2>4", "seq2seq:3>1"]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    let whole = MemberList::Requests((0..2).map(RequestId).collect());
    hand.submit(0, &[step(1, 2, 3), step(0, 2, 4)], whole);
    hand.cuda.wait(None).expect("a task runs");
    assert_eq!(hand.counts(), (2, 14));
    for request in 0..2 {
        let alone = network.alone(RequestId(request), &requests.graphs[request as usize]);
        assert_eq!(hand.cuda.output(RequestId(request)), Some(alone));
    }
}

#[test]
fn plans_are_held_within_their_bound() {
    let (mut device, network, requests) = bench("lstm", &["chain:40"; 8]);
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 3);
    for node in 0..40 {
        let members: Vec<(u32, u32)> = (0..8).map(|request| (request, node)).collect();
        hand.run(8 + node % 5, &members);
    }
    drop(hand);
    assert_eq!((device.most_plans, device.plans()), (3, 0));
}
