//! The times and demands of tasks whose steps recur in a [list](ListedSteps), and the times of iterations in which
//! sequences only decode.

use super::timing::task_time;
use super::{CostModel, MemberKind};
use crate::base::grow::grow;
use crate::base::units::{CellId, Nanos, Share};
use crate::core::task::{DecodeTask, ExtraTime, ListedSteps, Members, Task};

/// The largest batch and the largest input whose results are kept.
const MOST_KEPT: u32 = 1024;

/// The results for tasks that have occurred.
#[derive(Default)]
pub struct KnownTasks {
    /// The results for lists of steps, by list, input and batch.
    lists: Vec<Vec<Vec<TaskResult>>>,
    /// The overheads of iterations in which sequences only decode, by batch.
    decodes: Vec<Option<DecodeOverhead>>,
}

/// The time of an iteration except that of its step, which alone depends on the context.
#[derive(Clone, Copy)]
struct DecodeOverhead {
    cell: CellId,
    time: Nanos,
}

/// What is known of a list of steps at one batch and input.
#[derive(Clone, Copy, Default)]
pub struct TaskResult {
    time: Option<KnownTime>,
    demand: Option<KnownDemand>,
}

/// The time of a task with such members after a step of this cell type.
#[derive(Clone, Copy)]
struct KnownTime {
    members: MemberKind,
    before: Option<CellId>,
    time: Nanos,
}

#[derive(Clone, Copy)]
struct KnownDemand {
    members: MemberKind,
    demand: Share,
}

impl KnownTasks {
    /// The results for the steps of a task, or `None` if they are not kept.
    pub fn result(&mut self, task: &Task<'_>) -> Option<&mut TaskResult> {
        let ListedSteps { list, batch, input } = task.listed?;
        if batch > MOST_KEPT || input > MOST_KEPT {
            return None;
        }
        let by_input = grow(&mut self.lists, list.index());
        let by_batch = grow(by_input, input as usize);
        Some(grow(by_batch, batch as usize))
    }

    /// The time of an iteration in which sequences only decode, after another iteration. `None` for other tasks.
    #[inline]
    pub fn decode_time(
        &mut self,
        task: &Task<'_>,
        before: Option<CellId>,
        costs: &impl CostModel,
    ) -> Option<Nanos> {
        let [step] = *task.steps else {
            return None;
        };
        let is_alike = task.iteration.is_some()
            && matches!(task.members, Members::Requests)
            && task.batch == step.batch
            && step.times == 1
            && step.batch <= MOST_KEPT
            && before == Some(step.cell)
            && is_plain(task);
        if !is_alike {
            return None;
        }
        let run = costs.runs(&step, MemberKind::Requests).time;
        let known = grow(&mut self.decodes, step.batch as usize);
        if let Some(overhead) = known
            && overhead.cell == step.cell
        {
            return Some(overhead.time.saturating_add(run));
        }
        let time = task_time(costs, task, before);
        if time < Nanos::MAX {
            *known = Some(DecodeOverhead {
                cell: step.cell,
                time: time - run,
            });
        }
        Some(time)
    }

    /// The time of an iteration like the one before, or `None` if the overhead is not known.
    #[inline]
    pub fn repeated_decode_time(&self, task: &DecodeTask, costs: &impl CostModel) -> Option<Nanos> {
        let step = &task.step;
        let overhead = (*self.decodes.get(step.batch as usize)?)?;
        if overhead.cell != step.cell || task.batch != step.batch || step.times != 1 {
            return None;
        }
        let run = costs.runs(step, MemberKind::Requests).time;
        Some(overhead.time.saturating_add(run))
    }
}

/// Whether nothing but the steps, the members and the cell before decides the time of a task.
fn is_plain(task: &Task<'_>) -> bool {
    task.extra == ExtraTime::default() && !task.gather && task.joined.is_none()
}

impl TaskResult {
    /// The time of a task after a step of another cell type, which is computed if it is not known.
    pub fn time(
        &mut self,
        task: &Task<'_>,
        before: Option<CellId>,
        compute: impl FnOnce() -> Nanos,
    ) -> Nanos {
        if task.batch != task.steps[0].batch || !is_plain(task) {
            return compute();
        }
        let members = MemberKind::from_members(&task.members);
        match self.time {
            Some(known) if known.members == members && known.before == before => known.time,
            _ => {
                let time = compute();
                self.time = Some(KnownTime {
                    members,
                    before,
                    time,
                });
                time
            }
        }
    }

    /// The demand of a task, which is computed if it is not known.
    pub fn demand(&mut self, task: &Task<'_>, compute: impl FnOnce() -> Share) -> Share {
        let members = MemberKind::from_members(&task.members);
        match self.demand {
            Some(known) if known.members == members => known.demand,
            _ => {
                let demand = compute();
                self.demand = Some(KnownDemand { members, demand });
                demand
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use smallvec::{SmallVec, smallvec};

    use super::*;
    use crate::base::units::{StreamId, WorkerId};
    use crate::core::cost::table::{CostTable, Overhead, TableCosts};
    use crate::core::cost::task_times::TaskTimes;
    use crate::core::cost::timing::Timing;
    use crate::core::task::step_lists::StepLists;
    use crate::core::task::{Iteration, Joined, OpenTask, Step};
    use crate::core::workload::model::Model;
    use crate::core::workload::random;
    use crate::core::workload::shared_list::SharedList;

    /// Costs that depend on all that a task has: batch, input, kind of members, the cell before, gathering, joining.
    fn costs() -> TableCosts {
        costs_with("")
    }

    /// The same costs with further rows.
    fn costs_with(rows: &str) -> TableCosts {
        let all = "cell,batch,ns,input\ndecoder,1,10,0\ndecoder,8,30,0\nencoder,1,70,1\nencoder,4,200,9\nencoder,8,210,9\n\
                    decoder.switch,1,5,0\nencoder.switch,1,11,0\ntask,1,100,0\ntask,8,108,0\ngather,1,31,0\ngather,8,38,0\n\
                    change,1,3,0\nwhole,1,1,0\nwhole,8,8,0\nencoder.whole,1,60,1\nencoder.whole,8,190,9\n";
        CostTable::parse(&format!("{all}{rows}"), "costs")
            .unwrap()
            .costs_for(&Model::Seq2Seq.cell_types(), Overhead::default())
            .unwrap()
    }

    /// Tasks of few lists repeat in random order. Among them are steps that do not fit a list, and iterations.
    #[test]
    fn known_times_and_demands_are_those_that_are_computed() {
        let mut costs = costs();
        let mut times = TaskTimes::new(costs.clone(), &SharedList::default());
        let mut step_lists = StepLists::default();
        let mut rng = random::sequence(1, 0, "tasks");
        let lists: Vec<Vec<(u16, u32, bool)>> = (0..6)
            .map(|list| {
                (0..list + 1)
                    .map(|_| (rng.random_range(0..2), rng.random_range(1..4), rng.random()))
                    .collect()
            })
            .collect();
        for _ in 0..20_000 {
            let batch = rng.random_range(1..9);
            let input = rng.random_range(0..4);
            let mut steps: Vec<Step> = lists[rng.random_range(0..lists.len())]
                .iter()
                .map(|(cell, times, sized)| Step {
                    cell: CellId(*cell),
                    batch,
                    times: *times,
                    input: u32::from(*sized) * input,
                })
                .collect();
            if rng.random_range(0..5) == 0 {
                let place = rng.random_range(0..steps.len());
                steps[place].batch = rng.random_range(1..9);
            }
            let members = match rng.random_range(0..3) {
                0 => Members::Requests,
                1 => Members::Parts(&|_| ()),
                _ => Members::Nodes(&|_| ()),
            };
            let task = Task {
                batch: if rng.random_range(0..9) == 0 {
                    1
                } else {
                    batch
                },
                members,
                gather: rng.random_range(0..9) == 0,
                joined: (rng.random_range(0..9) == 0).then_some(Joined {
                    count: 1,
                    list: &|_| (),
                }),
                extra: ExtraTime {
                    device: Nanos(rng.random_range(0..2)),
                    ..ExtraTime::default()
                },
                iteration: rng.random::<bool>().then(Iteration::default),
                listed: step_lists.find(&steps),
                ..Task::new(WorkerId(0), &steps, &[], 1)
            };
            let before = [None, Some(CellId(0)), Some(CellId(1))][rng.random_range(0..3)];
            assert_eq!(
                times.duration(&task, before),
                Timing::duration(&mut costs, &task, before)
            );
            assert_eq!(times.demand(&task), Timing::demand(&mut costs, &task));
        }
    }

    /// Iterations follow one another, some of them at batches that have not occurred.
    #[test]
    fn repeated_iterations_start_and_take_as_long_as_others() {
        for rows in [
            "",
            "launch,1,20,0\nlaunch,8,27,0\n",
            "launch.further,8,5,0\n",
        ] {
            let costs = costs_with(rows);
            let [mut repeated, mut computed] =
                [(); 2].map(|()| TaskTimes::new(costs.clone(), &SharedList::default()));
            let mut rng = random::sequence(1, 0, "iterations");
            for at in 0..5_000 {
                let batch = rng.random_range(1..=9);
                let task = OpenTask {
                    worker: WorkerId(0),
                    stream: StreamId(0),
                    steps: smallvec![Step {
                        cell: CellId(1),
                        batch,
                        times: 1,
                        input: rng.random_range(1..12),
                    }],
                    // Another policy's batch may be one of requests.
                    batch: if rng.random_range(0..9) == 0 {
                        1
                    } else {
                        batch
                    },
                    useful_cells: batch.into(),
                    submit: Nanos::ZERO,
                    requests: SmallVec::new(),
                    iteration: Some(Iteration {
                        decodes: true,
                        ..Iteration::default()
                    }),
                    listed: None,
                };
                let task = task.only_decodes().expect("sequences only decode");
                let before = Some(task.step.cell);
                let expected = (
                    computed.start(&task.as_task(), Nanos(at), true),
                    task_time(&costs, &task.as_task(), before),
                );
                if rng.random_range(0..3) == 0 {
                    repeated.start(&task.as_task(), Nanos(at), true);
                    repeated.duration(&task.as_task(), before);
                } else {
                    assert_eq!(repeated.decode(&task, Nanos(at)), expected);
                }
            }
        }
    }

    #[test]
    fn large_batches_and_inputs_are_not_kept() {
        let mut lists = StepLists::default();
        let mut known = KnownTasks::default();
        let mut is_kept = |batch, input| {
            let steps = [Step {
                cell: CellId(0),
                batch,
                times: 1,
                input,
            }; 4];
            let task = Task {
                listed: lists.find(&steps),
                ..Task::new(WorkerId(0), &steps, &[], 1)
            };
            known.result(&task).is_some()
        };
        assert!(is_kept(8, 5));
        assert!(is_kept(1024, 1024));
        assert!(!is_kept(1025, 5));
        assert!(!is_kept(8, 1025));
    }
}
