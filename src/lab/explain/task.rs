//! A task's reasons: why this cell type, why this batch size, why at this time.

use serde_json::{Value, json};

use super::request::{milliseconds, span};
use super::{FormedTask, RepeatedRun};
use crate::base::units::{Nanos, TaskId};
use crate::core::task::{MemberList, Reason, TaskRow};

/// Why a task was formed.
pub struct TaskExplanation<'a> {
    again: &'a RepeatedRun,
    formed: &'a FormedTask,
    row: &'a TaskRow,
}

/// The most members that a text lists.
const LISTED: usize = 24;

impl<'a> TaskExplanation<'a> {
    /// The explanation of a task, or `None` for a task that the end of the run cut off.
    pub fn new(again: &'a RepeatedRun, task: TaskId) -> Option<TaskExplanation<'a>> {
        let formed = again.formed.iter().find(|formed| formed.task == task)?;
        Some(TaskExplanation {
            again,
            formed,
            row: again.row(task)?,
        })
    }

    /// The task before this one on the same worker and stream.
    fn before(&self) -> Option<&TaskRow> {
        self.again
            .neighbours(self.row)
            .take_while(|row| row.task < self.row.task)
            .last()
    }

    /// The task's members as `request`, `request:node` or `request:first-last`.
    fn members(&self) -> Vec<String> {
        match &self.formed.members {
            MemberList::Requests(requests) | MemberList::Operators(requests, _) => {
                requests.iter().map(ToString::to_string).collect()
            }
            MemberList::Nodes(nodes) => nodes
                .iter()
                .map(|at| format!("{}:{}", at.request, at.node))
                .collect(),
            MemberList::Parts(parts) => parts
                .iter()
                .map(|part| {
                    format!(
                        "{}:{}-{}",
                        part.request,
                        part.from,
                        part.to.0.saturating_sub(1)
                    )
                })
                .collect(),
        }
    }

    pub fn text(&self) -> String {
        let TaskExplanation { again, formed, row } = self;
        let RepeatedRun { policy, point, .. } = again;
        let TaskRow {
            task,
            batch,
            worker,
            stream,
            submit,
            start,
            finish,
            ..
        } = row;
        let names = again.short_names(row);
        let mut lines = vec![format!(
            "task {task} under {policy} at {point}: {names} in a batch of {batch} on worker {worker}, stream {stream}"
        )];
        let why = |Reason { what, size, when }: &Reason| {
            format!("why this: {what}\n  why this size: {size}\n  why then: {when}")
        };
        lines.push(again.reason(*task).map_or(
            "its policy gives no reasons; Dispatch::submit_because would".into(),
            why,
        ));
        let waited = span(*submit, *start);
        let took = span(*start, *finish);
        lines.push(format!(
            "submitted at {}, started {waited} later, took {took}",
            milliseconds(*submit)
        ));
        if let Some(before) = self.before() {
            let gap = match before.finish <= *start {
                true => format!("{} before this began", span(before.finish, *start)),
                false => "after this began".into(),
            };
            let task = before.task;
            let names = again.short_names(before);
            let batch = before.batch;
            lines.push(format!(
                "before it on the worker: task {task} ({names}, {batch}), done {gap}"
            ));
        }
        if formed.gather {
            lines.push("gather: its members are not those of the task before it".into());
        }
        if formed.extra.host_ahead > Nanos::ZERO || formed.extra.host_during > Nanos::ZERO {
            let [ahead, during] =
                [formed.extra.host_ahead, formed.extra.host_during].map(milliseconds);
            lines.push(format!(
                "host work: {ahead} ahead of it, {during} while the device stood still"
            ));
        }
        lines.push(self.cells_text());
        let what = match formed.members {
            _ if formed.iteration => "requests whose prompts are fed",
            MemberList::Requests(_) | MemberList::Operators(..) => "requests",
            MemberList::Nodes(_) => "nodes (request:node)",
            MemberList::Parts(_) => "parts (request:first-last node)",
        };
        let members = self.members();
        let more = match members.len().saturating_sub(LISTED) {
            0 if members.is_empty() => "none".into(),
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!(
            "{what}: {}{more}",
            members[..members.len().min(LISTED)].join(" ")
        ));
        lines.join("\n  ") + "\n"
    }

    fn cells_text(&self) -> String {
        let all = self.formed.cells();
        let useful = self.formed.useful_cells;
        let padding = match all - useful.min(all) {
            0 => "no padding".into(),
            padding => format!(
                "{padding} of them padding ({:.1} %)",
                100.0 * padding as f64 / all as f64
            ),
        };
        if self.formed.iteration {
            return format!("tokens: {all}, {padding}");
        }
        let length: u64 = self
            .formed
            .steps
            .iter()
            .map(|step| u64::from(step.times))
            .sum();
        let operators = self
            .formed
            .operators
            .then(|| format!("{} operators in ", self.formed.runs()));
        let operators = operators.unwrap_or_default();
        let es = if length == 1 { "" } else { "es" };
        format!("cells: {all}, {padding}; {operators}{length} batch{es} in sequence")
    }

    /// The explanation as JSON, with times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let TaskExplanation { again, formed, row } = self;
        let reason = again.reason(row.task);
        json!({
            "task": row.task,
            "policy": again.policy,
            "point": again.point,
            "cell": again.names(row),
            "batch": row.batch,
            "worker": row.worker,
            "stream": row.stream,
            "what": reason.map(|reason| &reason.what),
            "size": reason.map(|reason| &reason.size),
            "when": reason.map(|reason| &reason.when),
            "submit_ns": row.submit,
            "start_ns": row.start,
            "finish_ns": row.finish,
            "before": self.before().map(|before| before.task),
            "gather": formed.gather,
            "host_ahead_ns": formed.extra.host_ahead,
            "host_during_ns": formed.extra.host_during,
            "cells": formed.cells(),
            "useful_cells": formed.useful_cells,
            "members": self.members(),
        })
    }
}
