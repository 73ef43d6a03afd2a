//! Micro-benchmarks of a GPU: `kernels/grnn_micro.cu` (GRNN, section 7.1.3).

use cudarc::driver::sys::CUstream;

use super::GpuHost;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::core::cost::grnn::{
    CLUSTER_BLOCKS, MeasuredProduct, MeasuredReduction, MicroBenchmarks,
};
use crate::devices::cuda::device::DeviceFault;
use crate::devices::cuda::gpu::call::{Argument, Function, KernelCall, Residency};
use crate::devices::cuda::gpu::compile::LoadedKernels;
use crate::devices::cuda::gpu::driver::{CLUSTERS, Owned, median};
use crate::devices::cuda::gpu::memory::GpuMemory;
use crate::devices::cuda::gpu::weights::elements;

/// The file of the micro-benchmarks.
pub const MICRO: &str = "grnn_micro.cu";

/// The compiler's options in addition to the architecture.
pub fn micro_options() -> Vec<String> {
    vec![
        "-DELEMENT=0".into(),
        format!("-DTHREADS={THREADS}"),
        "--std=c++17".into(),
    ]
}

/// The threads of the largest block.
const THREADS: u32 = 1024;

/// The rounds of a micro-benchmark.
const ROUNDS: u32 = 64;

/// The work of a round, as in the kernels: dependent multiply-adds; states that a warp's threads share; numbers read
/// from the L2 cache; steps of a reduction over a warp.
const CHAIN: u32 = 32;
const STATES: u32 = 1024;
const READ: u32 = 16384;
const STEPS: u32 = 5;

const WARP: u32 = 32;

/// The numbers that are tried of warps on a scheduler, of outputs that share a state, and of values that a warp reduces
/// together. Some are below the bounds of the fits and some above.
const COUNTS: [u32; 4] = [1, 2, 4, 8];

/// The size of a launch.
#[derive(Clone, Copy)]
struct Grid {
    blocks: u32,
    threads: u32,
}

/// The GPU, and memory for all benchmarks. Fields are dropped in order: users before what they use.
struct MicroBench<'h> {
    stream: Owned<CUstream>,
    /// The kernels' inputs.
    numbers: GpuMemory,
    /// The kernels' results.
    results: GpuMemory,
    /// The cycles of each block.
    cycles: GpuMemory,
    /// The counters and values with which blocks synchronise.
    arrived: GpuMemory,
    exchanged: GpuMemory,
    times: usize,
    host: &'h GpuHost,
}

/// Runs each micro-benchmark `times` times after a warm-up, and returns medians. `schedulers` is the number of
/// schedulers of a multiprocessor, which share a block's warps.
pub fn measure(host: &GpuHost, schedulers: u32, times: usize) -> Result<MicroBenchmarks> {
    let mut bench = MicroBench::new(host, times).map_err(Error::failure)?;
    let kernels = LoadedKernels::load(host, [MICRO], &micro_options())?;
    let one_warp = Grid {
        blocks: 1,
        threads: WARP,
    };
    let everywhere = host.gpu.multiprocessors;

    let fma = bench.run(kernels.function("micro_fma"), one_warp, ())? / total_operations(CHAIN);
    let reductions = kernels.function("micro_reductions");
    // After the five shuffles of one value, a multiply-add prepares the next round.
    let shuffle =
        (bench.run(reductions, one_warp, 1u32)? / total_operations(1) - fma) / f64::from(STEPS);
    let l2 = kernels.function("micro_l2");
    let mut bytes = |blocks| -> Result<f64> {
        let cycles = bench.run(
            l2,
            Grid {
                blocks,
                threads: THREADS,
            },
            (),
        )?;
        Ok(total_operations(READ) * size_of::<f32>() as f64 / cycles)
    };
    let l2 = [bytes(1)?, bytes(everywhere)?];
    let barrier = kernels.function("micro_barrier");
    let barrier = bench.meet(
        barrier,
        Grid {
            blocks: everywhere,
            threads: THREADS,
        },
    )? / total_operations(1);

    let cluster = if host.gpu.architecture >= CLUSTERS {
        let cycles = bench.meet_in_cluster(kernels.function("micro_cluster"))?;
        Some(cycles / total_operations(1))
    } else {
        None
    };

    let of_products = kernels.function("micro_products");
    let mut products = Vec::new();
    let mut reduced = Vec::new();
    for (warps, count) in COUNTS
        .into_iter()
        .flat_map(|warps| COUNTS.map(|count| (warps, count)))
    {
        let grid = Grid {
            blocks: 1,
            threads: warps * schedulers * WARP,
        };
        let cycles = bench.run(of_products, grid, count)? / total_operations(STATES / WARP);
        products.push(MeasuredProduct {
            warps,
            outputs: count,
            cycles,
        });
        let cycles =
            (bench.run(reductions, grid, count)? / total_operations(1) - fma) / f64::from(STEPS);
        reduced.push(MeasuredReduction {
            values: warps * count,
            cycles,
        });
    }
    Ok(MicroBenchmarks {
        fma,
        shuffle,
        l2,
        barrier,
        cluster,
        products,
        reductions: reduced,
    })
}

/// The operations of all rounds, with `count` in each.
fn total_operations(count: u32) -> f64 {
    f64::from(ROUNDS * count)
}

impl MicroBench<'_> {
    fn new(host: &GpuHost, times: usize) -> Result<MicroBench<'_>, DeviceFault> {
        let gpu = &host.gpu;
        let blocks = host.gpu.multiprocessors.max(CLUSTER_BLOCKS) as usize;
        let numbers: Vec<f32> = (0..READ).map(|n| (n % 7) as f32 / 8.0).collect();
        let floats =
            |count: usize| GpuMemory::zeros(gpu, count * size_of::<f32>(), "a micro-benchmark");
        Ok(MicroBench {
            stream: gpu.stream()?,
            numbers: GpuMemory::with_bytes(
                gpu,
                &elements(&numbers, Precision::F32),
                "a micro-benchmark",
            )?,
            results: floats(blocks * THREADS as usize)?,
            cycles: GpuMemory::zeros(gpu, blocks * size_of::<u64>(), "a micro-benchmark")?,
            arrived: floats(1)?,
            exchanged: floats(2 * blocks)?,
            times,
            host,
        })
    }

    /// The cycles of a kernel, some of which have a constant as their first parameter.
    fn run(&mut self, kernel: &Function, grid: Grid, constant: impl Argument) -> Result<f64> {
        let arguments = (constant, ROUNDS, self.numbers.address(), self.ending());
        self.median(
            KernelCall::new(kernel, (grid.blocks, 1), arguments).with_threads(grid.threads),
            grid,
        )
    }

    /// The cycles of blocks that wait for each other.
    fn meet(&mut self, kernel: &Function, grid: Grid) -> Result<f64> {
        let arguments = (
            ROUNDS,
            self.arrived.address(),
            self.exchanged.address(),
            self.ending(),
        );
        let call = KernelCall::new(kernel, (grid.blocks, 1), arguments)
            .with_threads(grid.threads)
            .with_residency(Residency::All);
        self.median(call, grid)
    }

    /// The cycles of the blocks of the largest cluster that wait for each other.
    fn meet_in_cluster(&mut self, kernel: &Function) -> Result<f64> {
        let grid = Grid {
            blocks: CLUSTER_BLOCKS,
            threads: THREADS,
        };
        let call = KernelCall::new(kernel, (grid.blocks, 1), (ROUNDS, self.ending()))
            .with_threads(grid.threads)
            .with_residency(Residency::Clusters(CLUSTER_BLOCKS));
        self.median(call, grid)
    }

    /// The last arguments of all kernels.
    fn ending(&self) -> impl Argument + use<> {
        (self.results.address(), self.cycles.address())
    }

    /// The median of the cycles of some launches.
    fn median(&mut self, mut call: KernelCall, grid: Grid) -> Result<f64> {
        Ok(median(self.times, || self.once(&mut call, grid)).map_err(Error::failure)? as f64)
    }

    /// The cycles of the slowest block.
    fn once(&mut self, call: &mut KernelCall, grid: Grid) -> Result<u64, DeviceFault> {
        self.arrived.clear()?;
        // SAFETY: the kernel is loaded, the arguments are its own, and the memory suffices for the largest grid; it is
        // read below, after the launch.
        unsafe { call.queue("a micro-benchmark", &self.stream) }?;
        let of_blocks = self.cycles.read(0, grid.blocks as usize)?;
        Ok(of_blocks
            .into_iter()
            .map(u64::from_le_bytes)
            .max()
            .unwrap_or(0))
    }
}

impl Drop for MicroBench<'_> {
    /// Waits for queued work before its memory is freed.
    fn drop(&mut self) {
        // There is nothing to wait for on a lost GPU.
        let _ = self.host.gpu.synchronize();
    }
}
