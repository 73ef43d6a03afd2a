//! The inner loop does not allocate: it keeps its memory from request to request.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use batchlab::backend::Backend;
use batchlab::cost::table::{CostTable, Overhead};
use batchlab::cuda::{Cuda, Options};
use batchlab::engine;
use batchlab::network::{Network, Spec};
use batchlab::policy::cellular::Cellular;
use batchlab::policy::late::Late;
use batchlab::policy::padded::Padded;
use batchlab::policy::registry::{Settings, Setup};
use batchlab::policy::values::PerCell;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::sim::{self, Sim};
use batchlab::task::{MemberList, NodeRef, Step, Task};
use batchlab::units::{CellId, Nanos, NodeId, Rate, RequestId, StreamId, TaskId, WorkerId};
use batchlab::workload::arrivals::{OpenLoop, Process};
use batchlab::workload::dataset::Dataset;
use batchlab::workload::model::Model;
use batchlab::workload::random;
use batchlab::workload::shape::Shape;
use batchlab::workload::trace::Requests;

/// The system's allocator with counters for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// In bytes; negative where a thread frees what another has allocated.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST_LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(more: isize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + u64::from(more > 0));
    LIVE.set(LIVE.get() + more);
    MOST_LIVE.set(MOST_LIVE.get().max(LIVE.get()));
}

/// The result of a function, and the bytes that it held at most.
pub fn most_allocated<T>(of: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    MOST_LIVE.set(before);
    let result = of();
    (result, (MOST_LIVE.get() - before) as usize)
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE.set(LIVE.get() + size as isize - layout.size() as isize);
        MOST_LIVE.set(MOST_LIVE.get().max(LIVE.get()));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The number of allocations of one run.
fn allocations(
    model: &Model,
    dataset: &str,
    rate: f64,
    workers: usize,
    count: usize,
    policy: &dyn Settings,
) -> u64 {
    let find = |path: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let cells = model.cell_types();
    let device = CostTable::read(&find("scenarios/costs/v100.csv"))
        .unwrap()
        .costs_for(&cells, Overhead::default());
    let shapes = Dataset::open(dataset, model, &find).unwrap().sample(
        count,
        None,
        &mut random::sequence(1, 0, "shapes"),
    );
    let requests = Requests::unfold(shapes.unwrap(), model).unwrap();
    let arrivals =
        Process::Poisson.times(Some(Rate(rate)), count, random::sequence(1, 0, "arrivals"));
    let arrivals: Vec<Nanos> = arrivals.collect();
    let mut policy = policy
        .build(&Setup {
            model,
            cells: &cells,
            workers,
            costs: None,
            longest: None,
        })
        .unwrap();
    let mut backend = Sim::new(workers, device.unwrap());
    let mut record = FullRecord::new(count, workers, cells.len(), RecordOptions::default());
    let mut source = OpenLoop::new(&requests, &arrivals);
    let before = ALLOCATIONS.get();
    engine::run(
        &mut source,
        &mut *policy,
        &mut backend,
        &mut record,
        workers,
        &AtomicBool::new(false),
    )
    .unwrap();
    ALLOCATIONS.get() - before
}

#[test]
fn more_requests_allocate_no_more() {
    let cellular = Cellular::default();
    let of_64 = Cellular {
        max_batch: PerCell::All(64),
        ..Cellular::default()
    };
    let europarl = (Model::Lstm, "traces/europarl-en.csv");
    let pairs = (Model::Seq2Seq, "traces/europarl-de-en.csv");
    let trees = (Model::TreeLstm, "generator:treebank");
    let cases: [(_, f64, usize, &dyn Settings); 6] = [
        (&europarl, 20_000.0, 1, &cellular),
        (&europarl, 60_000.0, 4, &cellular),
        (&europarl, 60_000.0, 4, &Late::default()),
        (&pairs, 4_000.0, 1, &cellular),
        (&trees, 2_000.0, 1, &of_64),
        (&europarl, 12_000.0, 1, &Padded::default()),
    ];
    for ((model, dataset), rate, workers, policy) in cases {
        let run = |count| allocations(model, dataset, rate, workers, count, policy);
        let (few, many) = (run(10_000), run(50_000));
        // The kept memory grows with the longest queue and the largest batch so far, which happens ever more rarely.
        let each = many.saturating_sub(few) as f64 / 40_000.0;
        assert!(
            each < 0.01,
            "{policy:?} on {workers} workers, {model:?}: {each} allocations a request"
        );
    }
}

#[test]
fn streams_that_share_a_worker_allocate_no_more_for_more_tasks() {
    let cells = Model::Lstm.cell_types();
    let table = CostTable::parse("cell,batch,ns\nlstm,1,100\nlstm,64,800\n", "costs").unwrap();
    let allocations = |tasks: u64| {
        let mut backend = sim::backend(2, 4, table.costs_for(&cells, Overhead::default()).unwrap());
        let before = ALLOCATIONS.get();
        for id in 0..tasks {
            let steps = [Step {
                cell: CellId(0),
                batch: 1 + (id * 7 % 64) as u32,
                times: 1,
                input: 0,
            }];
            let task = Task::whole_requests(WorkerId((id % 2) as u16), &steps, &[], 1);
            backend.submit(
                TaskId(id),
                &Task {
                    stream: StreamId((id / 2 % 4) as u16),
                    ..task
                },
                None,
            );
            if id >= 16 {
                backend.wait(None).unwrap();
            }
        }
        ALLOCATIONS.get() - before
    };
    let (few, many) = (allocations(1_000), allocations(100_000));
    assert!(
        many <= few + 8,
        "{few} allocations for 1,000 tasks, {many} for 100,000"
    );
}

/// The number of allocations of the CUDA backend for the last half of these tasks, each a step and its members.
fn allocations_on_cuda(
    model: &Model,
    shape: &str,
    tasks: impl Iterator<Item = (Step, MemberList)>,
) -> u64 {
    let shape: Shape = shape.parse().unwrap();
    let requests = Requests::unfold(vec![shape; 320].into(), model).unwrap();
    let spec = Spec {
        hidden: 4,
        embedding: 4,
        vocabulary: 4,
        seed: 1,
        weights: None,
    };
    let network = Arc::new(Network::new(model, &spec).unwrap());
    let mut device = crate::idle::Idle::default();
    let mut cuda = Cuda::new(&mut device, network, &requests, 1, &Options::default()).unwrap();
    let tasks: Vec<_> = tasks.collect();
    let (half, mut before) = (tasks.len() / 2, 0);
    for (id, (step, members)) in tasks.into_iter().enumerate() {
        if id == half {
            before = ALLOCATIONS.get();
        }
        let steps = [step];
        let task = Task::new(WorkerId(0), &steps, &[], step.cells());
        drop(cuda.spare());
        cuda.submit(TaskId(id as u64), &task, Some(members));
        cuda.wait(None).unwrap();
    }
    let allocations = ALLOCATIONS.get() - before;
    assert!((0..320).all(|request| cuda.failure(RequestId(request)).is_none()));
    allocations
}

#[test]
fn the_cuda_backend_allocates_nothing_for_a_task() {
    let step = |cell, times| Step {
        cell: CellId(cell),
        batch: 32,
        times,
        input: 0,
    };
    let node = |request: u32, node| NodeRef {
        request: RequestId(request.into()),
        node: NodeId(node),
    };
    // 32 chains at a time, whose members change places from task to task.
    let chain = |task: u32| {
        let (set, place) = (task / 10 * 32, task % 10);
        MemberList::Nodes(
            (0..32)
                .map(|at| node(set + (at + place / 2) % 32, place))
                .collect(),
        )
    };
    assert_eq!(
        allocations_on_cuda(
            &Model::Lstm,
            "chain:10",
            (0..100).map(|task| (step(0, 1), chain(task)))
        ),
        0
    );
    // 32 chains, run together to their ends.
    let whole = |set: u32| {
        MemberList::Requests(
            (set * 32..(set + 1) * 32)
                .map(|request| RequestId(request.into()))
                .collect(),
        )
    };
    assert_eq!(
        allocations_on_cuda(
            &Model::Lstm,
            "chain:10",
            (0..10).map(|task| (step(0, 12), whole(task)))
        ),
        0
    );
    // 32 trees of two leaves at a time.
    let tree = |task: u32| {
        let nodes = (0..32).map(|at| node(task / 3 * 32 + at, task % 3));
        (
            step(u16::from(task % 3 < 2), 1),
            MemberList::Nodes(nodes.collect()),
        )
    };
    assert_eq!(
        allocations_on_cuda(&Model::TreeLstm, "tree:3 3 0", (0..30).map(tree)),
        0
    );
}
