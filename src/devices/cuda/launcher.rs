//! Queuing of tasks: the gathers, the launches and the copies of each kind of task.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Options;
use super::device::{
    BatchShape, Device, DeviceBatch, DeviceFault, DeviceStream, HostPlace, RowUpdate, StateSlot,
};
use super::outputs::{CellTraits, KeptOutputs, cell_traits};
use super::plans::{self, Plans};
use super::slots::{GRAPH_PAGE, Gathering, LaunchStamp, Migration, Pools};
use super::states::GpuStates;
use super::streams::{GatheredNode, StreamKey, Streams, TaskOutcome};
use super::whole::WholeRows;
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, NodeId, RequestId, StreamId, TaskId, WorkerId};
use crate::core::task::{MemberList, Members, NodeRef, Part, Step, Task};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::shared_list::SharedList;
use crate::core::workload::trace::Requests;
use crate::devices::longest_first::LongestFirst;
use crate::devices::network::Network;
use crate::devices::ready_list::ReadyList;
use crate::devices::task_checks;

/// Queues tasks on the streams of a device, and keeps track of what is queued: states, streams and plans.
pub struct Launcher<'d, D: Device> {
    pub device: &'d mut D,
    pub states: GpuStates,
    pub streams: Streams,
    /// Workers found to be lost while a task of another worker was queued, and why.
    pub unwell: Vec<(WorkerId, String)>,
    cells: Vec<CellTraits>,
    /// Whether all requests are chains of cells, whose rows stay in place.
    has_chains: bool,
    plans: Plans,
    /// The number of launches in this run.
    launches: u64,
    task: TaskMemory,
}

/// The working memory of the task that is being queued, kept between tasks.
#[derive(Debug, Default)]
struct TaskMemory {
    batch: Gathering,
    /// The chains that end with the launch.
    ended: Vec<GatheredNode>,
    /// The rows that change before the launch.
    changes: Vec<RowUpdate>,
    /// The states to copy after the launch, and their places on the host.
    copies: Vec<(StateSlot, HostPlace)>,
    /// The ready nodes of a task of whole requests.
    list: ReadyList,
    /// The rows of each cell type in a task of whole requests.
    whole: Vec<WholeRows>,
    /// The nodes of one launch.
    nodes: Vec<NodeRef>,
    /// The rows of these nodes.
    taken: Vec<GatheredNode>,
    /// The parts of a task in persistent kernels, the longest first.
    parts: Vec<Part>,
    order: LongestFirst<Part>,
    outcome: TaskOutcome,
}

impl TaskMemory {
    /// Notes what follows from a row that has reached its last node: the copy of its state, if it is kept, and the end
    /// of its request.
    fn note_last(&mut self, row: &GatheredNode, states: &GpuStates) {
        self.copies.extend(states.kept_state(row));
        if row.has_ended() {
            self.outcome.ends.push(row.request);
        }
    }
}

impl<'d, D: Device> Launcher<'d, D> {
    /// Prepares the device for a run. Fails if memory is short.
    pub fn new(
        device: &'d mut D,
        network: Arc<Network>,
        requests: &Requests,
        workers: usize,
        options: &Options,
    ) -> Result<Launcher<'d, D>> {
        // Plans that are not captured are more numerous: one for each length of an operator, or each number of steps.
        let has_many_shapes = network.operators().is_some() || device.most_steps(1) > 0;
        let room = options.room.unwrap_or(if has_many_shapes {
            plans::ROOM_UNCAPTURED
        } else {
            plans::ROOM
        });
        let cells = cell_traits(&network);
        let (kept, needs) = KeptOutputs::new(&options.keep, &requests.graphs, &network, &cells)?;
        let rooms = device.begin(workers, &needs).map_err(Error::failure)?;
        let mut page = 1;
        for graph in requests.graphs.iter() {
            if let CellGraph::Graph(graph) = graph {
                page = GRAPH_PAGE;
                // Makes the lists of inputs before the clock starts.
                graph.inputs(0);
            }
        }
        let has_chains = network.operators().is_none() && page == 1;
        let pools = Pools::new(rooms, page);
        let mut task = TaskMemory::default();
        task.whole.resize_with(cells.len(), WholeRows::default);
        let mut launcher = Launcher {
            device,
            states: GpuStates::new(requests.graphs.clone(), network, kept, pools),
            streams: Streams::default(),
            unwell: Vec::new(),
            cells,
            has_chains,
            plans: Plans::new(room),
            launches: 0,
            task,
        };
        launcher.materialise(workers, options)?;
        Ok(launcher)
    }

    /// Prepares the batches that the options name, on all streams of each worker. Operators of listed networks are
    /// prepared for the largest number of tokens; smaller numbers mostly run in the same kernels.
    fn materialise(&mut self, workers: usize, options: &Options) -> Result<()> {
        let mut batches: Vec<(CellId, u32)> = Vec::new();
        for &(cell, largest) in &options.materialise {
            for rows in 1..=largest {
                if options.sizes.is_empty() || options.sizes.contains(&rows) {
                    batches.push((cell, rows));
                }
            }
        }
        // The largest come first, so that memory is allocated once.
        batches.sort_by_key(|(_, rows)| Reverse(*rows));
        for worker in 0..workers as u16 {
            for id in 0..options.streams.max(1) {
                let stream = DeviceStream {
                    worker: WorkerId(worker),
                    id: StreamId(id),
                };
                for &(cell, rows) in &batches {
                    let shape = self.usual_shape(stream, cell, rows, options.several_launches);
                    self.plans
                        .prepare_ahead(shape, self.device)
                        .map_err(Error::failure)?;
                }
            }
        }
        Ok(())
    }

    /// The shape that batches of this size usually have.
    fn usual_shape(
        &self,
        stream: DeviceStream,
        cell: CellId,
        rows: u32,
        several_launches: bool,
    ) -> BatchShape {
        let traits = self.cells[cell.index()];
        let mut shape = BatchShape {
            stream,
            cell,
            rows,
            inputs: 0,
            tokens: 0,
            steps: 0,
            signals: !several_launches,
        };
        if traits.counts_inputs {
            // Nearly all nodes of binary trees have two children.
            shape.inputs = plans::round_inputs(2 * rows, rows);
        }
        if traits.is_sized {
            let listed = self.states.network.model().network();
            shape.tokens = listed.and_then(|listed| listed.most_tokens).unwrap_or(0);
        }
        if several_launches {
            let lengths = self.states.graphs.iter().map(CellGraph::nodes);
            let longest = lengths.max().unwrap_or(0) as u32;
            shape.steps = longest.min(self.device.most_steps(rows));
        }
        shape
    }

    /// Whether a task runs the rows of its cell type, besides the chains that it names. Otherwise it needs the list of
    /// its members: the first task after others than nodes, or one with requests that have failed.
    pub fn follows(&self, id: StreamKey, task: &Task<'_>) -> bool {
        let (Members::Nodes(_), Some(joined), [step]) = (task.members, task.joined, task.steps)
        else {
            return false;
        };
        let members = self.states.chains(id, step.cell) + joined.count;
        self.has_chains && step.times == 1 && members == task.batch && members <= step.batch
    }

    /// Queues a task on a stream. `members` is `None` for a task that [follows](Launcher::follows). If it can't be
    /// queued completely, its requests fail, and a signal follows what is queued, so that the task ends. Returns its
    /// outcome, and why its worker is lost if the stream can't even signal.
    pub fn submit(
        &mut self,
        id: StreamKey,
        number: TaskId,
        task: &Task<'_>,
        members: Option<&MemberList>,
    ) -> (TaskOutcome, Option<String>) {
        self.task.outcome = self.streams.new_outcome();
        self.task.copies.clear();
        let queued = match members {
            Some(members) => self.queue_task(id, task.steps, members),
            None => self.queue_following(id, task),
        };
        let lost = queued.err().and_then(|fault| {
            let listed;
            let members = match members {
                Some(members) => members,
                None => {
                    listed = MemberList::from_task(task, None);
                    &listed
                }
            };
            self.break_off(id, number, members, &fault)
        });
        (std::mem::take(&mut self.task.outcome), lost)
    }

    /// Fails the requests of a task that could not be queued completely, and queues a signal after the queued part.
    /// Returns why the worker is lost if that is not possible.
    fn break_off(
        &mut self,
        id: StreamKey,
        task: TaskId,
        members: &MemberList,
        fault: &DeviceFault,
    ) -> Option<String> {
        let worker = self.streams.stream(id).worker;
        for request in members.requests() {
            self.states.fail(
                request,
                format!("task {task} on worker {worker} could not be queued: {fault}"),
            );
        }
        self.states.clear_rows(id);
        self.task.copies.clear();
        if fault.lost {
            return Some(fault.reason.clone());
        }
        self.wait_for_uses(id)
            .and_then(|()| self.copy_and_signal(id))
            .err()
            .map(|fault| fault.reason)
    }

    /// Drops the plans that were not prepared ahead. The others stay for the next run.
    pub fn release_plans(&mut self) {
        self.plans.release_met(self.device);
    }

    /// Queues a task on a stream. After a fault, part of it may be queued.
    fn queue_task(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        members: &MemberList,
    ) -> Result<(), DeviceFault> {
        match (members, steps) {
            (members, steps) if self.runs_sequences(members, steps) => {
                self.queue_sequences(id, steps)?
            }
            (MemberList::Requests(requests), steps) => self.queue_whole(id, steps, requests)?,
            (MemberList::Nodes(nodes), [step])
                if step.times == 1 && nodes.len() <= step.batch as usize =>
            {
                self.task.nodes.clone_from(nodes);
                let launched = self.queue_batch(id, self.size(id, step, true))?;
                self.signal_batch(id, launched)?;
            }
            (MemberList::Parts(list), steps) if task_checks::parts_fit(list, steps) => {
                self.queue_parts(id, steps, list)?
            }
            (members, _) => {
                members.requests().for_each(|request| {
                    self.states
                        .fail(request, task_checks::NOT_ONE_BATCH.to_string())
                });
                return Ok(());
            }
        }
        self.streams.record(id, self.device)
    }

    /// Queues a task that [follows](Launcher::follows).
    fn queue_following(&mut self, id: StreamKey, task: &Task<'_>) -> Result<(), DeviceFault> {
        self.task.nodes.clear();
        if let Some(joined) = task.joined {
            (joined.list)(&mut self.task.nodes);
        }
        let launched = self.queue_rows(id, self.size(id, &task.steps[0], true))?;
        self.signal_batch(id, launched)?;
        self.streams.record(id, self.device)
    }

    /// Sees to the signal after a batch: that of its launch, or another one after copies. If all requests of the batch
    /// have failed, there is no launch.
    fn signal_batch(&mut self, id: StreamKey, launched: bool) -> Result<(), DeviceFault> {
        if launched {
            self.streams.count_signal(id);
        }
        if !launched || !self.task.copies.is_empty() {
            self.copy_and_signal(id)?;
        }
        Ok(())
    }

    /// The shape of a launch that a step asks for, without inputs. Its tokens are those to which the policy pads the
    /// batch.
    fn size(&self, id: StreamKey, step: &Step, signals: bool) -> BatchShape {
        BatchShape {
            stream: self.streams.stream(id),
            cell: step.cell,
            rows: step.batch,
            inputs: 0,
            tokens: step.input,
            steps: 0,
            signals,
        }
    }

    /// Queues parts of requests node by node. Rows of parts that have ended become padding.
    fn queue_parts(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        list: &[Part],
    ) -> Result<(), DeviceFault> {
        for place in 0..task_checks::longest_part(list) {
            match task_checks::part_nodes(
                list,
                place,
                steps,
                &self.states.graphs,
                &mut self.task.nodes,
            ) {
                Ok(step) => {
                    self.queue_batch(id, self.size(id, &step, false))?;
                    // The next node overwrites the slot that is copied.
                    self.copy(id)?;
                }
                Err(reason) => self
                    .task
                    .nodes
                    .iter()
                    .for_each(|at| self.states.fail(at.request, reason.clone())),
            }
        }
        self.copy_and_signal(id)
    }

    /// Queues one launch over the nodes in [`TaskMemory`]. Returns whether there was anything to launch.
    fn queue_batch(&mut self, id: StreamKey, size: BatchShape) -> Result<bool, DeviceFault> {
        if self.has_chains {
            let rows = self.states.open_rows(id, size.cell);
            self.states.keep_rows(rows, &mut self.task.nodes);
            return self.queue_rows(id, size);
        }
        self.launches += 1;
        self.take(size.cell, self.last_launch(id));
        if self.task.batch.rows.is_empty() {
            self.wait_for_uses(id)?;
            return Ok(false);
        }
        self.gather_and_launch(id, size)?;
        let Launcher { states, task, .. } = self;
        for place in 0..task.taken.len() {
            let row = task.taken[place];
            if row.node == row.last {
                task.note_last(&row, states);
            }
        }
        Ok(true)
    }

    /// Queues one launch over the rows of a chain's cell, which the nodes in [`TaskMemory`] join. Rows that stay are
    /// neither looked at nor gathered. Returns whether there was anything to launch.
    fn queue_rows(&mut self, id: StreamKey, size: BatchShape) -> Result<bool, DeviceFault> {
        self.launches += 1;
        let launch = self.last_launch(id);
        self.take(size.cell, launch);
        let Launcher { states, task, .. } = self;
        // A request that the list has twice has failed after its first node was taken.
        task.taken.retain(|node| states.is_chain(node.request));
        let rows = states.open_rows(id, size.cell);
        if task.taken.is_empty() && states.rows[rows].chains() == 0 {
            self.wait_for_uses(id)?;
            return Ok(false);
        }
        let stays = states.arrange(rows, size.rows, &task.taken);
        // What is queued from here on uses the slots of all rows.
        states.rows[rows].stamp = launch;
        self.wait_for_uses(id)?;
        // Chains count no inputs, and no cell but a listed network's has tokens.
        let plan = self
            .plans
            .get(BatchShape { tokens: 0, ..size }, self.device)?;
        self.migrate(id)?;
        let Launcher {
            device,
            states,
            task,
            ..
        } = self;
        if stays {
            let changed = &states.rows[rows].changed;
            task.changes.clear();
            task.changes.extend(changed.iter().map(|at| RowUpdate {
                at: *at,
                row: states.gather_row(rows, *at),
            }));
            if task.changes.is_empty() {
                device.launch(plan)?;
            } else {
                device.launch_changed(plan, &task.changes)?;
            }
        } else {
            states.gather_rows(rows, &mut task.batch);
            let batch = DeviceBatch {
                rows: &task.batch.rows,
                inputs: &task.batch.inputs,
            };
            device.gather(plan, &batch)?;
            device.launch(plan)?;
        }
        let mut ended = std::mem::take(&mut task.ended);
        states.advance_rows(rows, &mut ended);
        for node in &ended {
            task.outcome.left.push(node.request);
            task.note_last(node, states);
        }
        task.ended = ended;
        Ok(true)
    }

    /// The stamp of the launch that is queued now.
    fn last_launch(&self, id: StreamKey) -> LaunchStamp {
        let worker = self.streams.stream(id).worker;
        LaunchStamp {
            number: self.launches,
            worker,
            used: self.streams.next_use(id),
        }
    }

    /// Makes a row for each of the nodes in [`TaskMemory`]. A node that can't run makes its request fail and has no
    /// row.
    fn take(&mut self, cell: CellId, launch: LaunchStamp) {
        let Launcher { states, task, .. } = self;
        task.batch.begin(launch);
        task.taken.clear();
        for &at in &task.nodes {
            match states.take(at, cell, &mut task.batch) {
                Ok(row) => task.taken.push(row),
                Err(Some(reason)) => states.fail(at.request, reason),
                Err(None) => {}
            }
        }
    }

    /// Makes the stream wait for the earlier uses of the batch's slots, even if there is nothing to launch. When a slot
    /// is returned, the signal after its last use must cover all its uses.
    fn wait_for_uses(&mut self, id: StreamKey) -> Result<(), DeviceFault> {
        while let Some(&used) = self.task.batch.waits.last() {
            if let Err(fault) = self.streams.wait_for(id, used, self.device) {
                // Work that a lost worker had finished stays valid; requests that need its other work fail when the
                // worker is written off.
                let other = self.streams.stream(used.stream).worker;
                self.blame(other, id, fault)?;
            }
            self.task.batch.waits.pop();
        }
        Ok(())
    }

    /// Checks whether a fault of a stream was caused by the loss of another worker. If so, notes that loss and clears
    /// the stream's own worker.
    fn blame(
        &mut self,
        other: WorkerId,
        id: StreamKey,
        fault: DeviceFault,
    ) -> Result<(), DeviceFault> {
        if other == self.streams.stream(id).worker {
            return Err(fault);
        }
        let Err(lost) = self.device.health(other) else {
            return Err(fault);
        };
        self.streams.read_signals(&*self.device);
        self.unwell.push((other, lost.reason));
        Ok(())
    }

    /// Queues the gather of the rows that were [taken](Launcher::take), and a launch over them. Returns its shape.
    fn gather_and_launch(
        &mut self,
        id: StreamKey,
        size: BatchShape,
    ) -> Result<BatchShape, DeviceFault> {
        self.wait_for_uses(id)?;
        let Launcher {
            device,
            cells,
            plans,
            task: TaskMemory { batch, .. },
            ..
        } = self;
        let traits = cells[size.cell.index()];
        let inputs = if traits.counts_inputs {
            plans::round_inputs(batch.inputs.len() as u32, size.rows)
        } else {
            0
        };
        let tokens = if traits.is_sized {
            let tokens = batch.rows.iter().map(|row| row.tokens);
            tokens.fold(size.tokens.max(1), u32::max)
        } else {
            0
        };
        let shape = BatchShape {
            inputs,
            tokens,
            ..size
        };
        let plan = plans.get(shape, *device)?;
        self.migrate(id)?;
        let batch = &self.task.batch;
        self.device.gather(
            plan,
            &DeviceBatch {
                rows: &batch.rows,
                inputs: &batch.inputs,
            },
        )?;
        self.device.launch(plan)?;
        Ok(shape)
    }

    /// Queues the copies of the batch's states from other workers.
    fn migrate(&mut self, id: StreamKey) -> Result<(), DeviceFault> {
        let stream = self.streams.stream(id);
        for place in 0..self.task.batch.migrations.len() {
            let Migration { request, from, to } = self.task.batch.migrations[place];
            self.task.outcome.migrated.push((from.0, request));
            if let Err(fault) = self.device.copy_peer(from, (stream, to)) {
                self.blame(from.0, id, fault)?;
            }
        }
        Ok(())
    }

    /// Queues the copies of the noted states to the host.
    fn copy(&mut self, id: StreamKey) -> Result<(), DeviceFault> {
        let stream = self.streams.stream(id);
        self.task
            .copies
            .drain(..)
            .try_for_each(|(slot, place)| self.device.copy_to_host(stream, slot, place))
    }

    /// Queues the copies of the noted states, and a signal after them.
    fn copy_and_signal(&mut self, id: StreamKey) -> Result<(), DeviceFault> {
        self.copy(id)?;
        self.device.signal(self.streams.stream(id))?;
        self.streams.count_signal(id);
        Ok(())
    }

    /// Queues all nodes of whole requests, with one signal at the end. Requests whose nodes the steps do not cover
    /// fail.
    fn queue_whole(
        &mut self,
        id: StreamKey,
        steps: &[Step],
        requests: &[RequestId],
    ) -> Result<(), DeviceFault> {
        // The task's gathers replace the rows of earlier tasks.
        self.states.clear_rows(id);
        self.task.whole.iter_mut().for_each(WholeRows::clear);
        self.task.list.begin(requests, &self.states.graphs);
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
        self.copy_and_signal(id)
    }

    /// Queues one run of a step. Rows stay in place as long as no node is ready to join them and the step has room for
    /// those that have not ended.
    fn queue_step(&mut self, id: StreamKey, step: &Step) -> Result<(), DeviceFault> {
        let size = self.size(id, step, false);
        let rows = &self.task.whole[size.cell.index()];
        let stay = rows
            .shape(size.rows)
            .filter(|_| self.task.list.is_empty(size.cell));
        if let Some(shape) = stay {
            let plan = self.plans.get(shape, self.device)?;
            self.device.launch(plan)?;
        } else {
            self.dismiss(id, size.cell);
            let TaskMemory { list, nodes, .. } = &mut self.task;
            nodes.clear();
            list.take(size.cell, size.rows as usize, nodes);
            self.launches += 1;
            self.take(size.cell, self.last_launch(id));
            let shape = self.gather_and_launch(id, size)?;
            let TaskMemory { whole, taken, .. } = &mut self.task;
            whole[size.cell.index()].begin(shape, taken);
        }
        self.advance_rows(id, size.cell);
        // The next operator of a listed network overwrites the slot that is copied.
        self.copy(id)
    }

    /// Continues the rows of a cell type. Those that have reached their last node end, which may make others ready.
    fn advance_rows(&mut self, id: StreamKey, cell: CellId) {
        let launch = self.last_launch(id);
        let Launcher { states, task, .. } = self;
        task.whole[cell.index()].advance();
        while let Some(row) = task.whole[cell.index()].pop_ended() {
            states.advance(row.node(), &launch);
            task.note_last(&row, states);
            task.list.note_run(row.node(), &states.graphs);
        }
    }

    /// Dissolves the rows of a cell type, and makes their successors ready.
    fn dismiss(&mut self, id: StreamKey, cell: CellId) {
        let launch = self.last_launch(id);
        let Launcher { states, task, .. } = self;
        for row in task.whole[cell.index()].drain() {
            states.advance(row.node(), &launch);
            task.list.note_run(row.node(), &states.graphs);
        }
    }

    /// Whether a task runs in persistent kernels: the device has them, the task consists of whole requests or parts,
    /// and its steps cover them in order. Leaves its parts in [`TaskMemory`].
    fn runs_sequences(&mut self, members: &MemberList, steps: &[Step]) -> bool {
        if self.device.most_steps(1) == 0 {
            return false;
        }
        let graphs = &self.states.graphs;
        let TaskMemory { parts, order, .. } = &mut self.task;
        parts.clear();
        match members {
            MemberList::Nodes(_) | MemberList::Operators(..) => return false,
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
        if !parts.iter().all(|part| is_of_one_chain(part, cell, graphs)) {
            return false;
        }
        order.sort(parts, |part| task_checks::part_length(part) as u32);
        let longest = parts.first().map_or(0, task_checks::part_length);
        let mut rows = parts.len();
        let mut from = 0;
        for step in steps {
            while rows > 0 && task_checks::part_length(&parts[rows - 1]) <= from {
                rows -= 1;
            }
            if step.cell != cell || rows > step.batch as usize {
                return false;
            }
            from += step.times as usize;
        }
        // Whole requests may be padded; a task of parts has exactly the steps of the longest.
        if let MemberList::Parts(_) = members {
            longest == from
        } else {
            longest <= from
        }
    }

    /// Queues the parts that [`Launcher::runs_sequences`] has left. Each step, which runs the cell a number of times,
    /// is one launch over the chains that have not ended, or several launches if it has too many runs for one.
    fn queue_sequences(&mut self, id: StreamKey, steps: &[Step]) -> Result<(), DeviceFault> {
        let mut from = 0;
        for step in steps {
            let end = from + step.times;
            while from < end {
                let run = self.device.most_steps(step.batch).clamp(1, end - from);
                self.queue_sequence(
                    id,
                    BatchShape {
                        steps: run,
                        ..self.size(id, step, false)
                    },
                    from,
                )?;
                from += run;
            }
        }
        self.states.clear_rows(id);
        self.copy_and_signal(id)
    }

    /// Queues one launch over the next `size.steps` nodes of each part, from place `from` on.
    fn queue_sequence(
        &mut self,
        id: StreamKey,
        size: BatchShape,
        from: u32,
    ) -> Result<(), DeviceFault> {
        let TaskMemory { nodes, parts, .. } = &mut self.task;
        let left = parts
            .iter()
            .take_while(|part| (from as usize) < task_checks::part_length(part));
        nodes.clear();
        nodes.extend(left.map(|part| NodeRef {
            request: part.request,
            node: NodeId(part.from.0 + from),
        }));
        self.launches += 1;
        let launch = self.last_launch(id);
        self.take(size.cell, launch);
        let TaskMemory {
            batch: Gathering { rows, .. },
            parts,
            ..
        } = &mut self.task;
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
        let Launcher { states, task, .. } = self;
        for place in 0..task.taken.len() {
            let row = GatheredNode {
                node: task.batch.rows[place].last,
                ..task.taken[place]
            };
            states.advance(row.node(), &launch);
            if row.node == row.last {
                task.note_last(&row, states);
            }
        }
        Ok(())
    }
}

/// Whether the nodes of a part follow each other in one chain of this cell.
fn is_of_one_chain(part: &Part, cell: CellId, graphs: &SharedList<CellGraph>) -> bool {
    let place = task_checks::find_node(&graphs[part.request.index()], part.from);
    place.is_some_and(|(found, place)| found == cell && part.to.0 <= place.run_end.0 + 1)
}
