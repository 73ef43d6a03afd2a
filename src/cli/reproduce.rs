//! `batchlab reproduce`: the papers' figures and claims.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::target::Target;
use crate::experiment::{self, Options};
use crate::figures::{Claim, Findings, Verdict, claims, report};
use crate::metrics::table;
use crate::policy::registry::Registry;

/// Reproduce the papers' figures (fig7a, …), or check their claims
///
/// A figure runs its scenario and draws it; `claims` runs every scenario that a claim needs and prints the paper's figure,
/// ours and the gap; `all` does both. Run it in the repository, where the scenarios are.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Names of figures, `claims` or `all`
    #[arg(required = true, value_name = "FIGURE")]
    pub what: Vec<String>,

    /// The folder of the papers' scenarios
    #[arg(long, value_name = "DIR", default_value = "scenarios/batchmaker")]
    pub scenarios: PathBuf,

    #[command(flatten)]
    pub common: Common,
}

/// Runs scenarios and checks claims.
///
/// # Errors
/// An unknown name, with those that are known; whatever goes wrong with a scenario; Ctrl-C.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let known = figures(&args.scenarios)?;
    let mut wanted = BTreeSet::new();
    let mut check = false;
    for what in &args.what {
        match what.as_str() {
            "claims" => check = true,
            "all" => {
                check = true;
                wanted.extend(known.iter().cloned());
            }
            figure if known.contains(figure) => {
                wanted.insert(figure.to_string());
            }
            other => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(Error::input(format!(
                    "unknown figure \"{other}\"; known: {}, claims, all",
                    known.join(", ")
                )));
            }
        }
    }
    let drawn = wanted.clone();
    if check {
        wanted.extend(claims().flat_map(|claim| claim.scenarios).map(ToString::to_string));
    }

    let common = &args.common;
    let stop = stop_on_ctrl_c()?;
    let mut findings = Findings::default();
    let mut documents = Vec::new();
    for name in &wanted {
        let scenario = common.scenario(&args.scenarios.join(format!("{name}.toml")), registry)?;
        let options =
            Options { target: Target::Sim, out: common.out(Target::Sim.name()), replications: 1, resume: false };
        let bar = common.progress(scenario.policies.len() * scenario.points().len(), name);
        let report = common.on_threads(|| experiment::run(&scenario, &options, stop, &|| bar.inc(1)))?;
        bar.finish_and_clear();
        if report.interrupted() {
            return Err(Error::Interrupted);
        }
        if drawn.contains(name) {
            match common.format {
                Format::Table => print(&format!("{name}\n{}\n", table::table(&report.rows)))?,
                Format::Json => documents.push(table::to_json(name, &report.rows)),
            }
        }
        common.note(format!("results in {}", report.folder.path().display()));
        findings.add(name, report);
    }
    if check {
        let checked: Vec<(&Claim, Verdict)> =
            claims().map(|claim| Ok((claim, (claim.check)(&findings)?))).collect::<Result<_>>()?;
        match common.format {
            Format::Table => print(&report::table(&checked))?,
            Format::Json => documents.push(report::to_json(&checked)),
        }
    }
    if common.format == Format::Json { print_json(documents) } else { Ok(()) }
}

/// The names of the figures that have a scenario.
fn figures(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder).map_err(|cause| {
        Error::input(format!(
            "{}: the papers' scenarios can't be read: {cause}; run this in the repository or give --scenarios DIR",
            folder.display()
        ))
    })?;
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect())
}
