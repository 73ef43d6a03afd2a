//! Micro-benchmarks: what they compute has all their work in it, and they compile without spills.

use batchlab::cuda::gpu::grnn::{MICRO, file, headers, micro_options};
use batchlab::cuda::gpu::nvrtc::{CompileTarget, KernelSource};

use crate::compile::{ARCHITECTURES, figures, nvrtc, warning};
use crate::host_cuda::{Argument, Grid, Kernels};
use crate::memory::{Memory, floats, words};

/// The registers with which a block of 1024 threads fits a multiprocessor.
const REGISTERS: u32 = 64;

/// What a round of a kernel has, as there.
const CHAIN: u32 = 32;
const STATES: usize = 1024;
const READ: usize = 16384;

fn kernels() -> Option<Kernels> {
    let constants: Vec<String> = micro_options()
        .into_iter()
        .filter(|option| option.starts_with("-DTHREADS"))
        .collect();
    Kernels::variant(
        "micro",
        &[&headers()[..], &[file(MICRO)]].concat(),
        &constants,
    )
}

/// The results of all threads. A clock has told the cycles of each block.
fn run(kernels: &Kernels, name: &str, grid: Grid, arguments: &[Argument]) -> Vec<f32> {
    let mut results = floats((grid.blocks[0] * grid.threads) as usize);
    let mut cycles = Memory::new(grid.blocks[0] as usize, 0u64, 7);
    let ending: [Argument; 2] = [results.pointer().into(), cycles.pointer().into()];
    // SAFETY: the callers give what stands in front of these two in every kernel; all memory is large enough.
    let ran = unsafe {
        kernels
            .of_variant(name)
            .launch(grid, &[arguments, &ending].concat())
    };
    ran.unwrap_or_else(|wrong| panic!("{name}, {grid:?}: {wrong}"));
    assert!(
        cycles.iter().all(|cycles| *cycles > 0),
        "{name}: {:?}",
        &cycles[..]
    );
    results.to_vec()
}

fn grid(blocks: u32, threads: u32, seed: u64) -> Grid {
    Grid {
        blocks: [blocks, 1, 1],
        threads,
        shared: 0,
        seed,
        together: true,
        cluster: 1,
    }
}

fn memory(numbers: impl Iterator<Item = f32>) -> Memory<f32> {
    let numbers: Vec<f32> = numbers.collect();
    let mut memory = floats(numbers.len());
    memory.copy_from_slice(&numbers);
    memory
}

#[test]
fn multiply_adds_are_a_chain() {
    let Some(kernels) = kernels() else { return };
    // In a chain of x -> 1 - x every link shows, and with a factor of 1 their number.
    for (factor, added, rounds) in [(1.0, 3.0, 5), (1.0, 0.25, 1), (-1.0, 1.0, 3), (0.0, 2.0, 1)] {
        let mut numbers = memory([factor, added].into_iter());
        let found = run(
            &kernels,
            "micro_fma",
            grid(1, 32, 1),
            &[rounds.into(), numbers.pointer().into()],
        );
        for (thread, found) in found.iter().enumerate() {
            let expected = (0..rounds * CHAIN).fold(thread as f32, |x, _| x * factor + added);
            assert_eq!(
                *found, expected,
                "{factor} {added}, {rounds} rounds, thread {thread}"
            );
        }
    }
}

#[test]
fn products_have_all_states_and_weights() {
    let Some(kernels) = kernels() else { return };
    let states: Vec<f32> = (0..STATES).map(|at| ((7 * at) % 31) as f32).collect();
    let weights = [1.0, 2.0, 5.0, 11.0, 3.0, 7.0, 13.0, 17.0];
    let mut numbers = memory(states.iter().copied().chain(weights));
    for (warps, outputs, rounds) in [
        (1u32, 1u32, 1u32),
        (1, 8, 3),
        (4, 2, 2),
        (8, 4, 9),
        (4, 8, 1),
    ] {
        let arguments = [outputs.into(), rounds.into(), numbers.pointer().into()];
        let found = run(
            &kernels,
            "micro_products",
            grid(1, 32 * warps, outputs.into()),
            &arguments,
        );
        // Whichever round begins where, each has all of a lane's states.
        let weight: f32 = weights[..outputs as usize].iter().sum();
        for (thread, found) in found.iter().enumerate() {
            let own = (0..STATES).filter(|at| at / 4 % 32 == thread % 32);
            let expected = own.map(|at| states[at]).sum::<f32>() * weight * rounds as f32;
            assert_eq!(
                *found, expected,
                "{warps} warps, {outputs} outputs, {rounds} rounds, thread {thread}"
            );
        }
    }
}

#[test]
fn reductions_go_from_round_to_round() {
    let Some(kernels) = kernels() else { return };
    let mut numbers = memory((0..16).map(|n| n as f32));
    for (warps, values, rounds) in [
        (1u32, 1u32, 4u32),
        (2, 2, 3),
        (1, 4, 5),
        (4, 8, 2),
        (1, 8, 6),
        (8, 8, 1),
    ] {
        let arguments = [values.into(), rounds.into(), numbers.pointer().into()];
        let found = run(
            &kernels,
            "micro_reductions",
            grid(1, 32 * warps, rounds.into()),
            &arguments,
        );
        // Lane n has the sum of the values number n modulo their count, of which the next round adds the mean of all lanes to each value's own.
        let mut sums = vec![0.0; values as usize];
        for _ in 0..rounds {
            let mean = sums.iter().sum::<f64>() / f64::from(values);
            sums = (0..values).map(|n| mean + 32.0 * f64::from(n)).collect();
        }
        for (thread, found) in found.iter().enumerate() {
            let expected = sums[thread % values as usize];
            assert_eq!(
                f64::from(*found),
                expected,
                "{warps} warps, {values} values, {rounds} rounds, thread {thread}"
            );
        }
    }
}

#[test]
fn all_blocks_read_all_numbers() {
    let Some(kernels) = kernels() else { return };
    let numbers: Vec<f32> = (0..READ).map(|at| ((11 * at) % 37) as f32).collect();
    let total: f64 = numbers.iter().map(|number| f64::from(*number)).sum();
    let mut numbers = memory(numbers.into_iter());
    let found = run(
        &kernels,
        "micro_l2",
        grid(2, 1024, 3),
        &[3u32.into(), numbers.pointer().into()],
    );
    for of_block in found.chunks_exact(1024) {
        assert_eq!(
            of_block.iter().map(|sum| f64::from(*sum)).sum::<f64>(),
            3.0 * total
        );
    }
}

#[test]
fn blocks_meet_in_every_round() {
    let Some(kernels) = kernels() else { return };
    for seed in 0..8u64 {
        let (blocks, rounds) = (5u32, 1 + 4 * seed as u32);
        let (mut arrived, mut exchanged) = (words(1, 0), floats(2 * blocks as usize));
        let arguments = [
            rounds.into(),
            arrived.pointer().into(),
            exchanged.pointer().into(),
        ];
        let found = run(
            &kernels,
            "micro_barrier",
            grid(blocks, 64, seed),
            &arguments,
        );
        for (thread, found) in found.iter().enumerate() {
            // A number goes round the blocks and gains 1 a round.
            let expected = (thread as u32 / 64 + rounds) % blocks + rounds;
            assert_eq!(
                *found, expected as f32,
                "{rounds} rounds, seed {seed}, thread {thread}"
            );
        }
        assert_eq!(arrived[0], blocks * rounds);
    }
}

#[test]
fn blocks_of_a_cluster_meet_in_every_round() {
    let Some(kernels) = kernels() else { return };
    for (blocks, seed) in [(8, 0u64), (8, 1), (5, 2), (2, 3), (1, 4)] {
        let rounds = 1 + 4 * seed as u32;
        let one = Grid {
            together: false,
            cluster: blocks,
            ..grid(blocks, 64, seed)
        };
        let found = run(&kernels, "micro_cluster", one, &[rounds.into()]);
        for (thread, found) in found.iter().enumerate() {
            let expected = (thread as u32 / 64 + rounds) % blocks + rounds;
            assert_eq!(
                *found, expected as f32,
                "{rounds} rounds, seed {seed}, thread {thread}"
            );
        }
    }
}

#[test]
fn they_compile_without_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    for architecture in ARCHITECTURES
        .into_iter()
        .filter(|known| nvrtc.architectures.contains(known))
    {
        let mut options = micro_options();
        options.push("--ptxas-options=-v".into());
        let (name, text) = file(MICRO);
        let source = KernelSource {
            name,
            text,
            headers: &headers(),
        };
        let compiled = nvrtc.compile(&source, CompileTarget::Cubin(architecture), &options);
        let log = compiled.unwrap_or_else(|error| panic!("{error}")).log;
        assert_eq!(warning(&log), None, "sm_{architecture}:\n{log}");
        let figures = figures(&log);
        assert_eq!(figures.len(), 6, "{log}");
        for figures in figures {
            println!("sm_{architecture}: {figures:?}");
            assert!(
                !figures.spills(architecture) && figures.registers <= REGISTERS,
                "sm_{architecture}: {figures:?}"
            );
        }
    }
}
