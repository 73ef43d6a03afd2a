//! Faults that such kernels are known to have had, planted: the tests of sequences find each of them.
//!
//! Under one order of the threads or another, that is. What a GPU's memory model alone allows, a flag that overtakes what was
//! written before it, is what `scripts/sanitize-kernels thread` finds.

use batchlab::cost::grnn::Rnn;

use super::bench::{Bench, Change};

const ORDERS: u64 = 12;

/// Whether a fault shows in the sequences of a kernel.
#[track_caller]
fn shows(rnn: Rnn, fault: &str, changes: &[Change<'_>]) {
    let (hidden, batch, mapping) = (20, 4, [4, 2, 8, 8]);
    let Some(mut bench) =
        Bench::changed(rnn, hidden, batch, mapping, &format!("-{fault}"), changes)
    else {
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
    let signal = "    if (step + 1 == steps) break;\n    others.signal();\n";
    for (rnn, store) in [
        (
            Rnn::Lstm,
            "hidden[of_step(step + 1, batch) + own.at] = h[threadIdx.x];",
        ),
        (
            Rnn::GruDouble,
            "hidden[of_step(step + 1, batch) + own.at] = waiting[GATES];",
        ),
    ] {
        let late = format!("{signal}    if (own.exists) {store}\n");
        shows(rnn, "signal too early", &[(store, ""), (signal, &late)]);
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
