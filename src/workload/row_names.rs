//! Names in the `cell` column of cost tables that are not cells, so that no cell may be named so.

/// Overhead of each task, by batch size.
pub const TASK: &str = "task";
/// Overhead of a gather, by batch size.
pub const GATHER: &str = "gather";
/// Time from the submission to the start of a task on an idle worker, by batch size.
pub const LAUNCH: &str = "launch";
/// Overhead of a task of whole requests, by the number of requests. As a suffix of a cell (`CELL.whole`): the time of its steps in such tasks.
pub const WHOLE: &str = "whole";
/// A loop over levels (Fold) hands results to the next level, by their number.
pub const COPY: &str = "copy";
/// A loop over levels (Fold) calls a cell on no rows; `batch` is 1.
pub const EMPTY: &str = "empty";
/// The least time of a launch of operators, by its rows.
pub const KERNEL: &str = "kernel";
/// Suffix: the additional time of a cell that follows a cell of another type.
pub const SWITCH: &str = "switch";
/// Suffix: the time of a step in a launch of the cell's persistent kernel. Followed by `.launch`: the launch's own time.
pub const PERSISTENT: &str = "persistent";
