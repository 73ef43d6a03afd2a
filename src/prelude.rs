//! The names that authors of policies, cost models and backends need.
//!
//! ```no_run
//! use batchlab::prelude::*;
//!
//! let registry = Registry::standard(); // add yours: .with::<Yours>()
//! batchlab::cli::main(&registry);
//! ```

pub use crate::backend::Backend;
pub use crate::conformance::{Guarantees, check};
pub use crate::cost::CostModel;
pub use crate::cost::timing::{Start, Timing};
pub use crate::experiment::executor::{Executors, Simulation, Simulator};
pub use crate::policy::cellular::{CellView, Cellular, Choice, SelectionRule};
pub use crate::policy::registry::{PolicyKind, Registry, Settings, Setup};
pub use crate::policy::whole::PaddedBatch;
pub use crate::policy::{Completed, Outcomes, Policy};
pub use crate::task::{Completion, Dispatch, MemberList, Members, Step, Task};
pub use crate::units::{CellId, Nanos, RequestId, TaskId, WorkerId};
pub use crate::workload::cell_graph::CellGraph;
pub use crate::workload::class::Class;
pub use crate::workload::trace::Request;
