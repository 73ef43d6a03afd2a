//! The best control limit of a batch service queue: for how many requests an idle worker waits (Xu, Zhou, Niu: arXiv
//! 2301.12865).
//!
//! The state is the number of waiting requests n whenever the worker is idle. It waits for the next arrival, or serves
//! b = min(n, cap) requests for h(b), while others arrive by a Poisson process. What is minimized is the mean latency
//! plus a weight times the busy share. Value iteration solves the semi-Markov decision process after Schweitzer's
//! transformation to steps of equal length.

use statrs::distribution::{Discrete as _, Poisson};

use crate::base::error::{Error, Result, refuse_if};
use crate::base::units::{Nanos, Rate};
use crate::lab::results::columns::MetricUnit;
use crate::lab::run::bounds::batch_times;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::prepare;
use crate::lab::scenario::{ArrivalSpec, LoadPoint, Scenario};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimum {
    /// The smallest number of requests with which an idle worker should start.
    pub wait_for: u32,
    /// The mean latency plus the weight times the busy share, in seconds.
    pub cost: f64,
}

/// Value iteration ends when the bounds of the cost differ by less than this share of the cost.
const PRECISION: f64 = 1e-9;
/// The number of requests beyond the largest batch that states distinguish. At a load of ρ, about 1 / (2 (1 - ρ)) wait
/// beyond it on average.
const BEYOND: usize = 300;
/// The highest share of what the largest batches serve. Above it, more than `BEYOND` requests are no longer rare.
const HIGHEST_LOAD: f64 = 0.98;
/// The largest batch; the time of an iteration grows with its square.
const LARGEST: u32 = 1024;
/// The number of iterations after which the search gives up.
const MOST_STEPS: usize = 1_000_000;

/// The time of each batch of a scenario's requests, up to the cap, in seconds, and the scenario's rates.
///
/// # Errors
/// Fails if the theory does not hold: requests differ, there are several workers, or arrivals are not Poisson.
pub fn service(scenario: &Scenario, max_batch: u32) -> Result<(Vec<f64>, Vec<Rate>)> {
    let refuse_if = |wrong: bool, why: &str| {
        refuse_if(wrong, || {
            Error::input(format!("{}: {why}", scenario.file.display()))
        })
    };
    let is_poisson = matches!(scenario.arrivals, Some(ArrivalSpec::Poisson { .. }));
    refuse_if(
        !is_poisson,
        "arrivals.process: the best limit is known for poisson only",
    )?;
    refuse_if(
        scenario.device.workers != 1,
        "device.workers: the best limit is known for 1 worker only",
    )?;
    let too_large =
        format!("max_batch: {max_batch} is too large for the best limit; at most {LARGEST}");
    refuse_if(max_batch > LARGEST, &too_large)?;
    let (inputs, device) = prepare(scenario, SelectedBackend::SIM)?;
    let requests = inputs.sample()?;
    let shape = &requests.shapes[0];
    let other = requests
        .shapes
        .iter()
        .find(|other| *other != shape)
        .unwrap_or(shape);
    let why = format!(
        "workload.dataset: the best limit is known for equal requests only, not {shape} and {other}"
    );
    refuse_if(other != shape, &why)?;
    let costs = device.costs(0).expect("a simulated device has costs");
    let times = batch_times(costs, &requests.graphs[0], max_batch)
        .into_iter()
        .map(Nanos::as_secs_f64)
        .collect();
    let rates = scenario.points().into_iter().filter_map(LoadPoint::rate);
    Ok((times, rates.collect()))
}

/// Finds the best limit at a rate. `service` has the times of batches of 1, 2, … in seconds; `weight` is what a worker
/// that is always busy costs, as latency.
///
/// # Errors
/// Fails if even the largest batches would keep the worker busy nearly all the time, or if batches take no
/// time.
pub fn optimum(rate: Rate, service: &[f64], weight: Nanos) -> Result<Optimum> {
    let rate = rate.0;
    let cap = service.len();
    let weight = weight.as_secs_f64();
    let without_time =
        || Error::input("a batch takes no time; name a cost table with the times of the cells");
    refuse_if(service[0] <= 0.0, without_time)?;
    let most = HIGHEST_LOAD * cap as f64 / service[cap - 1];
    if rate > most {
        let served = 100.0 * HIGHEST_LOAD;
        return Err(Error::input(format!(
            "{rate} req/s: more than {served} % of what batches of {cap} serve; at most {} req/s",
            MetricUnit::PerSecond.format(most)
        )));
    }
    // The distribution of arrivals during each service; its tail is added to the last number.
    let arrivals = service.iter().map(|time| {
        let mean = rate * time;
        let most = (mean + 10.0 * mean.sqrt() + 20.0) as u64;
        let poisson =
            Poisson::new(mean).map_err(|error| Error::input(format!("{rate} req/s: {error}")))?;
        let mut chances: Vec<f64> = (0..most).map(|count| poisson.pmf(count)).collect();
        chances.push((1.0 - chances.iter().sum::<f64>()).max(0.0));
        Ok(chances)
    });
    let arrivals = arrivals.collect::<Result<Vec<_>>>()?;
    let states = cap + BEYOND;
    let step = 0.999 * service.iter().copied().fold(1.0 / rate, f64::min);
    let mut values = vec![0.0; states];
    for _ in 0..MOST_STEPS {
        // The costs per time, as latency: the number in the system divided by the rate (Little's law).
        let wait =
            |n: usize| n as f64 / rate + (values[(n + 1).min(states - 1)] - values[n]) * rate;
        let serve = |n: usize| {
            let batch = n.min(cap);
            let time = service[batch - 1];
            let after: f64 = arrivals[batch - 1]
                .iter()
                .enumerate()
                .map(|(k, p)| p * values[(n - batch + k).min(states - 1)])
                .sum();
            n as f64 / rate + time / 2.0 + weight + (after - values[n]) / time
        };
        let best = |n: usize| {
            if n == 0 {
                wait(0)
            } else {
                serve(n).min(wait(n))
            }
        };
        let gains: Vec<f64> = (0..states).map(best).collect();
        let (low, high) = gains
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), gain| {
                (gain.min(low), gain.max(high))
            });
        if high - low <= PRECISION * high.abs() {
            let wait_for = (1..states)
                .find(|n| serve(*n) <= wait(*n))
                .unwrap_or(cap)
                .min(cap);
            return Ok(Optimum {
                wait_for: wait_for as u32,
                cost: (low + high) / 2.0,
            });
        }
        let next: Vec<f64> = values
            .iter()
            .zip(&gains)
            .map(|(value, gain)| value + step * gain)
            .collect();
        let origin = next[0];
        values = next.into_iter().map(|value| value - origin).collect();
    }
    Err(Error::failure(format!(
        "{rate} req/s: value iteration does not converge in {MOST_STEPS} steps"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of b takes 0.1438 b + 1.8874 ms; the rate is half of what batches of 32 serve. By the embedded chain,
    /// waiting for 2, 3 and 4 requests gives means of 4.57850, 4.57745 and 4.58338 ms.
    #[test]
    fn waiting_for_a_third_request_is_best() {
        let service: Vec<f64> = (1..=32)
            .map(|batch| (0.1438 * f64::from(batch) + 1.8874) * 1e-3)
            .collect();
        let rate = Rate(16.0 / service[31]);
        let found = optimum(rate, &service, Nanos::ZERO).unwrap();
        assert_eq!(found.wait_for, 3);
        assert!((found.cost * 1e3 - 4.57745).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn a_busy_worker_that_costs_more_waits_longer() {
        let service: Vec<f64> = (1..=16)
            .map(|batch| (0.1 * f64::from(batch) + 2.0) * 1e-3)
            .collect();
        let limit = |weight| {
            optimum(Rate(2_000.0), &service, Nanos(weight))
                .unwrap()
                .wait_for
        };
        let limits = [0, 1_000_000, 5_000_000, 20_000_000].map(limit);
        assert!(
            limits.is_sorted() && limits[3] > limits[0] + 2,
            "{limits:?}"
        );
        let error = optimum(Rate(5_000.0), &service, Nanos::ZERO)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "5000 req/s: more than 98 % of what batches of 16 serve; at most 4355.556 req/s"
        );
        assert!(optimum(Rate(1.0), &[0.0; 4], Nanos::ZERO).is_err());
    }
}
