//! Sets of workers.

/// A set of workers with numbers below 65,536: a bit for each worker, and a bit for each word of bits that is not
/// empty.
pub(crate) struct WorkerSet {
    words: Vec<u64>,
    filled: Vec<u64>,
}

impl WorkerSet {
    pub fn none(workers: usize) -> WorkerSet {
        let words = workers.div_ceil(64);
        WorkerSet {
            words: vec![0; words],
            filled: vec![0; words.div_ceil(64)],
        }
    }

    pub fn all(workers: usize) -> WorkerSet {
        let mut all = WorkerSet::none(workers);
        for worker in 0..workers {
            all.insert(worker);
        }
        all
    }

    pub fn insert(&mut self, worker: usize) {
        self.words[worker / 64] |= 1 << (worker % 64);
        self.filled[worker / 4096] |= 1 << (worker / 64 % 64);
    }

    pub fn remove(&mut self, worker: usize) {
        let word = &mut self.words[worker / 64];
        *word &= !(1 << (worker % 64));
        if *word == 0 {
            self.filled[worker / 4096] &= !(1 << (worker / 64 % 64));
        }
    }

    /// The lowest number in the set that is not below `worker`.
    pub fn first_from(&self, worker: usize) -> Option<usize> {
        let in_this_word = first_in_word(&self.words, worker);
        if in_this_word.is_some() {
            return in_this_word;
        }
        let word = self.first_filled_word(worker / 64 + 1)?;
        first_in_word(&self.words, word * 64)
    }

    fn first_filled_word(&self, word: usize) -> Option<usize> {
        let in_this_word = first_in_word(&self.filled, word);
        if in_this_word.is_some() {
            return in_this_word;
        }
        let mut later = word / 64 + 1..self.filled.len();
        later.find_map(|next| first_in_word(&self.filled, next * 64))
    }
}

/// The first set bit from this one on in the same word.
fn first_in_word(words: &[u64], bit: usize) -> Option<usize> {
    let left = words.get(bit / 64)? & (u64::MAX << (bit % 64));
    if left == 0 {
        return None;
    }
    Some(bit / 64 * 64 + left.trailing_zeros() as usize)
}
