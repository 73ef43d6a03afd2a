//! `batchlab validate`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::{
    Common, compare, conclude, find, number_in, profile, refuse_equal_names, stop_on_ctrl_c,
};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::shipped::Shipped;
use crate::base::units::Nanos;
use crate::core::cost::table::CostTable;
use crate::core::policy::registry::Registry;
use crate::lab::profile::Session;
use crate::lab::run::executor::{Executor, Executors, SelectedBackend, Verify};
use crate::lab::run::{RunReport, prepare};
use crate::lab::scenario::Scenario;
use crate::lab::usability::describe_costs;
use crate::lab::validate::set::time_plan::{ScenarioTime, TimePlan};
use crate::lab::validate::set::{
    self, DeviceFiles, PolicyLoads, ValidationPlan, ValidationRow, report,
};

/// Validate the simulator against this machine
///
/// For each scenario: measures its cells, finds the capacity of each policy, and runs every policy for real at loads
/// from below to above that capacity, with a piece of the profile after each run. Then simulates the same requests with
/// the costs and the noise of the whole profile (costs.csv, noise.csv), many times.
///
/// Writes medians, the spread of the real runs, the interval in which 95 % of the simulated runs are, and whether a
/// replay of the recorded runs results in the same decisions, to validation.txt and validation.csv. Prints the conclusion:
/// how many real runs are in their intervals, how wide these are, how many are near the simulated median or in the
/// interval, and whether the validation is usable. Rates and lengths differ from those of the profile.
///
/// With --minutes the whole validation takes about that long: it makes fewer and shorter real runs, a shorter profile and
/// fewer simulations. Each scenario gets time in proportion to its policies. The plan is printed before the
/// first measurement.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenarios that draw their requests, files or names [default: those of validate, on GPUs those of validate/gpu]
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// The processor of the real runs
    #[arg(long, default_value = "cpu")]
    pub backend: String,

    /// Loads in percent of each policy's capacity [default: 50,70,90,100,120, with --minutes 50,90]
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,…",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub loads: Vec<u32>,

    /// Real runs of each point; the spread needs at least two [default: 5, with --minutes 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub repeats: Option<u32>,

    /// Duration of a run at capacity [default: 3]
    #[arg(long, value_parser = number_in(0.01..=100_000.0), conflicts_with = "minutes")]
    pub seconds: Option<f64>,

    /// Minutes for the whole validation; real runs, profiles and simulations are shortened to fit
    #[arg(long, value_parser = number_in(0.01..=100_000.0))]
    pub minutes: Option<f64>,

    /// An existing cost table for all scenarios, instead of measuring one for each
    #[arg(long, value_name = "COSTS.csv")]
    pub costs: Option<PathBuf>,

    /// The noise record of that profile [default: none, so that all simulations of a point are equal]
    #[arg(long, value_name = "NOISE.csv", requires = "costs")]
    pub noise: Option<PathBuf>,

    /// Exit with code 4 if the validation is not usable: a real run is not valid, or a figure varies by more than 100 %
    /// over the real runs
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub common: Common,
}

/// The loads by default, and those of a call with `--minutes`.
const LOADS: [&[u32]; 2] = [&[50, 70, 90, 100, 120], &[50, 90]];

/// The real runs of a point by default, and those of a call with `--minutes`.
const REPEATS: [u32; 2] = [5, 3];

/// The repeats of the profile before the real runs, and those of a call with `--minutes`.
const PROFILE_REPEATS: [u32; 2] = [2, 1];

/// The duration of a run at capacity, and of a piece of the profile after it, without `--minutes`.
const SECONDS: f64 = 3.0;
const PIECE_SECONDS: f64 = 1.0;

/// Decisions that a replay does not repeat are an error.
pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let common = &args.common;
    let executor = executors.executor(&args.backend)?;
    let set = || {
        executor
            .validation_set()
            .iter()
            .map(PathBuf::from)
            .collect()
    };
    let files = if args.scenarios.is_empty() {
        set()
    } else {
        args.scenarios.clone()
    };
    let scenarios = files
        .iter()
        .map(|file| common.scenario(file, registry))
        .collect::<Result<Vec<_>>>()?;
    refuse_equal_names(scenarios.iter())?;
    let mut time = args
        .minutes
        .map(|minutes| TimePlan::new(minutes, &scenarios, args.costs.is_none()));
    let short = usize::from(time.is_some());
    let target = SelectedBackend::Real(executor, Verify::Sample);
    let mut device = String::new();
    for scenario in &scenarios {
        set::check(scenario)?;
        profile::persistent_of(scenario, executor)?; // The simulation uses them, so the real runs must have them.
        device = prepare(scenario, target)?.1.describe();
    }
    let plan = ValidationPlan {
        out: common.out("validate"),
        target,
        loads: if args.loads.is_empty() {
            LOADS[short].to_vec()
        } else {
            args.loads.clone()
        },
        repeats: args.repeats.unwrap_or(REPEATS[short]),
        seconds: args.seconds.unwrap_or(SECONDS),
    };
    if let Some(time) = &time {
        common.note(time.describe(&scenarios, &plan));
    }
    let stop = stop_on_ctrl_c()?;
    let mut lines: Vec<ValidationRow> = Vec::new();
    for scenario in &scenarios {
        let own_time = time.as_mut().map(|time| time.begin(scenario));
        let (real, known) = run_for_real(
            args,
            executor,
            &plan,
            scenario,
            time.as_mut().zip(own_time.as_ref()),
        )?;
        for (done, (part, real)) in real.iter().enumerate() {
            let points = (scenario.policies.len() - done) * plan.loads.len();
            let seconds = own_time
                .as_ref()
                .map_or(f64::INFINITY, |time| time.simulations(points));
            let simulate = || set::simulate(part, real, &known, &plan, seconds, registry, stop);
            let (comparison, of_part) = common.run_on_threads(simulate)?;
            let folder = plan
                .out
                .join("compared")
                .join(folder_name(&part.scenario.name));
            compare::write(&comparison, &folder)?;
            lines.extend(of_part);
        }
        // The file is written after each scenario, so that results remain if a later one fails.
        report::write(&plan.out, &device, &lines)?;
    }
    common.shown.show(
        || format!("{device}\n{}", report::conclusion(&lines)),
        || report::to_json(&lines),
    )?;
    if let (Some(time), Some(minutes)) = (&time, args.minutes) {
        let used = time.elapsed_seconds() / 60.0;
        common.note(format!(
            "the validation took {used:.1} of {minutes} minutes"
        ));
    }
    common.note(format!(
        "the table in {}, profiles, results and figures beside it",
        plan.out.join("validation.txt").display()
    ));
    match lines.iter().find(|line| !line.same_decisions()) {
        None => conclude(&report::judge(&lines), args.strict, common.quiet),
        Some(ValidationRow { scenario, rate, .. }) => Err(Error::failure(format_args!(
            "{scenario} at {rate}: a replay resulted in other decisions than the recorded run; batchlab replay {} shows the first",
            plan.out.join(target.name()).join(scenario).display()
        ))),
    }
}

/// The real runs of each policy, and the files with the device's costs and noise.
type Ran = (Vec<(PolicyLoads, RunReport)>, DeviceFiles);

fn run_for_real(
    args: &Args,
    executor: &'static dyn Executor,
    plan: &ValidationPlan,
    scenario: &Scenario,
    mut time: Option<(&mut TimePlan, &ScenarioTime)>,
) -> Result<Ran> {
    let common = &args.common;
    let stop = stop_on_ctrl_c()?;
    let folder = plan.out.join(folder_name(&scenario.name));
    let (costs, profile) = match &args.costs {
        Some(costs) => (find(Shipped::Costs, costs, common.quiet)?, None),
        None => {
            common.note(format!("{}: measuring the cells", scenario.name));
            let costs = folder.join("costs-before.csv");
            let repeats = PROFILE_REPEATS[usize::from(time.is_some())];
            let seconds = time
                .as_ref()
                .map_or(f64::INFINITY, |(_, own)| own.profile());
            let quiet = common.quiet;
            let profile =
                profile::before_runs(scenario, executor, repeats, seconds, &costs, quiet)?;
            (costs, Some(Mutex::new(profile)))
        }
    };
    if let Ok(table) = CostTable::read(&costs) {
        describe_costs(&table)
            .iter()
            .for_each(|note| common.note(note));
    }
    let mut known = DeviceFiles {
        costs,
        noise: args.noise.clone(),
    };
    let mut parts = common.run_on_threads(|| set::parts(scenario, &known.costs, plan, stop))?;
    let mut real = Vec::new();
    for place in 0..parts.len() {
        let left = parts.len() - place;
        let part = &mut parts[place];
        let begin = time.as_ref().map_or(0.0, |(_, own)| own.elapsed_seconds());
        let piece = match &time {
            Some((time, own)) => time.fit(part, plan, own, left),
            None => PIECE_SECONDS,
        };
        note_runs(common, part, plan);
        let run = |stop: &AtomicBool, done: &(dyn Fn() + Sync)| {
            let after = || {
                done();
                measure_piece(profile.as_ref(), piece, stop)
            };
            set::real(part, plan, stop, &after)
        };
        let runs = plan.loads.len() * plan.repeats as usize;
        real.push(common.run_with_progress(runs, &part.scenario.name, run)?);
        if let Some((time, own)) = &mut time {
            time.learn(part, plan, piece, own.elapsed_seconds() - begin);
        }
    }
    if let Some(profile) = profile {
        let costs = folder.join("costs.csv");
        let mut profile = profile
            .into_inner()
            .expect("a profile that panics ends the program");
        profile::write(&mut profile, profile::ProfileOutput::File(&costs), true)?;
        known = DeviceFiles {
            noise: Some(costs.with_file_name(profile::NOISE)),
            costs,
        };
    }
    Ok((parts.into_iter().zip(real).collect(), known))
}

fn note_runs(common: &Common, part: &PolicyLoads, plan: &ValidationPlan) {
    let rates: Vec<String> = part.rates.iter().map(ToString::to_string).collect();
    common.note(format!(
        "{}: capacity {:.0} req/s; {} real runs at each of {} req/s",
        part.scenario.name,
        part.capacity.0,
        plan.repeats,
        rates.join(", ")
    ));
}

/// Goes on with the profile, if there is one, for about this number of seconds.
fn measure_piece(profile: Option<&Mutex<Session>>, seconds: f64, stop: &AtomicBool) -> Result<()> {
    let Some(profile) = profile else {
        return Ok(());
    };
    let time = Nanos::from_secs_f64(seconds);
    profile
        .lock()
        .expect("a profile that panics ends the program")
        .measure_piece(time, stop)
}
