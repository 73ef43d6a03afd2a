//! `batchlab explain`.

use std::path::PathBuf;

use std::str::FromStr;

use serde_json::Value;

use super::render::Shown;
use crate::base::error::{Error, Result, refuse_if};
use crate::base::units::{RequestId, TaskId};
use crate::core::policy::registry::Registry;
use crate::core::summary::stats::Quantile;
use crate::lab::explain::request::RequestExplanation;
use crate::lab::explain::slowest::{SlowestRequests, find_quantile, find_slowest, find_worst};
use crate::lab::explain::task::TaskExplanation;
use crate::lab::explain::{ExplainedSubject, RepeatedRun};
use crate::lab::run::executor::Executors;
use crate::lab::validate::results::{RecordedPoint, Results};

/// Explain a request's life or a task's reasons
///
/// Repeats a run from its results folder. For a request, shows its tasks, the other requests in them, the reasons for
/// its waits, and its padding; for a language model also what ran in the longest time between two tokens. For a task,
/// shows why the policy chose this cell type, this batch size and this moment. A real run needs its recording
/// (output.tasks = true).
#[derive(clap::Args, Clone, Debug)]
#[command(
    override_usage = "batchlab explain [OPTIONS] <RESULTS> <request|task> <N>\n       batchlab explain [OPTIONS] <RESULTS> --slowest <N>"
)]
pub struct Args {
    /// The folder of one point (OUT/SCENARIO/POLICY/RATE), or a folder with only one point; with --slowest, any folder
    /// of results
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// What to explain
    #[arg(value_enum, required_unless_present = "slowest")]
    pub what: Option<SubjectKind>,

    /// Its number, as in requests.csv or tasks.csv; or the measured request with a latency: worst, p50, p90, p95, p99
    /// or p999
    #[arg(value_name = "N", required_unless_present = "slowest")]
    pub which: Option<SubjectChoice>,

    /// Explain the N slowest of the measured requests, at all points of the folder
    #[arg(long, value_name = "N", conflicts_with_all = ["what", "which"],
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub slowest: Option<u16>,

    #[command(flatten)]
    pub shown: Shown,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// A request's life
    Request,
    /// A task's reasons
    Task,
}

/// Which request or task is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectChoice {
    Number(u64),
    /// The slowest request.
    Worst,
    /// The request whose latency is this quantile.
    Quantile(Quantile),
}

impl FromStr for SubjectChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<SubjectChoice, String> {
        if let Ok(number) = text.parse() {
            return Ok(SubjectChoice::Number(number));
        }
        if text == "worst" {
            return Ok(SubjectChoice::Worst);
        }
        let known = Quantile::ALL.into_iter();
        let quantile = known.clone().find(|quantile| quantile.to_string() == text);
        quantile.map(SubjectChoice::Quantile).ok_or_else(|| {
            let known: Vec<String> = known.map(|quantile| quantile.to_string()).collect();
            format!(
                "\"{text}\" is neither a number from 0 to {} nor, for a request, worst or one of {}",
                u64::MAX,
                known.join(", ")
            )
        })
    }
}

pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let results = Results::open(&args.results, registry)?;
    let (Some(what), Some(which)) = (args.what, args.which) else {
        return explain_slowest(args, &results, executors);
    };
    let point = only(args, what, &results)?;
    match what {
        SubjectKind::Request => {
            let request = match which {
                SubjectChoice::Number(number) => RequestId(number),
                SubjectChoice::Worst => find_worst(point)?,
                SubjectChoice::Quantile(quantile) => find_quantile(point, quantile)?,
            };
            let subject = ExplainedSubject::Requests(vec![request]);
            let again = RepeatedRun::run(&results, point, &subject, executors)?;
            let life = RequestExplanation::new(&again, request);
            args.shown.show(|| life.text(), || life.to_json())
        }
        SubjectKind::Task => {
            let SubjectChoice::Number(number) = which else {
                return Err(Error::input(
                    "N: a task has a number; worst and quantiles are those of requests",
                ));
            };
            let task = TaskId(number);
            let subject = ExplainedSubject::Task(task);
            let again = RepeatedRun::run(&results, point, &subject, executors)?;
            let undone = || {
                Error::mistake(
                    &args.results,
                    format!("task {number} was not done when the run ended"),
                )
            };
            let account = TaskExplanation::new(&again, task).ok_or_else(undone)?;
            args.shown.show(|| account.text(), || account.to_json())
        }
    }
}

/// Explains the slowest requests of all points, the slowest first.
fn explain_slowest(args: &Args, results: &Results, executors: &Executors) -> Result<()> {
    let points = &results.points;
    refuse_if(points.is_empty(), || refuse_empty(args))?;
    let count = usize::from(args.slowest.unwrap_or(1));
    let SlowestRequests { requests, compared } = find_slowest(points, count)?;
    refuse_if(requests.is_empty(), || {
        Error::mistake(&args.results, "none of the measured requests was served")
    })?;
    let mut texts = vec![String::new(); requests.len()];
    let mut values = vec![Value::Null; requests.len()];
    for (place, point) in points.iter().enumerate() {
        let own = || requests.iter().filter(|slow| slow.point == place);
        if own().next().is_none() {
            continue;
        }
        let subject = ExplainedSubject::Requests(own().map(|slow| slow.request).collect());
        let again = RepeatedRun::run(results, point, &subject, executors)?;
        for (rank, slow) in requests.iter().enumerate() {
            if slow.point == place {
                let life = RequestExplanation::new(&again, slow.request);
                texts[rank] = life.text();
                values[rank] = life.to_json();
            }
        }
    }
    let found = match requests.len() {
        1 => "the slowest".to_string(),
        several => format!("the {several} slowest"),
    };
    let searched = match &points[..] {
        [point] => point.folder.display().to_string(),
        several => format!("{} points in {}", several.len(), args.results.display()),
    };
    let head = format!("{found} of {compared} measured requests: {searched}\n\n");
    args.shown
        .show(|| head + &texts.join("\n"), || Value::Array(values))
}

fn refuse_empty(args: &Args) -> Error {
    Error::mistake(&args.results, "holds the results of no point")
}

fn only<'r>(args: &Args, what: SubjectKind, results: &'r Results) -> Result<&'r RecordedPoint> {
    match results.points.as_slice() {
        [point] => Ok(point),
        [] => Err(refuse_empty(args)),
        several => {
            let folders: String = several
                .iter()
                .map(|point| format!("\n  {}", point.folder.display()))
                .collect();
            let count = several.len();
            let what = if what == SubjectKind::Request {
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
