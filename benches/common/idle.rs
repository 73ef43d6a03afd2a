//! A device that does nothing at once: what remains is the host's part.

use batchlab::backend::cuda::device::{Batch, Device, Fault, HostPlace, Lane, Mark, Needs, Plan, Shape, Slot};
use batchlab::units::WorkerId;

/// Counts signals, and nothing else. It has one lane.
#[derive(Debug, Default)]
pub struct Idle {
    signals: u64,
    shapes: Vec<Shape>,
}

impl Device for Idle {
    fn begin(&mut self, _: usize, _: &Needs) -> Result<(), Fault> {
        self.signals = 0;
        Ok(())
    }

    fn slots(&self, _: WorkerId) -> u32 {
        u32::MAX
    }

    fn most_steps(&self, _: u32) -> u32 {
        0
    }

    fn prepare(&mut self, shape: Shape) -> Result<Plan, Fault> {
        self.shapes.push(shape);
        Ok(Plan(self.shapes.len() as u32 - 1))
    }

    fn release(&mut self, _: Plan) {}

    fn gather(&mut self, _: Plan, _: &Batch<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn launch(&mut self, plan: Plan) -> Result<(), Fault> {
        self.signals += u64::from(self.shapes[plan.0 as usize].signals);
        Ok(())
    }

    fn signal(&mut self, _: Lane) -> Result<(), Fault> {
        self.signals += 1;
        Ok(())
    }

    fn signalled(&self, _: Lane) -> u64 {
        self.signals
    }

    fn mark(&mut self, lane: Lane) -> Result<Mark, Fault> {
        Ok(Mark { lane, number: 0 })
    }

    fn wait(&mut self, _: Lane, _: Mark) -> Result<(), Fault> {
        Ok(())
    }

    fn carry(&mut self, _: (WorkerId, Slot), _: (Lane, Slot)) -> Result<(), Fault> {
        Ok(())
    }

    fn fetch(&mut self, _: Lane, _: Slot, _: HostPlace) -> Result<(), Fault> {
        Ok(())
    }

    fn fetched(&self, _: HostPlace) -> &[f32] {
        &[]
    }

    fn word(&self, _: u32) -> u32 {
        0
    }

    fn broken(&mut self, _: WorkerId, _: Slot) -> bool {
        false
    }

    fn health(&mut self, _: WorkerId) -> Result<(), Fault> {
        Ok(())
    }
}
