//! Micro-benchmarks of a GPU: `kernels/grnn_micro.cu` (GRNN, section 7.1.3).

use cudarc::driver::sys::CUstream;

use super::Host;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::core::cost::grnn::{MeasuredProduct, MeasuredReduction, MicroBenchmarks};
use crate::devices::cuda::device::Fault;
use crate::devices::cuda::gpu::call::{Argument, Call, Function};
use crate::devices::cuda::gpu::compile::Kernels;
use crate::devices::cuda::gpu::driver::{Owned, median};
use crate::devices::cuda::gpu::memory::Memory;
use crate::devices::cuda::gpu::weights::elements;

/// Their file.
pub const MICRO: &str = "grnn_micro.cu";

/// The compiler's options beside the architecture.
pub fn micro_options() -> Vec<String> {
    vec![
        "-DELEMENT=0".into(),
        format!("-DTHREADS={THREADS}"),
        "--std=c++17".into(),
    ]
}

/// The threads of the largest block.
const THREADS: u32 = 1024;

const ROUNDS: u32 = 64;

/// The work of a round, as in the kernels: dependent multiply-adds; states that a warp's threads share; numbers read
/// from the L2 cache; steps of a reduction over a warp.
const CHAIN: u32 = 32;
const STATES: u32 = 1024;
const READ: u32 = 16384;
const STEPS: u32 = 5;

const WARP: u32 = 32;

/// The warps of each scheduler, the outputs that share a state, and the values that a warp reduces together: values
/// below and above the bounds of the fits.
const COUNTS: [u32; 4] = [1, 2, 4, 8];

#[derive(Clone, Copy)]
struct Grid {
    blocks: u32,
    threads: u32,
}

/// The GPU, and memory for all benchmarks. Fields are dropped in order: users before what they use.
struct Bench<'h> {
    stream: Owned<CUstream>,
    /// The kernels' inputs and results, and the cycles of each block.
    numbers: Memory,
    results: Memory,
    cycles: Memory,
    /// The counters and values with which blocks synchronise.
    arrived: Memory,
    exchanged: Memory,
    times: usize,
    host: &'h Host,
}

/// Runs each micro-benchmark `times` times after a warm-up, and returns medians. `schedulers` are those of a
/// multiprocessor, which share a block's warps.
pub fn measure(host: &Host, schedulers: u32, times: usize) -> Result<MicroBenchmarks> {
    let mut bench = Bench::new(host, times).map_err(Error::failed)?;
    let kernels = Kernels::load(host, [MICRO], &micro_options())?;
    let one_warp = Grid {
        blocks: 1,
        threads: WARP,
    };
    let of_warps = |warps: u32| Grid {
        blocks: 1,
        threads: warps * schedulers * WARP,
    };
    let everywhere = host.gpu.multiprocessors;
    let rounds = |count: u32| f64::from(ROUNDS * count);

    let fma = bench.run(kernels.function("micro_fma"), one_warp, ())? / rounds(CHAIN);
    let reductions = kernels.function("micro_reductions");
    // After the five shuffles of one value, a multiply-add prepares the next round.
    let shuffle = (bench.run(reductions, one_warp, 1u32)? / rounds(1) - fma) / f64::from(STEPS);
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
        Ok(rounds(READ) * size_of::<f32>() as f64 / cycles)
    };
    let l2 = [bytes(1)?, bytes(everywhere)?];
    let barrier = kernels.function("micro_barrier");
    let barrier = bench.meet(
        barrier,
        Grid {
            blocks: everywhere,
            threads: THREADS,
        },
    )? / rounds(1);

    let of_products = kernels.function("micro_products");
    let (mut products, mut reduced) = (Vec::new(), Vec::new());
    for (warps, count) in COUNTS
        .into_iter()
        .flat_map(|warps| COUNTS.map(|count| (warps, count)))
    {
        let cycles = bench.run(of_products, of_warps(warps), count)? / rounds(STATES / WARP);
        products.push(MeasuredProduct {
            warps,
            outputs: count,
            cycles,
        });
        let cycles =
            (bench.run(reductions, of_warps(warps), count)? / rounds(1) - fma) / f64::from(STEPS);
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
        products,
        reductions: reduced,
    })
}

impl Bench<'_> {
    fn new(host: &Host, times: usize) -> Result<Bench<'_>, Fault> {
        let (gpu, blocks) = (&host.gpu, host.gpu.multiprocessors as usize);
        let numbers: Vec<f32> = (0..READ).map(|n| (n % 7) as f32 / 8.0).collect();
        let floats =
            |count: usize| Memory::zeros(gpu, count * size_of::<f32>(), "a micro-benchmark");
        Ok(Bench {
            stream: gpu.stream()?,
            numbers: Memory::holding(
                gpu,
                &elements(&numbers, Precision::F32),
                "a micro-benchmark",
            )?,
            results: floats(blocks * THREADS as usize)?,
            cycles: Memory::zeros(gpu, blocks * size_of::<u64>(), "a micro-benchmark")?,
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
            Call::new(kernel, (grid.blocks, 1), arguments).of_threads(grid.threads),
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
        let call = Call::new(kernel, (grid.blocks, 1), arguments)
            .of_threads(grid.threads)
            .cooperative(0);
        self.median(call, grid)
    }

    fn ending(&self) -> impl Argument + use<> {
        (self.results.address(), self.cycles.address())
    }

    fn median(&mut self, mut call: Call, grid: Grid) -> Result<f64> {
        Ok(median(self.times, || self.once(&mut call, grid)).map_err(Error::failed)? as f64)
    }

    /// The cycles of the slowest block.
    fn once(&mut self, call: &mut Call, grid: Grid) -> Result<u64, Fault> {
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

impl Drop for Bench<'_> {
    /// Waits for queued work before its memory is freed.
    fn drop(&mut self) {
        // There is nothing to wait for on a lost GPU.
        let _ = self.host.gpu.synchronize();
    }
}
