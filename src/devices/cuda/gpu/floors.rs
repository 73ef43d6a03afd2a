//! A GPU's limits, measured by copies, reads, large products and launches: no cell can be faster than its bytes and its
//! operations at these rates, and a launch.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use rand::Rng;

use super::call::{BLOCK, KernelCall};
use super::compile::{FLOORS, LoadedKernels, options};
use super::cublas::{Cublas, GpuProduct, Handle};
use super::driver::Gpu;
use super::graph::{capture, instantiate};
use super::host::GpuHost;
use super::memory::GpuMemory;
use super::weights::elements;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::core::workload::random;
use crate::devices::cuda::device::DeviceFault;

/// The highest rates of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floors {
    /// Bytes read and written per second by a copy within the GPU's memory.
    pub bytes_per_second: f64,
    /// Additions and multiplications per second in a product of large square matrices.
    pub operations_per_second: f64,
    /// What fits the GPU's cache can be read faster.
    pub cache: CacheFloor,
    /// The time between the ends of two kernels that do nothing, one after the other in a captured graph.
    pub launch: Duration,
}

/// The reads of a GPU from its L2 cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheFloor {
    /// Bytes per second of the fastest reads.
    pub bytes_per_second: f64,
    /// The largest size, of powers of two, whose reads are nearer to the fastest than to those of memory.
    pub bytes: u64,
}

/// The number of copies, reads, products or launches that are timed together.
const TIMES: u32 = 20;
/// The number of launches in a graph, beside which the launch of the graph itself takes no time.
const LAUNCHES: u32 = 100;

/// The size of copies is doubled until one takes this long: by then it exceeds the caches of a fast GPU.
const LONG_COPY: Duration = Duration::from_micros(200);
const SMALLEST_COPY: usize = 1 << 20;
const LARGEST_COPY: usize = 1 << 30;

/// The size of reads is doubled until one takes this long, and smaller ones are repeated in a launch until it does.
const LONG_READ: Duration = Duration::from_micros(200);
const SMALLEST_READ: usize = 1 << 20;
const LARGEST_READ: usize = 1 << 30;

/// The blocks of a multiprocessor in a read.
const BLOCKS: u32 = 4;

/// The width of products is doubled until one takes this long: by then it fills any GPU many times over.
const LONG_PRODUCT: Duration = Duration::from_millis(1);
const NARROWEST: u32 = 128;
const WIDEST: u32 = 8192;

/// Measures the first GPU that the process sees.
pub fn measure(precision: Precision) -> Result<Floors> {
    let host = GpuHost::open()?;
    let gpu = &host.gpu;
    let kernels = LoadedKernels::load(&host, [FLOORS], &options(precision))?;
    let bytes_per_second = measure_copies(gpu).map_err(Error::failure)?;
    let operations_per_second =
        measure_products(gpu, &host.cublas, precision).map_err(Error::failure)?;
    let cache = measure_reads(gpu, &kernels).map_err(Error::failure)?;
    let launch = measure_launches(gpu, &kernels).map_err(Error::failure)?;
    Ok(Floors {
        bytes_per_second,
        operations_per_second,
        cache,
        launch,
    })
}

/// The reads of all sizes, of which the smaller ones come from the cache.
fn measure_reads(gpu: &Arc<Gpu>, kernels: &LoadedKernels) -> Result<CacheFloor, DeviceFault> {
    let on = gpu.stream()?;
    let blocks = BLOCKS * gpu.multiprocessors;
    let results = GpuMemory::zeros(gpu, (blocks * BLOCK) as usize * size_of::<f32>(), "sums")?;
    let function = kernels.function("read_again");
    let mut rates: Vec<(usize, f64)> = Vec::new();
    let mut bytes = SMALLEST_READ;
    loop {
        let numbers = GpuMemory::zeros(gpu, bytes, "a read")?;
        let count = (bytes / size_of::<f32>()) as u32;
        let mut rounds = 1u32;
        let time = loop {
            let arguments = (rounds, count, numbers.address(), results.address());
            let mut read = KernelCall::new(function, (blocks, 1), arguments);
            // SAFETY: the arguments are the kernel's, and both memories live until the stream has been waited for.
            let time = mean_time(gpu, || unsafe { read.queue("a read", &on) })?;
            if time >= LONG_READ {
                break time;
            }
            rounds *= 2;
        };
        rates.push((bytes, bytes as f64 * f64::from(rounds) / time.as_secs_f64()));
        if rounds == 1 || bytes >= LARGEST_READ {
            break;
        }
        bytes *= 2;
    }
    let (_, memory) = rates[rates.len() - 1];
    let fastest = rates.iter().map(|(_, rate)| *rate).fold(memory, f64::max);
    let near = rates
        .iter()
        .rfind(|(_, rate)| *rate >= (fastest + memory) / 2.0);
    Ok(CacheFloor {
        bytes_per_second: fastest,
        bytes: near.map_or(0, |(bytes, _)| *bytes as u64),
    })
}

/// The time of a launch among others in a graph, as the kernels of a step are launched. Queued one by one, kernels that
/// do nothing wait for the host.
fn measure_launches(gpu: &Arc<Gpu>, kernels: &LoadedKernels) -> Result<Duration, DeviceFault> {
    let on = gpu.stream()?;
    let result = GpuMemory::zeros(gpu, size_of::<u32>(), "a launch")?;
    let mut call = KernelCall::new(
        kernels.function("launched"),
        (1, 1),
        (0u32, result.address()),
    );
    let template = capture(&on, || {
        // SAFETY: the arguments are the kernel's, and the memory lives until the stream has been waited for.
        (0..LAUNCHES).try_for_each(|_| unsafe { call.queue("a launch", &on) })
    })?;
    let graph = instantiate(&on, &template)?;
    // SAFETY: the graph was captured on this stream, and its memory lives until the stream has been waited for.
    let launches = || {
        on.call("a graph can't be queued", |on| unsafe {
            result::graph::launch(graph.raw, on)
        })
    };
    Ok(mean_time(gpu, launches)? / LAUNCHES)
}

/// The bytes that copies read and write per second.
fn measure_copies(gpu: &Arc<Gpu>) -> Result<f64, DeviceFault> {
    let on = gpu.stream()?;
    let mut bytes = SMALLEST_COPY;
    loop {
        let from = GpuMemory::zeros(gpu, bytes, "a copy")?;
        let to = GpuMemory::zeros(gpu, bytes, "a copy")?;
        // SAFETY: both have this size, belong to the stream's context, and live until it has been waited for.
        let copy =
            |on| unsafe { result::memcpy_dtod_async(to.address(), from.address(), bytes, on) };
        let time = mean_time(gpu, || on.call("can't copy memory", copy))?;
        if time >= LONG_COPY || bytes >= LARGEST_COPY {
            return Ok(2.0 * bytes as f64 / time.as_secs_f64());
        }
        bytes *= 2;
    }
}

/// The operations per second of products.
fn measure_products(
    gpu: &Arc<Gpu>,
    cublas: &Cublas,
    precision: Precision,
) -> Result<f64, DeviceFault> {
    let products = Handle::new(gpu, cublas, precision)?;
    let mut rng = random::sequence(0, 0, "floors");
    let mut width = NARROWEST;
    loop {
        // Zeros would take less energy than other numbers, and so run at a higher clock.
        let count = width as usize * width as usize;
        let numbers: Vec<f32> = (0..count)
            .map(|_| rng.next_u32() as f32 / (1u64 << 31) as f32 - 1.0)
            .collect();
        let factors = elements(&numbers, precision);
        let left = GpuMemory::with_bytes(gpu, &factors, "a product")?;
        let right = GpuMemory::with_bytes(gpu, &factors, "a product")?;
        let result = GpuMemory::new(gpu, count * size_of::<f32>(), "a product")?;
        let product = GpuProduct::contiguous(
            [width; 3],
            left.address(),
            right.address(),
            result.address(),
        );
        // SAFETY: all three are square matrices of this width, and live until the stream has been waited for.
        let time = mean_time(gpu, || unsafe { products.multiply(&product) })?;
        if time >= LONG_PRODUCT || width >= WIDEST {
            return Ok(2.0 * f64::from(width).powi(3) / time.as_secs_f64());
        }
        width *= 2;
    }
}

/// The mean time of many calls that are queued together. A first call, which may load kernels, is not counted.
fn mean_time(
    gpu: &Gpu,
    mut queue: impl FnMut() -> Result<(), DeviceFault>,
) -> Result<Duration, DeviceFault> {
    gpu.time(1, &mut queue)?;
    gpu.time(TIMES, queue)
}
