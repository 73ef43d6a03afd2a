//! What happened to a request: its tasks, the requests that ran with it, its waiting times and its padding.

use std::collections::BTreeSet;
use std::iter::{once, repeat_n};

use serde_json::{Value, json};

use super::{FormedTask, RepeatedRun};
use crate::base::units::{Nanos, NodeId, RequestId, TaskId};
use crate::core::record::full::to_instant;
use crate::core::record::tokens::Sequence;
use crate::core::task::{MemberList, TaskRow};
use crate::core::workload::cell_graph::CellGraph;
use crate::lab::results::table::{ranges, shorten, tabulate};
use crate::lab::validate::replay::requests_of;

/// What happened to a request.
pub struct RequestExplanation<'a> {
    again: &'a RepeatedRun,
    request: RequestId,
    graph: &'a CellGraph,
    arrival: Nanos,
    /// When the request was served, if it was.
    finish: Option<Nanos>,
    stops: Vec<RequestStop<'a>>,
}

/// A request's part in a task.
struct RequestStop<'a> {
    row: &'a TaskRow,
    formed: &'a FormedTask,
    nodes: Vec<NodeId>,
    /// When the request was ready for the task: at its arrival, or at the finish of the earlier task `needed`.
    ready: Nanos,
    needed: Option<TaskId>,
    /// The tasks that kept the worker busy from `ready` until the start.
    behind: Vec<TaskId>,
}

/// The time between two tokens of a request.
struct TokenGap<'a> {
    start: Nanos,
    end: Nanos,
    /// The tasks that the request's worker ran in this time.
    tasks: Vec<&'a TaskRow>,
}

/// The largest number of tasks between two tokens that a text lists.
const GAP_TASKS: usize = 12;

/// The largest number of tasks or ranges that a line lists.
const LISTED: usize = 4;

/// The width of a shape in characters.
const SHAPE_WIDTH: usize = 61;

impl<'a> RequestExplanation<'a> {
    pub fn new(again: &'a RepeatedRun, request: RequestId) -> RequestExplanation<'a> {
        let graph = &again.requests.graphs[request.index()];
        let arrival = again.record.arrival[request.index()];
        let mut stops: Vec<RequestStop<'a>> = Vec::new();
        for formed in &again.formed {
            let Some(row) = again.row(formed.task) else {
                continue;
            };
            if !formed.members.requests().any(|member| member == request) {
                continue;
            }
            let members = formed
                .members
                .nodes(|of| if of == request { graph.nodes() } else { 0 })
                .into_iter();
            let own = members.filter(|member| member.request == request);
            let nodes: Vec<NodeId> = own.map(|member| member.node).collect();
            let needed = last_needed(&stops, &nodes, graph);
            let ready = needed.map_or(arrival, |row| row.finish.max(arrival));
            let behind = again
                .neighbours(row)
                .filter(|other| other.start < row.start && other.finish > ready);
            let behind = behind.map(|other| other.task).collect();
            stops.push(RequestStop {
                row,
                formed,
                nodes,
                ready,
                needed: needed.map(|row| row.task),
                behind,
            });
        }
        let finish = to_instant(again.record.finish[request.index()]);
        RequestExplanation {
            again,
            request,
            graph,
            arrival,
            finish,
            stops,
        }
    }

    /// The reason why the request left without a result, if it did.
    fn broken_off(&self) -> Option<String> {
        let record = &self.again.record;
        if let Some((_, at, reason)) = record.failures.iter().find(|(id, ..)| *id == self.request) {
            return Some(format!(
                "failed after {}: {reason}",
                span(self.arrival, *at)
            ));
        }
        let (_, at) = record
            .rejections
            .iter()
            .find(|(id, _)| *id == self.request)?;
        let reason = record
            .explained_rejections
            .iter()
            .find(|(id, ..)| *id == self.request);
        let reason = reason.map_or(String::new(), |(.., reason)| format!(": {reason}"));
        Some(format!(
            "was turned away after {}{reason}",
            span(self.arrival, *at)
        ))
    }

    /// The request's time before the first task, in tasks, and between tasks.
    fn parts(&self) -> [Nanos; 3] {
        let mut by_start: Vec<&TaskRow> = self.stops.iter().map(|stop| stop.row).collect();
        by_start.sort_by_key(|row| row.start);
        let first = by_start.first().map_or(self.arrival, |row| row.start);
        let mut inside = Nanos::ZERO;
        let mut end = first;
        for row in by_start {
            inside += row.finish.saturating_since(row.start.max(end));
            end = end.max(row.finish);
        }
        let all = self.finish.unwrap_or(end).saturating_since(self.arrival);
        let before = first.saturating_since(self.arrival);
        [before, inside, all.saturating_since(before + inside)]
    }

    pub fn text(&self) -> String {
        let RepeatedRun {
            policy,
            point,
            requests,
            ..
        } = self.again;
        let shape = shorten(
            &requests.shapes[self.request.index()].to_string(),
            SHAPE_WIDTH,
        );
        let [before, inside, between] = self.parts().map(milliseconds);
        let rest = match self.tokens() {
            Some(_) => String::new(),
            None => format!(", was in tasks for {inside}, stood between tasks for {between}"),
        };
        let done = |at| {
            format!(
                "left after {}: waited {before} for its first task{rest}",
                span(self.arrival, at)
            )
        };
        let left = self
            .broken_off()
            .or(self.finish.map(done))
            .unwrap_or("never left".into());
        let padding = match self.padding() {
            0 => "no padding".into(),
            padding => format!("padding: {padding} of the cells that its row ran are not its own"),
        };
        let arrival = milliseconds(self.arrival);
        let cells = self.graph.nodes();
        let depth = self.graph.depth();
        let own = match self.tokens() {
            Some(Sequence {
                first: Nanos::MAX, ..
            }) => "it got no token".into(),
            Some(Sequence {
                first,
                worst_gap,
                preemptions,
                output,
                ..
            }) => {
                let mean = match self.finish {
                    Some(finish) if *output > 1 => {
                        let decoding = finish.saturating_since(*first).0;
                        let mean = Nanos(decoding / u64::from(output - 1));
                        format!(", {} on average", milliseconds(mean))
                    }
                    _ => String::new(),
                };
                let gap = match output {
                    1 => String::new(),
                    _ => format!(
                        "; the longest time between two tokens was {}{mean}",
                        milliseconds(*worst_gap)
                    ),
                };
                format!(
                    "its first token came after {}{gap}; preemptions: {preemptions}\n  below are the tasks that fed its \
                     prompt; the later tokens came with the decodes of its worker",
                    span(self.arrival, *first)
                )
            }
            None => format!("its own cells: {cells}, {depth} of them in sequence\n  {padding}"),
        };
        format!(
            "request {} ({shape}) under {policy} at {point}\n  arrived at {arrival}\n  {left}\n  {own}\n\n{}{}",
            self.request,
            self.table(),
            self.gap_text()
        )
    }

    /// The longest time between two tokens of the request, and the tasks that its worker ran in it; `None` without two
    /// tokens.
    fn gap(&self) -> Option<TokenGap<'a>> {
        let tokens = self.tokens()?;
        if tokens.worst_gap == Nanos::ZERO {
            return None;
        }
        let end = tokens.worst_gap_end;
        let start = end - tokens.worst_gap;
        // The sequence decodes on the worker that fed it last.
        let fed = self.stops.iter().rfind(|stop| stop.row.finish <= end)?;
        let worker = fed.row.worker;
        let tasks = &self.again.record.execution.tasks;
        let within = tasks
            .iter()
            .filter(|row| row.worker == worker && row.start < end && row.finish > start);
        Some(TokenGap {
            start,
            end,
            tasks: within.collect(),
        })
    }

    fn gap_text(&self) -> String {
        let Some(TokenGap { start, end, tasks }) = self.gap() else {
            return String::new();
        };
        let what = |row: &&TaskRow| match self.again.reason(row.task) {
            Some(reason) => format!("{}; {}", reason.what, reason.size),
            None => format!(
                "{} in a batch of {}",
                self.again.short_names(row),
                row.batch
            ),
        };
        let shown = &tasks[..tasks.len().min(GAP_TASKS)];
        let figures = tabulate(
            shown,
            &[
                ("task", &|row| row.task.to_string()),
                ("start", &|row| {
                    format!("+{}", span(self.arrival, row.start))
                }),
                ("took", &|row| span(row.start, row.finish)),
            ],
        );
        let contents = once("what ran".to_string()).chain(shown.iter().map(what));
        let mut text = format!(
            "\nlongest time between two tokens: {}, from +{} to +{}; its worker ran {}\n",
            span(start, end),
            span(self.arrival, start),
            span(self.arrival, end),
            match tasks.len() {
                1 => "one task".into(),
                several => format!("{several} tasks"),
            }
        );
        for (figures, contents) in figures.lines().zip(contents) {
            text += &format!("{figures}  {contents}\n");
        }
        if tasks.len() > shown.len() {
            text += &format!("and {} more\n", tasks.len() - shown.len());
        }
        text
    }

    /// The tokens of a request to a language model.
    fn tokens(&self) -> Option<&Sequence> {
        self.again
            .record
            .tokens
            .as_ref()
            .map(|tokens| &tokens.sequences[self.request.index()])
    }

    /// The request's padding in batches of whole requests or parts.
    fn padding(&self) -> u64 {
        let of_stop = |stop: &RequestStop<'_>| {
            row_cells(stop.formed)?.checked_sub(own_cells(self.graph, &stop.nodes))
        };
        self.stops.iter().filter_map(of_stop).sum()
    }

    fn table(&self) -> String {
        if self.stops.is_empty() {
            return "it was in no task\n".into();
        }
        let with = |stop: &RequestStop<'_>| match stop.others() {
            1 => "1 other".into(),
            others => format!("{others} others"),
        };
        let figures = tabulate(
            &self.stops,
            &[
                ("task", &|stop| stop.row.task.to_string()),
                ("cell", &|stop| self.again.short_names(stop.row)),
                ("nodes", &|stop| nodes_text(&stop.nodes)),
                ("batch", &|stop| stop.row.batch.to_string()),
                ("with", &with),
                ("worker", &|stop| stop.row.worker.to_string()),
                ("start", &|stop| {
                    format!("+{}", span(self.arrival, stop.row.start))
                }),
                ("took", &|stop| span(stop.row.start, stop.row.finish)),
                ("waited", &|stop| span(stop.ready, stop.row.start)),
            ],
        );
        let reasons = once("for".to_string()).chain(self.stops.iter().map(RequestStop::waited_for));
        let line = |(figures, reason): (&str, String)| {
            format!("{figures}  {reason}").trim_end().to_string() + "\n"
        };
        figures.lines().zip(reasons).map(line).collect()
    }

    /// The explanation as JSON, with times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let [before, inside, between] = self.parts();
        let tokens = self.tokens();
        let of_cells = |time: Nanos| tokens.is_none().then_some(time);
        json!({
            "request": self.request,
            "policy": self.again.policy,
            "point": self.again.point,
            "shape": self.again.requests.shapes[self.request.index()].to_string(),
            "arrival_ns": self.arrival,
            "finish_ns": self.finish,
            "broken_off": self.broken_off(),
            "before_first_task_ns": before,
            "in_tasks_ns": of_cells(inside),
            "between_tasks_ns": of_cells(between),
            "first_token_ns": tokens.and_then(|tokens| to_instant(tokens.first)),
            "worst_gap_ns": tokens.filter(|tokens| tokens.output > 1).map(|tokens| tokens.worst_gap),
            "worst_gap_end_ns": self.gap().map(|gap| gap.end),
            "worst_gap_tasks": self.gap().map(|gap| gap.tasks.iter().map(|row| row.task).collect::<Vec<_>>()),
            "preemptions": tokens.map(|tokens| tokens.preemptions),
            "cells": self.graph.nodes(),
            "padding_cells": self.padding(),
            "tasks": self.stops.iter().map(|stop| stop.to_json(self.again)).collect::<Value>(),
        })
    }
}

impl RequestStop<'_> {
    fn others(&self) -> usize {
        requests_of(&self.formed.members).len() - 1
    }

    fn waited_for(&self) -> String {
        if self.ready >= self.row.start {
            return String::new();
        }
        let since = self.needed.map_or("since it arrived".into(), |task| {
            format!("since task {task}")
        });
        let behind = match self.behind.as_slice() {
            [] => "the worker had nothing to do".into(),
            few if few.len() <= LISTED => format!("behind {}", join_ids(few)),
            many => format!(
                "behind {} tasks, {} to {}",
                many.len(),
                many[0],
                many[many.len() - 1]
            ),
        };
        let host = match self.formed.extra.host_ahead {
            Nanos::ZERO => String::new(),
            ahead => format!(", {} of host work", milliseconds(ahead)),
        };
        let late = (self.row.submit > self.ready).then(|| span(self.ready, self.row.submit));
        let late = late.map_or(String::new(), |late| format!("; submitted after {late}"));
        format!("{since}; {behind}{host}{late}")
    }

    fn to_json(&self, again: &RepeatedRun) -> Value {
        json!({
            "task": self.row.task,
            "cell": again.names(self.row),
            "nodes": self.nodes,
            "batch": self.row.batch,
            "others": self.others(),
            "worker": self.row.worker,
            "stream": self.row.stream,
            "ready_ns": self.ready,
            "needed_task": self.needed,
            "submit_ns": self.row.submit,
            "start_ns": self.row.start,
            "finish_ns": self.row.finish,
            "behind": self.behind,
        })
    }
}

/// The cells of each row of a padded batch, or `None` if rows differ in length.
fn row_cells(formed: &FormedTask) -> Option<u64> {
    let whole = !formed.iteration && !matches!(&formed.members, MemberList::Nodes(_));
    let rows = requests_of(&formed.members).len() as u64;
    let equal = formed
        .steps
        .iter()
        .all(|step| u64::from(step.batch) == rows);
    (whole && equal && !formed.operators).then(|| formed.cells() / rows.max(1))
}

/// The cells of a request's nodes. A node with an input counts once for each of its tokens.
fn own_cells(graph: &CellGraph, nodes: &[NodeId]) -> u64 {
    let CellGraph::Chains(runs) = graph else {
        return nodes.len() as u64;
    };
    let tokens = runs
        .iter()
        .flat_map(|run| repeat_n(u64::from(run.input.max(1)), run.length as usize));
    let tokens: Vec<u64> = tokens.collect();
    nodes.iter().map(|node| tokens[node.0 as usize]).sum()
}

/// The last of the earlier tasks to finish that computed inputs of these nodes.
fn last_needed<'a>(
    stops: &[RequestStop<'a>],
    nodes: &[NodeId],
    graph: &CellGraph,
) -> Option<&'a TaskRow> {
    let needs = |node: &NodeId| -> Vec<u32> {
        match graph {
            CellGraph::Chains(_) => node.0.checked_sub(1).into_iter().collect(),
            CellGraph::Graph(graph) => graph.inputs(node.0).to_vec(),
        }
    };
    let needed: BTreeSet<u32> = nodes.iter().flat_map(needs).collect();
    let holds = |stop: &&RequestStop<'a>| stop.nodes.iter().any(|node| needed.contains(&node.0));
    stops
        .iter()
        .filter(holds)
        .map(|stop| stop.row)
        .max_by_key(|row| row.finish)
}

/// Nodes as ranges, such as `0-3,7`.
fn nodes_text(nodes: &[NodeId]) -> String {
    let ranges = ranges(&nodes.iter().map(|node| node.0).collect::<Vec<_>>());
    let more = if ranges.len() > LISTED {
        format!(" … ({})", nodes.len())
    } else {
        String::new()
    };
    ranges[..ranges.len().min(LISTED)].join(",") + &more
}

fn join_ids(tasks: &[TaskId]) -> String {
    let names: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    format!(
        "task{} {}",
        if names.len() == 1 { "" } else { "s" },
        names.join(", ")
    )
}

pub(super) fn span(from: Nanos, to: Nanos) -> String {
    milliseconds(to.saturating_since(from))
}

pub(super) fn milliseconds(time: Nanos) -> String {
    format!("{:.3} ms", time.as_millis_f64())
}
