//! `batchlab explain`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::Format;
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
/// Repeats a run from its results folder. For a request, shows its tasks, the other requests in them, the reasons for its
/// waits, and its padding; for a task, why the policy chose this cell type, this batch size and this moment. A real run needs
/// its recording (output.tasks = true).
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The folder of one point (OUT/SCENARIO/POLICY/RATE), or a folder with only one point
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// What to explain
    #[arg(value_enum)]
    pub what: What,

    /// Its number, as in requests.csv or tasks.csv
    #[arg(value_name = "N")]
    pub number: u64,

    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A request's life
    Request,
    /// A task's reasons
    Task,
}

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
    args.format.show(|| text, || json)
}

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
