//! Queuing of tasks: the gathers, the launches and the copies of each kind of task.

use super::device::{Batch, Device, Fault, HostPlace, Shape, Slot};
use super::slots::{Gathering, Launch, Migration};
use super::states::States;
use super::streams::{Member, Outcome, StreamKey};
use super::{Cuda, plans};
use crate::base::units::{CellId, NodeId, RequestId, WorkerId};
use crate::core::task::{MemberList, NodeRef, Part, Step};
use crate::core::workload::cell_graph::CellGraph;
use crate::devices::ready_list::ReadyList;
use crate::devices::shared;

/// Working memory of a task that is being queued, kept between tasks.
#[derive(Debug, Default)]
pub struct Queued {
    /// Counts the launches of the run.
    launches: u64,
    batch: Gathering,
    /// States to copy after the launch, and their places on the host.
    pub(super) copies: Vec<(Slot, HostPlace)>,
    /// Nodes of failed requests, which have no row.
    dropped: Vec<NodeRef>,
    /// The nodes of a task of whole requests that are ready.
    list: ReadyList,
    /// The nodes of one launch.
    nodes: Vec<NodeRef>,
    parts: Vec<Part>,
    /// Of the task.
    pub(super) outcome: Outcome,
}

impl Queued {
    /// A row has reached its last node: notes the state to copy, if it is kept, and whether the request ends.
    fn note_last(&mut self, row: &Member, states: &States) {
        self.copies.extend(states.wanted(row));
        self.outcome
            .ends
            .extend(row.has_ended().then_some(row.request));
    }
}

impl<D: Device> Cuda<'_, D> {
    /// Queues a task on a stream. After a fault, part of it may be queued.
    pub(super) fn queue(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        members: &MemberList,
    ) -> Result<(), Fault> {
        self.queued.copies.clear();
        match (members, steps) {
            (members, steps) if self.runs_sequences(members, steps) => {
                self.queue_sequences(id, steps)?
            }
            (MemberList::Requests(requests), steps) => self.queue_whole(id, steps, requests)?,
            (MemberList::Nodes(nodes), [step])
                if step.times == 1 && nodes.len() <= step.batch as usize =>
            {
                self.queued.nodes.clone_from(nodes);
                let launched = self.queue_batch(id, self.size(id, step, true))?;
                if launched {
                    self.streams.counted(id);
                }
                // If all requests of the batch have failed, no launch signals.
                if !launched || !self.queued.copies.is_empty() {
                    self.copy_and_signal(id)?;
                }
            }
            (MemberList::Parts(list), steps) if shared::parts_fit(list, steps) => {
                self.queue_parts(id, steps, list)?
            }
            (members, _) => {
                members.requests().for_each(|request| {
                    self.states.fail(request, shared::NOT_ONE_BATCH.to_string())
                });
                return Ok(());
            }
        }
        self.streams.record(id, self.device)
    }

    /// The shape of a launch as a step asks for it, without inputs. Its tokens are those to which the policy pads it.
    fn size(&self, id: StreamKey, step: &Step, signals: bool) -> Shape {
        let (
            stream,
            Step {
                cell,
                batch: rows,
                input: tokens,
                ..
            },
        ) = (self.streams.stream(id), *step);
        Shape {
            stream,
            cell,
            rows,
            inputs: 0,
            tokens,
            steps: 0,
            signals,
        }
    }

    /// Queues parts of requests node by node. Rows of parts that have ended become padding.
    fn queue_parts(&mut self, id: StreamKey, steps: &[Step], list: &[Part]) -> Result<(), Fault> {
        for place in 0..shared::longest_part(list) {
            match shared::part_nodes(
                list,
                place,
                steps,
                &self.states.graphs,
                &mut self.queued.nodes,
            ) {
                Ok(step) => {
                    self.queue_batch(id, self.size(id, &step, false))?;
                    // The next node overwrites the slot that is copied.
                    self.copy(id)?;
                }
                Err(reason) => self
                    .queued
                    .nodes
                    .iter()
                    .for_each(|at| self.states.fail(at.request, reason.clone())),
            }
        }
        self.copy_and_signal(id)
    }

    /// Queues one launch over the nodes in [`Queued`]. Continues from the rows of the launch before if these nodes are
    /// the next of all of them; gathers otherwise. Returns whether there was anything to launch.
    fn queue_batch(&mut self, id: StreamKey, size: Shape) -> Result<bool, Fault> {
        self.queued.launches += 1;
        let launch = self.last_launch(id);
        let rows = self.streams.rows(id, size.cell);
        let shape = rows
            .shape
            .filter(|shape| shape.rows == size.rows && shape.signals == size.signals);
        let nodes = &self.queued.nodes;
        let stay = rows.go_on_with(nodes) && nodes.iter().all(|at| self.states.goes_on(*at));
        if let Some(plan) = shape
            .filter(|_| stay)
            .and_then(|shape| self.plans.find(shape))
        {
            rows.go_on();
            nodes
                .iter()
                .for_each(|at| self.states.advance(*at, &launch));
            self.device.launch(plan)?;
        } else {
            self.take(id, size.cell, launch);
            if self.queued.batch.rows.is_empty() {
                self.wait_for_uses(id)?;
                return Ok(false);
            }
            self.gather_and_launch(id, size)?;
        }
        let Cuda {
            states,
            streams,
            queued,
            ..
        } = self;
        for row in streams
            .rows(id, size.cell)
            .members
            .iter()
            .filter(|row| row.node == row.last)
        {
            queued.note_last(row, states);
        }
        Ok(true)
    }

    fn last_launch(&self, id: StreamKey) -> Launch {
        let worker = self.streams.stream(id).worker;
        Launch {
            number: self.queued.launches,
            worker,
            used: self.streams.next_use(id),
        }
    }

    /// Makes a row for each of the nodes in [`Queued`]. A node that can't run makes its request fail and has no row.
    fn take(&mut self, id: StreamKey, cell: CellId, launch: Launch) {
        let Cuda {
            states,
            streams,
            queued:
                Queued {
                    batch,
                    dropped,
                    nodes,
                    ..
                },
            ..
        } = self;
        let rows = streams.rows(id, cell);
        rows.clear();
        batch.begin(launch);
        dropped.clear();
        for &at in nodes.iter() {
            match states.take(at, cell, batch) {
                Ok(member) => rows.members.push(member),
                Err(reason) => {
                    reason
                        .into_iter()
                        .for_each(|reason| states.fail(at.request, reason));
                    dropped.push(at);
                }
            }
        }
    }

    /// Makes the stream wait for the earlier uses of the batch's slots, even if there is nothing to launch: when a slot is
    /// returned, the stream's signal stands for all of its uses.
    pub(super) fn wait_for_uses(&mut self, id: StreamKey) -> Result<(), Fault> {
        while let Some(&used) = self.queued.batch.waits.last() {
            if let Err(fault) = self.streams.order(id, used, self.device) {
                // Work that a lost worker had finished stays valid; requests that need the rest fail when it is written off.
                let other = self.streams.stream(used.stream).worker;
                self.blame(other, id, fault)?;
            }
            self.queued.batch.waits.pop();
        }
        Ok(())
    }

    /// Checks whether a fault of a stream was caused by the loss of another worker. If so, notes that loss and clears the
    /// stream's own worker.
    fn blame(&mut self, other: WorkerId, id: StreamKey, fault: Fault) -> Result<(), Fault> {
        if other == self.streams.stream(id).worker {
            return Err(fault);
        }
        let Err(lost) = self.device.health(other) else {
            return Err(fault);
        };
        self.streams.look(&*self.device);
        self.unwell.push((other, lost.reason));
        Ok(())
    }

    /// Queues the gather of the rows that were [taken](Cuda::take), and a launch over them.
    fn gather_and_launch(&mut self, id: StreamKey, size: Shape) -> Result<(), Fault> {
        self.wait_for_uses(id)?;
        let Cuda {
            device,
            cells,
            streams,
            plans,
            queued: Queued { batch, .. },
            ..
        } = self;
        let kind = cells[size.cell.index()];
        let inputs = if kind.counts_inputs {
            plans::rounded(batch.inputs.len() as u32, size.rows)
        } else {
            0
        };
        let tokens = match kind.sized {
            true => batch
                .rows
                .iter()
                .map(|row| row.tokens)
                .fold(size.tokens.max(1), u32::max),
            false => 0,
        };
        let shape = Shape {
            inputs,
            tokens,
            ..size
        };
        streams.rows(id, size.cell).shape = Some(shape);
        let plan = plans.get(shape, *device)?;
        for place in 0..self.queued.batch.migrations.len() {
            let Migration { request, from, to } = self.queued.batch.migrations[place];
            self.queued.outcome.migrated.push((from.0, request));
            if let Err(fault) = self.device.copy_peer(from, (size.stream, to)) {
                self.blame(from.0, id, fault)?;
            }
        }
        let batch = &mut self.queued.batch;
        self.device.gather(
            plan,
            &Batch {
                rows: &batch.rows,
                inputs: &batch.inputs,
            },
        )?;
        self.device.launch(plan)?;
        self.states.vacate(batch);
        Ok(())
    }

    /// Queues the copies of the noted states to the host.
    fn copy(&mut self, id: StreamKey) -> Result<(), Fault> {
        let stream = self.streams.stream(id);
        self.queued
            .copies
            .drain(..)
            .try_for_each(|(slot, place)| self.device.copy_to_host(stream, slot, place))
    }

    pub(super) fn copy_and_signal(&mut self, id: StreamKey) -> Result<(), Fault> {
        self.copy(id)?;
        self.device.signal(self.streams.stream(id))?;
        self.streams.counted(id);
        Ok(())
    }

    /// Queues all nodes of whole requests, with one signal at the end. Requests whose nodes the steps do not cover fail.
    fn queue_whole(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        requests: &[RequestId],
    ) -> Result<(), Fault> {
        self.streams.clear_rows(id);
        self.queued.list.begin(requests, &self.states.graphs);
        let cells = self.cells.len();
        for step in steps
            .iter()
            .filter(|step| step.batch > 0 && step.cell.index() < cells)
        {
            for _ in 0..step.times {
                self.queue_step(id, step)?;
            }
        }
        for cell in 0..self.cells.len() as u16 {
            self.dismiss(id, CellId(cell));
        }
        requests
            .iter()
            .for_each(|request| self.states.expect_done(*request));
        self.streams.clear_rows(id);
        self.copy_and_signal(id)
    }

    /// Queues one run of a step. Rows stay in place as long as no node is ready to join them; ended rows stay as padding
    /// while the step keeps its size.
    fn queue_step(&mut self, id: StreamKey, step: &Step) -> Result<(), Fault> {
        let size = self.size(id, step, false);
        let rows = self.streams.rows(id, size.cell);
        let stay = rows
            .shape
            .filter(|shape| shape.rows == size.rows && self.queued.list.is_empty(size.cell));
        if let Some(plan) = stay.and_then(|shape| self.plans.find(shape)) {
            rows.go_on();
            self.queued.dropped.clear();
            self.device.launch(plan)?;
        } else {
            self.dismiss(id, size.cell);
            self.queued.nodes.clear();
            self.queued
                .list
                .take(size.cell, size.rows as usize, &mut self.queued.nodes);
            self.queued.launches += 1;
            self.take(id, size.cell, self.last_launch(id));
            self.gather_and_launch(id, size)?;
        }
        self.drop_ended(id, size.cell);
        // The next operator of a listed network overwrites the slot that is copied.
        self.copy(id)
    }

    /// Turns the rows that have reached their last node into padding, and makes their successors ready.
    fn drop_ended(&mut self, id: StreamKey, cell: CellId) {
        let launch = self.last_launch(id);
        let Cuda {
            states,
            streams,
            queued,
            ..
        } = self;
        streams.rows(id, cell).members.retain(|row| {
            if row.node == row.last {
                states.advance(row.at(), &launch);
                queued.note_last(row, states);
                queued.list.ran(row.at(), &states.graphs);
            }
            row.node < row.last
        });
        // A node without a row delays no other: its successors have no row either.
        let Queued { dropped, list, .. } = queued;
        for at in dropped.drain(..) {
            list.ran(at, &states.graphs);
        }
    }

    /// Dissolves the rows of a cell type, and makes their successors ready.
    fn dismiss(&mut self, id: StreamKey, cell: CellId) {
        let launch = self.last_launch(id);
        let Cuda {
            states,
            streams,
            queued,
            ..
        } = self;
        let rows = streams.rows(id, cell);
        for row in &rows.members {
            states.advance(row.at(), &launch);
            queued.list.ran(row.at(), &states.graphs);
        }
        rows.clear();
    }

    /// Whether a task runs in persistent kernels: the device has them, the task consists of whole requests or parts, and
    /// its steps cover them in order. Leaves its parts in [`Queued`].
    fn runs_sequences(&mut self, members: &MemberList, steps: &[Step]) -> bool {
        let graphs = &self.states.graphs;
        let parts = &mut self.queued.parts;
        parts.clear();
        match members {
            MemberList::Nodes(_) | MemberList::Operators(..) => return false,
            _ if self.device.most_steps(1) == 0 => return false,
            MemberList::Parts(list) => parts.extend_from_slice(list),
            MemberList::Requests(requests) => parts.extend(requests.iter().map(|request| {
                let to = NodeId(graphs[request.index()].nodes() as u32);
                Part {
                    request: *request,
                    from: NodeId(0),
                    to,
                }
            })),
        }
        let Some(&Step { cell, .. }) = steps.first() else {
            return false;
        };
        let mut from = 0;
        for step in steps {
            let rows = parts
                .iter()
                .filter(|part| from < shared::part_length(part))
                .count();
            if step.cell != cell || rows > step.batch as usize {
                return false;
            }
            from += step.times as usize;
        }
        // Whole requests may be padded; a task of parts has exactly the steps of the longest.
        let longest = shared::longest_part(parts);
        let covered = if let MemberList::Parts(_) = members {
            longest == from
        } else {
            longest <= from
        };
        covered && parts.iter().all(|part| is_of_one_chain(part, cell, graphs))
    }

    /// Queues the parts that [`Cuda::runs_sequences`] has left: each step (that is, a number of runs of the cell) is one
    /// launch over the chains that are still in it, or several if it has too many runs for one.
    fn queue_sequences(&mut self, id: StreamKey, steps: &[Step]) -> Result<(), Fault> {
        let mut from = 0;
        for step in steps {
            let end = from + step.times;
            while from < end {
                let run = self.device.most_steps(step.batch).clamp(1, end - from);
                self.queue_sequence(
                    id,
                    Shape {
                        steps: run,
                        ..self.size(id, step, false)
                    },
                    from,
                )?;
                from += run;
            }
        }
        self.streams.clear_rows(id);
        self.copy_and_signal(id)
    }

    /// Queues one launch: of each part the next `size.steps` nodes from place `from` on.
    fn queue_sequence(&mut self, id: StreamKey, size: Shape, from: u32) -> Result<(), Fault> {
        let Queued { nodes, parts, .. } = &mut self.queued;
        let left = parts
            .iter()
            .filter(|part| (from as usize) < shared::part_length(part));
        nodes.clear();
        nodes.extend(left.map(|part| NodeRef {
            request: part.request,
            node: NodeId(part.from.0 + from),
        }));
        self.queued.launches += 1;
        let launch = self.last_launch(id);
        self.take(id, size.cell, launch);
        let Queued {
            batch: Gathering { rows, .. },
            parts,
            ..
        } = &mut self.queued;
        if rows.is_empty() {
            return self.wait_for_uses(id);
        }
        // Rows are in the order of the parts, without those whose requests have failed.
        let mut of_rows = parts.iter();
        for row in rows {
            let part = of_rows
                .find(|part| part.request == row.request)
                .expect("each row belongs to a part");
            row.last = part.to.0.min(row.node + size.steps) - 1;
        }
        self.gather_and_launch(id, size)?;
        let Cuda {
            states,
            streams,
            queued,
            ..
        } = self;
        for (place, row) in streams.rows(id, size.cell).members.iter_mut().enumerate() {
            row.node = queued.batch.rows[place].last;
            states.advance(row.at(), &launch);
            if row.node == row.last {
                queued.note_last(row, states);
            }
        }
        Ok(())
    }
}

/// Whether the nodes of a part follow each other in one chain of this cell.
fn is_of_one_chain(part: &Part, cell: CellId, graphs: &[CellGraph]) -> bool {
    let place = shared::find_node(&graphs[part.request.index()], part.from);
    place.is_some_and(|(found, place)| found == cell && part.to.0 <= place.run_end.0 + 1)
}
