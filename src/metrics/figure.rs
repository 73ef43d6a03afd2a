//! The figures of a summary by name, in the order of their columns.

use super::summary::Summary;
use crate::units::Rate;

/// A figure of a summary that is a number. Its name is its column in summary.csv and its key in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // They are the fields of `Summary` and of its `Times`.
pub enum Figure {
    Offered,
    Throughput,
    Goodput,
    Completed,
    Failed,
    Rejected,
    Mean,
    P50,
    P90,
    P95,
    P99,
    P999,
    QueueP50,
    QueueP99,
    ComputeP50,
    ComputeP99,
    MeanBatch,
    Padding,
    Utilization,
    Warmup,
    Max,
    QueueP90,
    ComputeP90,
}

/// What a figure counts, which says how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests per second.
    PerSecond,
    /// Milliseconds.
    Millis,
    /// A number of requests.
    Count,
    /// A share, or the size of a mean batch.
    Ratio,
}

impl Figure {
    /// All figures, in the order of summary.csv.
    pub const ALL: [Figure; 23] = {
        use Figure::*;
        [
            Offered,
            Throughput,
            Goodput,
            Completed,
            Failed,
            Rejected,
            Mean,
            P50,
            P90,
            P95,
            P99,
            P999,
            QueueP50,
            QueueP99,
            ComputeP50,
            ComputeP99,
            MeanBatch,
            Padding,
            Utilization,
            Warmup,
            Max,
            QueueP90,
            ComputeP90,
        ]
    };

    /// The column's name, with the unit in it.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Offered => "offered_rps",
            Figure::Throughput => "throughput_rps",
            Figure::Goodput => "goodput_rps",
            Figure::Completed => "completed",
            Figure::Failed => "failed",
            Figure::Rejected => "rejected",
            Figure::Mean => "mean_ms",
            Figure::P50 => "p50_ms",
            Figure::P90 => "p90_ms",
            Figure::P95 => "p95_ms",
            Figure::P99 => "p99_ms",
            Figure::P999 => "p999_ms",
            Figure::QueueP50 => "queue_p50_ms",
            Figure::QueueP99 => "queue_p99_ms",
            Figure::ComputeP50 => "compute_p50_ms",
            Figure::ComputeP99 => "compute_p99_ms",
            Figure::MeanBatch => "mean_batch",
            Figure::Padding => "padding",
            Figure::Utilization => "utilization",
            Figure::Warmup => "warmup",
            Figure::Max => "max_ms",
            Figure::QueueP90 => "queue_p90_ms",
            Figure::ComputeP90 => "compute_p90_ms",
        }
    }

    /// What the figure counts.
    pub fn unit(self) -> Unit {
        match self {
            Figure::Offered | Figure::Throughput | Figure::Goodput => Unit::PerSecond,
            Figure::Completed | Figure::Failed | Figure::Rejected | Figure::Warmup => Unit::Count,
            Figure::MeanBatch | Figure::Padding | Figure::Utilization => Unit::Ratio,
            _ => Unit::Millis,
        }
    }

    /// The figure of one run.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        let per_second = |rate: Option<Rate>| rate.map(|r| r.0);
        let Summary { latency, queue, compute, .. } = summary;
        match self {
            Figure::Offered => per_second(summary.offered),
            Figure::Throughput => per_second(summary.throughput),
            Figure::Goodput => per_second(summary.goodput),
            Figure::Completed => Some(summary.completed as f64),
            Figure::Failed => Some(summary.failed as f64),
            Figure::Rejected => Some(summary.rejected as f64),
            Figure::Mean => latency.mean_ms,
            Figure::P50 => latency.p50_ms,
            Figure::P90 => latency.p90_ms,
            Figure::P95 => latency.p95_ms,
            Figure::P99 => latency.p99_ms,
            Figure::P999 => latency.p999_ms,
            Figure::QueueP50 => queue.p50_ms,
            Figure::QueueP99 => queue.p99_ms,
            Figure::ComputeP50 => compute.p50_ms,
            Figure::ComputeP99 => compute.p99_ms,
            Figure::MeanBatch => summary.mean_batch,
            Figure::Padding => summary.padding,
            Figure::Utilization => summary.utilization,
            Figure::Warmup => Some(summary.warmup as f64),
            Figure::Max => latency.max_ms,
            Figure::QueueP90 => queue.p90_ms,
            Figure::ComputeP90 => compute.p90_ms,
        }
    }
}
