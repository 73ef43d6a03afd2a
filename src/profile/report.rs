//! What was measured, as the rows of a cost table and the lines above them.

use std::fmt::Write as _;

use super::{LeaveOneOut, Profile, STEPS, Samples, StepCost};
use crate::metrics::recorder::Decisions;
use crate::results::table::{aligned, significant};
use crate::units::Nanos;
use crate::workload::row_names::{GATHER, LAUNCH, PERSISTENT, SWITCH, TASK, WHOLE};

/// The rows of a cost table: the cells by name, with what the machine takes for itself, then what tasks cost beside them. `overheads` says
/// whether this profile gives the latter, of which a table has one; `sized`, whether the table has a column for inputs.
pub fn rows(profile: &Profile, overheads: bool, sized: bool) -> String {
    let mut text = String::new();
    let ratio = profile.mean_over_median();
    let mut row = |cell: &str, input: u32, batch: u32, time: Nanos, deviation: f64| {
        let input = match (sized, input) {
            (false, _) => String::new(),
            (true, 0) => ",".into(),
            (true, input) => format!(",{input}"),
        };
        writeln!(text, "{cell},{batch},{},{deviation:.0}{input}", time.0).expect("a string takes all");
    };
    for ((cell, input), batches) in &profile.cells {
        for (batch, samples) in batches {
            row(cell, *input, *batch, scaled(samples.median(), ratio), samples.deviation());
        }
    }
    for (cell, batches) in &profile.turns {
        for (batch, behind_other) in batches {
            let (longer, deviation) = profile.switch(cell, *batch, behind_other);
            row(&format!("{cell}.{SWITCH}"), 0, *batch, scaled(longer, ratio), deviation);
        }
    }
    for (cell, batches) in profile.whole.steps() {
        let name = format!("{cell}.{WHOLE}");
        for (batch, StepCost { own: (time, deviation), .. }) in &batches {
            row(&name, 0, *batch, scaled(*time, ratio), *deviation);
        }
        for (batch, StepCost { switch, .. }) in &batches {
            if let Some((longer, deviation)) = switch {
                row(&format!("{name}.{SWITCH}"), 0, *batch, scaled(*longer, ratio), *deviation);
            }
        }
    }
    for (cell, batches) in &profile.persistent {
        let name = format!("{cell}.{PERSISTENT}");
        for (batch, launches) in batches {
            let (step, deviation) = launches.step();
            row(&name, 0, *batch, scaled(step, ratio), deviation);
        }
        for (batch, launches) in batches {
            let (launch, deviation) = launches.launch();
            row(&format!("{name}.{LAUNCH}"), 0, *batch, scaled(launch, ratio), deviation);
        }
    }
    if overheads {
        for (batch, samples) in &profile.between {
            row(TASK, 0, *batch, samples.median(), samples.deviation());
        }
        for (batch, (gather, deviation)) in profile.gathers() {
            row(GATHER, 0, batch, gather, deviation);
        }
        for (batch, launch) in &profile.launches {
            row(LAUNCH, 0, *batch, launch.times.median(), launch.times.deviation());
        }
        for (requests, beside) in profile.whole.beside() {
            row(WHOLE, 0, requests, beside.median(), beside.deviation());
        }
    }
    text
}

/// The names of the columns.
pub fn header(sized: bool) -> &'static str {
    if sized { "cell,batch,ns,stddev_ns,input\n" } else { "cell,batch,ns,stddev_ns\n" }
}

/// The operators of a network can be many, each at several sizes: beyond so many a line stands for them all.
const MOST_LINES: usize = 16;

/// What a reader of the table should know of a profile, a line each: how well lines between the points hold, and what
/// decisions took.
pub fn about(profile: &Profile) -> Vec<String> {
    let errors = profile.cells.iter().filter_map(|((cell, input), batches)| {
        let errors = leave_one_out(batches);
        let (batch, largest) = errors.largest()?;
        Some((named(cell, *input), errors.mean()?, largest, batch))
    });
    let errors: Vec<(String, f64, f64, u32)> = errors.collect();
    let mut lines: Vec<String> = match errors.iter().max_by(|a, b| a.2.abs().total_cmp(&b.2.abs())) {
        Some((worst, _, largest, batch)) if errors.len() > MOST_LINES => vec![format!(
            "interpolation of {} cells: leaving out each inner batch, the line through its neighbours is off by {:.2} % on average \
             and at most by {:+.2} %, at {batch} of {worst}",
            errors.len(),
            100.0 * errors.iter().map(|(_, mean, ..)| mean).sum::<f64>() / errors.len() as f64,
            100.0 * largest
        )],
        _ => {
            let line = |(cell, mean, largest, batch): &(String, f64, f64, u32)| {
                format!(
                    "interpolation of {cell}: leaving out each inner batch, the line through its neighbours is off by {:.2} % on \
                     average and at most by {:+.2} %, at {batch}",
                    100.0 * mean,
                    100.0 * largest
                )
            };
            errors.iter().map(line).collect()
        }
    };
    lines.push(format!(
        "ns of cells: the median times {:.4}, by which the mean of all samples is above the medians of their batches, because \
         the machine takes time for itself",
        profile.mean_over_median()
    ));
    let [short, long] = STEPS;
    lines.extend(profile.persistent.keys().map(|cell| {
        format!(
            "{cell}.{PERSISTENT}: tasks of {short} and of {long} steps in persistent kernels; a step is its part of the difference, and \
             the launch what the shorter ones take beside their steps"
        )
    }));
    let all: Decisions = profile.launches.values().map(|launch| launch.decisions).sum();
    if all.calls > 0 {
        let each = profile.launches.iter().filter(|(_, launch)| launch.decisions.calls > 0).map(|(batch, launch)| {
            let Decisions { calls, time, .. } = launch.decisions;
            format!("{batch}: {:.2}", time.as_nanos() as f64 / calls as f64 / 1e3)
        });
        lines.push(format!(
            "scheduler: {:.2} us a decision of one task, with its submission (by batch: {})",
            all.time.as_nanos() as f64 / all.calls as f64 / 1e3,
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    lines
}

/// The measured times and how far lines are from them, for a reader at a terminal.
pub fn times(profile: &Profile) -> String {
    let heading = ["cell", "batch", "us", "spread", "us a member", "left out"].map(String::from).to_vec();
    let mut lines = vec![heading];
    let micros = |ns: f64| significant(ns / 1e3);
    let mut line = |cell: String, batch: u32, time: Nanos, deviation: f64, error: Option<f64>| {
        let ns = time.0 as f64;
        lines.push(vec![
            cell,
            batch.to_string(),
            micros(ns),
            if ns > 0.0 { format!("{:.1} %", 100.0 * deviation / ns) } else { "-".into() },
            micros(ns / f64::from(batch)),
            error.map_or(String::new(), |error| format!("{:+.2} %", 100.0 * error)),
        ]);
    };
    for ((cell, input), batches) in &profile.cells {
        let errors = leave_one_out(batches);
        for (batch, samples) in batches {
            let error = errors.errors.iter().find(|(left_out, _)| left_out == batch).map(|(_, error)| *error);
            line(named(cell, *input), *batch, samples.median(), samples.deviation(), error);
        }
    }
    for (cell, batches) in &profile.persistent {
        let name = format!("{cell}.{PERSISTENT}");
        for (batch, launches) in batches {
            let (step, deviation) = launches.step();
            line(name.clone(), *batch, step, deviation, None);
        }
        for (batch, launches) in batches {
            let (launch, deviation) = launches.launch();
            line(format!("{name}.{LAUNCH}"), *batch, launch, deviation, None);
        }
    }
    for (batch, launch) in &profile.launches {
        line("launch".into(), *batch, launch.times.median(), launch.times.deviation(), None);
    }
    aligned(&lines)
}

fn leave_one_out(batches: &std::collections::BTreeMap<u32, Samples>) -> LeaveOneOut {
    LeaveOneOut::of(&batches.iter().map(|(batch, samples)| (*batch, samples.median())).collect::<Vec<_>>())
}

fn scaled(time: Nanos, ratio: f64) -> Nanos {
    Nanos((time.0 as f64 * ratio).round() as u64)
}

fn named(cell: &str, input: u32) -> String {
    if input == 0 { cell.to_string() } else { format!("{cell} of {input}") }
}
