//! Validates a scenario: profiles its cells, then runs its policies for real and simulated with that profile, at loads
//! around their capacity.

pub mod report;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::compare::{Compared, Comparison, Row, Verdict, compare};
use super::ledger::{Ledger, Signature, ledger};
use super::recorded::Recording;
use super::replay::replay;
use super::results::{Point, Results};
use crate::backend::watched::Watcher;
use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::experiment::inputs::Inputs;
use crate::experiment::{self, Options, Run, prepare};
use crate::files::folder_name;
use crate::metrics::recorder::Keep;
use crate::metrics::summary::summarize;
use crate::policy::registry::Registry;
use crate::results::columns::Metric;
use crate::scenario::{ArrivalSpec, Input, Load, LoadPoint, Scenario};
use crate::units::Rate;

#[derive(Clone, Debug)]
pub struct Plan {
    pub out: PathBuf,
    pub target: Target,
    /// The loads, in percent of a policy's capacity.
    pub loads: Vec<u32>,
    pub repeats: u32,
    pub seconds: f64,
}

/// A policy of the scenario, with its loads.
#[derive(Clone, Debug)]
pub struct Part {
    /// With only this policy.
    pub scenario: Scenario,
    pub capacity: Rate,
    pub rates: Vec<Rate>,
}

/// One policy at one load.
#[derive(Clone, Debug)]
pub struct Line {
    pub scenario: String,
    pub policy: String,
    pub load: u32,
    pub rate: Rate,
    /// Mean latency, 99th percentile of latency, and throughput.
    pub figures: Vec<Row>,
    /// If the replay of the recorded run decides the same.
    pub ledger: Option<Ledger>,
    /// Whether all requests of the real runs were handed over in time, if known.
    pub in_time: Option<bool>,
}

pub const FIGURES: [Metric; 3] = [Metric::Mean, Metric::P99, Metric::Throughput];

/// The permitted difference of simulated means and 99th percentiles in percent, up to [`BOUND_UP_TO`].
pub const BOUNDS: [(Metric, f64); 2] = [(Metric::Mean, 3.0), (Metric::P99, 5.0)];

/// The load in percent of the capacity up to which the bounds hold. Above it, a queue grows.
pub const BOUND_UP_TO: u32 = 90;

/// Enough for a 99th percentile.
const LEAST_REQUESTS: f64 = 2000.0;

/// The scenario must draw its requests.
pub fn check(scenario: &Scenario) -> Result<()> {
    offline(scenario).map(drop)
}

/// With all requests there from the start.
fn offline(scenario: &Scenario) -> Result<Scenario> {
    let mut offline = scenario.clone();
    arrive(&mut offline, ArrivalSpec::Offline {})?;
    Ok(offline)
}

pub fn parts(scenario: &Scenario, costs: &Path, plan: &Plan, stop: &AtomicBool) -> Result<Vec<Part>> {
    let costs = Input::from(costs.to_string_lossy().into_owned());
    let one = |policy: usize| {
        let mut part = scenario.clone();
        let mut entry = part.policies.swap_remove(policy);
        entry.costs = Some(costs.clone());
        part.device.costs = Some(costs.clone());
        part.name = format!("{}-{}", scenario.name, folder_name(&entry.label));
        part.policies = vec![entry];
        let capacity = capacity(&part, stop)?;
        let rates: Vec<Rate> = plan.loads.iter().map(|load| rounded(capacity.0 * f64::from(*load) / 100.0)).collect();
        arrive(&mut part, ArrivalSpec::Poisson { rates: rates.clone() })?;
        if let Load::Drawn { requests, .. } = &mut part.workload.load {
            *requests = (capacity.0 * plan.seconds).max(LEAST_REQUESTS) as u64;
        }
        Ok(Part { scenario: part, capacity, rates })
    };
    (0..scenario.policies.len()).map(one).collect()
}

/// The throughput of a scenario's only policy with all requests there from the start.
fn capacity(scenario: &Scenario, stop: &AtomicBool) -> Result<Rate> {
    let offline = offline(scenario)?;
    let (inputs, device) = prepare(&offline, Target::SIM)?;
    let run = Run { policy: 0, load: LoadPoint::Offline, replication: 0 };
    let ran = device.run(&inputs, &run, Keep::default(), stop)?;
    let summary = summarize(&ran.record, &inputs.measure(run.load));
    let none = || Error::input(format!("{}: too few requests to tell the capacity", scenario.file.display()));
    if ran.interrupted { Err(Error::Interrupted) } else { summary.throughput.ok_or_else(none) }
}

fn arrive(scenario: &mut Scenario, spec: ArrivalSpec) -> Result<()> {
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

/// Three significant digits, for names of folders.
fn rounded(rate: f64) -> Rate {
    let scale = 10f64.powi(2 - rate.log10().floor() as i32);
    Rate((rate * scale).round() / scale)
}

pub fn validate(
    part: &Part,
    plan: &Plan,
    registry: &Registry,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<(Comparison, Vec<Line>)> {
    let run = |target: Target, replications| {
        let options = Options {
            target,
            out: plan.out.join(target.name()),
            replications,
            resume: false,
            shard: None,
            stated: Vec::new(),
        };
        let report = experiment::run(&part.scenario, &options, stop, progress)?;
        match (report.interrupted(), report.failures.first()) {
            (true, _) => Err(Error::Interrupted),
            (_, Some(failure)) => Err(Error::failed(format!(
                "request {} of {} failed: {}",
                failure.request, failure.policy, failure.reason
            ))),
            _ => Ok(report),
        }
    };
    let real = run(plan.target, plan.repeats)?;
    let simulated = run(Target::SIM, 1)?;
    let comparison = compare(real.folder.path(), simulated.folder.path())?;
    let replayed = replays(real.folder.path(), part, registry)?;
    let line = |(load, rate): (&u32, &Rate)| {
        let point = rate.to_string();
        let of_point = |row: &&Row| row.place.point == point;
        let figures = FIGURES.map(|figure| {
            let row = comparison.rows.iter().filter(of_point).find(|row| row.metric == Compared::Metric(figure));
            row.cloned().expect("a comparison has a row for each figure")
        });
        let late = real.rows.iter().find(|row| row.point == point).and_then(|row| row.lateness());
        Line {
            scenario: part.scenario.name.clone(),
            policy: part.scenario.policies[0].label.clone(),
            load: *load,
            rate: *rate,
            figures: figures.to_vec(),
            ledger: replayed.iter().find(|(of, _)| *of == point).and_then(|(_, ledger)| ledger.clone()),
            in_time: late.and_then(|late| late.valid),
        }
    };
    let lines = plan.loads.iter().zip(&part.rates).map(line).collect();
    Ok((comparison, lines))
}

/// With a ledger if the replay equals the logs.
fn replays(folder: &Path, part: &Part, registry: &Registry) -> Result<Vec<(String, Option<Ledger>)>> {
    let Results { scenarios, points, .. } = Results::open(folder, registry)?;
    let inputs = Inputs::new(&scenarios[0])?;
    let (_, simulated) = prepare(&part.scenario, Target::SIM)?;
    let model = simulated.costs(0).expect("a simulation has costs");
    let one = |point: &Point| {
        let recording = Recording::read(&point.folder, inputs.cells())?;
        let mut signatures = Vec::new();
        let replay = replay(
            &inputs,
            point,
            &recording,
            Watcher { members: false, see: &mut |_, task, _| signatures.push(Signature::of(task)) },
        )?;
        let same = replay.difference.is_none();
        let ledger = same.then(|| ledger(&inputs, point, &recording, &replay, &signatures, model)).transpose()?;
        Ok((point.run.load.to_string(), ledger))
    };
    points.par_iter().map(one).collect()
}

impl Line {
    /// In the replay of the recorded run.
    pub fn same_decisions(&self) -> bool {
        self.ledger.is_some()
    }

    pub fn judgements(&self) -> impl Iterator<Item = Judgement> {
        self.figures.iter().map(|row| self.judgement(row))
    }

    pub fn judgement(&self, row: &Row) -> Judgement {
        let bound = BOUNDS.iter().find(|(figure, _)| row.metric == Compared::Metric(*figure)).map(|(_, bound)| *bound);
        match (row.difference, bound) {
            _ if self.load > BOUND_UP_TO => Judgement::NoBound,
            (_, None) => Judgement::NoBound,
            (Some(difference), Some(bound)) if difference.abs() <= bound => Judgement::Within,
            (Some(_), _) if row.verdict() == Verdict::Inside => Judgement::Unclear,
            _ => Judgement::Off,
        }
    }
}

/// A simulated figure relative to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    NoBound,
    Within,
    /// Outside, but by less than real runs differ.
    Unclear,
    /// Outside, by more than real runs differ.
    Off,
}

impl Judgement {
    pub fn name(self) -> &'static str {
        match self {
            Judgement::NoBound => "",
            Judgement::Within => "ok",
            Judgement::Unclear => "unclear",
            Judgement::Off => "off",
        }
    }
}
