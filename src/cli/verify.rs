//! `batchlab verify`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;

use super::render::Shown;
use super::{session, stop_on_ctrl_c};
use crate::base::error::{Error, Result};
use crate::core::policy::registry::Registry;
use crate::lab::run::executor::Executors;
use crate::lab::validate::rerun::{SearchAgain, Verification};

/// Check results by making them again: run what a folder's run.json describes, and compare all files byte for byte
///
/// Simulated runs are made again in a temporary folder; searches too. Of real runs, whose times can't be made again, each
/// decision is: they are replayed. Inputs must be what they were. Exits with 1 if a file differs or is missing.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Results folders, each of one scenario, such as results/sim/NAME
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,

    /// Threads for the runs; results do not depend on it [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub shown: Shown,
}

/// Verifies the folders and prints what differs, which is an error at the end.
pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let stop = stop_on_ctrl_c()?;
    let threads = session::caller_threads(args.threads.map_or(0, usize::from))?;
    let caller = session::caller_or_user(stop);
    let search = |again: &SearchAgain| {
        let mut words = vec!["batchlab".to_string()];
        words.extend(again.words.iter().cloned());
        words.extend([again.scenario.clone(), "--quiet".into(), "--out".into()]);
        words.push(again.out.display().to_string());
        let words = words.into_iter().map(OsString::from);
        super::call(words, registry, executors, &caller).1
    };
    let mut shown = args.shown.several();
    let mut differing = Vec::new();
    for folder in &args.results {
        let found =
            threads.install(|| Verification::run(folder, registry, executors, &search, stop))?;
        let name = folder.display().to_string();
        shown.show(
            || text(&name, &found),
            || {
                let mut value = json!(found);
                value["folder"] = json!(name);
                value
            },
        )?;
        if !found.different.is_empty() {
            let all = found.equal + found.different.len();
            let count = found.different.len();
            differing.push(format!(
                "{name}: {count} of {all} compared files differ from those of a new run"
            ));
        }
    }
    shown.end()?;
    if differing.is_empty() {
        Ok(())
    } else {
        Err(Error::failure(differing.join("\n")))
    }
}

/// What was found in a folder, with the files that differ or can't be compared.
fn text(name: &str, found: &Verification) -> String {
    let verdict = match found.different.len() {
        0 => "verified",
        _ => "NOT VERIFIED",
    };
    let mut text = format!("{name}\n  {verdict}: {} files are equal\n", found.equal);
    for note in &found.notes {
        text += &format!("  {note}\n");
    }
    for note in &found.different {
        text += &format!("  differs  {}: {}\n", note.file, note.what);
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for note in &found.unverified {
        reasons.entry(&note.what).or_default().push(&note.file);
    }
    for (reason, files) in reasons {
        text += &format!("  not compared  {}: {reason}\n", name_some(&files));
    }
    text
}

/// The names of some files, and the number of the others.
fn name_some(files: &[&str]) -> String {
    const SHOWN: usize = 3;
    match files.len().checked_sub(SHOWN) {
        None | Some(0) => files.join(", "),
        Some(others) => format!("{} and {others} others", files[..SHOWN].join(", ")),
    }
}
