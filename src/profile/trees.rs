//! The cells of trees, in the tasks that cellular batching makes of whole trees.
//!
//! What a node of a tree costs depends on where its children's states are. So trees run from their leaves to their roots,
//! those that have ended make room for others, and a node finds the states as near as it does in any run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::served::serve;
use super::{Profile, Samples, Settings, Subject, unfolded};
use crate::error::{Error, Result};
use crate::metrics::recorder::{Recorder, TaskRow};
use crate::policy::cellular::Cellular;
use crate::policy::registry::PerCell;
use crate::units::{CellId, WorkerId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::shape::Shape;

/// Nodes of each cell that run at a batch size, so that small ones have more samples.
const NODES: usize = 2048;

/// The first tasks of each cell find nothing in the caches, and no room that trees have left.
const WARM_UP: usize = 3;

/// For how many tasks of each cell there are trees at a batch size.
fn tasks(batch: u32) -> usize {
    (NODES / batch as usize).clamp(16, 128)
}

/// Measures each batch size once, all cells together.
///
/// # Errors
/// As [`super::measure`]; trees without an internal node.
pub fn measure(
    subject: &Subject<'_>,
    settings: &Settings,
    batches: &[u32],
    stop: &AtomicBool,
    profile: &mut Profile,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    if subject.wanted.trees.iter().all(|tree| tree.length() == 1) {
        return Err(Error::input(
            "none of the trees has a node with children, so that no internal cell can be measured",
        ));
    }
    for &batch in batches {
        let shapes = enough(subject, batch as usize * tasks(batch) * settings.workers)?;
        let requests = unfolded(shapes, &subject.wanted.model)?;
        // Behind the first task of a decision there is none that is smaller.
        let one_size = PerCell::All(batch);
        let policy = Cellular { max_batch: one_size.clone(), min_batch: one_size, ..Cellular::default() };
        let served = serve(subject, &requests, &policy, settings.workers, stop)?;
        for (place, cell) in subject.wanted.model.cell_types().into_iter().enumerate() {
            if subject.wanted.cells.contains(&cell.name) {
                let (size, times) = durations(&served, CellId(place as u16));
                let samples = profile.cells.entry((cell.name, 0)).or_default().entry(size).or_default();
                times.for_each(|task| samples.add(task.finish - task.start));
            }
        }
        gaps(&served, batch, &mut profile.between);
        go_on()?;
    }
    Ok(())
}

/// As many of the trees, over and over, as have so many nodes of each cell.
fn enough(subject: &Subject<'_>, nodes: usize) -> Result<Vec<Shape>> {
    let sample = unfolded(subject.wanted.trees.clone(), &subject.wanted.model)?;
    let mut left = vec![nodes; subject.wanted.model.cell_types().len()];
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

/// The tasks of a cell that were as large as any, which is the size that was asked for unless its trees have too few nodes
/// that are ready together; and that size.
fn durations(served: &Recorder, cell: CellId) -> (u32, impl Iterator<Item = &TaskRow>) {
    let of_cell = move |task: &&TaskRow| task.cells[..] == [cell];
    let size = served.tasks.iter().filter(of_cell).map(|task| task.batch).max().unwrap_or(1);
    let of_size: Vec<&TaskRow> = served.tasks.iter().filter(of_cell).filter(|task| task.batch == size).collect();
    let skipped = WARM_UP.min(of_size.len().saturating_sub(1));
    (size, of_size.into_iter().skip(skipped))
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
