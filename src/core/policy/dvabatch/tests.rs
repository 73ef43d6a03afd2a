//! Checks of the mechanism and its policies.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::RngExt as _;

use super::stage::{Buffers, ExecutorState};
use super::table::StageItem;
use super::*;
use crate::base::units::{CellId, RequestId};
use crate::core::conformance::{Guarantees, check};
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::engine;
use crate::core::policy::padded::PadTo;
use crate::core::record::RecordOptions;
use crate::core::record::full::FullRecord;
use crate::core::sim;
use crate::core::workload::arrivals::OpenLoop;
use crate::core::workload::model::Model;
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;

/// Checks the laws. The policies are not work-conserving: splittable batches run one after another, and batches wait
/// for requests to join.
fn laws(policy: &DvaBatch) {
    check(
        policy,
        &Guarantees {
            max_batch: policy.max_batch,
            work_conserving: false,
            pins: false,
            cases: 60,
            ..Guarantees::default()
        },
    );
}

#[test]
fn it_keeps_the_laws() {
    for policy in [Diversity::Input, Diversity::Load, Diversity::Auto] {
        for (steps, stages) in [
            (1, Stages::By(StageRule::Operators)),
            (3, Stages::Count(2)),
            (4, Stages::Count(1)),
        ] {
            for buffer_pairs in [1, 2, 3] {
                for (window, comp_wait) in [(0, 0), (300, u64::MAX), (0, 2_000)] {
                    laws(&DvaBatch {
                        policy,
                        stages: stages.clone(),
                        steps,
                        max_batch: 6,
                        window: Some(Nanos(window)),
                        comp_wait: Some(Nanos(comp_wait)),
                        buffer_pairs,
                        bucket_width: 5,
                        split_slack: 0.0,
                        ..DvaBatch::default()
                    });
                }
            }
        }
    }
}

#[test]
fn it_keeps_the_laws_however_lengths_are_divided() {
    for (cluster, lengths) in [
        (Cluster::Queue, vec![]),
        (Cluster::Queue, vec![2, 5]),
        (Cluster::Batch, vec![1, 3, 4]),
    ] {
        for window in [0, 300] {
            laws(&DvaBatch {
                policy: Diversity::Input,
                window: Some(Nanos(window)),
                max_batch: 6,
                cluster,
                lengths: lengths.clone(),
                ..DvaBatch::default()
            });
        }
    }
}

#[test]
fn it_keeps_the_laws_while_it_splits() {
    for policy in [Diversity::Operator, Diversity::OperatorLoad] {
        for stages in [
            Stages::By(StageRule::Operators),
            Stages::Count(3),
            Stages::By(StageRule::Preferred),
        ] {
            for (buffer_pairs, split_slack) in [(1, 0.0), (2, 0.3), (3, 1.0)] {
                let policy = DvaBatch {
                    policy,
                    stages: stages.clone(),
                    max_batch: 9,
                    comp_wait: Some(Nanos(3_000)),
                    buffer_pairs,
                    split_slack,
                    ..DvaBatch::default()
                };
                let promises = Guarantees {
                    max_batch: 9,
                    work_conserving: false,
                    pins: false,
                    ..Guarantees::default()
                };
                check(&policy, &promises);
            }
        }
    }
}

#[test]
fn it_keeps_the_laws_by_the_papers_own_rules() {
    for policy in [Diversity::Load, Diversity::Auto] {
        let by_the_paper = DvaBatch {
            policy,
            max_batch: 6,
            window: None,
            comp_wait: Some(Nanos(2_000)),
            room: RoomFor::Any,
            bucket_width: 5,
            ..DvaBatch::default()
        };
        laws(&by_the_paper);
        let promises = Guarantees {
            max_batch: 6,
            work_conserving: false,
            pins: false,
            ..Guarantees::default()
        };
        check(
            &DvaBatch {
                pad_to: PadTo::Bucket,
                ..by_the_paper
            },
            &promises,
        );
    }
}

/// The conditions of Figure 8: two queries form a batch, two more stretch it during stage 1, and it is split after
/// stage 2.
struct Figure8;

impl Conditions for Figure8 {
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        if entry.lines.len(0) < 2 {
            return None;
        }
        Some(match entry.stretchable {
            None => Enter::New {
                line: 0,
                count: 2,
                input: 0,
            },
            Some(_) => Enter::Stretch { count: 2 },
        })
    }

    fn after(&mut self, stage: Stage, _: &BatchRow, onward: &mut Onward) {
        if stage == Stage(2) {
            onward.parts.extend([2, 2]);
        }
    }
}

/// A query whose input and number of nodes are this length.
fn query(request: u64, length: u32) -> Query {
    Query {
        request: RequestId(request),
        nodes: length,
        input: length,
        left: false,
        resumes: Stage(0),
    }
}

/// Random queries come and go.
#[test]
fn the_longest_input_of_a_line_is_that_of_a_search() {
    let mut rng = random::sequence(1, 0, "lines");
    let mut lines = WaitingLines::default();
    for number in 0..2_000 {
        let length = rng.random_range(1..1_000);
        lines.push(rng.random_range(0..3), Nanos(number), query(number, length));
        let line = rng.random_range(0..3);
        for _ in 0..2 {
            let count = rng.random_range(0..12);
            let inputs = lines.first(line, count).map(|query| query.input);
            let expected = inputs.max().unwrap_or(0);
            assert_eq!(lines.longest_input(line, count), expected);
        }
        if lines.len(line) > 0 && rng.random_range(0..5) == 0 {
            let count = rng.random_range(1..=lines.len(line));
            lines.take(line, count, &mut Vec::new());
        }
    }
}

#[test]
fn the_longest_query_of_a_batch_is_that_of_a_search() {
    let mut rng = random::sequence(1, 0, "batches");
    for _ in 0..100 {
        let mut table = BatchTable::default();
        let id = table.new_row(Nanos::ZERO, 0);
        for _ in 0..2 {
            let lengths: Vec<u32> = (0..5).map(|_| rng.random_range(1..9)).collect();
            let new = lengths.iter().map(|length| query(0, *length));
            table.join(id, 0, |queries| queries.extend(new));
        }
        for _ in 0..30 {
            let item = StageItem {
                row: id,
                start: rng.random_range(0..10),
                num: 1,
                pair: None,
            };
            table.leave(&item, |_| true, &mut Outcomes::default());
            if !table.has(id) {
                break;
            }
            let row = table.row(id);
            let live = row.queries.iter().filter(|query| !query.left);
            assert_eq!(Some(row.longest), live.map(|query| query.nodes).max());
        }
    }
}

struct Snapshots {
    staged: Staged,
    snapshots: Vec<String>,
}

impl Policy for Snapshots {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        self.staged.arrive(request, outcomes);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.staged.complete(completed, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.staged.schedule(dispatch);
        let mechanism = &self.staged.mechanisms[0];
        let mut text = format!("{}:", dispatch.now().0);
        for (id, row) in mechanism.table.rows() {
            let completed: Vec<u32> = (0..4)
                .map(|stage| row.completed_count(Stage(stage)))
                .collect();
            text += &format!(" batch {} bs {} done {completed:?};", id.0, row.live);
        }
        for (stage, executor) in mechanism.executors.iter().enumerate() {
            if let ExecutorState::Working(running) = executor.state {
                text += &format!(" stage {stage} runs {};", show(&running.item));
            }
            for item in &executor.queue {
                text += &format!(" queue {stage} has {};", show(item));
            }
        }
        self.snapshots.push(text.trim_end_matches(';').into());
    }
}

fn show(item: &StageItem) -> String {
    format!("({}, {}, {})", item.row.0, item.start, item.num)
}

/// The instants at which chains of four cells finish that arrive at these instants. `rows` are those of the cost table.
fn finishes(policy: &mut dyn Policy, workers: usize, rows: &str, arrivals: &[u64]) -> Vec<u64> {
    let model = Model::Lstm;
    let shapes = arrivals.iter().map(|_| Shape::Chain(4));
    let requests = Requests::unfold(shapes.collect(), &model).unwrap();
    let costs = CostTable::parse(&format!("cell,batch,ns\n{rows}"), "costs").unwrap();
    let costs = costs.costs_for(&model.cell_types(), Overhead::default());
    let mut backend = sim::backend(workers, 4, costs.unwrap());
    let mut recorder = FullRecord::new(arrivals.len(), workers, 1, RecordOptions::default());
    let arrivals: Vec<Nanos> = arrivals.iter().map(|at| Nanos(*at)).collect();
    let mut source = OpenLoop::new(&requests, &arrivals);
    engine::run(
        &mut source,
        policy,
        &mut *backend,
        &mut recorder,
        workers,
        &AtomicBool::new(false),
    )
    .unwrap();
    let finishes = recorder.finish.iter();
    finishes.map(|finish| finish.0).collect()
}

/// The chains of four cells, in stages of `steps` cells.
fn chain_stages(steps: u32) -> Arc<Slicing> {
    Arc::new(Slicing::Chain {
        cell: CellId(0),
        steps,
    })
}

#[test]
fn the_example_of_figure_8() {
    let mut policy = Snapshots {
        staged: Staged::new(1, &chain_stages(1), 2, Box::new(Figure8)),
        snapshots: Vec::new(),
    };
    let finished = finishes(&mut policy, 1, "lstm,1,10\nlstm,4,10\n", &[0, 0, 15, 15]);
    assert_eq!(
        policy.snapshots,
        [
            "0: batch 0 bs 2 done [0, 0, 0, 0]; stage 0 runs (0, 0, 2)",
            "10: batch 0 bs 2 done [2, 0, 0, 0]; stage 1 runs (0, 0, 2)",
            // Stretched: the first stage runs the newcomers.
            "15: batch 0 bs 4 done [2, 0, 0, 0]; stage 0 runs (0, 2, 2); stage 1 runs (0, 0, 2)",
            "20: batch 0 bs 4 done [2, 2, 0, 0]; stage 0 runs (0, 2, 2)",
            "25: batch 0 bs 4 done [4, 2, 0, 0]; stage 1 runs (0, 2, 2)",
            "35: batch 0 bs 4 done [4, 4, 0, 0]; stage 2 runs (0, 0, 4)",
            // Split: the last stage runs both parts in turn.
            "45: batch 0 bs 2 done [2, 2, 2, 0]; batch 1 bs 2 done [2, 2, 2, 0]; stage 3 runs (0, 0, 2); queue 3 has (1, 0, 2)",
            "55: batch 1 bs 2 done [2, 2, 2, 0]; stage 3 runs (1, 0, 2)",
            "65:",
        ]
    );
    assert_eq!(finished, [55, 55, 65, 65]);
}

struct Skipping(u32);

impl Conditions for Skipping {
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        Figure8.enter(entry)
    }

    fn after(&mut self, stage: Stage, _: &BatchRow, onward: &mut Onward) {
        if stage == Stage(0) {
            onward.skips.extend((0..self.0).map(|place| Skip {
                place,
                until: Stage(2),
            }));
        }
    }
}

#[test]
fn who_skips_a_stage_stays_in_the_batch() {
    assert_eq!(finishes_with_skips(0, &[0, 0]), [64; 2]);
    assert_eq!(finishes_with_skips(1, &[0, 0]), [58; 2]);
    assert_eq!(finishes_with_skips(2, &[0, 0]), [48; 2]);
    // Newcomers skip nothing. One batch fills the device: both run at half speed from 20 until the first two have
    // passed stage 2 at 44. The others have passed it at 80, and the four end together.
    assert_eq!(finishes_with_skips(2, &[0, 0, 20, 20]), [110; 4]);
}

/// Two queries form a batch. Counts how often workers are asked.
struct Counted(Arc<AtomicUsize>);

impl Conditions for Counted {
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Figure8.enter(entry)
    }
}

/// At 0, one of the idle workers declines a single query. At 5, the first worker takes both. At 6, the first worker is
/// at work, and the next one declines.
#[test]
fn one_idle_worker_answers_for_all() {
    let mut finished = Vec::new();
    let mut asked = Vec::new();
    for workers in [2, 1000] {
        let calls = Arc::new(AtomicUsize::new(0));
        let conditions = Box::new(Counted(Arc::clone(&calls)));
        let mut policy = Staged::new(workers, &chain_stages(4), 2, conditions);
        let rows = "lstm,1,10\nlstm,4,10\n";
        finished.push(finishes(&mut policy, workers, rows, &[0, 5, 6, 7]));
        asked.push(calls.load(Ordering::Relaxed));
    }
    assert_eq!(asked[0], asked[1], "998 more idle workers are not asked");
    assert_eq!(finished[1], finished[0]);
}

/// The instants at which requests finish if this number of queries skips the second stage.
fn finishes_with_skips(skipping: u32, arrivals: &[u64]) -> Vec<u64> {
    let mut policy = Staged::new(1, &chain_stages(1), 2, Box::new(Skipping(skipping)));
    let rows = "lstm,1,10\nlstm,2,16\nlstm,4,30\n";
    finishes(&mut policy, 1, rows, arrivals)
}

/// A stage can't run while later stages use the pair of its batch (Figure 10 (a)).
#[test]
fn a_stage_runs_with_the_pair_of_its_batch_or_waits() {
    let mut buffers = Buffers::new(2);
    buffers.reach(Stage(2));
    let one = BufferPair(0);
    let other = BufferPair(1);
    buffers.begin(Stage(0), one, one);
    assert!(
        !buffers.legitimate(Stage(0), one, one),
        "it is read already"
    );
    assert!(!buffers.legitimate(Stage(1), one, one), "read after write");
    buffers.end(Stage(0), one, one);
    buffers.hand_on(Stage(0), one);
    assert!(buffers.legitimate(Stage(0), other, other) && !buffers.legitimate(Stage(0), one, one));
    buffers.begin(Stage(1), one, one);
    assert_eq!(buffers.any(Stage(1), None), Some(other));
    buffers.end(Stage(1), one, one);
    buffers.hand_on(Stage(1), one);
    // The first stage may write the buffer that the second must not read yet.
    buffers.give_back(Stage(0), one);
    assert!(!buffers.legitimate(Stage(1), one, one));
    buffers.begin(Stage(0), one, one);
    buffers.end(Stage(0), one, one);
    assert!(
        !buffers.legitimate(Stage(1), one, one),
        "its output has not been read"
    );
    buffers.give_back(Stage(1), one);
    assert!(buffers.legitimate(Stage(1), one, one));
}

#[test]
#[should_panic(
    expected = "write after read: stage 0 would write over a batch that has not been read"
)]
fn nothing_is_written_over_what_has_not_been_read() {
    let mut buffers = Buffers::new(1);
    buffers.reach(Stage(0));
    buffers.begin(Stage(0), BufferPair(0), BufferPair(0));
    buffers.end(Stage(0), BufferPair(0), BufferPair(0));
    buffers.hand_on(Stage(0), BufferPair(0));
    // The pair is given back before the batch has been read, as in Figure 10 (b).
    buffers.give_back(Stage(0), BufferPair(0));
    buffers.begin(Stage(0), BufferPair(0), BufferPair(0));
}

#[test]
#[should_panic(expected = "read after write: stage 0 hands on a batch that is still being written")]
fn nothing_is_handed_on_while_it_is_written() {
    let mut buffers = Buffers::new(1);
    buffers.reach(Stage(0));
    buffers.begin(Stage(0), BufferPair(0), BufferPair(0));
    buffers.hand_on(Stage(0), BufferPair(0));
}

#[test]
#[should_panic(expected = "batch 0 may be split and can't be stretched")]
fn what_may_be_split_is_not_stretched() {
    let query = Query {
        request: RequestId(0),
        nodes: 1,
        input: 0,
        left: false,
        resumes: Stage(0),
    };
    let mut table = BatchTable::default();
    let row = table.new_row(Nanos::ZERO, 0);
    table.join(row, 0, |queries| queries.extend([query; 2]));
    table.will_split(row);
    table.join(row, 0, |queries| queries.push(query));
}
