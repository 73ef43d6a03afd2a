//! The mechanism of one worker: a batch table, and for each stage an executor with its queue and buffer pairs
//! (DVABatch, Figures 7 and 12).
//!
//! An active executor *checks* the buffer pair of its queue's first item, and *works* once the pair is legitimate. Then
//! queries that have passed their last stage leave; the others go on once their batch has caught up. The executor is
//! *inactive* until it has a legitimate pair, and only then gives back the used one. With one set of buffers, stages
//! wait for all later ones.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Stage;
use super::conditions::{Conditions, Enter, Entry, Lines, Onward};
use super::slicing::Slicing;
use super::stage::{Buffers, Executor, ExecutorState, Item, Pair, Running};
use super::table::{BatchTable, Row, RowId};
use crate::base::units::{StreamId, TaskId};
use crate::core::policy::prelude::*;
use crate::core::task::Members;

/// Streams of a worker, which stages share in turn.
pub const STREAMS: u16 = 32;

pub struct Mechanism {
    worker: WorkerId,
    slicing: Arc<Slicing>,
    pub(super) table: BatchTable,
    buffers: Buffers,
    pub(super) executors: Vec<Executor>,
    /// The stages that may move, in ascending order. A long chain has few of them.
    awake: Vec<Stage>,
    running: Vec<(TaskId, Stage)>,
}

impl Mechanism {
    pub fn new(worker: WorkerId, slicing: Arc<Slicing>, sets: u8) -> Mechanism {
        let (table, buffers, executors) = (BatchTable::default(), Buffers::new(sets), Vec::new());
        let awake = vec![Stage(0)];
        let mut mechanism = Mechanism {
            worker,
            slicing,
            table,
            buffers,
            executors,
            awake,
            running: Vec::new(),
        };
        mechanism.reach(Stage(0));
        mechanism
    }

    fn reach(&mut self, stage: Stage) {
        let stages = self.executors.len().max(stage.index() + 1);
        self.executors.resize_with(stages, Executor::default);
        self.buffers.reach(stage);
    }

    fn wake(&mut self, stage: Stage) {
        if let Err(place) = self.awake.binary_search(&stage) {
            self.awake.insert(place, stage);
        }
    }

    pub fn complete(
        &mut self,
        task: TaskId,
        conditions: &mut dyn Conditions,
        outcomes: &mut Outcomes,
    ) {
        let place = self.running.iter().position(|(id, _)| *id == task);
        let (_, stage) = self
            .running
            .swap_remove(place.expect("a task of the mechanism is running"));
        let Running { item, into, .. } = self.finish(stage);
        self.table.leave(
            &item,
            |query| self.slicing.is_last(stage, query.nodes),
            outcomes,
        );
        if !self.table.has(item.row) {
            return;
        }
        let mut last = stage.0;
        if self.table.row(item.row).of(&item).next().is_some() {
            self.rest(stage, item.row, into);
        } else {
            // Later stages may have waited for them.
            last = self.executors.len() as u32 - 1;
        }
        for stage in (stage.0..=last).map(Stage) {
            match self.caught_up(stage, item.row) {
                Some((onward, pair)) if onward.start == 0 => {
                    self.go_on(stage, onward, pair, conditions, outcomes)
                }
                Some((onward, pair)) => self.hand_on(stage, onward, pair),
                None => {}
            }
        }
    }

    fn finish(&mut self, stage: Stage) -> Running {
        let executor = &mut self.executors[stage.index()];
        let ExecutorState::Working(running) = executor.state else {
            panic!("stage {stage} is not working")
        };
        let Running {
            item,
            from: used,
            into,
        } = running;
        executor.state = ExecutorState::Inactive {
            used,
            serial: self.table.row(item.row).splits,
        };
        self.buffers.end(stage, used, into);
        self.table.complete(&item, stage);
        self.wake(stage);
        running
    }

    fn rest(&mut self, stage: Stage, row: RowId, written: Pair) {
        let resting = &mut self.executors[stage.index()].resting;
        if resting.is_none_or(|(resting, _)| resting != row) {
            *resting = Some((row, written));
        }
    }

    /// What goes on from a stage, and its buffers.
    fn caught_up(&mut self, stage: Stage, row: RowId) -> Option<(Item, Pair)> {
        let resting = &mut self.executors[stage.index()].resting;
        let (_, pair) = resting.filter(|(resting, _)| *resting == row && self.table.has(row))?;
        let onward = self.table.caught_up(row, stage)?;
        *resting = None;
        Some((onward, pair))
    }

    fn go_on(
        &mut self,
        stage: Stage,
        item: Item,
        pair: Pair,
        conditions: &mut dyn Conditions,
        out: &mut Outcomes,
    ) {
        let mut onward = Onward::default();
        conditions.after(stage, self.table.row(item.row), &mut onward);
        for skip in &onward.skips {
            let query = self.table.skip(item.row, skip);
            assert!(
                skip.until > stage && !self.slicing.nodes(skip.until, query.nodes).is_empty(),
                "a query that has passed stage {stage} can't go on with stage {}",
                skip.until
            );
        }
        for exit in &onward.exits {
            self.table.leave(
                &Item {
                    start: *exit,
                    num: 1,
                    ..item
                },
                |_| true,
                out,
            );
        }
        if self.table.has(item.row) && onward.parts.len() < 2 {
            self.hand_on(stage, item, pair);
        } else if self.table.has(item.row) {
            let parts = self.table.split(item.row, stage, &onward.parts);
            parts
                .into_iter()
                .for_each(|part| self.hand_on(stage, part, pair));
        }
    }

    fn hand_on(&mut self, stage: Stage, item: Item, pair: Pair) {
        self.reach(stage.next());
        self.table.hand(&item, stage.next());
        self.buffers.hand_on(stage, pair);
        self.executors[stage.next().index()].queue.push_back(Item {
            pair: Some(pair),
            ..item
        });
        self.wake(stage.next());
    }

    pub fn advance(
        &mut self,
        lines: &mut Lines,
        conditions: &mut dyn Conditions,
        dispatch: &mut Dispatch<'_>,
    ) {
        // Backwards: a stage that becomes active frees the one before it.
        let mut moved = true;
        while moved {
            moved = false;
            let mut next = self.awake.len();
            while next > 0 {
                next -= 1;
                let stage = self.awake[next];
                moved |= self.activate(stage);
                let executor = &self.executors[stage.index()];
                if stage == Stage(0)
                    && executor.state == ExecutorState::Active
                    && executor.queue.is_empty()
                {
                    self.enter(lines, conditions, dispatch.now());
                }
                moved |= self.check(stage, dispatch);
                if stage > Stage(0) && self.executors[stage.index()].is_quiet() {
                    self.awake.remove(next);
                }
            }
        }
    }

    /// Gives back the used pair, unless it holds another part of a split batch.
    fn activate(&mut self, stage: Stage) -> bool {
        let ExecutorState::Inactive { used, serial } = self.executors[stage.index()].state else {
            return false;
        };
        let legitimate = match serial {
            true => self.buffers.legitimate(stage, used, used),
            false => self.buffers.any(stage, None).is_some(),
        };
        if legitimate {
            self.executors[stage.index()].state = ExecutorState::Active;
            if stage > Stage(0) && !self.buffers.has_unread(stage, used) {
                self.buffers.give_back(Stage(stage.0 - 1), used);
            }
        }
        legitimate
    }

    fn enter(&mut self, lines: &mut Lines, conditions: &mut dyn Conditions, now: Nanos) {
        if lines.is_empty() {
            return;
        }
        let has_stages_ahead = |row: &Row| !self.slicing.is_last(row.furthest(), row.longest());
        let stretchable = self
            .table
            .newest()
            .filter(|(_, row)| !row.splits && has_stages_ahead(row));
        let entry = Entry {
            lines,
            table: &self.table,
            now,
            stretchable: stretchable.map(|(_, row)| row),
        };
        let (row, line, count, input) = match conditions.enter(&entry) {
            None => return,
            Some(Enter::New { line, count, input }) => {
                (self.table.new_row(now, line), line, count, input)
            }
            Some(Enter::Stretch { count }) => {
                let (id, row) =
                    stretchable.expect("the conditions stretch a batch that can be stretched");
                (
                    id,
                    row.line,
                    count,
                    row.input.max(lines.longest_input(row.line, count)),
                )
            }
        };
        let item = self
            .table
            .join(row, input, |queries| lines.take(line, count, queries));
        if conditions.may_split(self.table.row(row).live, input) {
            self.table.will_split(row);
        }
        self.executors[0].queue.push_back(item);
    }

    /// Begins with the first item of the queue if its pair is legitimate.
    fn check(&mut self, stage: Stage, dispatch: &mut Dispatch<'_>) -> bool {
        let Executor {
            state,
            queue,
            resting,
        } = &mut self.executors[stage.index()];
        let Some(&item) = queue.front().filter(|_| *state == ExecutorState::Active) else {
            return false;
        };
        let own = resting
            .filter(|(row, _)| *row == item.row)
            .map(|(_, pair)| pair);
        let from = match item.pair {
            Some(pair) => Some(pair)
                .filter(|pair| self.buffers.legitimate(stage, *pair, own.unwrap_or(*pair))),
            None => self.buffers.any(stage, own),
        };
        let Some(from) = from else { return false };
        let into = own.unwrap_or(from);
        let is_over = resting.is_some_and(|(row, pair)| row != item.row && pair == into);
        assert!(
            !is_over,
            "write after read: stage {stage} would write over a batch that has not caught up"
        );
        queue.pop_front();
        *state = ExecutorState::Working(Running { item, from, into });
        self.buffers.begin(stage, from, into);
        if self
            .table
            .row(item.row)
            .in_stage(&item, stage)
            .next()
            .is_some()
        {
            let task = self.submit(stage, &item, dispatch);
            self.running.push((task, stage));
        } else {
            // All its queries skip the stage, so the conditions are not asked.
            self.finish(stage);
            self.rest(stage, item.row, into);
            if let Some((onward, pair)) = self.caught_up(stage, item.row) {
                self.hand_on(stage, onward, pair);
            }
        }
        true
    }

    fn submit(&mut self, stage: Stage, item: &Item, dispatch: &mut Dispatch<'_>) -> TaskId {
        let Mechanism {
            worker,
            slicing,
            table,
            ..
        } = self;
        let row = table.row(item.row);
        let (mut batch, mut longest, mut useful_cells) = (0, 0, 0);
        let mut starting = SmallVec::<[RequestId; 8]>::new();
        for query in row.in_stage(item, stage) {
            batch += 1;
            longest = query.nodes.max(longest);
            useful_cells += slicing.own_cells(stage, query);
            if stage == Stage(0) {
                starting.push(query.request);
            }
        }
        let steps = slicing.steps(stage, batch, longest, row.input);
        let parts = |parts: &mut Vec<_>| {
            parts.extend(
                row.in_stage(item, stage)
                    .map(|query| slicing.part(stage, query)),
            )
        };
        let task = Task {
            stream: StreamId((stage.0 % u32::from(STREAMS)) as u16),
            members: Members::Parts(&parts),
            ..Task::new(*worker, &steps, &starting, useful_cells)
        };
        dispatch.submit_because(&task, || Reason {
            what: format!("stage {stage}, from batch {} of the table", item.row.0),
            size: match item.start {
                0 if batch == row.live => format!("all {batch} queries of the batch"),
                0 => format!(
                    "{batch} of the {} queries of the batch; the others are at earlier stages, or skip it",
                    row.live
                ),
                _ => format!("{batch} of the {} queries of the batch, which catch up with the others", row.live),
            },
            when: format!("stage {stage} of worker {worker} had a legitimate buffer pair and nothing to do"),
        })
    }
}
