//! Listed networks and parts of requests: the same bits under every policy, on one thread and on several.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt as _;
use smallvec::smallvec;

use super::{serve, toy};
use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::backend::cpu::table::Table;
use crate::backend::cpu::worker::{Job, Worker};
use crate::backend::tests::listed_networks::{EXAMPLE, REPEATED, costs, listed, network};
use crate::clock;
use crate::conformance::{Guarantees, check_backend};
use crate::network::{Batch, Cell, Scratch};
use crate::policy::cellular::Cellular;
use crate::policy::dvabatch::{Diversity, DvaBatch, Lazy, Rule, Stages};
use crate::policy::ideal::Ideal;
use crate::policy::jit::{Granularity, Jit};
use crate::policy::merged::Merged;
use crate::policy::padded::{PadTo, Padded};
use crate::policy::registry::{Settings, Setup};
use crate::policy::unbatched::Unbatched;
use crate::policy::values::PerCell;
use crate::task::{MemberList, NodeRef, Part, Step, Task};
use crate::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::model::{Model, Unfolder};
use crate::workload::random;
use crate::workload::shape::Shape;
use crate::workload::trace::Requests;

fn staged(policy: Diversity, stages: Stages, buffer_pairs: u8) -> Box<DvaBatch> {
    let (window, comp_wait) = (Nanos(20_000), Some(Nanos(200_000)));
    Box::new(DvaBatch {
        policy,
        stages,
        steps: 2,
        max_batch: 4,
        window: Some(window),
        comp_wait,
        buffer_pairs,
        ..DvaBatch::default()
    })
}

#[test]
fn requests_come_to_the_same_bits_in_stages_and_whole_and_node_by_node() {
    for (case, name) in (0..).zip(["example", "repeated", "lstm", "gru"]) {
        let mut rng = random::stream(case, 0, "cpu listed");
        let model = match name {
            "example" => listed(EXAMPLE),
            "repeated" => listed(REPEATED),
            other => Model::parse(other).expect("a model"),
        };
        let shape = |rng: &mut random::Stream| match name {
            "example" => Shape::Tokens(rng.random_range(1..=40)),
            "repeated" => Shape::Fixed,
            _ => Shape::Chain(rng.random_range(1..=9)),
        };
        let shapes: Vec<Shape> = (0..30).map(|_| shape(&mut rng)).collect();
        let requests = Requests::unfold(shapes.into(), &model).expect("shapes of the model");
        let (network, cells, costs) = (network(&model), model.cell_types(), costs(&model));
        let alone: Vec<u64> =
            (0..).zip(requests.graphs.iter()).map(|(id, graph)| network.alone(RequestId(id), graph).digest()).collect();
        for workers in 1..=2 {
            let setup = Setup { model: &model, cells: &cells, workers, costs: Some(&costs) };
            let mut policies: Vec<Box<dyn Settings>> = vec![
                staged(Diversity::Auto, Stages::Count(3), 2),
                staged(Diversity::Input, Stages::Count(2), 1),
                staged(Diversity::Load, Stages::By(Rule::Operators), 3),
                Box::new(Lazy { max_batch: 4, comp_wait: Nanos(300_000) }),
                Box::new(Cellular { max_batch: PerCell::All(4), ..Cellular::default() }),
                Box::new(Merged { max_batch: 4, ..Merged::default() }),
                Box::new(Ideal { max_batch: 4 }),
                Box::new(Unbatched {}),
                Box::new(Jit { max_batch: 4, ..Jit::default() }),
                Box::new(Jit { granularity: Granularity::Graph, max_batch: 4, ..Jit::default() }),
                Box::new(Padded { max_batch: 4, bucket_width: 16, pad_to: PadTo::Bucket, ..Padded::default() }),
                Box::new(Padded { max_batch: 4, pad_to: PadTo::Longest, ..Padded::default() }),
            ];
            if model.network().is_some() {
                policies.push(staged(Diversity::OperatorLoad, Stages::Count(3), 2));
            }
            for policy in policies {
                let (digests, record) = serve(&network, &setup, &requests, &*policy, &mut rng);
                assert_eq!(record.failures, [], "{name} by {policy:?}");
                let wrong = alone.iter().zip(&digests).position(|(alone, found)| *found != Some(*alone));
                assert_eq!(wrong, None, "{name} by {policy:?} on {workers} workers");
            }
        }
    }
}

#[test]
fn stages_side_by_side_keep_the_laws() {
    let policies: [Box<dyn Settings>; 5] = [
        staged(Diversity::Auto, Stages::Count(3), 2),
        staged(Diversity::Load, Stages::By(Rule::Operators), 1),
        Box::new(Lazy { max_batch: 4, comp_wait: Nanos(3_000) }),
        Box::new(Padded { bucket_width: 4, max_batch: 4, ..Padded::default() }),
        Box::new(Cellular { max_tasks: 3, max_batch: PerCell::All(4), ..Cellular::default() }),
    ];
    for policy in policies {
        let pins = policy.describe().name == "cellular";
        let promises = Guarantees { max_batch: 4, work_conserving: false, pins, cases: 60, ..Guarantees::default() };
        check_backend(&*policy, &promises, |model, requests, workers, run| {
            // The others have tests of their own, and no stages.
            if !matches!(model, Model::Network(_) | Model::Lstm) {
                return;
            }
            run(&mut Cpu::new(network(model), requests, workers, 2, None).expect("threads"));
        });
    }
}

#[test]
fn queries_stay_from_operator_to_operator() {
    let model = listed(EXAMPLE);
    let network = network(&model);
    let graph = Unfolder::new(&model).unfold(&Shape::Tokens(5)).expect("a graph");
    let table = Arc::new(Table::new(vec![graph.clone(); 3].into(), Arc::clone(&network)));
    let mut worker = Worker::new(WorkerId(0), Arc::clone(&network), Arc::clone(&table), Arc::default());
    let listed = model.network().expect("a network");
    let job = |requests: &[u32], node: u32| {
        let cell = listed.cell_at(NodeId(node)).expect("an operator");
        let nodes = requests.iter().map(|id| NodeRef { request: RequestId(*id), node: NodeId(node) }).collect();
        let step = Step { cell, batch: requests.len() as u32, times: 1, input: 9 };
        Job { id: TaskId(0), steps: smallvec![step], members: MemberList::Nodes(nodes) }
    };
    let last = graph.nodes() as u32 - 1;
    for node in 0..=last {
        worker.run(&job(&[1, 0], node));
        let next = job(&[1, 0], (node + 1).min(last));
        worker.settle((node < last).then_some(&next));
        assert_eq!(table.is_fresh(RequestId(0)), node < last, "node {node}");
    }
    // The first member's replacement puts the results of both into the table.
    let jobs = [job(&[2], 0), job(&[2], 1)];
    worker.run(&jobs[0]);
    worker.settle(Some(&job(&[2, 0], 1)));
    assert!(!table.is_fresh(RequestId(2)));
    for node in 1..=last {
        worker.run(&job(&[2], node));
    }
    worker.settle(None);
    for request in (0..3).map(RequestId) {
        assert_eq!(table.failure(request), None);
        assert_eq!(table.digest(request), Some(network.alone(request, &graph).digest()));
    }
}

/// Waits until enough run at the same time, or gives up.
#[derive(Debug)]
struct Meeting {
    there: AtomicUsize,
    expected: usize,
}

impl Cell for Meeting {
    fn run(&self, _: &Batch<'_>, out: &mut [f32], _: &mut Scratch) {
        self.there.fetch_add(1, Ordering::SeqCst);
        let given_up = clock::now() + Duration::from_secs(20);
        while self.there.load(Ordering::SeqCst) < self.expected {
            assert!(clock::now() < given_up, "the others never came");
            std::thread::yield_now();
        }
        out.fill(1.0);
    }
}

#[test]
fn streams_of_a_worker_run_side_by_side() {
    let expected = 3;
    let network = toy::of_cells(vec![Box::new(Meeting { there: AtomicUsize::new(0), expected })]);
    let graphs = vec![CellGraph::chain(CellId(0), 1); expected];
    let requests = Requests { shapes: vec![Shape::Chain(1); expected].into(), graphs: graphs.into() };
    let mut cpu = Cpu::new(network, &requests, 1, expected, None).expect("threads");
    let steps = [Step { cell: CellId(0), batch: 1, times: 1, input: 0 }];
    for request in (0..expected as u32).map(RequestId) {
        // Streams beyond the threads share them in turn.
        let stream = StreamId(request.0 as u16 + expected as u16);
        let task = Task { stream, ..Task::whole_requests(WorkerId(0), &steps, &[], 1) };
        let part = Part { request, from: NodeId(0), to: NodeId(1) };
        cpu.submit(TaskId(request.0.into()), &task, Some(MemberList::Parts(vec![part])));
    }
    (0..expected).for_each(|_| assert!(cpu.wait(None).is_some()));
    (0..expected as u32).for_each(|request| assert_eq!(cpu.failure(RequestId(request)), None));
}

#[test]
fn a_worker_has_no_more_threads_than_streams_or_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(crate::backend::cpu::lanes(1, 1), 1);
    assert_eq!(crate::backend::cpu::lanes(1, u16::MAX), cores.min(usize::from(u16::MAX)));
    assert_eq!(crate::backend::cpu::lanes(cores + 1, 4), 1);
    assert_eq!(crate::backend::cpu::lanes(1, 0), 1, "a policy that says nothing has one stream");
}
