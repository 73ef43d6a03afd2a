//! A stream of a GPU, with everything that its work uses.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

use cudarc::driver::result;
use cudarc::driver::sys::{
    CUevent, CUevent_flags, CUevent_wait_flags, CUresult, CUstream, cuStreamQuery,
};

use super::call::Call;
use super::cells::{Cell, Tail, Work};
use super::compile::Kernels;
use super::cublas::{Handle, Size};
use super::driver::Owned;
use super::memory::{Mapped, Memory, ROW, Staging};
use super::worker::Worker;
use crate::base::precision::Precision;
use crate::devices::cuda::device::{Fault, Shape};

/// The number of CUDA events of a stream. A later event reuses the handle of an earlier one; a stream that waits for
/// the earlier one then waits for the later, which is queued too.
const EVENTS: u64 = 64;

/// The stream. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub(super) struct StreamState {
    pub products: Handle,
    /// The sizes of products whose kernels are loaded.
    loaded: RefCell<HashSet<Size>>,
    events: Vec<Owned<CUevent>>,
    /// The working memories, each of several [pieces](StreamState::pieces): one for each cell type, and the last for
    /// persistent kernels. Cells that share one use the first. Empty if there was no batch yet.
    batches: Vec<Vec<Memory>>,
    pub staging: Staging,
    /// The signal's counters, on the GPU and on the host.
    counted: Memory,
    host: Mapped<u64>,
    signal: Call,
    /// The numbers of queued signals and of recorded events.
    pub queued: u64,
    recorded: u64,
}

impl StreamState {
    pub fn open(worker: &Worker, precision: Precision) -> Result<StreamState, Fault> {
        let Worker {
            gpu,
            kernels,
            cublas,
            cells,
            ..
        } = worker;
        let products = Handle::new(gpu, cublas, precision)?;
        let event = |_| {
            let event = || result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING);
            let event = gpu.call("a stream can't be made", event)?;
            // SAFETY: it was made above.
            Ok(unsafe { Owned::new(gpu, event, result::event::destroy) })
        };
        let events = (0..EVENTS).map(event).collect::<Result<_, _>>()?;
        let counted = Memory::zeros(gpu, size_of::<u64>(), "a signal")?;
        let host = Mapped::new(gpu, 1, "a signal")?;
        Ok(StreamState {
            products,
            loaded: RefCell::default(),
            events,
            batches: (0..=cells.len()).map(|_| Vec::new()).collect(),
            staging: Staging::new(gpu),
            signal: signal(kernels, &counted, &host),
            counted,
            host,
            queued: 0,
            recorded: 0,
        })
    }

    /// Signals and events count from 0 again. No work may be queued.
    pub fn reset(&mut self) -> Result<(), Fault> {
        self.counted.clear()?;
        self.host.at(0).store(0, Ordering::Release);
        self.staging.reset();
        (self.queued, self.recorded) = (0, 0);
        Ok(())
    }

    pub fn on(&self) -> &Owned<CUstream> {
        &self.products.stream
    }

    /// Runs products of sizes that are new to the stream, or `all`: cuBLAS loads a kernel at its first use, which takes
    /// milliseconds, and which it can't do while a graph is captured. The results are overwritten by the first launch.
    ///
    /// # Safety
    ///
    /// The stream's memory is large enough for the work.
    pub unsafe fn load_products(&self, work: &[Work], all: bool) -> Result<(), Fault> {
        self.on().gpu.bind()?;
        let is_new = |size| self.loaded.borrow_mut().insert(size) || all;
        work.iter().try_for_each(|work| match work {
            // SAFETY: the caller's promise, and the memory outlives the stream's work.
            Work::Product(product) if is_new(product.size()) => unsafe {
                self.products.multiply(product)
            },
            _ => Ok(()),
        })
    }

    fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the stream is alive.
        self.on()
            .call("broke off", |on| unsafe { result::stream::synchronize(on) })
    }

    /// Makes a working memory large enough for a batch of a cell. Returns whether it has moved, which invalidates the
    /// plans that use it; gathered rows move with it. After a fault the old one stays.
    pub fn fit(
        &mut self,
        memory: usize,
        of: &dyn Cell,
        shape: &Shape,
        precision: Precision,
    ) -> Result<bool, Fault> {
        let bytes = |rows: u32, inputs: u32, steps: u32| -> Vec<usize> {
            let table = [
                rows as usize * ROW,
                inputs.max(MOST_INPUTS * rows) as usize,
                1,
                1,
            ];
            let buffers = of.buffers(&Shape {
                rows,
                inputs,
                steps,
                ..*shape
            });
            let buffers = buffers.into_iter().map(|buffer| buffer.bytes(precision));
            table
                .into_iter()
                .map(|numbers| numbers * size_of::<u32>())
                .chain(buffers)
                .collect()
        };
        let (rows, inputs, steps) = (shape.rows.max(1), shape.inputs, shape.steps);
        let needed = bytes(rows, inputs, steps);
        let old = &self.batches[memory];
        if !old.is_empty()
            && needed
                .iter()
                .zip(old)
                .all(|(needed, old)| *needed <= old.bytes)
        {
            return Ok(false);
        }
        // Powers of two, so that growth row by row or step by step moves memory only a few times.
        let steps = if steps == 0 {
            0
        } else {
            steps.next_power_of_two()
        };
        let mut larger = bytes(rows.next_power_of_two(), inputs.next_power_of_two(), steps);
        // A larger batch may be split into more launches, each of which is smaller.
        larger
            .iter_mut()
            .zip(&needed)
            .for_each(|(bytes, needed)| *bytes = *needed.max(bytes));
        larger
            .iter_mut()
            .zip(old)
            .for_each(|(bytes, old)| *bytes = old.bytes.max(*bytes));
        self.synchronize()?;
        self.staging
            .fit((larger[ROWS] + larger[INPUTS]) / size_of::<u32>())?;
        let new = larger
            .into_iter()
            .map(|bytes| Memory::zeros(&self.on().gpu, bytes, "the working memory of batches"));
        let mut new = new.collect::<Result<Vec<Memory>, Fault>>()?;
        // Rows keep their places, since none is wider than before.
        new.iter_mut()
            .zip(old)
            .try_for_each(|(new, old)| new.take_over(old))?;
        self.batches[memory] = new;
        Ok(true)
    }

    /// The addresses of a working memory's pieces: the tables of rows and of their inputs, the launches since the gather,
    /// the blocks that have arrived, and the buffers of the cell.
    pub fn pieces(&self, memory: usize) -> Vec<u64> {
        self.batches[memory].iter().map(Memory::address).collect()
    }

    /// The most input slots of a batch.
    pub fn room(&self, memory: usize) -> usize {
        self.batches[memory][INPUTS].bytes / size_of::<u32>()
    }

    pub fn tail(&self, arrived: u64, signals: bool) -> Tail {
        Tail {
            arrived,
            counted: self.counted.address(),
            host: self.host.address(0),
            signals,
        }
    }

    pub fn next_signal(&self) -> u64 {
        self.queued + 1
    }

    pub fn signal(&mut self) -> Result<(), Fault> {
        self.on().gpu.bind()?;
        // SAFETY: the kernel and the two counters, which are its arguments, live as long as the stream.
        unsafe { self.signal.queue("a signal", &self.products.stream) }?;
        self.queued += 1;
        Ok(())
    }

    pub fn signalled(&self) -> u64 {
        // The GPU's earlier writes are visible when the count is.
        self.host.at(0).load(Ordering::Acquire)
    }

    pub fn record(&mut self) -> Result<u64, Fault> {
        let number = self.recorded;
        // SAFETY: event and stream are alive, and of one context.
        let record = |on| unsafe { result::event::record(self.event(number), on) };
        self.on().call("an event can't be queued", record)?;
        self.recorded += 1;
        Ok(number)
    }

    pub fn event(&self, number: u64) -> CUevent {
        self.events[(number % EVENTS) as usize].raw
    }

    /// Queues a wait for an event.
    ///
    /// # Safety
    ///
    /// The event is alive.
    pub unsafe fn wait(&self, event: CUevent) -> Result<(), Fault> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream is alive, the event by the caller's promise.
        self.on().call("a wait can't be queued", |on| unsafe {
            result::stream::wait_event(on, event, flags)
        })
    }

    /// Asks the driver for failed work.
    pub fn health(&self) -> Result<(), Fault> {
        // SAFETY: the stream is alive.
        self.on().call("a computation failed", |on| {
            match unsafe { cuStreamQuery(on) } {
                CUresult::CUDA_ERROR_NOT_READY => Ok(()),
                status => status.result(),
            }
        })
    }
}

fn signal(kernels: &Kernels, counted: &Memory, host: &Mapped<u64>) -> Call {
    Call::new(
        kernels.function("signal"),
        (1, 1),
        (counted.address(), host.address(0)),
    )
    .of_threads(1)
}

/// The inputs of a node whose cell does not count them: at most the two children in a binary tree.
const MOST_INPUTS: u32 = 2;

/// The first pieces of a working memory.
const ROWS: usize = 0;
const INPUTS: usize = 1;
