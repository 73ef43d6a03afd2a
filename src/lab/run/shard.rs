//! Shards: parts of a run, which processes on one or several machines compute into one folder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use crate::base::files::folder_name;
use crate::lab::results::sweep_keys::{self, Swept};
use crate::lab::scenario::{Load, PolicyEntry, Scenario};

/// One of several shards, numbered from 1: `2/7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    pub count: u32,
}

/// A unit of work that one shard computes as a whole: a replication of a policy under a load, or of a search.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PlannedPoint {
    /// The number of the point in a plan, from 1.
    pub point: usize,
    pub scenario: String,
    pub policy: String,
    /// The load; empty for a search.
    pub load: String,
    pub swept: Vec<Swept>,
    /// The number of the replication, from 1.
    pub replication: u32,
    /// The estimated cost: the number of requests of the point's run, or of its search's first run.
    pub cost: u64,
    pub finished: bool,
}

impl PlannedPoint {
    pub fn name(&self) -> String {
        sweep_keys::label(&self.policy, &self.swept)
    }

    /// The folder of the point's files within that of the scenario's results.
    pub fn folder(&self) -> PathBuf {
        let point = sweep_keys::point_folder(&self.load, &self.swept);
        Path::new(&folder_name(&self.policy)).join(point)
    }

    pub(crate) fn new(
        scenario: &Scenario,
        entry: &PolicyEntry,
        load: String,
        replication: u32,
        cost: u64,
    ) -> PlannedPoint {
        let scenario = scenario.name.clone();
        let policy = entry.label.clone();
        let swept = entry.swept.clone();
        PlannedPoint {
            scenario,
            policy,
            load,
            swept,
            replication: replication + 1,
            cost,
            ..PlannedPoint::default()
        }
    }
}

/// The cost of a run: the number of its requests, or 1 if the trace cannot be read.
pub(super) fn cost(scenario: &Scenario) -> u64 {
    match &scenario.workload.load {
        Load::Drawn { requests, .. } => *requests,
        Load::Trace { trace, .. } => trace.read().map_or(1, |file| file.trace.len() as u64),
    }
}

impl Shard {
    /// Whether each of the points belongs to this shard. Neighbours, which share their requests, mostly go to one
    /// shard, and the shards' costs are about the same. Only the list of points and the number of shards decide.
    pub fn select_points(self, points: &[PlannedPoint]) -> Vec<bool> {
        shards(points, self.count)
            .map(|shard| shard == self.index)
            .collect()
    }
}

/// The shard of each point.
pub fn shards(points: &[PlannedPoint], count: u32) -> impl Iterator<Item = u32> {
    let total: u128 = points.iter().map(|point| u128::from(point.cost)).sum();
    let mut before = 0;
    points.iter().map(move |point| {
        let cost = u128::from(point.cost);
        let middle = 2 * before + cost;
        before += cost;
        (middle * u128::from(count) / (2 * total)) as u32 + 1
    })
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        let shard = parts.filter(|(index, count)| (1..=*count).contains(index));
        let shard = shard.map(|(index, count)| Shard { index, count });
        shard.ok_or_else(|| format!("\"{text}\" is not I/N with I from 1 to N, such as 2/7"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(costs: &[u64]) -> Vec<PlannedPoint> {
        let point = |cost: &u64| PlannedPoint {
            cost: *cost,
            ..PlannedPoint::default()
        };
        costs.iter().map(point).collect()
    }

    #[test]
    fn shards_have_the_same_cost_and_neighbours() {
        let of = |costs: &[u64], count| shards(&points(costs), count).collect::<Vec<_>>();
        assert_eq!(of(&[5; 8], 3), [1, 1, 1, 2, 2, 3, 3, 3]);
        assert_eq!(of(&[1, 1, 1, 3], 2), [1, 1, 1, 2]);
        assert_eq!(of(&[u64::MAX, u64::MAX], 2), [1, 2]);
        assert_eq!(of(&[7; 2], 5), [2, 4], "some have none");
        for count in 1..40 {
            let all = of(&[2; 30], count);
            assert!(
                all.is_sorted() && all.iter().all(|shard| (1..=count).contains(shard)),
                "{all:?}"
            );
        }
    }

    #[test]
    fn a_shard_is_one_of_several() {
        assert_eq!("2/7".parse(), Ok(Shard { index: 2, count: 7 }));
        for wrong in ["0/4", "5/4", "2", "/", "1/0", "-1/2", "a/b", "1/2/3"] {
            assert!(
                wrong
                    .parse::<Shard>()
                    .unwrap_err()
                    .starts_with(&format!("\"{wrong}\" is not I/N")),
                "{wrong}"
            );
        }
    }
}
