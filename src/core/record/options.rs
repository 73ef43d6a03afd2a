use crate::base::units::Nanos;

/// What a full record keeps in addition to what every summary needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordOptions {
    /// Whether each task has a row.
    pub tasks: bool,
    /// Whether the first task of each request is kept, for the arrows of the timeline.
    pub first_tasks: bool,
    /// Whether the events of each instant are kept, for a replay.
    pub rounds: bool,
    /// Whether the policy's reason for each task is kept, as text.
    pub reasons: bool,
    /// Whether the host's time of each decision is taken, and not only of some.
    pub all_decisions: bool,
    /// The limit at which the run ends early, or `None` if it has none.
    pub limit: Option<Limit>,
}

/// Ends a run once it is certain that it misses an objective.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub slo: Nanos,
    /// The first request that counts.
    pub from: u64,
    /// The number of requests that may take longer than the objective.
    pub late: u32,
}
