//! A stage's executor: its states and the ways between them (DVABatch, figure 11).

use std::collections::VecDeque;
use std::mem;

use super::Stage;
use super::buffers::Pair;
use super::table::RowId;

/// Queries of a row that stand before a stage: a line of a batch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The row of the batch table.
    pub row: RowId,
    /// The place in the row of the first query.
    pub start: u32,
    /// The number of queries.
    pub num: u32,
    /// The set of buffers that they lie in. At the first stage they are put into one when they are pulled.
    pub pair: Option<Pair>,
}

impl Item {
    /// The place behind the last query.
    pub fn end(&self) -> u32 {
        self.start + self.num
    }
}

/// What an executor takes up once it has run a batch, before it gives the batch's buffers back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Any pair that is legitimate: the stages work in parallel.
    Parallel,
    /// The pair that it had: it waits until the batch has passed all stages behind it, and they work one after the other.
    Serial,
}

/// A batch that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// What runs.
    pub item: Item,
    /// The set that it is read from.
    pub from: Pair,
    /// The set that it is written to.
    pub into: Pair,
}

/// What an executor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a legitimate pair, and takes the next batch from its queue.
    Active,
    /// It has taken a batch whose own pair is still to become legitimate.
    Checking(Item),
    /// A batch is running.
    Working(Running),
    /// It has run a batch and has no legitimate pair; until it has one, the stage before does not get the pair back.
    Inactive {
        /// The pair that it used.
        used: Pair,
        /// Which it takes up next.
        manner: Manner,
    },
}

/// An executor and the queue before it.
#[derive(Debug)]
pub struct Executor {
    stage: Stage,
    state: State,
    /// What waits for it, in the order in which it came.
    pub queue: VecDeque<Item>,
    /// The first part of a batch, behind this stage until the rest has caught up, and the set that it lies in.
    pub resting: Option<(RowId, Pair)>,
}

impl Executor {
    /// Active, with nothing to do.
    pub fn new(stage: Stage) -> Executor {
        Executor { stage, state: State::Active, queue: VecDeque::new(), resting: None }
    }

    /// What it does.
    pub fn state(&self) -> State {
        self.state
    }

    /// Active to checking: it takes the next batch, if one waits.
    pub fn pull(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        match mem::replace(&mut self.state, State::Checking(item)) {
            State::Active => Some(item),
            other => self.illegal(other, "checking"),
        }
    }

    /// Checking to working: the batch's pair is legitimate.
    pub fn work(&mut self, running: Running) {
        match mem::replace(&mut self.state, State::Working(running)) {
            State::Checking(item) if item.row == running.item.row => {}
            other => self.illegal(other, "working"),
        }
    }

    /// Working to inactive: the batch is done.
    pub fn finish(&mut self, manner: Manner) -> Running {
        match self.state {
            State::Working(running) => {
                self.state = State::Inactive { used: running.from, manner };
                running
            }
            other => self.illegal(other, "inactive"),
        }
    }

    /// Inactive to active: it has a legitimate pair again, and gives the used one back to the stage before.
    pub fn activate(&mut self) -> Pair {
        match mem::replace(&mut self.state, State::Active) {
            State::Inactive { used, .. } => used,
            other => self.illegal(other, "active"),
        }
    }

    fn illegal(&self, from: State, to: &str) -> ! {
        let from = match from {
            State::Active => "active",
            State::Checking(_) => "checking",
            State::Working(_) => "working",
            State::Inactive { .. } => "inactive",
        };
        panic!("the executor of stage {} can't become {to} while it is {from}", self.stage)
    }
}
