//! A stream of a GPU, with everything that its work uses.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::result;
use cudarc::driver::sys::{
    CUevent, CUevent_flags, CUevent_wait_flags, CUresult, CUstream, cuStreamQuery,
};

use super::call::KernelCall;
use super::cells::{GpuCell, PlannedWork, Tail};
use super::compile::LoadedKernels;
use super::cublas::{Cublas, Handle, ProductSize};
use super::driver::{Gpu, Owned};
use super::memory::{GpuMemory, Mapped, ROW, Staging};
use crate::base::precision::Precision;
use crate::devices::cuda::device::{BatchShape, DeviceFault};

/// The number of CUDA events of a stream. A later event reuses the handle of an earlier one; a stream that waits for
/// the earlier one then waits for the later, which is queued too.
const EVENTS: u64 = 64;

/// An open stream. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub(super) struct StreamState {
    pub products: Handle,
    /// The sizes of products whose kernels are loaded.
    loaded: RefCell<HashSet<ProductSize>>,
    events: Vec<Owned<CUevent>>,
    /// The working memories, each of several [pieces](StreamState::pieces): one for each cell type, and the last for
    /// persistent kernels. Cells that share one use the first. A memory is empty before its first batch.
    batches: Vec<Vec<GpuMemory>>,
    /// For each working memory, whether the operand is in the second of its [places](GpuCell::places).
    pub moved: Vec<bool>,
    pub staging: Staging,
    /// The signal's counter on the GPU.
    counted: GpuMemory,
    /// The signal's counter on the host.
    host: Mapped<u64>,
    signal: KernelCall,
    /// The number of queued signals.
    pub queued: u64,
    /// The number of recorded events.
    recorded: u64,
}

impl StreamState {
    /// Opens a stream with empty working memories: one for each cell type, and one for persistent kernels.
    pub fn open(
        gpu: &Arc<Gpu>,
        cublas: &Cublas,
        kernels: &LoadedKernels,
        cell_types: usize,
        precision: Precision,
    ) -> Result<StreamState, DeviceFault> {
        let products = Handle::new(gpu, cublas, precision)?;
        let mut events = Vec::new();
        for _ in 0..EVENTS {
            let event = gpu.call("a stream can't be made", || {
                result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING)
            })?;
            // SAFETY: it was made above.
            events.push(unsafe { Owned::new(gpu, event, result::event::destroy) });
        }
        let counted = GpuMemory::zeros(gpu, size_of::<u64>(), "a signal")?;
        let host = Mapped::new(gpu, 1, "a signal")?;
        Ok(StreamState {
            products,
            loaded: RefCell::default(),
            events,
            batches: (0..=cell_types).map(|_| Vec::new()).collect(),
            moved: vec![false; cell_types + 1],
            staging: Staging::new(gpu),
            signal: signal(kernels, &counted, &host),
            counted,
            host,
            queued: 0,
            recorded: 0,
        })
    }

    /// Makes signals and events count from 0 again. No work may be queued.
    pub fn reset(&mut self) -> Result<(), DeviceFault> {
        self.counted.clear()?;
        self.host.get(0).store(0, Ordering::Release);
        self.staging.reset();
        (self.queued, self.recorded) = (0, 0);
        Ok(())
    }

    /// The driver's handle of the stream.
    pub fn handle(&self) -> &Owned<CUstream> {
        &self.products.stream
    }

    /// Runs products of sizes that are new to the stream, or `all` products. cuBLAS loads a kernel at its first use,
    /// which takes milliseconds, and which it can't do while a graph is captured. The first launch overwrites the
    /// results.
    ///
    /// # Safety
    ///
    /// The stream's memory is large enough for the work.
    pub unsafe fn load_products(&self, work: &[PlannedWork], all: bool) -> Result<(), DeviceFault> {
        self.handle().gpu.bind()?;
        for work in work {
            let PlannedWork::Product(product) = work else {
                continue;
            };
            let is_new = self.loaded.borrow_mut().insert(product.size());
            if is_new || all {
                // SAFETY: the caller's promise, and the memory outlives the stream's work.
                unsafe { self.products.multiply(product) }?;
            }
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceFault> {
        // SAFETY: the stream is alive.
        self.handle()
            .call("broke off", |on| unsafe { result::stream::synchronize(on) })
    }

    /// Makes a working memory large enough for a batch of a cell. Returns whether it has moved, which invalidates the
    /// plans that use it; gathered rows move with it. After a fault the old memory stays.
    pub fn fit(
        &mut self,
        memory: usize,
        cell: &dyn GpuCell,
        shape: &BatchShape,
        precision: Precision,
    ) -> Result<bool, DeviceFault> {
        let exact = BatchShape {
            rows: shape.rows.max(1),
            ..*shape
        };
        let needed = piece_sizes(cell, &exact, precision);
        let old = &self.batches[memory];
        if !old.is_empty()
            && needed
                .iter()
                .zip(old)
                .all(|(needed, old)| *needed <= old.bytes)
        {
            return Ok(false);
        }
        // Sizes are rounded up to powers of two, so that growth row by row or step by step moves memory only a few
        // times.
        let rounded = BatchShape {
            rows: exact.rows.next_power_of_two(),
            inputs: exact.inputs.next_power_of_two(),
            steps: if exact.steps == 0 {
                0
            } else {
                exact.steps.next_power_of_two()
            },
            ..exact
        };
        let mut larger = piece_sizes(cell, &rounded, precision);
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
        let new = larger.into_iter().map(|bytes| {
            GpuMemory::zeros(&self.handle().gpu, bytes, "the working memory of batches")
        });
        let mut new = new.collect::<Result<Vec<GpuMemory>, DeviceFault>>()?;
        // Rows keep their places, since none is wider than before.
        new.iter_mut()
            .zip(old)
            .try_for_each(|(new, old)| new.take_over(old))?;
        self.batches[memory] = new;
        Ok(true)
    }

    /// Queues a copy of an operand to the first of its places, if it is in the second.
    pub fn move_back(&mut self, memory: usize, places: &OperandPlaces) -> Result<(), DeviceFault> {
        if !self.moved[memory] {
            return Ok(());
        }
        let OperandPlaces {
            addresses: [first, second],
            bytes,
        } = *places;
        // SAFETY: both places are buffers of the working memory, which outlives the stream's work and fits the rows.
        self.handle()
            .call("an operand can't be moved", |on| unsafe {
                result::memcpy_dtod_async(first, second, bytes, on)
            })?;
        self.moved[memory] = false;
        Ok(())
    }

    /// The addresses of a working memory's pieces: the tables of rows and of their inputs, the launches since the
    /// gather, the blocks that have arrived, and the buffers of the cell.
    pub fn pieces(&self, memory: usize) -> Vec<u64> {
        self.batches[memory]
            .iter()
            .map(GpuMemory::address)
            .collect()
    }

    /// The most input slots of a batch.
    pub fn room(&self, memory: usize) -> usize {
        self.batches[memory][INPUTS].bytes / size_of::<u32>()
    }

    /// The counters that the end of a launch updates.
    pub fn tail(&self, arrived: u64, signals: bool) -> Tail {
        Tail {
            arrived,
            counted: self.counted.address(),
            host: self.host.address(0),
            signals,
        }
    }

    /// The count of the signal after the work that is queued next.
    pub fn next_signal(&self) -> u64 {
        self.queued + 1
    }

    /// Queues an increment of the signal, in a kernel of its own.
    pub fn signal(&mut self) -> Result<(), DeviceFault> {
        self.handle().gpu.bind()?;
        // SAFETY: the kernel and the two counters, which are its arguments, live as long as the stream.
        unsafe { self.signal.queue("a signal", &self.products.stream) }?;
        self.queued += 1;
        Ok(())
    }

    /// The present count of the signal.
    pub fn signal_count(&self) -> u64 {
        // The GPU's earlier writes are visible when the count is.
        self.host.get(0).load(Ordering::Acquire)
    }

    /// Queues an event, and returns its number.
    pub fn record(&mut self) -> Result<u64, DeviceFault> {
        let number = self.recorded;
        self.handle().call("an event can't be queued", |on| {
            // SAFETY: event and stream are alive, and of one context.
            unsafe { result::event::record(self.event(number), on) }
        })?;
        self.recorded += 1;
        Ok(number)
    }

    /// The handle of a recorded event.
    pub fn event(&self, number: u64) -> CUevent {
        self.events[(number % EVENTS) as usize].raw
    }

    /// Queues a wait for an event.
    ///
    /// # Safety
    ///
    /// The event is alive.
    pub unsafe fn wait(&self, event: CUevent) -> Result<(), DeviceFault> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream is alive, the event by the caller's promise.
        self.handle().call("a wait can't be queued", |on| unsafe {
            result::stream::wait_event(on, event, flags)
        })
    }

    /// Asks NVIDIA's driver whether work has failed.
    pub fn health(&self) -> Result<(), DeviceFault> {
        // SAFETY: the stream is alive.
        self.handle().call("a computation failed", |on| {
            match unsafe { cuStreamQuery(on) } {
                CUresult::CUDA_ERROR_NOT_READY => Ok(()),
                status => status.result(),
            }
        })
    }
}

/// The [places](GpuCell::places) of an operand that has two, and the bytes of a batch's rows there.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandPlaces {
    pub addresses: [u64; 2],
    pub bytes: usize,
}

/// The sizes of the pieces of a working memory for batches of a shape, in bytes.
fn piece_sizes(cell: &dyn GpuCell, shape: &BatchShape, precision: Precision) -> Vec<usize> {
    let rows = shape.rows as usize * ROW;
    let inputs = shape.inputs.max(MOST_INPUTS * shape.rows) as usize;
    let mut sizes = [rows, inputs, 1, 1]
        .map(|numbers| numbers * size_of::<u32>())
        .to_vec();
    for buffer in cell.buffers(shape) {
        sizes.push(buffer.bytes(precision));
    }
    sizes
}

/// The launch of the kernel that only signals.
fn signal(kernels: &LoadedKernels, counted: &GpuMemory, host: &Mapped<u64>) -> KernelCall {
    KernelCall::new(
        kernels.function("signal"),
        (1, 1),
        (counted.address(), host.address(0)),
    )
    .with_threads(1)
}

/// The most inputs of a node whose cell does not count them: the two children in a binary tree.
const MOST_INPUTS: u32 = 2;

/// The indices of the first pieces of a working memory.
const ROWS: usize = 0;
const INPUTS: usize = 1;
