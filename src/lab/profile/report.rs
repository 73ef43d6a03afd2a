//! The cost table of a profile: its rows, and the notes above them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::blocks::{measure, measure_piece};
use super::samples::{self, MedianCost, ProfileClock, STEPS, TASKS, TaskKind, costs};
use super::stairs::{TableSizes, misses_at, stair_ends};
use super::whole::additional_times;
use super::{
    NetworkProfile, ProfileProgress, ProfileSettings, ProfileSteps, ProfileSubject, ProfileTarget,
    build_requests, decisions, levels,
};
use crate::base::clock;
use crate::base::error::{Context as _, Error, Result, plural};
use crate::base::units::Nanos;
use crate::core::cost::noise::{MeasuredStart, MeasuredTask, NoiseRecord};
use crate::core::cost::table::{CostTable, NOT_USABLE};
use crate::core::record::execution::Decisions;
use crate::core::workload::model::Model;
use crate::core::workload::row_names::{
    DEMAND, FURTHER_LAUNCH, GATHER, GATHER_LAUNCH, LAUNCH, PERSISTENT, SWITCH, TASK, WHOLE,
};
use crate::devices::network::Network;
use crate::lab::results::table::align;
use crate::lab::run::executor::{Loaded, WorkerSettings};
use crate::lab::usability::Usability;

/// The files and texts of a profile.
#[derive(Clone, Debug)]
pub struct ProfileReport {
    /// The cost table.
    pub csv: String,
    /// The content of `noise.csv`: how the times of tasks wandered and how late they started, for the simulator.
    pub noise: String,
    /// The notes above the table: the command, the machine, and how it was measured.
    pub notes: Vec<String>,
    /// The table for a reader at a terminal.
    pub shown: String,
    /// The largest distance of a line between rows from a time that was measured there, as a share of it, and the batch
    /// size there; `None` if no size lies between the rows.
    pub largest_miss: Option<(f64, u32)>,
    /// Whether the table can be used.
    pub usability: Usability,
    /// The ends of the stairs of all cells: the batch sizes to prepare if only a few are.
    pub stair_ends: Vec<u32>,
    /// Whether the user has interrupted the profile, so that the table has only what was measured until then.
    pub interrupted: bool,
}

/// A profile of networks, one after the other.
pub struct Session {
    wanted: Vec<ProfileTarget>,
    settings: ProfileSettings,
    engines: Vec<Box<dyn Loaded>>,
    /// The measurements of the networks so far.
    profiles: Vec<NetworkProfile>,
    now: ProfileClock,
    /// When the last measurement ended.
    ended: Instant,
    interrupted: bool,
}

impl Session {
    /// Loads the networks onto the device.
    pub fn new(wanted: Vec<ProfileTarget>, settings: ProfileSettings) -> Result<Session> {
        let engines = wanted
            .iter()
            .map(|one| load(one, &settings))
            .collect::<Result<Vec<_>>>()?;
        let (now, ended) = (ProfileClock::default(), clock::now());
        Ok(Session {
            wanted,
            settings,
            engines,
            profiles: Vec::new(),
            now,
            ended,
            interrupted: false,
        })
    }

    /// Measures the networks. After an interruption, what is measured is kept.
    pub fn measure(&mut self, stop: &AtomicBool, progress: &dyn Fn(ProfileProgress)) -> Result<()> {
        let Session { settings, now, .. } = self;
        for (wanted, engine) in self.wanted.iter().zip(&mut self.engines) {
            let steps = ProfileSteps { stop, progress };
            let mut profile = NetworkProfile::default();
            let measured = measure(
                &mut ProfileSubject {
                    wanted,
                    settings,
                    steps,
                    engine: &mut **engine,
                    now,
                },
                &mut profile,
            );
            let is_empty = self.profiles.is_empty() && profile.times.0.is_empty();
            self.profiles.push(profile);
            match measured {
                Err(Error::Interrupted) if !is_empty => {
                    self.interrupted = true;
                    break;
                }
                measured => measured?,
            }
        }
        self.ended = clock::now();
        Ok(())
    }

    /// The batch sizes of the first network's rows, ascending.
    pub fn batches(&self) -> &[u32] {
        self.profiles
            .first()
            .map_or(&[], |profile| &profile.sizes.batches)
    }

    /// Visits further blocks of the first network for at least this time.
    pub fn measure_piece(&mut self, time: Nanos, stop: &AtomicBool) -> Result<()> {
        let Session {
            wanted,
            settings,
            engines,
            profiles,
            now,
            ended,
            ..
        } = self;
        now.time
            .set(now.time.get() + Nanos::from(clock::now() - *ended));
        let steps = ProfileSteps {
            stop,
            progress: &|_| (),
        };
        let engine = &mut *engines[0];
        measure_piece(
            &mut ProfileSubject {
                wanted: &wanted[0],
                settings,
                steps,
                engine,
                now,
            },
            time,
            &mut profiles[0],
        )?;
        *ended = clock::now();
        Ok(())
    }

    /// The cost table so far. The costs of tasks in addition to their cells are those of the first network.
    pub fn report(&mut self, command: &str) -> ProfileReport {
        let Session {
            wanted,
            settings,
            engines,
            profiles,
            interrupted,
            ..
        } = self;
        let sized = wanted.iter().any(|one| !one.inputs.is_empty());
        let device = engines
            .first()
            .map_or_else(String::new, |engine| engine.describe());
        let mut notes = preamble(settings, command, &device);
        let mut table = vec![header(sized)];
        let mut factors = Vec::new();
        let mut starts = Vec::new();
        let mut largest_miss: Option<(f64, u32)> = None;
        let mut curves = Vec::new();
        for (place, profile) in profiles.iter_mut().enumerate() {
            profile.level();
            notes.push(wanted[place].describe(engines[place].precision()));
            notes.extend(
                engines[place]
                    .traditional()
                    .map(|why| format!("no rows {PERSISTENT}: {why}")),
            );
            notes.extend(profile_notes(profile));
            let is_listed = wanted[place].model.network().is_some();
            let of_network = profile.curves(is_listed);
            let check = TableCheck::new(&of_network, &profile.sizes, &wanted[place]);
            if let Some((miss, size)) = check.largest_miss
                && largest_miss.is_none_or(|(largest, _)| miss > largest)
            {
                largest_miss = Some((miss, size));
            }
            notes.extend(check.notes);
            curves.extend(of_network.into_iter().map(|(_, times)| times));
            table.extend(rows(profile, is_listed, place == 0, sized));
            if place == 0 {
                let further = rows_of_gpus(profile, &wanted[0].model, &table, sized);
                table.extend(further);
            }
            factors.extend(profile.noise());
            starts.extend(profile.starts.lateness());
        }
        if *interrupted {
            notes.push("interrupted: rows are missing, and others are of fewer repeats".into());
        }
        if profiles.len() > 1 {
            notes.push(format!(
                "task, gather, launch and whole: those of {}",
                wanted[0].model.name()
            ));
        }
        let noise = noise_rows(&factors, &starts);
        let factors = factors.into_iter().map(|(_, measured)| measured).collect();
        let starts = starts.into_iter().map(|(_, measured)| measured).collect();
        if let Some(record) = NoiseRecord::new(factors, starts) {
            notes.push(record.describe());
            notes.extend(record.describe_starts());
        }
        let lines: String = table.iter().map(|line| line.join(",") + "\n").collect();
        let mut usability = judge(&lines);
        usability.judge_lines(largest_miss, settings.batches.is_some());
        if *interrupted {
            let remedy = "profile again, to the end";
            usability.refuse("it was interrupted".into(), remedy);
        }
        let mut comments: String = notes.iter().map(|note| format!("# {note}\n")).collect();
        comments += &remark(&usability);
        ProfileReport {
            csv: comments + &lines,
            noise,
            notes,
            shown: align(&table),
            largest_miss,
            usability,
            stair_ends: common_stair_ends(&curves),
            interrupted: *interrupted,
        }
    }
}

/// Whether the rows of a measured table can be used. Nothing speaks against a table without rows.
pub fn judge(csv: &str) -> Usability {
    let mut usability = Usability::new("the profile is");
    if let Ok(table) = CostTable::parse(csv, "the profile") {
        usability.judge_costs(&table);
    }
    usability
}

/// The comment for readers of a table that cannot be used; empty if it can be.
pub fn remark(usability: &Usability) -> String {
    if usability.is_usable() {
        return String::new();
    }
    format!("{NOT_USABLE}{}\n", usability.reasons().join("; "))
}

/// The text of a record of noise, ordered by time.
pub fn noise_rows(tasks: &[(u32, MeasuredTask)], starts: &[(u32, MeasuredStart)]) -> String {
    let mut rows = Vec::with_capacity(tasks.len() + starts.len());
    for (size, MeasuredTask { at, took, factor }) in tasks {
        rows.push((*at, format!("{},{size},{factor:.6},{},\n", at.0, took.0)));
    }
    for (size, MeasuredStart { due, since, late }) in starts {
        rows.push((*due, format!("{},{size},,{},{late}\n", due.0, since.0)));
    }
    rows.sort_by_key(|(at, _)| *at);
    let mut text = String::from("time_ns,size,factor,ns,late_ns\n");
    text.extend(rows.into_iter().map(|(_, row)| row));
    text
}

/// The cost table of a profile, without notes and without overheads.
pub fn cost_rows(profile: &NetworkProfile, sized: bool) -> String {
    let mut table = vec![header(sized)];
    table.extend(rows(profile, false, false, sized));
    table.iter().map(|line| line.join(",") + "\n").collect()
}

fn header(sized: bool) -> Vec<String> {
    let columns = ["cell", "batch", "ns", "stddev_ns", "input"];
    let shown = if sized { 5 } else { 4 };
    columns[..shown].iter().map(ToString::to_string).collect()
}

/// Loads a network onto the device.
fn load(wanted: &ProfileTarget, settings: &ProfileSettings) -> Result<Box<dyn Loaded>> {
    let ProfileSettings {
        executor,
        precision,
        step_kernels,
        workers,
        persistent,
        ..
    } = settings;
    executor.check(&wanted.model, *precision)?;
    let network = Network::new(&wanted.model, &wanted.spec)?;
    let mut on = WorkerSettings::new(*workers, *precision).with(*step_kernels);
    if let Some(device) = persistent {
        on = on.with(device.clone());
    }
    let engine = executor.load(network, &on)?;
    let trees = build_requests(wanted.trees.clone(), &wanted.model)?;
    for (number, tree) in trees.graphs.iter().enumerate() {
        engine
            .network()
            .check(tree)
            .within(format_args!("request {number}"))?;
    }
    Ok(engine)
}

/// The first notes. They have no date, so that the same machine gives the same header.
fn preamble(settings: &ProfileSettings, command: &str, device: &str) -> Vec<String> {
    vec![
        command.to_string(),
        format!(
            "batchlab {} ({}), backend {}, {}, {}, {}",
            env!("CARGO_PKG_VERSION"),
            env!("BATCHLAB_COMMIT"),
            settings.executor.name(),
            device,
            std::env::consts::ARCH,
            std::env::consts::OS
        ),
        format!(
            "medians over {} with {} busy; stddev_ns is that of single tasks, from their quartiles",
            plural(settings.repeats as usize, "repeat"),
            plural(settings.workers, "worker")
        ),
    ]
}

/// The cost of each batch size.
type Costs = BTreeMap<u32, MedianCost>;

/// The lines of rows of one name. `ratio` multiplies the times; `sized` tables have a column for inputs.
fn lines(name: &str, input: u32, ratio: f64, costs: &Costs, sized: bool) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (batch, (time, deviation)) in costs {
        let ns = (time.0 as f64 * ratio).round();
        let mut line = vec![
            name.to_string(),
            batch.to_string(),
            format!("{ns:.0}"),
            format!("{deviation:.0}"),
        ];
        if sized {
            line.push(if input == 0 {
                String::new()
            } else {
                input.to_string()
            });
        }
        lines.push(line);
    }
    lines
}

/// The lines of the table. `overheads` adds the costs of tasks in addition to cells. Sizes that only check the lines
/// between rows are no rows.
fn rows(
    profile: &NetworkProfile,
    is_listed: bool,
    overheads: bool,
    sized: bool,
) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut rows = |name: &str, input: u32, ratio: f64, costs: &Costs| {
        let mut of_table = costs.clone();
        // Launches have sizes of their own, except those of listed networks.
        let has_own_sizes = name == LAUNCH && !is_listed;
        of_table.retain(|batch, _| has_own_sizes || !profile.sizes.held_out.contains(batch));
        all.extend(lines(name, input, ratio, &of_table, sized));
    };
    let times = &profile.times;
    let cells: BTreeSet<(&String, u32)> = times
        .0
        .keys()
        .map(|(_, cell, input)| (cell, *input))
        .collect();
    for (cell, input) in cells {
        let persistent = times.persistent(cell);
        let [step, launch]: [Costs; 2] = [0, 1].map(|part| {
            let costs = persistent
                .iter()
                .map(|(batch, costs)| (*batch, costs[part]));
            costs.collect()
        });
        for (name, costs) in [
            (cell.clone(), times.steady_costs(TASKS, cell, input)),
            (format!("{cell}.{SWITCH}"), times.more(TASKS, cell, input)),
            (
                format!("{cell}.{WHOLE}"),
                times.steady_costs(samples::WHOLE, cell, input),
            ),
            (
                format!("{cell}.{WHOLE}.{SWITCH}"),
                times.more(samples::WHOLE, cell, input),
            ),
            (format!("{cell}.{PERSISTENT}"), step),
            (format!("{cell}.{PERSISTENT}.{LAUNCH}"), launch),
        ] {
            rows(&name, input, profile.mean_over_median, &costs);
        }
    }
    for (cell, input) in times
        .0
        .keys()
        .filter(|(kind, ..)| *kind == TaskKind::Streams(1))
        .map(|(_, cell, input)| (cell, *input))
    {
        let parts = times
            .demands(cell)
            .into_iter()
            .map(|(batch, (parts, spread))| (batch, (Nanos(parts), spread)));
        rows(&format!("{cell}.{DEMAND}"), input, 1.0, &parts.collect());
    }
    if overheads {
        rows(TASK, 0, 1.0, &costs(&profile.between));
        rows(GATHER, 0, 1.0, &gathers(profile));
        rows(LAUNCH, 0, 1.0, &costs(&profile.launches));
        rows(
            WHOLE,
            0,
            1.0,
            &costs(&additional_times(&profile.whole, times)),
        );
    }
    all
}

/// The lines of rows that follow from the totals of tasks and decisions on a GPU, and from the table so far.
fn rows_of_gpus(
    profile: &NetworkProfile,
    model: &Model,
    table: &[Vec<String>],
    sized: bool,
) -> Vec<Vec<String>> {
    let csv: String = table.iter().map(|line| line.join(",") + "\n").collect();
    let mut all = Vec::new();
    for (name, costs) in levels::rows(profile, model, &csv) {
        all.extend(lines(name, 0, 1.0, &costs, sized));
    }
    if let Some(costs) = levels::costs_with(&csv, &[], model) {
        let [gather, further] = decisions::launches(profile, &costs);
        all.extend(lines(GATHER_LAUNCH, 0, 1.0, &gather, sized));
        all.extend(lines(FURTHER_LAUNCH, 0, 1.0, &further, sized));
    }
    all
}

/// How far lines between the rows of a network are from times that were measured there.
struct TableCheck {
    /// The largest miss and its batch size.
    largest_miss: Option<(f64, u32)>,
    notes: Vec<String>,
}

impl TableCheck {
    fn new(
        curves: &[(String, BTreeMap<u32, f64>)],
        sizes: &TableSizes,
        wanted: &ProfileTarget,
    ) -> TableCheck {
        let mut misses: Vec<(f64, u32, &str)> = Vec::new();
        for (cell, times) in curves {
            for (size, miss) in misses_at(&sizes.held_out, times) {
                misses.push((miss, size, cell));
            }
        }
        misses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut notes = Vec::new();
        // An interrupted search has not chosen its sizes.
        if let Some(&largest) = sizes.batches.last()
            && wanted.supported.is_empty()
            && largest < wanted.formed
        {
            notes.push(format!(
                "the policies form batches of up to {}, and the table ends at {largest}: beyond it the line of its last two \
                 rows goes on",
                wanted.formed
            ));
        }
        let Some(&(miss, size, cell)) = misses.last() else {
            notes.push(if wanted.supported.is_empty() {
                "no size was measured between those of the rows, so nothing is known of the lines between them".into()
            } else {
                "only the sizes of batch_sizes run, so nothing lies between the rows".into()
            });
            return TableCheck {
                largest_miss: None,
                notes,
            };
        };
        let median = misses[misses.len() / 2].0;
        let checked: Vec<String> = sizes.held_out.iter().map(ToString::to_string).collect();
        notes.push(format!(
            "lines between rows: off by at most {:.1} % ({cell} at {size}) and by {:.1} % in the median at sizes that are no \
             rows: {}",
            100.0 * miss,
            100.0 * median,
            checked.join(", ")
        ));
        TableCheck {
            largest_miss: Some((miss, size)),
            notes,
        }
    }
}

/// The ends of stairs over the sizes that all curves have.
fn common_stair_ends(curves: &[BTreeMap<u32, f64>]) -> Vec<u32> {
    let Some(first) = curves.first() else {
        return Vec::new();
    };
    let mut sizes: Vec<u32> = first.keys().copied().collect();
    sizes.retain(|size| curves.iter().all(|times| times.contains_key(size)));
    let mut times = Vec::new();
    for curve in curves {
        times.push(sizes.iter().map(|size| curve[size]).collect());
    }
    stair_ends(&sizes, &times)
}

/// The additional time of tasks with other members: the mean over the cells.
fn gathers(NetworkProfile { times, .. }: &NetworkProfile) -> Costs {
    let mut by_batch: BTreeMap<u32, Vec<MedianCost>> = BTreeMap::new();
    for (_, cell, input) in times
        .0
        .keys()
        .filter(|(kind, ..)| *kind == TaskKind::Exchanged)
    {
        for (batch, more) in times.more([TaskKind::Task, TaskKind::Exchanged], cell, *input) {
            by_batch.entry(batch).or_default().push(more);
        }
    }
    let mut means = Costs::new();
    for (batch, found) in by_batch {
        let count = found.len();
        let time: u64 = found.iter().map(|(time, _)| time.0).sum();
        let spread = found
            .iter()
            .fold(0f64, |sum, (_, spread)| sum.hypot(*spread));
        means.insert(batch, (Nanos(time / count as u64), spread / count as f64));
    }
    means
}

/// The note on how demands were measured, and where two streams contradict four.
fn demand_note(profile: &NetworkProfile, cell: &str) -> String {
    let found = profile.times.disagreeing(cell);
    let each: Vec<String> = found
        .iter()
        .map(|(batch, took, said)| format!("{batch}: {took:.2} instead of {said:.2}"))
        .collect();
    let checked = match &each[..] {
        [] => "two streams take what they say, within 10 %".to_string(),
        each => format!(
            "two streams take other times (over those of a step alone, by batch: {})",
            each.join(", ")
        ),
    };
    format!(
        "{cell}.{DEMAND}: parts per million of the device, from steps on four streams at once; {checked}"
    )
}

/// The notes on how a network was measured.
fn profile_notes(profile: &NetworkProfile) -> Vec<String> {
    let mut lines = vec![format!(
        "ns of cells: the median times {:.4}, by which the mean of samples is above the medians of their visits, because \
         the machine takes time for itself; what slowed it for longer is left out",
        profile.mean_over_median
    )];
    if !profile.again.is_empty() {
        let sizes: Vec<String> = profile.again.iter().map(ToString::to_string).collect();
        lines.push(format!(
            "visited again, because times scattered or a larger batch took less time than a smaller one: {}",
            sizes.join(", ")
        ));
    }
    let [short, long] = STEPS;
    let kernels = profile
        .times
        .0
        .keys()
        .filter(|(kind, ..)| *kind == TaskKind::Persistent(short));
    lines.extend(kernels.map(|(_, cell, _)| {
        format!(
            "{cell}.{PERSISTENT}: tasks of {short} and of {long} steps in persistent kernels; a step is its part of the difference, and \
             the launch what the shorter ones take beside their steps"
        )
    }));
    lines.extend(
        profile
            .times
            .0
            .keys()
            .filter(|(kind, ..)| *kind == TaskKind::Streams(4))
            .map(|(_, cell, _)| demand_note(profile, cell)),
    );
    let each: Vec<(u32, Decisions)> = profile
        .decisions
        .iter()
        .map(|(batch, decisions)| (*batch, decisions.iter().copied().sum::<Decisions>()))
        .filter(|(_, all)| all.calls > 0)
        .collect();
    if !each.is_empty() {
        let by_batch: Vec<String> = each
            .iter()
            .map(|(batch, all)| format!("{batch}: {:.2}", us_each(*all)))
            .collect();
        lines.push(format!(
            "scheduler: {:.2} us a decision of one task, with its submission (by batch: {})",
            us_each(each.iter().map(|(_, all)| *all).sum()),
            by_batch.join(", ")
        ));
    }
    lines
}

/// The time of a decision in microseconds.
fn us_each(decisions: Decisions) -> f64 {
    decisions.ns_per_call().unwrap_or(0.0) / 1e3
}
