//! Tasks of whole requests.

use std::sync::atomic::Ordering;

use super::rows::Rows;
use super::worker::Worker;
use crate::clock;
use crate::task::Step;
use crate::units::{CellId, Nanos, RequestId, TaskId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    pub task: TaskId,
    pub cell: CellId,
    /// The number of rows, with padding.
    pub batch: u32,
    /// From before the gather until ended rows are in the table.
    pub time: Nanos,
    /// No row joined or ended at this step.
    pub stayed: bool,
}

impl Worker {
    /// Requests with nodes that the steps do not reach fail.
    pub fn run_whole(&mut self, task: TaskId, steps: &[Step], requests: &[RequestId]) {
        self.batches.iter_mut().for_each(Rows::clear);
        self.list.begin(requests, &self.table.graphs);
        for step in steps {
            for _ in 0..step.times {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let began = self.log.is_some().then(clock::now);
                let stayed = self.run_step(step);
                if let (Some(log), Some(began)) = (&self.log, began) {
                    let time = Nanos(began.elapsed().as_nanos() as u64);
                    // The receiver may be gone.
                    let _ = log.send(StepTime { task, cell: step.cell, batch: step.batch, time, stayed });
                }
            }
        }
        self.put_ahead();
        self.batches.iter_mut().for_each(|rows| rows.dismiss_all(&self.table, |_| ()));
        requests.iter().for_each(|request| self.table.expect_done(*request));
        self.batches.iter_mut().for_each(Rows::clear);
    }

    /// Runs a step once. Rows stay in place as long as no node is ready to join; ended rows run on as padding while the
    /// step keeps its size. Returns whether no row joined or ended.
    fn run_step(&mut self, step: &Step) -> bool {
        let size = step.batch as usize;
        self.launched.launches += 1;
        if let Some(operators) = self.network.operators() {
            self.nodes.clear();
            self.list.take(step.cell, size, &mut self.nodes);
            let stayed = self.queries.run(step, &self.nodes, operators, &self.table, &mut self.scratch);
            self.nodes.iter().for_each(|node| self.list.ran(*node, &self.table.graphs));
            return stayed;
        }
        self.make_room(step.cell);
        let Worker { network, table, batches, list, nodes, scratch, launched, .. } = self;
        let rows = &mut batches[step.cell.index()];
        let stay = (1..=rows.len()).contains(&size) && rows.going_on() <= size && list.is_empty(step.cell);
        if stay {
            rows.close_up(size);
            rows.go_on();
        } else {
            let began = clock::now();
            rows.dismiss_all(table, |node| list.ran(node, &table.graphs));
            nodes.clear();
            list.take(step.cell, size, nodes);
            launched.copied_bytes += rows.gather(nodes, size, table);
            launched.copies += 1;
            launched.copying += began.elapsed();
        }
        rows.run(network, step.input, scratch);
        let mut all_go_on = true;
        rows.put_ended(table, |node| {
            all_go_on = false;
            list.ran(node, &table.graphs);
        });
        stay && all_go_on
    }
}
