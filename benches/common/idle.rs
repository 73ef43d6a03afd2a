//! A device that does nothing at once: what remains is the host's part.

use batchlab::cuda::device::{
    BatchShape, Device, DeviceBatch, DeviceFault, DeviceStream, Event, HostPlace, MemoryNeeds,
    PlanId, RowUpdate, StateSlot,
};
use batchlab::units::WorkerId;

/// Counts signals, and nothing else. It has one stream.
#[derive(Debug, Default)]
pub struct Idle {
    signals: u64,
    shapes: Vec<BatchShape>,
}

impl Device for Idle {
    fn give_up(&mut self, _: WorkerId, _: &str) {}

    fn begin(&mut self, workers: usize, _: &MemoryNeeds) -> Result<Vec<u32>, DeviceFault> {
        self.signals = 0;
        Ok(vec![u32::MAX; workers])
    }

    fn most_steps(&self, _: u32) -> u32 {
        0
    }

    fn prepare(&mut self, shape: BatchShape) -> Result<PlanId, DeviceFault> {
        self.shapes.push(shape);
        Ok(PlanId(self.shapes.len() as u32 - 1))
    }

    fn release(&mut self, _: PlanId) {}

    fn gather(&mut self, _: PlanId, _: &DeviceBatch<'_>) -> Result<(), DeviceFault> {
        Ok(())
    }

    fn launch(&mut self, plan: PlanId) -> Result<(), DeviceFault> {
        self.signals += u64::from(self.shapes[plan.0 as usize].signals);
        Ok(())
    }

    fn launch_changed(&mut self, plan: PlanId, _: &[RowUpdate]) -> Result<(), DeviceFault> {
        self.launch(plan)
    }

    fn signal(&mut self, _: DeviceStream) -> Result<(), DeviceFault> {
        self.signals += 1;
        Ok(())
    }

    fn signal_count(&self, _: DeviceStream) -> u64 {
        self.signals
    }

    fn record(&mut self, stream: DeviceStream) -> Result<Event, DeviceFault> {
        Ok(Event { stream, number: 0 })
    }

    fn wait(&mut self, _: DeviceStream, _: Event) -> Result<(), DeviceFault> {
        Ok(())
    }

    fn copy_peer(
        &mut self,
        _: (WorkerId, StateSlot),
        _: (DeviceStream, StateSlot),
    ) -> Result<(), DeviceFault> {
        Ok(())
    }

    fn copy_to_host(
        &mut self,
        _: DeviceStream,
        _: StateSlot,
        _: HostPlace,
    ) -> Result<(), DeviceFault> {
        Ok(())
    }

    fn fetched_state(&self, _: HostPlace) -> &[f32] {
        &[]
    }

    fn word(&self, _: u32) -> u32 {
        0
    }

    fn take_non_finite(&mut self, _: WorkerId, _: StateSlot) -> bool {
        false
    }

    fn health(&mut self, _: WorkerId) -> Result<(), DeviceFault> {
        Ok(())
    }
}
