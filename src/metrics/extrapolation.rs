//! Batches of sizes at which no cost was measured, so that their times are a guess: flat below the smallest size, on a
//! straight line above the largest.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The executions of one cell type, those at sizes beyond the measured ones apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extrapolation {
    /// The cell type's name.
    pub cell: String,
    /// The smallest batch that was measured.
    pub from: u32,
    /// The largest.
    pub to: u32,
    /// All executed batches.
    pub batches: u64,
    /// Those smaller than any that was measured.
    pub below: u64,
    /// Those larger.
    pub above: u64,
    /// All executed cells.
    pub cells: u64,
    /// Those in batches of sizes beyond the measured ones.
    pub cells_beyond: u64,
}

impl Extrapolation {
    /// Counts how often batches of each size were executed (`counts[size]`), or gives nothing if all sizes lie within
    /// the measured ones.
    pub fn of(cell: &str, measured: &RangeInclusive<u32>, counts: &[u64]) -> Option<Extrapolation> {
        let (from, to) = (*measured.start(), *measured.end());
        let mut sum = Extrapolation { cell: cell.to_string(), from, to, ..Extrapolation::default() };
        for (size, count) in counts.iter().enumerate() {
            let cells = size as u64 * count;
            sum.batches += count;
            sum.cells += cells;
            if !measured.contains(&(size as u32)) {
                sum.cells_beyond += cells;
                *(if (size as u32) < from { &mut sum.below } else { &mut sum.above }) += count;
            }
        }
        (sum.below + sum.above > 0).then_some(sum)
    }

    /// Adds the executions of another run on the same costs.
    pub fn add(&mut self, other: &Extrapolation) {
        self.batches += other.batches;
        self.below += other.below;
        self.above += other.above;
        self.cells += other.cells;
        self.cells_beyond += other.cells_beyond;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_measured_ones_are_counted() {
        let counts = [0, 7, 10, 0, 2, 1];
        assert_eq!(Extrapolation::of("lstm", &(1..=5), &counts), None);
        let found = Extrapolation::of("lstm", &(2..=4), &counts).unwrap();
        assert_eq!((found.batches, found.below, found.above), (20, 7, 1));
        assert_eq!((found.cells, found.cells_beyond), (40, 12));
        let mut twice = found.clone();
        twice.add(&found);
        assert_eq!((twice.batches, twice.cells_beyond, twice.to), (40, 24, 4));
    }
}
