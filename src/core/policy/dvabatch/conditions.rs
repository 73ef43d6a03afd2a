//! The user's conditions (DVABatch, Figure 12).

use std::collections::{BTreeMap, VecDeque};

use super::Stage;
use super::table::{BatchTable, Query, Row};
use crate::base::units::Nanos;

/// Conditions for the operations new, stretch and split.
pub trait Conditions {
    /// Where a query waits; queries of one line can share a batch.
    fn line(&self, _: &Query) -> u32 {
        0
    }

    /// Called while requests wait and the first stage can take a batch.
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter>;

    /// When [`Conditions::enter`] must be called even without events.
    fn wake_at(&self, _: &Lines, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Whether such a batch may be split later. If so it is not stretched, and its stages run one after another.
    fn may_split(&self, _batch: u32, _input: u32) -> bool {
        false
    }

    /// Called when a whole batch has passed a stage.
    fn after(&mut self, _: Stage, _: &Row, _: &mut Onward) {}
}

/// The default is unchanged.
#[derive(Debug, Default)]
pub struct Onward {
    /// Places in the row of queries that leave early.
    pub exits: Vec<u32>,
    pub skips: Vec<Skip>,
    /// **split**: the sizes of the parts, or empty.
    pub parts: Vec<u32>,
}

/// Skips the stages before `until` (DVABatch, section 9.2). To skip all others is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    pub place: u32,
    pub until: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// **new**: the first requests of a line, padded to `input`.
    New { line: u32, count: usize, input: u32 },
    /// **stretch**: the first requests of the newest batch's line.
    Stretch { count: usize },
}

#[derive(Debug, Default)]
pub struct Lines {
    lines: BTreeMap<u32, VecDeque<(Nanos, Query)>>,
}

impl Lines {
    pub fn push(&mut self, line: u32, arrival: Nanos, query: Query) {
        self.lines
            .entry(line)
            .or_default()
            .push_back((arrival, query));
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, usize, Nanos)> {
        self.lines
            .iter()
            .map(|(line, waiting)| (*line, waiting.len(), waiting[0].0))
    }

    /// By the wait of the first request; of equal ones, the lowest number.
    pub fn oldest(&self) -> Option<(u32, usize, Nanos)> {
        self.iter()
            .min_by_key(|(line, _, arrival)| (*arrival, *line))
    }

    pub fn len(&self, line: u32) -> usize {
        self.lines.get(&line).map_or(0, VecDeque::len)
    }

    pub fn first(&self, line: u32, count: usize) -> impl Iterator<Item = Query> {
        self.lines
            .get(&line)
            .into_iter()
            .flatten()
            .take(count)
            .map(|(_, query)| *query)
    }

    pub fn longest_input(&self, line: u32, count: usize) -> u32 {
        self.first(line, count)
            .map(|query| query.input)
            .max()
            .unwrap_or(0)
    }

    /// The next end of a window. A window that has ended waits for the device, not for the clock.
    pub fn next_window(&self, window: Nanos, now: Nanos) -> Option<Nanos> {
        self.iter()
            .map(|(_, _, arrival)| arrival.saturating_add(window))
            .filter(|end| *end > now)
            .min()
    }

    pub(super) fn take(&mut self, line: u32, count: usize, taken: &mut Vec<Query>) {
        let waiting = self.lines.get_mut(&line).expect("the line is not empty");
        taken.extend(waiting.drain(..count).map(|(_, query)| query));
        if waiting.is_empty() {
            self.lines.remove(&line);
        }
    }
}

pub struct Entry<'a> {
    pub lines: &'a Lines,
    pub table: &'a BatchTable,
    pub now: Nanos,
    /// The newest batch, if it may still grow.
    pub stretchable: Option<&'a Row>,
}
