//! `batchlab verify`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;

use super::render::Shown;
use super::{BatchlabCommand, find, refuse_option, session, stop_on_ctrl_c};
use crate::base::error::{Error, Result};
use crate::core::policy::registry::Registry;
use crate::lab::run::executor::Executors;
use crate::lab::validate::rerun::{SearchAgain, Verification};

/// Check results by making them again: run what a folder's run.json describes, and compare all files byte for byte
///
/// Simulated runs, `find-knee` and `find-workers` are repeated in a temporary folder. Of real runs, whose times can't be
/// made again, each decision is: they are replayed. Inputs must be what they were. Exits with 1 if a file differs or is
/// missing. Exits with 2 if the results can't be verified.
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
    let search =
        |again: &SearchAgain<'_>| session::answer(&caller, || search_again(again, executors)).1;
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

/// Does a search again with the scenarios that its folder has.
fn search_again(again: &SearchAgain<'_>, executors: &Executors) -> Result<()> {
    let mut words = vec!["batchlab".to_string()];
    words.extend(again.words.iter().cloned());
    let file = again.scenarios[0].file.display().to_string();
    words.extend(["--quiet".into(), "--out".into()]);
    words.push(again.out.display().to_string());
    words.extend(["--".into(), file]);
    let words = words.into_iter().map(OsString::from);
    let scenarios = again.scenarios.to_vec();
    match super::parse(words, executors).map_err(|error| refuse_option(&error))? {
        BatchlabCommand::FindKnee(args) => find::find_knee_in(&args, scenarios),
        BatchlabCommand::FindWorkers(args) => find::find_workers_in(&args, scenarios),
        _ => Err(Error::input("command: is not a search")),
    }
}

/// What was found in a folder, with the files that differ or can't be compared.
fn text(name: &str, found: &Verification) -> String {
    let verdict = match found.different.len() {
        0 => "verified",
        _ => "NOT VERIFIED",
    };
    let equal = match found.equal {
        1 => "1 file is equal".to_string(),
        count => format!("{count} files are equal"),
    };
    let mut text = format!("{name}\n  {verdict}: {equal}\n");
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
