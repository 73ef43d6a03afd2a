//! The CPU backend: real networks in real time.

use std::sync::Arc;

use super::{Backend, Completion, MemberList, Task};
use crate::error::Result;
use crate::network::Network;
use crate::units::{Nanos, RequestId, TaskId};
use crate::workload::trace::Requests;

/// Workers that are threads, on the monotonic clock.
pub struct Cpu {}

impl Cpu {
    /// Starts the workers. `requests` are those of the run, by their ids.
    ///
    /// # Errors
    /// A thread that can't be started.
    pub fn new(_network: Arc<Network>, _requests: &Requests, _workers: usize) -> Result<Cpu> {
        Ok(Cpu {})
    }

    /// The digest of what a request came to ([`Output::digest`](crate::network::reference::Output::digest)), once it has finished.
    pub fn digest(&self, _: RequestId) -> Option<u64> {
        None
    }
}

impl Backend for Cpu {
    fn now(&self) -> Nanos {
        unimplemented!()
    }

    fn submit(&mut self, _: TaskId, _: &Task<'_>, _: Option<MemberList>) {
        unimplemented!()
    }

    fn wait(&mut self, _: Option<Nanos>) -> Option<Completion> {
        unimplemented!()
    }
}
