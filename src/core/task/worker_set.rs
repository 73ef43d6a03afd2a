//! Sets of workers.

/// Of numbers below 65,536: a bit for each, and a bit for each word of bits that is not empty.
pub(super) struct WorkerSet {
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

    pub fn of_all(workers: usize) -> WorkerSet {
        let mut all = WorkerSet::none(workers);
        (0..workers).for_each(|worker| all.insert(worker));
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

    pub fn first_from(&self, worker: usize) -> Option<usize> {
        first_in_word(&self.words, worker).or_else(|| {
            let next = worker / 64 + 1;
            let later = || {
                (next / 64 + 1..self.filled.len())
                    .find_map(|word| first_in_word(&self.filled, word * 64))
            };
            let word = first_in_word(&self.filled, next).or_else(later)?;
            first_in_word(&self.words, word * 64)
        })
    }
}

/// The first bit from this one on that is set in the same word.
fn first_in_word(words: &[u64], bit: usize) -> Option<usize> {
    let left = words.get(bit / 64)? & (u64::MAX << (bit % 64));
    (left != 0).then(|| bit / 64 * 64 + left.trailing_zeros() as usize)
}
