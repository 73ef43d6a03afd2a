//! Listed networks and parts of requests: the same bits under every policy, on one thread and on several.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::smallvec;

use super::{serve, toy};
use crate::base::clock;
use crate::base::units::{CellId, NodeId, RequestId, StreamId, TaskId, WorkerId};
use crate::core::backend::{Answer, Backend as _};
use crate::core::policy::registry::Setup;
use crate::core::task::{MemberList, NodeRef, Part, Step, Task};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::model::Unfolder;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::cpu::Cpu;
use crate::devices::cpu::table::StateTable;
use crate::devices::cpu::worker::{CpuWorker, WorkerJob};
use crate::devices::network::{BatchInputs, NetworkCell, Scratch};
use crate::devices::tests::listed_networks::{self, Case, EXAMPLE, costs, listed, network};

#[test]
fn results_are_the_same_in_stages_and_whole_and_node_by_node() {
    listed_networks::results_are_the_same(
        160,
        &|Case {
              network,
              requests,
              policy,
              workers,
              ..
          },
          rng| {
            let model = network.model();
            let costs = costs(network.model());
            let setup = Setup {
                model,
                cells: &model.cell_types(),
                workers: *workers,
                costs: Some(&costs),
                longest: None,
            };
            let (digests, record) = serve(network, &setup, requests, &**policy, rng);
            (
                digests
                    .into_iter()
                    .map(|digest| digest.map(Answer::Digest))
                    .collect(),
                record,
            )
        },
    );
}

#[test]
fn stages_side_by_side_keep_the_laws() {
    listed_networks::stages_keep_the_laws(&|model, requests, workers, run| {
        run(&mut Cpu::new(network(model), requests, workers, 2, None).expect("threads"));
    });
}

#[test]
fn queries_stay_from_operator_to_operator() {
    let model = listed(EXAMPLE);
    let network = network(&model);
    let graph = Unfolder::new(&model)
        .unfold(&Shape::Tokens(5))
        .expect("a graph");
    let table = Arc::new(StateTable::new(
        vec![graph.clone(); 3].into(),
        Arc::clone(&network),
    ));
    let mut worker = CpuWorker::new(
        WorkerId(0),
        Arc::clone(&network),
        Arc::clone(&table),
        Arc::default(),
    );
    let listed = model.network().expect("a network");
    let job = |requests: &[u32], node: u32| {
        let cell = listed.cell_at(NodeId(node)).expect("an operator");
        let nodes = requests
            .iter()
            .map(|id| NodeRef {
                request: RequestId((*id).into()),
                node: NodeId(node),
            })
            .collect();
        let step = Step {
            cell,
            batch: requests.len() as u32,
            times: 1,
            input: 9,
        };
        WorkerJob {
            id: TaskId(0),
            steps: smallvec![step],
            members: MemberList::Nodes(nodes),
        }
    };
    let last = graph.nodes() as u32 - 1;
    for node in 0..=last {
        worker.run(&job(&[1, 0], node));
        let next = job(&[1, 0], (node + 1).min(last));
        worker.settle((node < last).then_some(&next));
        assert_eq!(table.is_fresh(RequestId(0)), node < last, "node {node}");
    }
    // When one of two members leaves, the results of both are put into the table.
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
        assert_eq!(
            table.digest(request),
            Some(network.alone(request, &graph).digest())
        );
    }
}

/// A cell that waits until enough threads run it at the same time, or gives up.
#[derive(Debug)]
struct Meeting {
    there: AtomicUsize,
    expected: usize,
}

impl NetworkCell for Meeting {
    fn run(&self, _: &BatchInputs<'_>, out: &mut [f32], _: &mut Scratch) {
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
    let network = toy::of_cells(vec![Box::new(Meeting {
        there: AtomicUsize::new(0),
        expected,
    })]);
    let graphs = vec![CellGraph::chain(CellId(0), 1); expected];
    let requests = Requests {
        shapes: vec![Shape::Chain(1); expected].into(),
        graphs: graphs.into(),
        classes: None,
    };
    let mut cpu = Cpu::new(network, &requests, 1, expected, None).expect("threads");
    let steps = [Step {
        cell: CellId(0),
        batch: 1,
        times: 1,
        input: 0,
    }];
    for request in (0..expected as u64).map(RequestId) {
        // Streams beyond the number of threads share the threads in turn.
        let stream = StreamId(request.0 as u16 + expected as u16);
        let task = Task {
            stream,
            ..Task::whole_requests(WorkerId(0), &steps, &[], 1)
        };
        let part = Part {
            request,
            from: NodeId(0),
            to: NodeId(1),
        };
        cpu.submit(
            TaskId(request.0),
            &task,
            Some(MemberList::Parts(vec![part])),
        );
    }
    (0..expected).for_each(|_| assert!(cpu.wait(None).is_some()));
    (0..expected as u64).for_each(|request| assert_eq!(cpu.failure(RequestId(request)), None));
}

#[test]
fn a_worker_has_no_more_threads_than_streams_or_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(crate::devices::cpu::lanes(1, 1), 1);
    assert_eq!(
        crate::devices::cpu::lanes(1, u16::MAX),
        cores.min(usize::from(u16::MAX))
    );
    assert_eq!(crate::devices::cpu::lanes(cores + 1, 4), 1);
    assert_eq!(
        crate::devices::cpu::lanes(1, 0),
        1,
        "a policy that says nothing has one stream"
    );
}
