//! The rows of the logs. A row's fields are its log's columns, for writers and readers alike.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::units::{Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::core::record::Outcome;

/// A row of a log.
pub trait LogRow: Serialize + DeserializeOwned {
    const FILE: &str;
    const COLUMNS: &[&str];
    /// The number of columns at the start that every log has. Logs of earlier versions lack the others.
    const NEEDED: usize = Self::COLUMNS.len();
}

macro_rules! logs {
    ($(
        $(#[$doc:meta])* $row:ident in $file:literal
        { $($(#[$note:meta])* $column:ident: $type:ty,)* $(; $($(#[$later:meta])* $added:ident: $kind:ty,)*)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $row { $($(#[$note])* pub $column: $type,)* $($($(#[$later])* #[serde(default)] pub $added: $kind),*)? }

        impl LogRow for $row {
            const FILE: &str = $file;
            const COLUMNS: &[&str] = &[$(stringify!($column),)* $($(stringify!($added)),*)?];
            const NEEDED: usize = [$(stringify!($column)),*].len();
        }
    )* };
}

logs! {
    /// A request; the rows are in the order of ids. A request that never finished has neither start nor finish.
    RequestLine in "requests.csv" {
        id: RequestId,
        arrival_ns: Nanos,
        start_ns: Option<Nanos>,
        finish_ns: Option<Nanos>,
        ;
        /// The name of the request's class; empty without classes.
        class: String,
        /// The length of the request's shape: its steps, source steps, nodes or tokens.
        length: Option<u32>,
        /// Whether the request counts: 0 in the warm-up, otherwise 1.
        measured: u8,
        outcome: Outcome,
    }

    /// The columns that language models add to a request's row.
    TokenLine in "requests.csv" {
        first_token_ns: Option<Nanos>,
        output: u32,
        /// The longest time between two tokens of the request.
        worst_gap_ns: Nanos,
        preemptions: u32,
    }

    /// A task; the rows are in the order of submission.
    TaskLine in "tasks.csv" {
        task: TaskId,
        worker: WorkerId,
        stream: StreamId,
        /// The names of the task's cells, joined by `+`.
        cell: String,
        batch: u32,
        submit_ns: Nanos,
        start_ns: Option<Nanos>,
        finish_ns: Option<Nanos>,
    }

    /// A call of the policy. With the requests, these determine a policy's decisions.
    RoundLine in "rounds.csv" {
        now_ns: Nanos,
        /// The tasks that completed since the call before, in the order in which the policy learned of them, joined by
        /// `;`.
        completed: String,
        /// The number of requests that arrived since the call before.
        arrived: u32,
    }

    /// A request that failed; the rows are in the order in which the requests left.
    FailureLine in "failures.csv" {
        id: RequestId,
        at_ns: Nanos,
        reason: String,
    }

    /// The number of executions of a cell type with a batch size.
    BatchLine in "batches.csv" {
        cell: String,
        batch: u64,
        tasks: u64,
    }

    /// The amount by which a policy exceeds the scenario's first, with the 95 % confidence interval of paired
    /// differences.
    DifferenceLine in "differences.csv" {
        policy: String,
        against: String,
        point: String,
        figure: String,
        difference: String,
        difference_ci: String,
    }
}

#[cfg(test)]
impl RequestLine {
    /// The row of a log of an earlier version, which has arrival, start and finish.
    pub fn earlier(
        id: RequestId,
        [arrival, start_ns, finish_ns]: [Option<Nanos>; 3],
    ) -> RequestLine {
        RequestLine {
            id,
            arrival_ns: arrival.expect("it arrived"),
            start_ns,
            finish_ns,
            class: String::new(),
            length: None,
            measured: 0,
            outcome: Outcome::default(),
        }
    }
}
