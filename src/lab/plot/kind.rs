//! The kinds of figures and their names.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::lab::results::columns::{about, name_of};

/// The kinds of figures, in the order in which they are drawn if none is chosen. A kind has the same name on
/// the command line, in scenarios and for its files. Its comment is its caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    // BatchMaker, Figures 7, 8, 11, 13, 14 and 15.
    /// 90th percentile of latency against delivered throughput, with lines from the median to the 99th
    LatencyThroughput,
    // Late Batching, Figures 3 and 6.
    /// median of latency against delivered throughput
    P50Throughput,
    // Late Batching, Figures 4 and 7.
    /// 99th percentile of latency against delivered throughput
    P99Throughput,
    // Late Batching, Figure 5.
    /// delivered throughput against offered rate
    ThroughputRate,
    /// 99th percentile of latency against offered rate, with the SLO
    LatencyRate,
    /// 99th percentile of the time to the first token against offered rate
    TtftRate,
    // Sarathi-Serve, Figure 1.
    /// 99th percentile of the time between tokens against offered rate
    TbtRate,
    // Orca, Figure 10; vLLM, Figure 12.
    /// latency by output token against offered rate
    NormalisedRate,
    /// goodput against offered rate
    Goodput,
    // BatchMaker, Figure 9a.
    /// distribution of the time from arrival to the first task
    QueueCdf,
    // BatchMaker, Figure 9b.
    /// distribution of the time from the first task to the end
    ComputeCdf,
    /// distribution of the time from arrival to the end
    LatencyCdf,
    // BatchMaker, Figure 10.
    /// distribution of request lengths
    LengthCdf,
    /// share of the executed cells by batch size
    BatchHistogram,
    // DVABatch, Figures 14 and 16.
    /// mean latency by load in groups of bars, with lines to the 99th percentile
    Bars,
    // DVABatch, Figure 15.
    /// latency in the order of the requests under a stepping load
    LatencySteps,
    // BatchMaker, Figure 5.
    /// the schedule: a row for each request and each worker
    Gantt,
    /// a metric over two swept keys
    HeatMap,
    /// highest rate that meets the objective, as find-knee has found it, by policy or over a swept key
    Knee,
    /// smallest number of workers that meets the objective, as find-workers has found it, by policy or over a swept key
    Workers,
    /// what tune has found over one of its keys
    Tune,
}

/// The kinds that can have a swept key on the x axis.
pub const BY_KEY: &[FigureKind] = &[
    FigureKind::LatencyRate,
    FigureKind::ThroughputRate,
    FigureKind::Goodput,
    FigureKind::Bars,
];

/// The kinds that are drawn from logs without classes.
pub const WITHOUT_CLASSES: &[FigureKind] = &[
    FigureKind::LengthCdf,
    FigureKind::BatchHistogram,
    FigureKind::LatencySteps,
    FigureKind::Gantt,
];

/// The kinds that are about swept keys.
pub const OF_KEYS: &[FigureKind] = &[
    FigureKind::HeatMap,
    FigureKind::Knee,
    FigureKind::Workers,
    FigureKind::Tune,
];

impl FigureKind {
    /// What the figure shows, for captions and help.
    pub fn about(self) -> String {
        about(&self)
    }

    /// The names of kinds, separated by commas.
    pub fn list<'k>(kinds: impl IntoIterator<Item = &'k FigureKind>) -> String {
        let names: Vec<String> = kinds.into_iter().map(FigureKind::to_string).collect();
        names.join(", ")
    }
}

impl fmt::Display for FigureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

impl FromStr for FigureKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FigureKind, String> {
        if let Ok(kind) = <FigureKind as ValueEnum>::from_str(text, false) {
            return Ok(kind);
        }
        Err(format!(
            "unknown kind of figure \"{text}\"; known: {}",
            FigureKind::list(FigureKind::value_variants())
        ))
    }
}
