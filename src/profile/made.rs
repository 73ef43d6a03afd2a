//! The measurement of several networks as one cost table.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Settings, Subject, Wanted, measure, report};
use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::error::Result;
use crate::experiment::target::{Target, Verify};
use crate::network::Network;
use crate::workload::trace::Requests;

/// A cost table that was measured.
#[derive(Clone, Debug)]
pub struct Made {
    /// The file's text.
    pub csv: String,
    /// The lines above its rows: the command, the machine, how well it interpolates.
    pub notes: Vec<String>,
    /// The measured times for a reader at a terminal.
    pub shown: String,
}

/// Measures networks on this machine's processor. What tasks cost beside their cells is that of the first. `command` is what
/// the header says made the table. Calls `progress` [`Wanted::steps`] times for each.
///
/// # Errors
/// Weights that don't fit, a thread that can't be started, a task that failed,
/// [`Error::Interrupted`](crate::error::Error::Interrupted) once `stop` is set.
pub fn on_cpu(
    wanted: &[Wanted],
    settings: &Settings,
    command: &str,
    stop: &AtomicBool,
    progress: &dyn Fn(),
) -> Result<Made> {
    let networks =
        wanted.iter().map(|one| Network::new(&one.model, &one.spec).map(Arc::new)).collect::<Result<Vec<_>>>()?;
    let sized = wanted.iter().any(|one| !one.inputs.is_empty());
    let mut notes = preamble(settings, command);
    let (mut rows, mut shown) = (String::new(), String::new());
    for (place, (one, network)) in wanted.iter().zip(&networks).enumerate() {
        let start = |requests: &Requests| -> Result<Box<dyn Backend>> {
            Ok(Box::new(Cpu::new(Arc::clone(network), requests, settings.workers)?))
        };
        let found = measure(&Subject { wanted: one, start: &start }, settings, stop, progress)?;
        notes.push(one.described());
        notes.extend(report::about(&found));
        rows.push_str(&report::rows(&found, place == 0, sized));
        shown.push_str(&report::times(&found));
    }
    if wanted.len() > 1 {
        notes.push(format!("task, gather and launch: those of {}", wanted[0].model.name()));
    }
    let mut csv = String::new();
    for note in &notes {
        writeln!(csv, "# {note}").expect("a string takes all");
    }
    csv.push_str(report::header(sized));
    csv.push_str(&rows);
    Ok(Made { csv, notes, shown })
}

/// How the table came about. It has no date, so that the same machine gives the same header.
fn preamble(settings: &Settings, command: &str) -> Vec<String> {
    let target = Target::Cpu(Verify::None);
    let plural = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    vec![
        command.to_string(),
        format!(
            "batchlab {} ({}), backend {}, {}, {}, {}",
            env!("CARGO_PKG_VERSION"),
            env!("BATCHLAB_COMMIT"),
            target.name(),
            target.device(),
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
