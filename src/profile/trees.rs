//! The cells of trees, in the tasks that cellular batching makes of whole trees.
//!
//! What a node of a tree costs depends on where its children's states are. So trees run from their leaves to their roots,
//! those that have ended make room for others, and a node finds the states as near as it does in any run.

use std::collections::BTreeMap;

use super::served::serve;
use super::{Profile, Samples, Subject, Wanted, unfolded};
use crate::error::{Error, Result};
use crate::metrics::recorder::Recorder;
use crate::policy::cellular::Cellular;
use crate::policy::values::PerCell;
use crate::task::TaskRow;
use crate::units::{CellId, Nanos, WorkerId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::shape::Shape;

/// Nodes of each cell that run at a batch size, so that small ones have more samples.
const NODES: usize = 2048;

/// The first tasks of each cell find nothing in the caches, and no room that trees have left.
const WARM_UP: usize = 3;

/// Tasks of a decision where the policy is held to a size: one behind another, whose gap is measured, and no more, so that
/// cells take turns as they do when trees come one by one.
const HELD_TASKS: u32 = 2;

/// The same where tasks have the times at which the host sees them: the later ones of a decision end while it looks.
const SEEN_TASKS: u32 = 5;

/// Smaller batches than this are those of what is left near the roots of a few trees: one internal cell runs behind the
/// other. A policy that is held to such a size changes between leaves and internal cells all the time, and the weights of
/// one take the place of the other's in the caches.
const FEW: u32 = 16;

/// How many times the nodes of a batch run where the policy is free, because it makes tasks of other sizes too.
const FREE_NODES: usize = 4;

/// For how many tasks of each cell there are trees at a batch size.
fn tasks(batch: u32) -> usize {
    (NODES / batch as usize).clamp(16, 128)
}

/// Measures each batch size once, all cells together.
///
/// # Errors
/// As [`super::measure`]; trees without an internal node.
pub fn measure(
    subject: &mut Subject<'_>,
    batches: &[u32],
    profile: &mut Profile,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    if subject.wanted.trees.iter().all(|tree| tree.length() == 1) {
        return Err(Error::input(
            "none of the trees has a node with children, so that no internal cell can be measured",
        ));
    }
    let (workers, seen) = (subject.settings.workers, subject.engine.times_are_seen());
    for &batch in batches {
        // Behind the first task of a decision there is none that is smaller.
        let one_size = PerCell::All(batch);
        let held = Cellular {
            max_tasks: if seen { SEEN_TASKS } else { HELD_TASKS },
            max_batch: one_size.clone(),
            min_batch: one_size,
            chunk: 1,
        };
        let nodes = batch as usize * tasks(batch) * workers;
        let mut serve_some = |nodes: usize, trees: u32, policy: &Cellular| {
            let requests = unfolded(enough(subject.wanted, nodes)?, &subject.wanted.model)?;
            serve(subject, &requests, trees as usize * workers, policy)
        };
        let held = serve_some(nodes, batch, &held)?;
        gaps(&held, batch, &mut profile.between);
        let mut runs = vec![held];
        if batch < FEW {
            for trees in [batch, batch.div_ceil(2)] {
                runs.push(serve_some(FREE_NODES * nodes, trees, &Cellular::default())?);
            }
        }
        for (place, cell) in subject.wanted.model.cell_types().into_iter().enumerate() {
            if !subject.wanted.cells.contains(&cell.name) {
                continue;
            }
            let mut found: Vec<_> = runs.iter().flat_map(|run| of_cell(&run.tasks, CellId(place as u16))).collect();
            // The size that was asked for, unless the trees have too few nodes that are ready together.
            let size = found.iter().map(|one| one.task.batch).filter(|size| *size <= batch).max().unwrap_or(batch);
            found.retain(|one| one.task.batch == size);
            if seen && found.iter().any(|one| one.watched) {
                found.retain(|one| one.watched);
            }
            let (behind_others, kept): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.behind_other);
            for Ran { task, .. } in &behind_others {
                let behind = profile.turns.entry(cell.name.clone()).or_default().entry(size).or_default();
                behind.add(task.finish - task.start);
            }
            // Where a cell never follows its own kind, what it takes behind the other is its time.
            let own = if kept.is_empty() { behind_others } else { kept };
            let samples = profile.cells.entry((cell.name, 0)).or_default().entry(size).or_default();
            own.iter().for_each(|one| samples.add(one.task.finish - one.task.start));
        }
        go_on()?;
    }
    Ok(())
}

/// As many of the trees, over and over, as have so many nodes of each cell.
fn enough(wanted: &Wanted, nodes: usize) -> Result<Vec<Shape>> {
    let sample = unfolded(wanted.trees.clone(), &wanted.model)?;
    let mut left = vec![nodes; wanted.model.cell_types().len()];
    let mut shapes = Vec::new();
    for (shape, graph) in sample.shapes.iter().zip(sample.graphs.iter()).cycle() {
        let mut count = |cell: CellId, nodes: u32| {
            left[cell.index()] = left[cell.index()].saturating_sub(nodes as usize);
        };
        match graph {
            CellGraph::Chains(runs) => runs.iter().for_each(|run| count(run.cell, run.length)),
            CellGraph::Graph(graph) => graph.cells().iter().for_each(|cell| count(*cell, 1)),
        }
        shapes.push(shape.clone());
        if left.iter().all(|left| *left == 0) {
            break;
        }
    }
    Ok(shapes)
}

/// A task of a cell.
struct Ran<'t> {
    task: &'t TaskRow,
    /// It ran directly behind one of another cell on its worker.
    behind_other: bool,
    /// The host saw it begin and end: of the tasks of a decision, those that began after it had looked first. What was done by
    /// then, or under way, began while it submitted; and the first waited for the device, which is the launch's time.
    watched: bool,
}

/// The tasks of a cell but the first.
fn of_cell(tasks: &[TaskRow], cell: CellId) -> Vec<Ran<'_>> {
    // For each worker: whether its last task was of this cell, when its last decision was made, and when the first task of
    // that was done.
    let mut last: BTreeMap<WorkerId, (bool, Nanos, Nanos)> = BTreeMap::new();
    let mut found = Vec::new();
    for task in tasks {
        let this = task.cells[..] == [cell];
        let before = last.get(&task.worker).copied();
        let first_look =
            before.filter(|(_, decided, _)| *decided == task.submit).map_or(task.finish, |(.., done)| done);
        last.insert(task.worker, (this, task.submit, first_look));
        if this {
            let behind_other = before.is_some_and(|(after_this, ..)| !after_this);
            found.push(Ran { task, behind_other, watched: task.start > first_look });
        }
    }
    found.drain(..WARM_UP.min(found.len().saturating_sub(1)));
    found
}

/// The times from each task to the next that waited behind it.
fn gaps(served: &Recorder, batch: u32, between: &mut BTreeMap<u32, Samples>) {
    let mut last: BTreeMap<WorkerId, &TaskRow> = BTreeMap::new();
    for task in &served.tasks {
        if let Some(before) = last.insert(task.worker, task)
            && task.submit < before.finish
            && [task.batch, before.batch] == [batch; 2]
        {
            between.entry(batch).or_default().add(task.start.saturating_since(before.finish));
        }
    }
}
