//! `batchlab explain`: why a request took as long as it did, and why a task was formed as it was.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Format, print, print_json};
use crate::error::{Error, Result};
use crate::experiment::executor::Executors;
use crate::explain::request::Life;
use crate::explain::task::Account;
use crate::explain::{Again, Subject};
use crate::policy::registry::Registry;
use crate::units::{RequestId, TaskId};
use crate::validate::results::{Point, Results};

/// Explain a request's life or a task's reasons
///
/// Goes through a run once more, from its results folder, and tells of a request in which tasks it was, with whom, what it
/// waited for and what padding it paid; of a task why the policy chose this cell type, why so many, and why then. A real run
/// needs its recording (output.tasks = true).
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The folder of one point (OUT/SCENARIO/POLICY/RATE), or a folder that holds no other
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// What is to be explained
    #[arg(value_enum)]
    pub what: What,

    /// Its number, as in requests.csv or tasks.csv
    #[arg(value_name = "N")]
    pub number: u64,

    /// How it is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What can be explained.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A request's life
    Request,
    /// A task's reasons
    Task,
}

/// Explains one request or task.
///
/// # Errors
/// A folder of no run or of several; a run that can't be gone through again; a number that is not there.
pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let results = Results::open(&args.results, registry)?;
    let point = only(args, &results)?;
    let subject = match args.what {
        What::Request => Subject::Request(RequestId(u32::try_from(args.number).unwrap_or(u32::MAX))),
        What::Task => Subject::Task(TaskId(args.number)),
    };
    let again = Again::run(&results, point, subject, executors)?;
    let (text, json) = match subject {
        Subject::Request(request) => {
            let life = Life::new(&again, request);
            (life.text(), life.to_json())
        }
        Subject::Task(task) => {
            let account = Account::new(&again, task).ok_or_else(|| {
                Error::input(format!("{}: task {task} was not done when the run ended", args.results.display()))
            })?;
            (account.text(), account.to_json())
        }
    };
    match args.format {
        Format::Table => print(&text),
        Format::Json => print_json(vec![json]),
    }
}

/// The one point of the folder.
fn only<'r>(args: &Args, results: &'r Results) -> Result<&'r Point> {
    match results.points.as_slice() {
        [point] => Ok(point),
        [] => Err(Error::input(format!("{}: holds the results of no point", args.results.display()))),
        several => {
            let folders: Vec<String> = several.iter().map(|point| format!("  {}", point.folder.display())).collect();
            Err(Error::input(format!(
                "{}: holds {} points, and a number means another {} in each; name one of\n{}",
                args.results.display(),
                several.len(),
                if args.what == What::Request { "life" } else { "task" },
                folders.join("\n")
            )))
        }
    }
}
