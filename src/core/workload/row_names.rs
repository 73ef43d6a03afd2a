//! Names in the `cell` column of cost tables that are not cells. They are here, below [`cost`](crate::core::cost),
//! because files of networks refuse cells with these names.

/// The overhead of a task, by batch size.
pub const TASK: &str = "task";
/// The overhead of a gather, by batch size.
pub const GATHER: &str = "gather";
/// The overhead of a task of chains whose rows stay in place, by the number of those that join. Where a table has such
/// rows, these tasks do not pay [`GATHER`].
pub const CHANGE: &str = "change";
/// The time from the submission to the start on an idle worker, by batch size.
pub const LAUNCH: &str = "launch";
/// The overhead of a task of whole requests, by their number. As a suffix (`CELL.whole`) it names the cell's steps in
/// such tasks.
pub const WHOLE: &str = "whole";
/// The extra time of a step of whole requests with fewer rows than its cell's step before, by its rows.
pub const SHRINK: &str = "whole.shrink";
/// The extra time of a step of whole requests with more rows than its cell's step before, by its rows.
pub const GROW: &str = "whole.grow";
/// The host's time to queue a step of whole requests whose rows change, by its rows.
pub const HOST: &str = "whole.host";
/// The time from the submission to the start of a task that gathers, on an idle worker, by batch size.
pub const GATHER_LAUNCH: &str = "launch.gather";
/// The extra time of a launch for each further task of the worker's last decision, by batch size.
pub const FURTHER_LAUNCH: &str = "launch.further";
/// The time of passing results to a loop's next level (Fold), by their number.
pub const COPY: &str = "copy";
/// The time of copying the states that a task takes from other workers, by their number.
pub const TRANSFER: &str = "transfer";
/// The time of a call of a cell for no rows, in such a loop; `batch` is 1.
pub const EMPTY: &str = "empty";
/// The least time of a launch of operators, by rows.
pub const KERNEL: &str = "kernel";
/// A suffix: the extra time after a cell of another type.
pub const SWITCH: &str = "switch";
/// A suffix: the share of the device that a step uses while other streams run, in parts per million.
pub const DEMAND: &str = "demand";
/// The bandwidth of the device's memory, in 10^6 bytes per second; `batch` is 1.
pub const BANDWIDTH: &str = "bandwidth_mb_s";
/// A suffix: a step in the cell's persistent kernel; with another `.launch`, the launch itself.
pub const PERSISTENT: &str = "persistent";

/// The rows that only a policy reads, to compute the extra time of its tasks.
pub const POLICY_ROWS: [&str; 2] = [COPY, EMPTY];

/// The names that no cell may have.
pub const RESERVED: [&str; 10] = [
    TASK, GATHER, CHANGE, LAUNCH, WHOLE, COPY, TRANSFER, EMPTY, KERNEL, BANDWIDTH,
];

/// The suffixes that give rows of a cell a meaning of their own.
pub const SUFFIXES: [&str; 5] = [WHOLE, SWITCH, DEMAND, PERSISTENT, LAUNCH];

/// Refuses a name for a cell that has another meaning in cost tables.
pub fn refuse_reserved(cell: &str) -> Result<(), String> {
    let suffix = cell.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    let known = [SHRINK, GROW, HOST, GATHER_LAUNCH, FURTHER_LAUNCH];
    if RESERVED.contains(&cell) || SUFFIXES.contains(&suffix) || known.contains(&cell) {
        return Err(format!(
            "\"{cell}\" has a meaning of its own in cost tables; take another"
        ));
    }
    Ok(())
}
