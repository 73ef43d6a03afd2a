//! The laws, each checked on the record of a run.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use super::Guarantees;
use super::record::{CheckedRun, SeenTask};
use crate::base::units::{CellId, Nanos, NodeId, RequestId, WorkerId};
use crate::core::cost::table::TableCosts;
use crate::core::summary::bounds::Fastest;
use crate::core::summary::laws;
use crate::core::task::{MemberList, NodeRef, TaskRow};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::model::CellType;
use crate::core::workload::trace::Requests;

/// The workload and the device that a policy was given.
pub struct CheckedCase<'a> {
    pub requests: &'a Requests,
    pub cells: &'a [CellType],
    pub workers: usize,
    pub device: &'a TableCosts,
    /// The policy's [batch sizes](crate::core::policy::registry::Settings::batch_sizes).
    pub sizes: &'a [u32],
}

/// Checks all laws. An error begins with the law's name and a colon.
pub fn check(
    case: &CheckedCase<'_>,
    run: &CheckedRun,
    guarantees: &Guarantees,
) -> Result<(), String> {
    check_backend(case, run, guarantees)?;
    little(run)?;
    if guarantees.work_conserving {
        work_conservation(case, run)?;
    }
    if guarantees.bounded {
        bounds(case, run)
    } else {
        Ok(())
    }
}

/// Checks only the laws that do not depend on the simulator's exact times.
pub(super) fn check_backend(
    case: &CheckedCase<'_>,
    run: &CheckedRun,
    guarantees: &Guarantees,
) -> Result<(), String> {
    caps(case, run, guarantees)?;
    conservation(case, run)?;
    order(case, run)?;
    causality(case, run, guarantees.holds_back)?;
    busy_time(run)?;
    joining(case, run)?;
    if guarantees.pins {
        pinning(case, run)
    } else {
        Ok(())
    }
}

/// Checks the laws of policies for language models, whose tasks have no nodes.
pub fn check_iterations(run: &CheckedRun) -> Result<(), String> {
    leaving(run)?;
    busy_time(run)?;
    little(run)
}

fn little(run: &CheckedRun) -> Result<(), String> {
    laws::littles_law(&run.recorder).map_err(|error| format!("Little's law: {error}"))
}

fn caps(case: &CheckedCase<'_>, run: &CheckedRun, guarantees: &Guarantees) -> Result<(), String> {
    let graphs = ListedGraph::all(case.requests);
    for (row, task) in run.tasks() {
        let TaskRow {
            task: id, batch, ..
        } = *row;
        if batch > guarantees.max_batch || batch == 0 {
            return Err(format!(
                "caps: task {id} has a batch of {batch}; at most {}",
                guarantees.max_batch
            ));
        }
        let mut own = 0;
        for node in members(task, case) {
            own += graphs[node.request.index()].sizes[node.node.index()];
        }
        if task.useful_cells != own || task.executed_cells < own {
            return Err(format!(
                "caps: task {id} executes {} cells, calls {} useful, and its members have {own}",
                task.executed_cells, task.useful_cells
            ));
        }
        let Some(nodes) = cell_nodes(task) else {
            continue;
        };
        let devices = &case.cells[row.cells[0].index()].batches;
        let largest = devices.last().copied().unwrap_or(u32::MAX);
        let padded = next_size(devices, next_size(case.sizes, batch).min(largest));
        if nodes.len() != batch as usize || task.step_batch != padded {
            return Err(format!(
                "caps: task {id} says {batch}, runs {} at once and holds {} nodes",
                task.step_batch,
                nodes.len()
            ));
        }
        for node in nodes {
            if graphs[node.request.index()].cells[node.node.index()] != row.cells[0] {
                return Err(format!(
                    "caps: task {id} of cell {} holds {node:?} of another cell type",
                    row.cells[0]
                ));
            }
        }
    }
    Ok(())
}

/// The first of the ascending sizes that holds these nodes, or their number if none does.
fn next_size(sizes: &[u32], nodes: u32) -> u32 {
    let next = sizes.iter().copied().find(|size| *size >= nodes);
    next.unwrap_or(nodes)
}

fn leaving(run: &CheckedRun) -> Result<(), String> {
    let finished = run.done.iter().filter(|at| **at != Nanos::MAX).count() as u64;
    if finished + run.recorder.rejections.len() as u64 != run.done.len() as u64 {
        let lost = run
            .done
            .iter()
            .position(|at| *at == Nanos::MAX)
            .unwrap_or(0);
        return Err(format!("conservation: request {lost} never left"));
    }
    Ok(())
}

fn conservation(case: &CheckedCase<'_>, run: &CheckedRun) -> Result<(), String> {
    leaving(run)?;
    let mut runs: Vec<Vec<u32>> = case
        .requests
        .graphs
        .iter()
        .map(|g| vec![0; g.nodes() as usize])
        .collect();
    for node in run.seen.iter().flat_map(|task| members(task, case)) {
        runs[node.request.index()][node.node.index()] += 1;
    }
    for (request, counts) in runs.iter().enumerate() {
        let expected = u32::from(run.done[request] != Nanos::MAX);
        if let Some(node) = counts.iter().position(|count| *count != expected) {
            return Err(format!(
                "conservation: node {node} of request {request} ran {} times",
                counts[node]
            ));
        }
    }
    Ok(())
}

fn order(case: &CheckedCase<'_>, run: &CheckedRun) -> Result<(), String> {
    let mut times: BTreeMap<NodeRef, (Nanos, Nanos)> = BTreeMap::new();
    for (row, task) in run.tasks() {
        for node in cell_nodes(task).unwrap_or_default() {
            times.insert(*node, (row.start, row.finish));
        }
        if let Some(MemberList::Parts(parts)) = &task.members {
            // The order within a part is the backend's: only its start and end are checked.
            for part in parts {
                for node in part.nodes() {
                    let is_first = node.node == part.from;
                    let is_last = node.node.0 + 1 == part.to.0;
                    let start = if is_first { row.start } else { Nanos::MAX };
                    let finish = if is_last { row.finish } else { Nanos::ZERO };
                    times.insert(node, (start, finish));
                }
            }
        }
    }
    for (request, graph) in ListedGraph::all(case.requests).into_iter().enumerate() {
        let request = RequestId(request as u64);
        for (from, to) in graph.edges {
            let before = NodeRef {
                request,
                node: NodeId(from),
            };
            let after = NodeRef {
                request,
                node: NodeId(to),
            };
            if let Some((_, finish)) = times.get(&before)
                && let Some((start, _)) = times.get(&after)
                && start < finish
            {
                return Err(format!(
                    "order: node {to} of request {request} starts before node {from} is done"
                ));
            }
        }
    }
    Ok(())
}

fn causality(case: &CheckedCase<'_>, run: &CheckedRun, holds_back: bool) -> Result<(), String> {
    let mut last = vec![Nanos::ZERO; run.done.len()];
    let mut first = vec![Nanos::MAX; run.done.len()];
    for (row, task) in run.tasks() {
        let TaskRow {
            task: id,
            submit,
            start,
            finish,
            ..
        } = *row;
        if submit > start || start > finish {
            return Err(format!(
                "causality: task {id} runs before it is submitted, or ends before it starts"
            ));
        }
        for node in members(task, case) {
            let request = node.request.index();
            if submit < run.recorder.arrival[request] {
                return Err(format!(
                    "causality: task {id} holds request {request}, which has not arrived"
                ));
            }
            last[request] = last[request].max(finish);
            first[request] = first[request].min(start);
        }
    }
    for (request, finish) in run
        .done
        .iter()
        .enumerate()
        .filter(|(_, at)| **at != Nanos::MAX)
    {
        let waits = holds_back && *finish > last[request] && last.contains(finish);
        if *finish != last[request] && !waits {
            return Err(format!(
                "causality: request {request} leaves at {finish}, its last node is done at {}",
                last[request]
            ));
        }
        if run.recorder.start[request] != first[request] {
            return Err(format!(
                "causality: request {request} is said to start at {}, its first node starts at {}",
                run.recorder.start[request], first[request]
            ));
        }
    }
    Ok(())
}

fn busy_time(run: &CheckedRun) -> Result<(), String> {
    if let Some(TaskRow { task, stream, .. }) = run
        .recorder
        .execution
        .tasks
        .iter()
        .find(|row| row.stream.0 >= run.streams)
    {
        return Err(format!(
            "work: task {task} is on stream {stream}, and the policy uses {}",
            run.streams
        ));
    }
    laws::busy_is_covered_by_tasks(&run.recorder).map_err(|broken| format!("work: {broken}"))
}

fn work_conservation(case: &CheckedCase<'_>, run: &CheckedRun) -> Result<(), String> {
    let end = run
        .done
        .iter()
        .filter(|at| **at != Nanos::MAX)
        .max()
        .copied()
        .unwrap_or(Nanos::ZERO);
    let mut idle: Vec<(Nanos, Nanos)> = Vec::new();
    for worker in 0..case.workers {
        let rows = run
            .recorder
            .execution
            .tasks
            .iter()
            .filter(|row| row.worker.index() == worker);
        let spans = rows.map(|row| (row.submit, row.finish));
        idle.extend(gaps(spans.collect(), Nanos::ZERO, end));
    }
    let mut tasks_of: Vec<Vec<(Nanos, Nanos)>> = vec![Vec::new(); run.done.len()];
    for (row, task) in run.tasks() {
        for node in members(task, case) {
            tasks_of[node.request.index()].push((row.submit, row.finish));
        }
    }
    for (request, spans) in tasks_of
        .into_iter()
        .enumerate()
        .filter(|(r, _)| run.done[*r] != Nanos::MAX)
    {
        // The response may be held back after the last task.
        let served = spans
            .iter()
            .map(|(_, finish)| *finish)
            .max()
            .unwrap_or_default();
        for waits in gaps(spans, run.recorder.arrival[request], served) {
            if let Some(gap) = idle
                .iter()
                .find(|gap| gap.0.max(waits.0) < gap.1.min(waits.1))
            {
                return Err(format!(
                    "work conservation: request {request} waits from {} to {}, and a worker idles from {} to {}",
                    waits.0, waits.1, gap.0, gap.1
                ));
            }
        }
    }
    Ok(())
}

/// The parts of a span that `spans` do not cover.
fn gaps(mut spans: Vec<(Nanos, Nanos)>, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
    spans.sort_unstable();
    let mut open = Vec::new();
    let mut covered = from;
    for (start, end) in spans {
        if start > covered {
            open.push((covered, start));
        }
        covered = covered.max(end);
    }
    if covered < to {
        open.push((covered, to));
    }
    open
}

fn pinning(case: &CheckedCase<'_>, run: &CheckedRun) -> Result<(), String> {
    let graphs = ListedGraph::all(case.requests);
    let mut tasks_of: BTreeMap<(RequestId, u32), Vec<&TaskRow>> = BTreeMap::new();
    for (row, task) in run.tasks() {
        for node in cell_nodes(task).unwrap_or_default() {
            let subgraph = graphs[node.request.index()].subgraphs[node.node.index()];
            tasks_of
                .entry((node.request, subgraph))
                .or_default()
                .push(row);
        }
    }
    for ((request, subgraph), tasks) in tasks_of {
        for (i, a) in tasks.iter().enumerate() {
            if let Some(b) = tasks[i + 1..]
                .iter()
                .find(|b| b.worker != a.worker && b.submit < a.finish && a.submit < b.finish)
            {
                return Err(format!(
                    "pinning: subgraph {subgraph} of request {request} is on workers {} and {} at once",
                    a.worker, b.worker
                ));
            }
        }
    }
    Ok(())
}

/// A task that says who joins has these members, and the next nodes of those of the worker's task of this cell type
/// before it.
fn joining(case: &CheckedCase<'_>, run: &CheckedRun) -> Result<(), String> {
    let graphs = ListedGraph::all(case.requests);
    let mut last: BTreeMap<(WorkerId, CellId), Vec<NodeRef>> = BTreeMap::new();
    for (row, task) in run.tasks() {
        let Some(nodes) = cell_nodes(task) else {
            last.clear();
            continue;
        };
        let mut members = nodes.to_vec();
        members.sort_unstable();
        let before = last
            .insert((row.worker, row.cells[0]), members.clone())
            .unwrap_or_default();
        let Some(joined) = &task.joined else { continue };
        let mut expected = joined.clone();
        for NodeRef { request, node } in before {
            let subgraphs = &graphs[request.index()].subgraphs;
            let next = NodeId(node.0 + 1);
            if subgraphs.get(next.index()) == Some(&subgraphs[node.index()]) {
                expected.push(NodeRef {
                    request,
                    node: next,
                });
            }
        }
        expected.sort_unstable();
        if expected != members {
            return Err(format!(
                "joining: task {} has the members {members:?}; those before it that go on, and those that join, are \
                 {expected:?}",
                row.task
            ));
        }
    }
    Ok(())
}

fn bounds(case: &CheckedCase<'_>, run: &CheckedRun) -> Result<(), String> {
    let nodes: u64 = case.requests.graphs.iter().map(CellGraph::nodes).sum();
    // A policy may pad a batch to a size above the number of all nodes.
    let largest = vec![case.sizes.last().copied().unwrap_or(0).max(nodes as u32); case.cells.len()];
    let mut fastest = Fastest::new([case.device], largest, run.streams);
    let mut work = 0.0;
    for request in 0..run.done.len() {
        if run.done[request] == Nanos::MAX {
            continue;
        }
        let (least, own_work) = fastest.least(&case.requests.graphs[request]);
        let took = run.done[request] - run.recorder.arrival[request];
        if took < least {
            return Err(format!(
                "bounds: request {request} takes {took}, and at the best batches {least}"
            ));
        }
        work += own_work;
    }
    // The sum of shares is rounded, unlike times.
    let busy: f64 = run
        .recorder
        .execution
        .busy
        .iter()
        .map(|busy| busy.0 as f64)
        .sum();
    if busy < work * (1.0 - 1e-9) {
        return Err(format!(
            "bounds: workers are busy for {busy:.1}ns, and at the best batches for {work:.1}ns"
        ));
    }
    Ok(())
}

/// The nodes of a task of cells; `None` for whole graphs and parts, whose inner order is the backend's.
fn cell_nodes(task: &SeenTask) -> Option<&[NodeRef]> {
    match task.members.as_ref().expect("the run was watched") {
        MemberList::Nodes(nodes) => Some(nodes),
        MemberList::Requests(_) | MemberList::Parts(_) | MemberList::Operators(..) => None,
    }
}

fn members(task: &SeenTask, case: &CheckedCase<'_>) -> Vec<NodeRef> {
    let members = task.members.as_ref().expect("the run was watched");
    members.nodes(|request| case.requests.graphs[request.index()].nodes())
}

/// A graph, node by node.
struct ListedGraph {
    cells: Vec<CellId>,
    /// The units of each node's input.
    sizes: Vec<u64>,
    subgraphs: Vec<u32>,
    edges: Vec<(u32, u32)>,
}

impl ListedGraph {
    fn all(requests: &Requests) -> Vec<ListedGraph> {
        requests
            .graphs
            .iter()
            .map(ListedGraph::from_graph)
            .collect()
    }

    fn from_graph(graph: &CellGraph) -> ListedGraph {
        match graph {
            CellGraph::Graph(graph) => {
                let edges = (0..graph.len() as u32)
                    .flat_map(|n| graph.successors(n).iter().map(move |m| (n, *m)));
                ListedGraph {
                    cells: graph.cells().to_vec(),
                    sizes: vec![1; graph.len()],
                    subgraphs: graph.subgraph_of().to_vec(),
                    edges: edges.collect(),
                }
            }
            CellGraph::Chains(runs) => {
                let mut listed = ListedGraph {
                    cells: Vec::new(),
                    sizes: Vec::new(),
                    subgraphs: Vec::new(),
                    edges: (1..graph.nodes() as u32).map(|n| (n - 1, n)).collect(),
                };
                for (place, run) in (0..).zip(runs.iter()) {
                    let length = run.length as usize;
                    listed.cells.extend(repeat_n(run.cell, length));
                    let size = u64::from(run.input.max(1));
                    listed.sizes.extend(repeat_n(size, length));
                    listed.subgraphs.extend(repeat_n(place, length));
                }
                listed
            }
        }
    }
}
