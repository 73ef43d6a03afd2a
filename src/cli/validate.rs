//! `batchlab validate`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::{Common, compare, find, number_in, profile, refuse_equal_names, stop_on_ctrl_c};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::shipped::Shipped;
use crate::core::cost::table::CostTable;
use crate::core::policy::registry::Registry;
use crate::lab::run::executor::{Executor, Executors, SelectedBackend, Verify};
use crate::lab::run::{RunReport, prepare};
use crate::lab::scenario::Scenario;
use crate::lab::validate::set::{
    self, DeviceFiles, PolicyLoads, ValidationPlan, ValidationRow, report,
};

/// Validate the simulator against this machine
///
/// For each scenario: measures its cells, finds the capacity of each policy, and runs every policy for real at loads
/// from below to above that capacity, with a piece of the profile after each run. Then simulates the same requests with
/// the costs and the noise of the whole profile (costs.csv, noise.csv), many times.
///
/// Prints medians, the spread of the real runs, the interval in which 95 % of the simulated runs are, and whether a
/// replay of the recorded runs results in the same decisions. The last lines count the real runs in their intervals,
/// and say how wide these are. Rates and lengths differ from those of the profile.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenarios that draw their requests, files or names [default: those of validate, on GPUs those of validate/gpu]
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// The processor of the real runs
    #[arg(long, default_value = "cpu")]
    pub backend: String,

    /// Loads in percent of each policy's capacity
    #[arg(long, value_delimiter = ',', default_value = "50,70,90,100,120", value_name = "PERCENT,…",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub loads: Vec<u32>,

    /// Real runs of each point; the spread needs at least two
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub repeats: u32,

    /// Duration of a run at capacity
    #[arg(long, default_value_t = 3.0, value_parser = number_in(0.01..=100_000.0))]
    pub seconds: f64,

    /// An existing cost table for all scenarios, instead of measuring one for each
    #[arg(long, value_name = "COSTS.csv")]
    pub costs: Option<PathBuf>,

    /// The noise record of that profile [default: none, so that all simulations of a point are equal]
    #[arg(long, value_name = "NOISE.csv", requires = "costs")]
    pub noise: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

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
    let target = SelectedBackend::Real(executor, Verify::Sample);
    let mut device = String::new();
    for scenario in &scenarios {
        set::check(scenario)?;
        profile::persistent_of(scenario, executor)?; // The simulation uses them, so the real runs must have them.
        device = prepare(scenario, target)?.1.describe();
    }
    let Args {
        repeats, seconds, ..
    } = *args;
    let plan = ValidationPlan {
        out: common.out("validate"),
        target,
        loads: args.loads.clone(),
        repeats,
        seconds,
    };
    let stop = stop_on_ctrl_c()?;
    let mut lines: Vec<ValidationRow> = Vec::new();
    for scenario in &scenarios {
        let (real, known) = run_for_real(args, executor, &plan, scenario)?;
        for (part, real) in &real {
            let simulate = || set::simulate(part, real, &known, &plan, registry, stop);
            let (comparison, of_part) = common.run_on_threads(simulate)?;
            let folder = plan
                .out
                .join("compared")
                .join(folder_name(&part.scenario.name));
            compare::write(&comparison, &folder)?;
            lines.extend(of_part);
        }
        // The file is written after each scenario, so that results remain if a later one fails.
        report::write_csv(&plan.out.join("validation.csv"), &lines)?;
    }
    common.shown.show(
        || format!("{device}\n{}", report::table(&lines)),
        || report::to_json(&lines),
    )?;
    common.note(format!(
        "profiles, results and figures in {}",
        plan.out.display()
    ));
    match lines.iter().find(|line| !line.same_decisions()) {
        None => Ok(()),
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
) -> Result<Ran> {
    let common = &args.common;
    let stop = stop_on_ctrl_c()?;
    let folder = plan.out.join(folder_name(&scenario.name));
    let (costs, profile) = match &args.costs {
        Some(costs) => (find(Shipped::Costs, costs, common.quiet)?, None),
        None => {
            common.note(format!("{}: measuring the cells", scenario.name));
            let costs = folder.join("costs-before.csv");
            let profile = profile::before_runs(scenario, executor, &costs, common.quiet)?;
            (costs, Some(Mutex::new(profile)))
        }
    };
    for falling in CostTable::read(&costs).map_or_else(|_| Vec::new(), |table| table.falling()) {
        common.note_falling(&falling);
    }
    let piece = || match &profile {
        Some(profile) => profile
            .lock()
            .expect("a profile that panics ends the program")
            .measure_piece(stop),
        None => Ok(()),
    };
    let mut known = DeviceFiles {
        costs,
        noise: args.noise.clone(),
    };
    let parts = common.run_on_threads(|| set::parts(scenario, &known.costs, plan, stop))?;
    let mut real = Vec::new();
    for part in &parts {
        let name = &part.scenario.name;
        let repeats = plan.repeats;
        let capacity = part.capacity.0;
        let rates = part
            .rates
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        common.note(format!(
            "{name}: capacity {capacity:.0} req/s; {repeats} real runs at each of {rates} req/s"
        ));
        let run = |stop: &AtomicBool, done: &(dyn Fn() + Sync)| {
            let after = || {
                done();
                piece()
            };
            set::real(part, plan, stop, &after)
        };
        real.push(common.run_with_progress(plan.loads.len() * repeats as usize, name, run)?);
    }
    if let Some(profile) = profile {
        let costs = folder.join("costs.csv");
        let mut profile = profile
            .into_inner()
            .expect("a profile that panics ends the program");
        profile::write(&mut profile, Some(&costs), true)?;
        known = DeviceFiles {
            noise: Some(costs.with_file_name(profile::NOISE)),
            costs,
        };
    }
    Ok((parts.into_iter().zip(real).collect(), known))
}
