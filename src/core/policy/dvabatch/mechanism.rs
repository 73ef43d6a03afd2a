//! The mechanism of one worker: a batch table, and for each stage an executor with its queue and buffer pairs
//! (DVABatch, Figures 7 and 12).
//!
//! An active executor *checks* the buffer pair of its queue's first item, and *works* once the pair is legitimate. Then
//! queries that have passed their last stage leave; the others go on once their batch has caught up. The executor is
//! *inactive* until it has a legitimate pair, and only then gives back the used one. With one set of buffers, stages
//! wait for all later ones.

use std::sync::Arc;

use smallvec::SmallVec;

use super::conditions::{Conditions, Enter, EntryView, Onward, WaitingLines};
use super::slicing::Slicing;
use super::stage::{Buffers, ExecutorState, RunningItem, StageExecutor};
use super::table::{BatchId, BatchTable, StageItem};
use super::{BufferPair, Stage};
use crate::base::units::{StreamId, TaskId};
use crate::core::policy::prelude::*;
use crate::core::task::Members;

/// The number of streams of a worker, over which its stages are distributed in turn.
pub const STREAMS: u16 = 32;

/// The mechanism of one worker.
pub struct Mechanism {
    worker: WorkerId,
    slicing: Arc<Slicing>,
    pub(super) table: BatchTable,
    buffers: Buffers,
    pub(super) executors: Vec<StageExecutor>,
    /// The stages that may move, in ascending order. A long chain has few of them.
    awake: Vec<Stage>,
    /// Whether no stage can move until a task ends, unless queries enter the first one.
    is_settled: bool,
    /// The tasks that run, with their stages.
    running: Vec<(TaskId, Stage)>,
    /// The steps of the last task, kept for their memory.
    steps: Vec<Step>,
}

impl Mechanism {
    pub fn new(worker: WorkerId, slicing: Arc<Slicing>, sets: u8) -> Mechanism {
        let mut mechanism = Mechanism {
            worker,
            slicing,
            table: BatchTable::default(),
            buffers: Buffers::new(sets),
            executors: Vec::new(),
            awake: vec![Stage(0)],
            is_settled: false,
            running: Vec::new(),
            steps: Vec::new(),
        };
        mechanism.reach(Stage(0));
        mechanism
    }

    /// Whether the worker has no batch and its first stage waits for one.
    pub fn is_idle(&self) -> bool {
        self.table.rows().next().is_none() && self.executors[0].state == ExecutorState::Active
    }

    /// Adds the executors and buffers of all stages up to this one.
    fn reach(&mut self, stage: Stage) {
        let stages = self.executors.len().max(stage.index() + 1);
        self.executors.resize_with(stages, StageExecutor::default);
        self.buffers.reach(stage);
    }

    fn wake(&mut self, stage: Stage) {
        if let Err(place) = self.awake.binary_search(&stage) {
            self.awake.insert(place, stage);
        }
    }

    /// Handles the end of a task: queries leave, and batches that have caught up go on.
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
        self.is_settled = false;
        let RunningItem { item, into, .. } = self.finish(stage);
        self.table.leave(
            &item,
            |query| self.slicing.is_last(stage, query.nodes),
            outcomes,
        );
        if !self.table.has(item.row) {
            return;
        }
        let mut last = stage.0;
        if self
            .table
            .row(item.row)
            .live_queries(&item)
            .next()
            .is_some()
        {
            self.rest(stage, item.row, into);
        } else {
            // Later stages may have waited for the queries that have left.
            last = self.executors.len() as u32 - 1;
        }
        for stage in (stage.0..=last).map(Stage) {
            match self.take_caught_up(stage, item.row) {
                Some((onward, pair)) if onward.start == 0 => {
                    self.go_on(stage, onward, pair, conditions, outcomes)
                }
                Some((onward, pair)) => self.hand_on(stage, onward, pair),
                None => {}
            }
        }
    }

    /// Ends the run of a stage's executor.
    fn finish(&mut self, stage: Stage) -> RunningItem {
        let executor = &mut self.executors[stage.index()];
        let ExecutorState::Working(running) = executor.state else {
            panic!("stage {stage} is not working")
        };
        let RunningItem {
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

    /// Lets the first part of a batch, which is in the pair `written`, wait after a stage for the other queries.
    fn rest(&mut self, stage: Stage, row: BatchId, written: BufferPair) {
        let resting = &mut self.executors[stage.index()].resting;
        if resting.is_none_or(|(resting, _)| resting != row) {
            *resting = Some((row, written));
        }
    }

    /// Takes the queries that go on after a stage, with the pair that holds them.
    fn take_caught_up(&mut self, stage: Stage, row: BatchId) -> Option<(StageItem, BufferPair)> {
        let resting = &mut self.executors[stage.index()].resting;
        let (_, pair) = resting.filter(|(resting, _)| *resting == row && self.table.has(row))?;
        let onward = self.table.caught_up(row, stage)?;
        *resting = None;
        Some((onward, pair))
    }

    /// Asks the conditions how a whole batch goes on after a stage, and applies the answer.
    fn go_on(
        &mut self,
        stage: Stage,
        item: StageItem,
        pair: BufferPair,
        conditions: &mut dyn Conditions,
        outcomes: &mut Outcomes,
    ) {
        let mut onward = Onward::default();
        conditions.after(stage, self.table.row(item.row), &mut onward);
        for skip in &onward.skips {
            let query = self.table.skip(item.row, skip.place, skip.until);
            assert!(
                skip.until > stage && !self.slicing.nodes(skip.until, query.nodes).is_empty(),
                "a query that has passed stage {stage} can't go on with stage {}",
                skip.until
            );
        }
        for exit in &onward.exits {
            let query = StageItem {
                start: *exit,
                num: 1,
                ..item
            };
            self.table.leave(&query, |_| true, outcomes);
        }
        if !self.table.has(item.row) {
            return;
        }
        if onward.parts.len() < 2 {
            self.hand_on(stage, item, pair);
            return;
        }
        for part in self.table.split(item.row, stage, &onward.parts) {
            self.hand_on(stage, part, pair);
        }
    }

    /// Hands an item to the next stage.
    fn hand_on(&mut self, stage: Stage, item: StageItem, pair: BufferPair) {
        self.reach(stage.next());
        self.table.hand(&item, stage.next());
        self.buffers.hand_on(stage, pair);
        self.executors[stage.next().index()]
            .queue
            .push_back(StageItem {
                pair: Some(pair),
                ..item
            });
        self.wake(stage.next());
    }

    /// Moves executors, and lets queries enter, until nothing moves.
    pub fn advance(
        &mut self,
        lines: &mut WaitingLines,
        conditions: &mut dyn Conditions,
        dispatch: &mut Dispatch<'_>,
    ) {
        if self.is_settled && !self.enter(lines, conditions, dispatch.now()) {
            return;
        }
        // The last stage comes first, because a stage that becomes active frees the one before it.
        let mut moved = true;
        while moved {
            moved = false;
            let mut next = self.awake.len();
            while next > 0 {
                next -= 1;
                let stage = self.awake[next];
                moved |= self.activate(stage);
                if stage == Stage(0) {
                    self.enter(lines, conditions, dispatch.now());
                }
                moved |= self.check(stage, dispatch);
                if stage > Stage(0) && self.executors[stage.index()].is_quiet() {
                    self.awake.remove(next);
                }
            }
        }
        self.is_settled = true;
    }

    /// Makes an inactive executor active if it has a legitimate pair. The used pair is given back, unless it holds
    /// another part of a split batch.
    fn activate(&mut self, stage: Stage) -> bool {
        let ExecutorState::Inactive { used, serial } = self.executors[stage.index()].state else {
            return false;
        };
        let legitimate = if serial {
            self.buffers.legitimate(stage, used, used)
        } else {
            self.buffers.any(stage, None).is_some()
        };
        if legitimate {
            self.executors[stage.index()].state = ExecutorState::Active;
            if stage > Stage(0) && !self.buffers.has_unread(stage, used) {
                self.buffers.give_back(Stage(stage.0 - 1), used);
            }
        }
        legitimate
    }

    /// Lets the queries enter that the conditions choose, if the first stage waits for any. Returns whether some entered.
    fn enter(
        &mut self,
        lines: &mut WaitingLines,
        conditions: &mut dyn Conditions,
        now: Nanos,
    ) -> bool {
        let StageExecutor { state, queue, .. } = &self.executors[0];
        let waits = *state == ExecutorState::Active && queue.is_empty();
        if lines.is_empty() || !waits {
            return false;
        }
        let stretchable = self
            .table
            .newest()
            .filter(|(_, row)| !row.splits && !self.slicing.is_last(row.furthest(), row.longest));
        let entry = EntryView {
            lines,
            table: &self.table,
            now,
            stretchable: stretchable.map(|(_, row)| row),
        };
        let (row, line, count, input) = match conditions.enter(&entry) {
            None => return false,
            Some(Enter::New { line, count, input }) => {
                (self.table.new_row(now, line), line, count, input)
            }
            Some(Enter::Stretch { count }) => {
                let (id, row) =
                    stretchable.expect("the conditions stretch a batch that can be stretched");
                let input = row.input.max(lines.longest_input(row.line, count));
                (id, row.line, count, input)
            }
        };
        let item = self
            .table
            .join(row, input, |queries| lines.take(line, count, queries));
        if conditions.may_split(self.table.row(row).live, input) {
            self.table.will_split(row);
        }
        self.executors[0].queue.push_back(item);
        true
    }

    /// Begins the first item of an active executor's queue if its pair is legitimate. Returns whether it has begun.
    fn check(&mut self, stage: Stage, dispatch: &mut Dispatch<'_>) -> bool {
        let StageExecutor {
            state,
            queue,
            resting,
        } = &mut self.executors[stage.index()];
        let Some(&item) = queue.front().filter(|_| *state == ExecutorState::Active) else {
            return false;
        };
        let own = match resting {
            Some((row, pair)) if *row == item.row => Some(*pair),
            _ => None,
        };
        let from = match item.pair {
            Some(pair) => pair,
            None => match self.buffers.any(stage, own) {
                Some(pair) => pair,
                None => return false,
            },
        };
        let into = own.unwrap_or(from);
        if !self.buffers.legitimate(stage, from, into) {
            return false;
        }
        let is_over = resting.is_some_and(|(row, pair)| row != item.row && pair == into);
        assert!(
            !is_over,
            "write after read: stage {stage} would write over a batch that has not caught up"
        );
        queue.pop_front();
        *state = ExecutorState::Working(RunningItem { item, from, into });
        self.buffers.begin(stage, from, into);
        let runs_any = self
            .table
            .row(item.row)
            .stage_queries(&item, stage)
            .next()
            .is_some();
        if runs_any {
            let task = self.submit(stage, &item, dispatch);
            self.running.push((task, stage));
        } else {
            // All queries of the item skip the stage, so the conditions are not asked.
            self.finish(stage);
            self.rest(stage, item.row, into);
            if let Some((onward, pair)) = self.take_caught_up(stage, item.row) {
                self.hand_on(stage, onward, pair);
            }
        }
        true
    }

    /// Submits the task of an item in a stage.
    fn submit(&mut self, stage: Stage, item: &StageItem, dispatch: &mut Dispatch<'_>) -> TaskId {
        let worker = self.worker;
        let slicing = &self.slicing;
        let row = self.table.row(item.row);
        let mut batch = 0;
        let mut longest = 0;
        let mut useful_cells = 0;
        let mut starting = SmallVec::<[RequestId; 8]>::new();
        for query in row.stage_queries(item, stage) {
            batch += 1;
            longest = query.nodes.max(longest);
            useful_cells += slicing.own_cells(stage, query);
            if stage == Stage(0) {
                starting.push(query.request);
            }
        }
        self.steps.clear();
        slicing.add_steps(stage, batch, longest, row.input, &mut self.steps);
        let list_parts = |parts: &mut Vec<_>| {
            let queries = row.stage_queries(item, stage);
            parts.extend(queries.map(|query| slicing.part(stage, query)));
        };
        let task = Task {
            stream: StreamId((stage.0 % u32::from(STREAMS)) as u16),
            members: Members::Parts(&list_parts),
            ..Task::new(worker, &self.steps, &starting, useful_cells)
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
