//! Plans: the launches of one batched cell, ready to be queued.

use std::ptr::null_mut;

use cudarc::driver::result::graph::launch;
use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUgraphNode};

use super::call::KernelCall;
use super::cells::{GpuCell, PlannedWork, RowTable, WorkSetup};
use super::driver::Owned;
use super::graph::{capture, instantiate};
use super::stream::{OperandPlaces, StreamState};
use super::worker::GpuWorker;
use crate::base::precision::Precision;
use crate::devices::cuda::device::{BatchShape, DeviceBatch, DeviceFault, MOST_CHANGES, RowUpdate};
use crate::devices::network::Spec;

/// A plan on one GPU.
#[derive(Debug)]
pub(super) struct PlanState {
    pub shape: BatchShape,
    /// The index of the stream's working memory that it uses.
    pub memory: usize,
    gather: KernelCall,
    launch: PlannedLaunch,
    /// The places of the operand, if it has two. The launch above reads the first.
    places: Option<OperandPlaces>,
    /// The launch that reads the second place, if each leaves the operand in the place that it does not read.
    launch_moved: Option<PlannedLaunch>,
}

#[derive(Debug)]
enum PlannedLaunch {
    /// A captured graph, and for chains another one whose first node changes rows.
    Graph(Owned<CUgraphExec>, Option<Box<ChangingLaunch>>),
    /// Kernels and products that are queued one by one.
    OneByOne(Vec<PlannedWork>),
}

/// A captured launch whose first node changes rows.
#[derive(Debug)]
struct ChangingLaunch {
    graph: Owned<CUgraphExec>,
    change: KernelCall,
    /// The node of the change in `_template`, which must live as long as it is used.
    node: CUgraphNode,
    _template: Owned<CUgraph>,
}

impl PlanState {
    /// Makes a plan. The stream is open, and its memory [fits](StreamState::fit) the shape.
    pub fn new(
        shape: BatchShape,
        worker: &GpuWorker,
        spec: &Spec,
        words: u64,
        precision: Precision,
    ) -> Result<PlanState, DeviceFault> {
        let stream = &worker.streams[&shape.stream.id];
        let cell = worker.cell_of(&shape);
        let memory = worker.memory_of(&shape);
        let [rows, inputs, age, arrived, ref buffers @ ..] = stream.pieces(memory)[..] else {
            unreachable!("a plan's memory is made before the plan")
        };
        let mut setup = WorkSetup {
            kernels: &worker.kernels,
            spec,
            multiprocessors: worker.gpu.multiprocessors,
            element: precision.bytes() as u32,
            shape,
            buffers: buffers.to_vec(),
            moved: false,
            table: RowTable { rows, inputs, age },
            states: worker.states(words),
            tail: stream.tail(arrived, shape.signals),
        };
        let gather = cell.gather(&setup);
        let launch = PlannedLaunch::new(cell, &setup, stream)?;
        let places = cell.places().map(|places| OperandPlaces {
            addresses: places.map(|place| setup.buffers[place]),
            bytes: cell.buffers(&shape)[places[0]].bytes(precision),
        });
        setup.moved = cell.moves_operand(shape.rows);
        let launch_moved = match setup.moved {
            true => Some(PlannedLaunch::new(cell, &setup, stream)?),
            false => None,
        };
        Ok(PlanState {
            shape,
            memory,
            gather,
            launch,
            places,
            launch_moved,
        })
    }

    /// Queues a gather of a batch.
    pub fn gather(
        &mut self,
        stream: &mut StreamState,
        batch: &DeviceBatch<'_>,
    ) -> Result<(), DeviceFault> {
        let rows = batch.rows.len();
        let inputs = batch.inputs.len();
        if rows > self.shape.rows as usize || inputs > self.room(stream) {
            return Err(DeviceFault::survivable(format!(
                "{rows} rows and {inputs} inputs for a plan of {} rows and {} inputs",
                self.shape.rows,
                self.room(stream)
            )));
        }
        let (staged, inputs) =
            stream
                .staging
                .write(batch, stream.next_signal(), stream.signal_count())?;
        self.gather.set_staged(staged, inputs, rows as u32);
        // A gather writes to the first place.
        stream.moved[self.memory] = false;
        stream.handle().gpu.bind()?;
        // SAFETY: the arguments are those of the cell's gather; the stream's memory fits the shape and outlives its
        // work, and the staged batch stays until the task has signalled.
        unsafe { self.gather.queue("a gather", stream.handle()) }
    }

    /// The most inputs of a batch. Cells that do not count their inputs have room for the inputs of each row.
    fn room(&self, stream: &StreamState) -> usize {
        if self.shape.inputs > 0 {
            self.shape.inputs as usize
        } else {
            stream.room(self.memory)
        }
    }

    /// Queues changes of rows, and a launch over all rows: one graph, whose first node gets the changes as arguments.
    pub fn launch_changed(
        &mut self,
        stream: &mut StreamState,
        changes: &[RowUpdate],
    ) -> Result<(), DeviceFault> {
        let rows = self.shape.rows;
        let takes_changes = matches!(self.launch, PlannedLaunch::Graph(_, Some(_)));
        let fit = changes.len() <= MOST_CHANGES && changes.iter().all(|change| change.at < rows);
        if !takes_changes || !fit {
            let most = if takes_changes { MOST_CHANGES } else { 0 };
            return Err(DeviceFault::survivable(format!(
                "{} changes of rows for a plan of {rows} rows, which takes {most}",
                changes.len()
            )));
        }
        self.queue_launch(stream, changes)
    }

    /// Queues a launch over the gathered rows.
    pub fn launch(&mut self, stream: &mut StreamState) -> Result<(), DeviceFault> {
        self.queue_launch(stream, &[])
    }

    fn queue_launch(
        &mut self,
        stream: &mut StreamState,
        changes: &[RowUpdate],
    ) -> Result<(), DeviceFault> {
        if self.launch_moved.is_none()
            && let Some(places) = &self.places
        {
            stream.move_back(self.memory, places)?;
        }
        let on = stream.handle();
        let planned = match &mut self.launch_moved {
            Some(launch_moved) if stream.moved[self.memory] => launch_moved,
            _ => &mut self.launch,
        };
        match planned {
            PlannedLaunch::Graph(_, Some(changing)) if !changes.is_empty() => {
                changing.queue(stream, changes)?;
            }
            // SAFETY: the graph was captured on this stream, whose memory outlives its work.
            PlannedLaunch::Graph(graph, _) => on.call("a graph can't be queued", |on| unsafe {
                launch(graph.raw, on)
            })?,
            // SAFETY: the work was made for this stream, whose memory fits the shape and outlives its work.
            PlannedLaunch::OneByOne(work) => unsafe { queue(work, stream) }?,
        }
        if self.launch_moved.is_some() {
            stream.moved[self.memory] ^= true;
        }
        if self.shape.signals {
            stream.queued += 1;
        }
        Ok(())
    }
}

impl PlannedLaunch {
    fn new(
        cell: &dyn GpuCell,
        setup: &WorkSetup<'_>,
        stream: &StreamState,
    ) -> Result<PlannedLaunch, DeviceFault> {
        let mut work = cell.work(setup);
        let is_captured = cell.is_captured();
        // SAFETY: the stream's memory fits the shape.
        unsafe { stream.load_products(&work, is_captured) }?;
        if !is_captured {
            return Ok(PlannedLaunch::OneByOne(work));
        }
        let changing = match cell.change(setup) {
            None => None,
            Some(change) => Some(Box::new(ChangingLaunch::new(stream, change, &mut work)?)),
        };
        // SAFETY: the work was made for this stream, and does not run before the graph is launched.
        let template = capture(stream.handle(), || unsafe { queue(&mut work, stream) })?;
        Ok(PlannedLaunch::Graph(
            instantiate(stream.handle(), &template)?,
            changing,
        ))
    }
}

impl ChangingLaunch {
    fn new(
        stream: &StreamState,
        mut change: KernelCall,
        work: &mut [PlannedWork],
    ) -> Result<ChangingLaunch, DeviceFault> {
        let on = stream.handle();
        let template = capture(on, || {
            // SAFETY: the work was made for this stream, and does not run before the graph is launched.
            unsafe { change.queue("a change", on) }?;
            // SAFETY: as above.
            unsafe { queue(work, stream) }
        })?;
        let graph = instantiate(on, &template)?;
        let mut node = null_mut();
        let mut count = 1;
        template.call("a graph has no first node", |raw| {
            // SAFETY: the template is alive, and there is room for one node.
            unsafe { sys::cuGraphGetRootNodes(raw, &mut node, &mut count) }.result()
        })?;
        Ok(ChangingLaunch {
            graph,
            change,
            node,
            _template: template,
        })
    }

    fn queue(&mut self, stream: &StreamState, changes: &[RowUpdate]) -> Result<(), DeviceFault> {
        self.change.set_changes(changes);
        let node = self.node;
        let arguments = self.change.node();
        let set = "the rows of a graph can't be changed";
        // SAFETY: the node is the change of the template from which the graph was made, and the arguments are the
        // kernel's.
        self.graph.call(set, |graph| {
            unsafe { sys::cuGraphExecKernelNodeSetParams_v2(graph, node, &arguments) }.result()
        })?;
        // SAFETY: the graph was captured on this stream, whose memory outlives its work.
        stream
            .handle()
            .call("a graph can't be queued", |on| unsafe {
                launch(self.graph.raw, on)
            })
    }
}

/// Makes the GPU's context current, and queues work in order.
///
/// # Safety
///
/// The addresses in the work are memory that is large enough for it and outlives it.
unsafe fn queue(work: &mut [PlannedWork], stream: &StreamState) -> Result<(), DeviceFault> {
    let products = &stream.products;
    products.stream.gpu.bind()?;
    for work in work {
        match work {
            // SAFETY: the cell provides the kernel's arguments; the rest is the caller's promise.
            PlannedWork::Kernel(call) => unsafe { call.queue("a kernel", &products.stream) }?,
            // SAFETY: the caller's promise.
            PlannedWork::Product(product) => unsafe { products.multiply(product) }?,
        }
    }
    Ok(())
}
