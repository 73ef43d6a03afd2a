//! Tasks of whole requests.

use std::sync::atomic::Ordering;

use super::rows::Rows;
use super::worker::Worker;
use crate::backend::Step;
use crate::units::RequestId;

impl Worker {
    /// Runs all nodes of these requests. Those that the steps don't reach make their requests fail.
    pub fn run_whole(&mut self, steps: &[Step], requests: &[RequestId]) {
        self.batches.iter_mut().for_each(Rows::clear);
        self.list.begin(requests, self.table.graphs());
        for step in steps {
            for _ in 0..step.times {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                self.run_step(step);
            }
        }
        self.batches.iter_mut().for_each(|rows| rows.dismiss_all(&self.table, |_| ()));
        requests.iter().for_each(|request| self.table.expect_done(*request));
        self.batches.iter_mut().for_each(Rows::clear);
    }

    /// Runs a step once. Rows stay in place as long as nobody is ready to join them; those that have ended run on as
    /// padding while the step is as large as before.
    fn run_step(&mut self, step: &Step) {
        let size = step.batch as usize;
        self.make_room(step.cell);
        let Worker { network, table, batches, list, nodes, scratch, .. } = self;
        let rows = &mut batches[step.cell.index()];
        let stay = (1..=rows.len()).contains(&size) && rows.going_on() <= size && list.is_empty(step.cell);
        if stay {
            rows.close_up(size);
            rows.go_on();
        } else {
            rows.dismiss_all(table, |node| list.ran(node, table.graphs()));
            nodes.clear();
            list.take(step.cell, size, nodes);
            rows.gather(nodes, size, table);
        }
        rows.run(network, step.input, scratch);
        rows.put_ended(table, |node| list.ran(node, table.graphs()));
    }
}
