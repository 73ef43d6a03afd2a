//! The CUDA backend: the same policies on GPUs.

pub mod device;
pub mod gpu;

use std::marker::PhantomData;
use std::sync::Arc;

use self::device::Device;
use crate::error::Result;
use crate::network::Network;
use crate::network::reference::Output;
use crate::units::{CellId, RequestId};
use crate::workload::trace::Requests;

/// What a run wants of the backend beside its tasks.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The requests whose outputs are fetched ([`Cuda::output`]), ascending.
    pub keep: Vec<RequestId>,
    /// The largest batch of each cell type: batches of all sizes up to it are made ready before the clock starts, others when
    /// they are met.
    pub materialise: Vec<(CellId, u32)>,
    /// The policy's tasks are whole requests, whose launches do not signal one by one: what is made ready is of that kind.
    pub whole: bool,
}

/// Workers that are GPUs, on the monotonic clock.
pub struct Cuda<'d, D: Device> {
    device: PhantomData<&'d mut D>,
}

impl<'d, D: Device> Cuda<'d, D> {
    /// Makes the device ready for a run; the clock starts behind that. `requests` are those of the run, by their ids.
    ///
    /// # Errors
    /// A model without cells for this backend; memory that is not there.
    pub fn new(
        _device: &'d mut D,
        _network: Arc<Network>,
        _requests: &Requests,
        _workers: usize,
        _options: &Options,
    ) -> Result<Cuda<'d, D>> {
        Ok(Cuda { device: PhantomData })
    }

    /// What a request came to, if it is kept and has finished.
    pub fn output(&self, _request: RequestId) -> Option<Output> {
        None
    }
}

impl<D: Device> crate::backend::Backend for Cuda<'_, D> {
    fn now(&self) -> crate::units::Nanos {
        unimplemented!()
    }
    fn submit(&mut self, _: crate::units::TaskId, _: &crate::backend::Task<'_>, _: Option<crate::backend::MemberList>) {
    }
    fn wait(&mut self, _: Option<crate::units::Nanos>) -> Option<crate::backend::Completion> {
        None
    }
}
