//! The Python module `batchlab`: the part in Rust, which the package in `python/batchlab` wraps.
//!
//! A study in Python takes the same path as one on the command line. `study` runs scenarios and keeps their records;
//! `command` calls the commands that search, draw and compare; `policy` lets an object of Python decide, and `executor`
//! lets a function of Python compute. `worker` does all of it on a thread of its own, while Python's thread waits for
//! signals. `table` gives results to any library that reads Arrow.

mod columns;
mod command;
mod dispatch;
mod errors;
mod executor;
mod laws;
mod live;
mod policy;
mod profile;
mod request;
mod scenario;
mod study;
mod table;
mod turn;
mod worker;

use pyo3::prelude::*;

#[pymodule]
mod _batchlab {
    use super::*;

    #[pymodule_export]
    use super::command::{command, main};
    #[pymodule_export]
    use super::dispatch::{Dispatch, Task};
    #[pymodule_export]
    use super::errors::{InputError, LawBroken, RunError};
    #[pymodule_export]
    use super::executor::ServedRequest;
    #[pymodule_export]
    use super::laws::check;
    #[pymodule_export]
    use super::policy::PolicyClass;
    #[pymodule_export]
    use super::profile::profile;
    #[pymodule_export]
    use super::request::Request;
    #[pymodule_export]
    use super::scenario::{
        MemoryFile, policies, resolved_scenario, scenario_text, scenarios, sizes, time_ns,
    };
    #[pymodule_export]
    use super::study::{Study, run_scenario};
    #[pymodule_export]
    use super::table::{Table, read_csv, read_log, table};
    #[pymodule_export]
    use super::worker::finish_threads;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        worker::keep_panics_quiet();
        let prefix: String = module.py().import("sys")?.getattr("prefix")?.extract()?;
        batchlab::cuda::gpu::libraries::set_own_python(prefix.into());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
