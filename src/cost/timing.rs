//! When a simulated task begins, how long it takes, and when that is told.

use super::CostModel;
use crate::task::{Members, Step, Task};
use crate::units::{CellId, Nanos, Share};

/// What the simulated backend asks of its device, once for each task and in the order of submission. Every [`CostModel`]
/// answers, always in the same way; what was recorded of a real device can answer too.
pub trait Timing {
    /// When a task can begin that is submitted at one instant; `idle` says that its stream has nothing left to do then.
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start;

    /// How long it takes alone, behind a cell of the type `before` on its stream; `None` for the stream's first task.
    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos;

    /// How much of its worker's device it can use, at most all of it. Asked only where tasks run beside each other.
    fn demand(&mut self, _: &Task<'_>) -> Share {
        Share::WHOLE
    }

    /// See [`Backend::batches`](crate::backend::Backend::batches).
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// How long after its finish the driver is told.
    fn notice(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

/// When a task can begin, which is known before the end of the task in front of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Not before this instant, which is not before the submission.
    pub earliest: Nanos,
    /// Not before so long after the end of the task in front of it.
    pub gap: Nanos,
}

impl Start {
    /// The instant, on a stream that is free from then on.
    pub fn at(self, free: Nanos) -> Nanos {
        self.earliest.max(free.saturating_add(self.gap))
    }
}

/// What the members of a task are, as far as its time depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// Single nodes.
    Nodes,
    /// Parts of requests.
    Parts,
    /// Whole requests.
    Requests,
}

impl Of {
    /// What they are.
    pub fn members(members: &Members<'_>) -> Of {
        match members {
            Members::Nodes(_) => Of::Nodes,
            Members::Parts(_) => Of::Parts,
            Members::Requests => Of::Requests,
        }
    }

    /// What all runs of a step take in such a task, and whether they are one launch that stays on the device.
    pub fn runs(self, costs: &(impl CostModel + ?Sized), step: &Step) -> (Nanos, bool) {
        let one = match self {
            Of::Requests => CostModel::cell_of_whole,
            Of::Nodes | Of::Parts => CostModel::cell,
        };
        match costs.persistent(step).filter(|_| self != Of::Nodes) {
            Some(launch) => (launch, true),
            None => (one(costs, step).saturating_mul(u64::from(step.times)), false),
        }
    }
}

/// The mean of the demands of steps in a task of these members, each for the time that the step takes, rounded up. A kernel that stays on the
/// device has all of it.
pub fn mean_demand<'s>(
    costs: &(impl CostModel + ?Sized),
    steps: impl IntoIterator<Item = &'s Step>,
    members: Of,
) -> Share {
    let (mut used, mut time) = (0, 0);
    for step in steps {
        let (took, stays) = members.runs(costs, step);
        let demand = if stays { Share::WHOLE } else { costs.demand(step).min(Share::WHOLE) };
        used += u128::from(took.0) * u128::from(demand.0);
        time += u128::from(took.0);
    }
    // No more than the largest demand, which is a u64. Steps without any time use next to nothing.
    Share((used.div_ceil(time.max(1)) as u64).max(1))
}

impl<C: CostModel> Timing for C {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, _: bool) -> Start {
        let earliest = submit.saturating_add(task.host.ahead).saturating_add(self.launch(task.batch));
        Start { earliest, gap: Nanos::ZERO }
    }

    /// The mean of its steps' demands, each for the time that the step takes, rounded up. What a task takes beside its steps uses as much
    /// as these do.
    fn demand(&mut self, task: &Task<'_>) -> Share {
        mean_demand(self, task.steps, Of::members(&task.members))
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        CostModel::batches(self, cell)
    }

    fn duration(&mut self, task: &Task<'_>, mut before: Option<CellId>) -> Nanos {
        let members = Of::members(&task.members);
        let whole = members == Of::Requests;
        let moves_states = members != Of::Nodes && task.steps.iter().any(|step| self.moves_states(step.cell));
        // Behind another cell states go back to their requests anyway. So a task that gathers as well pays what is more.
        let mut gather = if task.gather && !moves_states { self.gather(task.batch) } else { Nanos::ZERO };
        let mut cells = if whole && !moves_states { self.whole(task.batch) } else { Nanos::ZERO };
        for step in task.steps {
            if before.replace(step.cell).is_some_and(|before| before != step.cell) {
                let switch = if whole { self.switch_of_whole(step) } else { self.switch(step) };
                cells = cells.saturating_add(switch.max(gather));
                gather = Nanos::ZERO;
            }
            cells = cells.saturating_add(members.runs(self, step).0);
        }
        for copies in task.fold_loop.copies {
            cells = cells.saturating_add(self.copy(copies.rows).saturating_mul(u64::from(copies.times)));
        }
        cells = cells.saturating_add(self.empty_call().saturating_mul(task.fold_loop.empty_calls));
        cells.saturating_add(gather).saturating_add(self.task(task.batch)).saturating_add(task.host.during)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::table::{CostTable, Overhead};
    use crate::units::WorkerId;
    use crate::workload::model::Model;

    #[test]
    fn a_task_demands_the_mean_of_its_steps_for_their_time() {
        // Batches of 4 fill the device with the first cell, and of 2 with the other.
        let rows =
            "cell,batch,ns\ndecoder,4,10\ndecoder,8,20\nencoder,2,100\nencoder,4,200\nencoder.whole,1,0\ntask,1,999\n";
        let table = CostTable::parse(rows, "costs").unwrap();
        let mut model = table.device(&Model::Seq2Seq.cell_types(), Overhead::default()).unwrap();
        let decoder = |batch, times| Step { cell: CellId(0), batch, times, input: 0 };
        let encoder = |batch, times| Step { cell: CellId(1), batch, times, input: 0 };
        let mut demand = |steps: &[Step], members: Members<'_>| {
            let task = Task::whole_requests(WorkerId(0), steps, &[], 1);
            Timing::demand(&mut model, &Task { members, ..task }).0
        };
        let quarter = Share::WHOLE.0 / 4;
        let nodes = Members::Nodes(&|_| ());
        assert_eq!(demand(&[decoder(1, 1)], nodes), quarter);
        assert_eq!(demand(&[decoder(3, 1)], nodes), 3 * quarter);
        assert_eq!(demand(&[decoder(5, 1)], nodes), 4 * quarter);
        // A quarter for 10 · 10 ns and the half for 100 ns; for 20 ns and 100 ns; of the latter the third part is rounded up.
        assert_eq!(demand(&[decoder(1, 10), encoder(1, 1)], nodes), (quarter + 2 * quarter) / 2);
        assert_eq!(demand(&[decoder(1, 2), encoder(1, 1)], nodes), (20 * quarter + 100 * 2 * quarter).div_ceil(120));
        // Among whole requests the encoder takes no time.
        assert_eq!(demand(&[decoder(1, 10), encoder(1, 1)], Members::Requests), quarter);
        assert_eq!(demand(&[encoder(1, 1)], Members::Requests), 1);
    }
}
