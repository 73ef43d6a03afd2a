//! The division of the minutes of a validation among its scenarios, policies and steps. If a step takes less
//! or more time than planned, the later steps get the difference.

use std::fmt::Write as _;

use super::{LEAST_REQUESTS, PolicyLoads, ValidationPlan};
use crate::lab::run::time_budget::TimeBudget;
use crate::lab::scenario::{Load, Scenario};

/// The plan of a validation that may take a number of minutes.
#[derive(Clone, Debug)]
pub struct TimePlan {
    budget: TimeBudget,
    /// Whether the costs are measured, before the runs and after each.
    profiles: bool,
    /// The policies of scenarios that have not begun.
    policies_left: usize,
    /// The seconds of a run beside its requests: the drain, the verification, the files.
    beside: f64,
}

/// The shares of a scenario's time: the profile before its runs, the runs, pieces of the profile after them, and
/// simulations.
const SHARES: [f64; 4] = [0.2, 0.45, 0.15, 0.2];

/// The first guess of the seconds of a run beside its requests, as on an H100 (1.6 s of requests took 2.0 s).
const BESIDE: f64 = 0.4;

/// The shortest and the longest piece of the profile after a run, in seconds.
const PIECE: [f64; 2] = [0.05, 1.0];

impl TimePlan {
    /// A plan for the scenarios. `profiles` says whether their costs are measured.
    pub fn new(minutes: f64, scenarios: &[Scenario], profiles: bool) -> TimePlan {
        TimePlan {
            budget: TimeBudget::new(60.0 * minutes),
            profiles,
            policies_left: scenarios.iter().map(|one| one.policies.len()).sum(),
            beside: BESIDE,
        }
    }

    /// Says how long each part takes.
    pub fn describe(&self, scenarios: &[Scenario], plan: &ValidationPlan) -> String {
        let mut text = format!(
            "{:.0} s for {} scenarios with {} policies; {} real runs of each at {} % of its capacity",
            self.budget.remaining_seconds(),
            scenarios.len(),
            self.policies_left,
            plan.repeats,
            plan.loads
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        );
        for scenario in scenarios {
            let policies = scenario.policies.len();
            let time = self.share(policies);
            let [before, runs, pieces, simulations] = SHARES.map(|share| share * time);
            let count = policies * plan.loads.len() * plan.repeats as usize;
            let name = &scenario.name;
            if self.profiles {
                write!(
                    text,
                    "\n{name}: {time:.0} s: {before:.0} s of profile, {runs:.0} s for {count} real runs and {pieces:.0} s \
                     of profile after them, {simulations:.0} s of simulations"
                )
            } else {
                let runs = time - simulations;
                write!(
                    text,
                    "\n{name}: {time:.0} s: {runs:.0} s for {count} real runs, {simulations:.0} s of simulations"
                )
            }
            .expect("a string takes all");
        }
        text
    }

    /// The seconds for this number of policies.
    fn share(&self, policies: usize) -> f64 {
        self.budget.remaining_seconds() * policies as f64 / self.policies_left.max(1) as f64
    }

    /// Begins a scenario: gives its seconds.
    pub fn begin(&mut self, scenario: &Scenario) -> ScenarioTime {
        let seconds = self.share(scenario.policies.len());
        self.policies_left -= scenario.policies.len();
        ScenarioTime {
            budget: TimeBudget::new(seconds),
            seconds,
        }
    }

    /// The seconds that have passed.
    pub fn elapsed_seconds(&self) -> f64 {
        self.budget.elapsed_seconds()
    }

    /// Gives a policy as many requests as its real runs have time for, when this number of policies is left. Returns the
    /// seconds of a piece of the profile after each run.
    pub fn fit(
        &self,
        part: &mut PolicyLoads,
        plan: &ValidationPlan,
        time: &ScenarioTime,
        left: usize,
    ) -> f64 {
        let [_, runs, pieces, simulations] = SHARES;
        let seconds = (time.budget.remaining_seconds() - simulations * time.seconds) / left as f64;
        let count = plan.loads.len() as f64 * f64::from(plan.repeats);
        let each = seconds.max(0.0) / count;
        let [least, most] = PIECE;
        let piece = if self.profiles {
            (each * pieces / (runs + pieces)).clamp(least, most)
        } else {
            0.0
        };
        let requests = (each - piece - self.beside) * count / run_seconds(plan);
        if let Load::Drawn {
            requests: count, ..
        } = &mut part.scenario.workload.load
        {
            *count = (part.capacity.0 * requests).max(LEAST_REQUESTS) as u64;
        }
        piece
    }

    /// Learns from the real runs of a policy, which took these seconds with the pieces between them.
    pub fn learn(&mut self, part: &PolicyLoads, plan: &ValidationPlan, piece: f64, took: f64) {
        let Load::Drawn { requests, .. } = part.scenario.workload.load else {
            return;
        };
        let count = plan.loads.len() as f64 * f64::from(plan.repeats);
        let within = requests as f64 / part.capacity.0 * run_seconds(plan);
        self.beside = ((took - within) / count - piece).max(0.0);
    }
}

/// The seconds of all real runs of a policy whose requests are those of a second at capacity.
fn run_seconds(plan: &ValidationPlan) -> f64 {
    let seconds = plan
        .loads
        .iter()
        .map(|load| 100.0 / f64::from((*load).min(100)));
    f64::from(plan.repeats) * seconds.sum::<f64>()
}

/// The time of one scenario.
#[derive(Clone, Debug)]
pub struct ScenarioTime {
    budget: TimeBudget,
    seconds: f64,
}

impl ScenarioTime {
    /// The seconds that have passed.
    pub fn elapsed_seconds(&self) -> f64 {
        self.budget.elapsed_seconds()
    }

    /// The seconds for the profile before the runs.
    pub fn profile(&self) -> f64 {
        SHARES[0] * self.seconds
    }

    /// The seconds for the simulations of each of this number of points.
    pub fn simulations(&self, points: usize) -> f64 {
        self.budget.remaining_seconds() / points.max(1) as f64
    }
}
