//! Checks of BatchMaker's claims (*Low Latency RNN Inference with Cellular Batching*, EuroSys 2018).

mod device;
mod lstm;
mod readings;
mod seq2seq;
mod trees;

use crate::papers::findings::Check;

pub const CHECKS: &[(&str, Check)] = &[
    ("bm-fig5-graph", device::graph_batches_end),
    ("bm-fig5-cell", device::cellular_requests_end),
    ("bm-v100-64", device::step_at_64),
    ("bm-v100-512", device::step_at_512),
    ("bm-v100-64-real", device::scheduled_step_at_64),
    ("bm-lstm-lat-flat", lstm::flat_latency),
    ("bm-lstm-lat-base", lstm::baselines_least_latency),
    ("bm-lstm-peak", lstm::peak),
    ("bm-lstm-peak-base", lstm::baselines_overload),
    ("bm-lstm-gain", lstm::gain),
    ("bm-lstm-cut-most", lstm::largest_cut),
    ("bm-lstm-cut-least", lstm::smallest_cut),
    ("bm-bmax", lstm::maximum_batches),
    ("bm-fig8", lstm::bucket_widths),
    ("bm-no-timeout", lstm::timeouts),
    ("bm-chains", lstm::chains_throughput),
    ("bm-chains-latency", lstm::chains_latency),
    ("bm-batch-moderate", lstm::moderate_batches),
    ("bm-batch-64", lstm::batches_of_64),
    ("bm-queue99", lstm::queueing_time),
    ("bm-queue99-base", lstm::baselines_queueing_time),
    ("bm-fixed-ideal", lstm::ideal_of_fixed_length),
    ("bm-fixed", lstm::share_of_ideal),
    ("bm-fig11", lstm::variance_of_lengths),
    ("bm-s2s-2gpu", seq2seq::peak_of_two_gpus),
    ("bm-s2s-4gpu", seq2seq::peak_of_four_gpus),
    ("bm-s2s-gain", seq2seq::gain),
    ("bm-s2s-cut-most", seq2seq::largest_cut),
    ("bm-s2s-cut-least", seq2seq::smallest_cut),
    ("bm-s2s-512-256", seq2seq::gain_of_wide_encoders),
    ("bm-s2s-share", seq2seq::share_of_decoding),
    ("bm-tree-1k", trees::latency),
    ("bm-tree-1k-dynet", trees::dynets_latency),
    ("bm-tree-peak", trees::peak),
    ("bm-tree-peak-dynet", trees::dynets_peak),
    ("bm-tree-gain", trees::gain),
    ("bm-tree-cut", trees::cut),
    ("bm-abstract-cut", trees::range_of_cuts),
    ("bm-abstract-gain", trees::range_of_gains),
    ("bm-tree-fold", trees::gain_over_fold),
    ("bm-fig15", trees::peak_below_ideal),
];
