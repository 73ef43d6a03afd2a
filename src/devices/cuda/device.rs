//! The interface between the backend and GPUs. CUDA implements it, and so do the tests' fake devices.
//!
//! All methods but [`Device::prepare`] and [`Device::begin`] only queue work and return at once. The work of one
//! [`DeviceStream`] runs in order; the work of several streams runs in any order that [`Device::wait`] permits.

use crate::base::units::{CellId, RequestId, StreamId, WorkerId};

/// A stream of a worker: a queue of work on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceStream {
    pub worker: WorkerId,
    pub id: StreamId,
}

/// The place of one state in a worker's pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateSlot(pub u32);

/// A batched cell that is ready to be launched: its arguments are set, its products are planned, its graph is captured.
/// It belongs to a stream, whose operands and workspace it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanId(pub u32);

/// The shape of a batch, for which a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchShape {
    pub stream: DeviceStream,
    pub cell: CellId,
    /// The rows of the batch, padding included.
    pub rows: u32,
    /// The number of input states of all rows, for cells whose products have a row for each (child-sum trees);
    /// otherwise 0.
    pub inputs: u32,
    /// The tokens to which each row is padded, for operators whose sizes depend on them; otherwise 0.
    pub tokens: u32,
    /// The steps of a launch of a persistent kernel, which runs each row up to its last node; 0 for a launch of the
    /// cell itself.
    pub steps: u32,
    /// Whether its last kernel increments the stream's signal.
    pub signals: bool,
}

/// A point in a stream's work for which other streams can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub stream: DeviceStream,
    pub number: u64,
}

/// One row of a batch: the node that runs in it next. A launch without a gather continues with the next node of each
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherRow {
    /// The node's request. The seed, the request and the node determine the word that the node reads.
    pub request: RequestId,
    pub node: u32,
    /// The last node that this row can run without another gather. After it the row is padding: computed, but not
    /// stored.
    pub last: u32,
    /// The slot for the node's state. Later nodes of the row read and write the same slot.
    pub state: StateSlot,
    /// The index of the request's first word among those of the run; its node `n` writes to `words + n`.
    pub words: u32,
    /// The tokens of the request, in a listed network; otherwise 0.
    pub tokens: u32,
    /// The end of its input states in [`DeviceBatch::inputs`]; the first row's begin at 0. A row without inputs reads
    /// zeros.
    pub inputs_end: u32,
}

/// The most rows that one launch changes. Their descriptions are parameters of a kernel, which have room for 4 KB; on an
/// H100 they cost nothing there, and 1.5 µs in the host's memory (`launches-and-steps.txt`).
pub const MOST_CHANGES: usize = 60;

/// A row that changes between two launches over a batch of chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowUpdate {
    /// The place of the row in the batch.
    pub at: u32,
    /// The row that is there from now on, or `None` for padding. Its first node reads the state in its own slot, or
    /// zeros if it is the first of its request. [`GatherRow::inputs_end`] is not used.
    pub row: Option<GatherRow>,
}

/// The members of a batch.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBatch<'a> {
    /// The rows with a node. A plan with more rows computes the rest as padding.
    pub rows: &'a [GatherRow],
    /// The input states of the rows, row by row.
    pub inputs: &'a [StateSlot],
}

/// The memory that a run needs on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// The number of states that suffices for all requests at once. A device may have less room ([`Device::begin`]).
    pub states: u64,
    /// The words that the requests write, with a place for each node; 0 for models that write none.
    pub words: u32,
    /// The states that are copied to the host, each to a place of its own.
    pub fetched: u32,
    /// The size of all these places, in numbers.
    pub numbers: u64,
}

/// A place for a state in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPlace {
    pub number: u32,
    /// Where it begins, in numbers.
    pub begin: u64,
    /// Its size in numbers, which may be less than a slot's.
    pub numbers: u32,
}

/// Why a device did not execute a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DeviceFault {
    /// The cause, in the driver's own words.
    pub reason: String,
    /// Whether the GPU of the called worker can no longer be used. A copy from another worker is a call of the stream's
    /// own worker.
    pub lost: bool,
}

impl DeviceFault {
    /// The fault of a GPU that stays usable.
    pub fn survivable(reason: String) -> DeviceFault {
        DeviceFault {
            reason,
            lost: false,
        }
    }
}

/// The GPUs of a host, each with one network. A worker is a GPU. Methods fail with the driver's faults.
pub trait Device {
    /// Prepares a run: the pools are empty, places for words and copied states exist, signals and events count from 0.
    /// Prepared plans stay. Returns how many states each worker's pool can hold. Fails if memory is short.
    fn begin(&mut self, workers: usize, needs: &MemoryNeeds) -> Result<Vec<u32>, DeviceFault>;

    /// The largest number of steps of `rows` chains in one launch of a persistent kernel; 0 if there is none.
    fn most_steps(&self, rows: u32) -> u32;

    /// Makes a batched cell ready to launch; opens its stream if it is new. This is slow, so it is called ahead. For a
    /// shape that is ready, also from an earlier run, it returns the same plan at once.
    fn prepare(&mut self, shape: BatchShape) -> Result<PlanId, DeviceFault>;

    /// Drops a plan. Launches that are queued still run.
    fn release(&mut self, plan: PlanId);

    /// Queues the gather of the batch's states and words into the operands of the plan's cell on its stream.
    fn gather(&mut self, plan: PlanId, batch: &DeviceBatch<'_>) -> Result<(), DeviceFault>;

    /// Queues the cell over the rows of the last gather of this cell on this stream. In launches that follow each other
    /// without a gather, each row continues with its next node. A plan may have fewer rows than the gather's if the
    /// rows behind them have ended. A launch that fails does not signal.
    fn launch(&mut self, plan: PlanId) -> Result<(), DeviceFault>;

    /// Queues changes of at most [`MOST_CHANGES`] rows of a chain's batch, and the cell over all rows. The other rows
    /// continue with their next nodes. The launch may have another size than the one before; if it has more rows, the
    /// changes name all of these. A launch that fails does not signal.
    fn launch_changed(&mut self, plan: PlanId, changes: &[RowUpdate]) -> Result<(), DeviceFault>;

    /// Queues an increment of the stream's signal, for work whose last launch does not signal.
    fn signal(&mut self, stream: DeviceStream) -> Result<(), DeviceFault>;

    /// The present count of a stream's signal: one read of the host's memory. Work that was queued before that signal
    /// is done, and its results on the host can be read.
    fn signal_count(&self, stream: DeviceStream) -> u64;

    /// Queues an event after the stream's present work.
    fn record(&mut self, stream: DeviceStream) -> Result<Event, DeviceFault>;

    /// Queues a wait of the stream, on the device, for an event, which may be of another worker.
    fn wait(&mut self, stream: DeviceStream, event: Event) -> Result<(), DeviceFault>;

    /// Queues a copy of a state from another worker's pool to that of this stream's worker. The caller waits for the
    /// source's event.
    fn copy_peer(
        &mut self,
        from: (WorkerId, StateSlot),
        to: (DeviceStream, StateSlot),
    ) -> Result<(), DeviceFault>;

    /// Queues a copy of a state to a place on the host. A place that is smaller takes the beginning of the state.
    fn copy_to_host(
        &mut self,
        stream: DeviceStream,
        slot: StateSlot,
        place: HostPlace,
    ) -> Result<(), DeviceFault>;

    /// A state that was copied to the host.
    fn fetched_state(&self, place: HostPlace) -> &[f32];

    fn word(&self, place: u32) -> u32;

    /// Whether a NaN or an infinity was stored in a slot since the last call.
    fn take_non_finite(&mut self, worker: WorkerId, slot: StateSlot) -> bool;

    /// Asks the driver for the state of a worker's GPU. This is more expensive than [`Device::signal_count`], so it is
    /// called only from time to time. Fails if the GPU is lost.
    fn health(&mut self, worker: WorkerId) -> Result<(), DeviceFault>;

    /// Gives up a GPU whose work does not end. No later call touches it, because the driver would wait for that work.
    fn give_up(&mut self, worker: WorkerId, reason: &str);
}
