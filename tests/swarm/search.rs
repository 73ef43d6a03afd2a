//! Draws a case for each seed, checks it, and reduces the cases that break a law.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use batchlab::error::{Error, Result};
use batchlab::policy::registry::Registry;
use batchlab::results::columns::name_of;

use crate::check::check_scenario;
use crate::draw::Case;
use crate::shrink::smallest;

/// The numbers of cases and runs of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub cases: u64,
    /// Cases whose scenario batchlab rejects.
    pub refused: u64,
    pub runs: usize,
    /// Cases that break a law.
    pub broken: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            cases,
            refused,
            runs,
            broken,
        } = self;
        write!(
            f,
            "{cases} cases, {refused} of them refused, with {runs} runs: {broken} break a law"
        )
    }
}

/// Draws and checks a case for each seed until `stop` is set. `report` gets a text on each case that fails; its reduced
/// files stay in `out`.
///
/// # Errors
/// `out` can't be written.
pub fn search(
    seeds: impl Iterator<Item = u64>,
    registry: &Registry,
    out: &Path,
    stop: &AtomicBool,
    mut report: impl FnMut(&str),
) -> Result<Counts> {
    let mut counts = Counts::default();
    for seed in seeds.take_while(|_| !stop.load(Ordering::Relaxed)) {
        let case = Case::draw(seed, registry);
        let folder = out.join(seed.to_string());
        counts.cases += 1;
        let broken = match check_case(&case, registry, &folder)? {
            Ok(runs) => {
                counts.runs += runs;
                None
            }
            Err(Error::Input(_)) => {
                counts.refused += 1;
                None
            }
            Err(error) => {
                let law = error.to_string();
                Some(smallest(case, law, |case| {
                    check_case(case, registry, &folder)
                })?)
            }
        };
        // Files that can't be removed are overwritten by the next case of this seed.
        let _ = fs::remove_dir_all(&folder);
        if let Some((case, law)) = broken {
            counts.broken += 1;
            let file = case.write(&folder)?;
            report(&describe(seed, &law, &case, &file));
        }
    }
    Ok(counts)
}

/// The outcome of a case: the number of its runs, or the law that it breaks. The outer error is that of a folder that
/// can't be written.
fn check_case(case: &Case, registry: &Registry, folder: &Path) -> Result<Result<usize>> {
    let file = case.write(folder)?;
    Ok(check_scenario(&file, &case.faults, registry, folder))
}

fn describe(seed: u64, law: &str, case: &Case, file: &Path) -> String {
    let mut options = format!("--case {}", file.display());
    if !case.faults.is_empty() {
        let faults: Vec<String> = case.faults.iter().map(name_of).collect();
        options += &format!(" --faults {}", faults.join(","));
    }
    let files: Vec<&str> = case.files.keys().copied().collect();
    format!(
        "seed {seed}: {law}\nthe smallest case found, with {} beside it:\n\n{}\nrepeat it with: cargo test --test swarm -- \
         {options}\n",
        files.join(", "),
        case.scenario,
    )
}
