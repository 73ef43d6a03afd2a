//! Early exit and layer skip on DVABatch's mechanism, as its section 9.2 proposes: conditions outside the crate.
//!
//! Networks with early exits have a small classifier after some stages; a query whose answer is certain enough leaves
//! there. Other networks have gates with which an easy query skips the next stage. Both are one function, `after`,
//! which names the queries that leave and those that skip the next stage. The results of classifiers are drawn here,
//! once for each query and stage; a server would read them.
//!
//! cargo run --release --example early_exit -- sim examples/early_exit.toml
//! cargo test --example early_exit

use std::process::ExitCode;
use std::sync::Arc;

use batchlab::policy::Policy;
use batchlab::policy::dvabatch::{
    BatchRow, CompWait, Conditions, DeviceRoom, DvaBatch, Enter, EntryView, LoadDiversity, Onward,
    Skip, Stage, Staged, Stages, WaitingLines,
};
use batchlab::policy::registry::{PolicyKind, Registry, Settings, Setup};
use batchlab::policy::values::{require_positive, share, time_with_unit};
use batchlab::units::{Nanos, RequestId};
use serde::{Deserialize, Serialize};

fn main() -> ExitCode {
    batchlab::cli::main(&Registry::standard().with::<EarlyExit>())
}

/// `kind = "early-exit"`: the keys of its `[[policy]]` table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EarlyExit {
    /// The number of stages of the network.
    stages: u32,
    /// The most queries in a batch.
    max_batch: u32,
    /// The age up to which a batch is stretched.
    #[serde(with = "time_with_unit")]
    comp_wait: Nanos,
    /// The share of the queries that leave after each stage, of those that have reached it.
    exit_share: f64,
    /// The share of queries that skip the next stage. No query skips the last.
    skip_share: f64,
}

impl Default for EarlyExit {
    fn default() -> Self {
        EarlyExit {
            stages: 4,
            max_batch: 64,
            comp_wait: Nanos::ZERO,
            exit_share: 0.25,
            skip_share: 0.0,
        }
    }
}

impl Settings for EarlyExit {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "early-exit",
            "networks in stages, after which some queries leave",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        share("exit_share", self.exit_share)?;
        share("skip_share", self.skip_share)?;
        if self.exit_share + self.skip_share > 1.0 {
            return Err(format!(
                "skip_share: {} and the exit_share of {} add up to more than 1",
                self.skip_share, self.exit_share
            ));
        }
        require_positive([("max_batch", self.max_batch)])?;
        let slicing = Arc::new(self.staged().slicing(setup)?);
        let comp_wait = CompWait::Age(self.comp_wait);
        let entry = LoadDiversity {
            max_batch: self.max_batch,
            window: Nanos::ZERO,
            comp_wait,
            room: DeviceRoom(None),
        };
        let last = Stage(
            slicing.stages(
                setup
                    .model
                    .network()
                    .map_or(0, |network| network.operators().len() as u32),
            ) as u32
                - 1,
        );
        let conditions = Certain {
            entry,
            exit_share: self.exit_share,
            skip_share: self.skip_share,
            last,
        };
        Ok(Box::new(Staged::new(
            setup.workers,
            &slicing,
            2,
            Box::new(conditions),
        )))
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        self.staged().streams(setup)
    }
}

impl EarlyExit {
    fn staged(&self) -> DvaBatch {
        DvaBatch {
            stages: Stages::Count(self.stages),
            max_batch: self.max_batch,
            ..DvaBatch::default()
        }
    }
}

/// Requests enter as in policy III, leave when their answer is certain, and skip a stage when it is nearly certain.
struct Certain {
    entry: LoadDiversity,
    exit_share: f64,
    skip_share: f64,
    last: Stage,
}

impl Conditions for Certain {
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        self.entry.enter(entry)
    }

    fn wake_at(&self, lines: &WaitingLines, now: Nanos) -> Option<Nanos> {
        self.entry.wake_at(lines, now)
    }

    fn after(&mut self, stage: Stage, row: &BatchRow, onward: &mut Onward) {
        let next = stage.next();
        for (place, query) in (0..)
            .zip(&row.queries)
            .filter(|(_, query)| !query.left && query.resumes <= stage)
        {
            let found = certainty(query.request, stage);
            if found < self.exit_share {
                onward.exits.push(place);
            } else if found < self.exit_share + self.skip_share && next < self.last {
                onward.skips.push(Skip {
                    place,
                    until: next.next(),
                });
            }
        }
    }
}

/// The result of the classifier after a stage for a query: uniform between 0 and 1, and always the same.
fn certainty(request: RequestId, stage: Stage) -> f64 {
    // Multiplication by an odd number permutes the 64-bit numbers; the shifts mix the remaining order.
    let mixed = (request.0 << 16 | u64::from(stage.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use batchlab::cost::CostModel;
    use batchlab::cost::table::{CostTable, Overhead};
    use batchlab::engine;
    use batchlab::record::RecordOptions;
    use batchlab::record::full::FullRecord;
    use batchlab::sim;
    use batchlab::workload::arrivals::OpenLoop;
    use batchlab::workload::model::Model;
    use batchlab::workload::shape::Shape;
    use batchlab::workload::trace::Requests;

    use super::*;

    /// Each request is served by itself, on the way that its certainty decides. Returns how many passed 1, 2, 3 and 4
    /// stages.
    fn ways(settings: &EarlyExit) -> [i32; 4] {
        let beside_the_crate = |file: &str| Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let model = Model::open(
            "dnn:tests/schedules/four-fixed-operators.csv",
            &beside_the_crate,
        )
        .unwrap();
        let cells = model.cell_types();
        let table =
            CostTable::parse("cell,batch,ns\nA,1,10\nB,1,10\nC,1,10\nD,1,10\n", "costs").unwrap();
        let device = table.costs_for(&cells, Overhead::default()).unwrap();
        let costs: Arc<dyn CostModel> = Arc::new(device.clone());
        let setup = Setup {
            model: &model,
            cells: &cells,
            workers: 1,
            costs: Some(&costs),
            longest: None,
        };
        let mut policy = settings.build(&setup).unwrap();
        let requests = Requests::unfold((0..1000).map(|_| Shape::Fixed).collect(), &model).unwrap();
        let arrivals: Vec<Nanos> = (0..1000).map(|number| Nanos(1000 * number)).collect();
        let mut recorder = FullRecord::new(1000, 1, cells.len(), RecordOptions::default());
        let mut backend = sim::backend(1, settings.streams(&setup), device);
        let mut source = OpenLoop::new(&requests, &arrivals);
        engine::run(
            &mut source,
            &mut *policy,
            &mut *backend,
            &mut recorder,
            1,
            &AtomicBool::new(false),
        )
        .unwrap();
        let mut passed = [0; 4];
        for request in 0..1000 {
            let (mut stages, mut stage) = (1, 0);
            while stage < 3 {
                let found = certainty(RequestId(request), Stage(stage));
                if found < settings.exit_share {
                    break;
                }
                stage += if found < settings.exit_share + settings.skip_share && stage < 2 {
                    2
                } else {
                    1
                };
                stages += 1;
            }
            passed[stages - 1] += 1;
            let latency = recorder.finish[request as usize] - arrivals[request as usize];
            assert_eq!(latency, Nanos(10 * stages as u64), "request {request}");
        }
        passed
    }

    /// Whether each number is within three standard deviations of its expectation.
    fn near(passed: [i32; 4], expected: [(i32, i32); 4]) {
        assert!(
            passed
                .iter()
                .zip(expected)
                .all(|(passed, (mean, spread))| i32::abs(passed - mean) <= spread),
            "{passed:?}"
        );
    }

    #[test]
    fn each_query_leaves_where_it_is_certain() {
        // A quarter, a quarter of the rest and so on.
        near(
            ways(&EarlyExit::default()),
            [(250, 42), (188, 38), (141, 33), (422, 47)],
        );
    }

    #[test]
    fn each_query_skips_what_it_does_not_need() {
        // Half of all skip the second stage and pass three stages, as do half of the others, which skip the third.
        let skipping = EarlyExit {
            exit_share: 0.0,
            skip_share: 0.5,
            ..EarlyExit::default()
        };
        near(ways(&skipping), [(0, 0), (0, 0), (750, 42), (250, 42)]);
        // A fifth leaves after each stage.
        let both = EarlyExit {
            exit_share: 0.2,
            skip_share: 0.3,
            ..EarlyExit::default()
        };
        near(ways(&both), [(200, 38), (160, 35), (440, 48), (200, 38)]);
    }
}
