//! The inner loop allocates nothing: what memory it needs, it keeps from request to request.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use batchlab::backend::sim::Sim;
use batchlab::cost::table::{CostTable, Overhead};
use batchlab::driver::drive;
use batchlab::metrics::recorder::{Keep, Recorder};
use batchlab::policy::cellular::Cellular;
use batchlab::policy::padded::Padded;
use batchlab::policy::registry::{Configured, PerCell, Setup};
use batchlab::units::Rate;
use batchlab::workload::arrivals::{OpenLoop, Process};
use batchlab::workload::dataset::Dataset;
use batchlab::workload::model::Model;
use batchlab::workload::random;
use batchlab::workload::trace::Requests;

/// The system's allocator, which counts the calls of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often one run allocates.
fn allocations(model: &Model, dataset: &str, rate: f64, workers: usize, count: usize, policy: &dyn Configured) -> u64 {
    let find = |path: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let cells = model.cell_types();
    let device = CostTable::read(&find("scenarios/costs/v100.csv")).unwrap().device(&cells, Overhead::default());
    let shapes = Dataset::open(dataset, model, &find).unwrap().sample(count, None, &mut random::stream(1, 0, "shapes"));
    let requests = Requests::unfold(shapes.unwrap(), model).unwrap();
    let arrivals = Process::Poisson.times(Some(Rate(rate)), count, &mut random::stream(1, 0, "arrivals"));
    let mut policy = policy.build_policy(&Setup { model, cells: &cells, workers }).unwrap();
    let mut backend = Sim::new(workers, device.unwrap());
    let mut record = Recorder::new(count, workers, cells.len(), Keep::default());
    let mut source = OpenLoop::new(&requests, &arrivals);
    let before = ALLOCATIONS.get();
    drive(&mut source, &mut *policy, &mut backend, &mut record, workers, &AtomicBool::new(false)).unwrap();
    ALLOCATIONS.get() - before
}

#[test]
fn more_requests_allocate_no_more() {
    let cellular = Cellular::default();
    let of_64 = Cellular { max_batch: PerCell::All(64), ..Cellular::default() };
    let europarl = (Model::Lstm, "traces/europarl-en.csv");
    let pairs = (Model::Seq2Seq, "traces/europarl-de-en.csv");
    let trees = (Model::TreeLstm, "generator:treebank");
    let cases: [(_, f64, usize, &dyn Configured); 5] = [
        (&europarl, 20_000.0, 1, &cellular),
        (&europarl, 60_000.0, 4, &cellular),
        (&pairs, 4_000.0, 1, &cellular),
        (&trees, 2_000.0, 1, &of_64),
        (&europarl, 12_000.0, 1, &Padded::default()),
    ];
    for ((model, dataset), rate, workers, policy) in cases {
        let run = |count| allocations(model, dataset, rate, workers, count, policy);
        let (few, many) = (run(10_000), run(50_000));
        // What is kept grows with the longest queue and the largest batch that have been, and that ever more rarely.
        let each = many.saturating_sub(few) as f64 / 40_000.0;
        assert!(each < 0.01, "{policy:?} on {workers} workers, {model:?}: {each} allocations a request");
    }
}
