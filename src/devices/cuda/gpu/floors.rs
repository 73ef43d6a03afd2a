//! A GPU's limits, measured by copies and large products: no cell can be faster than its bytes and its operations at
//! these rates.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use rand::Rng;

use super::cublas::{Cublas, GpuProduct, Handle};
use super::driver::Gpu;
use super::libraries::find;
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
}

/// The number of copies or products that are timed together.
const TIMES: u32 = 20;

/// The size of copies is doubled until one takes this long: by then it exceeds the caches of a fast GPU.
const LONG_COPY: Duration = Duration::from_micros(200);
const SMALLEST_COPY: usize = 1 << 20;
const LARGEST_COPY: usize = 1 << 30;

/// The width of products is doubled until one takes this long: by then it fills any GPU many times over.
const LONG_PRODUCT: Duration = Duration::from_millis(1);
const NARROWEST: u32 = 128;
const WIDEST: u32 = 8192;

/// Measures the first GPU that the process sees.
pub fn measure(precision: Precision) -> Result<Floors> {
    let found = find();
    found.driver.need()?.gpus()?;
    let cublas = found.cublas.need()?;
    let gpu = Gpu::open(0)?;
    let bytes_per_second = measure_copies(&gpu).map_err(Error::failure)?;
    let operations_per_second =
        measure_products(&gpu, cublas, precision).map_err(Error::failure)?;
    Ok(Floors {
        bytes_per_second,
        operations_per_second,
    })
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
