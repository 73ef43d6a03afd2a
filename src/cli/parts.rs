//! `--resume`, `--plan`, `--shard` and `--merge-only`: options of commands whose points several processes can compute.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::render::Shown;
use crate::base::error::{Error, Result};
use crate::lab::results::table::{ranges, tabulate};
use crate::lab::run::folder::EarlierResults;
use crate::lab::run::lock;
use crate::lab::run::shard::{PlannedPoint, Shard, shards};

/// One process needs none of them. On a cluster, call the command with `--shard I/N` for each I from 1 to N, then with
/// `--resume`: the files are those of one process.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Keep the finished points of the same scenario, compute what is missing, and merge: after an interruption, after
    /// shards, or with more loads or policies
    #[arg(long)]
    pub resume: bool,

    /// Print the points with their estimated cost in requests, and which are finished; compute nothing
    #[arg(long)]
    pub plan: bool,

    /// Compute only the points of shard I of N (I from 1 to N) that are not finished, and no summary; merge with
    /// --resume
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// Like --resume, but compute nothing: if points are missing, end with exit code 3 and the shards to run again
    #[arg(long, conflicts_with_all = ["plan", "shard"])]
    pub merge_only: bool,
}

impl Parts {
    /// Whether finished points are kept.
    pub fn keeps(&self) -> bool {
        self.resume || self.merge_only
    }

    /// How results that are there count: a plan is made whatever is there, and a merge refuses other settings.
    pub fn earlier_results(&self) -> EarlierResults {
        if self.plan {
            EarlierResults::IgnoreOthers
        } else if self.merge_only {
            EarlierResults::RefuseOthers
        } else {
            EarlierResults::Unread
        }
    }

    /// The shard that is asked for, if any, and whether each of the points is its own.
    pub fn select_points(&self, points: &[PlannedPoint]) -> Option<(Shard, Vec<bool>)> {
        let shard = self.shard?;
        Some((shard, shard.select_points(points)))
    }

    /// Prints the plan. With `--shard`, only its points.
    pub fn show(&self, points: &[PlannedPoint], shown: Shown) -> Result<()> {
        let own = self.select_points(points).map(|(_, own)| own);
        let mut listed = Vec::new();
        for (index, point) in points.iter().enumerate() {
            if own.as_ref().is_none_or(|own| own[index]) {
                let mut point = point.clone();
                point.point = index + 1;
                listed.push(point);
            }
        }
        shown.show(|| plan_text(&listed), || &listed)
    }

    /// Fails if points are missing, and names the shards that have them. The folders are those of the points.
    pub fn refuse_missing(points: &[PlannedPoint], folders: &[PathBuf]) -> Result<()> {
        let missing = points.iter().filter(|point| !point.finished).count();
        if missing == 0 {
            return Ok(());
        }
        let names: Vec<String> = folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        let mut text = format!(
            "{}: {missing} of {} points are missing",
            names.join(", "),
            points.len()
        );
        let counts: BTreeSet<u32> = folders
            .iter()
            .flat_map(|folder| lock::shards(folder))
            .collect();
        for count in counts {
            let mut again = Vec::new();
            for (point, shard) in points.iter().zip(shards(points, count)) {
                if !point.finished {
                    again.push(shard);
                }
            }
            again.dedup();
            text += &format!(
                "; of {count} shards, run again --array={}",
                ranges(&again).join(",")
            );
        }
        text += "; or call --resume to compute them here";
        Err(Error::Incomplete(text))
    }
}

/// The most points that a plan shows to a reader.
const MOST_SHOWN: usize = 1000;
/// The number of the first points, and of the last, that a longer plan shows.
const ENDS_SHOWN: usize = 10;

/// The plan as a table; of a long plan its ends.
fn plan_text(points: &[PlannedPoint]) -> String {
    if points.len() <= MOST_SHOWN {
        return plan_table(points);
    }
    let ends = [&points[..ENDS_SHOWN], &points[points.len() - ENDS_SHOWN..]].concat();
    let hidden = points.len() - ends.len();
    let finished = points.iter().filter(|point| point.finished).count();
    format!(
        "{}and {hidden} points between them, which --format json lists; finished: {finished} of {}\n",
        plan_table(&ends),
        points.len()
    )
}

fn plan_table(points: &[PlannedPoint]) -> String {
    tabulate(
        points,
        &[
            ("point", &|point| point.point.to_string()),
            ("scenario", &|point| point.scenario.clone()),
            ("policy", &PlannedPoint::name),
            ("load", &|point| point.load.clone()),
            ("replication", &|point| point.replication.to_string()),
            ("cost", &|point| point.cost.to_string()),
            ("", &|point| {
                if point.finished {
                    "finished".into()
                } else {
                    String::new()
                }
            }),
        ],
    )
}
