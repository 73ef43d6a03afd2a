//! Searches in rounds: in each, every replication searches by itself, and all of them together decide on the next. What
//! the replications find can be kept in a folder, so that a search is resumed and divided into shards.

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::device::simulated_by;
use super::executor::Target;
use super::folder::Folder;
use super::knee::over_rates;
use super::lock::Lock;
use super::shard::{Point, Shard};
use crate::error::Result;
use crate::scenario::Scenario;

/// A search for one policy.
pub(super) trait Search: Sync {
    type Round;
    /// By one replication in a round.
    type Found: Serialize + DeserializeOwned + Clone + Send + Sync;
    type Answer;

    fn policy(&self) -> usize;
    fn replications(&self) -> u32;
    fn first(&self) -> Self::Round;

    /// Some of the replications in a round. `keep` is called with what each has found.
    fn search(
        &self,
        round: &Self::Round,
        replications: &[u32],
        keep: &Take<'_, Self::Found>,
    ) -> Result<Vec<Self::Found>>;

    /// The next round, or the answer.
    fn judge(&self, round: &Self::Round, found: &[Self::Found]) -> Next<Self::Round, Self::Answer>;
}

/// Takes what a replication has found.
pub(super) type Take<'k, F> = dyn Fn(u32, &F) -> Result<()> + Sync + 'k;

pub(super) enum Next<R, A> {
    Round(R),
    Answer(A),
}

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

/// The folders of the searches in a sweep.
pub struct Searches {
    folders: Vec<Folder>,
    kind: &'static str,
    /// Of each scenario.
    replications: Vec<u32>,
}

impl Searches {
    /// `settings` are all that decides the results of a scenario's searches beside it; its first load is added.
    pub fn new(
        scenarios: &[&Scenario],
        out: &Path,
        kind: &'static str,
        settings: &[String],
        replications: Vec<u32>,
    ) -> Result<Searches> {
        let devices = vec![simulated_by(Target::SIM); scenarios.len()];
        let folders = Folder::of(scenarios, &devices, out, Target::SIM)?.into_iter().zip(scenarios).zip(settings);
        let folders = folders.map(|((folder, scenario), settings)| {
            Ok(folder.for_search(&format!("{kind} {} {settings}", over_rates(scenario)?)))
        });
        Ok(Searches { folders: folders.collect::<Result<_>>()?, kind, replications })
    }

    /// The points of all of them, in order. `cost` is that of a replication in the scenario at a place.
    pub fn points(&self, scenarios: &[&Scenario], cost: impl Fn(usize) -> u64) -> Vec<Point> {
        let mut points = Vec::new();
        for (variant, scenario) in scenarios.iter().enumerate() {
            for entry in &scenario.policies {
                let point = |replication| Point::new(scenario, entry, String::new(), replication, cost(variant));
                points.extend((0..self.replications[variant]).map(point));
            }
        }
        points
    }

    /// By what the searches of each scenario have found.
    pub fn mark_finished<A>(&self, points: &mut [Point], found: &[Vec<Searched<A>>]) {
        let mut rest = points.iter_mut();
        for (found, replications) in found.iter().zip(&self.replications) {
            for searched in found {
                let missing = searched.as_ref().err();
                for (replication, point) in (0..*replications).zip(rest.by_ref()) {
                    point.finished = missing.is_none_or(|missing| !missing.contains(&replication));
                }
            }
        }
    }

    /// Makes the folder ready: for a shard, for going on, or for starting over.
    pub fn open(&self, resume: bool, shard: Option<Shard>) -> Result<Lock> {
        let lock = Lock::take(self.folder().path(), shard)?;
        if !resume && shard.is_none() {
            self.folder().clear_searches(self.kind);
        }
        Ok(lock)
    }

    pub fn folder(&self) -> &Folder {
        &self.folders[0]
    }

    /// Writes what was searched, as `run.json` has it for runs.
    pub fn write_settings(&self, scenarios: &[&Scenario], replications: u32) -> Result<()> {
        let file = format!("{}.json", self.kind);
        Folder::write_settings(&self.folders, scenarios, (&file, Target::SIM, replications))
    }

    /// Of each scenario; `own` has a value for each point. Those of other shards are looked at only.
    pub fn kept(&self, own: Option<&[bool]>) -> Vec<Kept> {
        let mut rest = own;
        let kept = self.folders.iter().zip(&self.replications).map(|(folder, replications)| {
            let points = folder.policies() * *replications as usize;
            let own = rest.as_mut().and_then(|rest| rest.split_off(..points)).map(<[bool]>::to_vec);
            Kept { folder: Some((folder.clone(), self.kind)), own }
        });
        kept.collect()
    }
}

impl Kept {
    fn is_own(&self, policy: usize, replications: u32, replication: u32) -> bool {
        let place = policy * replications as usize + replication as usize;
        self.own.as_ref().is_none_or(|own| own[place])
    }

    fn read<F: DeserializeOwned>(&self, policy: usize, replication: u32) -> Result<Vec<F>> {
        let folder = self.folder.as_ref();
        folder.map_or(Ok(Vec::new()), |(folder, kind)| folder.searched(kind, policy, replication))
    }

    fn write(&self, policy: usize, replication: u32, rounds: &[impl Serialize]) -> Result<()> {
        let folder = self.folder.as_ref();
        folder.map_or(Ok(()), |(folder, kind)| folder.write_searched(kind, policy, replication, rounds))
    }

    /// Goes on with a search as far as it can. The first round is short; a shard carries it out for all replications,
    /// because it decides on the length of the second, which most searches end with.
    pub(super) fn carry_out<S: Search>(&self, search: &S) -> Result<Searched<S::Answer>> {
        let (policy, all) = (search.policy(), 0..search.replications());
        let own: Vec<bool> = all.clone().map(|one| self.is_own(policy, all.end, one)).collect();
        let is_own = |replication: &u32| own[*replication as usize];
        let mut known: Vec<Vec<S::Found>> = all.clone().map(|one| self.read(policy, one)).collect::<Result<_>>()?;
        let mut round = search.first();
        for place in 0.. {
            let missing: Vec<u32> = all.clone().filter(|one| known[*one as usize].len() == place).collect();
            let shared = place == 0 && own.contains(&true);
            let (now, others): (Vec<u32>, Vec<u32>) = missing.into_iter().partition(|one| shared || is_own(one));
            let keep = |replication: u32, found: &S::Found| match is_own(&replication) {
                true => self.write(
                    policy,
                    replication,
                    &[&known[replication as usize][..], std::slice::from_ref(found)].concat(),
                ),
                false => Ok(()),
            };
            let found = if now.is_empty() { Vec::new() } else { search.search(&round, &now, &keep)? };
            now.iter().zip(found).for_each(|(one, found)| known[*one as usize].push(found));
            if !others.is_empty() {
                return Ok(Err(others));
            }
            let found: Vec<S::Found> = known.iter().map(|rounds| rounds[place].clone()).collect();
            match search.judge(&round, &found) {
                Next::Round(next) => round = next,
                Next::Answer(answer) => return Ok(Ok(answer)),
            }
        }
        unreachable!("a search ends")
    }
}

/// The answers of a scenario's policies, in parallel. `progress` is called for each replication that was carried out.
pub(super) fn of_each_policy<S: Search<Answer: Send>>(
    scenario: &Scenario,
    kept: &Kept,
    search: impl Fn(usize) -> S + Sync,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Searched<S::Answer>>> {
    let policies: Vec<usize> = (0..scenario.policies.len()).collect();
    let one = |policy: &usize| {
        let search = search(*policy);
        let found = kept.carry_out(&search);
        let all = search.replications();
        (0..all).filter(|one| kept.is_own(*policy, all, *one)).for_each(|_| progress());
        found
    };
    policies.par_iter().with_max_len(1).map(one).collect()
}
