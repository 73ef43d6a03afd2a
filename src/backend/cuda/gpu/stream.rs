//! A stream: a stream of a GPU with all that its work uses.

use std::collections::HashSet;
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUresult, CUstream, cuStreamQuery};

use super::call::Call;
use super::cells::{Cell, Table, Tail};
use super::compile::{Kernel, Kernels};
use super::cublas::{Cublas, Handle, Size};
use super::driver::Gpu;
use super::memory::{Mapped, Memory, ROW, Staging};
use crate::backend::cuda::device::{Fault, Shape};
use crate::gpu_settings::Precision;

/// The events of a stream that have events of their own. A later event takes the event of an earlier one; who then waits for the
/// earlier one waits for the later, which is queued too and so comes.
const EVENTS: u64 = 64;

/// A stream of a GPU.
#[derive(Debug)]
pub(super) struct RawStream {
    gpu: Arc<Gpu>,
    stream: CUstream,
}

impl RawStream {
    /// Makes a stream, which waits for no other.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn new(gpu: &Arc<Gpu>) -> Result<RawStream, Fault> {
        gpu.bind()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        let stream = stream.map_err(|error| gpu.fault("a stream can't be made", error))?;
        Ok(RawStream { gpu: Arc::clone(gpu), stream })
    }

    pub fn handle(&self) -> CUstream {
        self.stream
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was made once and is given back once; the driver lets what is queued run to its end.
            let _ = unsafe { result::stream::destroy(self.stream) };
        }
    }
}

/// A point in a stream that others wait for.
#[derive(Debug)]
struct RawEvent {
    gpu: Arc<Gpu>,
    event: CUevent,
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was made once and is given back once; the driver keeps it for whoever waits.
            let _ = unsafe { result::event::destroy(self.event) };
        }
    }
}

/// The stream. What is first uses what stands behind it.
#[derive(Debug)]
pub(super) struct StreamState {
    products: Handle,
    /// The sizes of products whose kernels are loaded.
    loaded: HashSet<Size>,
    raw: RawStream,
    events: Vec<RawEvent>,
    _workspace: Memory,
    /// The working memory of each cell type that the stream has run, and that of persistent kernels; of cells that share one the first alone has it.
    batches: Vec<Option<Batching>>,
    pub staging: Staging,
    /// How far the signal has counted, on the GPU and for the host.
    counted: Memory,
    host: Mapped<u64>,
    signal: Call,
    /// The signals that were queued, and the events.
    queued: u64,
    recorded: u64,
    gpu: Arc<Gpu>,
}

impl StreamState {
    /// Opens a stream with so many working memories.
    ///
    /// # Errors
    /// Memory that is not there.
    pub fn open(
        gpu: &Arc<Gpu>,
        kernels: &Kernels,
        cublas: &Cublas,
        precision: Precision,
        memories: usize,
    ) -> Result<StreamState, Fault> {
        gpu.bind()?;
        let made = |error| gpu.fault("a stream can't be made", error);
        let raw = RawStream::new(gpu)?;
        let event = || {
            let event = result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING);
            event.map(|event| RawEvent { gpu: Arc::clone(gpu), event }).map_err(made)
        };
        let events = (0..EVENTS).map(|_| event()).collect::<Result<_, _>>()?;
        let workspace = Memory::new(gpu, workspace(gpu), "products' workspace")?;
        // SAFETY: the handle is given back before the stream and the workspace, which stand behind it in the stream.
        let products = unsafe { Handle::new(cublas, precision, raw.stream, (workspace.address(), workspace.bytes())) }?;
        let counted = Memory::zeros(gpu, size_of::<u64>(), "a signal")?;
        let host = Mapped::new(gpu, 1, "a signal")?;
        Ok(StreamState {
            products,
            loaded: HashSet::new(),
            raw,
            events,
            _workspace: workspace,
            batches: (0..memories).map(|_| None).collect(),
            staging: Staging::new(gpu),
            signal: signal(kernels, &counted, &host),
            counted,
            host,
            queued: 0,
            recorded: 0,
            gpu: Arc::clone(gpu),
        })
    }

    /// Signals and events count from 0. Nothing is queued.
    pub fn reset(&mut self) -> Result<(), Fault> {
        self.counted.clear()?;
        self.host.set(0, 0);
        self.staging.reset();
        (self.queued, self.recorded) = (0, 0);
        Ok(())
    }

    pub fn raw(&self) -> CUstream {
        self.raw.stream
    }

    pub fn products(&self) -> &Handle {
        &self.products
    }

    /// Whether no product of this size has been asked for before.
    pub fn is_new(&mut self, size: Size) -> bool {
        self.loaded.insert(size)
    }

    /// Waits for all that is queued.
    pub fn synchronize(&self) -> Result<(), Fault> {
        self.gpu.bind()?;
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.raw()) }.map_err(|error| self.gpu.fault("broke off", error))
    }

    /// Makes one of the working memories large enough for a batch of a cell. Says whether it has moved, so that plans that were made
    /// with it no longer hold; what was brought together in it has moved with it.
    ///
    /// # Errors
    /// Memory that is not there; the old one stays.
    pub fn fit(&mut self, memory: usize, of: &dyn Cell, shape: &Shape, precision: Precision) -> Result<bool, Fault> {
        let (rows, inputs) = (shape.rows.max(1), shape.inputs);
        let bytes = |rows, inputs, steps| -> Vec<usize> {
            let buffers = of.buffers(&Shape { rows, inputs, steps, ..*shape }).into_iter();
            buffers.map(|buffer| buffer.bytes(precision)).collect()
        };
        let needed = bytes(rows, inputs, shape.steps);
        let old = self.batches[memory].as_ref();
        if old.is_some_and(|old| rows <= old.rows && inputs <= old.inputs && old.holds(&needed)) {
            return Ok(false);
        }
        // In powers of two, so that growing row by row, or step by step, moves memory a few times alone.
        let (rows, inputs) = (rows.next_power_of_two(), inputs.next_power_of_two());
        let steps = if shape.steps == 0 { 0 } else { shape.steps.next_power_of_two() };
        let (rows, inputs) = old.map_or((rows, inputs), |old| (rows.max(old.rows), inputs.max(old.inputs)));
        let mut bytes = bytes(rows, inputs, steps);
        // A larger batch may be in more launches, each of which is smaller.
        bytes.iter_mut().zip(&needed).for_each(|(bytes, needed)| *bytes = *needed.max(bytes));
        if let Some(old) = old {
            bytes.iter_mut().zip(&old.buffers).for_each(|(bytes, old)| *bytes = old.bytes().max(*bytes));
        }
        self.synchronize()?;
        self.staging.fit(rows as usize, inputs.max(MOST_INPUTS * rows) as usize)?;
        let mut new = Batching::new(&self.gpu, rows, inputs, &bytes)?;
        if let Some(old) = &self.batches[memory] {
            new.take_over(old)?;
        }
        self.batches[memory] = Some(new);
        Ok(true)
    }

    /// A working memory that was made to fit.
    pub fn batching(&self, memory: usize) -> &Batching {
        self.batches[memory].as_ref().expect("a plan's memory is made before the plan")
    }

    /// Where a launch in a working memory counts its end.
    pub fn tail(&self, memory: usize, signals: bool) -> Tail {
        let arrived = self.batching(memory).arrived.address();
        Tail { arrived, counted: self.counted.address(), host: self.host.address(0), signals }
    }

    /// The kernel that only signals.
    pub fn signal_call(&self, kernels: &Kernels) -> Call {
        signal(kernels, &self.counted, &self.host)
    }

    /// The number of the next signal to be queued.
    pub fn next_signal(&self) -> u64 {
        self.queued + 1
    }

    /// Something was queued that signals.
    pub fn count_signal(&mut self) {
        self.queued += 1;
    }

    /// Queues a signal.
    pub fn signal(&mut self) -> Result<(), Fault> {
        let raw = self.raw();
        self.gpu.bind()?;
        // SAFETY: the kernel and the two numbers, which are its arguments, live as long as the stream.
        unsafe { self.signal.queue(raw) }.map_err(|error| self.gpu.fault("a signal can't be queued", error))?;
        self.count_signal();
        Ok(())
    }

    /// How far the signal has counted.
    pub fn signalled(&self) -> u64 {
        self.host.acquire(0)
    }

    /// Queues an event and gives its number.
    pub fn record(&mut self) -> Result<u64, Fault> {
        let number = self.recorded;
        self.gpu.bind()?;
        // SAFETY: event and stream are alive, and of one context.
        unsafe { result::event::record(self.event(number), self.raw()) }
            .map_err(|error| self.gpu.fault("an event can't be queued", error))?;
        self.recorded += 1;
        Ok(number)
    }

    /// The event of an event.
    pub fn event(&self, number: u64) -> CUevent {
        self.events[(number % EVENTS) as usize].event
    }

    /// Queues that the stream waits for an event.
    ///
    /// # Safety
    /// The event is alive.
    pub unsafe fn wait(&mut self, event: CUevent) -> Result<(), Fault> {
        self.gpu.bind()?;
        // SAFETY: the stream is alive, the event by the caller's promise.
        unsafe { result::stream::wait_event(self.raw(), event, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .map_err(|error| self.gpu.fault("a wait can't be queued", error))
    }

    /// Asks the driver how the stream's work goes.
    pub fn health(&self) -> Result<(), Fault> {
        self.gpu.bind()?;
        // SAFETY: the stream is alive.
        let status = unsafe { cuStreamQuery(self.raw()) };
        if status == CUresult::CUDA_ERROR_NOT_READY {
            return Ok(());
        }
        status.result().map_err(|error| self.gpu.fault("a computation failed", error))
    }
}

/// A launch of the kernel that only signals.
fn signal(kernels: &Kernels, counted: &Memory, host: &Mapped<u64>) -> Call {
    Call::new(kernels.function(Kernel::Signal), (1, 1), (counted.address(), host.address(0))).of_threads(1)
}

/// The inputs of a node whose cell does not count them: at most the two children of a binary tree's.
const MOST_INPUTS: u32 = 2;

/// The bytes that cuBLAS asks for on a GPU: on recent ones its products share out more work.
pub(super) fn workspace(gpu: &Gpu) -> usize {
    let mebibytes = if gpu.architecture >= 90 { 32 } else { 8 };
    mebibytes << 20
}

/// The memory that batches of one cell type take on a stream.
#[derive(Debug)]
pub(super) struct Batching {
    rows: u32,
    inputs: u32,
    table_rows: Memory,
    table_inputs: Memory,
    age: Memory,
    arrived: Memory,
    buffers: Vec<Memory>,
}

impl Batching {
    fn new(gpu: &Arc<Gpu>, rows: u32, inputs: u32, bytes: &[usize]) -> Result<Batching, Fault> {
        let what = "the working memory of batches";
        let number = || Memory::zeros(gpu, size_of::<u32>(), what);
        let buffers = bytes.iter().map(|bytes| Memory::zeros(gpu, *bytes, what));
        Ok(Batching {
            rows,
            inputs,
            table_rows: Memory::zeros(gpu, rows as usize * ROW * size_of::<u32>(), what)?,
            table_inputs: Memory::zeros(gpu, inputs.max(MOST_INPUTS * rows) as usize * size_of::<u32>(), what)?,
            age: number()?,
            arrived: number()?,
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }

    /// Whether its buffers have room for so many bytes each.
    fn holds(&self, bytes: &[usize]) -> bool {
        bytes.iter().zip(&self.buffers).all(|(bytes, buffer)| *bytes <= buffer.bytes())
    }

    /// Goes on with what smaller memory of the same cell holds. Rows stand where they stood: none is wider than it was.
    fn take_over(&mut self, old: &Batching) -> Result<(), Fault> {
        self.table_rows.take_over(&old.table_rows)?;
        self.table_inputs.take_over(&old.table_inputs)?;
        self.age.take_over(&old.age)?;
        self.buffers.iter_mut().zip(&old.buffers).try_for_each(|(new, old)| new.take_over(old))
    }

    pub fn table(&self) -> Table {
        let (rows, inputs) = (self.table_rows.address(), self.table_inputs.address());
        Table { rows, inputs, age: self.age.address() }
    }

    pub fn buffers(&self) -> Vec<u64> {
        self.buffers.iter().map(Memory::address).collect()
    }

    /// The input slots that there is room for.
    pub fn room(&self) -> usize {
        self.inputs.max(MOST_INPUTS * self.rows) as usize
    }
}
