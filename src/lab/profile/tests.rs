//! Profiles of a simulated device whose speed varies.

use std::sync::atomic::AtomicU64;

use rand::RngExt as _;

use super::report::ProfileReport;
use super::*;
use crate::base::precision::Precision;
use crate::base::step_kernels::StepKernels;
use crate::base::units::{Nanos, Share};
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::cost::timing::{Start, Timing};
use crate::core::cost::{CostModel as _, MemberKind};
use crate::core::sim;
use crate::core::task::{Step, Task};
use crate::core::workload::random;
use crate::devices::network::{Network, Spec};
use crate::lab::run::executor::{Abilities, Loaded, WorkerSettings};

/// A device that takes [`truth`] for each task, times its slowness at that instant.
#[derive(Debug)]
struct Disturbed(Box<dyn Slow>);

trait Slow: std::fmt::Debug + Sync + Send {
    fn at(&self, seconds: f64) -> f64;

    fn shares_streams(&self) -> bool {
        false
    }

    /// How late a task starts on an idle worker that is submitted at this instant.
    fn lateness(&self, _: Nanos) -> Nanos {
        Nanos::ZERO
    }
}

/// The true time of a task in nanoseconds, which rises in stairs of six rows.
fn truth(batch: u32) -> u64 {
    300_000 + 500_000 * u64::from(batch.div_ceil(6))
}

/// The true demand, which is above a fourth of the device: four streams can't show less.
fn true_demand(batch: u32) -> Share {
    Share::from_ratio(25 + batch, 100)
}

impl Executor for &'static Disturbed {
    fn name(&self) -> &'static str {
        "disturbed"
    }

    fn about(&self) -> &'static str {
        "A simulation"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            shares_streams: self.0.shares_streams(),
            ..Abilities::default()
        }
    }

    fn load(&self, network: Network, _: &WorkerSettings) -> Result<Box<dyn Loaded>> {
        Ok(Box::new(Engine {
            device: self,
            network: Arc::new(network),
            clock: Arc::default(),
        }))
    }
}

struct Engine {
    device: &'static Disturbed,
    network: Arc<Network>,
    clock: Arc<AtomicU64>,
}

impl Loaded for Engine {
    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn precision(&self) -> Precision {
        Precision::F32
    }

    fn describe(&self) -> String {
        "simulated".into()
    }

    fn start<'e>(
        &'e mut self,
        _: &Requests,
        preparation: &Preparation,
        _: Option<std::sync::mpsc::Sender<StepTime>>,
    ) -> Result<Box<dyn Backend + 'e>> {
        let clock = Arc::clone(&self.clock);
        let started = clock.load(Ordering::Relaxed) + 5_000_000;
        Ok(sim::backend(
            1,
            preparation.streams,
            Truth {
                device: self.device,
                clock,
                started,
            },
        ))
    }
}

struct Truth {
    device: &'static Disturbed,
    clock: Arc<AtomicU64>,
    started: u64,
}

impl Timing for Truth {
    fn start(&mut self, _: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        let mut earliest = submit;
        if idle {
            earliest += self.device.0.lateness(Nanos(self.started) + submit);
        }
        Start {
            earliest,
            gap: Nanos(1_000),
        }
    }

    fn duration(&mut self, task: &Task<'_>, _: Option<CellId>) -> Nanos {
        Nanos(truth(task.batch))
    }

    fn demand(&mut self, task: &Task<'_>) -> Share {
        true_demand(task.batch)
    }

    fn disturb(&mut self, time: Nanos, start: Nanos) -> Nanos {
        let at = self.started + start.0;
        let time = Nanos::round(time.0 as f64 * self.device.0.at(at as f64 / 1e9));
        self.clock.store(at + time.0, Ordering::Relaxed);
        time
    }
}

/// A device that is slower by half for a tenth of the time, in bursts of 0.1 to 3 s.
#[derive(Debug)]
struct Bursts(Vec<(f64, f64)>);

impl Bursts {
    fn new(seed: u64) -> Bursts {
        let mut random = random::sequence(seed, 0, "bursts");
        let mut now = 0.0;
        let bursts = (0..1000).map(|_| {
            let length = random.random_range(0.1..3.0);
            let start = now + 18.0 * length * random.random::<f64>();
            now = start + length;
            (start, now)
        });
        Bursts(bursts.collect())
    }
}

impl Slow for Bursts {
    fn at(&self, seconds: f64) -> f64 {
        let burst = self.0.partition_point(|(_, end)| *end <= seconds);
        if self.0[burst].0 <= seconds { 1.5 } else { 1.0 }
    }
}

/// A device that varies in speed by a tenth: it goes from slowest to fastest in this number of seconds, and back.
#[derive(Debug)]
struct Drift(f64);

impl Slow for Drift {
    fn at(&self, seconds: f64) -> f64 {
        1.05 + 0.05 * (seconds / self.0 * std::f64::consts::PI).cos()
    }
}

fn made(slow: Box<dyn Slow>, repeats: u32) -> (Vec<u32>, ProfileReport) {
    let executor: &'static dyn Executor =
        Box::leak(Box::new(&*Box::leak(Box::new(Disturbed(slow)))));
    let spec = Spec {
        hidden: 1,
        embedding: 1,
        vocabulary: 2,
        seed: 1,
        weights: None,
    };
    let wanted = ProfileTarget::from_cells(Model::Lstm, spec, cells_of(&Model::Lstm), &[]);
    let batches = executor.profile_batches().to_vec();
    let settings = ProfileSettings {
        batches: batches.clone(),
        repeats,
        workers: 1,
        executor,
        precision: Precision::F32,
        step_kernels: StepKernels::Auto,
        persistent: None,
    };
    let mut session = Session::new(vec![wanted], settings).unwrap();
    session.measure(&AtomicBool::new(false), &|| ()).unwrap();
    (batches, session.report("batchlab profile"))
}

/// The times of the table, divided by the true ones.
fn profiled(slow: Box<dyn Slow>, repeats: u32) -> Vec<(u32, f64)> {
    let (batches, made) = made(slow, repeats);
    let table = CostTable::parse(&made.csv, "costs").unwrap();
    let table = table
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    let time = |batch| {
        table
            .runs(
                &Step {
                    cell: CellId(0),
                    batch,
                    times: 1,
                    input: 0,
                },
                MemberKind::Nodes,
            )
            .time
            .0
    };
    batches
        .into_iter()
        .map(|batch| (batch, time(batch) as f64 / truth(batch) as f64))
        .collect()
}

#[track_caller]
fn within_a_percent(ratios: &[(u32, f64)], level: f64) {
    let off: Vec<_> = ratios
        .iter()
        .filter(|(_, ratio)| (ratio / level - 1.0).abs() > 0.01)
        .collect();
    assert!(off.is_empty(), "{off:?}");
}

/// A device of constant speed, which its streams share.
#[derive(Debug)]
struct Shared;

impl Slow for Shared {
    fn at(&self, _: f64) -> f64 {
        1.0
    }

    fn shares_streams(&self) -> bool {
        true
    }
}

#[test]
fn steps_on_four_streams_give_the_demands_of_a_shared_device() {
    let (batches, made) = made(Box::new(Shared), 2);
    let table = CostTable::parse(&made.csv, "costs").unwrap();
    let table = table
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    for batch in batches {
        let found = table.demand(&Step {
            cell: CellId(0),
            batch,
            times: 1,
            input: 0,
        });
        let ratio = found.0 as f64 / true_demand(batch).0 as f64;
        assert!((ratio - 1.0).abs() < 1e-3, "{batch}: {ratio}");
    }
    let said = "lstm.demand: parts per million of the device, from steps on four streams at once; two streams take what they say";
    assert!(
        made.notes.iter().any(|note| note.starts_with(said)),
        "{:?}",
        made.notes
    );
    let alone = self::made(Box::new(Drift(100.0)), 1).1;
    assert!(!alone.csv.contains("demand"), "on threads of their own");
}

/// A device whose host starts tasks 2 ms late in a tenth of the time, for 50 ms each.
#[derive(Debug)]
struct LateHost;

impl Slow for LateHost {
    fn at(&self, _: f64) -> f64 {
        1.0
    }

    fn lateness(&self, at: Nanos) -> Nanos {
        let phase = at.0 / 50_000_000;
        let is_late = random::split_mix(phase).is_multiple_of(10);
        Nanos(if is_late { 2_000_000 } else { 0 })
    }
}

#[test]
fn a_record_has_the_starts_that_were_late() {
    let (_, made) = made(Box::new(LateHost), 3);
    let mut late = Vec::new();
    let mut spread = std::collections::BTreeSet::new();
    for row in made.noise.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        if let [at, _, "", _, ns] = cells[..] {
            late.push(ns.parse::<i64>().unwrap());
            spread.insert(at.parse::<u64>().unwrap() / 1_000_000_000);
        }
    }
    assert!(
        late.iter().all(|ns| [0, 1_999_000].contains(ns)),
        "{late:?}"
    );
    let share = late.iter().filter(|ns| **ns > 0).count() as f64 / late.len() as f64;
    assert!((0.05..0.15).contains(&share), "{share} of {}", late.len());
    assert!(
        late.len() > 500 && spread.len() > 5,
        "{} starts in {spread:?}",
        late.len()
    );
    let said = made
        .notes
        .iter()
        .find(|note| note.starts_with("starts: "))
        .unwrap();
    assert!(said.ends_with("the latest 1999.0 us"), "{said}");
}

#[test]
fn bursts_spoil_no_row() {
    for seed in 1..=10 {
        within_a_percent(&profiled(Box::new(Bursts::new(seed)), 5), 1.0);
    }
}

#[test]
fn a_slow_drift_moves_all_rows_alike() {
    let rows = profiled(Box::new(Drift(100.0)), 5);
    let level = rows.iter().map(|(_, ratio)| ratio).sum::<f64>() / rows.len() as f64;
    assert!((1.0..1.1).contains(&level), "{level}");
    within_a_percent(&rows, level);
}
