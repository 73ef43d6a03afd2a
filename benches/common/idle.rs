//! A device that does nothing at once: what remains is the host's part.

use batchlab::cuda::device::{
    Batch, Device, Event, Fault, HostPlace, Needs, Plan, Shape, Slot, Stream,
};
use batchlab::units::WorkerId;

/// Counts signals, and nothing else. It has one stream.
#[derive(Debug, Default)]
pub struct Idle {
    signals: u64,
    shapes: Vec<Shape>,
}

impl Device for Idle {
    fn give_up(&mut self, _: WorkerId, _: &str) {}

    fn begin(&mut self, workers: usize, _: &Needs) -> Result<Vec<u32>, Fault> {
        self.signals = 0;
        Ok(vec![u32::MAX; workers])
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

    fn signal(&mut self, _: Stream) -> Result<(), Fault> {
        self.signals += 1;
        Ok(())
    }

    fn signalled(&self, _: Stream) -> u64 {
        self.signals
    }

    fn record(&mut self, stream: Stream) -> Result<Event, Fault> {
        Ok(Event { stream, number: 0 })
    }

    fn wait(&mut self, _: Stream, _: Event) -> Result<(), Fault> {
        Ok(())
    }

    fn copy_peer(&mut self, _: (WorkerId, Slot), _: (Stream, Slot)) -> Result<(), Fault> {
        Ok(())
    }

    fn copy_to_host(&mut self, _: Stream, _: Slot, _: HostPlace) -> Result<(), Fault> {
        Ok(())
    }

    fn fetched(&self, _: HostPlace) -> &[f32] {
        &[]
    }

    fn word(&self, _: u32) -> u32 {
        0
    }

    fn take_non_finite(&mut self, _: WorkerId, _: Slot) -> bool {
        false
    }

    fn health(&mut self, _: WorkerId) -> Result<(), Fault> {
        Ok(())
    }
}
