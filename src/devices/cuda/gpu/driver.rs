//! NVIDIA's driver and the GPUs that it opens.

use std::fmt;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult, CUstream};
use libloading::Library;

use super::library::{format_version, functions};
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::devices::cuda::device::DeviceFault;

/// A driver must support at least this CUDA version.
const OLDEST: (u32, u32) = (12, 0);

/// The oldest architecture for the kernels: Volta, because they need threads of a warp that can wait for each other one
/// by one.
const OLDEST_GPU: u32 = 70;

/// The first architecture with clusters of blocks.
pub(super) const CLUSTERS: u32 = 90;

functions! {
    Functions {
        version = cuDriverGetVersion(*mut i32) -> i32;
    }
}

/// NVIDIA's driver.
#[derive(Clone, Debug)]
pub struct Driver {
    /// The newest CUDA version that it supports, as major and minor number.
    pub version: (u32, u32),
    pub path: PathBuf,
}

impl Driver {
    pub(super) fn bind(library: &'static Library, path: PathBuf) -> Result<Driver, String> {
        let functions = Functions::load(library)?;
        let mut version = 0;
        // SAFETY: the function writes one number, and may be called before the driver is initialised.
        let status = unsafe { (functions.version)(&mut version) };
        if status != 0 {
            return Err(format!("says error {status} when asked for its version"));
        }
        // SAFETY: searches for a library of that name in the process and on the system's path.
        if !unsafe { sys::is_culib_present() } {
            return Err("is not known by that name to the system's loader".into());
        }
        Ok(Driver {
            version: numbers(version),
            path,
        })
    }

    /// Initialises the driver and counts its GPUs. Fails if it is too old, or sees no GPU.
    pub fn gpus(&self) -> Result<usize> {
        if self.version < OLDEST {
            return Err(Error::failure(format!(
                "the driver is too old: {} serves CUDA up to {}, and {} is needed; update it",
                self.path.display(),
                format_version(self.version),
                format_version(OLDEST)
            )));
        }
        let reason = match result::init().and_then(|()| result::device::get_count()) {
            Ok(0) => "0 devices".to_string(),
            Ok(count) => return Ok(count as usize),
            Err(error) => error_text(error),
        };
        Err(Error::failure(format!(
            "there is no GPU: the driver {} (CUDA {}) says: {reason}; see whether CUDA_VISIBLE_DEVICES hides one",
            self.path.display(),
            format_version(self.version)
        )))
    }

    /// The architectures of the GPUs that it sees and that are not [too old](OLDEST_GPU).
    pub(super) fn architectures(&self) -> Vec<u32> {
        (0..self.gpus().unwrap_or(0))
            .flat_map(architecture)
            .filter(|architecture| *architecture >= OLDEST_GPU)
            .collect()
    }
}

/// The architecture of a GPU: 90 for compute capability 9.0.
fn architecture(number: usize) -> Result<u32, DriverError> {
    let device = result::device::get(number as i32)?;
    // SAFETY: the driver has given the device.
    let [major, minor] = unsafe {
        [
            result::device::get_attribute(
                device,
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            )?,
            result::device::get_attribute(
                device,
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )?,
        ]
    };
    Ok((10 * major + minor).max(0) as u32)
}

/// The major and the minor number of a version in CUDA's encoding: 1000 times the major plus 10 times the minor number.
fn numbers(version: i32) -> (u32, u32) {
    let version = version.max(0) as u32;
    (version / 1000, version % 1000 / 10)
}

/// An error in the driver's own words.
fn error_text(error: DriverError) -> String {
    let text = error
        .error_string()
        .map_or("unknown error".into(), |text| text.to_string_lossy());
    format!("{text} ({:?})", error.0)
}

/// Whether a worker can continue after an error, because the call was wrong and not the computation. After all other
/// errors, every later call in the context fails too.
fn is_survivable(error: CUresult) -> bool {
    let capture_errors = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        ..=CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    let is_wrong_call = matches!(
        error,
        CUresult::CUDA_ERROR_INVALID_VALUE
            | CUresult::CUDA_ERROR_OUT_OF_MEMORY
            | CUresult::CUDA_ERROR_INVALID_HANDLE
            | CUresult::CUDA_ERROR_NOT_FOUND
            | CUresult::CUDA_ERROR_INVALID_IMAGE
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_INVALID_PTX
            | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED
            | CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
            | CUresult::CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING
            | CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
            | CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE
            | CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
            | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
            | CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
            | CUresult::CUDA_ERROR_TOO_MANY_PEERS
            | CUresult::CUDA_ERROR_NOT_PERMITTED
            | CUresult::CUDA_ERROR_NOT_SUPPORTED
            | CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    );
    is_wrong_call || capture_errors.contains(&error)
}

/// The meaning of a failed call for the backend. `doing` names its purpose.
pub(super) fn fault(doing: impl fmt::Display, error: DriverError) -> DeviceFault {
    DeviceFault {
        reason: format!("{doing}: {}", error_text(error)),
        lost: !is_survivable(error.0),
    }
}

/// A GPU with the driver's context, which lives as long as everything that was created in it.
#[derive(Debug)]
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    /// The index among the GPUs that the process sees.
    pub number: usize,
    pub name: String,
    pub multiprocessors: u32,
    /// The architecture: 90 for compute capability 9.0.
    pub architecture: u32,
    /// Why the GPU can no longer be used; unset while it can.
    lost: OnceLock<String>,
    is_given_up: AtomicBool,
}

impl Gpu {
    /// Opens a GPU to compute on it. Fails if it can't be [examined](Gpu::examine), or if it is too old for the
    /// kernels.
    pub fn open(number: usize) -> Result<Arc<Gpu>> {
        let gpu = Gpu::examine(number)?;
        if gpu.architecture < OLDEST_GPU {
            return Err(Error::failure(format!(
                "{gpu} has compute capability {}, and the kernels need {} (Volta) or later; name a newer GPU in \
                 CUDA_VISIBLE_DEVICES, or use --backend cpu",
                gpu.capability(),
                format_version((OLDEST_GPU / 10, OLDEST_GPU % 10))
            )));
        }
        Ok(gpu)
    }

    /// Opens a GPU, which must be one of those that [`Driver::gpus`] counted. Fails if another process has exclusive
    /// use of it, or if it is broken.
    pub(super) fn examine(number: usize) -> Result<Arc<Gpu>> {
        match Gpu::open_context(number) {
            Ok(gpu) => Ok(Arc::new(gpu)),
            Err(error) => Err(Error::failure(fault(
                format_args!("GPU {number} can't be opened"),
                error,
            ))),
        }
    }

    fn open_context(number: usize) -> Result<Gpu, DriverError> {
        let context = CudaContext::new(number)?;
        let multiprocessors = context
            .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?
            .max(0) as u32;
        let (major, minor) = context.compute_capability()?;
        Ok(Gpu {
            number,
            name: context.name()?,
            multiprocessors,
            architecture: (10 * major + minor).max(0) as u32,
            lost: OnceLock::new(),
            is_given_up: AtomicBool::new(false),
            context,
        })
    }

    /// Opens a stream.
    pub fn stream(self: &Arc<Gpu>) -> Result<Owned<CUstream>, DeviceFault> {
        let stream = self.call("a stream can't be made", || {
            result::stream::create(result::stream::StreamKind::NonBlocking)
        })?;
        // SAFETY: it was made above.
        Ok(unsafe { Owned::new(self, stream, result::stream::destroy) })
    }

    /// Fails if the GPU is lost.
    pub fn check_usable(&self) -> Result<(), DeviceFault> {
        self.lost.get().map_or(Ok(()), |reason| {
            Err(DeviceFault {
                reason: reason.clone(),
                lost: true,
            })
        })
    }

    /// Makes all further calls to the GPU fail, so that none waits for work that does not end.
    pub fn give_up(&self, reason: &str) {
        self.lost.get_or_init(|| reason.into());
        // The last owner of the context would close it, so one owner is kept forever.
        mem::forget(Arc::clone(&self.context));
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Makes the GPU's context current on the calling thread.
    pub fn bind(&self) -> Result<(), DeviceFault> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Err(DeviceFault {
                reason: format!("{self}: was given up"),
                lost: true,
            });
        }
        self.context
            .bind_to_thread()
            .map_err(|error| self.fault("can't be used", error))
    }

    /// Calls the driver in the GPU's context. `doing` names the purpose.
    pub fn call<T>(
        &self,
        doing: impl fmt::Display,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DeviceFault> {
        self.bind()?;
        call().map_err(|error| self.fault(doing, error))
    }

    /// The compute capability, such as `9.0`.
    pub fn capability(&self) -> String {
        format_version((self.architecture / 10, self.architecture % 10))
    }

    /// An attribute of the GPU that the driver reports.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<u32, DeviceFault> {
        self.call("can't be asked", || self.context.attribute(attribute))
            .map(|value| value.max(0) as u32)
    }

    /// Waits for all queued work.
    pub fn synchronize(&self) -> Result<(), DeviceFault> {
        self.call("broke off", || self.context.synchronize())
    }

    /// The mean time of `count` calls that are queued together.
    pub fn time(
        &self,
        count: u32,
        mut queue: impl FnMut() -> Result<(), DeviceFault>,
    ) -> Result<Duration, DeviceFault> {
        let clock = clock::now();
        (0..count).try_for_each(|_| queue())?;
        self.synchronize()?;
        Ok(clock.elapsed() / count)
    }

    /// The free and the total memory, in bytes.
    pub fn memory(&self) -> Result<(usize, usize), DeviceFault> {
        self.call("can't tell its memory", || self.context.mem_get_info())
    }

    pub fn handle(&self) -> sys::CUcontext {
        self.context.cu_ctx()
    }

    /// Lets this GPU access the memory of another directly, if the two are connected. Copies between them work in any
    /// case.
    pub fn reach(&self, other: &Gpu) -> Result<(), DeviceFault> {
        self.bind()?;
        let mut can = 0;
        let here = self.context.cu_device();
        let there = other.context.cu_device();
        // SAFETY: both devices come from the driver, and the result has a place.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, here, there) }.result();
        if asked.is_ok() && can != 0 {
            // SAFETY: the context is that of an open GPU. If access is denied or already enabled, copies take their
            // usual path.
            let _ = unsafe { sys::cuCtxEnablePeerAccess(other.handle(), 0) };
        }
        Ok(())
    }

    /// The meaning of a failed call for the backend. Notes the loss of the GPU.
    pub fn fault(&self, doing: impl fmt::Display, error: DriverError) -> DeviceFault {
        let fault = fault(format_args!("{self}: {doing}"), error);
        if fault.lost {
            self.lost.get_or_init(|| fault.reason.clone());
        }
        fault
    }

    /// The fault of an allocation of `bytes` for `what`.
    pub fn allocation_fault(&self, bytes: usize, what: &str, error: DriverError) -> DeviceFault {
        let full = error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        match result::mem_get_info() {
            Ok((free, total)) if full => DeviceFault::survivable(format!(
                "{self} has no memory for {what}: {} are wanted, {} of {} are free; a smaller hidden width, vocabulary or \
                 max_batch takes less, a lower device.max_waiting fewer states, and the cpu backend none",
                size(bytes),
                size(free),
                size(total)
            )),
            _ => self.fault(
                format_args!("{} for {what} can't be had", size(bytes)),
                error,
            ),
        }
    }
}

/// The median of some measurements after a warm-up.
pub(super) fn median<T: Copy + Ord>(
    times: usize,
    mut measure: impl FnMut() -> Result<T, DeviceFault>,
) -> Result<T, DeviceFault> {
    measure()?;
    let mut all = (0..times.max(1))
        .map(|_| measure())
        .collect::<Result<Vec<T>, _>>()?;
    all.sort_unstable();
    Ok(all[all.len() / 2])
}

/// A resource that the driver gave, which is freed when this is dropped. The driver lets queued work finish first.
#[derive(Debug)]
pub(super) struct Owned<T: Copy> {
    pub gpu: Arc<Gpu>,
    pub raw: T,
    free: unsafe fn(T) -> Result<(), DriverError>,
}

// SAFETY: what the driver gives belongs to a context, not to a thread; every call makes the context current first.
unsafe impl<T: Copy> Send for Owned<T> {}

impl<T: Copy> Owned<T> {
    /// # Safety
    ///
    /// The driver gave `raw` in the GPU's context. It can be freed by `free`, and nothing else frees it.
    pub unsafe fn new(
        gpu: &Arc<Gpu>,
        raw: T,
        free: unsafe fn(T) -> Result<(), DriverError>,
    ) -> Owned<T> {
        Owned {
            gpu: Arc::clone(gpu),
            raw,
            free,
        }
    }

    /// Calls the driver for this resource in the GPU's context. `doing` names the purpose.
    pub fn call<R>(
        &self,
        doing: impl fmt::Display,
        run: impl FnOnce(T) -> Result<R, DriverError>,
    ) -> Result<R, DeviceFault> {
        self.gpu.call(doing, || run(self.raw))
    }
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the promise of `new`. On a lost GPU it fails; the end of the process will free everything.
            let _ = unsafe { (self.free)(self.raw) };
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} ({})", self.number, self.name)
    }
}

/// A number of bytes, for messages.
pub(super) fn size(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(power, _)| bytes >> power > 0) {
        Some((power, unit)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << power) as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_cuda_counts() {
        assert_eq!(numbers(12040), (12, 4));
        assert_eq!(format_version(numbers(13000)), "13.0");
        assert!(numbers(11080) < OLDEST);
    }

    #[test]
    fn an_error_of_the_computation_costs_the_worker() {
        assert!(is_survivable(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(is_survivable(
            CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
        ));
        assert!(is_survivable(CUresult::CUDA_ERROR_CAPTURED_EVENT));
        assert!(!is_survivable(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT));
        assert!(!is_survivable(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(!is_survivable(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
    }

    #[test]
    fn a_size_is_short() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(140 << 30), "140.0 GiB");
    }
}
