//! Faults that such kernels are known to have had, planted: the tests of sequences find each of them.
//!
//! Under one order of the threads or another, that is. What a GPU's memory model alone allows, a flag that overtakes what was
//! written before it, is what `scripts/sanitize-kernels thread` finds.

use batchlab::cost::grnn::Rnn;

use batchlab::cuda::gpu::grnn::Configuration;

use super::bench::{Bench, Change, configuration};

const ORDERS: u64 = 12;

/// Whether a fault shows in the sequences of a kernel.
#[track_caller]
fn shows(rnn: Rnn, fault: &str, changes: &[Change<'_>]) {
    shows_in(memory(rnn), fault, changes);
}

/// The same for a kernel of any way of exchange.
#[track_caller]
fn shows_in(kernel: Configuration, fault: &str, changes: &[Change<'_>]) {
    let rnn = kernel.sizes().rnn;
    let Some(mut bench) = Bench::changed(kernel, &format!("-{fault}"), changes) else {
        return;
    };
    let lengths: [&[u32]; 3] = [&[5, 2, 6, 1], &[1, 1, 1, 1], &[7, 3, 1, 4]];
    let wrong = (0..ORDERS).find_map(|seed| {
        lengths
            .iter()
            .find_map(|lengths| bench.check(lengths, seed).err())
    });
    let wrong = wrong.unwrap_or_else(|| panic!("{rnn}: {fault} goes unnoticed"));
    println!("{rnn}, {fault}: {wrong}");
}

/// Kernels whose rows exchange states in memory, in a block, in a cluster.
fn memory(rnn: Rnn) -> Configuration {
    configuration(rnn, 20, 4, [4, 2, 8, 8])
}

fn block(rnn: Rnn) -> Configuration {
    configuration(rnn, 20, 4, [20, 2, 40, 4])
}

fn cluster(rnn: Rnn) -> Configuration {
    memory(rnn).cluster().expect("a cluster of five")
}

const ALL: [Rnn; 3] = [Rnn::Lstm, Rnn::GruDouble, Rnn::GruSingle];

#[test]
fn a_signal_without_a_barrier_of_the_block() {
    let change = (
        "    __syncthreads();\n    if (threadIdx.x == 0) announce",
        "    if (threadIdx.x == 0) announce",
    );
    ALL.into_iter()
        .for_each(|rnn| shows(rnn, "signal without barrier", &[change]));
}

#[test]
fn a_signal_before_what_it_is_about() {
    for (rnn, store, give) in [
        (
            Rnn::Lstm,
            "hidden[of_step(step + 1, batch) + own.at] = h[threadIdx.x];",
            "others.give(step + 1, own, h[threadIdx.x]);",
        ),
        (
            Rnn::GruDouble,
            "hidden[of_step(step + 1, batch) + own.at] = waiting[GATES];",
            "others.give(2 * step + 2, own, waiting[GATES]);",
        ),
    ] {
        let signal = format!("    if (own.exists) {give}\n    others.signal();\n");
        let late = format!("    others.signal();\n    if (own.exists) {store}\n");
        shows(rnn, "signal too early", &[(store, ""), (&signal, &late)]);
        let late = format!("    others.signal();\n    if (own.exists) {give}\n");
        shows_in(cluster(rnn), "signal too early", &[(&signal, &late)]);
    }
}

#[test]
fn no_wait() {
    let change = (
        "if (threadIdx.x == 0) await(arrived, signals * COLUMNS);",
        "",
    );
    ALL.into_iter()
        .for_each(|rnn| shows(rnn, "no wait", &[change]));
}

#[test]
fn a_wait_of_one_thread_alone() {
    let change = (
        "await(arrived, signals * COLUMNS);\n    __syncthreads();",
        "await(arrived, signals * COLUMNS);",
    );
    ALL.into_iter()
        .for_each(|rnn| shows(rnn, "wait of one thread", &[change]));
}

#[test]
fn a_wait_for_fewer_blocks_than_there_are() {
    let change = (
        "await(arrived, signals * COLUMNS)",
        "await(arrived, signals * COLUMNS - 1)",
    );
    ALL.into_iter()
        .for_each(|rnn| shows(rnn, "one block fewer", &[change]));
}

#[test]
fn a_count_left_from_the_launch_before() {
    let change = ("*arrived = 0;", "{}");
    ALL.into_iter()
        .for_each(|rnn| shows(rnn, "count left", &[change]));
}

#[test]
fn states_that_overtake_those_still_read() {
    // One address for all steps, as if a barrier kept a fast block from what a slow one reads.
    let change = ("return step * batch * HIDDEN;", "return 0;");
    ALL.into_iter()
        .for_each(|rnn| shows(rnn, "one address", &[change]));
}

#[test]
fn states_given_to_one_block_only() {
    let change = ("cluster_shared(place, block)", "cluster_shared(place, 0)");
    for rnn in [Rnn::Lstm, Rnn::GruDouble] {
        shows_in(cluster(rnn), "given to one", &[change]);
    }
}

#[test]
fn a_tile_that_others_still_read() {
    let change = ("EXCHANGE == IN_CLUSTER ? 2 : 1;", "1;");
    // Many small blocks, of which some are far ahead.
    for rnn in [Rnn::Lstm, Rnn::GruDouble] {
        let small = configuration(rnn, 20, 4, [3, 1, 6, 2]);
        let cluster = small.cluster().expect("a cluster of seven");
        shows_in(cluster, "one tile", &[change]);
    }
}

#[test]
fn a_cluster_that_begins_without_waiting() {
    let change = ("    signal();\n    wait(0);\n", "    __syncthreads();\n");
    for rnn in [Rnn::Lstm, Rnn::GruDouble] {
        shows_in(cluster(rnn), "no first barrier", &[change]);
    }
}

#[test]
fn no_barrier_behind_states() {
    let change = ("    wait_cluster();\n", "");
    let in_block = ("#else\n    __syncthreads();\n#endif", "#endif");
    for rnn in [Rnn::Lstm, Rnn::GruDouble] {
        shows_in(cluster(rnn), "no wait", &[change]);
        shows_in(block(rnn), "no wait", &[in_block]);
    }
}

#[test]
fn products_read_before_they_are_there() {
    let change = (
        "GATES);\n    __syncthreads();\n    if (own.exists) {",
        "GATES);\n    if (own.exists) {",
    );
    shows(Rnn::Lstm, "no barrier behind products", &[change]);
    let change = (
        "(tile, tiles, products, TILE_WIDTH * TOGETHER);\n    __syncthreads();",
        "(tile, tiles, products, TILE_WIDTH * TOGETHER);",
    );
    shows(Rnn::GruSingle, "no barrier behind products", &[change]);
}

#[test]
fn swapped_gates() {
    shows(
        Rnn::Lstm,
        "i for f",
        &[(
            "i = gates.at[0], f = gates.at[1]",
            "i = gates.at[1], f = gates.at[0]",
        )],
    );
    let change = (
        "return fresh + z * (h - fresh);",
        "return h + z * (fresh - h);",
    );
    [Rnn::GruDouble, Rnn::GruSingle]
        .into_iter()
        .for_each(|rnn| shows(rnn, "z and h swapped", &[change]));
}

#[test]
fn steps_behind_a_sequences_end() {
    let condition = |text| [(text, "if (step < steps)")];
    shows(
        Rnn::Lstm,
        "no end",
        &condition("if (step < ends[threadIdx.x])"),
    );
    shows(
        Rnn::GruDouble,
        "no end",
        &condition("if (step < ends[threadIdx.x])"),
    );
}
