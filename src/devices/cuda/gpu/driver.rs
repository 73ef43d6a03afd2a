//! The driver, the GPUs that it opens, and their description.

use std::fmt;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult, CUstream};
use libloading::Library as Opened;
use serde::Serialize;

use super::libraries::{Found, functions};
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::devices::cuda::device::Fault;

/// The oldest CUDA version that a driver must support.
const OLDEST: (u32, u32) = (12, 0);

/// The oldest architecture with what the kernels use: threads of a warp that wait for each other one by one (Volta).
const OLDEST_GPU: u32 = 70;

functions! {
    Functions {
        version = cuDriverGetVersion(*mut i32) -> i32;
    }
}

#[derive(Clone, Debug)]
pub struct Driver {
    /// The newest CUDA version that it supports, as major and minor number.
    pub version: (u32, u32),
    pub path: PathBuf,
}

impl Driver {
    pub(super) fn bind(library: &'static Opened, path: PathBuf) -> Result<Driver, String> {
        let functions = Functions::of(library)?;
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
            return Err(Error::failed(format!(
                "the driver is too old: {} serves CUDA up to {}, and {} is needed; update it",
                self.path.display(),
                dotted(self.version),
                dotted(OLDEST)
            )));
        }
        let count = result::init().and_then(|()| result::device::get_count());
        let none = |reason: String| {
            Error::failed(format!(
                "there is no GPU: the driver {} (CUDA {}) says: {reason}; see whether CUDA_VISIBLE_DEVICES hides one",
                self.path.display(),
                dotted(self.version)
            ))
        };
        match count {
            Ok(0) => Err(none("0 devices".into())),
            Ok(count) => Ok(count as usize),
            Err(error) => Err(none(said(error))),
        }
    }

    /// The architectures of the GPUs that it sees, without those that are [too old](OLDEST_GPU). None if it can't tell.
    pub(super) fn served(&self) -> Vec<u32> {
        let ask = |number| {
            let device = result::device::get(number as i32)?;
            // SAFETY: the driver has given the device.
            let part = |which| unsafe { result::device::get_attribute(device, which) };
            let major = part(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = part(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            Ok::<_, DriverError>((10 * major + minor).max(0) as u32)
        };
        (0..self.gpus().unwrap_or(0))
            .flat_map(ask)
            .filter(|architecture| *architecture >= OLDEST_GPU)
            .collect()
    }
}

/// A version in CUDA's encoding, 1000 for a major and 10 for a minor number.
fn numbers(version: i32) -> (u32, u32) {
    let version = version.max(0) as u32;
    (version / 1000, version % 1000 / 10)
}

pub fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// An error in the driver's own words.
fn said(error: DriverError) -> String {
    let text = error
        .error_string()
        .map_or("unknown error".into(), |text| text.to_string_lossy());
    format!("{text} ({:?})", error.0)
}

/// Whether a worker can continue after an error, because the call was wrong and not the computation. All other errors
/// stick to the context: every later call fails too.
fn survivable(error: CUresult) -> bool {
    let of_a_capture = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        ..=CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    let is_survivable = matches!(
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
    is_survivable || of_a_capture.contains(&error)
}

/// The meaning of a failed call for the backend. `doing` names its purpose.
pub(super) fn fault(doing: impl fmt::Display, error: DriverError) -> Fault {
    Fault {
        reason: format!("{doing}: {}", said(error)),
        lost: !survivable(error.0),
    }
}

/// A GPU with the driver's context, which lives as long as everything that was created in it.
#[derive(Debug)]
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    /// Its index among the GPUs that the process sees.
    pub number: usize,
    pub name: String,
    pub multiprocessors: u32,
    /// 90 for compute capability 9.0.
    pub architecture: u32,
    /// Why it can no longer be used.
    lost: OnceLock<String>,
    given_up: AtomicBool,
}

impl Gpu {
    /// Opens a GPU to compute on it. Fails as [`Gpu::look_at`], and if it is too old for the kernels.
    pub fn open(number: usize) -> Result<Arc<Gpu>> {
        let gpu = Gpu::look_at(number)?;
        if gpu.architecture < OLDEST_GPU {
            return Err(Error::failed(format!(
                "{gpu} has compute capability {}, and the kernels need {} (Volta) or later; name a newer GPU in \
                 CUDA_VISIBLE_DEVICES, or use --backend cpu",
                gpu.capability(),
                dotted((OLDEST_GPU / 10, OLDEST_GPU % 10))
            )));
        }
        Ok(gpu)
    }

    /// Opens a GPU, which must be one of those that [`Driver::gpus`] counted. Fails if another process has exclusive
    /// use of it, or if it is broken.
    fn look_at(number: usize) -> Result<Arc<Gpu>> {
        let opened = || -> Result<Gpu, DriverError> {
            let context = CudaContext::new(number)?;
            let attribute = |attribute| {
                context
                    .attribute(attribute)
                    .map(|value| value.max(0) as u32)
            };
            let multiprocessors =
                attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            let (major, minor) = context.compute_capability()?;
            let architecture = (10 * major + minor).max(0) as u32;
            let (lost, given_up) = (OnceLock::new(), AtomicBool::new(false));
            Ok(Gpu {
                number,
                name: context.name()?,
                multiprocessors,
                architecture,
                lost,
                given_up,
                context,
            })
        };
        let failed =
            |error| Error::failed(fault(format_args!("GPU {number} can't be opened"), error));
        opened().map(Arc::new).map_err(failed)
    }

    /// Opens a stream.
    pub fn stream(self: &Arc<Gpu>) -> Result<Owned<CUstream>, Fault> {
        let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
        let stream = self.call("a stream can't be made", stream)?;
        // SAFETY: it was made above.
        Ok(unsafe { Owned::new(self, stream, result::stream::destroy) })
    }

    /// Fails if it is lost.
    pub fn usable(&self) -> Result<(), Fault> {
        self.lost.get().map_or(Ok(()), |reason| {
            Err(Fault {
                reason: reason.clone(),
                lost: true,
            })
        })
    }

    /// No call reaches it any more, so that none waits for work that does not end.
    pub fn give_up(&self, reason: &str) {
        self.lost.get_or_init(|| reason.into());
        // Its last owner would close it.
        mem::forget(Arc::clone(&self.context));
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Makes its context current on the calling thread.
    pub fn bind(&self) -> Result<(), Fault> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(Fault {
                reason: format!("{self}: was given up"),
                lost: true,
            });
        }
        self.context
            .bind_to_thread()
            .map_err(|error| self.fault("can't be used", error))
    }

    /// Calls the driver in its context. `doing` names the purpose.
    pub fn call<T>(
        &self,
        doing: impl fmt::Display,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, Fault> {
        self.bind()?;
        call().map_err(|error| self.fault(doing, error))
    }

    /// As `9.0`.
    pub fn capability(&self) -> String {
        dotted((self.architecture / 10, self.architecture % 10))
    }

    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<u32, Fault> {
        self.call("can't be asked", || self.context.attribute(attribute))
            .map(|value| value.max(0) as u32)
    }

    /// Waits for all queued work.
    pub fn synchronize(&self) -> Result<(), Fault> {
        self.call("broke off", || self.context.synchronize())
    }

    /// The time of one of some calls that are queued together.
    pub fn time(
        &self,
        count: u32,
        mut queue: impl FnMut() -> Result<(), Fault>,
    ) -> Result<Duration, Fault> {
        let clock = clock::now();
        (0..count).try_for_each(|_| queue())?;
        self.synchronize()?;
        Ok(clock.elapsed() / count)
    }

    pub fn memory(&self) -> Result<(usize, usize), Fault> {
        self.call("can't tell its memory", || self.context.mem_get_info())
    }

    pub fn handle(&self) -> sys::CUcontext {
        self.context.cu_ctx()
    }

    /// Lets this GPU access the memory of another directly, if the two are connected. Copies between them work in any
    /// case.
    pub fn reach(&self, other: &Gpu) -> Result<(), Fault> {
        self.bind()?;
        let (mut can, here, there) = (0, self.context.cu_device(), other.context.cu_device());
        // SAFETY: both devices come from the driver, and the result has a place.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, here, there) }.result();
        if asked.is_ok() && can != 0 {
            // SAFETY: the context is that of an open GPU. If access is denied or already enabled, copies take their
            // usual path.
            let _ = unsafe { sys::cuCtxEnablePeerAccess(other.handle(), 0) };
        }
        Ok(())
    }

    /// The meaning of a failed call, as [`fault`]. Notes the loss of the GPU.
    pub fn fault(&self, doing: impl fmt::Display, error: DriverError) -> Fault {
        let fault = fault(format_args!("{self}: {doing}"), error);
        if fault.lost {
            self.lost.get_or_init(|| fault.reason.clone());
        }
        fault
    }

    pub fn no_room(&self, bytes: usize, what: &str, error: DriverError) -> Fault {
        let full = error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        match result::mem_get_info() {
            Ok((free, total)) if full => Fault::survived(format!(
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
    mut measure: impl FnMut() -> Result<T, Fault>,
) -> Result<T, Fault> {
    measure()?;
    let mut all = (0..times.max(1))
        .map(|_| measure())
        .collect::<Result<Vec<T>, _>>()?;
    all.sort_unstable();
    Ok(all[all.len() / 2])
}

/// Something that the driver gave, freed when dropped. The driver lets queued work finish first.
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

    /// Calls the driver for it in the GPU's context. `doing` names the purpose.
    pub fn call<R>(
        &self,
        doing: impl fmt::Display,
        run: impl FnOnce(T) -> Result<R, DriverError>,
    ) -> Result<R, Fault> {
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// Its index among the GPUs that the process sees, which is the number of its worker.
    pub gpu: usize,
    pub name: String,
    /// The compute capability, as `9.0`.
    pub capability: String,
    pub multiprocessors: u32,
    /// In bytes.
    pub memory_free: u64,
    pub memory: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its version; for the driver that of the newest CUDA that it supports.
    pub version: String,
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Libraries {
    pub driver: Option<Library>,
    pub nvrtc: Option<Library>,
    pub cublas: Option<Library>,
}

impl Libraries {
    pub fn of(found: &Found) -> Libraries {
        let library = |version: String, path: &std::path::Path| Library {
            version,
            path: path.display().to_string(),
        };
        Libraries {
            driver: found
                .driver
                .found
                .as_ref()
                .map(|driver| library(dotted(driver.version), &driver.path)),
            nvrtc: found
                .nvrtc
                .found
                .as_ref()
                .map(|nvrtc| library(dotted(nvrtc.version), &nvrtc.path)),
            cublas: found.cublas.found.as_ref().map(|cublas| {
                let (major, minor, patch) = cublas.version;
                library(format!("{major}.{minor}.{patch}"), &cublas.path)
            }),
        }
    }
}

/// The GPUs that the process sees. Fails if there is no driver, or none that is new enough, or no GPU.
pub fn of_driver(found: &Found) -> Result<Vec<About>> {
    let count = found.driver.need()?.gpus()?;
    let about = |number| {
        let gpu = Gpu::look_at(number)?;
        let (free, total) = gpu.memory().map_err(Error::failed)?;
        Ok(About {
            gpu: number,
            name: gpu.name.clone(),
            capability: gpu.capability(),
            multiprocessors: gpu.multiprocessors,
            memory_free: free as u64,
            memory: total as u64,
        })
    };
    (0..count).map(about).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_cuda_counts() {
        assert_eq!(numbers(12040), (12, 4));
        assert_eq!(dotted(numbers(13000)), "13.0");
        assert!(numbers(11080) < OLDEST);
    }

    #[test]
    fn an_error_of_the_computation_costs_the_worker() {
        assert!(survivable(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(survivable(
            CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
        ));
        assert!(survivable(CUresult::CUDA_ERROR_CAPTURED_EVENT));
        assert!(!survivable(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT));
        assert!(!survivable(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(!survivable(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
    }

    #[test]
    fn a_size_is_short() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(140 << 30), "140.0 GiB");
    }
}
