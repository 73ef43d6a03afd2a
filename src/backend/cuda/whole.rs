//! Tasks of whole requests: all of their launches are queued at once, and a signal behind the last.

use super::Cuda;
use super::device::{Device, Fault};
use super::queued::{Queued, Size};
use super::streams::{InFlight, Migrated, StreamKey};
use crate::task::{MemberList, Step};
use crate::units::{CellId, RequestId};

impl<D: Device> Cuda<'_, D> {
    /// Queues all nodes of the task's requests. Those that the steps don't reach make their requests fail.
    pub(super) fn queue_whole(&mut self, id: StreamKey, steps: &[Step], in_flight: &mut InFlight) -> Result<(), Fault> {
        let InFlight { members: MemberList::Requests(requests), ends, migrated, .. } = in_flight else { return Ok(()) };
        self.streams.clear_rows(id);
        self.queued.list.begin(requests, self.states.graphs());
        let cells = self.cells.len();
        for step in steps.iter().filter(|step| step.batch > 0 && step.cell.index() < cells) {
            for _ in 0..step.times {
                self.queue_step(id, step, ends, migrated)?;
            }
        }
        for cell in 0..self.cells.len() as u16 {
            self.dismiss(id, CellId(cell));
        }
        requests.iter().for_each(|request| self.states.expect_done(*request));
        self.streams.clear_rows(id);
        self.fetch_and_signal(id)
    }

    /// Queues one run of a step. Rows stay in place as long as nobody is ready to join them; those that have ended run on as
    /// padding while the step is as large as before.
    fn queue_step(
        &mut self,
        id: StreamKey,
        step: &Step,
        ends: &mut Vec<RequestId>,
        migrated: &mut Migrated,
    ) -> Result<(), Fault> {
        let size = Size::of(step, false);
        let rows = self.streams.rows(id, size.cell);
        let stay = rows.shape().filter(|shape| shape.rows == size.rows && self.queued.list.is_empty(size.cell));
        let plan = if let Some(plan) = stay.and_then(|shape| self.plans.find(shape)) {
            rows.go_on();
            self.queued.dropped.clear();
            plan
        } else {
            self.dismiss(id, size.cell);
            let mut nodes = std::mem::take(&mut self.queued.nodes);
            nodes.clear();
            self.queued.list.take(size.cell, size.rows as usize, &mut nodes);
            let launch = self.next_launch(id);
            self.take(id, size.cell, &launch, &nodes);
            self.queued.nodes = nodes;
            self.gather(id, size, migrated)?
        };
        self.device.launch(plan)?;
        self.states.vacate(&mut self.queued.batch);
        self.drop_ended(id, size.cell, ends);
        // The next operator of a network that a file lists writes to the slot that is fetched.
        self.fetch(id)
    }

    /// Makes the rows that have come to their last node padding, and lets what waits for them run.
    fn drop_ended(&mut self, id: StreamKey, cell: CellId, ends: &mut Vec<RequestId>) {
        let launch = self.last_launch(id);
        let Cuda { states, streams, queued, .. } = self;
        streams.rows(id, cell).drop_ended(|row| {
            states.advance(row.at(), &launch);
            queued.note_last(row, states, ends);
            queued.list.ran(row.at(), states.graphs());
        });
        // A node that has no row holds nobody up: what waits for it has none either.
        let Queued { dropped, list, .. } = queued;
        for at in dropped.drain(..) {
            list.ran(at, states.graphs());
        }
    }

    /// Takes all rows of a cell type apart, and lets what follows them run.
    fn dismiss(&mut self, id: StreamKey, cell: CellId) {
        let launch = self.last_launch(id);
        let Cuda { states, streams, queued, .. } = self;
        let rows = streams.rows(id, cell);
        for row in rows.members() {
            states.advance(row.at(), &launch);
            queued.list.ran(row.at(), states.graphs());
        }
        rows.clear();
    }
}
