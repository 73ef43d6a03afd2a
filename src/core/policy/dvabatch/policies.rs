//! Policies I, II and III (DVABatch, section 7.2).

use std::collections::VecDeque;

use super::Stage;
use super::conditions::{Conditions, Enter, EntryView, Onward, WaitingLine, WaitingLines};
use super::slicing::StageDurations;
use super::table::{BatchRow, BatchTable, Query};
use crate::base::units::{Nanos, RequestId, Share};
use crate::core::policy::prelude::{Deserialize, Serialize};

/// Policy I: queries of similar length share a batch.
pub struct InputDiversity {
    pub ranges: LengthRanges,
    /// Whether the length of a query is its input, and not its number of nodes.
    pub sized: bool,
    /// The limit of padding to the end of the range; `None` if queries are padded to the longest query.
    pub padded: Option<u32>,
    /// The largest number of queries in a batch, and in all of the worker's batches together.
    pub max_batch: u32,
    pub window: Nanos,
    pub room: DeviceRoom,
    pub cluster: Cluster,
    /// The lines of an accepted batch, each with the number of queries that have not entered. All workers share the
    /// list.
    pub accepted: VecDeque<(u32, usize)>,
}

/// The queries that are divided by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cluster {
    /// The queries that the server accepts as one batch are divided, as in the paper. Later queries do not join its
    /// parts.
    Batch,
    /// All queries that wait are divided. The range whose first query came earliest is next.
    Queue,
}

/// Ranges of similar lengths.
pub struct LengthRanges {
    pub width: u32,
    /// The ascending ends of the ranges; empty if all ranges have one width.
    pub ends: Vec<u32>,
}

impl LengthRanges {
    fn range(&self, length: u32) -> u32 {
        if self.ends.is_empty() {
            (length.max(1) - 1) / self.width
        } else {
            self.ends.partition_point(|end| *end < length) as u32
        }
    }

    /// The longest length of a range. If `ends` is given, the last range has no limit.
    fn end(&self, range: u32) -> u32 {
        if self.ends.is_empty() {
            (range + 1).saturating_mul(self.width)
        } else {
            self.ends.get(range as usize).copied().unwrap_or(u32::MAX)
        }
    }
}

impl InputDiversity {
    /// Accepts Triton's batch: the queries that came first, once there are enough of them or the first has waited for
    /// the window.
    fn accept(&mut self, most: usize, entry: &EntryView<'_>) {
        let Some(oldest) = entry.lines.oldest() else {
            return;
        };
        let waiting: usize = entry.lines.iter().map(|waiting| waiting.length).sum();
        if !self.is_due(oldest.first_arrival, entry.now) && waiting < self.max_batch as usize {
            return;
        }
        let mut first: Vec<(RequestId, u32)> = Vec::new();
        for WaitingLine { line, .. } in entry.lines.iter() {
            let queries = entry.lines.first(line, most);
            first.extend(queries.map(|query| (query.request, line)));
        }
        first.sort_unstable();
        for (_, line) in first.into_iter().take(most) {
            match self.accepted.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => self.accepted.push_back((line, 1)),
            }
        }
    }

    /// The next queries of the accepted batch that share a line, at most `most` of them: the line and their number.
    fn next_accepted(&mut self, most: usize, entry: &EntryView<'_>) -> Option<(u32, usize)> {
        if self.accepted.is_empty() {
            self.accept(most, entry);
        }
        let (line, left) = self.accepted.front_mut()?;
        let line = *line;
        let count = most.min(*left);
        *left -= count;
        self.accepted.retain(|(_, left)| *left > 0);
        Some((line, count))
    }

    /// The line that is due and whose first query has waited longest, with the number of its queries up to `most`.
    fn oldest_due(&self, most: usize, entry: &EntryView<'_>) -> Option<(u32, usize)> {
        let due = entry.lines.iter().filter(|waiting| {
            waiting.length >= self.max_batch as usize
                || self.is_due(waiting.first_arrival, entry.now)
        });
        let oldest = due.min_by_key(|waiting| (waiting.first_arrival, waiting.line))?;
        Some((oldest.line, oldest.length.min(most)))
    }

    fn is_due(&self, arrival: Nanos, now: Nanos) -> bool {
        arrival.saturating_add(self.window) <= now
    }
}

impl Conditions for InputDiversity {
    fn line(&self, query: &Query) -> u32 {
        let length = if self.sized { query.input } else { query.nodes };
        self.ranges.range(length)
    }

    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        let most = self.max_batch.saturating_sub(entry.table.active()) as usize;
        if most == 0 || !self.room.is_left(entry.table) {
            return None;
        }
        let (line, count) = match self.cluster {
            Cluster::Batch => self.next_accepted(most, entry)?,
            Cluster::Queue => self.oldest_due(most, entry)?,
        };
        let longest = entry.lines.longest_input(line, count);
        let input = match self.padded {
            Some(most) => self.ranges.end(line).min(most).max(longest),
            None => longest,
        };
        Some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &WaitingLines, now: Nanos) -> Option<Nanos> {
        lines.next_window(self.window, now)
    }
}

/// Policy II (Figure 13). After each stage a batch is halved, repeatedly, while the remaining stages take at least as
/// long for the whole as for both halves. The parts run one after another, so the first of them leave early.
pub struct OperatorDiversity {
    pub entry: LoadDiversity,
    pub durations: StageDurations,
    pub stages: u32,
    /// The share of extra time that the halves may take, in thousandths; 0 in the paper.
    pub slack_permille: u32,
}

impl OperatorDiversity {
    /// Whether a batch is halved after a stage.
    fn splits(&self, after: Stage, batch: u32, input: u32) -> bool {
        if batch < 2 {
            return false;
        }
        let rest = |batch| u128::from(self.durations.from(after.next(), batch, input).0);
        let halves = rest(batch - batch / 2) + rest(batch / 2);
        rest(batch) * u128::from(1000 + self.slack_permille) >= 1000 * halves
    }

    /// Adds the sizes of the parts of a batch to `parts`.
    fn halve(&self, after: Stage, batch: u32, input: u32, parts: &mut Vec<u32>) {
        if self.splits(after, batch, input) {
            self.halve(after, batch - batch / 2, input, parts);
            self.halve(after, batch / 2, input, parts);
        } else {
            parts.push(batch);
        }
    }
}

impl Conditions for OperatorDiversity {
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        self.entry.enter(entry)
    }

    fn wake_at(&self, lines: &WaitingLines, now: Nanos) -> Option<Nanos> {
        self.entry.wake_at(lines, now)
    }

    fn may_split(&self, batch: u32, input: u32) -> bool {
        (0..self.stages - 1).any(|stage| self.splits(Stage(stage), batch, input))
    }

    fn after(&mut self, stage: Stage, row: &BatchRow, onward: &mut Onward) {
        if stage.0 + 1 < self.stages {
            self.halve(stage, row.live, row.input, &mut onward.parts);
        }
    }
}

/// Policy III: requests join the newest batch while it is young and not full. Otherwise a new batch begins as soon as
/// it has room.
pub struct LoadDiversity {
    pub max_batch: u32,
    pub window: Nanos,
    pub comp_wait: CompWait,
    pub room: DeviceRoom,
}

/// How long a batch may be stretched.
pub enum CompWait {
    /// A batch is stretched up to this age, the paper's threshold; with 0 it is never stretched.
    Age(Nanos),
    /// A batch is stretched while the device has no room and the newcomers gain at least as much as the batch loses by
    /// waiting for them.
    Gain(StageDurations),
}

impl CompWait {
    /// Whether `newcomers` may still join a batch.
    fn lasts(
        &self,
        row: &BatchRow,
        newcomers: u32,
        entry: &EntryView<'_>,
        room: &DeviceRoom,
    ) -> bool {
        match self {
            CompWait::Age(most) => entry.now.saturating_since(row.created) < *most,
            CompWait::Gain(durations) => {
                let furthest = row.furthest();
                let rest = durations.from(furthest.next(), row.live, row.input);
                let catch_up = durations.through(furthest, newcomers, row.input);
                let gain = u128::from(rest.0) * u128::from(newcomers);
                let loss = u128::from(catch_up.0) * u128::from(row.live);
                !room.fits(newcomers, row.input, entry.table) && gain >= loss
            }
        }
    }
}

impl Conditions for LoadDiversity {
    fn enter(&mut self, entry: &EntryView<'_>) -> Option<Enter> {
        let WaitingLine {
            line,
            length,
            first_arrival,
        } = entry.lines.oldest()?;
        if let Some(row) = entry.stretchable {
            let count = (self.max_batch - row.live.min(self.max_batch)).min(length as u32);
            if count > 0 && self.comp_wait.lasts(row, count, entry, &self.room) {
                return Some(Enter::Stretch {
                    count: count as usize,
                });
            }
        }
        let most = self.max_batch as usize;
        if length < most && first_arrival.saturating_add(self.window) > entry.now {
            return None;
        }
        let count = length.min(most);
        let input = entry.lines.longest_input(line, count);
        if !self.room.fits(count as u32, input, entry.table) {
            return None;
        }
        Some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &WaitingLines, now: Nanos) -> Option<Nanos> {
        lines.next_window(self.window, now)
    }
}

/// The room of a device for another batch. On a full device batches only slow each other down. Without the times of
/// stages there is always room.
pub struct DeviceRoom(pub Option<StageDurations>);

impl DeviceRoom {
    /// Whether the batches of the table leave any room.
    pub fn is_left(&self, table: &BatchTable) -> bool {
        match &self.0 {
            Some(durations) => used_share(durations, table) < Share::WHOLE.0,
            None => true,
        }
    }

    /// Whether a batch fits next to those of the table. On an empty device any batch fits.
    pub fn fits(&self, batch: u32, input: u32, table: &BatchTable) -> bool {
        let Some(durations) = &self.0 else {
            return true;
        };
        let used = used_share(durations, table);
        used == 0 || used + durations.demand(batch, input).0 <= Share::WHOLE.0
    }
}

/// The sum of the demands of all batches, in units of [`Share`].
fn used_share(durations: &StageDurations, table: &BatchTable) -> u64 {
    let demands = table
        .rows()
        .map(|(_, row)| durations.demand(row.live, row.input).0);
    demands.sum()
}
