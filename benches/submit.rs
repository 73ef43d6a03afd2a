//! Nanoseconds that the host spends on a task of the CUDA backend, on a device that does nothing: from the submission of
//! a list of nodes to the completion, and of all that the host does while cellular batching serves sentences. What the
//! driver's calls take comes on top.

#![expect(clippy::disallowed_methods, reason = "measures the host")]

#[path = "common/idle.rs"]
mod idle;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use batchlab::backend::Backend;
use batchlab::cuda::{Cuda, Options};
use batchlab::engine;
use batchlab::network::{Network, Spec};
use batchlab::policy::cellular::Cellular;
use batchlab::policy::merged::Merged;
use batchlab::policy::registry::{Settings, Setup};
use batchlab::policy::values::PerCell;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::task::{Completion, MemberList, NodeRef, Step, Task};
use batchlab::units::{CellId, Nanos, NodeId, RequestId, TaskId, WorkerId};
use batchlab::workload::arrivals::OpenLoop;
use batchlab::workload::dataset::Dataset;
use batchlab::workload::model::Model;
use batchlab::workload::random;
use batchlab::workload::shape::Shape;
use batchlab::workload::trace::Requests;
use criterion::{Criterion, criterion_group, criterion_main};
use idle::Idle;
use rand::RngExt as _;

/// The nodes of each request; as many tasks are measured before the requests are used up.
const LENGTH: u32 = 1000;

fn submit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("submit");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(2));
    let network = small_network(&Model::Lstm);
    for batch in [64, 512] {
        let shapes = vec![Shape::Chain(LENGTH); batch as usize];
        let requests =
            Requests::unfold(shapes.into(), &Model::Lstm).expect("chains are the model's own");
        group.bench_function(format!("listed rows that stay, {batch}"), |b| {
            b.iter_custom(|tasks| {
                let mut time = Duration::ZERO;
                for run in 0..tasks.div_ceil(u64::from(LENGTH)) {
                    let left = tasks - run * u64::from(LENGTH);
                    time += serve(&network, &requests, left.min(u64::from(LENGTH)) as u32);
                }
                time
            });
        });
        let sentences = sentences(batch);
        group.bench_function(format!("served by cellular batching, {batch}"), |b| {
            b.iter_custom(|tasks| {
                let mut time = Duration::ZERO;
                let mut ran = 0;
                while ran < tasks {
                    let (run, count) = serve_sentences(&network, &sentences, batch);
                    time += run;
                    ran += count;
                }
                time.mul_f64(tasks as f64 / ran as f64)
            });
        });
    }
    group.finish();
}

/// Sentences of 1 to 48 words for about 400 tasks. A 24th of a batch ends with each task, 21 of 512 rows.
fn sentences(batch: u32) -> Requests {
    let mut rng = random::sequence(1, 0, "lengths");
    let shapes: Vec<Shape> = (0..batch * 400 / 24)
        .map(|_| Shape::Chain(rng.random_range(1..=48)))
        .collect();
    Requests::unfold(shapes.into(), &Model::Lstm).expect("chains are the model's own")
}

/// Serves sentences that arrive at once. Returns the time and the number of tasks.
fn serve_sentences(network: &Arc<Network>, requests: &Requests, batch: u32) -> (Duration, u64) {
    let mut device = Idle::default();
    let options = Options {
        materialise: vec![(CellId(0), batch)],
        ..Options::default()
    };
    let mut cuda = Cuda::new(&mut device, Arc::clone(network), requests, 1, &options)
        .expect("a device that is well");
    let cells = Model::Lstm.cell_types();
    let setup = Setup {
        model: &Model::Lstm,
        cells: &cells,
        workers: 1,
        costs: None,
        longest: None,
    };
    let policy = Cellular {
        max_tasks: 1,
        max_batch: PerCell::All(batch),
        ahead: 1,
        ..Cellular::default()
    };
    let mut policy = policy.build(&setup).expect("the policy serves the model");
    let keep = RecordOptions {
        tasks: true,
        ..RecordOptions::default()
    };
    let mut record = FullRecord::new(requests.len(), 1, cells.len(), keep);
    let arrivals = vec![Nanos::ZERO; requests.len()];
    let mut source = OpenLoop::new(requests, &arrivals);
    let clock = Instant::now();
    engine::run(
        &mut source,
        &mut *policy,
        &mut cuda,
        &mut record,
        1,
        &AtomicBool::new(false),
    )
    .expect("nothing interrupts it");
    (clock.elapsed(), record.execution.tasks.len() as u64)
}

fn small_network(model: &Model) -> Arc<Network> {
    let spec = Spec {
        hidden: 4,
        embedding: 4,
        vocabulary: 4,
        seed: 1,
        weights: None,
    };
    Arc::new(Network::new(model, &spec).expect("weights from the seed"))
}

/// Runs this many tasks of all requests, as lists of nodes.
fn serve(network: &Arc<Network>, requests: &Requests, tasks: u32) -> Duration {
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
        nodes.extend((0..batch).map(|at| NodeRef {
            request: RequestId(at.into()),
            node: NodeId(node),
        }));
        let task = Task::new(WorkerId(0), &steps, &[], u64::from(batch));
        let members = MemberList::Nodes(std::mem::take(&mut nodes));
        let clock = Instant::now();
        cuda.submit(TaskId(u64::from(node)), &task, Some(members));
        cuda.wait(None).expect("the task is done at once");
        time += clock.elapsed();
    }
    time
}

/// A backend that measures the time in its calls.
struct Timed<'d> {
    cuda: Cuda<'d, Idle>,
    time: Duration,
}

impl Backend for Timed<'_> {
    fn now(&self) -> Nanos {
        self.cuda.now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let clock = Instant::now();
        self.cuda.submit(id, task, members);
        self.time += clock.elapsed();
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let clock = Instant::now();
        let completion = self.cuda.wait(until);
        self.time += clock.elapsed();
        completion
    }

    fn wants_members(&self) -> bool {
        true
    }

    fn spare(&mut self) -> Option<MemberList> {
        self.cuda.spare()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.cuda.failure(request)
    }
}

/// The backend's time for each node of requests that all wait from the beginning.
fn nodes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("submit, per node");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(2));
    let merged = |max_batch| Merged {
        max_batch,
        ..Merged::default()
    };
    let chains = (Model::Lstm, "traces/europarl-en.csv", 10_240);
    let trees = (Model::TreeLstm, "generator:treebank", 4_096);
    let benches: [(&str, _, &dyn Settings); 3] = [
        ("merged chains, 512", chains, &merged(512)),
        ("merged trees, 64", trees.clone(), &merged(64)),
        ("trees, node by node, 512", trees, &Cellular::default()),
    ];
    for (name, (model, dataset, count), policy) in benches {
        let network = small_network(&model);
        let in_repository = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let dataset = Dataset::open(dataset, &model, &in_repository).expect("the dataset is there");
        let shapes = dataset
            .sample(count, None, &mut random::sequence(1, 0, "shapes"))
            .expect("nothing is too long");
        let requests = Requests::unfold(shapes, &model).expect("the shapes are the model's own");
        let nodes: u64 = requests.graphs.iter().map(|graph| graph.nodes()).sum();
        group.bench_function(name, |b| {
            b.iter_custom(|count| {
                let mut time = Duration::ZERO;
                let runs = count.div_ceil(nodes);
                for _ in 0..runs {
                    time += serve_all(&network, &requests, policy);
                }
                time.mul_f64(count as f64 / (runs * nodes) as f64)
            });
        });
    }
    group.finish();
}

/// Serves all requests, and returns the time in the backend.
fn serve_all(network: &Arc<Network>, requests: &Requests, policy: &dyn Settings) -> Duration {
    let model = network.model();
    let cells = model.cell_types();
    let setup = Setup {
        model,
        cells: &cells,
        workers: 1,
        costs: None,
        longest: None,
    };
    let mut policy = policy.build(&setup).expect("the policy serves the model");
    let mut device = Idle::default();
    let network = Arc::clone(network);
    let cuda = Cuda::new(&mut device, network, requests, 1, &Options::default())
        .expect("a device that is well");
    let time = Duration::ZERO;
    let mut backend = Timed { cuda, time };
    let arrivals = vec![Nanos::ZERO; requests.len()];
    let options = RecordOptions::default();
    let mut record = FullRecord::new(requests.len(), 1, cells.len(), options);
    engine::run(
        &mut OpenLoop::new(requests, &arrivals),
        &mut *policy,
        &mut backend,
        &mut record,
        1,
        &AtomicBool::new(false),
    )
    .expect("nothing interrupts it");
    assert!(record.failures.is_empty(), "{:?}", record.failures);
    backend.time
}

criterion_group!(all, submit, nodes);
criterion_main!(all);
