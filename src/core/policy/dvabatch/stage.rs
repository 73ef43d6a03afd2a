//! A stage: its buffers and their hazards (DVABatch, section 6.1), and its executor (section 6.2, Figure 11). A stage's
//! *buffer pair* is a set's buffers before and after it.

use std::collections::VecDeque;

use super::table::{BatchId, StageItem};
use super::{BufferPair, Stage};

/// A buffer in one of the states of section 6.1: available, invalid, in reading or in writing.
#[derive(Clone, Debug, Default)]
struct StageBuffer {
    reading: bool,
    writing: bool,
    /// Whether the buffer must not be read, because later stages still need the buffer that the reader would write.
    invalid: bool,
    /// The number of items in it that have not been read.
    unread: u32,
}

/// The buffers of all stages.
#[derive(Debug)]
pub struct Buffers {
    sets: u8,
    /// The buffers before each stage, one of each set.
    before: Vec<Vec<StageBuffer>>,
}

impl Buffers {
    pub fn new(sets: u8) -> Buffers {
        Buffers {
            sets,
            before: Vec::new(),
        }
    }

    /// Adds the buffers of all stages up to this one.
    pub fn reach(&mut self, stage: Stage) {
        while self.before.len() <= stage.index() + 1 {
            self.before
                .push(vec![StageBuffer::default(); usize::from(self.sets)]);
        }
    }

    /// Whether a stage may read one set and write another. The output may be invalid, which concerns only the next
    /// stage.
    pub fn legitimate(&self, stage: Stage, from: BufferPair, into: BufferPair) -> bool {
        let input = self.get(stage, from);
        let output = self.get(stage.next(), into);
        !input.invalid && input.is_free() && output.is_free()
    }

    /// The first set that a stage may read while it writes `into`, or else the same set.
    pub fn any(&self, stage: Stage, into: Option<BufferPair>) -> Option<BufferPair> {
        (0..self.sets)
            .map(BufferPair)
            .find(|pair| self.legitimate(stage, *pair, into.unwrap_or(*pair)))
    }

    /// Begins to read one set and to write another.
    ///
    /// # Panics
    /// On a write-after-read hazard.
    pub fn begin(&mut self, stage: Stage, from: BufferPair, into: BufferPair) {
        assert!(
            self.legitimate(stage, from, into),
            "stage {stage} runs with a buffer pair that is not legitimate"
        );
        let output = self.get_mut(stage.next(), into);
        assert_eq!(
            output.unread, 0,
            "write after read: stage {stage} would write over a batch that has not been read"
        );
        output.writing = true;
        self.get_mut(stage, from).reading = true;
    }

    /// Ends what [`Buffers::begin`] has begun.
    pub fn end(&mut self, stage: Stage, from: BufferPair, into: BufferPair) {
        let input = self.get_mut(stage, from);
        assert!(input.reading, "stage {stage} ends without having begun");
        input.reading = false;
        input.unread = input.unread.saturating_sub(1);
        self.get_mut(stage.next(), into).writing = false;
    }

    /// Hands a stage's output to the next. The pair is blocked until it is [given back](Buffers::give_back).
    ///
    /// # Panics
    /// On a read-after-write hazard.
    pub fn hand_on(&mut self, stage: Stage, pair: BufferPair) {
        let output = self.get_mut(stage.next(), pair);
        assert!(
            !output.writing,
            "read after write: stage {stage} hands on a batch that is still being written"
        );
        output.unread += 1;
        self.get_mut(stage, pair).invalid = true;
    }

    /// Whether an item before a stage has not been read.
    pub fn has_unread(&self, stage: Stage, pair: BufferPair) -> bool {
        self.get(stage, pair).unread > 0
    }

    /// Makes a blocked pair available again.
    pub fn give_back(&mut self, stage: Stage, pair: BufferPair) {
        self.get_mut(stage, pair).invalid = false;
    }

    fn get(&self, stage: Stage, pair: BufferPair) -> &StageBuffer {
        &self.before[stage.index()][usize::from(pair.0)]
    }

    fn get_mut(&mut self, stage: Stage, pair: BufferPair) -> &mut StageBuffer {
        &mut self.before[stage.index()][usize::from(pair.0)]
    }
}

impl StageBuffer {
    fn is_free(&self) -> bool {
        !self.reading && !self.writing
    }
}

/// An item that a stage runs, and the pairs that it reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningItem {
    pub item: StageItem,
    pub from: BufferPair,
    pub into: BufferPair,
}

/// The state of an executor (Figure 11). An active one checks the first item of its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutorState {
    #[default]
    Active,
    Working(RunningItem),
    /// The executor keeps the used pair until it has a legitimate one.
    Inactive {
        used: BufferPair,
        /// Whether the next pair is the same one, once all later stages are done with it.
        serial: bool,
    },
}

/// The executor of a stage.
#[derive(Debug, Default)]
pub struct StageExecutor {
    pub state: ExecutorState,
    pub queue: VecDeque<StageItem>,
    /// The batch that waits after this stage for the queries at earlier ones, and the pair that holds its first part.
    pub resting: Option<(BatchId, BufferPair)>,
}

impl StageExecutor {
    /// Whether the executor can't move before a task ends or a batch comes.
    pub fn is_quiet(&self) -> bool {
        match self.state {
            ExecutorState::Active => self.queue.is_empty(),
            ExecutorState::Working(_) => true,
            ExecutorState::Inactive { .. } => false,
        }
    }
}
