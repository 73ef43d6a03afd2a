//! Operators of one depth and key as one launch: DyNet's batching by depth, and the look-up table of JIT dynamic batching.

use std::hash::Hash;

use super::batch::Batch;
use super::classes::{Classes, Key};
use super::launches::Launch;

/// The launches of a batch: by ascending depth, at one depth in the order in which keys were first seen; and the number of
/// operators.
pub fn by_depth<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>, launches: &mut Vec<Launch>) -> u64 {
    launches.clear();
    let groups = batch.groups(classes);
    const UNSEEN: u32 = u32::MAX;
    let mut rank = vec![UNSEEN; classes.keyed().len()];
    // The keys in the order in which they were seen, each with the size of its input.
    let mut keys: Vec<(Key, u32)> = Vec::new();
    // For each depth and key how many operators, over how many rows.
    let mut counts: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut operators = 0;
    groups.each(batch, classes, |entry| {
        operators += entry.nodes;
        let class = &classes.all()[entry.class as usize];
        let key = class.keys[entry.place as usize];
        let rank = &mut rank[key.index()];
        if *rank == UNSEEN {
            *rank = keys.len() as u32;
            keys.push((key, class.input));
        }
        let depth = entry.depth as usize;
        if counts.len() <= depth {
            counts.resize(depth + 1, Vec::new());
        }
        let at_depth = &mut counts[depth];
        if at_depth.len() <= *rank as usize {
            at_depth.resize(*rank as usize + 1, (0, 0));
        }
        let (operators, rows) = &mut at_depth[*rank as usize];
        *operators += entry.nodes;
        *rows += entry.rows;
    });
    for at_depth in counts {
        let some = keys.iter().zip(at_depth).filter(|(_, (operators, _))| *operators > 0);
        launches.extend(some.map(|((key, input), (operators, rows))| Launch {
            key: *key,
            operators,
            rows,
            input: *input,
        }));
    }
    operators
}
