//! Searches under a latency objective: the highest rate, the smallest number of workers, the best settings of a policy.
//!
//! A search goes in rounds. In each round, its parts (usually the replications) search by themselves; together they
//! decide on the next round, or on the answer. The findings of the parts can be kept in a folder, so that a search is
//! resumed and divided into shards.

pub mod control;
pub mod objective;
pub mod parts;
pub mod rate;
pub mod sweep;
pub mod tune;
pub mod workers;

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::objective::{Effort, Objective};
use self::parts::{SearchParts, SearchRecord};
use crate::base::error::Result;
use crate::base::units::Rate;
use crate::lab::scenario::Scenario;

/// The method of a search, such as [`rate::RateSearch`].
pub trait Search: Sync {
    /// The name of the search's files, such as `knee` for `knee.csv`.
    const NAME: &'static str;

    /// The task of every part in a round.
    type Round;
    /// The finding of a part in a round.
    type Found: Serialize + DeserializeOwned + Clone + Send + Sync;
    type Answer: Finding + 'static;

    /// The settings of this search that decide its results, in addition to the objective and the effort.
    fn settings(&self) -> String;

    /// The number of parts.
    fn parts(&self, effort: &Effort, scenario: &Scenario) -> u32;

    /// The first round. It is short: a shard carries it out for all parts.
    ///
    /// # Errors
    /// Fails if the scenario can't be searched.
    fn first(&self, question: &Question<'_>) -> Result<Self::Round>;

    /// Carries out a round for some parts of a policy's search, and calls `keep` with each finding at once.
    fn run(
        &self,
        question: &Question<'_>,
        policy: usize,
        round: &Self::Round,
        parts: &[u32],
        keep: &(dyn Fn(u32, &Self::Found) -> Result<()> + Sync),
    ) -> Result<Vec<Self::Found>>;

    /// Decides on the next round, or on the answer, from what all parts have found.
    fn judge(
        &self,
        question: &Question<'_>,
        round: &Self::Round,
        found: &[Self::Found],
    ) -> ControlFlow<Self::Answer, Self::Round>;
}

/// The answer of a search for a policy.
pub trait Finding: Clone + Debug + Default + Send + Sync {
    /// The scores by which settings are compared, one for each replication or a single one; higher is better. There are
    /// none if nothing meets the objective.
    fn scores(&self) -> Vec<f64>;

    /// The second score, which decides if the others are equal.
    fn second_score(&self) -> f64;

    /// The largest error of the scores that the method allows, relative to them.
    fn resolution(&self) -> f64;

    /// The rate at which a more precise search should begin.
    fn expected_rate(&self) -> Option<Rate>;

    /// The number of workers that was found, if the search was for one.
    fn workers(&self) -> Option<u32>;

    /// The class that limits the answer, if objectives are those of classes.
    fn limiting_class(&self) -> Option<&str>;

    /// Why the answer may be wrong by more than the tolerance, or why nothing meets the objective.
    fn caveat(&self) -> Option<&str>;

    /// Whether anything meets the objective.
    fn meets_objective(&self) -> bool {
        !self.scores().is_empty()
    }
}

/// The question that a search answers for each policy of a scenario.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub scenario: &'a Scenario,
    pub objective: &'a Objective,
    pub effort: &'a Effort,
    pub record: &'a SearchRecord,
    pub stop: &'a AtomicBool,
    /// The function that is called for each part that is carried out.
    pub progress: &'a (dyn Fn() + Sync),
}

/// The outcome of a search for a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Searched<A> {
    Answer(A),
    /// The numbers of the parts that other shards have to carry out, from 0.
    Missing(Vec<u32>),
}

impl<A> Searched<A> {
    pub fn answer(self) -> Option<A> {
        match self {
            Searched::Answer(answer) => Some(answer),
            Searched::Missing(_) => None,
        }
    }
}

/// Searches for each policy of the scenario, in parallel.
pub fn find<S: Search>(search: &S, question: &Question<'_>) -> Result<Vec<Searched<S::Answer>>> {
    (0..question.scenario.policies.len())
        .into_par_iter()
        .with_max_len(1)
        .map(|policy| {
            let count = search.parts(question.effort, question.scenario);
            let parts = SearchParts::read(question.record, policy, count)?;
            let own = parts.own_count();
            let searched = find_for_policy(search, question, policy, parts);
            for _ in 0..own {
                (question.progress)();
            }
            searched
        })
        .collect()
}

fn find_for_policy<S: Search>(
    search: &S,
    question: &Question<'_>,
    policy: usize,
    mut parts: SearchParts<'_, S::Found>,
) -> Result<Searched<S::Answer>> {
    let mut round = search.first(question)?;
    loop {
        let now = parts.due();
        if !now.is_empty() {
            let found = search.run(question, policy, &round, &now, &|part, found| {
                parts.keep(part, found)
            })?;
            parts.add(&now, found);
        }
        let missing = parts.missing();
        if !missing.is_empty() {
            return Ok(Searched::Missing(missing));
        }
        match search.judge(question, &round, &parts.finish_round()) {
            ControlFlow::Continue(next) => round = next,
            ControlFlow::Break(answer) => return Ok(Searched::Answer(answer)),
        }
    }
}
