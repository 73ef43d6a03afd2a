//! `batchlab validate`.

use std::path::PathBuf;

use super::compare;
use super::profile;
use super::{Common, find, number_in, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::executor::{Executor, Executors, Target, Verify};
use crate::experiment::prepare;
use crate::files::folder_name;
use crate::policy::registry::Registry;
use crate::scenario::Scenario;
use crate::shipped::Shipped;
use crate::validate::set::{self, Line, Plan, report};

/// Validate the simulator against this machine
///
/// For each scenario: measures its cells (costs.csv), finds the capacity of each policy, and runs every policy for real and
/// simulated at loads from below to above that capacity. Prints both latencies, their difference, the spread of the real
/// runs, and whether a replay of the recorded runs results in the same decisions. Rates and lengths differ from those of the
/// profile.
///
/// The exit code is 4 if the real runs differ so much from each other that a difference says nothing.
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

    #[command(flatten)]
    pub common: Common,
}

/// Decisions that a replay does not repeat are an error.
pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let common = &args.common;
    let executor = executors.executor(&args.backend)?;
    let set = || executor.validation_set().iter().map(PathBuf::from).collect();
    let files = if args.scenarios.is_empty() { set() } else { args.scenarios.clone() };
    let scenarios = common.scenarios(&files, registry)?;
    let target = Target::Real(executor, Verify::Sample);
    let mut device = String::new();
    for scenario in &scenarios {
        set::check(scenario)?;
        profile::persistent_of(scenario, executor)?; // The simulation uses them, so the real runs must have them.
        device = prepare(scenario, target)?.1.describe();
    }
    let plan = Plan {
        out: common.out.clone().unwrap_or_else(|| PathBuf::from("results/validate")),
        target,
        loads: args.loads.clone(),
        repeats: args.repeats,
        seconds: args.seconds,
    };
    let stop = stop_on_ctrl_c()?;
    let mut lines: Vec<Line> = Vec::new();
    for scenario in &scenarios {
        let costs = costs(args, executor, &plan, scenario)?;
        common.note_falling(&costs);
        let parts = common.on_threads(|| set::parts(scenario, &costs, &plan, stop))?;
        for part in &parts {
            let (name, repeats, capacity) = (&part.scenario.name, plan.repeats, part.capacity.0);
            let rates: Vec<String> = part.rates.iter().map(ToString::to_string).collect();
            let rates = rates.join(", ");
            common.note(format!("{name}: capacity {capacity:.0} req/s; {repeats} real runs at each of {rates} req/s"));
            let runs = plan.loads.len() * (repeats as usize + 1);
            let (comparison, of_part) =
                common.carry_out(runs, name, |stop, done| set::validate(part, &plan, registry, stop, done))?;
            let folder = plan.out.join("compared").join(folder_name(name));
            compare::write(&comparison, &folder)?;
            lines.extend(of_part);
            // After each part, so that results remain if a later one fails.
            report::write_csv(&plan.out.join("validation.csv"), &lines)?;
        }
    }
    common.shown.show(|| format!("{device}\n{}", report::table(&lines)), || report::to_json(&lines))?;
    common.note(format!("profiles, results and figures in {}", plan.out.display()));
    match lines.iter().find(|line| !line.same_decisions()) {
        None => report::inconclusive(&lines).map_or(Ok(()), |why| Err(Error::Inconclusive(why))),
        Some(line) => Err(Error::failed(format!(
            "{} at {}: a replay resulted in other decisions than the recorded run; batchlab replay {} shows the first",
            line.scenario,
            line.rate,
            plan.out.join(target.name()).join(&line.scenario).display()
        ))),
    }
}

fn costs(args: &Args, executor: &'static dyn Executor, plan: &Plan, scenario: &Scenario) -> Result<PathBuf> {
    if let Some(costs) = &args.costs {
        return find(Shipped::Costs, costs, args.common.quiet);
    }
    let costs = plan.out.join(folder_name(&scenario.name)).join("costs.csv");
    args.common.note(format!("{}: measuring the cells", scenario.name));
    profile::of_scenario(scenario, executor, profile::REPEATS, &costs, args.common.quiet)?;
    Ok(costs)
}
