//! A stage: its buffers and their hazards (DVABatch, section 6.1), and its executor (section 6.2, Figure 11).
//!
//! There are several sets of buffers. Each set has a buffer before every stage and one after the last. The buffers of a
//! set before and after a stage are the stage's *buffer pair* of that set.

use std::collections::VecDeque;
use std::mem;

use super::Stage;
use super::table::RowId;

/// The number of a set of buffers, which gives each stage one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferState {
    Available,
    /// The next stage must not read it: the buffer that it would write to is still needed by later stages.
    Invalid,
    InReading,
    InWriting,
}

/// `valid` and `writing` are separate facts: the next stage may have to leave a buffer alone whether or not it is being
/// written. [`BufferState`] combines them.
#[derive(Clone, Debug)]
struct Buffer {
    reading: bool,
    writing: bool,
    valid: bool,
    /// Batches in it that were passed to the next stage and have not been read.
    unread: u32,
    /// The first part of a batch is in it until the rest has caught up.
    resting: bool,
}

/// The buffers of one worker.
#[derive(Debug)]
pub struct Buffers {
    sets: u8,
    /// By stage and set: the buffer before the stage. Stages are added when batches reach them.
    before: Vec<Vec<Buffer>>,
}

impl Buffers {
    pub fn new(sets: u8) -> Buffers {
        let mut buffers = Buffers { sets, before: Vec::new() };
        buffers.reach(Stage(0));
        buffers
    }

    /// Creates the buffers before and after a stage.
    pub fn reach(&mut self, stage: Stage) {
        let fresh = Buffer { reading: false, writing: false, valid: true, unread: 0, resting: false };
        while self.before.len() <= stage.index() + 1 {
            self.before.push(vec![fresh.clone(); usize::from(self.sets)]);
        }
    }

    /// The state of the buffer before a stage.
    pub fn state(&self, stage: Stage, pair: Pair) -> BufferState {
        match *self.at(stage, pair) {
            Buffer { reading: true, .. } => BufferState::InReading,
            Buffer { writing: true, .. } => BufferState::InWriting,
            Buffer { valid: false, .. } => BufferState::Invalid,
            Buffer { .. } => BufferState::Available,
        }
    }

    /// Whether a stage may read from one set and write to another, usually the same. The input must be available. The
    /// output may also be invalid, because that only concerns the next stage.
    pub fn legitimate(&self, stage: Stage, from: Pair, into: Pair) -> bool {
        self.state(stage, from) == BufferState::Available
            && matches!(self.state(stage.next(), into), BufferState::Available | BufferState::Invalid)
    }

    /// The first set from which the stage may read, to write to the same set or to `into`.
    pub fn any(&self, stage: Stage, into: Option<Pair>) -> Option<Pair> {
        (0..self.sets).map(Pair).find(|pair| self.legitimate(stage, *pair, into.unwrap_or(*pair)))
    }

    /// The stage begins to read from one set and to write to another. With `adds` the output already holds the first
    /// part of the same batch.
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

    /// The stage has written the first part of a batch, which stays there until the rest has caught up.
    pub fn rest(&mut self, stage: Stage, pair: Pair) {
        self.at_mut(stage.next(), pair).resting = true;
    }

    /// The part that waited there has left.
    pub fn forget(&mut self, stage: Stage, pair: Pair) {
        self.at_mut(stage.next(), pair).resting = false;
    }

    /// The stage passes a batch to the next. Its pair of the set is not legitimate until it is [given
    /// back](Buffers::give_back).
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

    /// Whether the set has a batch that the stage has not read.
    pub fn has_unread(&self, stage: Stage, pair: Pair) -> bool {
        self.at(stage, pair).unread > 0
    }

    /// The stage may use its pair of the set again.
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

/// Queries of a row that wait for a stage: an entry of a batch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub row: RowId,
    /// The place of the first query in the row.
    pub start: u32,
    pub num: u32,
    /// The set of buffers that holds them. At the first stage it is chosen when they are pulled.
    pub pair: Option<Pair>,
}

impl Item {
    pub fn end(&self) -> u32 {
        self.start + self.num
    }
}

/// The pair that an executor uses after a batch, before it gives the batch's buffers back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Any legitimate pair: the stages run in parallel.
    Parallel,
    /// The same pair: it waits until the batch has passed all later stages, so that stages run one after another.
    Serial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub item: Item,
    /// The set that it reads.
    pub from: Pair,
    /// The set that it writes.
    pub into: Pair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorState {
    /// It has a legitimate pair, and takes the next batch from its queue.
    Active,
    /// It has taken a batch whose pair is not legitimate yet.
    Checking(Item),
    Working(Running),
    /// It has run a batch and has no legitimate pair. Until it has one, the stage before does not get the pair back.
    Inactive {
        used: Pair,
        manner: Manner,
    },
}

/// An executor and its queue.
#[derive(Debug)]
pub struct Executor {
    stage: Stage,
    state: ExecutorState,
    /// In the order of arrival.
    pub queue: VecDeque<Item>,
    /// The first part of a batch, after this stage until the rest has caught up, and the set that holds it.
    pub resting: Option<(RowId, Pair)>,
}

impl Executor {
    pub fn new(stage: Stage) -> Executor {
        Executor { stage, state: ExecutorState::Active, queue: VecDeque::new(), resting: None }
    }

    pub fn state(&self) -> ExecutorState {
        self.state
    }

    /// Active to checking: takes the next batch, if one waits.
    pub fn pull(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        match mem::replace(&mut self.state, ExecutorState::Checking(item)) {
            ExecutorState::Active => Some(item),
            other => self.illegal(other, "checking"),
        }
    }

    /// Checking to working: the pair of the batch is legitimate.
    pub fn work(&mut self, running: Running) {
        match mem::replace(&mut self.state, ExecutorState::Working(running)) {
            ExecutorState::Checking(item) if item.row == running.item.row => {}
            other => self.illegal(other, "working"),
        }
    }

    /// Working to inactive: the batch is done.
    pub fn finish(&mut self, manner: Manner) -> Running {
        match self.state {
            ExecutorState::Working(running) => {
                self.state = ExecutorState::Inactive { used: running.from, manner };
                running
            }
            other => self.illegal(other, "inactive"),
        }
    }

    /// Inactive to active: it has a legitimate pair again, and gives the used one back to the stage before.
    pub fn activate(&mut self) -> Pair {
        match mem::replace(&mut self.state, ExecutorState::Active) {
            ExecutorState::Inactive { used, .. } => used,
            other => self.illegal(other, "active"),
        }
    }

    fn illegal(&self, from: ExecutorState, to: &str) -> ! {
        let from = match from {
            ExecutorState::Active => "active",
            ExecutorState::Checking(_) => "checking",
            ExecutorState::Working(_) => "working",
            ExecutorState::Inactive { .. } => "inactive",
        };
        panic!("the executor of stage {} can't become {to} while it is {from}", self.stage)
    }
}
