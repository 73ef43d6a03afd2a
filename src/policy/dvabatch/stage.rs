//! A stage: its buffers and their hazards (DVABatch, section 6.1), and its executor (section 6.2, Figure 11). A stage's
//! *buffer pair* is a set's buffers before and after it.

use std::collections::VecDeque;
use std::fmt;

use super::Stage;
use super::table::RowId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferState {
    Available,
    /// Must not be read: later stages still need the buffer that the reader would write.
    Invalid,
    InReading,
    InWriting,
}

/// [`BufferState`] combines `valid` and `writing`.
#[derive(Clone, Debug)]
struct Buffer {
    reading: bool,
    writing: bool,
    valid: bool,
    unread: u32,
    /// Holds part of a batch until the rest has caught up.
    resting: bool,
}

#[derive(Debug)]
pub struct Buffers {
    sets: u8,
    before: Vec<Vec<Buffer>>,
}

impl Buffers {
    pub fn new(sets: u8) -> Buffers {
        let mut buffers = Buffers { sets, before: Vec::new() };
        buffers.reach(Stage(0));
        buffers
    }

    pub fn reach(&mut self, stage: Stage) {
        let fresh = Buffer { reading: false, writing: false, valid: true, unread: 0, resting: false };
        while self.before.len() <= stage.index() + 1 {
            self.before.push(vec![fresh.clone(); usize::from(self.sets)]);
        }
    }

    pub fn state(&self, stage: Stage, pair: Pair) -> BufferState {
        match *self.at(stage, pair) {
            Buffer { reading: true, .. } => BufferState::InReading,
            Buffer { writing: true, .. } => BufferState::InWriting,
            Buffer { valid: false, .. } => BufferState::Invalid,
            Buffer { .. } => BufferState::Available,
        }
    }

    /// Whether a stage may read one set and write another. The output may be invalid: that concerns only the next
    /// stage.
    pub fn legitimate(&self, stage: Stage, from: Pair, into: Pair) -> bool {
        self.state(stage, from) == BufferState::Available
            && matches!(self.state(stage.next(), into), BufferState::Available | BufferState::Invalid)
    }

    /// The first readable set, to write it or `into`.
    pub fn any(&self, stage: Stage, into: Option<Pair>) -> Option<Pair> {
        (0..self.sets).map(Pair).find(|pair| self.legitimate(stage, *pair, into.unwrap_or(*pair)))
    }

    /// `adds`: the output holds the first part of the same batch.
    ///
    /// # Panics
    /// On a write-after-read hazard.
    pub fn begin(&mut self, stage: Stage, from: Pair, into: Pair, adds: bool) {
        assert!(self.legitimate(stage, from, into), "stage {stage} runs with a buffer pair that is not legitimate");
        let output = self.at_mut(stage.next(), into);
        let unread = output.unread > 0 || (output.resting && !adds);
        assert!(!unread, "write after read: stage {stage} would write over a batch that has not been read");
        output.writing = true;
        self.at_mut(stage, from).reading = true;
    }

    pub fn end(&mut self, stage: Stage, from: Pair, into: Pair) {
        let input = self.at_mut(stage, from);
        assert!(input.reading, "stage {stage} ends without having begun");
        input.reading = false;
        input.unread = input.unread.saturating_sub(1);
        self.at_mut(stage.next(), into).writing = false;
    }

    /// The output holds part of a batch, or no longer does.
    pub fn rest(&mut self, stage: Stage, pair: Pair, resting: bool) {
        self.at_mut(stage.next(), pair).resting = resting;
    }

    /// The pair is blocked until it is [given back](Buffers::give_back).
    ///
    /// # Panics
    /// On a read-after-write hazard.
    pub fn hand_on(&mut self, stage: Stage, pair: Pair) {
        let output = self.at_mut(stage.next(), pair);
        assert!(!output.writing, "read after write: stage {stage} hands on a batch that is still being written");
        output.unread += 1;
        output.resting = false;
        self.at_mut(stage, pair).valid = false;
    }

    pub fn has_unread(&self, stage: Stage, pair: Pair) -> bool {
        self.at(stage, pair).unread > 0
    }

    pub fn give_back(&mut self, stage: Stage, pair: Pair) {
        self.at_mut(stage, pair).valid = true;
    }

    fn at(&self, stage: Stage, pair: Pair) -> &Buffer {
        &self.before[stage.index()][usize::from(pair.0)]
    }

    fn at_mut(&mut self, stage: Stage, pair: Pair) -> &mut Buffer {
        &mut self.before[stage.index()][usize::from(pair.0)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub row: RowId,
    pub start: u32,
    pub num: u32,
    /// Chosen at the start in the first stage.
    pub pair: Option<Pair>,
}

impl Item {
    pub fn end(&self) -> u32 {
        self.start + self.num
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub item: Item,
    pub from: Pair,
    pub into: Pair,
}

/// The state of an executor (Figure 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorState {
    Active,
    Checking(Item),
    Working(Running),
    /// Keeps the used pair until it has a legitimate one.
    Inactive {
        used: Pair,
        /// The next pair is the same one, once all later stages are done with it.
        serial: bool,
    },
}

impl fmt::Display for ExecutorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExecutorState::Active => "active",
            ExecutorState::Checking(_) => "checking",
            ExecutorState::Working(_) => "working",
            ExecutorState::Inactive { .. } => "inactive",
        })
    }
}

#[derive(Debug)]
pub struct Executor {
    stage: Stage,
    state: ExecutorState,
    pub queue: VecDeque<Item>,
    /// A batch's first part after this stage.
    pub resting: Option<(RowId, Pair)>,
}

impl Executor {
    pub fn new(stage: Stage) -> Executor {
        Executor { stage, state: ExecutorState::Active, queue: VecDeque::new(), resting: None }
    }

    pub fn state(&self) -> ExecutorState {
        self.state
    }

    /// Until a task ends or a batch comes.
    pub fn is_quiet(&self) -> bool {
        match self.state {
            ExecutorState::Active => self.queue.is_empty(),
            ExecutorState::Working(_) => true,
            ExecutorState::Checking(_) | ExecutorState::Inactive { .. } => false,
        }
    }

    pub fn pull(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        self.turn(ExecutorState::Checking(item));
        Some(item)
    }

    /// # Panics
    /// On a change of state that Figure 11 does not have.
    pub fn turn(&mut self, to: ExecutorState) {
        use ExecutorState::{Active, Checking, Inactive, Working};
        let legal = match (self.state, to) {
            (Active, Checking(_)) | (Working(_), Inactive { .. }) | (Inactive { .. }, Active) => true,
            (Checking(item), Working(running)) => item.row == running.item.row,
            _ => false,
        };
        assert!(legal, "the executor of stage {} can't become {to} while it is {}", self.stage, self.state);
        self.state = to;
    }
}
