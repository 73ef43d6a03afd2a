//! The mechanism of one worker: a batch table, and for each stage an executor with its queue and buffer pairs
//! (DVABatch, Figures 7 and 12).
//!
//! An executor *pulls* an item of its queue, *checks* its buffer pair, and *works* once the pair is legitimate. Then
//! queries that have passed their last stage leave; the others go on once their batch has caught up. The executor is
//! *inactive* until it has a legitimate pair, and only then gives back the used one. With one set of buffers, stages
//! wait for all later ones.

use std::sync::Arc;

use super::Stage;
use super::conditions::{AfterStage, Conditions, Enter, Entry, Lines, Onward};
use super::slicing::Slicing;
use super::stage::{Buffers, Executor, ExecutorState, Item, Pair, Running};
use super::table::{BatchTable, Query, Row, RowId};
use crate::policy::Outcomes;
use crate::task::{Dispatch, Members, Reason, Step, Task};
use crate::units::{Nanos, RequestId, StreamId, TaskId, WorkerId};

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
    steps: Vec<Step>,
    starting: Vec<RequestId>,
    entering: Vec<Query>,
    items: Vec<Item>,
    onward: Onward,
}

struct Asked<'a> {
    now: Nanos,
    conditions: &'a mut dyn Conditions,
    outcomes: &'a mut Outcomes,
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
            running: Vec::new(),
            steps: Vec::new(),
            starting: Vec::new(),
            entering: Vec::new(),
            items: Vec::new(),
            onward: Onward::default(),
        };
        mechanism.reach(Stage(0));
        mechanism
    }

    fn reach(&mut self, stage: Stage) {
        while self.executors.len() <= stage.index() {
            self.executors.push(Executor::new(Stage(self.executors.len() as u32)));
        }
        self.buffers.reach(stage);
    }

    fn wake(&mut self, stage: Stage) {
        if let Err(place) = self.awake.binary_search(&stage) {
            self.awake.insert(place, stage);
        }
    }

    pub fn complete(&mut self, task: TaskId, now: Nanos, conditions: &mut dyn Conditions, outcomes: &mut Outcomes) {
        let place = self.running.iter().position(|(id, _)| *id == task).expect("a task of the mechanism is running");
        let (_, stage) = self.running.swap_remove(place);
        let Running { item, into, .. } = self.finish(stage);
        let slicing = Arc::clone(&self.slicing);
        self.table.leave(&item, |query| slicing.is_last(stage, query.nodes), |request| outcomes.finish(request));
        if !self.table.has(item.row) {
            return;
        }
        let mut asked = Asked { now, conditions, outcomes };
        let lives = self.table.row(item.row).of(&item).next().is_some();
        if lives {
            self.rest(stage, item.row, into);
        }
        self.go_on_if_caught_up(stage, item.row, Some(&mut asked));
        if !lives {
            // Later stages may have waited for them.
            for stage in (stage.0 + 1..self.executors.len() as u32).map(Stage) {
                self.go_on_if_caught_up(stage, item.row, Some(&mut asked));
            }
        }
    }

    fn finish(&mut self, stage: Stage) -> Running {
        let executor = &mut self.executors[stage.index()];
        let ExecutorState::Working(running) = executor.state() else { panic!("stage {stage} is not working") };
        let Running { item, from: used, .. } = running;
        executor.turn(ExecutorState::Inactive { used, serial: self.table.row(item.row).splits });
        self.buffers.end(stage, running.from, running.into);
        self.table.complete(&item, stage);
        self.wake(stage);
        running
    }

    fn rest(&mut self, stage: Stage, row: RowId, written: Pair) {
        let executor = &mut self.executors[stage.index()];
        if executor.resting.is_none_or(|(resting, _)| resting != row) {
            executor.resting = Some((row, written));
            self.buffers.rest(stage, written, true);
        }
    }

    /// All its queries skip the stage, so the conditions are not asked.
    fn pass_by(&mut self, stage: Stage) {
        let Running { item, into, .. } = self.finish(stage);
        self.rest(stage, item.row, into);
        self.go_on_if_caught_up(stage, item.row, None);
    }

    fn go_on_if_caught_up(&mut self, stage: Stage, row: RowId, asked: Option<&mut Asked<'_>>) {
        let executor = &mut self.executors[stage.index()];
        let Some((_, pair)) = executor.resting.filter(|(resting, _)| *resting == row) else { return };
        if !self.table.has(row) {
            return;
        }
        let Some(onward) = self.table.caught_up(row, stage) else { return };
        executor.resting = None;
        match asked {
            Some(asked) if onward.start == 0 => self.go_on(stage, onward, pair, asked),
            _ => self.hand_on(stage, onward, pair),
        }
    }

    fn go_on(&mut self, stage: Stage, item: Item, pair: Pair, asked: &mut Asked<'_>) {
        let mut onward = std::mem::take(&mut self.onward);
        onward.clear();
        asked.conditions.after(&AfterStage { stage, row: self.table.row(item.row), now: asked.now }, &mut onward);
        for skip in &onward.skips {
            let query = self.table.skip(item.row, skip);
            assert!(
                skip.until > stage && !self.slicing.nodes(skip.until, query.nodes).is_empty(),
                "a query that has passed stage {stage} can't go on with stage {}",
                skip.until
            );
        }
        for exit in &onward.exits {
            let one = Item { start: *exit, num: 1, ..item };
            self.table.leave(&one, |_| true, |request| asked.outcomes.finish(request));
        }
        if !self.table.has(item.row) {
            self.buffers.rest(stage, pair, false);
        } else if onward.parts.len() < 2 {
            self.hand_on(stage, item, pair);
        } else {
            self.items.clear();
            self.table.split(item.row, stage, &onward.parts, &mut self.items);
            (0..self.items.len()).for_each(|part| self.hand_on(stage, self.items[part], pair));
        }
        self.onward = onward;
    }

    fn hand_on(&mut self, stage: Stage, item: Item, pair: Pair) {
        self.reach(stage.next());
        self.table.hand(&item, stage.next());
        self.buffers.hand_on(stage, pair);
        self.executors[stage.next().index()].queue.push_back(Item { pair: Some(pair), ..item });
        self.wake(stage.next());
    }

    pub fn advance(&mut self, lines: &mut Lines, conditions: &mut dyn Conditions, dispatch: &mut Dispatch<'_>) {
        // Backwards: a stage that becomes active frees the one before it.
        let mut moved = true;
        while moved {
            moved = false;
            let mut next = self.awake.len();
            while next > 0 {
                next -= 1;
                let stage = self.awake[next];
                moved |= self.activate(stage);
                if self.executors[stage.index()].state() == ExecutorState::Active {
                    if stage == Stage(0) && self.executors[0].queue.is_empty() {
                        self.enter(lines, conditions, dispatch.now());
                    }
                    moved |= self.executors[stage.index()].pull().is_some();
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
        let ExecutorState::Inactive { used, serial } = self.executors[stage.index()].state() else { return false };
        let legitimate = match serial {
            true => self.buffers.legitimate(stage, used, used),
            false => self.buffers.any(stage, None).is_some(),
        };
        if legitimate {
            self.executors[stage.index()].turn(ExecutorState::Active);
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
        let newest = self.table.newest();
        let has_stages_ahead = |row: &Row| !self.slicing.is_last(row.furthest(), row.longest());
        let stretchable = newest.filter(|(_, row)| !row.splits && has_stages_ahead(row));
        let entry = Entry { lines, table: &self.table, now, stretchable: stretchable.map(|(_, row)| row) };
        let (item, input) = match conditions.enter(&entry) {
            None => return,
            Some(Enter::New { line, count, input }) => {
                lines.take(line, count, &mut self.entering);
                (self.table.new_row(self.entering.drain(..), now, line, input), input)
            }
            Some(Enter::Stretch { count }) => {
                let (id, row) = stretchable.expect("the conditions stretch a batch that can be stretched");
                let line = row.line;
                let input = row.input.max(lines.longest_input(line, count));
                lines.take(line, count, &mut self.entering);
                (self.table.stretch(id, self.entering.drain(..), input), input)
            }
        };
        if conditions.may_split(self.table.row(item.row).live, input) {
            self.table.will_split(item.row);
        }
        self.executors[0].queue.push_back(item);
    }

    fn check(&mut self, stage: Stage, dispatch: &mut Dispatch<'_>) -> bool {
        let executor = &mut self.executors[stage.index()];
        let ExecutorState::Checking(item) = executor.state() else { return false };
        let resting = executor.resting.filter(|(row, _)| *row == item.row).map(|(_, pair)| pair);
        let from = match item.pair {
            Some(pair) => Some(pair).filter(|pair| self.buffers.legitimate(stage, *pair, resting.unwrap_or(*pair))),
            None => self.buffers.any(stage, resting),
        };
        let Some(from) = from else { return false };
        let running = Running { item, from, into: resting.unwrap_or(from) };
        executor.turn(ExecutorState::Working(running));
        self.buffers.begin(stage, from, running.into, resting.is_some());
        if self.table.row(item.row).in_stage(&item, stage).next().is_some() {
            let task = self.submit(stage, &item, dispatch);
            self.running.push((task, stage));
        } else {
            self.pass_by(stage);
        }
        true
    }

    fn submit(&mut self, stage: Stage, item: &Item, dispatch: &mut Dispatch<'_>) -> TaskId {
        let Mechanism { worker, slicing, table, steps, starting, .. } = self;
        let row = table.row(item.row);
        let (mut batch, mut longest, mut useful_cells) = (0, 0, 0);
        starting.clear();
        for query in row.in_stage(item, stage) {
            batch += 1;
            longest = query.nodes.max(longest);
            useful_cells += slicing.own_cells(stage, query);
            if stage == Stage(0) {
                starting.push(query.request);
            }
        }
        slicing.steps(stage, batch, longest, row.input, steps);
        let parts =
            |parts: &mut Vec<_>| parts.extend(row.in_stage(item, stage).map(|query| slicing.part(stage, query)));
        let task = Task {
            stream: StreamId((stage.0 % u32::from(STREAMS)) as u16),
            members: Members::Parts(&parts),
            ..Task::new(*worker, steps, starting, useful_cells)
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
