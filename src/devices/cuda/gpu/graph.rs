//! Captured graphs of kernels, which are launched as one.

use cudarc::driver::result;
use cudarc::driver::sys::{
    CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUstream, CUstreamCaptureMode,
};

use super::driver::Owned;
use crate::devices::cuda::device::DeviceFault;

/// What is said if a graph can't be made.
const NOT_CAPTURED: &str = "a graph can't be captured";

/// Captures what `queue` queues on a stream.
pub(super) fn capture(
    on: &Owned<CUstream>,
    queue: impl FnOnce() -> Result<(), DeviceFault>,
) -> Result<Owned<CUgraph>, DeviceFault> {
    // The capture neither blocks other threads nor records their calls.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is alive, and captures nothing yet.
    on.call(NOT_CAPTURED, |on| unsafe {
        result::stream::begin_capture(on, mode)
    })?;
    let queued = queue();
    // The capture ends even after a fault, so that the stream stays usable. SAFETY: the stream is capturing.
    let captured = on.call(NOT_CAPTURED, |on| unsafe {
        result::stream::end_capture(on)
    });
    // SAFETY: it was captured above.
    let captured = captured.map(|raw| unsafe { Owned::new(&on.gpu, raw, result::graph::destroy) });
    queued?;
    captured
}

/// Makes a graph that can be launched, and uploads it.
pub(super) fn instantiate(
    on: &Owned<CUstream>,
    template: &Owned<CUgraph>,
) -> Result<Owned<CUgraphExec>, DeviceFault> {
    // SAFETY: the template is alive.
    let graph = template.call(NOT_CAPTURED, |raw| unsafe {
        result::graph::instantiate(raw, CUgraphInstantiate_flags(0))
    })?;
    // SAFETY: it was made above.
    let graph = unsafe { Owned::new(&on.gpu, graph, result::graph::exec_destroy) };
    // SAFETY: the graph and the stream are alive.
    on.call(NOT_CAPTURED, |on| unsafe {
        result::graph::upload(graph.raw, on)
    })?;
    Ok(graph)
}
