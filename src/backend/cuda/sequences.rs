//! Tasks of several steps on a device with persistent kernels: each step of a task, which is so many runs of the cell, is a launch over
//! the chains that are still in it, or a few where there are too many steps for one.

use super::Cuda;
use super::device::{Device, Fault};
use super::queued::Size;
use super::streams::{InFlight, Migrated, StreamKey};
use crate::backend::shared;
use crate::task::{MemberList, NodeRef, Part, Step};
use crate::units::{CellId, NodeId, RequestId};
use crate::workload::cell_graph::CellGraph;

impl<D: Device> Cuda<'_, D> {
    /// Whether a task runs in persistent kernels: there are such, it is one of whole requests or of parts, and its steps hold them in their
    /// order. Leaves its parts in [`Queued`](super::queued::Queued).
    pub(super) fn runs_sequences(&mut self, members: &MemberList, steps: &[Step]) -> bool {
        let graphs = self.states.graphs();
        let parts = &mut self.queued.parts;
        parts.clear();
        match members {
            MemberList::Nodes(_) => return false,
            _ if self.device.most_steps(1) == 0 => return false,
            MemberList::Parts(list) => parts.extend_from_slice(list),
            MemberList::Requests(requests) => parts.extend(requests.iter().map(|request| {
                let to = NodeId(graphs[request.index()].nodes() as u32);
                Part { request: *request, from: NodeId(0), to }
            })),
        }
        let Some(&Step { cell, .. }) = steps.first() else { return false };
        let mut from = 0;
        for step in steps {
            let rows = parts.iter().filter(|part| from < shared::part_length(part)).count();
            if step.cell != cell || rows > step.batch as usize {
                return false;
            }
            from += step.times as usize;
        }
        // Whole requests may be padded; the steps of parts are those of the longest.
        let longest = shared::longest_part(parts);
        let reach = if let MemberList::Parts(_) = members { longest == from } else { longest <= from };
        reach && parts.iter().all(|part| is_of_one_chain(part, cell, graphs))
    }

    /// Queues the steps of the task whose parts [`Cuda::runs_sequences`] has left.
    pub(super) fn queue_sequences(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        in_flight: &mut InFlight,
    ) -> Result<(), Fault> {
        let InFlight { ends, migrated, .. } = in_flight;
        let list = std::mem::take(&mut self.queued.parts);
        let queued = self.queue_steps(id, steps, &list, ends, migrated);
        self.queued.parts = list;
        self.streams.clear_rows(id);
        queued?;
        self.fetch_and_signal(id)
    }

    fn queue_steps(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        list: &[Part],
        ends: &mut Vec<RequestId>,
        migrated: &mut Migrated,
    ) -> Result<(), Fault> {
        let mut from = 0;
        for step in steps {
            let end = from + step.times;
            while from < end {
                let run = self.device.most_steps(step.batch).clamp(1, end - from);
                let size = Size { steps: run, ..Size::of(step, false) };
                self.queue_sequence(id, size, list, from, ends, migrated)?;
                from += run;
            }
        }
        Ok(())
    }

    /// Queues one launch: of each part what follows on so many of its nodes.
    fn queue_sequence(
        &mut self,
        id: StreamKey,
        size: Size,
        list: &[Part],
        from: u32,
        ends: &mut Vec<RequestId>,
        migrated: &mut Migrated,
    ) -> Result<(), Fault> {
        let mut nodes = std::mem::take(&mut self.queued.nodes);
        nodes.clear();
        let there = list.iter().filter(|part| (from as usize) < shared::part_length(part));
        nodes.extend(there.map(|part| NodeRef { request: part.request, node: NodeId(part.from.0 + from) }));
        let launch = self.next_launch(id);
        self.take(id, size.cell, &launch, &nodes);
        self.queued.nodes = nodes;
        let rows = &mut self.queued.batch.rows;
        if rows.is_empty() {
            return self.wait_for_uses(id);
        }
        // Rows stand in the order of the parts, of which those are missing whose requests have failed.
        let mut of_rows = list.iter();
        for row in rows.iter_mut() {
            let part = of_rows.find(|part| part.request == row.request).expect("a row is a part's");
            row.last = part.to.0.min(row.node + size.steps) - 1;
        }
        let plan = self.gather(id, size, migrated)?;
        self.device.launch(plan)?;
        let Cuda { states, streams, queued, .. } = self;
        states.vacate(&mut queued.batch);
        let rows = streams.rows(id, size.cell);
        rows.go_to(queued.batch.rows.iter().map(|row| row.last));
        for row in rows.members() {
            states.advance(row.at(), &launch);
            if row.node == row.last {
                queued.note_last(row, states, ends);
            }
        }
        Ok(())
    }
}

/// Whether the nodes of a part follow on each other, and are of one cell.
fn is_of_one_chain(part: &Part, cell: CellId, graphs: &[CellGraph]) -> bool {
    let place = shared::find_node(&graphs[part.request.index()], part.from);
    place.is_some_and(|(found, place)| found == cell && part.to.0 <= place.run_end.0 + 1)
}
