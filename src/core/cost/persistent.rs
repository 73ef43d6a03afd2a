//! The time of a persistent kernel's launch: as measured, or by GRNN's performance model.

use std::ops::RangeInclusive;

use super::curve::{Best, Curve, preferred_batch};
use super::grnn;
use crate::base::units::Nanos;

/// The persistent kernels of a model's only cell, by the source of their times.
#[derive(Clone, Debug)]
pub enum PersistentKernels {
    /// The rows of a cost table. A batch too large for one kernel was measured as a whole.
    Measured {
        step: Curve,
        /// A launch without its steps, but with gathering the states and writing them back.
        launch: Curve,
    },
    /// Times by a device file, without those of states: tasks pay for them separately.
    Modelled(grnn::PersistentTimes),
}

impl PersistentKernels {
    /// The time of a launch of these steps.
    pub fn runs(&self, batch: u32, steps: u32) -> Nanos {
        match self {
            PersistentKernels::Measured { step, launch } => launch
                .time(batch)
                .saturating_add(step.time(batch).saturating_mul(steps.into())),
            PersistentKernels::Modelled(kernels) => kernels.runs(batch, steps),
        }
    }

    /// Whether the launch gathers the states and writes them back.
    pub fn moves_states(&self) -> bool {
        matches!(self, PersistentKernels::Measured { .. })
    }

    pub fn preferred_batch(&self) -> u32 {
        preferred_batch(|batch| self.runs(batch, 1))
    }

    /// The least times of a step in batches up to `largest` and the largest measured one, without the launch.
    pub fn best(&self, largest: u32) -> Best {
        match self {
            PersistentKernels::Measured { step, .. } => step.best(largest),
            PersistentKernels::Modelled(kernels) => kernels.best(largest),
        }
    }

    /// The batches whose steps and launches were measured; modelled times have no limits.
    pub fn measured_batches(&self) -> RangeInclusive<u32> {
        match self {
            PersistentKernels::Measured { step, launch } => {
                let steps = step.measured_batches();
                let launches = launch.measured_batches();
                *steps.start().max(launches.start())..=*steps.end().min(launches.end())
            }
            PersistentKernels::Modelled(_) => 1..=u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::units::{CellId, Share, WorkerId};
    use crate::core::cost::table::{CostTable, Overhead, TableCosts};
    use crate::core::cost::timing::Timing;
    use crate::core::cost::{CostModel as _, MemberKind};
    use crate::core::task::{Members, Step, Task};
    use crate::core::workload::model::Model;

    const ROWS: &str = "cell,batch,ns\nlstm,1,50\nlstm,8,99\nlstm.whole,1,40\nwhole,1,1000\ngather,1,2000\ntask,1,7\ntask,8,7\n";
    const LAUNCHES: &str = "lstm.persistent,1,10\nlstm.persistent,4,13\nlstm.persistent.launch,2,100\nlstm.persistent.launch,8,130\n";

    fn table(rows: &str) -> CostTable {
        CostTable::parse(rows, "t.csv").unwrap()
    }

    fn device(rows: &str) -> TableCosts {
        let table = table(rows);
        let times = table.persistent("lstm").unwrap().unwrap();
        let table = table.with_persistent(Arc::new(times), "lstm");
        table
            .costs_for(&Model::Lstm.cell_types(), Overhead::default())
            .unwrap()
    }

    fn duration(device: &mut TableCosts, steps: &[(u32, u32)], members: Members<'_>) -> u64 {
        let step = |(batch, times): &(u32, u32)| Step {
            cell: CellId(0),
            batch: *batch,
            times: *times,
            input: 0,
        };
        let steps: Vec<Step> = steps.iter().map(step).collect();
        let task = Task::whole_requests(WorkerId(0), &steps, &[], 1);
        device
            .duration(
                &Task {
                    members,
                    gather: true,
                    batch: steps[0].batch,
                    ..task
                },
                Some(CellId(0)),
            )
            .0
    }

    #[test]
    fn tasks_of_several_steps_take_what_the_rows_say_and_single_steps_do_not() {
        let mut device = device(&format!("{ROWS}{LAUNCHES}"));
        let parts = Members::Parts(&|_| ());
        // 10 to 14 per step, 100 to 115 per launch; no separate gather.
        assert_eq!(duration(&mut device, &[(1, 3)], parts), 100 + 3 * 10 + 7);
        assert_eq!(duration(&mut device, &[(3, 20)], parts), 105 + 20 * 12 + 7);
        assert_eq!(
            duration(&mut device, &[(5, 1)], Members::Requests),
            115 + 14 + 7
        );
        assert_eq!(
            duration(&mut device, &[(4, 6), (2, 1), (1, 2)], Members::Requests),
            110 + 78 + 100 + 11 + 120 + 7
        );
        assert_eq!(
            duration(&mut device, &[(1, 1)], Members::Nodes(&|_| ())),
            50 + 2000 + 7
        );
        let step = Step {
            cell: CellId(0),
            batch: 1,
            times: 2,
            input: 0,
        };
        let task = Task::whole_requests(WorkerId(0), std::slice::from_ref(&step), &[], 1);
        assert_eq!(
            Timing::demand(&mut device, &task),
            Share::WHOLE,
            "its blocks are all there is"
        );
        let forever = device_of_endless_steps();
        assert_eq!(forever.runs(&step, MemberKind::Parts).time, Nanos::MAX);
    }

    fn device_of_endless_steps() -> TableCosts {
        device(&format!(
            "{ROWS}lstm.persistent,1,{}\nlstm.persistent.launch,1,1\n",
            u64::MAX
        ))
    }

    #[test]
    fn bounds_and_what_was_measured_are_those_of_the_rows() {
        let device = device(&format!("{ROWS}{LAUNCHES}"));
        let best = device.best(CellId(0), 0, 2);
        assert_eq!(
            best,
            Best {
                time: Nanos(10),
                share_ns: 13.0 / 4.0
            },
            "up to the largest of the rows"
        );
        assert_eq!(device.best(CellId(0), 0, 13).share_ns, 22.0 / 13.0);
        assert_eq!(
            (
                device.measured_batches(CellId(0)),
                device.measured_of_several_steps(CellId(0))
            ),
            (1..=8, 2..=4)
        );
        assert_eq!(
            device.preferred_batch(CellId(0), 0),
            Some(8),
            "that of single steps"
        );
    }

    #[test]
    fn a_cell_without_rows_is_launched_for_each_step() {
        let mut device = device(&format!("cell,batch,ns\n{LAUNCHES}"));
        assert_eq!(
            device.cell(&Step {
                cell: CellId(0),
                batch: 2,
                times: 5,
                input: 0
            }),
            Nanos(111)
        );
        assert_eq!(
            duration(&mut device, &[(2, 1)], Members::Nodes(&|_| ())),
            111
        );
        assert_eq!(device.measured_batches(CellId(0)), 2..=4);
        let other = table(&format!("cell,batch,ns\n{LAUNCHES}"));
        let refused = other
            .costs_for(&Model::Lstm.cell_types(), Overhead::default())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("no rows for the cell \"lstm\""),
            "such rows are not a cell: {refused}"
        );
    }

    #[test]
    fn rows_mean_nothing_without_such_kernels_and_neither_does_one_of_the_two_alone() {
        let of = |rows: &str| {
            table(rows)
                .persistent("lstm")
                .map_err(|error| error.to_string())
        };
        assert!(of(ROWS).unwrap().is_none() && table(ROWS).persistent("gru").unwrap().is_none());
        let mut without = table(&format!("{ROWS}{LAUNCHES}"))
            .costs_for(&Model::Lstm.cell_types(), Overhead::default())
            .unwrap();
        assert_eq!(
            duration(&mut without, &[(1, 3)], Members::Parts(&|_| ())),
            3 * 50 + 2000 + 7
        );
        let missing = |rows: &str, there: &str, missing: &str| {
            let says = format!(
                "t.csv: rows for \"{there}\" but none for \"{missing}\"; a launch is the sum of both"
            );
            let error = of(&format!("{ROWS}{rows}")).unwrap_err();
            assert!(error.starts_with(&says), "{error}");
        };
        missing(
            "lstm.persistent,1,10\n",
            "lstm.persistent",
            "lstm.persistent.launch",
        );
        missing(
            "lstm.persistent.launch,1,10\n",
            "lstm.persistent.launch",
            "lstm.persistent",
        );
    }
}
