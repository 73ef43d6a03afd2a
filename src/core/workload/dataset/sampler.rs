//! Draws from a table of shapes with weights.

use std::mem;
use std::sync::Arc;

use rand_distr::{Distribution, Uniform};

use super::Shapes;
use crate::core::workload::random::RandomSequence;
use crate::core::workload::shape::Shape;

/// Draws shapes, with replacement.
#[derive(Debug)]
pub struct Sampler<'a> {
    shapes: &'a Shapes,
    /// The range of draws, up to the sum of the weights.
    range: Uniform<f64>,
    /// The sum of the weights up to each row; that of the last row is infinite.
    ends: Vec<f64>,
    /// The first row that ends in each of some equal parts of the range or later, so that a draw looks at few rows.
    first_rows: Vec<u32>,
    /// The number of parts for a weight of 1.
    parts: f64,
}

impl<'a> Sampler<'a> {
    /// A sampler of the shapes; `None` if the weights do not add up to a finite number above 0.
    pub(super) fn new(
        shapes: &'a Shapes,
        weights: impl Iterator<Item = f64>,
    ) -> Option<Sampler<'a>> {
        let ends = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let mut ends: Vec<f64> = ends.collect();
        // The last row takes what rounding adds.
        let total = mem::replace(ends.last_mut()?, f64::INFINITY);
        let range = Uniform::new(0.0, total).ok()?;
        let parts = 2 * ends.len();
        let mut sampler = Sampler {
            shapes,
            range,
            parts: parts as f64 / total,
            ends,
            first_rows: Vec::new(),
        };
        let mut first_rows = Vec::with_capacity(parts + 1);
        let mut row = 0;
        for part in 0..=parts {
            // Parts ascend, and the last row ends in the last part.
            while sampler.part(sampler.ends[row]) < part {
                row += 1;
            }
            first_rows.push(row as u32);
        }
        sampler.first_rows = first_rows;
        Some(sampler)
    }

    /// The part that contains a place of the range. It does not fall as `at` grows.
    #[inline]
    fn part(&self, at: f64) -> usize {
        ((at * self.parts) as u32 as usize).min(2 * self.ends.len())
    }

    /// The shapes with their weights, if they are those of a table.
    pub fn table(&self) -> Option<&'a [(Shape, f64)]> {
        match self.shapes {
            Shapes::Table(rows) => Some(rows),
            Shapes::Treebank { .. } => None,
        }
    }

    /// Draws a row of the weights.
    #[inline]
    pub fn draw_row(&self, rng: &mut RandomSequence) -> usize {
        let at = self.range.sample(rng);
        let mut row = self.first_rows[self.part(at)] as usize;
        // At most one row ends in most parts, so this sum leaves few branches that the processor guesses wrong.
        row += usize::from(self.ends[row] <= at);
        while self.ends[row] <= at {
            row += 1;
        }
        row
    }

    #[inline]
    pub fn draw(&self, rng: &mut RandomSequence) -> Shape {
        let row = self.draw_row(rng);
        match self.shapes {
            Shapes::Table(rows) => rows[row].0.clone(),
            Shapes::Treebank { leaves, trees } => {
                Shape::Tree(Arc::new(trees.tree(leaves[row].0, rng)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use rand_distr::weighted::WeightedIndex;

    use super::*;
    use crate::core::workload::random;

    #[test]
    fn a_sampler_draws_as_rand_does() {
        let mut rng = random::sequence(1, 0, "weights");
        let huge = [1e-300, 0.0, 1.0, 1e300];
        for case in 0..300 {
            let mut weight =
                || f64::from(rng.random_range(0..4u32)) * 10f64.powi(rng.random_range(-3..4));
            let some: Vec<f64> = (0..case % 40).map(|_| weight()).collect();
            let weights = match case {
                0 => &huge[..],
                1 => &[5e-324],
                2 => &[0.0, 0.0],
                3 => &[1e308, 1e308],
                _ => &some,
            };
            let rows = Shapes::Table(
                (1..)
                    .map(Shape::Chain)
                    .zip(weights.iter().copied())
                    .collect(),
            );
            let (ours, theirs) = (
                Sampler::new(&rows, weights.iter().copied()),
                WeightedIndex::new(weights),
            );
            assert_eq!(ours.is_some(), theirs.is_ok(), "{weights:?}");
            let (Some(ours), Ok(theirs)) = (ours, theirs) else {
                continue;
            };
            let [mut one, mut other] = [(); 2].map(|()| random::sequence(case, 0, "shapes"));
            for _ in 0..200 {
                let row = theirs.sample(&mut other) as u32;
                assert_eq!(ours.draw(&mut one), Shape::Chain(row + 1), "{weights:?}");
            }
        }
    }
}
