//! The buffers between stages (DVABatch, section 6.1): what each may be used for, and the two hazards that follow from misuse.
//!
//! There are several sets of buffers, and in each set one before every stage and one behind the last. The set's buffers before and behind
//! a stage are that stage's *buffer pair* of the set.

use super::Stage;

/// A set of buffers, which gives each stage one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub u8);

/// What a buffer may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing uses it.
    Available,
    /// The stage that reads from it must not: what it would write into is still needed further down.
    Invalid,
    /// A batch is being read from it.
    InReading,
    /// A batch is being written to it.
    InWriting,
}

/// One buffer. The stage behind it may have to leave it alone (`valid`) whether or not the stage before it is writing at that
/// moment, so that these are two facts; [`State`] is what the two come to.
#[derive(Clone, Debug)]
struct Buffer {
    reading: bool,
    writing: bool,
    valid: bool,
    /// Batches in it that the stage behind was handed and has still to read.
    unread: u32,
    /// The first part of a batch lies in it until the rest has caught up.
    resting: bool,
}

/// All sets of buffers of one worker.
#[derive(Debug)]
pub struct Buffers {
    sets: u8,
    /// By stage and set: the buffer before the stage. Stages are added as batches reach them.
    before: Vec<Vec<Buffer>>,
}

impl Buffers {
    /// So many sets, all of them available.
    pub fn new(sets: u8) -> Buffers {
        let mut buffers = Buffers { sets, before: Vec::new() };
        buffers.reach(Stage(0));
        buffers
    }

    /// Makes the buffers before and behind a stage.
    pub fn reach(&mut self, stage: Stage) {
        let fresh = Buffer { reading: false, writing: false, valid: true, unread: 0, resting: false };
        while self.before.len() <= stage.index() + 1 {
            self.before.push(vec![fresh.clone(); usize::from(self.sets)]);
        }
    }

    /// The state of the buffer before a stage.
    pub fn state(&self, stage: Stage, pair: Pair) -> State {
        match *self.at(stage, pair) {
            Buffer { reading: true, .. } => State::InReading,
            Buffer { writing: true, .. } => State::InWriting,
            Buffer { valid: false, .. } => State::Invalid,
            Buffer { .. } => State::Available,
        }
    }

    /// Whether a stage may read from one set and write to another, as a rule the same. The input has to be available, and the output
    /// may be invalid, too: only the stage behind must not use it yet.
    pub fn legitimate(&self, stage: Stage, from: Pair, into: Pair) -> bool {
        self.state(stage, from) == State::Available
            && matches!(self.state(stage.next(), into), State::Available | State::Invalid)
    }

    /// The first set from which the stage may read, to write to the same or to the one given.
    pub fn any(&self, stage: Stage, into: Option<Pair>) -> Option<Pair> {
        (0..self.sets).map(Pair).find(|pair| self.legitimate(stage, *pair, into.unwrap_or(*pair)))
    }

    /// The stage begins to read from one set and to write to another. `adds` says that the first part of the same batch rests in the output,
    /// which the part that is written now comes to stand behind.
    ///
    /// # Panics
    /// On the hazard of writing over what has not been read.
    pub fn begin(&mut self, stage: Stage, from: Pair, into: Pair, adds: bool) {
        assert!(self.legitimate(stage, from, into), "stage {stage} runs with a buffer pair that is not legitimate");
        let output = self.at_mut(stage.next(), into);
        let unread = output.unread > 0 || (output.resting && !adds);
        assert!(!unread, "write after read: stage {stage} would write over a batch that has not been read");
        output.writing = true;
        self.at_mut(stage, from).reading = true;
    }

    /// The stage has read from one set and written to another.
    pub fn end(&mut self, stage: Stage, from: Pair, into: Pair) {
        let input = self.at_mut(stage, from);
        assert!(input.reading, "stage {stage} ends without having begun");
        input.reading = false;
        input.unread = input.unread.saturating_sub(1);
        self.at_mut(stage.next(), into).writing = false;
    }

    /// The stage has written the first part of a batch, which stays where it is until the rest is there.
    pub fn rest(&mut self, stage: Stage, pair: Pair) {
        self.at_mut(stage.next(), pair).resting = true;
    }

    /// What rested has left.
    pub fn forget(&mut self, stage: Stage, pair: Pair) {
        self.at_mut(stage.next(), pair).resting = false;
    }

    /// The stage hands a batch to the next. Its pair of the set is not legitimate any more until it is [given back](Buffers::give_back).
    ///
    /// # Panics
    /// On the hazard of reading what is being written.
    pub fn hand_on(&mut self, stage: Stage, pair: Pair) {
        let output = self.at_mut(stage.next(), pair);
        assert!(!output.writing, "read after write: stage {stage} hands on a batch that is still being written");
        output.unread += 1;
        output.resting = false;
        self.at_mut(stage, pair).valid = false;
    }

    /// Whether the stage has still to read a batch from this set.
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
