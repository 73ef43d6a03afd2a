//! `batchlab explain`.

use std::path::PathBuf;

use super::render::Shown;
use crate::base::error::{Error, Result};
use crate::base::units::{RequestId, TaskId};
use crate::core::policy::registry::Registry;
use crate::lab::explain::request::RequestExplanation;
use crate::lab::explain::task::TaskExplanation;
use crate::lab::explain::{ExplainedSubject, RepeatedRun, SubjectKind};
use crate::lab::run::executor::Executors;
use crate::lab::validate::results::{RecordedPoint, Results};

/// Explain a request's life or a task's reasons
///
/// Repeats a run from its results folder. For a request, shows its tasks, the other requests in them, the reasons for
/// its waits, and its padding; for a task, why the policy chose this cell type, this batch size and this moment. A real
/// run needs its recording (output.tasks = true).
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The folder of one point (OUT/SCENARIO/POLICY/RATE), or a folder with only one point
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    #[command(flatten)]
    pub subject: ExplainedSubject,

    #[command(flatten)]
    pub shown: Shown,
}

pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let results = Results::open(&args.results, registry)?;
    let point = only(args, &results)?;
    let ExplainedSubject { what, number } = args.subject;
    let again = RepeatedRun::run(&results, point, args.subject, executors)?;
    match what {
        SubjectKind::Request => {
            let life = RequestExplanation::new(&again, RequestId(number));
            args.shown.show(|| life.text(), || life.to_json())
        }
        SubjectKind::Task => {
            let undone = || {
                Error::mistake(
                    &args.results,
                    format!("task {number} was not done when the run ended"),
                )
            };
            let account = TaskExplanation::new(&again, TaskId(number)).ok_or_else(undone)?;
            args.shown.show(|| account.text(), || account.to_json())
        }
    }
}

fn only<'r>(args: &Args, results: &'r Results) -> Result<&'r RecordedPoint> {
    match results.points.as_slice() {
        [point] => Ok(point),
        [] => Err(Error::mistake(
            &args.results,
            "holds the results of no point",
        )),
        several => {
            let folders: String = several
                .iter()
                .map(|point| format!("\n  {}", point.folder.display()))
                .collect();
            let count = several.len();
            let what = if args.subject.what == SubjectKind::Request {
                "life"
            } else {
                "task"
            };
            let why = format!(
                "holds {count} points, and a number means another {what} in each; name one of{folders}"
            );
            Err(Error::mistake(&args.results, why))
        }
    }
}
