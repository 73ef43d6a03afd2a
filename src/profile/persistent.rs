//! Launches of persistent kernels: tasks of parts of chains, as policies with chunks submit them, in two lengths.
//!
//! Two lengths tell what a step takes and what the launch does beside its steps: bringing states and words together, the product of all inputs,
//! giving states back, and what the host does for each of these. A launch does all of this whoever its members are, so that those of a flight stay.
//! Times are from start to finish, as for all other tasks: what lies between two tasks has rows of its own.

use super::flights::Runway;
use super::{Profile, Samples, Subject, id_of, unfolded};
use crate::error::Result;
use crate::task::{MemberList, Part, Step};
use crate::units::{CellId, Nanos, NodeId, RequestId};
use crate::workload::shape::{MAX_LENGTH, Shape};

/// The steps of the two kinds of tasks: a short chunk, and a sentence.
pub const STEPS: [u32; 2] = [4, 32];

/// The tasks of a flight.
const FLIGHT: usize = 32;

/// The flights of each kind at a batch size, in each repeat.
const FLIGHTS: u32 = 3;

/// What was measured of one cell at one batch size: tasks of so many steps as `STEPS` says.
#[derive(Debug, Default)]
pub struct Launches([Samples; 2]);

impl Launches {
    /// A step inside of a launch, with its spread: what the longer tasks take more, shared among the steps that they have more. No more than
    /// its share of the longer task, so that nothing is left below zero for the launch.
    pub fn step(&self) -> (Nanos, f64) {
        let [short, long] = STEPS.map(u64::from);
        let [one, other] = [0, 1].map(|kind| self.0[kind].median());
        let each = |time: Nanos, steps: u64| (time.0 + steps / 2) / steps;
        let step = each(other.saturating_since(one), long - short).min(other.0 / long);
        let [one, other] = [0, 1].map(|kind| self.0[kind].deviation());
        (Nanos(step), one.hypot(other) / (long - short) as f64)
    }

    /// What a launch takes beside its steps, with its spread.
    pub fn launch(&self) -> (Nanos, f64) {
        let (step, spread) = self.step();
        let short = u64::from(STEPS[0]);
        let launch = self.0[0].median().saturating_since(Nanos(step.0 * short));
        (launch, self.0[0].deviation().hypot(spread * short as f64))
    }

    /// All samples, those of each length together.
    pub fn samples(&self) -> impl Iterator<Item = &Samples> {
        self.0.iter()
    }
}

/// Measures each batch size once on fresh requests.
///
/// # Errors
/// As [`super::measure`].
pub fn measure(
    subject: &mut Subject<'_>,
    batches: &[u32],
    profile: &mut Profile,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Subject { wanted, settings, .. } = *subject;
    let (workers, seen) = (settings.workers, subject.engine.times_are_seen());
    let largest = settings.largest() as usize;
    for cell in &wanted.cells {
        let requests = unfolded(vec![Shape::Chain(MAX_LENGTH); workers * largest], &wanted.model)?;
        // Kernels are made when they are met, since there is one for each batch; those of the sizes between would be made for nothing.
        let mut runway = Runway::new(subject.start(&requests, 0)?, workers, seen);
        let mut chains = Chains { cell: id_of(&wanted.model, cell), next: vec![0; requests.len()], largest };
        for &batch in batches {
            for steps in STEPS.into_iter().rev() {
                runway.fly(1, |_, worker| chains.task(worker, batch, steps))?;
            }
            for _ in 0..FLIGHTS {
                for (kind, steps) in STEPS.into_iter().enumerate() {
                    let flown = runway.fly(FLIGHT, |_, worker| chains.task(worker, batch, steps))?;
                    let launches = profile.persistent.entry(cell.clone()).or_default().entry(batch).or_default();
                    flown.durations().into_iter().for_each(|time| launches.0[kind].add(time));
                }
            }
            go_on()?;
        }
    }
    Ok(())
}

/// The chains of each worker, none of which ends.
struct Chains {
    cell: CellId,
    /// The first node of each that has not run.
    next: Vec<u32>,
    /// The chains of a worker.
    largest: usize,
}

impl Chains {
    /// A task that runs so many steps of the first chains of a worker.
    fn task(&mut self, worker: usize, batch: u32, steps: u32) -> (Step, MemberList) {
        let first = worker * self.largest;
        let mut part = |request: usize| {
            let from = self.next[request];
            self.next[request] += steps;
            Part { request: RequestId(request as u32), from: NodeId(from), to: NodeId(from + steps) }
        };
        let parts = (first..first + batch as usize).map(&mut part).collect();
        (Step { cell: self.cell, batch, times: steps, input: 0 }, MemberList::Parts(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of four steps and of 32 that took so long.
    fn launches(short: &[u64], long: &[u64]) -> Launches {
        Launches([short, long].map(|times| {
            let mut samples = Samples::default();
            times.iter().for_each(|ns| samples.add(Nanos(*ns)));
            samples
        }))
    }

    #[test]
    fn a_launch_and_its_steps_come_to_what_was_measured() {
        let measured = launches(&[170, 180, 990], &[600, 600, 600]);
        assert_eq!((measured.step().0, measured.launch().0), (Nanos(15), Nanos(120)), "420 ns for 28 steps");
        let spread = launches(&[100, 100, 100, 100, 128], &[240, 240, 240, 240, 240]);
        assert_eq!((spread.step(), spread.launch()), ((Nanos(5), 0.0), (Nanos(80), 0.0)));
        // Half a nanosecond is rounded up.
        assert_eq!(launches(&[100], &[114]).step().0, Nanos(1));
    }

    #[test]
    fn neither_is_less_than_nothing() {
        // A short task that takes less than its share, as the host may see it.
        let [quick, slow] = [launches(&[10], &[3_200]), launches(&[500], &[400])];
        assert_eq!((quick.step().0, quick.launch().0), (Nanos(100), Nanos::ZERO));
        assert_eq!((slow.step().0, slow.launch().0), (Nanos::ZERO, Nanos(500)));
    }

    #[test]
    fn tasks_follow_on_each_other() {
        let mut chains = Chains { cell: CellId(0), next: vec![0; 6], largest: 3 };
        let part = |request, from, to| Part { request: RequestId(request), from: NodeId(from), to: NodeId(to) };
        assert_eq!(chains.task(1, 2, 4).1, MemberList::Parts(vec![part(3, 0, 4), part(4, 0, 4)]));
        let (step, members) = chains.task(1, 3, 32);
        assert_eq!(members, MemberList::Parts(vec![part(3, 4, 36), part(4, 4, 36), part(5, 0, 32)]));
        assert_eq!(step, Step { cell: CellId(0), batch: 3, times: 32, input: 0 });
    }
}
