//! The shim itself: right kernels compute what they should under any order, wrong ones are found out.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::host_cuda::{Argument, Element, Grid, Kernels, Wrong};

/// The kernels of `samples/`.
fn samples() -> Option<&'static Kernels> {
    static SAMPLES: OnceLock<Option<Kernels>> = OnceLock::new();
    let sources = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/host_cuda/samples");
    SAMPLES
        .get_or_init(|| Kernels::of("samples", sources()))
        .as_ref()
}

fn grid(blocks: u32, threads: u32, seed: u64) -> Grid {
    Grid {
        blocks: [blocks, 1, 1],
        threads,
        shared: 0,
        seed,
        together: false,
        cluster: 1,
    }
}

fn launch(name: &str, grid: Grid, arguments: &[Argument]) -> Result<(), Wrong> {
    let samples = samples().expect("asked for before");
    // SAFETY: the tests below give each sample the arguments that its source asks for, and buffers of the size it writes.
    unsafe { samples.kernel(name, Element::F32).launch(grid, arguments) }
}

#[test]
fn sums_are_right_under_any_order() {
    if samples().is_none() {
        return;
    }
    let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    for seed in 0..20 {
        let mut total = 0f32;
        let arguments = [
            numbers.as_ptr().into(),
            1000u32.into(),
            (&raw mut total).into(),
        ];
        launch("sum", grid(3, 256, seed), &arguments).unwrap();
        assert_eq!(total, 499_500.0, "seed {seed}");
    }
}

#[test]
fn threads_know_where_they_are() {
    if samples().is_none() {
        return;
    }
    let mut out = vec![0u32; 3 * 6 * 40];
    let place = Grid {
        blocks: [1, 2, 3],
        ..grid(1, 40, 0)
    };
    launch("places", place, &[out.as_mut_ptr().into()]).unwrap();
    for (number, row) in out.chunks_exact(3).enumerate() {
        let (block, thread) = (number as u32 / 40, number as u32 % 40);
        let lanes = if thread < 32 { 0x5555_5555 } else { 0x55 };
        let before = if thread % 32 == 0 { thread } else { thread - 1 };
        assert_eq!(
            row,
            [
                block * 1000 + thread,
                lanes,
                thread / 8 * 8 + 3 + 1000 * before
            ],
            "{number}"
        );
    }
}

#[test]
fn the_last_block_sees_all_and_is_another_under_another_seed() {
    if samples().is_none() {
        return;
    }
    let mut lasts = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (mut stored, mut arrived, mut seen) = ([0u32; 30], 0u32, [0u32; 2]);
        let arguments = [
            stored.as_mut_ptr().into(),
            (&raw mut arrived).into(),
            seen.as_mut_ptr().into(),
        ];
        launch("last", grid(30, 256, seed), &arguments).unwrap();
        assert_eq!(seen[0], 465, "seed {seed}");
        lasts.insert(seen[1]);
    }
    assert!(lasts.len() > 5, "{lasts:?}");
}

#[test]
fn memory_that_was_not_written_holds_poison() {
    if samples().is_none() {
        return;
    }
    let mut out = [0u32; 64];
    let shared = Grid {
        shared: 256,
        ..grid(1, 64, 0)
    };
    launch("no_barrier", shared, &[out.as_mut_ptr().into()]).unwrap();
    assert_eq!(
        (out[0], out[63]),
        (0xcdcd_cdcd, 0),
        "the order of the threads' numbers"
    );
}

#[test]
fn mistakes_are_found() {
    if samples().is_none() {
        return;
    }
    for (name, threads, says) in [
        (
            "ends_before_a_barrier",
            64,
            "DIVERGENCE: thread (5,0,0) of block (0,0,0) ended, and thread (0,0,0)",
        ),
        (
            "two_barriers",
            64,
            "DIVERGENCE: thread (32,0,0) of block (0,0,0) waits at __syncthreads (samples.cu:",
        ),
        (
            "half_a_warp",
            32,
            "DIVERGENCE: thread (16,0,0) of block (0,0,0) ended, and thread (0,0,0)",
        ),
        (
            "barrier_and_shuffle",
            32,
            "DEADLOCK: threads wait for each other; block (0,0,0): 1 at __syncthreads",
        ),
        (
            "too_much_shared",
            32,
            "a block has static arrays of more than 49152 bytes",
        ),
        (
            "half_a_warp",
            1025,
            "a block of (1025,1,1) threads is more than a device takes",
        ),
        ("half_a_warp", 0, "a launch without threads"),
    ] {
        let wrong = launch(name, grid(2, threads, 0), &[]).unwrap_err();
        assert!(wrong.0.starts_with(&format!("{name}: {says}")), "{wrong}");
        for seed in 1..10 {
            launch(name, grid(2, threads, seed), &[]).unwrap_err();
        }
    }
    let shared = Grid {
        shared: 1 << 20,
        ..grid(1, 32, 0)
    };
    let wrong = launch("half_a_warp", shared, &[]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "half_a_warp: a block has too much shared memory"
    );
}

#[test]
fn blocks_of_a_cluster_share_their_memory() {
    if samples().is_none() {
        return;
    }
    for (blocks, cluster, threads) in [(1, 1, 3), (6, 2, 40), (6, 3, 5), (8, 8, 256), (30, 5, 700)]
    {
        let shared = Grid {
            shared: 64,
            cluster,
            ..grid(blocks, threads, 0)
        };
        for seed in 0..5 {
            let mut out = vec![0u32; blocks as usize];
            let arguments = [cluster.into(), out.as_mut_ptr().into()];
            launch("all_to_all", Grid { seed, ..shared }, &arguments).unwrap();
            for (block, sum) in out.into_iter().enumerate() {
                let first = block as u32 / cluster * cluster;
                assert_eq!(
                    sum,
                    (first..first + cluster).sum::<u32>() * 3,
                    "{block} of {shared:?}"
                );
            }
        }
    }
}

#[test]
fn mistakes_of_clusters_are_found() {
    if samples().is_none() {
        return;
    }
    let two = Grid {
        cluster: 2,
        ..grid(4, 64, 0)
    };
    for (name, says) in [
        ("waits_without_arriving", "waits at a cluster's wait"),
        ("arrives_twice", "without a wait after the first time"),
        ("no_such_block", "asks for block 2 of a cluster of 2"),
        ("used_before_it_begins", "which may not have begun"),
        ("one_thread_of_a_cluster", "ended"),
    ] {
        for seed in 0..10 {
            let wrong = launch(name, Grid { seed, ..two }, &[]).unwrap_err();
            assert!(wrong.0.contains(says), "seed {seed}: {wrong}");
        }
    }
    let mut ended = 0u32;
    let pair = Grid {
        cluster: 2,
        ..grid(2, 1, 0)
    };
    let wrong = launch("used_after_its_end", pair, &[(&raw mut ended).into()]).unwrap_err();
    assert!(wrong.0.contains("which has ended"), "{wrong}");
    for (blocks, cluster, says) in [
        (
            9,
            9,
            "a cluster of (9,1,1) blocks is more than a device takes",
        ),
        (
            3,
            2,
            "a grid of (3,1,1) blocks is no multiple of its clusters of (2,1,1)",
        ),
    ] {
        let grid = Grid {
            cluster,
            ..grid(blocks, 32, 0)
        };
        let wrong = launch("no_such_block", grid, &[]).unwrap_err();
        assert_eq!(wrong.to_string(), format!("no_such_block: {says}"));
    }
}

#[test]
fn each_element_has_its_own_kernels() {
    let Some(samples) = samples() else { return };
    for element in Element::ALL {
        let mut out = -1i32;
        // SAFETY: the kernel writes one number.
        unsafe {
            samples
                .kernel("element", element)
                .launch(grid(1, 1, 0), &[(&raw mut out).into()])
        }
        .unwrap();
        assert_eq!(out, element as i32);
    }
}

#[test]
fn a_kernel_may_have_the_name_of_a_function_of_the_host() {
    if samples().is_none() {
        return;
    }
    let (mut counted, mut host) = (4u64, 0u64);
    launch(
        "signal",
        grid(1, 1, 0),
        &[(&raw mut counted).into(), (&raw mut host).into()],
    )
    .unwrap();
    assert_eq!((counted, host), (5, 5));
}
