//! Policies I, II and III (DVABatch, section 7.2).

use std::collections::VecDeque;

use super::Stage;
use super::conditions::{Conditions, Enter, Entry, Lines, Onward};
use super::settings::Cluster;
use super::slicing::Durations;
use super::table::{BatchTable, Query, Row};
use crate::base::units::{Nanos, RequestId, Share};

/// Policy I, input diversity: queries of similar length share a batch.
pub struct ByInput {
    pub ranges: Ranges,
    pub sized: bool,
    /// Pad to the end of the range, at most to this; `None`: to the longest query.
    pub padded: Option<u32>,
    /// Queries in a batch, and in all of the worker's batches.
    pub max_batch: u32,
    pub window: Nanos,
    pub room: Room,
    pub cluster: Cluster,
    /// Lines of an accepted batch with the queries that have not entered. Workers share it.
    pub accepted: VecDeque<(u32, usize)>,
}

/// Lengths that are similar.
pub struct Ranges {
    pub width: u32,
    /// The ends of the ranges, ascending; empty: one for each width.
    pub ends: Vec<u32>,
}

impl Ranges {
    fn of(&self, length: u32) -> u32 {
        match self.ends.is_empty() {
            true => (length.max(1) - 1) / self.width,
            false => self.ends.partition_point(|end| *end < length) as u32,
        }
    }

    /// The last range has no end of its own.
    fn end(&self, range: u32) -> u32 {
        match self.ends.is_empty() {
            true => (range + 1).saturating_mul(self.width),
            false => self.ends.get(range as usize).copied().unwrap_or(u32::MAX),
        }
    }
}

impl ByInput {
    /// Triton's batch: the queries that came first, once they are many or the first has waited for the window.
    fn accept(&mut self, most: usize, entry: &Entry<'_>) {
        let Some((_, _, arrival)) = entry.lines.oldest() else {
            return;
        };
        let waiting = entry
            .lines
            .iter()
            .map(|(_, length, _)| length)
            .sum::<usize>();
        if !self.is_due(arrival, entry.now) && waiting < self.max_batch as usize {
            return;
        }
        let first = |(line, _, _)| {
            entry
                .lines
                .first(line, most)
                .map(move |query| (query.request, line))
        };
        let mut first: Vec<(RequestId, u32)> = entry.lines.iter().flat_map(first).collect();
        first.sort_unstable();
        for (_, line) in first.into_iter().take(most) {
            match self.accepted.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => self.accepted.push_back((line, 1)),
            }
        }
    }

    fn is_due(&self, arrival: Nanos, now: Nanos) -> bool {
        arrival.saturating_add(self.window) <= now
    }
}

impl Conditions for ByInput {
    fn line(&self, query: &Query) -> u32 {
        self.ranges
            .of(if self.sized { query.input } else { query.nodes })
    }

    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        let most = self.max_batch.saturating_sub(entry.table.active()) as usize;
        if most == 0 || !self.room.is_left(entry.table) {
            return None;
        }
        let (line, count) = match self.cluster {
            Cluster::Batch => {
                if self.accepted.is_empty() {
                    self.accept(most, entry);
                }
                let (line, left) = self.accepted.front_mut()?;
                let (line, count) = (*line, most.min(*left));
                *left -= count;
                self.accepted.retain(|(_, left)| *left > 0);
                (line, count)
            }
            Cluster::Queue => {
                let due = |(_, length, arrival): &(u32, usize, Nanos)| {
                    *length >= self.max_batch as usize || self.is_due(*arrival, entry.now)
                };
                let lines = entry.lines.iter().filter(due);
                let (line, length, _) = lines.min_by_key(|(line, _, arrival)| (*arrival, *line))?;
                (line, length.min(most))
            }
        };
        let longest = entry.lines.longest_input(line, count);
        let input = self
            .padded
            .map_or(longest, |most| self.ranges.end(line).min(most).max(longest));
        Some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        lines.next_window(self.window, now)
    }
}

/// Policy II, operator diversity (Figure 13). After each stage a batch is halved, repeatedly, while the remaining
/// stages take the whole at least as long as both halves. The parts run one after another, so the first leave early.
pub struct ByOperator {
    pub entry: ByLoad,
    pub durations: Durations,
    pub stages: u32,
    /// Extra time of the halves, in thousandths; 0 in the paper.
    pub slack_permille: u32,
}

impl ByOperator {
    fn splits(&self, after: Stage, batch: u32, input: u32) -> bool {
        let rest = |batch| u128::from(self.durations.from(after.next(), batch, input).0);
        batch > 1
            && rest(batch) * u128::from(1000 + self.slack_permille)
                >= 1000 * (rest(batch - batch / 2) + rest(batch / 2))
    }

    fn halve(&self, after: Stage, batch: u32, input: u32, parts: &mut Vec<u32>) {
        if self.splits(after, batch, input) {
            self.halve(after, batch - batch / 2, input, parts);
            self.halve(after, batch / 2, input, parts);
        } else {
            parts.push(batch);
        }
    }
}

impl Conditions for ByOperator {
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        self.entry.enter(entry)
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        self.entry.wake_at(lines, now)
    }

    fn may_split(&self, batch: u32, input: u32) -> bool {
        (0..self.stages - 1).any(|stage| self.splits(Stage(stage), batch, input))
    }

    fn after(&mut self, stage: Stage, row: &Row, onward: &mut Onward) {
        if stage.0 + 1 < self.stages {
            self.halve(stage, row.live, row.input, &mut onward.parts);
        }
    }
}

/// Policy III, load diversity. Requests join the newest batch while it is young and not full; otherwise a new batch
/// begins as soon as it has room.
pub struct ByLoad {
    pub max_batch: u32,
    pub window: Nanos,
    pub comp_wait: CompWait,
    pub room: Room,
}

pub enum CompWait {
    /// The paper's threshold; 0: never.
    Age(Nanos),
    /// While the device has no room and the newcomers gain at least as much as the batch loses by waiting for them.
    Gain(Durations),
}

impl CompWait {
    fn lasts(&self, row: &Row, newcomers: u32, entry: &Entry<'_>, room: &Room) -> bool {
        match self {
            CompWait::Age(most) => entry.now.saturating_since(row.created) < *most,
            CompWait::Gain(durations) => {
                let furthest = row.furthest();
                let rest = durations.from(furthest.next(), row.live, row.input);
                let catch_up = durations.through(furthest, newcomers, row.input);
                !room.fits(newcomers, row.input, entry.table)
                    && u128::from(rest.0) * u128::from(newcomers)
                        >= u128::from(catch_up.0) * u128::from(row.live)
            }
        }
    }
}

impl Conditions for ByLoad {
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        let (line, length, arrival) = entry.lines.oldest()?;
        if let Some(row) = entry.stretchable {
            let count = (self.max_batch - row.live.min(self.max_batch)).min(length as u32);
            if count > 0 && self.comp_wait.lasts(row, count, entry, &self.room) {
                return Some(Enter::Stretch {
                    count: count as usize,
                });
            }
        }
        let most = self.max_batch as usize;
        if length < most && arrival.saturating_add(self.window) > entry.now {
            return None;
        }
        let count = length.min(most);
        let input = entry.lines.longest_input(line, count);
        self.room
            .fits(count as u32, input, entry.table)
            .then_some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        lines.next_window(self.window, now)
    }
}

/// Whether the device has room for another batch. On a full device batches only slow each other down.
pub struct Room(
    /// `None`: costs unknown, always room.
    pub Option<Durations>,
);

impl Room {
    pub fn is_left(&self, table: &BatchTable) -> bool {
        self.0
            .as_ref()
            .is_none_or(|durations| used(durations, table) < Share::WHOLE.0)
    }

    /// On an empty device any batch fits.
    pub fn fits(&self, batch: u32, input: u32, table: &BatchTable) -> bool {
        let Some(durations) = &self.0 else {
            return true;
        };
        let used = used(durations, table);
        used == 0 || used + durations.demand(batch, input).0 <= Share::WHOLE.0
    }
}

fn used(durations: &Durations, table: &BatchTable) -> u64 {
    table
        .rows()
        .map(|(_, row)| durations.demand(row.live, row.input).0)
        .sum()
}
