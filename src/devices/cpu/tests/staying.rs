//! Rows stay in place while their members do, without access to the table.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use smallvec::smallvec;

use super::toy;
use crate::base::units::{CellId, NodeId, RequestId, TaskId, WorkerId};
use crate::core::task::{MemberList, NodeRef, Step};
use crate::core::workload::cell_graph::{CellGraph, CellRun};
use crate::devices::cpu::table::StateTable;
use crate::devices::cpu::worker::{CpuWorker, WorkerJob};
use crate::devices::network::Network;

/// A worker without a thread.
struct Bench {
    network: Arc<Network>,
    table: Arc<StateTable>,
    worker: CpuWorker,
    graph: CellGraph,
}

impl Bench {
    fn new(requests: usize, graph: CellGraph) -> Bench {
        let network = toy::network();
        let table = Arc::new(StateTable::new(
            vec![graph.clone(); requests].into(),
            Arc::clone(&network),
        ));
        let stop = Arc::new(AtomicBool::new(false));
        let worker = CpuWorker::new(WorkerId(0), Arc::clone(&network), Arc::clone(&table), stop);
        Bench {
            network,
            table,
            worker,
            graph,
        }
    }

    fn run(&mut self, job: &WorkerJob, next: Option<&WorkerJob>) {
        self.worker.run(job);
        self.worker.settle(next);
    }

    fn assert_done(&self, request: u32) {
        let request = RequestId(request.into());
        assert_eq!(self.table.failure(request), None);
        assert_eq!(
            self.table.digest(request),
            Some(toy::alone(&self.network, request, &self.graph))
        );
    }
}

fn job(cell: u16, nodes: &[(u32, u32)]) -> WorkerJob {
    let nodes: Vec<NodeRef> = nodes
        .iter()
        .map(|(request, node)| NodeRef {
            request: RequestId((*request).into()),
            node: NodeId(*node),
        })
        .collect();
    let step = Step {
        cell: CellId(cell),
        batch: nodes.len() as u32,
        times: 1,
        input: 0,
    };
    WorkerJob {
        id: TaskId(0),
        steps: smallvec![step],
        members: MemberList::Nodes(nodes),
    }
}

#[test]
fn rows_stay_while_the_next_job_goes_on_with_them() {
    let mut bench = Bench::new(2, CellGraph::chain(CellId(0), 4));
    let jobs: Vec<WorkerJob> = (0..4).map(|node| job(0, &[(1, node), (0, node)])).collect();
    for node in 0..4 {
        bench.run(&jobs[node], jobs.get(node + 1));
        assert_eq!(bench.table.is_fresh(RequestId(0)), node < 3, "node {node}");
    }
    bench.assert_done(0);
    bench.assert_done(1);
}

#[test]
fn the_log_has_the_steps_of_whole_requests() {
    let mut bench = Bench::new(2, CellGraph::chain(CellId(0), 3));
    let (log, steps) = channel();
    bench.worker.log = Some(log);
    let step = Step {
        cell: CellId(0),
        batch: 2,
        times: 3,
        input: 0,
    };
    let requests = vec![RequestId(0), RequestId(1)];
    bench.run(
        &WorkerJob {
            id: TaskId(7),
            steps: smallvec![step],
            members: MemberList::Requests(requests),
        },
        None,
    );
    bench.assert_done(0);
    let steps: Vec<_> = steps
        .try_iter()
        .map(|step| (step.task, step.cell, step.batch, step.stayed))
        .collect();
    // Both join at the first step and end at the last.
    assert_eq!(
        steps,
        [false, true, false].map(|stayed| (TaskId(7), CellId(0), 2, stayed))
    );
}

#[test]
fn rows_stay_over_an_idle_time() {
    let mut bench = Bench::new(2, CellGraph::chain(CellId(0), 4));
    let both = |node| job(0, &[(0, node), (1, node)]);
    bench.run(&both(0), None);
    // The states are in the table for other workers, but are not read from there.
    assert!(!bench.table.is_fresh(RequestId(0)));
    for request in [0, 1] {
        let at = NodeRef {
            request: RequestId(request),
            node: NodeId(0),
        };
        bench.table.put(at, CellId(0), &[0.0; toy::WIDTH], &[]);
    }
    (1..4).for_each(|node| bench.run(&both(node), None));
    bench.assert_done(0);
    bench.assert_done(1);
}

#[test]
fn the_only_worker_waits_for_the_next_job() {
    let mut bench = Bench::new(3, CellGraph::chain(CellId(0), 4));
    bench.worker.alone = true;
    let two = |node| job(0, &[(0, node), (1, node)]);
    bench.run(&two(0), None);
    assert!(
        bench.table.is_fresh(RequestId(0)),
        "no other worker needs it"
    );
    bench.run(&job(0, &[(2, 0)]), None);
    assert!(
        !bench.table.is_fresh(RequestId(0)),
        "others have taken its place"
    );
    assert!(bench.table.is_fresh(RequestId(2)));
    (1..4).for_each(|node| bench.run(&two(node), None));
    bench.assert_done(0);
    bench.assert_done(1);
}

#[test]
fn rows_stay_while_others_join_leave_or_change_places() {
    let mut bench = Bench::new(3, CellGraph::chain(CellId(0), 4));
    let jobs = [
        job(0, &[(0, 0), (1, 0)]),
        job(0, &[(1, 1), (0, 1)]),
        job(0, &[(1, 2), (0, 2), (2, 0)]),
        job(0, &[(0, 3)]),
        job(0, &[(1, 3), (2, 1)]),
        job(0, &[(2, 2)]),
        job(0, &[(2, 3)]),
    ];
    // The requests whose states are in the table after each job.
    let stored: [&[u64]; 7] = [
        &[],
        &[],
        &[1, 2],
        &[0, 1, 2],
        &[0, 1, 2],
        &[0, 1, 2],
        &[0, 1, 2],
    ];
    for (place, job) in jobs.iter().enumerate() {
        bench.run(job, jobs.get(place + 1));
        let found: Vec<u64> = (0..3)
            .filter(|request| !bench.table.is_fresh(RequestId(*request)))
            .collect();
        assert_eq!(found, stored[place], "after job {place}");
    }
    (0..3).for_each(|request| bench.assert_done(request));
}

#[test]
fn a_batch_leaves_the_table_alone_for_those_that_stay() {
    let mut bench = Bench::new(40, CellGraph::chain(CellId(0), 30));
    // One request joins at each job, at the front, and the one that joined 30 jobs earlier has ended.
    let jobs: Vec<WorkerJob> = (0..69_u32)
        .map(|now| {
            let members: Vec<_> = (0..40)
                .rev()
                .filter(|r| (*r..*r + 30).contains(&now))
                .map(|r| (r, now - r))
                .collect();
            job(0, &members)
        })
        .collect();
    for (now, job) in (0..).zip(&jobs) {
        bench.run(job, jobs.get(now as usize + 1));
        for request in 0..40_u32 {
            let fresh = bench.table.is_fresh(RequestId(request.into()));
            assert_eq!(
                fresh,
                now < request + 29,
                "request {request} after job {now}"
            );
        }
    }
    (0..40).for_each(|request| bench.assert_done(request));
}

#[test]
fn rows_of_one_cell_type_stay_while_another_runs() {
    let run = |cell, length| CellRun {
        cell: CellId(cell),
        length,
        input: 0,
    };
    let mut bench = Bench::new(2, CellGraph::chains([run(1, 2), run(0, 3)]));
    let jobs = [
        job(1, &[(0, 0)]),
        job(1, &[(0, 1)]),
        job(0, &[(0, 2)]),
        job(1, &[(1, 0)]),
        job(0, &[(0, 3)]),
        job(1, &[(1, 1)]),
        job(0, &[(0, 4), (1, 2)]),
        job(0, &[(1, 3)]),
        job(0, &[(1, 4)]),
    ];
    for (place, job) in jobs.iter().enumerate() {
        bench.run(job, jobs.get(place + 1));
    }
    bench.assert_done(0);
    bench.assert_done(1);
}

#[test]
fn the_rows_of_whole_requests_stay_until_each_has_ended() {
    let mut bench = Bench::new(4, CellGraph::chain(CellId(0), 4));
    let requests: Vec<RequestId> = [2, 0, 3, 1].map(RequestId).into();
    let step = |batch, times| Step {
        cell: CellId(0),
        batch,
        times,
        input: 0,
    };
    // The first task has a row for each request and goes on beyond their end; the second has a row of padding.
    for (members, steps) in [
        (&requests[..3], smallvec![step(3, 6)]),
        (&requests[3..], smallvec![step(2, 4)]),
    ] {
        let members = MemberList::Requests(members.to_vec());
        bench.run(
            &WorkerJob {
                id: TaskId(0),
                steps,
                members,
            },
            None,
        );
    }
    (0..4).for_each(|request| bench.assert_done(request));
}
