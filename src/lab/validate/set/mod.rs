//! Validates a scenario: runs its policies for real, at loads around their capacity, in turn with pieces of a profile;
//! then simulates them with that profile, its costs and its noise.

pub mod report;
pub mod time_plan;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use statrs::statistics::{Data, Median as _, OrderStatistics as _};

use super::compare::{Comparison, compare};
use super::ledger::{Ledger, replay_with_ledger};
use super::results::{RecordedPoint, Results};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::units::Rate;
use crate::core::cost::table::TableCosts;
use crate::core::policy::registry::Registry;
use crate::core::record::RecordOptions;
use crate::core::summary::stats::prediction;
use crate::core::summary::{Summary, summarize};
use crate::lab::figures;
use crate::lab::results::columns::Metric;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target::Target;
use crate::lab::run::time_budget::TimeBudget;
use crate::lab::run::{self, Run, RunOptions, RunReport, prepare};
use crate::lab::scenario::{ArrivalSpec, Input, Load, LoadPoint, PolicyEntry, Scenario};

/// The runs of a validation.
#[derive(Clone, Debug)]
pub struct ValidationPlan {
    pub out: PathBuf,
    pub target: SelectedBackend,
    /// The loads, in percent of a policy's capacity.
    pub loads: Vec<u32>,
    pub repeats: u32,
    pub seconds: f64,
}

/// A policy of the scenario, with its loads.
#[derive(Clone, Debug)]
pub struct PolicyLoads {
    /// The scenario with this policy only.
    pub scenario: Scenario,
    pub capacity: Rate,
    pub rates: Vec<Rate>,
}

/// The files from which the simulator takes the times of the device.
#[derive(Clone, Debug)]
pub struct DeviceFiles {
    pub costs: PathBuf,
    pub noise: Option<PathBuf>,
}

/// The results for one policy at one load.
#[derive(Clone, Debug)]
pub struct ValidationRow {
    pub scenario: String,
    pub policy: String,
    pub load: u32,
    pub rate: Rate,
    /// The figures of the metrics [`FIGURES`].
    pub figures: Vec<ValidationFigure>,
    /// The ledger, if the replay of the recorded run decides the same.
    pub ledger: Option<Ledger>,
    /// Whether all requests of the real runs were handed over in time, if known.
    pub in_time: Option<bool>,
}

/// The values of a metric in the real runs, and in simulations of the same requests that differ in noise only.
#[derive(Clone, Debug)]
pub struct ValidationFigure {
    pub metric: Metric,
    pub real: Vec<f64>,
    pub simulated: Vec<f64>,
    /// The permitted difference of the medians in percent.
    pub bound: Option<f64>,
}

/// The metrics that are compared.
pub const FIGURES: [Metric; 3] = [Metric::Mean, Metric::P99, Metric::Throughput];

/// The permitted difference of simulated means and 99th percentiles in percent, up to [`BOUND_UP_TO`].
pub const BOUNDS: [(Metric, f64); 2] = [(Metric::Mean, 3.0), (Metric::P99, 5.0)];

/// The difference from the simulated median, in percent, up to which the figure of a real run counts as predicted.
pub const NEAR: f64 = 5.0;

/// The share of the figures of real runs that should be predicted, in percent.
pub const GOAL: f64 = 90.0;

/// The load in percent of the capacity up to which the bounds hold. Above it, a queue grows.
pub const BOUND_UP_TO: u32 = 90;

/// The number of simulations with noise, which is enough for an interval of 95 %.
const SIMULATIONS: u32 = 200;

/// The number of simulations that run in any case if time is short.
const FEWEST_SIMULATIONS: u32 = 40;

/// The smallest number of requests, which is enough for a 99th percentile.
const LEAST_REQUESTS: f64 = 2000.0;

/// Checks that a scenario can be validated: it must draw its requests.
pub fn check(scenario: &Scenario) -> Result<()> {
    set_arrivals(&mut scenario.clone(), ArrivalSpec::Offline {})
}

/// The policies of a scenario, each with loads around its capacity.
pub fn parts(
    scenario: &Scenario,
    costs: &Path,
    plan: &ValidationPlan,
    stop: &AtomicBool,
) -> Result<Vec<PolicyLoads>> {
    let one = |policy: &PolicyEntry| {
        let name = format!("{}-{}", scenario.name, folder_name(&policy.label));
        let mut part = Scenario {
            name,
            policies: vec![policy.clone()],
            ..scenario.clone()
        };
        set_costs(&mut part, costs);
        let capacity = capacity(&part, stop)?;
        let rates: Vec<Rate> = plan
            .loads
            .iter()
            .map(|load| round(capacity.0 * f64::from(*load) / 100.0))
            .collect();
        set_arrivals(
            &mut part,
            ArrivalSpec::Poisson {
                rates: rates.clone(),
            },
        )?;
        if let Load::Drawn { requests, .. } = &mut part.workload.load {
            *requests = (capacity.0 * plan.seconds).max(LEAST_REQUESTS) as u64;
        }
        Ok(PolicyLoads {
            scenario: part,
            capacity,
            rates,
        })
    };
    scenario.policies.iter().map(one).collect()
}

fn input(path: &Path) -> Input {
    Input::from(path.to_string_lossy().into_owned())
}

/// Gives a scenario of one policy its costs.
fn set_costs(scenario: &mut Scenario, costs: &Path) {
    let costs = input(costs);
    scenario.set_costs(&costs);
    scenario.device.costs = Some(costs);
}

/// The throughput of a scenario's only policy if all requests arrive at the start.
fn capacity(scenario: &Scenario, stop: &AtomicBool) -> Result<Rate> {
    let mut offline = scenario.clone();
    set_arrivals(&mut offline, ArrivalSpec::Offline {})?;
    let (inputs, device) = prepare(&offline, SelectedBackend::SIM)?;
    let run = Run {
        policy: 0,
        load: LoadPoint::Offline,
        replication: 0,
    };
    let ran = device.execute(&inputs, &run, RecordOptions::default(), stop)?;
    let summary = summarize(&ran.record, &inputs.measure(run.load));
    let none = || {
        Error::input(format!(
            "{}: too few requests to tell the capacity",
            scenario.file.display()
        ))
    };
    if ran.interrupted {
        Err(Error::Interrupted)
    } else {
        summary.throughput.ok_or_else(none)
    }
}

fn set_arrivals(scenario: &mut Scenario, spec: ArrivalSpec) -> Result<()> {
    match &scenario.workload.load {
        Load::Drawn { .. } => {
            scenario.arrivals = Some(spec);
            Ok(())
        }
        Load::Trace { .. } => Err(Error::input(format!(
            "{}: workload.trace: validation chooses the rates itself, and a trace has its own; give workload.dataset",
            scenario.file.display()
        ))),
    }
}

/// A rate with three significant digits, for names of folders.
fn round(rate: f64) -> Rate {
    let scale = 10f64.powi(2 - rate.log10().floor() as i32);
    Rate((rate * scale).round() / scale)
}

fn run(
    scenario: &Scenario,
    plan: &ValidationPlan,
    (target, replications): (SelectedBackend, u32),
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<RunReport> {
    let out = plan.out.join(target.name());
    let options = RunOptions {
        backend: target,
        out,
        replications,
        resume: false,
        shard: None,
    };
    let report = run::run(scenario, &options, stop, progress)?;
    if !report.is_interrupted() {
        figures::draw(scenario, &report.folder.path, &[])?;
    }
    match (report.is_interrupted(), report.failures.first()) {
        (true, _) => Err(Error::Interrupted),
        (_, Some(failure)) => Err(Error::failure(failure)),
        _ => Ok(report),
    }
}

/// Carries out the real runs, and calls `piece` after each.
pub fn real(
    part: &PolicyLoads,
    plan: &ValidationPlan,
    stop: &AtomicBool,
    piece: &(dyn Fn() -> Result<()> + Sync),
) -> Result<RunReport> {
    let failed = Mutex::new(None);
    let after = || {
        if let Err(error) = piece() {
            failed
                .lock()
                .expect("storing an error does not panic")
                .get_or_insert(error);
        }
    };
    let report = run(
        &part.scenario,
        plan,
        (plan.target, plan.repeats),
        stop,
        &after,
    );
    failed
        .into_inner()
        .expect("storing an error does not panic")
        .map_or(report, Err)
}

/// Simulates the real runs, and compares them. Each point is simulated for about this number of seconds, at least
/// `FEWEST_SIMULATIONS` and at most `SIMULATIONS` times.
pub fn simulate(
    part: &PolicyLoads,
    real: &RunReport,
    known: &DeviceFiles,
    plan: &ValidationPlan,
    seconds: f64,
    registry: &Registry,
    stop: &AtomicBool,
) -> Result<(Comparison, Vec<ValidationRow>)> {
    let mut scenario = part.scenario.clone();
    set_costs(&mut scenario, &known.costs);
    let exact = run(&scenario, plan, (SelectedBackend::SIM, 1), stop, &|| ())?;
    let comparison = compare(&real.folder.path, &exact.folder.path)?;
    scenario.device.noise = known.noise.as_deref().map(input);
    let (inputs, device) = prepare(&scenario, SelectedBackend::SIM)?;
    let _requests = inputs.requests(0)?; // Drawn once for all.
    let replayed = replay_points(&real.folder.path, device.costs(0), registry)?;
    let line = |(load, rate): (&u32, &Rate)| {
        let point = rate.to_string();
        let row = real
            .rows
            .iter()
            .find(|row| row.point == point)
            .expect("each load has been run");
        let simulated = simulate_with_noise(&inputs, &device, *rate, seconds, stop)?;
        let figure = |metric: Metric| {
            let bound = BOUNDS
                .iter()
                .find(|(of, _)| *of == metric && *load <= BOUND_UP_TO)
                .map(|(_, bound)| *bound);
            let values =
                |runs: &[Summary]| runs.iter().filter_map(|run| metric.value(run)).collect();
            ValidationFigure {
                metric,
                real: values(&row.runs),
                simulated: values(&simulated),
                bound,
            }
        };
        Ok(ValidationRow {
            scenario: scenario.name.clone(),
            policy: scenario.policies[0].label.clone(),
            load: *load,
            rate: *rate,
            figures: FIGURES.map(figure).to_vec(),
            ledger: replayed
                .iter()
                .find(|(of, _)| *of == point)
                .and_then(|(_, ledger)| ledger.clone()),
            in_time: row.lateness().and_then(|late| late.valid),
        })
    };
    let lines = plan
        .loads
        .iter()
        .zip(&part.rates)
        .map(line)
        .collect::<Result<_>>()?;
    Ok((comparison, lines))
}

/// Simulates the requests of the real runs several times, each time with other noise.
fn simulate_with_noise(
    inputs: &RunInputs<'_>,
    device: &Target,
    rate: Rate,
    seconds: f64,
    stop: &AtomicBool,
) -> Result<Vec<Summary>> {
    let budget = TimeBudget::new(seconds);
    let run = Run {
        policy: 0,
        load: LoadPoint::Rate(rate),
        replication: 0,
    };
    let one = |replication: u32| {
        let mut prepared = inputs.prepare(&run, RecordOptions::default())?;
        let backend =
            device.start_simulator(inputs, &Run { replication, ..run }, &prepared.requests);
        prepared.serve(&mut *backend.expect("a simulation"), stop)?;
        Ok(summarize(&prepared.record, &inputs.measure(run.load)))
    };
    let count = if inputs.scenario.device.noise.is_some() {
        SIMULATIONS
    } else {
        1
    };
    let mut runs: Vec<Summary> = Vec::new();
    for first in (0..count).step_by(FEWEST_SIMULATIONS as usize) {
        if first > 0 && budget.remaining_seconds() == 0.0 {
            break;
        }
        let last = count.min(first + FEWEST_SIMULATIONS);
        let more: Result<Vec<Summary>> = (first..last).into_par_iter().map(one).collect();
        runs.extend(more?);
    }
    Ok(runs)
}

/// Replays each point. There is a ledger only if the replay equals the logs.
fn replay_points(
    folder: &Path,
    model: Option<&TableCosts>,
    registry: &Registry,
) -> Result<Vec<(String, Option<Ledger>)>> {
    let Results {
        scenarios, points, ..
    } = Results::open(folder, registry)?;
    let inputs = RunInputs::new(&scenarios[0])?;
    let one = |point: &RecordedPoint| {
        Ok((
            point.run.load.to_string(),
            replay_with_ledger(&inputs, point, model)?.1,
        ))
    };
    points.par_iter().map(one).collect()
}

impl ValidationRow {
    /// Whether the replay of the recorded run decides the same.
    pub fn same_decisions(&self) -> bool {
        self.ledger.is_some()
    }
}

impl ValidationFigure {
    /// The medians of the real and the simulated runs, if both have values.
    pub fn medians(&self) -> Option<[f64; 2]> {
        let medians =
            [&self.real, &self.simulated].map(|values| Data::new(values.clone()).median());
        if medians.iter().any(|median| !median.is_finite()) {
            return None;
        }
        Some(medians)
    }

    /// The difference of the medians in percent of the real one.
    pub fn difference(&self) -> Option<f64> {
        self.medians()
            .map(|[real, simulated]| 100.0 * (simulated / real - 1.0))
    }

    /// The half-width of the 95 % prediction interval of one more real run, in percent of the median.
    pub fn spread(&self) -> Option<f64> {
        let [real, _] = self.medians()?;
        prediction(&self.real)?.relative_percent(real)
    }

    /// The interval that contains 95 % of the simulated runs, or `None` without noise.
    pub fn interval(&self) -> Option<[f64; 2]> {
        if self.simulated.len() <= 1 {
            return None;
        }
        Some([0.025, 0.975].map(|share| Data::new(self.simulated.clone()).quantile(share)))
    }

    /// The number of real runs in the interval.
    pub fn inside(&self) -> usize {
        let Some([low, high]) = self.interval() else {
            return 0;
        };
        let interval = low..=high;
        self.real
            .iter()
            .filter(|value| interval.contains(*value))
            .count()
    }

    /// The number of real runs that are in the interval, or differ from the simulated median by at most [`NEAR`] percent.
    pub fn count_predicted(&self) -> usize {
        let Some([_, simulated]) = self.medians() else {
            return 0;
        };
        let near = NEAR / 100.0 * simulated;
        let [low, high] = self.interval().unwrap_or([simulated; 2]);
        let accepted = low.min(simulated - near)..=high.max(simulated + near);
        self.real
            .iter()
            .filter(|value| accepted.contains(*value))
            .count()
    }

    /// The width of the interval relative to that of one more real run.
    pub fn relative_width(&self) -> Option<f64> {
        let [real, _] = self.medians()?;
        let [low, high] = self.interval()?;
        self.spread()
            .filter(|spread| *spread > 0.0)
            .map(|spread| 50.0 * (high - low) / (spread * real))
    }

    /// Whether the medians agree within the bound, or `None` if real runs do not agree with each other within it.
    pub fn agrees(&self) -> Option<bool> {
        let bound = self
            .bound
            .filter(|bound| self.spread().is_some_and(|spread| spread <= *bound))?;
        self.difference()
            .map(|difference| difference.abs() <= bound)
    }

    /// Says whether the real median is in the interval, and whether the medians agree, as far as this is known.
    pub fn verdict(&self) -> String {
        let inside = self
            .medians()
            .zip(self.interval())
            .map(|([real, _], [low, high])| (low..=high).contains(&real));
        let words = [
            inside.map(|inside| if inside { "inside" } else { "outside" }),
            self.agrees()
                .map(|agrees| if agrees { "agree" } else { "off" }),
        ];
        let words = words.into_iter().flatten().filter(|_| self.bound.is_some());
        words.collect::<Vec<_>>().join("; ")
    }
}
