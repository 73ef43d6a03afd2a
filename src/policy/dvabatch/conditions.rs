//! What a user of the mechanism decides (DVABatch, figure 12): who is let in, and how a batch goes on behind a stage.

use std::collections::{BTreeMap, VecDeque};

use super::Stage;
use super::table::{BatchTable, Query, Row};
use crate::units::Nanos;

/// A user's conditions for the operations new, stretch and split.
pub trait Conditions {
    /// The line in which a query waits; those of one line can share a batch.
    fn line(&self, _: &Query) -> u32 {
        0
    }

    /// The first stage can take a batch, and requests wait: what is made of them now, if anything.
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter>;

    /// When, after the present instant, [`Conditions::enter`] wants to be asked again though nothing else happens.
    fn wake_at(&self, _: &Lines, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Whether a batch of so many queries, padded to this input, may be split behind some stage. Such a batch is not stretched, and its stages
    /// work one after the other.
    fn may_split(&self, _batch: u32, _input: u32) -> bool {
        false
    }

    /// How a batch, all of which stands behind a stage, goes on.
    fn behind(&mut self, _: &Behind<'_>, _: &mut Onward) {}
}

/// What stands behind a stage.
pub struct Behind<'a> {
    /// The stage.
    pub stage: Stage,
    /// The batch; queries that are done have left it.
    pub row: &'a Row,
    /// The present instant.
    pub now: Nanos,
}

/// How a batch goes on: as it is, unless something is put here.
#[derive(Debug, Default)]
pub struct Onward {
    /// Queries that leave here though stages are left, by their places in the row.
    pub exits: Vec<u32>,
    /// Queries that stay in the batch and take no part in the stages up to another. Where nobody of a batch takes part, the stage runs nothing.
    pub skips: Vec<Skip>,
    /// **split**: the batches that it becomes, by their sizes; none to leave it whole.
    pub parts: Vec<u32>,
}

impl Onward {
    pub(super) fn clear(&mut self) {
        self.exits.clear();
        self.skips.clear();
        self.parts.clear();
    }
}

/// A query that skips stages (DVABatch, section 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Its place in the row.
    pub place: u32,
    /// The next stage that it takes part in: one that it has. To skip all of them is to leave.
    pub until: Stage,
}

/// What is made of waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// **new**: the first of a line become a batch.
    New {
        /// The line.
        line: u32,
        /// How many.
        count: usize,
        /// What they are padded to; at least the largest of them.
        input: u32,
    },
    /// **stretch**: the first of the newest batch's line join it.
    Stretch {
        /// How many.
        count: usize,
    },
}

/// Requests that wait, in lines.
#[derive(Debug, Default)]
pub struct Lines {
    lines: BTreeMap<u32, VecDeque<(Nanos, Query)>>,
}

impl Lines {
    /// A request comes to stand at the end of a line.
    pub fn push(&mut self, line: u32, arrival: Nanos, query: Query) {
        self.lines.entry(line).or_default().push_back((arrival, query));
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines in which somebody waits, in the order of their numbers: each with its length and the arrival of its first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, usize, Nanos)> {
        self.lines.iter().map(|(line, waiting)| (*line, waiting.len(), waiting[0].0))
    }

    /// The line whose first has waited longest, of two that came at once the one with the lower number.
    pub fn oldest(&self) -> Option<(u32, usize, Nanos)> {
        self.iter().min_by_key(|(line, _, arrival)| (*arrival, *line))
    }

    /// How many wait in a line.
    pub fn len(&self, line: u32) -> usize {
        self.lines.get(&line).map_or(0, VecDeque::len)
    }

    /// The first of a line.
    pub fn first(&self, line: u32, count: usize) -> impl Iterator<Item = Query> {
        self.lines.get(&line).into_iter().flatten().take(count).map(|(_, query)| *query)
    }

    /// The first of a line, which leave it.
    pub(super) fn take(&mut self, line: u32, count: usize, taken: &mut Vec<Query>) {
        let waiting = self.lines.get_mut(&line).expect("somebody waits in the line");
        taken.extend(waiting.drain(..count).map(|(_, query)| query));
        if waiting.is_empty() {
            self.lines.remove(&line);
        }
    }
}

/// What is known where requests may enter.
pub struct Entry<'a> {
    /// Who waits.
    pub lines: &'a Lines,
    /// The worker's ongoing batches.
    pub table: &'a BatchTable,
    /// The present instant.
    pub now: Nanos,
    /// The batch that can be stretched, if one can: the newest, unless it may be split or its first part has come to the last stage.
    pub stretchable: Option<&'a Row>,
}
