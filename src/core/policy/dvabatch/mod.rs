//! DVABatch (Cui et al., 2022): networks are cut into stages; batches are formed, stretched and split at their
//! boundaries.
//!
//! | file | in the paper |
//! | --- | --- |
//! | `table` | batch table, new, stretch and split (section 5) |
//! | `stage` | buffer pairs (section 6.1), executor (section 6.2, Figure 11) |
//! | `mechanism` | all of these for one worker |
//! | `conditions` | the user's conditions (section 7.2, Figure 12) |
//! | `policies` | policies I, II and III; room on the device |
//! | `slicing` | stages and their times (section 7.1) |
//! | `settings` | the keys of `dvabatch` and `lazy` |

use std::fmt;
use std::sync::Arc;

pub use self::conditions::{Conditions, Enter, EntryView, Onward, Skip, WaitingLine, WaitingLines};
use self::mechanism::Mechanism;
pub use self::policies::{
    Cluster, CompWait, DeviceRoom, InputDiversity, LengthRanges, LoadDiversity, OperatorDiversity,
};
pub use self::settings::{Diversity, DvaBatch, Lazy, RoomFor, StageRule, Stages};
pub use self::slicing::{Slicing, StageDurations};
pub use self::table::{BatchRow, BatchTable, Query};
use super::prelude::*;
use crate::core::task::worker_set::WorkerSet;

mod conditions;
mod mechanism;
mod policies;
mod settings;
mod slicing;
mod stage;
mod table;
#[cfg(test)]
mod tests;

/// The number of a stage. A chain has as many stages as its steps need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage(pub u32);

impl Stage {
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub fn next(self) -> Stage {
        Stage(self.0 + 1)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a set of buffers, which names each stage's buffer pair of that set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferPair(pub u8);

/// A policy of stages under given conditions.
pub struct Staged {
    mechanisms: Vec<Mechanism>,
    /// The workers without a batch. All of them answer alike, so one that takes nothing speaks for the others.
    idle: WorkerSet,
    /// All other workers.
    busy: WorkerSet,
    lines: WaitingLines,
    slicing: Arc<Slicing>,
    conditions: Box<dyn Conditions>,
    now: Nanos,
}

impl Staged {
    pub fn new(
        workers: usize,
        slicing: &Arc<Slicing>,
        sets: u8,
        conditions: Box<dyn Conditions>,
    ) -> Staged {
        let ids = (0..workers as u16).map(WorkerId);
        Staged {
            mechanisms: ids
                .map(|worker| Mechanism::new(worker, Arc::clone(slicing), sets))
                .collect(),
            idle: WorkerSet::all(workers),
            busy: WorkerSet::none(workers),
            lines: WaitingLines::default(),
            slicing: Arc::clone(slicing),
            conditions,
            now: Nanos::ZERO,
        }
    }
}

impl Policy for Staged {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let (nodes, input) = self.slicing.size(request);
        let query = Query {
            request: request.id,
            nodes,
            input,
            left: false,
            resumes: Stage(0),
        };
        let line = self.conditions.line(&query);
        self.lines.push(line, request.arrival, query);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let mechanism = &mut self.mechanisms[completed.worker.index()];
        mechanism.complete(completed.task, &mut *self.conditions, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.now = dispatch.now();
        let mut next = 0;
        let mut declined = false;
        loop {
            let busy = self.busy.first_from(next);
            let idle = if declined || self.lines.is_empty() {
                None
            } else {
                self.idle.first_from(next)
            };
            // Workers take requests in ascending order.
            let Some(worker) = busy.into_iter().chain(idle).min() else {
                break;
            };
            let mechanism = &mut self.mechanisms[worker];
            mechanism.advance(&mut self.lines, &mut *self.conditions, dispatch);
            let was_idle = idle == Some(worker);
            let is_idle = mechanism.is_idle();
            declined = was_idle && is_idle;
            if was_idle && !is_idle {
                self.idle.remove(worker);
                self.busy.insert(worker);
            } else if !was_idle && is_idle {
                self.busy.remove(worker);
                self.idle.insert(worker);
            }
            next = worker + 1;
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.conditions.wake_at(&self.lines, self.now)
    }

    fn works_ahead(&self) -> bool {
        true
    }
}
