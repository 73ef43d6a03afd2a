//! What a reader of a sweep's results should know beside the numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::sweep::RunReport;
use super::verify::{LargestError, Verified};
use crate::core::summary::rejections::{add_counts, main_reason};
use crate::core::summary::validity::{Extrapolation, LATENESS_BOUND, Lateness};
use crate::lab::results::columns::{COMPARED, Metric};
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::table::significant;
use crate::lab::scenario::{LoadPoint, Scenario};
use crate::lab::usability::{EARLIER, Usability, describe_costs};

/// The number of failed requests whose reasons are given.
const FAILURES_SHOWN: usize = 3;

/// The note on a folder that other runs can't be kept away from.
pub const MISSING_LOCKS: &str =
    "the file system has no locks: make sure that no other run writes to the folder";

impl RunReport {
    /// What a reader of the results should know: runs of before, warm-up, costs that are doubtful or extrapolated, rejected
    /// and failed requests, late load generators, and the time of decisions on this host.
    pub fn notes(&self, scenarios: &[Scenario]) -> Vec<String> {
        let scenario = &scenarios[0];
        let mut notes = Vec::new();
        if self.taken_over > 0 {
            notes.push(format!(
                "taken over from before: {} of {} runs",
                self.taken_over, self.runs
            ));
        }
        let runs = self.rows.iter().flat_map(|row| &row.runs);
        let warmed_up = runs.map(|run| run.warmup).max().unwrap_or(0);
        if warmed_up > 0 {
            notes.push(format!(
                "warm-up ({}): at most {warmed_up} requests of a run left out",
                scenario.metrics.warmup
            ));
        }
        notes.extend(describe_tables(scenarios));
        notes.extend(clients_below_a_batch(scenarios));
        if let Some(why) = &self.traditional {
            notes.push(format!(
                "all steps ran in traditional kernels, not in device.grnn's: {why}"
            ));
        }
        notes.extend(notes_on_rows(&self.rows, &|row| {
            cost_table_of(row, scenarios)
        }));
        let decisions = self.decisions;
        if let (Some(call), Some(task)) = (decisions.ns_per_call(), decisions.ns_per_task()) {
            notes.push(format!(
                "scheduler: {:.2} us a decision, {:.2} us a task on this host",
                call / 1e3,
                task / 1e3
            ));
        }
        notes.extend(describe_verified(scenario, &self.verified));
        notes.extend(self.failures.iter().take(FAILURES_SHOWN).cloned());
        if !self.locked {
            notes.push(MISSING_LOCKS.to_string());
        }
        notes
    }
}

/// Why each cost table cannot be used, and what is doubtful about it.
fn describe_tables(scenarios: &[Scenario]) -> Vec<String> {
    let mut tables = BTreeMap::new();
    for scenario in scenarios {
        tables.extend(scenario.cost_tables());
    }
    tables.into_values().flat_map(describe_costs).collect()
}

/// Whether the runs of a real backend can be used: the load generators were in time, and figures repeat.
pub fn judge_rows(rows: &[SummaryRow]) -> Usability {
    let mut usability = Usability::new("the runs are");
    let mut late = 0;
    let mut spreads = Vec::new();
    for row in rows {
        let lateness = row.lateness();
        late += usize::from(lateness.is_some_and(|late| late.valid == Some(false)));
        spreads.extend(COMPARED.map(|metric| row.spread(metric)));
    }
    usability.judge_lateness(late, rows.len());
    usability.judge_spreads(spreads);
    if rows.iter().any(|row| row.runs.len() == 1) {
        let caveat = "one run of a point does not show how much its figures vary; --repeats 5 does";
        usability.leave_open(caveat.into());
    }
    usability
}

/// The policies whose batches always wait for their window, because a closed loop has too few clients to fill one.
fn clients_below_a_batch(scenarios: &[Scenario]) -> Vec<String> {
    let mut loads: BTreeMap<(&str, u32), Vec<String>> = BTreeMap::new();
    for scenario in scenarios {
        for policy in &scenario.policies {
            let Some(full) = policy.settings.full_batch() else {
                continue;
            };
            for load in scenario.points() {
                let LoadPoint::Clients(clients) = load else {
                    continue;
                };
                if clients >= full {
                    continue;
                }
                let found = loads.entry((policy.label.as_str(), full)).or_default();
                let load = load.to_string();
                if !found.contains(&load) {
                    found.push(load);
                }
            }
        }
    }
    let mut notes = Vec::new();
    for ((label, full), loads) in loads {
        notes.push(format!(
            "\"{label}\" at {}: {full} requests fill a batch, and there are fewer clients, so each batch waits for its whole \
             window; add clients or make batches smaller",
            loads.join(", ")
        ));
    }
    notes
}

/// The cost table of a row's policy, or an empty text.
fn cost_table_of(row: &SummaryRow, scenarios: &[Scenario]) -> String {
    let mut policies = scenarios.iter().flat_map(|scenario| &scenario.policies);
    let policy = policies.find(|policy| policy.label == row.policy && policy.swept == row.swept);
    match policy.and_then(|policy| policy.costs.file()) {
        Some(file) => file.display().to_string(),
        None => String::new(),
    }
}

/// How many requests were verified; `None` if none was.
fn describe_verified(scenario: &Scenario, verified: &Verified) -> Option<String> {
    let requests = verified.requests;
    if requests == 0 {
        return None;
    }
    Some(match verified.largest {
        None => format!("verified: {requests} requests have the same bits as when run alone"),
        Some(LargestError {
            error,
            of_tolerated,
        }) => format!(
            "verified: {requests} requests have the CPU's results, up to rounding in {}: the largest relative error is \
             {error:.2e}, {:.1} % of the tolerance",
            scenario.device.precision,
            100.0 * of_tolerated
        ),
    })
}

/// What a reader of the results must know: batch sizes without a measured cost, arrivals far from their rate, rejected
/// requests, late load generators, and idle workers at the end.
pub fn notes_on_rows(rows: &[SummaryRow], costs_of: &dyn Fn(&SummaryRow) -> String) -> Vec<String> {
    let mut notes = extrapolations(rows, costs_of);
    notes.extend(describe_draws(rows));
    for row in rows {
        let rejected: u64 = row.runs.iter().map(|run| run.rejected).sum();
        if rejected > 0 {
            let name = row.name();
            let point = &row.point;
            let counts = row.runs.iter().flat_map(|run| &run.rejection_reasons);
            let reasons = add_counts(counts.map(|(reason, count)| (&**reason, *count)));
            let reason = main_reason(&reasons);
            notes.push(format!(
                "\"{name}\" at {point}: {rejected} requests were rejected{reason}"
            ));
        }
        if let Some(late) = row.lateness() {
            notes.push(describe_lateness(row, &late));
        }
        notes.extend(describe_idle_tail(row));
    }
    notes
}

/// The share by which drawn arrivals may differ from the rate that was asked for without a note.
const FAR_FROM_RATE: f64 = 0.05;

/// The smallest share of the run's time without a task after the last arrival that gets a note.
const LEAST_IDLE: f64 = 0.05;

/// A note on arrivals that were drawn at other rates than those asked for, once for each load.
fn describe_draws(rows: &[SummaryRow]) -> Option<String> {
    let mut points = BTreeSet::new();
    let mut draws = Vec::new();
    for row in rows {
        let (Some(offered), Some(achieved)) = (
            row.estimate_by(|run| run.offered.map(|rate| rate.0)).value,
            row.estimate_by(|run| run.achieved.map(|rate| rate.0)).value,
        ) else {
            continue;
        };
        let is_far = (achieved / offered - 1.0).abs() > FAR_FROM_RATE;
        if is_far && points.insert(&row.point) {
            let achieved = significant(achieved);
            let offered = significant(offered);
            draws.push(format!("{achieved} instead of {offered}"));
        }
    }
    if draws.is_empty() {
        return None;
    }
    Some(format!(
        "arrivals differ from the rates asked for: {} req/s; with more requests they come closer",
        draws.join(", ")
    ))
}

/// A note on workers that had nothing to do while the last requests waited, which lowers `busy`.
fn describe_idle_tail(row: &SummaryRow) -> Option<String> {
    let idle = row
        .estimate_by(|run| Some(run.idle_tail.unwrap_or(0.0)))
        .value?;
    if idle < LEAST_IDLE {
        return None;
    }
    let busy = row.estimate(Metric::Utilization).value?;
    let without = busy / (1.0 - idle);
    if without - busy < 0.01 {
        return None;
    }
    Some(format!(
        "\"{}\" at {}: no task ran in {:.0} % of the run's time, while the last requests waited for their policy; without it, \
         busy is {:.1} %",
        row.name(),
        row.point,
        100.0 * idle,
        100.0 * without
    ))
}

/// A line for each cell that ran at unmeasured batch sizes, over all runs with the same cost table.
fn extrapolations(rows: &[SummaryRow], costs_of: &dyn Fn(&SummaryRow) -> String) -> Vec<String> {
    let mut sums: BTreeMap<(String, String), Extrapolation> = BTreeMap::new();
    for row in rows {
        let costs = costs_of(row);
        for found in row.runs.iter().flat_map(|run| &run.extrapolated) {
            sums.entry((costs.clone(), found.cell.clone()))
                .and_modify(|sum| sum.add(found))
                .or_insert_with(|| found.clone());
        }
    }
    let mut lines = Vec::new();
    for ((costs, cell), sum) in &sums {
        lines.push(describe_extrapolation(costs, cell, sum));
    }
    lines
}

fn describe_extrapolation(costs: &str, cell: &str, sum: &Extrapolation) -> String {
    let from = sum.from;
    let to = sum.to;
    let mut sides = Vec::new();
    let mut rules = Vec::new();
    if sum.below > 0 {
        sides.push("smaller");
        rules.push(format!("below {from} they take the time of {from}"));
    }
    if sum.above > 0 {
        sides.push("larger");
        rules.push(format!("above {to} the slope of the last two rows goes on"));
    }
    let batches = percent(sum.below + sum.above, sum.batches);
    let cells = percent(sum.cells_beyond, sum.cells);
    let sides = sides.join(" or ");
    let rules = rules.join(", ");
    format!(
        "extrapolated: {batches:.2} % of the batches of {cell} ({cells:.2} % of its cells) were {sides} than the measured \
         {from}..{to} of {costs}; {rules}"
    )
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// The lateness of the load generator, and whether the run is valid.
fn describe_lateness(row: &SummaryRow, late: &Lateness) -> String {
    let p99 = match late.p99_us {
        Some(us) => format!("p99 {us:.1} us, "),
        None => String::new(),
    };
    let share = match late.share {
        Some(share) => format!("{:.2} % of the median latency; ", 100.0 * share),
        None => String::new(),
    };
    let verdict = match late.valid {
        Some(true) => "VALID".to_string(),
        Some(false) => format!(
            "INVALID: above {} % the latencies are not those of an open loop; {EARLIER}",
            100.0 * LATENESS_BOUND
        ),
        None => "too few requests for a verdict".to_string(),
    };
    let name = row.name();
    let point = &row.point;
    let mean = late.mean_us;
    let max = late.max_us;
    format!(
        "\"{name}\" at {point}: the generator was late by {mean:.1} us on average, {p99}at most {max:.1} us; {share}{verdict}"
    )
}
