//! What launches of persistent kernels take, each of which runs several steps of a cell: as they were measured, or as GRNN's model has them.

use std::ops::RangeInclusive;

use super::curve::{Best, Curve};
use super::grnn;
use super::preferred::preferred;
use crate::units::Nanos;

/// Where the times of a cell's persistent kernels are from.
#[derive(Clone, Debug)]
pub enum Persistent {
    /// Rows of a cost table. A batch that is larger than that of any kernel, and so is launched in pieces, was measured in one.
    Measured {
        /// A step inside of a launch.
        step: Curve,
        /// What a launch takes beside its steps. That states come together and go back is part of it, since each launch does both.
        launch: Curve,
    },
    /// The device's file. Nothing is known of states there, so that tasks pay for them as others do.
    Modelled(grnn::Persistent),
}

impl Persistent {
    /// The time of so many steps of a batch.
    pub fn runs(&self, batch: u32, steps: u32) -> Nanos {
        match self {
            Persistent::Measured { step, launch } => {
                launch.at(batch).saturating_add(step.at(batch).saturating_mul(steps.into()))
            }
            Persistent::Modelled(kernels) => kernels.runs(batch, steps),
        }
    }

    /// Whether that states come together and go back is part of these times.
    pub fn moves_states(&self) -> bool {
        matches!(self, Persistent::Measured { .. })
    }

    /// The batch that fills the device where a launch is a step alone.
    pub fn preferred(&self) -> u32 {
        preferred(|batch| self.runs(batch, 1))
    }

    /// The least that a step takes in batches of up to so many, and of up to the largest that was measured; launches apart.
    pub fn best(&self, largest: u32) -> Best {
        match self {
            Persistent::Measured { step, .. } => step.best(largest),
            Persistent::Modelled(kernels) => kernels.best(largest),
        }
    }

    /// The batches for which the times are not extrapolated.
    pub fn measured(&self) -> RangeInclusive<u32> {
        match self {
            Persistent::Measured { step, launch } => {
                let (one, other) = (step.measured(), launch.measured());
                *one.start().max(other.start())..=*one.end().min(other.end())
            }
            Persistent::Modelled(_) => 1..=u32::MAX,
        }
    }
}
