use std::iter::Sum;
use std::time::Duration;

use smallvec::SmallVec;

use super::options::RecordOptions;
use crate::base::grow::grow;
use crate::base::units::{CellId, Nanos, TaskId, WorkerId};
use crate::core::task::{
    Completion, ListedSteps, OpenTask, Reason, Round, Step, TaskRow, distinct_cells,
};

/// What the workers executed and how the policy was called: the part of a record that does not depend on requests.
#[derive(Debug, Default)]
pub struct Execution {
    pub(super) options: RecordOptions,
    /// The number of cell types. Steps with higher numbers are operators.
    cells: usize,
    /// The events so far at the present instant.
    pub(super) this_round: Round,
    /// The intervals in which each worker was busy since it last had no task: disjoint, ascending.
    spans: Vec<Vec<(Nanos, Nanos)>>,
    /// The rounds in order, if they are kept.
    pub rounds: Vec<Round>,
    /// The tasks in the order in which the policy learned of their completion, if rounds are kept.
    pub reported: Vec<TaskId>,
    /// The tasks in the order of submission, if they are kept.
    pub tasks: Vec<TaskRow>,
    /// The reasons of tasks, if they are kept and the policy gives reasons.
    pub reasons: Vec<(TaskId, Reason)>,
    pub task_count: u64,
    /// The sum of all tasks' batch sizes.
    pub batch_sum: u64,
    /// The number of executions of each cell type at each batch size, but for those in `lists`.
    pub(crate) unlisted: Vec<Vec<u64>>,
    /// The tasks whose steps recur in a list, by list.
    lists: Vec<Option<ListRuns>>,
    /// The number of executed cells, including padding. A cell with an input of n tokens counts n times; operators
    /// count the cells that they belong to.
    pub executed_cells: u64,
    /// The number of executed cells without padding.
    pub useful_cells: u64,
    /// The time in which each worker ran at least one task.
    pub busy: Vec<Nanos>,
    /// The latest end of a task.
    pub end: Nanos,
    /// The time after the last arrival in which no task ran and some later task was still to come.
    pub idle_tail: Nanos,
    /// The latest instant at which requests arrived.
    last_arrival: Nanos,
    /// Measurements of host time, which are never part of a reproducible result.
    pub decisions: Decisions,
}

/// The calls of the policy that submitted a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decisions {
    pub calls: u64,
    pub tasks: u64,
    pub timed: TimedDecisions,
}

/// The decisions whose host time was taken, with their tasks and their time. Where only every 17th decision is timed,
/// it counts 17 times.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimedDecisions {
    pub calls: u64,
    pub tasks: u64,
    pub time: Duration,
}

/// The number of decisions at the start of a run that are all timed.
const ALL_TIMED: u64 = 256;
/// A later decision is timed if its number is a multiple of this. It is a prime: workers take turns, and a power of two
/// would often meet the same one.
const TIMED_EACH: u32 = 17;

impl Decisions {
    /// The mean host time of a decision in nanoseconds, or `None` without decisions.
    pub fn ns_per_call(&self) -> Option<f64> {
        self.timed.mean_ns(self.timed.calls)
    }

    /// The mean host time of a task's decision in nanoseconds, or `None` without decisions.
    pub fn ns_per_task(&self) -> Option<f64> {
        self.timed.mean_ns(self.timed.tasks)
    }
}

impl TimedDecisions {
    fn mean_ns(&self, count: u64) -> Option<f64> {
        if count == 0 {
            return None;
        }
        Some(self.time.as_nanos() as f64 / count as f64)
    }
}

/// The tasks that ran a list of steps.
#[derive(Debug)]
struct ListRuns {
    steps: Vec<Step>,
    /// The cell types of the steps.
    cells: SmallVec<[CellId; 2]>,
    has_operators: bool,
    /// The runs of all steps that take no input.
    unsized_runs: u64,
    /// The runs of all steps that take an input.
    sized_runs: u64,
    /// The number of tasks at each batch size.
    tasks: Vec<u64>,
}

impl ListRuns {
    /// The list of these steps, which has not run. Operators follow the `cells` cell types.
    fn new(steps: &[Step], cells: usize) -> ListRuns {
        let runs = |is_sized: bool| {
            let steps = steps.iter().filter(|step| (step.input > 0) == is_sized);
            steps.map(|step| u64::from(step.times)).sum()
        };
        ListRuns {
            steps: steps.to_vec(),
            cells: distinct_cells(steps),
            has_operators: steps.iter().any(|step| step.cell.index() >= cells),
            unsized_runs: runs(false),
            sized_runs: runs(true),
            tasks: Vec::new(),
        }
    }
}

/// Adds executions of a cell type at a batch size.
#[inline]
fn count(batches: &mut Vec<Vec<u64>>, cell: CellId, batch: u32, executions: u64) {
    *grow(grow(batches, cell.index()), batch as usize) += executions;
}

impl Sum for Decisions {
    fn sum<I: Iterator<Item = Decisions>>(iter: I) -> Decisions {
        iter.fold(Decisions::default(), |a, b| Decisions {
            calls: a.calls + b.calls,
            tasks: a.tasks + b.tasks,
            timed: TimedDecisions {
                calls: a.timed.calls + b.timed.calls,
                tasks: a.timed.tasks + b.timed.tasks,
                time: a.timed.time + b.timed.time,
            },
        })
    }
}

impl Execution {
    pub(super) fn new(workers: usize, cells: usize, options: RecordOptions) -> Execution {
        Execution {
            options,
            cells,
            spans: vec![Vec::new(); workers],
            unlisted: vec![Vec::new(); cells],
            busy: vec![Nanos::ZERO; workers],
            ..Execution::default()
        }
    }

    pub(super) fn reasons(&mut self) -> Option<&mut Vec<(TaskId, Reason)>> {
        if self.options.reasons {
            Some(&mut self.reasons)
        } else {
            None
        }
    }

    #[inline]
    pub(super) fn report(&mut self, task: TaskId) {
        self.this_round.completions += 1;
        if self.options.rounds {
            self.reported.push(task);
        }
    }

    #[inline]
    pub(super) fn end_round(&mut self, now: Nanos) {
        let round = Round {
            now,
            ..std::mem::take(&mut self.this_round)
        };
        if round.arrivals > 0 {
            self.last_arrival = now;
            self.idle_tail = Nanos::ZERO;
        }
        if self.options.rounds {
            self.rounds.push(round);
        }
    }

    /// The number of decisions that the time of the next one stands for, or `None` if its time is not taken: reading
    /// the clock takes as long as a short decision.
    pub(super) fn decision_weight(&self) -> Option<u32> {
        let calls = self.decisions.calls;
        if self.options.all_decisions || calls < ALL_TIMED {
            Some(1)
        } else if calls.is_multiple_of(TIMED_EACH.into()) {
            Some(TIMED_EACH)
        } else {
            None
        }
    }

    /// Counts a decision at this instant. Adds the idle time before it, if all earlier tasks are done. Only time after
    /// the last arrival counts.
    #[inline]
    pub(super) fn decide(&mut self, now: Nanos, time: Option<Duration>, tasks: u64) {
        if self.decisions.tasks == self.task_count {
            self.idle_tail += now.saturating_since(self.end.max(self.last_arrival));
        }
        if let (Some(time), Some(weight)) = (time, self.decision_weight()) {
            let timed = &mut self.decisions.timed;
            timed.calls += u64::from(weight);
            timed.tasks += u64::from(weight) * tasks;
            timed.time += time * weight;
        }
        self.decisions.calls += 1;
        self.decisions.tasks += tasks;
    }

    #[inline]
    pub(super) fn complete(&mut self, completion: &Completion, task: &OpenTask) {
        self.task_count += 1;
        self.batch_sum += u64::from(task.batch);
        self.useful_cells += task.useful_cells;
        self.add_busy(task.worker, completion.start, completion.finish);
        self.end = self.end.max(completion.finish);
        self.executed_cells += match (task.iteration, task.listed) {
            (Some(_), _) => self.count_tokens(task, 1),
            (None, Some(listed)) => self.count_list(listed, task),
            (None, None) => self.count_steps(task),
        };
        if self.options.tasks {
            self.keep_task(completion, task);
        }
    }

    /// Whether a worker has completed no task since it was idle.
    #[inline]
    pub(super) fn was_idle(&self, worker: WorkerId) -> bool {
        self.spans[worker.index()].is_empty()
    }

    /// Records a task in which sequences only decoded, but does not [count](Execution::count_repeats) it. Another like
    /// it was submitted at this instant to the worker, which [was idle](Execution::was_idle).
    #[inline]
    pub(super) fn repeat(&mut self, completion: &Completion, task: &OpenTask, now: Nanos) {
        let Completion { start, finish, .. } = *completion;
        self.busy[task.worker.index()] += finish - start;
        self.end = self.end.max(finish);
        self.idle_tail += now.saturating_since(self.end.max(self.last_arrival));
        if self.options.tasks {
            self.keep_task(completion, task);
        }
        if self.options.rounds {
            self.report(completion.task);
            self.end_round(now);
        }
    }

    /// Counts tasks that were repeated, and the decisions to do so. All had the batch of this one.
    pub(super) fn count_repeats(&mut self, task: &OpenTask, repeats: u64) {
        self.task_count += repeats;
        self.batch_sum += repeats * u64::from(task.batch);
        self.useful_cells += repeats * task.useful_cells;
        self.executed_cells += self.count_tokens(task, repeats);
        self.decisions.calls += repeats;
        self.decisions.tasks += repeats;
    }

    /// Counts a task whose steps are in a list. Returns its executed cells.
    fn count_list(&mut self, listed: ListedSteps, task: &OpenTask) -> u64 {
        let list = grow(&mut self.lists, listed.list.index());
        let list = list.get_or_insert_with(|| ListRuns::new(&task.steps, self.cells));
        *grow(&mut list.tasks, listed.batch as usize) += 1;
        if list.has_operators {
            return task.useful_cells;
        }
        let sized = list.sized_runs * u64::from(listed.input.max(1));
        u64::from(listed.batch) * (list.unsized_runs + sized)
    }

    /// Counts the steps of iterations like this one. Returns the tokens that they feed, each of which is an executed
    /// cell.
    #[inline]
    fn count_tokens(&mut self, task: &OpenTask, iterations: u64) -> u64 {
        let mut tokens = 0;
        for step in &task.steps {
            tokens += iterations * u64::from(step.batch);
            let runs = iterations * u64::from(step.times);
            count(&mut self.unlisted, step.cell, step.batch, runs);
        }
        tokens
    }

    /// Counts the steps of a task. Returns its executed cells.
    fn count_steps(&mut self, task: &OpenTask) -> u64 {
        let mut cells = 0;
        let mut has_operators = false;
        for step in &task.steps {
            cells += step.cells();
            has_operators |= step.cell.index() >= self.cells;
            count(&mut self.unlisted, step.cell, step.batch, step.times.into());
        }
        if has_operators {
            task.useful_cells
        } else {
            cells
        }
    }

    /// The number of executions of each cell type at each batch size. Operators follow the cell types.
    pub fn batches(&self) -> Vec<Vec<u64>> {
        let mut batches = self.unlisted.clone();
        for list in self.lists.iter().flatten() {
            for step in &list.steps {
                for (batch, tasks) in (0..).zip(&list.tasks) {
                    if *tasks > 0 {
                        count(
                            &mut batches,
                            step.cell,
                            batch,
                            tasks * u64::from(step.times),
                        );
                    }
                }
            }
        }
        batches
    }

    /// Adds the time of a task to its worker's, unless tasks of other streams ran at that time.
    #[inline]
    fn add_busy(&mut self, worker: WorkerId, start: Nanos, finish: Nanos) {
        let spans = &mut self.spans[worker.index()];
        if spans.is_empty() {
            spans.push((start, finish));
            self.busy[worker.index()] += finish - start;
        } else {
            self.merge_span(worker, start, finish);
        }
    }

    /// Adds the time of a task to that of others since their worker was last idle.
    fn merge_span(&mut self, worker: WorkerId, start: Nanos, finish: Nanos) {
        let spans = &mut self.spans[worker.index()];
        let busy = &mut self.busy[worker.index()];
        let first = spans.partition_point(|span| span.1 < start);
        let touched = spans[first..].partition_point(|span| span.0 <= finish);
        if touched == 0 {
            spans.insert(first, (start, finish));
            *busy += finish - start;
            return;
        }
        // The task and all spans that it touches become one.
        let known: Nanos = spans[first..first + touched]
            .iter()
            .map(|span| span.1 - span.0)
            .sum();
        let last = spans[first + touched - 1];
        let merged = (start.min(spans[first].0), finish.max(last.1));
        spans[first] = merged;
        spans.drain(first + 1..first + touched);
        *busy += (merged.1 - merged.0) - known;
    }

    /// Forgets the spans of a worker without tasks, because all its later tasks start after them.
    #[inline]
    pub(super) fn idle(&mut self, worker: WorkerId) {
        self.spans[worker.index()].clear();
    }

    /// The distinct cell types of a task's steps.
    fn distinct_cells(&self, task: &OpenTask) -> SmallVec<[CellId; 2]> {
        let list = task.listed.map(|listed| listed.list.index());
        match list.and_then(|list| self.lists.get(list)?.as_ref()) {
            Some(list) => list.cells.clone(),
            None => distinct_cells(&task.steps),
        }
    }

    fn keep_task(&mut self, completion: &Completion, task: &OpenTask) {
        let row = TaskRow {
            task: completion.task,
            worker: task.worker,
            stream: task.stream,
            cells: self.distinct_cells(task),
            batch: task.batch,
            submit: task.submit,
            start: completion.start,
            finish: completion.finish,
        };
        // Tasks of several workers complete out of order; the log is in the order of submission.
        let place = self
            .tasks
            .iter()
            .rposition(|other| other.task < row.task)
            .map_or(0, |before| before + 1);
        self.tasks.insert(place, row);
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::base::units::StreamId;
    use crate::core::task::step_lists::StepLists;
    use crate::core::workload::random;

    /// The busy time of a worker whose tasks run in these spans.
    fn busy(spans: &[(u64, u64)]) -> u64 {
        let mut execution = Execution::new(1, 1, RecordOptions::default());
        for (start, finish) in spans {
            execution.add_busy(WorkerId(0), Nanos(*start), Nanos(*finish));
        }
        execution.busy[0].0
    }

    #[test]
    fn each_17th_decision_counts_17_times() {
        for all_decisions in [false, true] {
            let options = RecordOptions {
                all_decisions,
                ..RecordOptions::default()
            };
            let mut execution = Execution::new(1, 1, options);
            let mut taken = 0;
            for _ in 0..1_000 {
                let is_timed = execution.decision_weight().is_some();
                taken += u64::from(is_timed);
                execution.decide(Nanos::ZERO, is_timed.then_some(Duration::from_nanos(70)), 2);
            }
            let Decisions {
                calls,
                tasks,
                timed,
            } = execution.decisions;
            assert_eq!((calls, tasks), (1_000, 2_000));
            // The first 256, and then 43: the numbers 272 to 986.
            let expected = if all_decisions {
                (1_000, 1_000)
            } else {
                (299, 987)
            };
            assert_eq!((taken, timed.calls), expected);
            assert_eq!(timed.tasks, 2 * timed.calls);
            assert_eq!(execution.decisions.ns_per_call(), Some(70.0));
            assert_eq!(execution.decisions.ns_per_task(), Some(35.0));
        }
        assert_eq!(Decisions::default().ns_per_call(), None);
    }

    /// Tasks whose steps are in lists count as tasks whose steps are gone through.
    #[test]
    fn tasks_of_lists_count_like_others() {
        let options = RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        };
        let mut rng = random::sequence(1, 0, "lists");
        let mut lists = StepLists::default();
        let [mut with_lists, mut without] = [(); 2].map(|()| Execution::new(1, 3, options));
        for id in 0..500 {
            // Some lists have the operator 3, and inputs of 0 occur.
            let list = rng.random_range(0..5);
            let (batch, input) = (rng.random_range(1..9), rng.random_range(0..4));
            let steps: Vec<Step> = (0..=list)
                .map(|place| Step {
                    cell: CellId((place * list) % 4),
                    batch,
                    times: u32::from(place) + 1,
                    input: u32::from(place % 2) * input,
                })
                .collect();
            let completion = Completion {
                task: TaskId(id),
                start: Nanos(id),
                finish: Nanos(id + 1),
            };
            let listed = lists.find(&steps);
            assert_eq!(listed.is_some(), steps.len() >= 4);
            let mut task = OpenTask {
                worker: WorkerId(0),
                stream: StreamId(0),
                steps: steps.into(),
                batch,
                useful_cells: 7,
                submit: Nanos(id),
                requests: SmallVec::new(),
                iteration: None,
                listed,
            };
            with_lists.complete(&completion, &task);
            task.listed = None;
            without.complete(&completion, &task);
        }
        assert_eq!(with_lists.batches(), without.batches());
        assert_eq!(with_lists.executed_cells, without.executed_cells);
        assert_eq!(with_lists.tasks, without.tasks);
    }

    #[test]
    fn a_worker_is_busy_while_at_least_one_task_runs() {
        assert_eq!(busy(&[(1, 3), (3, 4), (6, 9)]), 6);
        assert_eq!(busy(&[(2, 5), (1, 7), (4, 9)]), 8);
        assert_eq!(busy(&[(5, 6), (8, 9), (12, 12), (0, 10)]), 10);
        // These tasks do not come in the order of their finishes.
        assert_eq!(busy(&[(10, 12), (3, 5), (4, 11)]), 9);

        let mut rng = random::sequence(1, 0, "spans");
        for _ in 0..200 {
            let mut spans = Vec::new();
            for _ in 0..12 {
                let start = rng.random_range(0..40);
                spans.push((start, start + rng.random_range(0..9)));
            }
            let covered = (0..50)
                .filter(|at| {
                    spans
                        .iter()
                        .any(|(start, finish)| start <= at && at < finish)
                })
                .count();
            assert_eq!(busy(&spans), covered as u64, "{spans:?}");
        }
    }
}
