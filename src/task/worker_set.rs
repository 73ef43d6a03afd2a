//! Sets of workers.

/// Of numbers below 65,536: a bit for each, and a bit for each word of bits that is not empty.
pub(super) struct WorkerSet {
    words: Vec<u64>,
    filled: Vec<u64>,
}

impl WorkerSet {
    pub fn none(workers: usize) -> WorkerSet {
        let words = workers.div_ceil(64);
        WorkerSet { words: vec![0; words], filled: vec![0; words.div_ceil(64)] }
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
        first_bit_from(&self.words[..self.words.len().min(worker / 64 + 1)], worker).or_else(|| {
            let word = first_bit_from(&self.filled, worker / 64 + 1)?;
            Some(word * 64 + self.words[word].trailing_zeros() as usize)
        })
    }
}

fn first_bit_from(words: &[u64], bit: usize) -> Option<usize> {
    let first = *words.get(bit / 64)? & (u64::MAX << (bit % 64));
    let rest = words.iter().copied().enumerate().skip(bit / 64 + 1);
    let mut words = [(bit / 64, first)].into_iter().chain(rest);
    words.find(|(_, word)| *word != 0).map(|(place, word)| place * 64 + word.trailing_zeros() as usize)
}
