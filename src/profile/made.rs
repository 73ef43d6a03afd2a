//! The measurement of several networks as one cost table.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use super::{Settings, Subject, Wanted, measure, report, unfolded};
use crate::error::{Context as _, Result};
use crate::experiment::engine::{self, Engine};
use crate::network::Network;

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

/// Measures networks, one after the other. What tasks cost beside their cells is that of the first. `command` is what the
/// header says made the table. Calls `progress` [`Wanted::steps`] times for each.
///
/// # Errors
/// Weights that do not fit their network, a device that is not there or does not have the network's cells, before anything
/// is measured; a tree that the network does not take; a task that failed;
/// [`Error::Interrupted`](crate::error::Error::Interrupted) once `stop` is set.
pub fn make(
    wanted: &[Wanted],
    settings: &Settings,
    command: &str,
    stop: &AtomicBool,
    progress: &dyn Fn(),
) -> Result<Made> {
    let mut engines = wanted.iter().map(|one| ready(one, settings)).collect::<Result<Vec<_>>>()?;
    let sized = wanted.iter().any(|one| !one.inputs.is_empty());
    let device = engines.first().map_or_else(String::new, Engine::described);
    let mut notes = preamble(settings, command, &device);
    let (mut rows, mut shown) = (String::new(), String::new());
    for (place, (one, engine)) in wanted.iter().zip(&mut engines).enumerate() {
        let precision = engine.precision();
        let found = measure(&mut Subject { wanted: one, settings, stop, engine }, progress)?;
        notes.push(one.described(precision));
        notes.extend(report::about(&found));
        rows.push_str(&report::rows(&found, place == 0, sized));
        shown.push_str(&report::times(&found));
    }
    if wanted.len() > 1 {
        notes.push(format!("task, gather, launch and whole: those of {}", wanted[0].model.name()));
    }
    let mut csv = String::new();
    for note in &notes {
        writeln!(csv, "# {note}").expect("a string takes all");
    }
    csv.push_str(report::header(sized));
    csv.push_str(&rows);
    Ok(Made { csv, notes, shown })
}

/// The network of a measurement on its device.
fn ready(wanted: &Wanted, settings: &Settings) -> Result<Engine> {
    let Settings { processor, gpu, workers, persistent, .. } = settings;
    engine::check(*processor, &wanted.model, gpu)?;
    let engine =
        Engine::new(*processor, Network::new(&wanted.model, &wanted.spec)?, gpu, persistent.as_ref(), *workers)?;
    let trees = unfolded(wanted.trees.clone(), &wanted.model)?;
    for (number, tree) in trees.graphs.iter().enumerate() {
        engine.network().check(tree).within(format_args!("request {number}"))?;
    }
    Ok(engine)
}

/// How the table came about. It has no date, so that the same machine gives the same header.
fn preamble(settings: &Settings, command: &str, device: &str) -> Vec<String> {
    let plural = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    vec![
        command.to_string(),
        format!(
            "batchlab {} ({}), backend {}, {}, {}, {}",
            env!("CARGO_PKG_VERSION"),
            env!("BATCHLAB_COMMIT"),
            settings.processor.name(),
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
