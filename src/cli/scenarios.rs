//! `batchlab scenarios`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::files_of;
use super::render::{Shown, print};
use crate::base::error::{Error, Result};
use crate::base::files::write_whole;
use crate::base::shipped::{self, BuiltIn, Shipped};
use crate::core::policy::registry::Registry;
use crate::lab::scenario::Scenario;

/// List the scenarios that batchlab brings along, or copy some to change them
///
/// Commands take their names: batchlab sim batchmaker/fig7a, or fig7a where only one scenario is called so. Without a
/// file on disk, paths such as scenarios/costs/v100.csv and traces/europarl-en.csv mean the built-in files in any
/// folder.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<ScenariosCommand>,

    #[command(flatten)]
    shown: Shown,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum ScenariosCommand {
    /// Write scenarios to a folder, with the cost tables, traces, networks and devices that they name
    ///
    /// They keep their paths below the folder, and run in it. A file with other contents is never replaced.
    Copy {
        /// Names of scenarios
        #[arg(required = true, value_name = "NAME")]
        names: Vec<PathBuf>,

        /// Folder to write to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    if let Some(ScenariosCommand::Copy { names, folder }) = &args.command {
        return copy(names, folder, registry);
    }
    let all = Shipped::Scenario.all();
    let width = all.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let line = |one: &BuiltIn| format!("{:<width$}  {}\n", one.name, one.about());
    let object = |one: &BuiltIn| json!({ "name": one.name, "file": Shipped::Scenario.path(one.name), "about": one.about() });
    args.shown.show(
        || all.iter().map(line).collect(),
        || all.iter().map(object).collect::<Vec<_>>(),
    )
}

fn copy(names: &[PathBuf], folder: &Path, registry: &Registry) -> Result<()> {
    let mut copies = BTreeMap::new();
    for name in names {
        let scenarios = Scenario::expand(&Shipped::Scenario.find(name)?, &[], &[], registry)?;
        for file in files_of(&scenarios) {
            let outside = || {
                Error::mistake(
                    file,
                    "lies outside of this folder; copy works on built-in scenarios",
                )
            };
            let plain = shipped::within_repository(file).ok_or_else(outside)?;
            let content = shipped::read(file).map_err(|cause| Error::unreadable(file, &cause))?;
            copies.insert(folder.join(plain), content);
        }
    }
    // Scenarios share files.
    let is_same = |copy: &Path, content: &[u8]| {
        copy.is_file() && fs::read(copy).is_ok_and(|there| there == content)
    };
    let is_other =
        |(copy, content): &(&PathBuf, &Vec<u8>)| copy.exists() && !is_same(copy, content);
    if let Some((there, _)) = copies.iter().find(is_other) {
        return Err(Error::mistake(
            there,
            "exists already with other contents; name another folder, or remove the file",
        ));
    }
    for (copy, content) in copies {
        if !copy.exists() {
            write_whole(&copy, |out| out.write_all(&content))?;
        }
        print(&format!("{}\n", copy.display()))?;
    }
    Ok(())
}
