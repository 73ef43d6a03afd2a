//! What the backend asks of GPUs: the seam below which there is CUDA, or a test's stand-in.
//!
//! Everything but [`Device::prepare`] and [`Device::begin`] only queues work and comes back at once. What is queued on one
//! [`Stream`] runs in order; work of several streams runs in any order that [`Device::wait`] leaves open.

use std::fmt;

use crate::units::{CellId, RequestId, StreamId, WorkerId};

/// A stream of a worker: a queue of work on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    /// The GPU.
    pub worker: WorkerId,
    /// Its number among the worker's.
    pub id: StreamId,
}

/// A place for one state in a worker's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// A batched cell that is ready to be launched: its kernels' arguments stand, its products are planned, its graph, if it has
/// one, is captured. It belongs to a stream, whose operands and workspace it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan(pub u32);

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Where it runs.
    pub stream: Stream,
    /// The cell type.
    pub cell: CellId,
    /// The rows of the batch, padding included.
    pub rows: u32,
    /// The input states of all rows, for cells whose products have a row for each of them (child-sum trees); 0 for all others.
    pub inputs: u32,
    /// The tokens that each row is padded to, for operators whose sizes depend on them; 0 for all others.
    pub tokens: u32,
    /// The steps that a launch runs, in a persistent kernel, of each row up to its last node; 0 for the cell itself, which runs one.
    pub steps: u32,
    /// Whether its last kernel counts the stream's signal up.
    pub signals: bool,
}

/// A point in a stream's work that other streams can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The stream.
    pub stream: Stream,
    /// Counts the stream's events.
    pub number: u64,
}

/// One row of a batch: the node that runs in it next. A launch without a gather passes to the next node of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose node it is; the seed, the request and the node give the word that it reads.
    pub request: RequestId,
    /// The node's number.
    pub node: u32,
    /// The last node that this row can run in launches that go on without a gather, or in a launch of several steps. Behind it the row
    /// is padding: computed, and not stored.
    pub last: u32,
    /// Where the node's state goes. Nodes that follow in this row take it from there and put theirs there.
    pub state: Slot,
    /// Where the words that the request writes begin among those of the run; its node `n` writes at `words + n`.
    pub words: u32,
    /// The tokens of the request, in a network that a file lists; 0 in all others.
    pub tokens: u32,
    /// Where its input states end in [`Batch::inputs`]; the first row's begin at 0. A row without inputs takes zeros.
    pub inputs_end: u32,
}

/// The members of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The rows with a node. A plan with more rows computes the others as padding.
    pub rows: &'a [Row],
    /// The states that the rows take, one row behind the other.
    pub inputs: &'a [Slot],
}

/// What a run needs of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The states that would be enough for all requests at once. A device may have less room ([`Device::slots`]).
    pub states: u64,
    /// The words that the run's requests write, with a place for each of their nodes; 0 for models that write none.
    pub words: u32,
    /// The states that are fetched for the host, each to a place of its own.
    pub fetched: u32,
    /// The numbers in all of these places.
    pub numbers: u64,
}

/// A place of the host's for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPlace {
    /// Counts the places of the run.
    pub number: u32,
    /// Where it begins among the numbers of all places.
    pub begin: u64,
    /// The numbers that it has room for, which may be fewer than a slot has.
    pub numbers: u32,
}

/// Why a device did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened, with the driver's own words.
    pub reason: String,
    /// Whether the GPU can't be used any more of the worker that was asked: of a stream that takes from another's, the stream's own.
    pub lost: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The GPUs of a host with one network on each of them. A worker is a GPU.
pub trait Device {
    /// Makes the device ready for a run of so many workers: pools are empty, places of words and fetched states are there,
    /// signals and events count from 0. What was prepared stays.
    ///
    /// # Errors
    /// Memory that is not there.
    fn begin(&mut self, workers: usize, needs: &Needs) -> Result<(), Fault>;

    /// How many states a worker's pool has room for.
    fn slots(&self, worker: WorkerId) -> u32;

    /// The most steps of so many chains that a launch of a persistent kernel runs; 0 where there is none.
    fn most_steps(&self, rows: u32) -> u32;

    /// Makes a batched cell ready to launch; opens its stream if it is new. Takes its time, so that it is called ahead. A shape
    /// that is ready, of an earlier run too, gives its plan again at once.
    ///
    /// # Errors
    /// Memory that is not there; a product that the library refuses.
    fn prepare(&mut self, shape: Shape) -> Result<Plan, Fault>;

    /// Gives up a plan. What was launched of it runs to its end.
    fn release(&mut self, plan: Plan);

    /// Queues that the batch's states and words are brought together as the operands of the plan's cell on its stream.
    ///
    /// # Errors
    /// Those of the driver.
    fn gather(&mut self, plan: Plan, batch: &Batch<'_>) -> Result<(), Fault>;

    /// Queues the cell over the rows that the last gather of this cell on this stream brought together; in launches that
    /// follow each other without a gather, each row passes to its next node.
    ///
    /// # Errors
    /// Those of the driver. A launch that fails counts no signal.
    fn launch(&mut self, plan: Plan) -> Result<(), Fault>;

    /// Queues that the stream's signal counts up by one, for work whose last launch does not.
    ///
    /// # Errors
    /// Those of the driver.
    fn signal(&mut self, stream: Stream) -> Result<(), Fault>;

    /// How far a stream's signal has counted in this run. Costs no more than a look at the host's memory. What was queued
    /// before that signal is done, and what it wrote for the host can be read.
    fn signalled(&self, stream: Stream) -> u64;

    /// Queues an event behind what is queued on a stream.
    ///
    /// # Errors
    /// Those of the driver.
    fn record(&mut self, stream: Stream) -> Result<Event, Fault>;

    /// Queues that a stream waits for an event, on the device. The event may be one of another worker.
    ///
    /// # Errors
    /// Those of the driver.
    fn wait(&mut self, stream: Stream, event: Event) -> Result<(), Fault>;

    /// Queues a copy of a state from another worker's pool to this stream's worker's. Waiting for its event is the caller's.
    ///
    /// # Errors
    /// Those of the driver.
    fn copy_peer(&mut self, from: (WorkerId, Slot), to: (Stream, Slot)) -> Result<(), Fault>;

    /// Queues a copy of a state, or of as much of it as there is room for, to a place of the host's.
    ///
    /// # Errors
    /// Those of the driver.
    fn copy_to_host(&mut self, stream: Stream, slot: Slot, place: HostPlace) -> Result<(), Fault>;

    /// A state that was fetched.
    fn fetched(&self, place: HostPlace) -> &[f32];

    /// A word that was written.
    fn word(&self, place: u32) -> u32;

    /// Whether numbers that are none (infinite, or no number) were stored in a slot since the last time that this was asked.
    fn take_non_finite(&mut self, worker: WorkerId, slot: Slot) -> bool;

    /// Asks the driver how a worker's GPU is. Costs more than [`Device::signalled`], so that it is asked from time to time.
    ///
    /// # Errors
    /// A GPU that is lost.
    fn health(&mut self, worker: WorkerId) -> Result<(), Fault>;
}
