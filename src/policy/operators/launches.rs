//! Launches of operators, and the steps of a task that they become.

use super::classes::{Key, Keyed};
use crate::task::Step;

/// Operators that run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What they have in common.
    pub key: Key,
    /// How many there are.
    pub operators: u64,
    /// Over how many rows they run.
    pub rows: u64,
    /// The size of the input, where the time depends on it.
    pub input: u32,
}

/// The steps of launches, in their order. Of those that run alone each is a step; equal neighbours become one step that runs
/// several times.
pub fn steps(launches: &[Launch], keyed: &[Keyed], steps: &mut Vec<Step>) {
    steps.clear();
    for launch in launches {
        let Keyed { operator, alone, .. } = keyed[launch.key.index()];
        let times = if alone { launch.operators } else { 1 };
        let (batch, times) = ((launch.rows / times) as u32, times as u32);
        match steps.last_mut() {
            Some(last) if (last.cell, last.batch, last.input) == (operator, batch, launch.input) => last.times += times,
            _ => steps.push(Step { cell: operator, batch, times, input: launch.input }),
        }
    }
}
