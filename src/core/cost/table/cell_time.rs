//! The time of one step of a cell, from the source that has it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::base::units::Nanos;
use crate::core::cost::curve::{Best, Curve, interpolate};
use crate::core::cost::decoder::DecoderRoofline;
use crate::core::cost::persistent::PersistentKernels;
use crate::core::cost::roofline::RooflineKernels;
use crate::core::task::Step;

/// The source of a cell's times: rows of the table, or a computation for a cell without rows.
#[derive(Clone, Debug)]
pub enum CellTime {
    /// Rows by batch and input. A smaller input is padded to the next measured size.
    Rows(CurvesByInput),
    /// Rows by the tokens fed (batch) and the context read (input). Times are interpolated between contexts.
    Grid(CurvesByInput),
    /// The kernels of a cell by the roofline.
    Computed(Arc<RooflineKernels>),
    /// A launch of persistent kernels, for the single steps of a cell that has no other times.
    Persistent(Arc<PersistentKernels>),
    /// The iterations of a language model by the roofline.
    Decoder(Arc<DecoderRoofline>),
}

impl CellTime {
    pub fn time(&self, step: &Step) -> Nanos {
        match self {
            CellTime::Rows(rows) => rows.padded_curve(step.input).time(step.batch),
            CellTime::Grid(rows) => rows.interpolate(step.batch, step.input),
            CellTime::Computed(kernels) => kernels.time(step.batch, step.input),
            CellTime::Persistent(kernels) => kernels.runs(step.batch, 1),
            CellTime::Decoder(decoder) => decoder.iteration(step.batch, step.input),
        }
    }

    /// The [preferred batch](crate::core::cost::curve::preferred_batch).
    pub fn preferred_batch(&self, input: u32) -> u32 {
        match self {
            CellTime::Rows(rows) => rows.padded_curve(input).preferred_batch(),
            CellTime::Computed(kernels) => kernels.preferred_batch(input),
            CellTime::Persistent(kernels) => kernels.preferred_batch(),
            CellTime::Grid(_) | CellTime::Decoder(_) => 1,
        }
    }

    /// The least times for inputs from `input` on, in batches up to `largest` and the largest measured one.
    pub fn best(&self, input: u32, largest: u32) -> Best {
        match self {
            CellTime::Rows(rows) | CellTime::Grid(rows) => rows.best(input, largest),
            CellTime::Computed(kernels) => kernels.best(input, largest),
            CellTime::Persistent(kernels) => kernels.best(largest),
            CellTime::Decoder(decoder) => Best::new(1, decoder.iteration(1, 1)),
        }
    }

    /// The batches with measured times; a computed time has no limits.
    pub fn measured_batches(&self) -> RangeInclusive<u32> {
        match self {
            CellTime::Rows(rows) | CellTime::Grid(rows) => rows.measured_batches(),
            CellTime::Computed(_) | CellTime::Decoder(_) => 1..=u32::MAX,
            CellTime::Persistent(kernels) => kernels.measured_batches(),
        }
    }
}

/// The rows of one name: a curve by batch size for each input size, ascending. Rows without input sizes have one curve
/// at 0.
#[derive(Clone, Debug)]
pub struct CurvesByInput {
    pub curves: Vec<(u32, Curve)>,
}

impl CurvesByInput {
    /// The place of the smallest size that holds the input, or else of the largest.
    fn place(&self, input: u32) -> usize {
        let fitting = self.curves.partition_point(|(size, _)| *size < input);
        fitting.min(self.curves.len() - 1)
    }

    /// The curve of the size to which an input is padded.
    pub fn padded_curve(&self, input: u32) -> &Curve {
        &self.curves[self.place(input)].1
    }

    /// The value of a step's rows, without extrapolation: a larger batch or input has that of the largest one.
    pub fn clamped_value(&self, step: &Step) -> u32 {
        let curve = self.padded_curve(step.input);
        curve
            .time(step.batch.min(*curve.measured_batches().end()))
            .0 as u32
    }

    /// The time on the line between the two next inputs, or of the last two beyond them; flat below the first, and
    /// rounded half up.
    fn interpolate(&self, batch: u32, input: u32) -> Nanos {
        let after = self.place(input).max(1);
        let points = [&self.curves[after - 1], &self.curves[after]];
        interpolate(
            points.map(|(input, curve)| (*input, curve.time(batch).0)),
            input.max(points[0].0),
        )
    }

    fn best(&self, input: u32, largest: u32) -> Best {
        let larger_inputs = &self.curves[self.place(input)..];
        larger_inputs
            .iter()
            .map(|(_, curve)| curve.best(largest))
            .reduce(Best::or)
            .expect("a cell has a curve")
    }

    /// The batches that were measured at every input size.
    fn measured_batches(&self) -> RangeInclusive<u32> {
        let mut smallest = 0;
        let mut largest = u32::MAX;
        for (_, curve) in &self.curves {
            let batches = curve.measured_batches();
            smallest = smallest.max(*batches.start());
            largest = largest.min(*batches.end());
        }
        smallest..=largest
    }
}
