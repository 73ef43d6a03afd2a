//! The laws that every policy keeps. One line in a test checks a policy on random workloads.
//!
//! ```
//! use batchlab::conformance::{Guarantees, check};
//! use batchlab::policy::padded::Padded;
//!
//! check(&Padded { max_batch: 4, ..Padded::default() }, &Guarantees { max_batch: 4, ..Guarantees::default() });
//! ```
//!
//! The laws are checked on a record of the tasks and their results, and never on the policy itself:
//!
//! - **Conservation**: every request leaves once; every node of a finished request runs once.
//! - **Order**: no node starts before its inputs are done.
//! - **Caps**: no batch is larger than guaranteed; a cell task holds one cell type; useful cells are those of the
//!   members, and no more than the executed ones.
//! - **Causality**: arrival ≤ submission ≤ start ≤ finish; a request leaves when its last node is done. With
//!   [`Guarantees::holds_back`], it may leave later, when another request's last node is done.
//! - **Work**: tasks of a stream do not overlap; a worker is busy while a task runs.
//! - **Little's law**: the number in the system, integrated over time, is the sum of the latencies.
//! - **Repetition**: the same events give the same tasks, whether the backend asks for the nodes or not, and whether a
//!   policy that [decides only when a worker is idle](crate::policy::Policy::decides_when_idle) is called at other
//!   instants or not.
//! - **Work conservation**, **pinning** and **bounds**, if [guaranteed](Guarantees).

pub mod case;
pub mod laws;
pub mod record;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use self::case::RandomCase;
use self::laws::CheckedCase;
use self::record::{CheckedRun, Watch};
use crate::core::backend::Backend;
use crate::core::cost::CostModel;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::workload::model::Model;
use crate::core::workload::trace::Requests;

/// What a policy guarantees beyond the laws that all policies keep.
#[derive(Clone, Copy, Debug)]
pub struct Guarantees {
    /// The largest batch: nodes of a cell task, or whole requests.
    pub max_batch: u32,
    /// Whether no worker idles while a request waits and none of its nodes runs. It is `false` with batch windows.
    pub work_conserving: bool,
    /// Whether the nodes of a subgraph with unfinished tasks go to the worker of those tasks.
    pub pins: bool,
    /// Whether no request is faster than its critical path, and no set of workers faster than its capacity, at the best
    /// batch sizes ([`crate::core::summary::bounds`]). Nodes must run as cells at the cost table's price.
    pub bounded: bool,
    /// Whether responses may wait for those of other requests, as with `preserve_ordering` of `triton`.
    pub holds_back: bool,
    /// The number of random workloads.
    pub cases: u32,
}

impl Default for Guarantees {
    fn default() -> Self {
        Guarantees {
            max_batch: u32::MAX,
            work_conserving: true,
            pins: true,
            bounded: true,
            holds_back: false,
            cases: 200,
        }
    }
}

/// A law that a policy breaks, and the smallest workload that was found to show it.
#[derive(Clone, Debug)]
pub struct BrokenLaw {
    pub law: String,
    /// The number of the random workload.
    pub case: u32,
    /// The workload without the requests that are not needed to break a law.
    pub workload: String,
}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BrokenLaw {
            law,
            case,
            workload,
        } = self;
        write!(f, "breaks a law on case {case}: {law}\n{workload}")
    }
}

/// Runs whose nodes the laws check.
const NODES: Watch = Watch {
    members: true,
    each_instant: false,
};

/// Checks a policy on random workloads of every model that it serves.
///
/// # Panics
/// On a broken law, naming it and the workload, or if the policy serves no model.
pub fn check(policy: &dyn Settings, guarantees: &Guarantees) {
    match find_broken_law(policy, guarantees) {
        Ok(0) => panic!(
            "{policy:?} serves none of the models in {} cases",
            guarantees.cases
        ),
        Ok(_) => {}
        Err(broken) => panic!("{policy:?} {broken}"),
    }
}

/// Looks for a law that a policy breaks on random workloads. Returns the number of workloads that the policy serves.
///
/// # Errors
/// The first broken law, on the smallest workload; a policy that [fails](crate::policy::Outcomes::fail) breaks one.
pub fn find_broken_law(policy: &dyn Settings, guarantees: &Guarantees) -> Result<u32, BrokenLaw> {
    let mut served = 0;
    each_case(policy, guarantees, |number, case, checked, setup| {
        served += 1;
        check_case(policy, guarantees, case, checked, setup)
            .map_err(|law| smallest(policy, guarantees, number, case, law))
    })?;
    Ok(served)
}

fn check_case(
    policy: &dyn Settings,
    guarantees: &Guarantees,
    case: &RandomCase,
    checked: &CheckedCase<'_>,
    setup: &Setup<'_>,
) -> Result<(), String> {
    let watched = case.run(policy, setup, NODES)?;
    laws::check(checked, &watched, guarantees)?;
    check_repetition(policy, case, setup, &watched)
}

/// Leaves out requests of a case as long as the policy breaks a law.
fn smallest(
    policy: &dyn Settings,
    guarantees: &Guarantees,
    number: u32,
    case: &RandomCase,
    law: String,
) -> BrokenLaw {
    let mut law = law;
    let mut smallest: Option<RandomCase> = None;
    let mut request = case.requests.len();
    while request > 0 {
        request -= 1;
        let smaller = smallest.as_ref().unwrap_or(case).without(request);
        let checked = smaller.as_ref().map_or(Ok(()), |smaller| {
            visit_case(policy, smaller, |checked, setup| {
                check_case(policy, guarantees, smaller, checked, setup)
            })
        });
        if let Err(other) = checked {
            law = other;
            smallest = smaller;
        }
    }
    BrokenLaw {
        law,
        case: number,
        workload: smallest.as_ref().unwrap_or(case).describe(),
    }
}

/// Checks that further runs of the same events give the same schedule as `watched`.
fn check_repetition(
    policy: &dyn Settings,
    case: &RandomCase,
    setup: &Setup<'_>,
    watched: &CheckedRun,
) -> Result<(), String> {
    let is_same = |again: &CheckedRun| {
        again.seen == watched.seen
            && again.recorder.execution.tasks == watched.recorder.execution.tasks
            && again.done == watched.done
    };
    if !is_same(&case.run(policy, setup, NODES)?) {
        return Err("repetition: a second run of the same events differs".into());
    }
    let each_instant = Watch {
        each_instant: true,
        ..NODES
    };
    if !is_same(&case.run(policy, setup, each_instant)?) {
        return Err(
            "repetition: the schedule depends on whether the policy is called at each instant; `decides_when_idle` is for policies that do nothing unless a worker is idle".into(),
        );
    }
    let unwatched = case.run(policy, setup, Watch::default())?;
    if unwatched.done != watched.done {
        return Err(
            "repetition: the schedule depends on whether the backend asks for the nodes".into(),
        );
    }
    Ok(())
}

/// Checks a backend with its own clock: conservation, order, caps, causality, work and pinning. `on` receives a
/// workload's model, requests and number of workers. It calls the function with a backend, or skips the workload.
///
/// # Panics
/// On a broken law, naming it and the workload, or if no workload was run.
pub fn check_backend(
    policy: &dyn Settings,
    guarantees: &Guarantees,
    mut on: impl FnMut(&Model, &Requests, usize, &mut dyn FnMut(&mut dyn Backend)),
) {
    assert!(
        !policy.runs_operators(),
        "only simulated devices run operators"
    );
    let mut served = 0;
    let checked = each_case(policy, guarantees, |number, case, checked, setup| {
        on(&case.model, &case.requests, case.workers, &mut |backend| {
            served += 1;
            let run = case.run_on(backend, policy, setup, NODES);
            let run = run.expect("the policy does not fail");
            if let Err(law) = laws::check_backend(checked, &run, guarantees) {
                panic!(
                    "a backend breaks a law under {policy:?} on case {number}: {law}\n{}",
                    case.describe()
                );
            }
        });
        Ok::<(), Infallible>(())
    });
    let Ok(()) = checked;
    assert!(served > 0, "none of {} workloads was run", guarantees.cases);
}

/// Visits all random workloads that the policy serves, up to the first error.
fn each_case<E>(
    policy: &dyn Settings,
    guarantees: &Guarantees,
    mut visit: impl FnMut(u32, &RandomCase, &CheckedCase<'_>, &Setup<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for number in 0..guarantees.cases {
        let case = RandomCase::draw(number);
        visit_case(policy, &case, |checked, setup| {
            visit(number, &case, checked, setup)
        })?;
    }
    Ok(())
}

/// Visits a workload if the policy serves it.
fn visit_case<E>(
    policy: &dyn Settings,
    case: &RandomCase,
    visit: impl FnOnce(&CheckedCase<'_>, &Setup<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let cells = case.model.cell_types();
    let device = case.device();
    let costs: Arc<dyn CostModel> = Arc::new(device.clone());
    let setup = Setup {
        model: &case.model,
        cells: &cells,
        workers: case.workers,
        costs: Some(&costs),
        longest: Some(case.requests.longest()),
    };
    if policy.build(&setup).is_err() {
        return Ok(());
    }
    let checked = CheckedCase {
        requests: &case.requests,
        cells: &cells,
        workers: case.workers,
        device: &device,
        sizes: policy.batch_sizes(),
    };
    visit(&checked, &setup)
}
