//! Measurements as a cost table: its rows, and the notes above them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::blocks::{measure, piece};
use super::samples::{self, Cost, Kind, Now, STEPS, TASKS, costs};
use super::whole::beside;
use super::{Profile, Settings, Steps, Subject, Wanted, unfolded};
use crate::base::clock;
use crate::base::error::{Context as _, Error, Result};
use crate::base::units::Nanos;
use crate::core::cost::noise::{MeasuredTask, NoiseRecord};
use crate::core::record::execution::Decisions;
use crate::core::workload::row_names::{DEMAND, GATHER, LAUNCH, PERSISTENT, SWITCH, TASK, WHOLE};
use crate::devices::network::Network;
use crate::lab::results::table::aligned;
use crate::lab::run::executor::{Loaded, WorkerSettings};

#[derive(Clone, Debug)]
pub struct Made {
    pub csv: String,
    /// `noise.csv`: how the times of tasks wandered, for the simulator.
    pub noise: String,
    /// The command, the machine, how well the table interpolates.
    pub notes: Vec<String>,
    /// For a reader at a terminal.
    pub shown: String,
    /// The table has what was measured until then.
    pub interrupted: bool,
}

/// A profile of networks, one after the other.
pub struct Session {
    wanted: Vec<Wanted>,
    settings: Settings,
    engines: Vec<Box<dyn Loaded>>,
    /// Of the networks that have been measured.
    profiles: Vec<Profile>,
    now: Now,
    ended: Instant,
    interrupted: bool,
}

impl Session {
    pub fn new(wanted: Vec<Wanted>, settings: Settings) -> Result<Session> {
        let engines = wanted
            .iter()
            .map(|one| ready(one, &settings))
            .collect::<Result<Vec<_>>>()?;
        let (now, ended) = (Now::default(), clock::now());
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

    /// Calls `progress` [`super::steps`] times for each network. An interruption keeps what is measured.
    pub fn measure(&mut self, stop: &AtomicBool, progress: &dyn Fn()) -> Result<()> {
        let Session { settings, now, .. } = self;
        for (wanted, engine) in self.wanted.iter().zip(&mut self.engines) {
            let steps = Steps { stop, progress };
            let mut profile = Profile::default();
            let measured = measure(
                &mut Subject {
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

    /// Visits further blocks of the first network for a while.
    pub fn piece(&mut self, stop: &AtomicBool) -> Result<()> {
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
            .set(now.time.get() + Nanos((clock::now() - *ended).as_nanos() as u64));
        let (steps, engine) = (
            Steps {
                stop,
                progress: &|| (),
            },
            &mut *engines[0],
        );
        piece(
            &mut Subject {
                wanted: &wanted[0],
                settings,
                steps,
                engine,
                now,
            },
            &mut profiles[0],
        )?;
        *ended = clock::now();
        Ok(())
    }

    /// Costs of tasks beside their cells are those of the first network.
    pub fn made(&mut self, command: &str) -> Made {
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
        let columns = &["cell", "batch", "ns", "stddev_ns", "input"][..if sized { 5 } else { 4 }];
        let mut table = vec![columns.iter().map(ToString::to_string).collect()];
        let mut factors = Vec::new();
        for (place, profile) in profiles.iter_mut().enumerate() {
            profile.level();
            notes.push(wanted[place].described(engines[place].precision()));
            notes.extend(
                engines[place]
                    .traditional()
                    .map(|why| format!("no rows {PERSISTENT}: {why}")),
            );
            notes.extend(about(profile));
            table.extend(rows(profile, place == 0, sized));
            factors.extend(profile.noise());
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
        let mut noise = String::from("time_ns,size,factor,ns\n");
        for (size, MeasuredTask { at, took, factor }) in &factors {
            writeln!(noise, "{},{size},{factor:.6},{}", at.0, took.0).expect("a string takes all");
        }
        let factors = factors.into_iter().map(|(_, measured)| measured).collect();
        notes.extend(NoiseRecord::new(factors).map(|record| record.describe()));
        let comments: String = notes.iter().map(|note| format!("# {note}\n")).collect();
        let lines: String = table.iter().map(|line| line.join(",") + "\n").collect();
        Made {
            csv: comments + &lines,
            noise,
            notes,
            shown: aligned(&table),
            interrupted: *interrupted,
        }
    }
}

fn ready(wanted: &Wanted, settings: &Settings) -> Result<Box<dyn Loaded>> {
    let Settings {
        executor,
        precision,
        workers,
        persistent,
        ..
    } = settings;
    executor.check(&wanted.model, *precision)?;
    let network = Network::new(&wanted.model, &wanted.spec)?;
    let mut on = WorkerSettings::new(*workers, *precision);
    if let Some(device) = persistent {
        on = on.with(device.clone());
    }
    let engine = executor.load(network, &on)?;
    let trees = unfolded(wanted.trees.clone(), &wanted.model)?;
    for (number, tree) in trees.graphs.iter().enumerate() {
        engine
            .network()
            .check(tree)
            .within(format_args!("request {number}"))?;
    }
    Ok(engine)
}

/// Has no date, so that the same machine gives the same header.
fn preamble(settings: &Settings, command: &str, device: &str) -> Vec<String> {
    let plural = |count: usize, one: &str| {
        if count == 1 {
            format!("1 {one}")
        } else {
            format!("{count} {one}s")
        }
    };
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

type Costs = BTreeMap<u32, Cost>;

/// Lines of the table. `overheads` adds the costs of tasks beside cells; `sized` tables have a column for inputs.
fn rows(profile: &Profile, overheads: bool, sized: bool) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    let mut rows = |name: &str, input: u32, ratio: f64, costs: &Costs| {
        for (batch, (time, deviation)) in costs {
            let ns = (time.0 as f64 * ratio).round();
            let mut line = vec![
                name.to_string(),
                batch.to_string(),
                format!("{ns:.0}"),
                format!("{deviation:.0}"),
            ];
            line.extend(sized.then(|| {
                if input == 0 {
                    String::new()
                } else {
                    input.to_string()
                }
            }));
            lines.push(line);
        }
    };
    let times = &profile.times;
    let cells: BTreeSet<(&String, u32)> = times
        .0
        .keys()
        .map(|(_, cell, input)| (cell, *input))
        .collect();
    for (cell, input) in cells {
        let persistent = times.persistent(cell);
        let part = |part: usize| {
            persistent
                .iter()
                .map(|(batch, costs)| (*batch, costs[part]))
                .collect()
        };
        for (name, costs) in [
            (cell.clone(), times.own(TASKS, cell, input)),
            (format!("{cell}.{SWITCH}"), times.more(TASKS, cell, input)),
            (
                format!("{cell}.{WHOLE}"),
                times.own(samples::WHOLE, cell, input),
            ),
            (
                format!("{cell}.{WHOLE}.{SWITCH}"),
                times.more(samples::WHOLE, cell, input),
            ),
            (format!("{cell}.{PERSISTENT}"), part(0)),
            (format!("{cell}.{PERSISTENT}.{LAUNCH}"), part(1)),
        ] {
            rows(&name, input, profile.mean_over_median, &costs);
        }
    }
    for (cell, input) in times
        .0
        .keys()
        .filter(|(kind, ..)| *kind == Kind::Streams(1))
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
        rows(WHOLE, 0, 1.0, &costs(&beside(&profile.whole, times)));
    }
    lines
}

/// The additional time for other members, the mean over the cells.
fn gathers(Profile { times, .. }: &Profile) -> Costs {
    let mut by_batch: BTreeMap<u32, Vec<Cost>> = BTreeMap::new();
    for (_, cell, input) in times.0.keys().filter(|(kind, ..)| *kind == Kind::Exchanged) {
        for (batch, more) in times.more([Kind::Task, Kind::Exchanged], cell, *input) {
            by_batch.entry(batch).or_default().push(more);
        }
    }
    let mean = |found: Vec<Cost>| {
        let (time, spread) = found.iter().fold((0, 0f64), |(time, spread), one| {
            (time + one.0.0, spread.hypot(one.1))
        });
        (
            Nanos(time / found.len() as u64),
            spread / found.len() as f64,
        )
    };
    by_batch
        .into_iter()
        .map(|(batch, found)| (batch, mean(found)))
        .collect()
}

/// How the demands were measured, and where two streams contradict four.
fn shared(profile: &Profile, cell: &str) -> String {
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

fn about(profile: &Profile) -> Vec<String> {
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
        .filter(|(kind, ..)| *kind == Kind::Persistent(short));
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
            .filter(|(kind, ..)| *kind == Kind::Streams(4))
            .map(|(_, cell, _)| shared(profile, cell)),
    );
    let us_each = |all: Decisions| all.time.as_nanos() as f64 / all.calls.max(1) as f64 / 1e3;
    let of = |(batch, decisions): (&u32, &Vec<Decisions>)| {
        (*batch, decisions.iter().copied().sum::<Decisions>())
    };
    let each: Vec<(u32, Decisions)> = profile
        .decisions
        .iter()
        .map(of)
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
