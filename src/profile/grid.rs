//! The batch sizes that are measured unless others are asked for.

use crate::experiment::target::Processor;
use crate::workload::model::Model;

/// On the CPU the product's kernel takes six rows at a time, so that a step's time climbs in stairs: up to 24 every size is
/// measured, up to 64 both sides of each step, and above a step is a few percent.
const CPU: [u32; 53] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27, 30, 31, 33, 36, 37,
    39, 42, 43, 48, 49, 54, 55, 60, 61, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512,
];

/// On a GPU the library takes tiles of 16 to 256 rows and chooses among them by the size, so that times jump behind multiples
/// of these: both sides of each jump are measured, and enough between them for those whose place nobody knows.
const CUDA: [u32; 62] = [
    1, 2, 3, 4, 6, 8, 9, 12, 14, 16, 17, 20, 24, 28, 32, 33, 36, 40, 44, 48, 49, 56, 60, 64, 65, 72, 80, 88, 96, 97,
    104, 112, 120, 128, 129, 144, 160, 161, 176, 192, 193, 208, 224, 225, 240, 256, 257, 272, 288, 304, 320, 321, 352,
    384, 385, 416, 448, 449, 464, 480, 496, 512,
];

/// A query of a network that a file lists has many rows, so that times are nearly straight lines from a few queries on, and a batch takes
/// seconds.
const LISTED: [u32; 5] = [1, 2, 4, 8, 16];

/// The batch sizes for a device, ascending.
pub fn batches(processor: Processor) -> &'static [u32] {
    match processor {
        Processor::Cpu => &CPU,
        Processor::Cuda => &CUDA,
    }
}

/// Those for some models on it.
pub fn batches_of<'a>(processor: Processor, mut models: impl Iterator<Item = &'a Model>) -> &'static [u32] {
    if models.any(|model| model.network().is_some()) { &LISTED } else { batches(processor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_to_the_largest_batch_of_policies() {
        for processor in [Processor::Cpu, Processor::Cuda] {
            let batches = batches(processor);
            assert!(batches.is_sorted_by(|a, b| a < b), "{batches:?}");
            assert_eq!((batches.first(), batches.last()), (Some(&1), Some(&512)));
        }
    }
}
