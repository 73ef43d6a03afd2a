//! The slots of a pool, with vector clocks that check every access.

/// For each stream, the number of its operations known to be done.
#[derive(Clone, Debug, Default)]
pub struct Clock(Vec<u64>);

impl Clock {
    pub fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(own, other)| *own = (*own).max(*other));
    }

    pub fn set(&mut self, stream: usize, count: u64) {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] = count;
    }

    pub fn knows(&self, (stream, count): (usize, u64)) -> bool {
        self.0.get(stream).is_some_and(|known| *known >= count)
    }
}

/// A slot: its state, and the operations that used it.
#[derive(Default)]
pub struct Place {
    pub state: Option<Vec<f32>>,
    pub writer: Option<(usize, u64)>,
    pub readers: Vec<(usize, u64)>,
    pub broken: bool,
    /// Whether a dead worker had still to use the slot.
    pub disorderly: bool,
}

impl Place {
    /// Marks the state as no longer meaningful.
    pub fn spoil(&mut self, state: &[f32]) {
        self.disorderly = true;
        self.state.get_or_insert_with(|| state.to_vec());
    }

    pub fn read(
        &mut self,
        by: (usize, u64),
        clock: &Clock,
        what: impl std::fmt::Debug,
    ) -> Vec<f32> {
        self.readers.push(by);
        if let (true, Some(state)) = (self.disorderly, &self.state) {
            return state.clone();
        }
        let writer = self
            .writer
            .unwrap_or_else(|| panic!("{what:?} was never written"));
        assert!(
            clock.knows(writer),
            "{what:?} is read while it may be written"
        );
        self.state.clone().expect("it was written")
    }

    pub fn write(
        &mut self,
        by: (usize, u64),
        clock: &Clock,
        state: Vec<f32>,
        what: impl std::fmt::Debug,
    ) {
        let known = self
            .writer
            .iter()
            .chain(&self.readers)
            .all(|other| clock.knows(*other));
        let writer = self.writer;
        let readers = &self.readers;
        assert!(
            known || self.disorderly,
            "{what:?} is written by {by:?}, who knows of {clock:?}, while it may be in use: written by {writer:?}, read by \
             {readers:?}"
        );
        self.broken |= !state.iter().all(|number| number.is_finite());
        if known {
            self.readers.clear();
        } else {
            self.readers.extend(self.writer);
        }
        (self.state, self.writer) = (Some(state), Some(by));
    }
}
