//! BatchMaker (*Low Latency RNN Inference with Cellular Batching*, EuroSys'18).

mod device;
mod lstm;
mod seq2seq;
mod trees;

use super::{Claim, Exhibit};

/// The figures, in the paper's order. Figures 1, 2, 4, 6 and 12 are drawings, not results.
pub const EXHIBITS: &[Exhibit] = &[
    Exhibit::scenario(
        "fig3",
        "Figure 3",
        "Time against throughput of one LSTM step by batch size, on the GPU: flat up to 64, and twice the time for twice the \
            batch above 512. A point for each batch size from 2 to 2048. The paper's upper half is a processor",
    ),
    Exhibit::scenario(
        "fig5",
        "Figure 5",
        "Eight requests on unit-time cells. Graph batching runs four at a time to the end of the longest; under cellular \
            batching each leaves when it is done, and the next takes its place",
    ),
    Exhibit::scenario(
        "fig7a",
        "Figure 7a",
        "LSTM on Europarl sentences, one V100, batches of at most 512. Lines are the 90th percentile, bars go from the \
            median to the 99th",
    ),
    Exhibit::scenario("fig7b", "Figure 7b", "The same with batches of at most 64"),
    Exhibit::scenario(
        "fig8",
        "Figure 8",
        "Padded batching (MXNet) with buckets of width 1, 10 and 40: wide buckets wait less and pad more",
    ),
    Exhibit::scenario(
        "fig9",
        "Figure 9",
        "How long requests wait (a) and are computed (b) at 5,000 requests/s. Padded batching jumps at the lengths of its \
            buckets",
    ),
    Exhibit::scenario("fig10", "Figure 10", "The lengths of the sentences that the runs draw"),
    Exhibit::scenario("fig11a", "Figure 11, top", "Sequences of one length, 24: nothing is padded"),
    Exhibit::scenario("fig11b", "Figure 11, middle", "Sentences of at most 50 words"),
    Exhibit::scenario("fig11c", "Figure 11, bottom", "Sentences of at most 100 words"),
    Exhibit::scenario(
        "fig13a",
        "Figure 13a",
        "Seq2Seq, German to English, on two V100s. BatchMaker-x,y has batches of at most x encoder and y decoder cells; \
            the baselines have 256 requests and buckets of width 10",
    ),
    Exhibit::scenario("fig13b", "Figure 13b", "The same on four V100s"),
    Exhibit::scenario(
        "fig14",
        "Figure 14",
        "TreeLSTM on parse trees as in the Stanford treebank, batches of at most 64 cells (BatchMaker) or trees (DyNet, \
            TensorFlow Fold)",
    ),
    Exhibit::scenario(
        "fig15",
        "Figure 15",
        "TreeLSTM where every request is the complete tree of 16 leaves. Ideal is a graph made for this one tree: 31 cells one \
            after the other, each with the whole batch",
    ),
];

/// The claims, in the paper's order.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    [device::CLAIMS, lstm::CLAIMS, seq2seq::CLAIMS, trees::CLAIMS].into_iter().flatten()
}
