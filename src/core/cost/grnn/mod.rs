//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019): persistent kernels for recurrent
//! networks, and the model that finds their fastest mapping.
//!
//! A persistent kernel computes a whole sequence in one launch and keeps the weights in registers. A [`Mapping`] lays a
//! step's work over the GPU, a [`Space`] contains all mappings, and [`rank()`] sorts the valid ones by [`Cost`].

mod cost;
mod device;
mod fit;
mod rank;
mod space;

pub use self::cost::{Cost, Line, Times};
pub use self::device::{Constants, Device, Products, Reductions};
pub use self::fit::{Measured, Product, Reduction, Reported, SCHEDULERS, file as device_file};
pub use self::rank::{Cell, Launches, Persistent, Ranked, csv, rank};
pub use self::space::{Mapping, Rnn, Sizes, Space, weights_of_thread};
