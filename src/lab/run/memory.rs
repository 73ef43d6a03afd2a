//! The memory of runs, estimated before they start. docs/CLUSTER.md compares it with measurements.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::base::error::Result;
use crate::base::memory::require;
use crate::base::units::Nanos;
use crate::core::record::Outcome;
use crate::core::record::tokens::Sequence;
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::graph_model::Takes;
use crate::core::workload::shape::Shape;
use crate::lab::scenario::{Load, Scenario, Warmup};

/// The memory of a run that keeps its requests, in bytes. Requests that wait in a policy are not part of it, since they
/// are few while the system keeps up, and tasks are not, since their number is not known before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunMemory {
    /// The requests, which all runs of a replication share.
    pub requests: u128,
    /// The record of a run.
    pub record: u128,
    /// What the summary of a run needs for a time.
    pub summary: u128,
}

/// The memory of runs that threads carry out at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryAtOnce {
    /// The bytes of all runs together.
    pub all: u128,
    /// The bytes of the largest run with its requests.
    pub largest: u128,
    /// The number of runs at once.
    pub runs: usize,
}

impl RunMemory {
    /// The memory of a run of this many requests. `shared` are the bytes that their graphs take together.
    pub fn new(scenario: &Scenario, requests: u64, shared: u128) -> RunMemory {
        let mut request = size_of::<u32>();
        let model = &scenario.workload.model;
        // Sizes of one number have few values, which requests share.
        if model.is_llm() || matches!(model.unfolds(), Some(Takes::Pairs | Takes::Trees)) {
            request += size_of::<Shape>() + size_of::<CellGraph>();
        }
        if !scenario.classes.is_empty() {
            request += size_of::<u16>();
        }
        // A record has the arrival, the start and the finish of each request.
        let mut record = 3 * size_of::<Nanos>();
        if model.is_llm() {
            record += size_of::<Sequence>();
        }
        // The order of arrival, and the departures if not all requests are served.
        let mut summary = size_of::<u32>() + size_of::<(Nanos, Outcome)>();
        if scenario.metrics.warmup == Warmup::Mser5 {
            // The places and the latencies that the rule examines.
            summary += size_of::<usize>() + size_of::<f64>();
        }
        let all = |bytes: usize| bytes as u128 * u128::from(requests);
        RunMemory {
            requests: all(request) + shared,
            record: all(record),
            summary: all(summary),
        }
    }

    /// The bytes of one run with its requests.
    pub fn total(&self) -> u128 {
        self.requests + self.record + self.summary
    }
}

impl MemoryAtOnce {
    /// The most memory that the runs need if each thread carries one out. A run has the number of its requests, which runs
    /// with the same number share, and its memory.
    pub fn new<N: Ord>(runs: impl Iterator<Item = (N, RunMemory)>, threads: usize) -> MemoryAtOnce {
        let mut largest = 0;
        let mut own = Vec::new();
        let mut shared = BTreeMap::new();
        for (requests, memory) in runs {
            largest = memory.total().max(largest);
            own.push(memory.record + memory.summary);
            shared.insert(requests, memory.requests);
        }
        let runs = threads.min(own.len());
        own.sort_unstable_by_key(|bytes| Reverse(*bytes));
        let mut shared: Vec<u128> = shared.into_values().collect();
        shared.sort_unstable_by_key(|bytes| Reverse(*bytes));
        MemoryAtOnce {
            largest,
            all: own.iter().take(runs).chain(shared.iter().take(runs)).sum(),
            runs,
        }
    }

    /// The memory of runs, numbered as for [`MemoryAtOnce::new`], whose records all stay in memory.
    pub fn add_records<N: Ord>(runs: impl Iterator<Item = (N, RunMemory)>) -> MemoryAtOnce {
        let mut at_once = MemoryAtOnce::default();
        let mut shared = BTreeMap::new();
        for (requests, memory) in runs {
            at_once.largest = memory.total().max(at_once.largest);
            at_once.all += memory.record;
            at_once.runs += 1;
            shared.insert(requests, memory.requests);
        }
        at_once.all += shared.into_values().sum::<u128>();
        at_once
    }

    /// Fails if the records of all runs need more memory than is free.
    pub fn require_kept(&self, scenario: &Scenario) -> Result<()> {
        let what = format!(
            "{} with {} runs in memory",
            describe_requests(scenario),
            self.runs
        );
        let instead = format!("{}; with `out`, results go to files", way_out(scenario));
        require(self.all, what, &instead)
    }

    /// Fails if runs of the scenario need more memory than is free.
    pub fn require(&self, scenario: &Scenario) -> Result<()> {
        let mut what = describe_requests(scenario);
        let mut instead = way_out(scenario).to_string();
        if self.runs > 1 {
            what += &format!(" with {} runs at once", self.runs);
            instead += "; fewer --threads take less";
        }
        require(self.all, what, &instead)
    }
}

/// The key of the scenario that sets the number of requests, with its value.
pub fn describe_requests(scenario: &Scenario) -> String {
    let file = scenario.file.display();
    match &scenario.workload.load {
        Load::Drawn { requests, .. } => format!("{file}: workload.requests = {requests}"),
        Load::Trace { trace, .. } => format!("{file}: workload.trace = {}", trace.display()),
    }
}

/// What the user can do about runs that need too much memory.
pub fn way_out(scenario: &Scenario) -> &'static str {
    match &scenario.workload.load {
        Load::Trace { .. } => "take a part of the trace",
        Load::Drawn { .. } if scenario.workload.model.is_llm() => "draw fewer requests",
        Load::Drawn { .. } => {
            "set output.record = \"stream\", which forgets requests that have left, or draw fewer"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_at_once_share_the_requests_of_a_replication() {
        let memory = |requests, record| RunMemory {
            requests,
            record,
            summary: 1,
        };
        let runs = [
            (0, memory(100, 9)),
            (0, memory(100, 9)),
            (1, memory(50, 19)),
            (2, memory(10, 4)),
        ];
        let at_once = |threads| MemoryAtOnce::new(runs.iter().copied(), threads);
        let one = MemoryAtOnce {
            largest: 110,
            all: 120,
            runs: 1,
        };
        assert_eq!(at_once(1), one, "the largest record, and the most requests");
        assert_eq!(at_once(2).all, 20 + 10 + 100 + 50);
        assert_eq!(at_once(9).all, 20 + 10 + 10 + 5 + 100 + 50 + 10);
        assert_eq!(at_once(9).runs, 4);
        let kept = MemoryAtOnce::add_records(runs.iter().copied());
        assert_eq!((kept.all, kept.runs), (100 + 50 + 10 + 9 + 9 + 19 + 4, 4));
    }
}
