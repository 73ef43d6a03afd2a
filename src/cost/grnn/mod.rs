//! GRNN: persistent kernels for recurrent networks, and the model that finds their fastest mapping.
//!
//! A persistent kernel computes a whole sequence in one launch. Its blocks stay on their multiprocessors and keep the
//! weights in registers, so that a step moves only the state. A [`Mapping`] lays the work of a step over the GPU; a
//! [`Space`] contains all of them, [`Cost`] is the cost of a step, and [`rank()`] sorts the valid mappings (*GRNN:
//! Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019).

mod cost;
mod device;
mod fit;
mod rank;
mod space;

pub use self::cost::{Cost, Line, Times};
pub use self::device::{Constants, DEVICE_FILES, Device, Products, Reductions};
pub use self::fit::{Measured, Product, Reduction, Reported, SCHEDULERS, file as device_file};
pub use self::rank::{Cell, Launches, Persistent, Ranked, csv, rank};
pub use self::space::{Mapping, Rnn, Sizes, Space, weights_of_thread};
