//! A stage: its buffers and their hazards (DVABatch, section 6.1), and its executor (section 6.2, Figure 11). A stage's
//! *buffer pair* is a set's buffers before and after it.

use std::collections::VecDeque;

use super::Stage;
use super::table::RowId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub u8);

/// In the states of section 6.1: available, invalid, in reading or in writing.
#[derive(Clone, Debug, Default)]
struct Buffer {
    reading: bool,
    writing: bool,
    /// Must not be read: later stages still need the buffer that the reader would write.
    invalid: bool,
    unread: u32,
}

#[derive(Debug)]
pub struct Buffers {
    sets: u8,
    before: Vec<Vec<Buffer>>,
}

impl Buffers {
    pub fn new(sets: u8) -> Buffers {
        Buffers {
            sets,
            before: Vec::new(),
        }
    }

    pub fn reach(&mut self, stage: Stage) {
        while self.before.len() <= stage.index() + 1 {
            self.before
                .push(vec![Buffer::default(); usize::from(self.sets)]);
        }
    }

    /// Whether a stage may read one set and write another. The output may be invalid: that concerns only the next
    /// stage.
    pub fn legitimate(&self, stage: Stage, from: Pair, into: Pair) -> bool {
        let (input, output) = (self.at(stage, from), self.at(stage.next(), into));
        !input.invalid
            && [input, output]
                .iter()
                .all(|buffer| !buffer.reading && !buffer.writing)
    }

    /// The first readable set, to write it or `into`.
    pub fn any(&self, stage: Stage, into: Option<Pair>) -> Option<Pair> {
        (0..self.sets)
            .map(Pair)
            .find(|pair| self.legitimate(stage, *pair, into.unwrap_or(*pair)))
    }

    /// # Panics
    /// On a write-after-read hazard.
    pub fn begin(&mut self, stage: Stage, from: Pair, into: Pair) {
        assert!(
            self.legitimate(stage, from, into),
            "stage {stage} runs with a buffer pair that is not legitimate"
        );
        let output = self.at_mut(stage.next(), into);
        assert_eq!(
            output.unread, 0,
            "write after read: stage {stage} would write over a batch that has not been read"
        );
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

    /// The pair is blocked until it is [given back](Buffers::give_back).
    ///
    /// # Panics
    /// On a read-after-write hazard.
    pub fn hand_on(&mut self, stage: Stage, pair: Pair) {
        let output = self.at_mut(stage.next(), pair);
        assert!(
            !output.writing,
            "read after write: stage {stage} hands on a batch that is still being written"
        );
        output.unread += 1;
        self.at_mut(stage, pair).invalid = true;
    }

    pub fn has_unread(&self, stage: Stage, pair: Pair) -> bool {
        self.at(stage, pair).unread > 0
    }

    pub fn give_back(&mut self, stage: Stage, pair: Pair) {
        self.at_mut(stage, pair).invalid = false;
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

/// The state of an executor (Figure 11). One that is active and has a queue checks its first item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutorState {
    #[default]
    Active,
    Working(Running),
    /// Keeps the used pair until it has a legitimate one.
    Inactive {
        used: Pair,
        /// The next pair is the same one, once all later stages are done with it.
        serial: bool,
    },
}

#[derive(Debug, Default)]
pub struct Executor {
    pub state: ExecutorState,
    pub queue: VecDeque<Item>,
    /// A batch's first part after this stage.
    pub resting: Option<(RowId, Pair)>,
}

impl Executor {
    /// Until a task ends or a batch comes.
    pub fn is_quiet(&self) -> bool {
        match self.state {
            ExecutorState::Active => self.queue.is_empty(),
            ExecutorState::Working(_) => true,
            ExecutorState::Inactive { .. } => false,
        }
    }
}
