//! The times and demands of tasks that run the same operators again and again: a stage of a network, or all of it. The
//! steps of such tasks differ only in their batch and input, so a small table has the results.

use super::MemberKind;
use crate::base::units::{CellId, Nanos, Share};
use crate::core::task::{ExtraTime, Step, Task};

/// Lists of fewer steps are computed as quickly as they are found.
const FEWEST_STEPS: usize = 4;
/// The largest number of lists. Policies with more have tasks that seldom repeat.
const MOST_LISTS: usize = 64;
/// The largest batch and the largest input whose results are kept.
const MOST_KEPT: u32 = 1024;

/// The results for the lists of steps that have occurred.
#[derive(Default)]
pub struct KnownTasks {
    lists: Vec<KnownList>,
}

/// A list of steps, which all have one batch. Those that take an input have the same one.
struct KnownList {
    members: MemberKind,
    /// The steps for a batch of 1 and an input of 1.
    steps: Box<[Step]>,
    /// The place of the first step that takes an input.
    sized: Option<usize>,
    /// The results by input and batch.
    results: Vec<Vec<TaskResult>>,
}

/// What is known of a list of steps at one batch and input.
#[derive(Clone, Copy, Default)]
pub struct TaskResult {
    /// The time after a step of this cell type.
    time: Option<(Option<CellId>, Nanos)>,
    demand: Option<Share>,
}

impl KnownTasks {
    /// The results for the steps of a task, or `None` if they are not kept.
    pub fn result(&mut self, task: &Task<'_>) -> Option<&mut TaskResult> {
        let steps = task.steps;
        if steps.len() < FEWEST_STEPS || steps[0].batch > MOST_KEPT {
            return None;
        }
        let members = MemberKind::from_members(&task.members);
        let known = self
            .lists
            .iter()
            .position(|list| list.members == members && list.has(steps));
        let place = match known {
            Some(place) => place,
            None if self.lists.len() < MOST_LISTS => {
                self.lists.push(KnownList::new(members, steps)?);
                self.lists.len() - 1
            }
            None => return None,
        };
        self.lists[place].result(steps)
    }
}

impl KnownList {
    /// The list of steps that have one batch and one input, or `None` for other steps.
    fn new(members: MemberKind, steps: &[Step]) -> Option<KnownList> {
        let batch = steps[0].batch;
        let sized = steps.iter().position(|step| step.input > 0);
        let input = sized.map_or(0, |place| steps[place].input);
        let is_uniform = |step: &Step| step.batch == batch && [0, input].contains(&step.input);
        if !steps.iter().all(is_uniform) {
            return None;
        }
        let unit = |step: &Step| Step {
            batch: 1,
            input: u32::from(step.input > 0),
            ..*step
        };
        Some(KnownList {
            members,
            steps: steps.iter().map(unit).collect(),
            sized,
            results: Vec::new(),
        })
    }

    /// Whether these are the steps of the list at some batch and input.
    fn has(&self, steps: &[Step]) -> bool {
        if self.steps.len() != steps.len() {
            return false;
        }
        let batch = steps[0].batch;
        let input = self.input(steps);
        self.steps.iter().zip(steps).all(|(unit, step)| {
            let expected = Step {
                batch,
                input: unit.input * input,
                ..*unit
            };
            *step == expected
        })
    }

    /// The input of the steps that take one; 0 if none does.
    fn input(&self, steps: &[Step]) -> u32 {
        self.sized.map_or(0, |place| steps[place].input)
    }

    /// The results at the steps' batch and input, unless the input is too large.
    fn result(&mut self, steps: &[Step]) -> Option<&mut TaskResult> {
        let input = self.input(steps);
        if input > MOST_KEPT {
            return None;
        }
        let input = input as usize;
        if self.results.len() <= input {
            self.results.resize_with(input + 1, Vec::new);
        }
        let by_batch = &mut self.results[input];
        let batch = steps[0].batch as usize;
        if by_batch.len() <= batch {
            by_batch.resize(batch + 1, TaskResult::default());
        }
        Some(&mut by_batch[batch])
    }
}

impl TaskResult {
    /// The time of a task after a step of another cell type, which is computed if it is not known.
    pub fn time(
        &mut self,
        task: &Task<'_>,
        before: Option<CellId>,
        compute: impl FnOnce() -> Nanos,
    ) -> Nanos {
        let is_plain = task.batch == task.steps[0].batch
            && task.extra == ExtraTime::default()
            && !task.gather
            && task.joined.is_none();
        match self.time {
            _ if !is_plain => compute(),
            Some((known, time)) if known == before => time,
            _ => {
                let time = compute();
                self.time = Some((before, time));
                time
            }
        }
    }

    /// The demand of a task, which is computed if it is not known.
    pub fn demand(&mut self, compute: impl FnOnce() -> Share) -> Share {
        *self.demand.get_or_insert_with(compute)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::base::units::WorkerId;
    use crate::core::cost::table::{CostTable, Overhead, TableCosts};
    use crate::core::cost::task_times::TaskTimes;
    use crate::core::cost::timing::Timing;
    use crate::core::task::{Joined, Members};
    use crate::core::workload::model::Model;
    use crate::core::workload::random;
    use crate::core::workload::shared_list::SharedList;

    /// Costs that depend on all that a task has: batch, input, kind of members, the cell before, gathering, joining.
    fn costs() -> TableCosts {
        let rows = "cell,batch,ns,input\ndecoder,1,10,0\ndecoder,8,30,0\nencoder,1,70,1\nencoder,4,200,9\nencoder,8,210,9\n\
                    decoder.switch,1,5,0\nencoder.switch,1,11,0\ntask,1,100,0\ntask,8,108,0\ngather,1,31,0\ngather,8,38,0\n\
                    change,1,3,0\nwhole,1,1,0\nwhole,8,8,0\nencoder.whole,1,60,1\nencoder.whole,8,190,9\n";
        CostTable::parse(rows, "costs")
            .unwrap()
            .costs_for(&Model::Seq2Seq.cell_types(), Overhead::default())
            .unwrap()
    }

    /// Tasks of few lists repeat in random order, with steps that do not fit a list among them.
    #[test]
    fn known_times_and_demands_are_those_that_are_computed() {
        let mut costs = costs();
        let mut times = TaskTimes::new(costs.clone(), &SharedList::default());
        let mut rng = random::sequence(1, 0, "tasks");
        let lists: Vec<Vec<(u16, u32, bool)>> = (0..6)
            .map(|list| {
                (0..list + 2)
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

    #[test]
    fn what_seldom_repeats_is_not_kept() {
        let mut known = KnownTasks::default();
        let mut kept = |steps: &[Step]| {
            let task = Task::new(WorkerId(0), steps, &[], 1);
            known.result(&task).is_some()
        };
        let step = |cell, batch, input| Step {
            cell: CellId(cell),
            batch,
            times: 1,
            input,
        };
        assert!(kept(&[step(0, 8, 5); 4]));
        assert!(!kept(&[step(0, 8, 5); 3]), "a short list");
        assert!(!kept(&[step(0, 1025, 5); 4]), "a large batch");
        assert!(!kept(&[step(0, 8, 1025); 4]), "a large input");
        let [first, second] = [step(0, 8, 5), step(0, 8, 4)];
        assert!(!kept(&[first, first, first, second]), "two inputs");
        assert!(!kept(&[first, first, first, step(0, 7, 5)]), "two batches");
        for cell in 1..64 {
            assert!(kept(&[step(cell, 8, 5); 4]));
        }
        assert!(!kept(&[step(64, 8, 5); 4]), "the 65th list");
        assert!(kept(&[step(63, 9, 6); 4]));
    }
}
