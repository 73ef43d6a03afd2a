//! Searches in rounds: in each, every replication searches by itself, and all of them together decide on the next. What
//! the replications find can be kept in a folder, so that a search is resumed and divided into shards.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::executor::SelectedBackend;
use super::folder::Folder;
use super::goal::{Answer, Goal};
use super::knee::{Effort, Objective, over_rates};
use super::lock::Lock;
use super::shard::{PlannedPoint, Shard};
use super::target::describe_simulated;
use crate::base::error::Result;
use crate::lab::scenario::Scenario;

/// The answer, or the replications that are missing, from 0.
pub type Searched<A> = Result<A, Vec<u32>>;

/// Where the searches of a scenario keep what they find, and which of them are carried out.
#[derive(Debug, Default)]
pub struct Kept {
    /// `None`: in memory only.
    folder: Option<(Folder, &'static str)>,
    /// By policy, then by replication; `None`: all.
    own: Option<Vec<bool>>,
}

/// What a search is to answer for each policy of a scenario.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub scenario: &'a Scenario,
    pub objective: &'a Objective,
    pub effort: &'a Effort,
    pub kept: &'a Kept,
    pub stop: &'a AtomicBool,
    /// Called for each replication that is carried out.
    pub progress: &'a (dyn Fn() + Sync),
}

/// The searches of a sweep, each for one goal in a scenario, and their folders.
pub struct Searches<'s> {
    goal: Goal,
    effort: Effort,
    /// What is searched in, and under which objective.
    asked: &'s [(Scenario, Objective)],
    folders: Vec<Folder>,
}

impl<'s> Searches<'s> {
    /// # Errors
    /// A scenario without rates, or with files that can't be read.
    pub fn new(
        goal: Goal,
        asked: &'s [(Scenario, Objective)],
        effort: Effort,
        out: &Path,
    ) -> Result<Self> {
        let (kind, settings) = goal.name();
        let scenarios: Vec<&Scenario> = asked.iter().map(|(scenario, _)| scenario).collect();
        let devices = vec![describe_simulated(SelectedBackend::SIM); asked.len()];
        let folders = Folder::of_variants(&scenarios, &devices, out, SelectedBackend::SIM)?
            .into_iter()
            .zip(asked);
        // All that decides the results beside the scenario, with its first load.
        let folders = folders.map(|(folder, (scenario, objective))| {
            let first = over_rates(scenario)?;
            Ok(folder.for_search(&format!(
                "{kind} {first} {settings} {objective:?} {effort:?}"
            )))
        });
        Ok(Searches {
            goal,
            effort,
            asked,
            folders: folders.collect::<Result<_>>()?,
        })
    }

    /// The points of all of them, in order, with the cost of a replication's first run.
    pub fn points(&self) -> Vec<PlannedPoint> {
        let mut points = Vec::new();
        for (scenario, objective) in self.asked {
            let cost = u64::from(objective.shortest(scenario)).max(1);
            for entry in &scenario.policies {
                let point = |replication| {
                    PlannedPoint::new(scenario, entry, String::new(), replication, cost)
                };
                points.extend((0..self.goal.parts(&self.effort, scenario)).map(point));
            }
        }
        points
    }

    /// The answer for each policy of each scenario. `own` has a value for each point: the others are looked at only.
    pub fn find(
        &self,
        mut own: Option<&[bool]>,
        stop: &AtomicBool,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Vec<Searched<Answer>>>> {
        let one = |((scenario, objective), folder): (&(Scenario, Objective), &Folder)| {
            let points = scenario.policies.len() * self.goal.parts(&self.effort, scenario) as usize;
            let own = own
                .as_mut()
                .and_then(|rest| rest.split_off(..points))
                .map(<[bool]>::to_vec);
            let kept = &Kept {
                folder: Some((folder.clone(), self.goal.name().0)),
                own,
            };
            self.goal.find(&Question {
                scenario,
                objective,
                effort: &self.effort,
                kept,
                stop,
                progress,
            })
        };
        self.asked.iter().zip(&self.folders).map(one).collect()
    }

    /// By what the searches of each scenario have found.
    pub fn mark_finished<A>(&self, points: &mut [PlannedPoint], found: &[Vec<Searched<A>>]) {
        let mut rest = points.iter_mut();
        for (found, (scenario, _)) in found.iter().zip(self.asked) {
            for searched in found {
                let missing = searched.as_ref().err();
                for (replication, point) in
                    (0..self.goal.parts(&self.effort, scenario)).zip(rest.by_ref())
                {
                    point.finished = missing.is_none_or(|missing| !missing.contains(&replication));
                }
            }
        }
    }

    /// Makes the folder ready: for a shard, for going on, or for starting over.
    pub fn open(&self, resume: bool, shard: Option<Shard>) -> Result<Lock> {
        let lock = Lock::take(&self.folder().path, shard)?;
        if !resume && shard.is_none() {
            self.folder().clear_searches(self.goal.name().0);
        }
        Ok(lock)
    }

    pub fn folder(&self) -> &Folder {
        &self.folders[0]
    }

    /// Writes what was searched, as `run.json` has it for runs.
    pub fn write_settings(&self) -> Result<()> {
        let file = format!("{}.json", self.goal.name().0);
        let scenarios: Vec<&Scenario> = self.asked.iter().map(|(scenario, _)| scenario).collect();
        Folder::write_settings(
            &self.folders,
            &scenarios,
            (&file, SelectedBackend::SIM, self.effort.replications),
        )
    }
}

/// The rounds of a policy's search. In each, every replication searches by itself.
pub(super) struct Rounds<'k, F> {
    kept: &'k Kept,
    policy: usize,
    /// By replication, like `known`.
    own: Vec<bool>,
    /// What each has found, round by round.
    known: Vec<Vec<F>>,
    finished: usize,
}

impl<'k, F: Serialize + DeserializeOwned + Clone + Send + Sync> Rounds<'k, F> {
    /// With what is kept of them.
    fn of(kept: &'k Kept, policy: usize, replications: u32) -> Result<Self> {
        let first = policy * replications as usize;
        let own = |replication: u32| {
            kept.own
                .as_ref()
                .is_none_or(|own| own[first + replication as usize])
        };
        let read = |replication| match &kept.folder {
            Some((folder, kind)) => folder.read_search(kind, policy, replication),
            None => Ok(Vec::new()),
        };
        let known = (0..replications).map(read).collect::<Result<_>>()?;
        Ok(Rounds {
            kept,
            policy,
            own: (0..replications).map(own).collect(),
            known,
            finished: 0,
        })
    }

    /// What all replications find in the next round. `one` searches with what is prepared, if any has to. The first round
    /// is short; a shard carries it out for all replications, because it decides on the length of the second, which most
    /// searches end with.
    pub fn next<P: Sync>(
        &mut self,
        prepare: impl FnOnce() -> Result<P>,
        one: impl Fn(&P, u32) -> Result<F> + Sync,
    ) -> Result<Searched<Vec<F>>> {
        let shared = self.finished == 0 && self.own.contains(&true);
        let missing = (0..)
            .zip(&self.known)
            .filter(|(_, known)| known.len() == self.finished);
        let (now, others): (Vec<u32>, Vec<u32>) = missing
            .map(|(replication, _)| replication)
            .partition(|one| shared || self.own[*one as usize]);
        if !now.is_empty() {
            let prepared = prepare()?;
            let search = |replication: &u32| {
                let found = one(&prepared, *replication)?;
                let place = *replication as usize;
                if let Some((folder, kind)) = self.kept.folder.as_ref().filter(|_| self.own[place])
                {
                    let rounds = [&self.known[place][..], std::slice::from_ref(&found)].concat();
                    folder.write_search(kind, self.policy, *replication, &rounds)?;
                }
                Ok(found)
            };
            let found = now
                .par_iter()
                .with_max_len(1)
                .map(search)
                .collect::<Result<Vec<F>>>()?;
            now.iter()
                .zip(found)
                .for_each(|(one, found)| self.known[*one as usize].push(found));
        }
        if !others.is_empty() {
            return Ok(Err(others));
        }
        self.finished += 1;
        Ok(Ok(self
            .known
            .iter()
            .map(|rounds| rounds[self.finished - 1].clone())
            .collect()))
    }
}

/// The answers of a scenario's policies, in parallel.
pub(super) fn of_each_policy<F: Serialize + DeserializeOwned + Clone + Send + Sync>(
    Question {
        scenario,
        kept,
        progress,
        ..
    }: &Question<'_>,
    replications: u32,
    search: impl Fn(usize, Rounds<'_, F>) -> Result<Searched<Answer>> + Sync,
) -> Result<Vec<Searched<Answer>>> {
    let one = |policy| {
        let rounds = Rounds::of(kept, policy, replications)?;
        let own = rounds.own.iter().filter(|own| **own).count();
        let found = search(policy, rounds);
        (0..own).for_each(|_| progress());
        found
    };
    (0..scenario.policies.len())
        .into_par_iter()
        .with_max_len(1)
        .map(one)
        .collect()
}
