//! The calls of the host.

use std::cell::OnceCell;

use rand::RngExt as _;

use super::slots::Clock;
use super::{Fake, Operation};
use crate::base::units::WorkerId;
use crate::devices::cuda::device::{
    BatchShape, Device, DeviceBatch, DeviceFault, DeviceStream, Event, HostPlace, MOST_CHANGES,
    MemoryNeeds, PlanId, RowUpdate, StateSlot,
};

impl Device for Fake {
    fn begin(&mut self, workers: usize, needs: &MemoryNeeds) -> Result<Vec<u32>, DeviceFault> {
        let engine = self.engine.get_mut();
        engine.queues.clear();
        engine.host = Clock::default();
        engine.places.clear();
        engine.tables.clear();
        engine.events.clear();
        engine.words = vec![None; needs.words as usize];
        self.fetched = (0..needs.fetched).map(|_| OnceCell::new()).collect();
        Ok(vec![self.slots; workers])
    }

    fn most_steps(&self, _: u32) -> u32 {
        self.most_steps
    }

    fn prepare(&mut self, shape: BatchShape) -> Result<PlanId, DeviceFault> {
        if let Some(ready) = self.plans.iter().position(|plan| *plan == Some(shape)) {
            return Ok(PlanId(ready as u32));
        }
        self.prepared += 1;
        if self
            .trouble
            .prepare
            .is_some_and(|(from, held)| self.prepared >= from && self.plans() >= held)
        {
            return Err(DeviceFault {
                reason: "out of memory".into(),
                lost: false,
            });
        }
        self.plans.push(Some(shape));
        self.most_plans = self.most_plans.max(self.plans());
        Ok(PlanId(self.plans.len() as u32 - 1))
    }

    fn release(&mut self, plan: PlanId) {
        self.plans[plan.0 as usize]
            .take()
            .expect("a plan is given up once");
    }

    fn gather(&mut self, plan: PlanId, batch: &DeviceBatch<'_>) -> Result<(), DeviceFault> {
        let shape = self.shape(plan);
        assert!(
            batch.rows.len() <= shape.rows as usize,
            "the rows fit the plan"
        );
        assert!(
            shape.inputs == 0 || batch.inputs.len() <= shape.inputs as usize,
            "the inputs fit the plan"
        );
        self.push(
            shape.stream,
            Operation::Gather(shape, batch.rows.to_vec(), batch.inputs.to_vec()),
        )
    }

    fn launch(&mut self, plan: PlanId) -> Result<(), DeviceFault> {
        self.launches += 1;
        if self.trouble.launch == Some(self.launches) {
            return Err(DeviceFault {
                reason: "too many resources".into(),
                lost: false,
            });
        }
        let shape = self.shape(plan);
        self.push(shape.stream, Operation::Launch(shape))
    }

    fn launch_changed(&mut self, plan: PlanId, changes: &[RowUpdate]) -> Result<(), DeviceFault> {
        let shape = self.shape(plan);
        assert!(
            changes.len() <= MOST_CHANGES && changes.iter().all(|change| change.at < shape.rows),
            "the changes fit the plan"
        );
        self.push(shape.stream, Operation::Change(shape, changes.to_vec()))?;
        self.launch(plan)
    }

    fn signal(&mut self, stream: DeviceStream) -> Result<(), DeviceFault> {
        self.push(stream, Operation::Signal)
    }

    fn signal_count(&self, stream: DeviceStream) -> u64 {
        let mut engine = self.engine.borrow_mut();
        for _ in 0..engine.rng.random_range(0..4) {
            self.run_one(&mut engine);
        }
        let Some(queue) = engine.queues.iter().find(|queue| queue.stream == stream) else {
            return 0;
        };
        let counted = queue.signals.len() as u64;
        let done = queue.signals.last().cloned();
        done.into_iter().for_each(|done| engine.host.join(&done));
        counted
    }

    fn record(&mut self, stream: DeviceStream) -> Result<Event, DeviceFault> {
        let engine = self.engine.get_mut();
        let at = engine.place_of(stream);
        engine.queues[at].events += 1;
        let number = engine.queues[at].events;
        self.push(stream, Operation::Record(number))?;
        Ok(Event { stream, number })
    }

    fn wait(&mut self, stream: DeviceStream, event: Event) -> Result<(), DeviceFault> {
        self.ask_other(event.stream.worker, stream)?;
        self.push(stream, Operation::Wait(event))
    }

    fn copy_peer(
        &mut self,
        from: (WorkerId, StateSlot),
        (stream, slot): (DeviceStream, StateSlot),
    ) -> Result<(), DeviceFault> {
        assert_ne!(
            from.0, stream.worker,
            "a state is migrated from another worker"
        );
        if let Err(fault) = self.ask_other(from.0, stream) {
            // Nothing is written to the slot, and its old contents are used.
            let state = vec![0.5; self.network.state()];
            self.engine
                .get_mut()
                .place(stream.worker, slot)
                .spoil(&state);
            return Err(fault);
        }
        self.push(stream, Operation::CopyPeer(from, slot))
    }

    fn copy_to_host(
        &mut self,
        stream: DeviceStream,
        slot: StateSlot,
        place: HostPlace,
    ) -> Result<(), DeviceFault> {
        self.push(stream, Operation::CopyToHost(slot, place))
    }

    fn fetched_state(&self, place: HostPlace) -> &[f32] {
        self.fetched[place.number as usize]
            .get()
            .expect("a state is read when it has been fetched")
    }

    fn word(&self, place: u32) -> u32 {
        self.engine.borrow().words[place as usize].expect("a word is read when it has been written")
    }

    fn take_non_finite(&mut self, worker: WorkerId, slot: StateSlot) -> bool {
        let mut engine = self.engine.borrow_mut();
        for queue in engine
            .queues
            .iter()
            .filter(|queue| !self.is_dead(&engine, queue.stream.worker))
        {
            let waiting = queue
                .operations
                .iter()
                .find(|(.., left)| left.uses(queue.stream.worker, (worker, slot)));
            assert!(
                waiting.is_none(),
                "{slot:?} of worker {worker} is asked about before {waiting:?} has run"
            );
        }
        let host = engine.host.clone();
        let place = engine.place(worker, slot);
        let known = place
            .writer
            .iter()
            .chain(&place.readers)
            .all(|other| host.knows(*other));
        assert!(
            known,
            "{slot:?} of worker {worker} is asked about while it may be in use"
        );
        place.disorderly = false;
        std::mem::take(&mut place.broken)
    }

    fn health(&mut self, worker: WorkerId) -> Result<(), DeviceFault> {
        if !self.trouble.hangs && self.is_dead(&self.engine.borrow(), worker) {
            self.give_up(worker, "");
            return Err(DeviceFault {
                reason: "it fell off the bus".into(),
                lost: true,
            });
        }
        Ok(())
    }

    fn give_up(&mut self, worker: WorkerId, _: &str) {
        let width = self.network.state();
        self.engine.get_mut().give_up(worker, width);
    }
}
