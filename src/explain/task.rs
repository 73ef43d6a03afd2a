//! A task's reasons: why this cell type, why this batch size, why at this time.

use serde_json::{Value, json};

use super::request::{milliseconds, span};
use super::{Again, Formed};
use crate::task::{MemberList, TaskRow};
use crate::units::{Nanos, TaskId};

pub struct Account<'a> {
    again: &'a Again,
    formed: &'a Formed,
    row: &'a TaskRow,
}

/// The most members that a text lists.
const LISTED: usize = 24;

impl<'a> Account<'a> {
    /// `None` for a task cut off by the end of the run.
    pub fn new(again: &'a Again, task: TaskId) -> Option<Account<'a>> {
        let formed = again.formed.iter().find(|formed| formed.task == task)?;
        Some(Account { again, formed, row: again.row(task)? })
    }

    /// On the same worker and stream.
    fn before(&self) -> Option<&TaskRow> {
        let rows = self.again.record.tasks.iter().take_while(|row| row.task < self.row.task);
        rows.filter(|row| row.worker == self.row.worker && row.stream == self.row.stream).last()
    }

    /// Its members: `request`, `request:node` or `request:first-last`.
    fn members(&self) -> Vec<String> {
        match &self.formed.members {
            MemberList::Requests(requests) => requests.iter().map(ToString::to_string).collect(),
            MemberList::Nodes(nodes) => nodes.iter().map(|at| format!("{}:{}", at.request, at.node)).collect(),
            MemberList::Parts(parts) => parts
                .iter()
                .map(|part| format!("{}:{}-{}", part.request, part.from, part.to.0.saturating_sub(1)))
                .collect(),
        }
    }

    pub fn text(&self) -> String {
        let Account { again, formed, row } = self;
        let mut text = format!(
            "task {} under {} at {}: {} in a batch of {} on worker {}, stream {}\n",
            row.task,
            again.policy,
            again.point,
            again.short_names(row),
            row.batch,
            row.worker,
            row.stream
        );
        match again.reason(row.task) {
            Some(reason) => {
                text += &format!("  why this: {}\n", reason.what);
                text += &format!("  why so many: {}\n", reason.size);
                text += &format!("  why then: {}\n", reason.when);
            }
            None => text += "  its policy gives no reasons\n",
        }
        text += &format!(
            "  submitted at {}, started {} later, took {}\n",
            milliseconds(row.submit),
            span(row.submit, row.start),
            span(row.start, row.finish)
        );
        if let Some(before) = self.before() {
            let gap = match before.finish <= row.start {
                true => format!("{} before this began", span(before.finish, row.start)),
                false => "after this began".into(),
            };
            text += &format!(
                "  before it on the worker: task {} ({}, {}), done {gap}\n",
                before.task,
                again.short_names(before),
                before.batch
            );
        }
        if formed.gather {
            text += "  gather: its members are not those of the task before it\n";
        }
        let host = formed.host;
        if host.ahead > Nanos::ZERO || host.during > Nanos::ZERO {
            text += &format!(
                "  host work: {} ahead of it, {} while the device stood still\n",
                milliseconds(host.ahead),
                milliseconds(host.during)
            );
        }
        text += &format!("  {}\n", self.cells_text());
        let members = self.members();
        let more = members.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = match formed.members {
            MemberList::Requests(_) => "requests",
            MemberList::Nodes(_) => "nodes (request:node)",
            MemberList::Parts(_) => "parts (request:first-last node)",
        };
        text + &format!("  {what}: {}{more}\n", members[..members.len().min(LISTED)].join(" "))
    }

    fn cells_text(&self) -> String {
        let (all, useful) = (self.formed.cells(), self.formed.useful_cells);
        let padding = match all - useful.min(all) {
            0 => "no padding".into(),
            padding => format!("{padding} of them padding ({:.1} %)", 100.0 * padding as f64 / all as f64),
        };
        let length = self.formed.length();
        let operators = match self.formed.operators {
            true => format!("{} operators in ", self.formed.runs()),
            false => String::new(),
        };
        let es = if length == 1 { "" } else { "es" };
        format!("cells: {all}, {padding}; {operators}{length} batch{es} in sequence")
    }

    /// As JSON, with times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let Account { again, formed, row } = self;
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
            "host_ahead_ns": formed.host.ahead,
            "host_during_ns": formed.host.during,
            "cells": formed.cells(),
            "useful_cells": formed.useful_cells,
            "members": self.members(),
        })
    }
}
