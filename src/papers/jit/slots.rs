//! The slots of a look-up table (section 4.3): nodes of one depth and key share a slot, and a slot is one launch.

use std::collections::HashMap;
use std::hash::Hash;

/// The slots that each sample of a file needs, so that those of any batch of samples can be counted without building its table
/// anew.
#[derive(Clone, Debug)]
pub struct Slots<K> {
    /// Each slot once, in the order in which they first came.
    keys: Vec<K>,
    /// For each sample the numbers of its slots, each once.
    of_sample: Vec<Vec<u32>>,
}

impl<K: Hash + Eq + Copy> Slots<K> {
    /// The slots of samples, each given as the keys of its nodes, in any order and as often as they occur.
    pub fn new<S: IntoIterator<Item = K>>(samples: impl IntoIterator<Item = S>) -> Slots<K> {
        let mut keys = Vec::new();
        // Looked up, never iterated: its order reaches no result.
        let mut number: HashMap<K, u32> = HashMap::new();
        let of_sample = samples
            .into_iter()
            .map(|nodes| {
                let mut slots: Vec<u32> = nodes
                    .into_iter()
                    .map(|key| {
                        *number.entry(key).or_insert_with(|| {
                            keys.push(key);
                            keys.len() as u32 - 1
                        })
                    })
                    .collect();
                slots.sort_unstable();
                slots.dedup();
                slots
            })
            .collect();
        Slots { keys, of_sample }
    }

    /// Calls `visit` once for each slot that the samples of a batch need, batch by batch: with the number of the batch and the slot.
    pub fn of_batches(&self, order: &[u32], batch: usize, mut visit: impl FnMut(usize, &K)) {
        const NOWHERE: usize = usize::MAX;
        let mut last_in = vec![NOWHERE; self.keys.len()];
        for (number, samples) in order.chunks(batch).enumerate() {
            for slot in samples.iter().flat_map(|sample| &self.of_sample[*sample as usize]) {
                if last_in[*slot as usize] != number {
                    last_in[*slot as usize] = number;
                    visit(number, &self.keys[*slot as usize]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_counts_once_in_each_batch() {
        let slots = Slots::new([vec!['a', 'b', 'a'], vec!['b'], vec!['c', 'a']]);
        let count = |order: &[u32], batch| {
            let mut counts = vec![String::new(); order.len().div_ceil(batch)];
            slots.of_batches(order, batch, |batch, key| counts[batch].push(*key));
            counts
        };
        assert_eq!(count(&[0, 1, 2], 2), ["ab", "ac"]);
        assert_eq!(count(&[1, 2, 0], 3), ["bac"]);
        assert_eq!(count(&[1, 2, 0], 1), ["b", "ac", "ab"]);
    }
}
