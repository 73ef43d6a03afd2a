//! The plans: prepared ahead or when first needed, and dropped when there are too many.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::device::{BatchShape, Device, DeviceFault, PlanId};

/// The number of plans that are held in addition to those that were prepared ahead.
pub const ROOM: usize = 1024;

/// The same number for plans that are not captured, of which there are more. A listed network has a plan for
/// each operator, batch and length; a persistent kernel has one for each batch and number of steps.
pub const ROOM_UNCAPTURED: usize = 1 << 15;

/// The plans of a run.
#[derive(Debug)]
pub struct Plans {
    ready: HashMap<BatchShape, ReadyPlan>,
    /// The most plans that are held in addition to those prepared ahead.
    room: usize,
    /// The number of plans that were not prepared ahead.
    met: usize,
    /// Counts the uses of plans.
    clock: u64,
}

#[derive(Debug)]
struct ReadyPlan {
    plan: PlanId,
    /// The clock at the last use.
    used: u64,
    /// Whether it was prepared ahead and so is never dropped.
    is_ahead: bool,
}

impl Plans {
    pub fn new(room: usize) -> Plans {
        Plans {
            ready: HashMap::new(),
            room,
            met: 0,
            clock: 0,
        }
    }

    /// Prepares a plan that is held to the end of the run.
    pub fn prepare_ahead(
        &mut self,
        shape: BatchShape,
        device: &mut impl Device,
    ) -> Result<(), DeviceFault> {
        if let Entry::Vacant(place) = self.ready.entry(shape) {
            let plan = device.prepare(shape)?;
            place.insert(ReadyPlan {
                plan,
                used: 0,
                is_ahead: true,
            });
        }
        Ok(())
    }

    /// The plan for a shape, if it is prepared.
    pub fn find(&mut self, shape: BatchShape) -> Option<PlanId> {
        self.clock += 1;
        let ready = self.ready.get_mut(&shape)?;
        ready.used = self.clock;
        Some(ready.plan)
    }

    /// The plan for a shape, which is prepared if necessary. If there is no room, the least recently used plans are
    /// dropped; if memory is short, all plans that were not prepared ahead.
    pub fn get(
        &mut self,
        shape: BatchShape,
        device: &mut impl Device,
    ) -> Result<PlanId, DeviceFault> {
        if let Some(plan) = self.find(shape) {
            return Ok(plan);
        }
        if self.met == self.room {
            self.release_oldest(device);
        }
        let plan = device.prepare(shape).or_else(|fault| {
            if fault.lost || self.met == 0 {
                return Err(fault);
            }
            self.release_met(device);
            device.prepare(shape)
        })?;
        self.met += 1;
        self.ready.insert(
            shape,
            ReadyPlan {
                plan,
                used: self.clock,
                is_ahead: false,
            },
        );
        Ok(plan)
    }

    /// Drops all plans that were not prepared ahead.
    pub fn release_met(&mut self, device: &mut impl Device) {
        self.release_if(device, |ready| !ready.is_ahead);
    }

    /// Drops an eighth of the plans that were not prepared ahead, but at least one. It drops many at once, because
    /// finding the oldest takes time in proportion to their number.
    fn release_oldest(&mut self, device: &mut impl Device) {
        // No two plans were last used at the same time, so the map's order does not matter.
        let mut uses: Vec<u64> = self
            .ready
            .values()
            .filter(|ready| !ready.is_ahead)
            .map(|ready| ready.used)
            .collect();
        if !uses.is_empty() {
            let (_, last, _) = uses.select_nth_unstable((self.met / 8).saturating_sub(1));
            let last = *last;
            self.release_if(device, |ready| !ready.is_ahead && ready.used <= last);
        }
    }

    fn release_if(&mut self, device: &mut impl Device, is_dropped: impl Fn(&ReadyPlan) -> bool) {
        self.ready.retain(|_, ready| {
            let is_dropped = is_dropped(ready);
            if is_dropped {
                device.release(ready.plan);
                self.met -= 1;
            }
            !is_dropped
        });
    }
}

/// The number of inputs, rounded up to 1, 1.5, 2, 3, 4, 6, … times the batch. Products over input states have this
/// number of rows. Without rounding, nearly every batch would need a plan of its own; most nodes have one or two
/// children.
pub fn round_inputs(inputs: u32, rows: u32) -> u32 {
    let rows = u64::from(rows.max(1));
    let doubled = (0..32).map(|power| rows << power);
    let steps = doubled.flat_map(|step| [step, (3 * step).div_ceil(2)]);
    let fits = steps
        .map(|step| step.min(u64::from(u32::MAX)) as u32)
        .find(|step| *step >= inputs);
    fits.unwrap_or(inputs)
}

#[cfg(test)]
mod tests {
    use super::round_inputs;

    #[test]
    fn inputs_are_rounded_up_in_steps_of_the_batch() {
        for (inputs, rows, expected) in [
            (0, 4, 4),
            (4, 4, 4),
            (5, 4, 6),
            (7, 4, 8),
            (8, 4, 8),
            (9, 4, 12),
            (3, 1, 3),
            (4, 1, 4),
            (5, 1, 6),
            (7, 5, 8),
        ] {
            assert_eq!(
                round_inputs(inputs, rows),
                expected,
                "{inputs} inputs of {rows} rows"
            );
        }
        assert_eq!(round_inputs(u32::MAX, 3), u32::MAX);
    }
}
