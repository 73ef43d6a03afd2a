//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019): persistent kernels for recurrent
//! networks, and the performance model that finds their fastest mapping.
//!
//! A persistent kernel computes a whole sequence in one launch and keeps the weights in registers. A [`Mapping`] lays a
//! step's work over the GPU, a [`Space`] contains all mappings, and [`rank()`] sorts the valid ones by [`Cost`].

mod cost;
mod data_sheet;
mod fit;
mod rank;
mod space;

pub use self::cost::{Cost, KernelTimes, StepLine};
pub use self::data_sheet::{CLUSTER_BLOCKS, Constants, DataSheet, Products, Reductions};
pub use self::fit::{
    MeasuredProduct, MeasuredReduction, MicroBenchmarks, ReportedGpu, SCHEDULERS,
    file as data_sheet_file,
};
pub use self::rank::{KernelLaunches, PersistentTimes, RankedMapping, RecurrentCell, csv, rank};
pub use self::space::{Exchange, Mapping, Rnn, RnnSizes, Space, weights_of_thread};
