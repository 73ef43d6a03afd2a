//! The user's conditions (DVABatch, Figure 12).

use std::cell::Cell;
use std::collections::VecDeque;

use super::Stage;
use super::table::{BatchRow, BatchTable, Query};
use crate::base::units::Nanos;

/// Conditions for the operations new, stretch and split.
pub trait Conditions {
    /// The line in which a query waits. Queries of one line can share a batch.
    fn line(&self, _: &Query) -> u32 {
        0
    }

    /// Decides which queries enter. It is called while requests wait and the first stage can take a batch. The answer
    /// depends on the view only: workers without a batch are not asked after one of them has declined.
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter>;

    /// The instant at which [`Conditions::enter`] must be called even without events.
    fn wake_at(&self, _: &WaitingLines, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Whether a batch of this size and input may be split later. If so, it is not stretched, and its stages run one
    /// after another.
    fn may_split(&self, _batch: u32, _input: u32) -> bool {
        false
    }

    /// Decides how a whole batch that has passed a stage goes on.
    fn after(&mut self, _: Stage, _: &BatchRow, _: &mut Onward) {}
}

/// How a batch goes on after a stage. By default it goes on unchanged.
#[derive(Debug, Default)]
pub struct Onward {
    /// The places in the row of the queries that leave early.
    pub exits: Vec<u32>,
    /// The queries that skip stages.
    pub skips: Vec<Skip>,
    /// The sizes of the parts of a batch that is **split**; empty if it is not.
    pub parts: Vec<u32>,
}

/// A query that skips the stages before `until` (DVABatch, section 9.2). Queries that would skip all remaining stages
/// are in [`Onward::exits`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The query's place in the row.
    pub place: u32,
    pub until: Stage,
}

/// What enters the first stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// A **new** batch of the first requests of a line, padded to `input`.
    New { line: u32, count: usize, input: u32 },
    /// The first requests of the newest batch's line **stretch** that batch.
    Stretch { count: usize },
}

/// The queries that wait, each with its arrival. No line is empty.
#[derive(Debug, Default)]
pub struct WaitingLines {
    /// The lines in the order of their numbers.
    lines: Vec<Line>,
    /// Empty lines, kept for their memory.
    spare: Vec<Line>,
}

#[derive(Debug, Default)]
struct Line {
    number: u32,
    queries: VecDeque<(Nanos, Query)>,
    /// The number of first queries whose inputs have been compared, and the largest of them.
    longest: Cell<(usize, u32)>,
}

impl Line {
    /// The largest input of the first queries. Conditions ask for it at each arrival, and then look at the new query only.
    fn longest_input(&self, count: usize) -> u32 {
        let count = count.min(self.queries.len());
        let (mut from, mut longest) = self.longest.get();
        if from > count {
            (from, longest) = (0, 0);
        }
        for (_, query) in self.queries.range(from..count) {
            longest = longest.max(query.input);
        }
        self.longest.set((count, longest));
        longest
    }
}

impl WaitingLines {
    pub fn push(&mut self, line: u32, arrival: Nanos, query: Query) {
        let place = match self.place(line) {
            Ok(place) => place,
            Err(place) => {
                let new = Line {
                    number: line,
                    ..self.spare.pop().unwrap_or_default()
                };
                self.lines.insert(place, new);
                place
            }
        };
        self.lines[place].queries.push_back((arrival, query));
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = WaitingLine> {
        self.lines.iter().map(|line| WaitingLine {
            line: line.number,
            length: line.queries.len(),
            first_arrival: line.queries[0].0,
        })
    }

    /// The line whose first query has waited longest. If several have, it is the one with the lowest number.
    pub fn oldest(&self) -> Option<WaitingLine> {
        self.iter()
            .min_by_key(|waiting| (waiting.first_arrival, waiting.line))
    }

    /// The number of queries that wait in a line.
    pub fn len(&self, line: u32) -> usize {
        self.line(line).map_or(0, |line| line.queries.len())
    }

    /// The first queries of a line, at most `count` of them.
    pub fn first(&self, line: u32, count: usize) -> impl Iterator<Item = Query> {
        let queries = self.line(line).into_iter().flat_map(|line| &line.queries);
        queries.take(count).map(|(_, query)| *query)
    }

    /// The largest input of the first queries of a line.
    pub fn longest_input(&self, line: u32, count: usize) -> u32 {
        self.line(line).map_or(0, |line| line.longest_input(count))
    }

    /// The next end of a window. A line whose window has ended waits for the device, not for the clock.
    pub fn next_window(&self, window: Nanos, now: Nanos) -> Option<Nanos> {
        let ends = self
            .iter()
            .map(|waiting| waiting.first_arrival.saturating_add(window));
        ends.filter(|end| *end > now).min()
    }

    pub(super) fn take(&mut self, line: u32, count: usize, taken: &mut Vec<Query>) {
        let place = self.place(line).expect("the line is not empty");
        let line = &mut self.lines[place];
        taken.extend(line.queries.drain(..count).map(|(_, query)| query));
        line.longest = Cell::default();
        if line.queries.is_empty() {
            self.spare.push(self.lines.remove(place));
        }
    }

    /// The place of a line, or where it would be.
    fn place(&self, line: u32) -> Result<usize, usize> {
        self.lines.binary_search_by_key(&line, |line| line.number)
    }

    fn line(&self, line: u32) -> Option<&Line> {
        Some(&self.lines[self.place(line).ok()?])
    }
}

/// The length of a line, and the arrival of its first query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingLine {
    pub line: u32,
    pub length: usize,
    pub first_arrival: Nanos,
}

/// What [`Conditions::enter`] sees.
pub struct EntryView<'a> {
    pub lines: &'a WaitingLines,
    pub table: &'a BatchTable,
    pub now: Nanos,
    /// The newest batch, if it may still grow.
    pub stretchable: Option<&'a BatchRow>,
}
