//! How a task of nodes, or of parts of requests, is queued: what its rows need, the launches, and what is fetched behind them.

use super::device::{Batch, Device, Fault, HostPlace, Plan, Shape, Slot};
use super::rows::Member;
use super::states::{Gathering, Launch, Migration, States};
use super::streams::{InFlight, Migrated, StreamKey};
use super::{Cuda, plans};
use crate::backend::ready_list::ReadyList;
use crate::backend::shared;
use crate::task::{MemberList, NodeRef, Part, Step};
use crate::units::{CellId, RequestId, WorkerId};

/// What is used while a task is queued, kept for its memory.
#[derive(Debug, Default)]
pub struct Queued {
    /// Counts the launches of the run.
    launches: u64,
    pub(super) batch: Gathering,
    /// States to be fetched behind the launch, and their places on the host.
    fetches: Vec<(Slot, HostPlace)>,
    /// Nodes of requests that have failed, which are in no row.
    pub(super) dropped: Vec<NodeRef>,
    /// The nodes that a task of whole requests can run.
    pub(super) list: ReadyList,
    /// Those of one of its steps, or those that a task of parts runs at once.
    pub(super) nodes: Vec<NodeRef>,
    /// The requests of a task that are run as parts, from their first node to their last.
    pub(super) parts: Vec<Part>,
}

impl Queued {
    /// A row has come to its last node: notes what is to be fetched of it, and whether its request ends.
    pub(super) fn note_last(&mut self, row: &Member, states: &States, ends: &mut Vec<RequestId>) {
        self.fetches.extend(states.wanted(row));
        ends.extend(row.has_ended().then_some(row.request));
    }
}

/// The batch that a launch runs.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub cell: CellId,
    /// The rows, padding included.
    pub rows: u32,
    /// The tokens that the policy pads it to, for operators that have a size.
    pub tokens: u32,
    /// The steps that a persistent kernel runs; 0 for a launch of the cell.
    pub steps: u32,
    /// The launch signals.
    pub signals: bool,
}

impl Size {
    /// That of one run of a step.
    pub(super) fn of(step: &Step, signals: bool) -> Size {
        Size { cell: step.cell, rows: step.batch, tokens: step.input, steps: 0, signals }
    }
}

impl<D: Device> Cuda<'_, D> {
    /// Queues a task on a stream. If it fails, some of it may be queued.
    pub(super) fn queue(&mut self, id: StreamKey, steps: &[Step], in_flight: &mut InFlight) -> Result<(), Fault> {
        self.queued.fetches.clear();
        match (&in_flight.members, steps) {
            _ if self.runs_sequences(&in_flight.members, steps) => self.queue_sequences(id, steps, in_flight)?,
            (MemberList::Requests(_), steps) => self.queue_whole(id, steps, in_flight)?,
            (MemberList::Nodes(nodes), [step]) if step.times == 1 && nodes.len() <= step.batch as usize => {
                self.queue_nodes(id, step, in_flight)?;
            }
            (MemberList::Parts(list), steps) if shared::parts_fit(list, steps) => {
                self.queue_parts(id, steps, in_flight)?
            }
            (members, _) => {
                members.requests().for_each(|request| self.states.fail(request, shared::NOT_ONE_BATCH.to_string()));
                return Ok(());
            }
        }
        self.streams.record(id, self.device)
    }

    fn queue_nodes(&mut self, id: StreamKey, step: &Step, in_flight: &mut InFlight) -> Result<(), Fault> {
        let InFlight { members: MemberList::Nodes(nodes), ends, migrated, .. } = in_flight else { return Ok(()) };
        let launched = self.queue_batch(id, Size::of(step, true), nodes, ends, migrated)?;
        if launched {
            self.streams.counted(id);
        }
        // A batch all of whose requests have failed has nothing to run.
        if launched && self.queued.fetches.is_empty() { Ok(()) } else { self.fetch_and_signal(id) }
    }

    /// Queues parts of requests, node behind node. Rows of parts that have ended are padding.
    fn queue_parts(&mut self, id: StreamKey, steps: &[Step], in_flight: &mut InFlight) -> Result<(), Fault> {
        let InFlight { members: MemberList::Parts(list), ends, migrated, .. } = in_flight else { return Ok(()) };
        let mut nodes = std::mem::take(&mut self.queued.nodes);
        let mut queued = Ok(());
        for place in 0..shared::longest_part(list) {
            queued = match shared::part_nodes(list, place, steps, self.states.graphs(), &mut nodes) {
                Ok(step) => self
                    .queue_batch(id, Size::of(&step, false), &nodes, ends, migrated)
                    // The node behind this one writes to the slot that is fetched.
                    .and_then(|_| self.fetch(id)),
                Err(reason) => {
                    nodes.iter().for_each(|at| self.states.fail(at.request, reason.clone()));
                    Ok(())
                }
            };
            if queued.is_err() {
                break;
            }
        }
        self.queued.nodes = nodes;
        queued?;
        self.fetch_and_signal(id)
    }

    /// Queues one launch over these nodes, which goes on from the rows of the one before if they are the next of these. Notes what is
    /// to be fetched behind it and which requests end. Says whether there was anything to launch.
    fn queue_batch(
        &mut self,
        id: StreamKey,
        size: Size,
        nodes: &[NodeRef],
        ends: &mut Vec<RequestId>,
        migrated: &mut Migrated,
    ) -> Result<bool, Fault> {
        let launch = self.next_launch(id);
        let rows = self.streams.rows(id, size.cell);
        let shape = rows.shape().filter(|shape| shape.rows == size.rows && shape.signals == size.signals);
        let stay = rows.go_on_with(nodes) && nodes.iter().all(|at| self.states.goes_on(*at));
        let plan = match shape.filter(|_| stay).and_then(|shape| self.plans.find(shape)) {
            Some(plan) => {
                rows.go_on();
                nodes.iter().for_each(|at| self.states.advance(*at, &launch));
                plan
            }
            None => {
                self.take(id, size.cell, &launch, nodes);
                if self.queued.batch.rows.is_empty() {
                    self.wait_for_uses(id)?;
                    return Ok(false);
                }
                self.gather(id, size, migrated)?
            }
        };
        self.device.launch(plan)?;
        let Cuda { states, streams, queued, .. } = self;
        states.vacate(&mut queued.batch);
        for row in streams.rows(id, size.cell).members().iter().filter(|row| row.node == row.last) {
            queued.note_last(row, states, ends);
        }
        Ok(true)
    }

    /// The launch that is queued next, on this stream.
    pub(super) fn next_launch(&mut self, id: StreamKey) -> Launch {
        self.queued.launches += 1;
        self.last_launch(id)
    }

    /// The launch that was queued last, on this stream.
    pub(super) fn last_launch(&self, id: StreamKey) -> Launch {
        Launch { number: self.queued.launches, worker: self.streams.stream(id).worker, used: self.streams.next_use(id) }
    }

    /// Makes up the rows of these nodes. A node that can't run makes its request fail and has no row.
    pub(super) fn take(&mut self, id: StreamKey, cell: CellId, launch: &Launch, nodes: &[NodeRef]) {
        let Cuda { states, streams, queued: Queued { batch, dropped, .. }, .. } = self;
        let rows = streams.rows(id, cell);
        rows.clear();
        batch.clear();
        dropped.clear();
        for &at in nodes {
            match states.take(at, cell, launch, batch) {
                Ok(member) => rows.push(member),
                Err(reason) => {
                    reason.into_iter().for_each(|reason| states.fail(at.request, reason));
                    dropped.push(at);
                }
            }
        }
    }

    /// Queues that the stream goes on behind those who used the batch's slots before, also where rows or the launch come to nothing:
    /// for whoever gives these slots back, the stream's signal stands for all of their uses.
    pub(super) fn wait_for_uses(&mut self, id: StreamKey) -> Result<(), Fault> {
        while let Some(&used) = self.queued.batch.behind.last() {
            if let Err(fault) = self.streams.order(id, used, self.device) {
                // What a lost worker had done by then is over; who waits for the rest of it fails when it is written off.
                let other = self.streams.stream(used.stream).worker;
                self.blame(other, id, fault)?;
            }
            self.queued.batch.behind.pop();
        }
        Ok(())
    }

    /// Finds out whether a stream could not be given something to do because another worker is lost, which is none of its own
    /// worker's fault.
    fn blame(&mut self, other: WorkerId, id: StreamKey, fault: Fault) -> Result<(), Fault> {
        if other == self.streams.stream(id).worker {
            return Err(fault);
        }
        let Err(lost) = self.device.health(other) else { return Err(fault) };
        self.streams.look(&*self.device);
        self.unwell.push((other, lost.reason));
        Ok(())
    }

    /// Queues that the rows are brought together.
    pub(super) fn gather(&mut self, id: StreamKey, size: Size, migrated: &mut Migrated) -> Result<Plan, Fault> {
        self.wait_for_uses(id)?;
        let Cuda { device, cells, streams, plans, queued: Queued { batch, .. }, .. } = self;
        let stream = streams.stream(id);
        let inputs = if cells[size.cell.index()].counts_inputs {
            plans::rounded(batch.inputs.len() as u32, size.rows)
        } else {
            0
        };
        let tokens = match cells[size.cell.index()].sized {
            true => batch.rows.iter().map(|row| row.tokens).fold(size.tokens.max(1), u32::max),
            false => 0,
        };
        let Size { cell, rows, steps, signals, .. } = size;
        let shape = Shape { stream, cell, rows, inputs, tokens, steps, signals };
        streams.rows(id, size.cell).gathered(shape);
        let plan = plans.get(shape, *device)?;
        for place in 0..self.queued.batch.migrations.len() {
            let Migration { request, from, to } = self.queued.batch.migrations[place];
            migrated.push((from.0, request));
            if let Err(fault) = self.device.copy_peer(from, (stream, to)) {
                self.blame(from.0, id, fault)?;
            }
        }
        let batch = &self.queued.batch;
        self.device.gather(plan, &Batch { rows: &batch.rows, inputs: &batch.inputs })?;
        Ok(plan)
    }

    /// Queues that the states are fetched that are wanted.
    pub(super) fn fetch(&mut self, id: StreamKey) -> Result<(), Fault> {
        let stream = self.streams.stream(id);
        self.queued.fetches.drain(..).try_for_each(|(slot, place)| self.device.copy_to_host(stream, slot, place))
    }

    /// The same, and a signal behind that.
    pub(super) fn fetch_and_signal(&mut self, id: StreamKey) -> Result<(), Fault> {
        self.fetch(id)?;
        self.device.signal(self.streams.stream(id))?;
        self.streams.counted(id);
        Ok(())
    }
}
