//! The names that authors of policies, cost models and backends need.
//!
//! ```no_run
//! use batchlab::prelude::*;
//!
//! let registry = Registry::standard(); // add yours: .with::<Yours>()
//! batchlab::cli::main(&registry);
//! ```

pub use crate::base::units::{CellId, Nanos, RequestId, TaskId, WorkerId};
pub use crate::core::backend::Backend;
pub use crate::core::conformance::{Guarantees, check};
pub use crate::core::cost::CostModel;
pub use crate::core::cost::timing::{Start, Timing};
pub use crate::core::policy::cellular::{CellView, Cellular, Choice, SelectionRule};
pub use crate::core::policy::registry::{PolicyKind, Registry, Settings, Setup};
pub use crate::core::policy::whole::PaddedBatch;
pub use crate::core::policy::{Completed, Outcomes, Policy};
pub use crate::core::task::{Completion, Dispatch, MemberList, Members, Reason, Step, Task};
pub use crate::core::workload::cell_graph::CellGraph;
pub use crate::core::workload::class::Class;
pub use crate::core::workload::trace::Request;
pub use crate::lab::run::executor::{Executors, Simulation, Simulator};
