//! Nanoseconds that the host spends on a task of the CUDA backend, on a device that does nothing: from the submission to
//! the completion. What the driver's calls take comes on top.

#![expect(clippy::disallowed_methods, reason = "measures the host")]

#[path = "common/idle.rs"]
mod idle;

use std::sync::Arc;
use std::time::{Duration, Instant};

use batchlab::backend::Backend;
use batchlab::cuda::{Cuda, Options};
use batchlab::network::{Network, Spec};
use batchlab::task::{ExtraTime, MemberList, Members, NodeRef, Step, Task};
use batchlab::units::{CellId, NodeId, RequestId, StreamId, TaskId, WorkerId};
use batchlab::workload::model::Model;
use batchlab::workload::shape::Shape;
use batchlab::workload::trace::Requests;
use criterion::{Criterion, criterion_group, criterion_main};
use idle::Idle;

/// The nodes of each request; as many tasks are measured before the requests are used up.
const LENGTH: u32 = 1000;

fn submit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("submit");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(2));
    let spec = Spec {
        hidden: 4,
        embedding: 4,
        vocabulary: 4,
        seed: 1,
        weights: None,
    };
    let network = Arc::new(Network::new(&Model::Lstm, &spec).expect("weights from the seed"));
    for batch in [64, 512] {
        let shapes = vec![Shape::Chain(LENGTH); batch as usize];
        let requests =
            Requests::unfold(shapes.into(), &Model::Lstm).expect("chains are the model's own");
        for (name, exchange) in [("rows that stay", 0), ("rows that are gathered", 1)] {
            group.bench_function(format!("{name}, {batch}"), |b| {
                b.iter_custom(|tasks| {
                    let mut time = Duration::ZERO;
                    for run in 0..tasks.div_ceil(u64::from(LENGTH)) {
                        let left = tasks - run * u64::from(LENGTH);
                        time += serve(
                            &network,
                            &requests,
                            left.min(u64::from(LENGTH)) as u32,
                            exchange,
                        );
                    }
                    time
                });
            });
        }
    }
    group.finish();
}

/// Runs this many tasks of all requests; from task to task the members move up by `exchange` places.
fn serve(network: &Arc<Network>, requests: &Requests, tasks: u32, exchange: u32) -> Duration {
    let mut device = Idle::default();
    let batch = requests.len() as u32;
    let options = Options {
        materialise: vec![(CellId(0), batch)],
        ..Options::default()
    };
    let mut cuda = Cuda::new(&mut device, Arc::clone(network), requests, 1, &options)
        .expect("a device that is well");
    let steps = [Step {
        cell: CellId(0),
        batch,
        times: 1,
        input: 0,
    }];
    let mut nodes = Vec::with_capacity(requests.len());
    let mut time = Duration::ZERO;
    for node in 0..tasks {
        if let Some(MemberList::Nodes(spare)) = cuda.spare() {
            nodes = spare;
        }
        nodes.clear();
        let place = |place: u32| (place + node * exchange) % batch;
        nodes.extend((0..batch).map(|at| NodeRef {
            request: RequestId(place(at).into()),
            node: NodeId(node),
        }));
        let task = Task {
            worker: WorkerId(0),
            stream: StreamId(0),
            steps: &steps,
            batch,
            useful_cells: u64::from(batch),
            gather: false,
            extra: ExtraTime::default(),
            requests: &[],
            members: Members::Requests,
            iteration: None,
        };
        let members = MemberList::Nodes(std::mem::take(&mut nodes));
        let clock = Instant::now();
        cuda.submit(TaskId(u64::from(node)), &task, Some(members));
        cuda.wait(None).expect("the task is done at once");
        time += clock.elapsed();
    }
    time
}

criterion_group!(all, submit);
criterion_main!(all);
