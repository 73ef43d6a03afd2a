//! When a simulated task starts, how long it takes, and when the engine learns of its completion.

use super::{CostModel, Extra, MemberKind, RowChange, Runs};
use crate::base::units::{CellId, Nanos, Share};
use crate::core::task::{DecodeTask, Step, Task};

/// The times of tasks. The simulated device asks once for each task, in the order of submission. Every [`CostModel`]
/// answers, as does a recording of a real device.
pub trait Timing {
    /// The start of a task that is submitted now. `idle` means that its stream has no unfinished task.
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start;

    /// The task's time if it runs alone; `before` is the stream's previous cell type.
    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos;

    /// The start and the time of an iteration that is submitted now. The one before on its stream has just ended, and the
    /// same sequences decode in both.
    fn decode(&mut self, task: &DecodeTask, submit: Nanos) -> (Start, Nanos) {
        let start = self.start(&task.as_task(), submit, true);
        (start, self.duration(&task.as_task(), Some(task.step.cell)))
    }

    /// The time that this one becomes if the task starts at this instant, on a machine whose speed varies.
    fn disturb(&mut self, time: Nanos, _: Nanos) -> Nanos {
        time
    }

    /// The share of the device that a task can use. It matters only if tasks run concurrently.
    fn demand(&mut self, _: &Task<'_>) -> Share {
        Share::WHOLE
    }

    /// The batch sizes of the cell, ascending; empty if the device runs any.
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// The time from the end of a task until the engine learns of it.
    fn completion_delay(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

/// When a task can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The earliest start, which is not before the submission.
    pub earliest: Nanos,
    /// The least time after the end of the stream's previous task.
    pub gap: Nanos,
}

impl Start {
    /// The start on a stream that is free from this instant on.
    #[inline]
    pub fn instant(self, free: Nanos) -> Nanos {
        self.earliest.max(free.saturating_add(self.gap))
    }
}

/// The mean demand of the steps, weighted by their times and rounded up. A persistent kernel demands the whole device.
pub fn mean_demand<'s>(
    costs: &(impl CostModel + ?Sized),
    steps: impl IntoIterator<Item = &'s Step>,
    members: MemberKind,
) -> Share {
    let mut used = 0;
    let mut time = 0;
    for step in steps {
        let runs = costs.runs(step, members);
        let demand = if runs.persistent {
            Share::WHOLE
        } else {
            costs.demand(step).min(Share::WHOLE)
        };
        used += u128::from(runs.time.0) * u128::from(demand.0);
        time += u128::from(runs.time.0);
    }
    // The mean fits 64 bits, since it is at most the largest demand. Steps without time use almost nothing.
    Share((used.div_ceil(time.max(1)) as u64).max(1))
}

impl<C: CostModel> Timing for C {
    #[inline]
    fn start(&mut self, task: &Task<'_>, submit: Nanos, _: bool) -> Start {
        let earliest = submit
            .saturating_add(task.extra.host_ahead)
            .saturating_add(self.launch(task.batch, task.gather));
        Start {
            earliest,
            gap: Nanos::ZERO,
        }
    }

    fn demand(&mut self, task: &Task<'_>) -> Share {
        task_demand(self, task)
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        CostModel::batches(self, cell)
    }

    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos {
        task_time(self, task, before)
    }
}

/// The share of the device that a task can use. The rest of the task uses the [mean](mean_demand) of its steps, too.
pub fn task_demand(costs: &(impl CostModel + ?Sized), task: &Task<'_>) -> Share {
    mean_demand(costs, task.steps, MemberKind::from_members(&task.members))
}

/// The task's time if it runs alone; `before` is the stream's previous cell type.
#[inline]
pub fn task_time(
    costs: &(impl CostModel + ?Sized),
    task: &Task<'_>,
    mut before: Option<CellId>,
) -> Nanos {
    let members = MemberKind::from_members(&task.members);
    let mut time = costs
        .extra(Extra::Task, task.batch)
        .saturating_add(task.extra.host_during)
        .saturating_add(task.extra.device);
    let mut first_switch = None;
    let mut moves_states = false;
    let mut queue = StepQueue::default();
    for (place, step) in task.steps.iter().enumerate() {
        if before
            .replace(step.cell)
            .is_some_and(|before| before != step.cell)
        {
            let switch = costs.switch(step, members);
            match first_switch {
                None => first_switch = Some(switch),
                Some(_) => queue.device = queue.device.saturating_add(switch),
            }
        }
        let runs = costs.runs(step, members);
        moves_states |= runs.moves_states;
        let change = if members == MemberKind::Requests && !runs.persistent {
            costs.row_change(step, &task.steps[..place])
        } else {
            RowChange::default()
        };
        queue.run(step, &runs, &change);
    }
    time = time.saturating_add(queue.device);
    if !moves_states && members == MemberKind::Requests {
        time = time.saturating_add(costs.extra(Extra::Requests, task.batch));
    }
    let gather = if moves_states {
        Nanos::ZERO
    } else {
        gather_time(costs, task)
    };
    // After another cell the states go back to their requests anyway: the task pays the larger of the two.
    time.saturating_add(gather.max(first_switch.unwrap_or_default()))
}

/// The time of bringing the states of the members together.
fn gather_time(costs: &(impl CostModel + ?Sized), task: &Task<'_>) -> Nanos {
    let change = task.joined.and_then(|joined| costs.change(joined.count));
    match change {
        Some(change) => change,
        None if task.gather => costs.extra(Extra::Gather, task.batch),
        None => Nanos::ZERO,
    }
}

/// The steps of a task as the host queues them and the device runs them, one after the other. A step begins when the
/// host has queued it and the step before has ended.
#[derive(Default)]
struct StepQueue {
    /// When the host has queued the steps so far, since the start of the task.
    host: Nanos,
    /// When the device has run them.
    device: Nanos,
}

impl StepQueue {
    #[inline]
    fn run(&mut self, step: &Step, runs: &Runs, change: &RowChange) {
        let first_queued = self.host.saturating_add(change.host);
        let mut end = self.device.max(first_queued).saturating_add(runs.time);
        self.host = first_queued;
        if change.in_each_run && step.times > 1 {
            // The runs are alike, so the device waits for the first one only, or else for each.
            let times = u64::from(step.times);
            let more = change.host.saturating_mul(times - 1);
            self.host = first_queued.saturating_add(more);
            end = end.max(self.host.saturating_add(Nanos(runs.time.0 / times)));
        }
        self.device = end.saturating_add(change.device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::WorkerId;
    use crate::core::cost::table::{CostTable, Overhead};
    use crate::core::task::{Joined, Members};
    use crate::core::workload::model::Model;

    #[test]
    fn a_task_demands_the_mean_of_its_steps_for_their_time() {
        let rows = "cell,batch,ns\ndecoder,4,10\ndecoder,8,20\nencoder,2,100\nencoder,4,200\nencoder.whole,1,0\ntask,1,999\n";
        let table = CostTable::parse(rows, "costs").unwrap();
        let mut model = table
            .costs_for(&Model::Seq2Seq.cell_types(), Overhead::default())
            .unwrap();
        let decoder = |batch, times| Step {
            cell: CellId(0),
            batch,
            times,
            input: 0,
        };
        let encoder = |batch, times| Step {
            cell: CellId(1),
            batch,
            times,
            input: 0,
        };
        let mut demand = |steps: &[Step], members: Members<'_>| {
            let task = Task::whole_requests(WorkerId(0), steps, &[], 1);
            Timing::demand(&mut model, &Task { members, ..task }).0
        };
        let quarter = Share::WHOLE.0 / 4;
        let nodes = Members::Nodes(&|_| ());
        assert_eq!(demand(&[decoder(1, 1)], nodes), quarter);
        assert_eq!(demand(&[decoder(3, 1)], nodes), 3 * quarter);
        assert_eq!(demand(&[decoder(5, 1)], nodes), 4 * quarter);
        // A quarter for 10 · 10 ns and half for 100 ns; then a quarter for 20 ns and half for 100 ns, rounded up.
        assert_eq!(
            demand(&[decoder(1, 10), encoder(1, 1)], nodes),
            (quarter + 2 * quarter) / 2
        );
        assert_eq!(
            demand(&[decoder(1, 2), encoder(1, 1)], nodes),
            (20 * quarter + 100 * 2 * quarter).div_ceil(120)
        );
        assert_eq!(
            demand(&[decoder(1, 10), encoder(1, 1)], Members::Requests),
            quarter
        );
        assert_eq!(demand(&[encoder(1, 1)], Members::Requests), 1);
    }

    /// The time of a task of whole requests with these steps (cell, batch, times) on a table with these rows.
    fn whole_time(model: &Model, rows: &str, steps: &[(u16, u32, u32)]) -> u64 {
        let table = CostTable::parse(rows, "costs").unwrap();
        let costs = table
            .costs_for(&model.cell_types(), Overhead::default())
            .unwrap();
        let steps: Vec<Step> = steps
            .iter()
            .map(|(cell, batch, times)| Step {
                cell: CellId(*cell),
                batch: *batch,
                times: *times,
                input: 0,
            })
            .collect();
        task_time(
            &costs,
            &Task::whole_requests(WorkerId(0), &steps, &[], 1),
            None,
        )
        .0
    }

    #[test]
    fn levels_of_whole_requests_that_grow_or_shrink_pay_for_it() {
        let rows = "cell,batch,ns\nencoder,1,100\nencoder,2,100\ndecoder,1,10\ndecoder,2,10\n";
        let changes = "whole.shrink,1,1\nwhole.shrink,9,9\nwhole.grow,1,1000\nwhole.grow,9,9000\n";
        // Encoders of 4, 3, 3 and 1 rows between decoders of 2, 2 and 3.
        let steps = [
            (1, 4, 1),
            (0, 2, 1),
            (1, 3, 2),
            (0, 2, 1),
            (1, 1, 1),
            (0, 3, 1),
        ];
        let model = Model::Seq2Seq;
        let plain = whole_time(&model, rows, &steps);
        assert_eq!(plain, 4 * 100 + 3 * 10);
        let with = format!("{rows}{changes}");
        assert_eq!(whole_time(&model, &with, &steps), plain + 3 + 1 + 3000);
        let nodes = Task {
            members: Members::Nodes(&|_| ()),
            ..Task::whole_requests(WorkerId(0), &[], &[], 1)
        };
        let table = CostTable::parse(&with, "costs").unwrap();
        let costs = table.costs_for(&model.cell_types(), Overhead::default());
        assert_eq!(task_time(&costs.unwrap(), &nodes, None), Nanos::ZERO);
    }

    #[test]
    fn the_device_waits_for_the_host_only_where_the_host_is_slower() {
        let rows = "cell,batch,ns\ninternal,1,50\ninternal,2,50\nleaf,1,50\nleaf,2,50\nwhole.host,1,10\nwhole.host,2,20\n";
        let time = |steps: &[(u16, u32, u32)]| whole_time(&Model::TreeLstm, rows, steps);
        // The host needs 10 ns for a row: it is ahead after the first level.
        assert_eq!(time(&[(1, 4, 1), (0, 2, 1), (0, 1, 1)]), 40 + 3 * 50);
        // Queued at 80, 140 and 150.
        assert_eq!(time(&[(1, 8, 1), (0, 6, 1), (0, 1, 1)]), 140 + 2 * 50);
        // Each run of a level of trees has new rows: queued at 60, 120 and 180, or at 10, 20 and 30.
        assert_eq!(time(&[(0, 6, 3)]), 180 + 50);
        assert_eq!(time(&[(0, 1, 3)]), 10 + 3 * 50);
        // The rows of a chain stay, so only the first step of each size is queued at length.
        let chain = "cell,batch,ns\nlstm,1,50\nlstm,2,50\nwhole.host,1,10\nwhole.host,2,20\n";
        let time = |steps: &[(u16, u32, u32)]| whole_time(&Model::Lstm, chain, steps);
        assert_eq!(time(&[(0, 20, 3), (0, 9, 1)]), 200 + 3 * 50 + 50);
    }

    #[test]
    fn a_table_with_changes_prices_the_chains_that_join() {
        let time = |rows: &str, overhead, joined: Option<u32>| {
            let table = CostTable::parse(&format!("cell,batch,ns\n{rows}"), "costs").unwrap();
            let costs = table.costs_for(&Model::Lstm.cell_types(), overhead);
            let steps = [Step {
                cell: CellId(0),
                batch: 8,
                times: 1,
                input: 0,
            }];
            let joined = joined.map(|count| Joined {
                count,
                list: &|_| (),
            });
            let task = Task {
                gather: true,
                members: Members::Nodes(&|_| ()),
                joined,
                ..Task::new(WorkerId(0), &steps, &[], 8)
            };
            task_time(&costs.unwrap(), &task, None).0
        };
        let by_rows = Overhead::default();
        let gathers = "lstm,1,100\nlstm,8,100\ngather,1,30\ngather,8,30\n";
        assert_eq!(time(gathers, by_rows, Some(2)), 130);
        let changes = &format!("{gathers}change,1,5\nchange,3,7\n");
        assert_eq!(time(changes, by_rows, Some(2)), 106);
        assert_eq!(time(changes, by_rows, Some(0)), 100);
        assert_eq!(time(changes, by_rows, None), 130);
        let given = Overhead {
            gather: Some(Nanos(9)),
            ..Overhead::default()
        };
        assert_eq!(time(changes, given, Some(2)), 109, "the scenario's time");
    }
}
