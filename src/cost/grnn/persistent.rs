use super::{Cell, Device, Launches, Space, Times};
use crate::cost::curve::Best;
use crate::error::{Error, Result};
use crate::units::Nanos;

/// The times of a cell's persistent kernels, for the simulator.
#[derive(Clone, Debug)]
pub struct Persistent {
    launches: Launches,
    launch: Nanos,
    /// A step of the kernel for each batch, from 1 on.
    steps: Vec<Nanos>,
}

impl Persistent {
    /// Finds the best kernels of a cell.
    ///
    /// # Errors
    /// The device file has no table `[grnn.time]`; the weights do not fit the registers.
    pub fn new(cell: Cell, hidden: u32, device: &Device) -> Result<Persistent> {
        let name = &device.name;
        let times: &Times = device.constants.time.as_ref().ok_or_else(|| {
            Error::input(format!(
                "no table [grnn.time] for the {name}, so that there is no telling how long its persistent kernels take; \
                 scenarios/devices/titan-v.toml has one; of another GPU batchlab profile --grnn measures rows for the cost table"
            ))
        })?;
        let launches = Launches::new(cell, hidden, device, &Space::default());
        launches.check(cell, hidden, name)?;
        let largest = launches.largest().unwrap_or(0);
        let step = |batch| launches.of(batch).map(|(_, best)| times.step(best.rnn, best.cost.total())).sum();
        Ok(Persistent { launch: times.launch, steps: (1..=largest).map(step).collect(), launches })
    }

    /// The time of `steps` steps of a batch, in one launch or, beyond the largest kernel, in several.
    pub fn runs(&self, batch: u32, steps: u32) -> Nanos {
        let sizes = self.launches.sizes(batch);
        let each =
            sizes.map(|size| self.launch.saturating_add(self.steps[size as usize - 1].saturating_mul(steps.into())));
        each.fold(Nanos::ZERO, Nanos::saturating_add)
    }

    /// The least time of a step in batches up to `largest`, without launches.
    pub fn best(&self, largest: u32) -> Best {
        let of = |(batch, time): (u32, &Nanos)| Best { time: *time, share_ns: time.0 as f64 / f64::from(batch) };
        let batches = (1..=largest.max(1)).zip(&self.steps);
        batches.map(of).reduce(Best::or).expect("there is a kernel for some batch")
    }
}
