//! BatchMaker (*Low Latency RNN Inference with Cellular Batching*, EuroSys'18).

mod device;
mod lstm;
mod seq2seq;
mod trees;

use super::{Claim, Exhibit, Made};

/// The figures, in the paper's order. Figures 1, 2, 4, 6 and 12 are drawings, not results.
pub const EXHIBITS: &[Exhibit] = &[
    Exhibit {
        name: "fig3",
        place: "Figure 3",
        shows: "Time against throughput of one LSTM step by batch size, on the GPU: flat up to 64, and twice the time for twice the \
            batch above 512. A point for each batch size from 2 to 2048. The paper's upper half is a processor",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig5",
        place: "Figure 5",
        shows: "Eight requests on unit-time cells. Graph batching runs four at a time to the end of the longest; under cellular \
            batching each leaves when it is done, and the next takes its place",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig7a",
        place: "Figure 7a",
        shows: "LSTM on Europarl sentences, one V100, batches of at most 512. Lines are the 90th percentile, bars go from the \
            median to the 99th",
        made: Made::Scenario,
    },
    Exhibit { name: "fig7b", place: "Figure 7b", shows: "The same with batches of at most 64", made: Made::Scenario },
    Exhibit {
        name: "fig8",
        place: "Figure 8",
        shows: "Padded batching (MXNet) with buckets of width 1, 10 and 40: wide buckets wait less and pad more",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig9",
        place: "Figure 9",
        shows: "How long requests wait (a) and are computed (b) at 5,000 requests/s. Padded batching jumps at the lengths of its \
            buckets",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig10",
        place: "Figure 10",
        shows: "The lengths of the sentences that the runs draw",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig11a",
        place: "Figure 11, top",
        shows: "Sequences of one length, 24: nothing is padded",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig11b",
        place: "Figure 11, middle",
        shows: "Sentences of at most 50 words",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig11c",
        place: "Figure 11, bottom",
        shows: "Sentences of at most 100 words",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig13a",
        place: "Figure 13a",
        shows: "Seq2Seq, German to English, on two V100s. BatchMaker-x,y has batches of at most x encoder and y decoder cells; \
            the baselines have 256 requests and buckets of width 10",
        made: Made::Scenario,
    },
    Exhibit { name: "fig13b", place: "Figure 13b", shows: "The same on four V100s", made: Made::Scenario },
    Exhibit {
        name: "fig14",
        place: "Figure 14",
        shows: "TreeLSTM on parse trees as in the Stanford treebank, batches of at most 64 cells (BatchMaker) or trees (DyNet, \
            TensorFlow Fold)",
        made: Made::Scenario,
    },
    Exhibit {
        name: "fig15",
        place: "Figure 15",
        shows: "TreeLSTM where every request is the complete tree of 16 leaves. Ideal is a graph made for this one tree: 31 cells one \
            after the other, each with the whole batch",
        made: Made::Scenario,
    },
];

/// The claims, in the paper's order.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    [device::CLAIMS, lstm::CLAIMS, seq2seq::CLAIMS, trees::CLAIMS].into_iter().flatten()
}
