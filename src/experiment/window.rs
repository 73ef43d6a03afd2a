//! The batch window with the highest knee (DVABatch's "DelayBatch").

use super::goal::Answer;
use crate::error::{Error, Result};
use crate::scenario::Scenario;
use crate::units::{Nanos, Rate};

pub const WINDOWS: [Nanos; 7] = [
    Nanos(1_000_000),
    Nanos(2_000_000),
    Nanos(5_000_000),
    Nanos(10_000_000),
    Nanos(20_000_000),
    Nanos(50_000_000),
    Nanos(100_000_000),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    pub window: Nanos,
    /// The highest rate that meets the objective, if any.
    pub rate: Option<Rate>,
}

/// Of a scenario, beginning near a rate.
type FindKnees<'a> = dyn Fn(&Scenario, Option<Rate>) -> Result<Vec<Answer>> + 'a;

/// Finds the knee with each window. `load` reads the scenario with one override, `knees` finds those of its policies,
/// beginning near the knee of the window before.
pub fn find(
    load: &dyn Fn(&str) -> Result<Scenario>,
    policy: &str,
    windows: &[Nanos],
    knees: &FindKnees<'_>,
) -> Result<Vec<Tried>> {
    let mut tried: Vec<Tried> = Vec::new();
    for window in windows {
        let mut scenario = load(&format!("policy.{policy}.window={}ns", window.0))?;
        scenario.policies.retain(|entry| entry.label == policy);
        if scenario.policies.is_empty() {
            // The override accepts an index or a kind, too.
            return Err(Error::input(format!("{}: no policy is labelled \"{policy}\"", scenario.file.display())));
        }
        let near = tried.last().and_then(|tried| tried.rate);
        tried.push(Tried { window: *window, rate: knees(&scenario, near)?.first().and_then(Answer::mean) });
    }
    Ok(tried)
}

/// The window with the highest rate; within the tolerance, the shortest.
pub fn best(tried: &[Tried], tolerance: f64) -> Option<Tried> {
    let rate = |one: &Tried| one.rate.map_or(0.0, |rate| rate.0);
    let highest = tried.iter().map(rate).fold(0.0, f64::max);
    let good = tried.iter().filter(|one| highest > 0.0 && rate(one) * (1.0 + tolerance) >= highest);
    good.min_by_key(|one| one.window).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_best_windows_is_chosen() {
        let tried = |rates: &[Option<f64>]| -> Vec<Tried> {
            let one = |(window, rate): (&Nanos, &Option<f64>)| Tried { window: *window, rate: rate.map(Rate) };
            WINDOWS.iter().zip(rates).map(one).collect()
        };
        let best = |rates: &[Option<f64>]| super::best(&tried(rates), 0.01).map(|one| one.window.0 / 1_000_000);
        assert_eq!(best(&[Some(90.0), Some(99.5), Some(100.0), None]), Some(2));
        assert_eq!(best(&[Some(100.0), Some(110.0), Some(90.0)]), Some(2));
        assert_eq!(best(&[None, None]), None);
    }
}
