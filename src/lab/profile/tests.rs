//! Profiles of a simulated device whose speed varies.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rand::RngExt as _;

use super::report::ProfileReport;
use super::*;
use crate::base::precision::Precision;
use crate::base::step_kernels::StepKernels;
use crate::base::units::{Nanos, Share};
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::cost::task_times::TaskTimes;
use crate::core::cost::timing::{Start, Timing};
use crate::core::cost::{CostModel as _, Extra, MemberKind};
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
    profile_of(executor, None, repeats, f64::INFINITY)
}

/// The batch sizes of the rows, and the profile.
fn profile_of(
    executor: &'static dyn Executor,
    batches: Option<Vec<u32>>,
    repeats: u32,
    seconds: f64,
) -> (Vec<u32>, ProfileReport) {
    let spec = Spec {
        hidden: 1,
        embedding: 1,
        vocabulary: 2,
        seed: 1,
        weights: None,
    };
    let wanted = ProfileTarget::from_cells(Model::Lstm, spec, cells_of(&Model::Lstm), &[]);
    let settings = ProfileSettings {
        batches,
        repeats,
        seconds,
        workers: 1,
        executor,
        precision: Precision::F32,
        step_kernels: StepKernels::Auto,
        persistent: None,
    };
    let mut session = Session::new(vec![wanted], settings).unwrap();
    session.measure(&AtomicBool::new(false), &|_| ()).unwrap();
    let batches = session.batches().to_vec();
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
    // A late start takes longer, so a tenth of the time has fewer than a tenth of the starts.
    let mut times = [0, 0];
    for ns in &late {
        times[usize::from(*ns > 0)] += truth(16) + *ns as u64;
    }
    let share = times[1] as f64 / times.iter().sum::<u64>() as f64;
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

/// A device whose tasks take the times of a table, as a host sees those of a GPU.
#[derive(Debug)]
struct Tabled(&'static str);

impl Executor for Tabled {
    fn name(&self) -> &'static str {
        "tabled"
    }

    fn about(&self) -> &'static str {
        "A simulation"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            host_observed_times: true,
            ..Abilities::default()
        }
    }

    fn load(&self, network: Network, _: &WorkerSettings) -> Result<Box<dyn Loaded>> {
        let table = CostTable::parse(self.0, "truth")?;
        let cells = network.model().cell_types();
        Ok(Box::new(TabledEngine {
            costs: table.costs_for(&cells, Overhead::default())?,
            network: Arc::new(network),
        }))
    }
}

struct TabledEngine {
    costs: TableCosts,
    network: Arc<Network>,
}

impl Loaded for TabledEngine {
    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn describe(&self) -> String {
        "simulated".into()
    }

    fn start<'e>(
        &'e mut self,
        requests: &Requests,
        preparation: &Preparation,
        _: Option<std::sync::mpsc::Sender<StepTime>>,
    ) -> Result<Box<dyn Backend + 'e>> {
        let costs = self.costs.clone();
        let timing = TabledTimes {
            times: TaskTimes::new(costs.clone(), &requests.graphs),
            costs,
        };
        Ok(sim::backend(1, preparation.streams, timing))
    }
}

struct TabledTimes {
    costs: TableCosts,
    times: TaskTimes,
}

impl Timing for TabledTimes {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        self.times.start(task, submit, idle)
    }

    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos {
        // Trains name no requests.
        if task.requests.is_empty() && task.steps.len() == 1 {
            return self.costs.cell(&task.steps[0]);
        }
        self.times.duration(task, before)
    }
}

#[test]
fn what_whole_requests_and_decisions_cost_on_a_gpu_is_found() {
    let truth = "cell,batch,ns\nlstm,1,100000\nlstm,1001,1100000\nlaunch,1,5000\nlaunch,2,5000\nlaunch.gather,1,9000\n\
                 launch.gather,1001,109000\nlaunch.further,1,700\nlaunch.further,2,700\nwhole,1,3000\nwhole,1001,13000\n\
                 whole.shrink,1,4000\nwhole.shrink,1001,6000\n";
    let executor = Box::leak(Box::new(Tabled(truth)));
    let (batches, made) = profile_of(executor, Some(vec![1, 8, 64]), 2, f64::INFINITY);
    assert_eq!(batches, [1, 8, 64]);
    let table = CostTable::parse(&made.csv, "costs").unwrap();
    let cells = Model::Lstm.cell_types();
    let costs = table.costs_for(&cells, Overhead::default()).unwrap();
    let device = CostTable::parse(truth, "truth").unwrap();
    let device = device.costs_for(&cells, Overhead::default()).unwrap();
    let step = |batch| Step {
        cell: CellId(0),
        batch,
        times: 1,
        input: 0,
    };
    let all = |costs: &TableCosts, batch: u32| {
        [
            costs.launch(batch, true),
            costs.further_launch(batch).unwrap_or_default(),
            costs.extra(Extra::Requests, batch),
            costs.row_change(&step(batch), &[step(batch + 1)]).device,
            costs.cell(&step(batch)),
        ]
    };
    for batch in [4, 8, 16, 64] {
        for (found, wanted) in all(&costs, batch).into_iter().zip(all(&device, batch)) {
            let apart = found.0.abs_diff(wanted.0);
            assert!(
                apart <= 30,
                "{found} instead of {wanted} at {batch}: {}",
                made.csv
            );
        }
    }
    assert!(
        made.largest_miss.is_some_and(|(miss, _)| miss < 0.001),
        "{made:?}"
    );
    assert!(made.csv.contains("\nwhole.host,64,0,"), "{}", made.csv);
    assert_eq!(made.stair_ends.last(), Some(&64));
}

#[test]
fn a_list_that_misses_a_stair_says_so() {
    let (batches, made) = made(Box::new(Drift(1e9)), 1);
    assert!(batches.len() < 100, "{batches:?}");
    assert!(
        made.largest_miss.is_some_and(|(miss, _)| miss < 0.1),
        "{:?}",
        made.notes
    );
    let disturbed = Disturbed(Box::new(Drift(1e9)));
    let executor: &'static Disturbed = Box::leak(Box::new(disturbed));
    let executor = Box::leak(Box::new(executor));
    let (batches, made) = profile_of(executor, Some(vec![1, 2, 4, 8, 16]), 1, f64::INFINITY);
    assert_eq!(batches, [1, 2, 4, 8, 16]);
    let (miss, size) = made.largest_miss.unwrap();
    // A line from 8 rows (two stairs) to 16 (three) is off by up to a fifth.
    assert!(miss > 0.05, "{miss}");
    let said = |part: &str| made.notes.iter().any(|note| note.contains(part));
    assert!(said("lines between rows: off by at most "));
    let sentence = made.usability.sentence();
    let percent = format!("{:.1} %", 100.0 * miss);
    for part in [
        "the profile is not usable: ",
        &format!("lines between rows are off by up to {percent}, more than 5 %"),
        &format!("; add sizes around {size} to --batches, or leave --batches out"),
    ] {
        assert!(sentence.contains(part), "{part} in {sentence}");
    }
    // The table tells its readers.
    let table = CostTable::parse(&made.csv, "costs.csv").unwrap();
    assert!(table.remark().unwrap().contains(&percent), "{}", made.csv);
    assert!(made.csv.contains("\nlstm,16,") && !made.csv.contains("\nlstm,12,"));
}

#[test]
fn a_profile_without_time_measures_powers_of_two() {
    let disturbed = Disturbed(Box::new(Drift(1e9)));
    let executor: &'static Disturbed = Box::leak(Box::new(disturbed));
    let executor = Box::leak(Box::new(executor));
    let (batches, made) = profile_of(executor, None, 1, 0.0);
    assert_eq!(batches, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    assert_eq!(made.largest_miss, None);
    let said = |part: &str| made.notes.iter().any(|note| note.contains(part));
    assert!(said("no size was measured between those of the rows") && !said("visited again"));
}
