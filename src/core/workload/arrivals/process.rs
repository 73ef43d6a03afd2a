//! Open arrival processes. Gaps are drawn with mean 1 and then scaled: one random sequence gives the same pattern at
//! every rate (common random numbers).

use std::iter;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Gamma};

use crate::base::error::refuse_if;
use crate::base::units::{Nanos, Rate};
use crate::core::workload::random::RandomSequence;

pub const PROCESSES: [&str; 7] = [
    "poisson", "uniform", "gamma", "mmpp", "periodic", "stepping", "offline",
];
/// The lowest rate, a request in eleven days. At lower rates a run would exceed the clock.
const LEAST_RATE: f64 = 1e-6;
/// The highest rate: above it, gaps would be shorter than a nanosecond.
const MOST_RATE: f64 = 1e9;

/// An open arrival process.
#[derive(Clone, Debug, PartialEq)]
pub enum Process {
    Poisson,
    Uniform,
    /// Independent gamma-distributed gaps: bursty with `cv` above 1, smoother below.
    Gamma {
        /// The standard deviation over the mean; the shape parameter is 1 / cv².
        cv: f64,
    },
    /// A Poisson process that alternates between a low and a high rate (Markov-modulated). Its long-term mean is the
    /// requested rate.
    Mmpp {
        ratio: f64,
        /// The mean of the exponential time in the low state.
        low: Nanos,
        /// The mean of the exponential time in the high state.
        high: Nanos,
    },
    /// A Poisson process whose rate follows a pattern that repeats, such as that of a day. Its mean is the requested
    /// rate.
    Periodic {
        period: Nanos,
        /// The relative rates of the equal parts of a period.
        pattern: Vec<f64>,
    },
    /// A Poisson process whose rate changes in steps with equally many requests (DVABatch: 66 to 4,000 per second in 15
    /// steps). It has its own rates.
    Stepping {
        from: Rate,
        to: Rate,
        /// The number of steps, at least 2, with evenly spaced rates.
        steps: u32,
    },
    Offline,
}

impl Process {
    /// Refuses bad parameters; the message begins with the key.
    pub fn check(&self) -> Result<(), String> {
        let bounded = |key: &str, value: f64, least: f64, most: f64| {
            refuse_if(!(least..=most).contains(&value), || {
                format!("{key}: {value} is out of range; it is a number from {least} to {most}")
            })
        };
        let rate =
            |key: &str, rate: Rate| check_rate(rate).map_err(|problem| format!("{key}: {problem}"));
        match *self {
            Process::Poisson | Process::Uniform | Process::Offline => Ok(()),
            Process::Gamma { cv } => bounded("cv", cv, 0.001, 1000.0),
            Process::Periodic {
                period,
                ref pattern,
            } => {
                for (place, part) in pattern.iter().enumerate() {
                    bounded(&format!("pattern[{place}]"), *part, 0.0, 1e6)?;
                }
                match (
                    pattern.iter().any(|part| *part > 0.0),
                    period.0 / pattern.len().max(1) as u64,
                ) {
                    (false, _) => Err("pattern: at least one relative rate must be above 0".into()),
                    (_, ..1_000) => Err(format!(
                        "period: {period} is too short; each part of the pattern takes 1us or more"
                    )),
                    _ => Ok(()),
                }
            }
            Process::Mmpp { ratio, low, high } => {
                bounded("ratio", ratio, 1.0, 1e6)?;
                match [("low", low), ("high", high)]
                    .into_iter()
                    .find(|(_, sojourn)| *sojourn < Nanos(1_000))
                {
                    Some((key, sojourn)) => Err(format!(
                        "{key}: {sojourn} is too short; it is a time of 1us or more"
                    )),
                    None => Ok(()),
                }
            }
            Process::Stepping { from, to, steps } => {
                rate("from", from)?;
                rate("to", to)?;
                match steps {
                    0 | 1 => Err(format!(
                        "steps: {steps} is too few; at least 2, and poisson has a single rate"
                    )),
                    _ => Ok(()),
                }
            }
        }
    }

    /// The times of `n` arrivals, which do not descend; the first is a gap after the start. Each is the sum of the
    /// gaps, rounded once, so that no error adds up.
    ///
    /// # Panics
    /// The rate that the process takes is missing, or a parameter is invalid.
    pub fn times(&self, rate: Option<Rate>, n: usize, mut rng: RandomSequence) -> ArrivalTimes {
        self.check()
            .expect("the parameters of an arrival process are checked before it is used");
        let rate = || {
            rate.filter(|rate| check_rate(*rate).is_ok())
                .expect("this arrival process has a rate above 0")
        };
        match *self {
            Process::Offline => first_times(n, || Nanos::ZERO),
            Process::Uniform => first_times(n, renewals(rate(), || 1.0)),
            Process::Poisson => first_times(n, renewals(rate(), move || Exp1.sample(&mut rng))),
            Process::Gamma { cv } => {
                let gap = Gamma::new(1.0 / (cv * cv), cv * cv)
                    .expect("a checked cv gives a gamma distribution");
                first_times(n, renewals(rate(), move || gap.sample(&mut rng)))
            }
            Process::Mmpp { ratio, low, high } => {
                let low = low.as_secs_f64();
                let high = high.as_secs_f64();
                let low_rate = rate().0 * (low + high) / (low + ratio * high);
                // The sojourns have their own random sequence, since the number of states depends on the rate.
                let mut sojourns = rng.fork();
                let mut in_high = sojourns.random::<f64>() < high / (low + high);
                let states = iter::repeat_with(move || {
                    let (rate, mean) = if in_high {
                        (low_rate * ratio, high)
                    } else {
                        (low_rate, low)
                    };
                    in_high = !in_high;
                    (rate, mean * sojourns.sample::<f64, _>(Exp1))
                });
                first_times(n, modulated_arrivals(states, rng))
            }
            Process::Periodic {
                period,
                ref pattern,
            } => {
                let mean = pattern.iter().sum::<f64>() / pattern.len() as f64;
                let part = period.as_secs_f64() / pattern.len() as f64;
                let states: Vec<_> = pattern
                    .iter()
                    .map(|relative| (rate().0 * relative / mean, part))
                    .collect();
                first_times(n, modulated_arrivals(states.into_iter().cycle(), rng))
            }
            Process::Stepping { from, to, steps } => {
                first_times(n, stepping(from, to, steps, n, rng))
            }
        }
    }
}

/// The number of arrival times that are drawn at once.
const BLOCK: usize = 64;

/// Fills a block with the next times.
type DrawBlock = dyn FnMut(&mut [Nanos]);

/// Arrival times. They are drawn in blocks, so that the processor draws a time while it still computes the one before.
pub struct ArrivalTimes {
    draw: Box<DrawBlock>,
    block: [Nanos; BLOCK],
    /// The place in the block of the next time.
    next: usize,
    /// The number of times that have not been taken.
    left: usize,
}

impl Iterator for ArrivalTimes {
    type Item = Nanos;

    #[inline]
    fn next(&mut self) -> Option<Nanos> {
        if self.left == 0 {
            return None;
        }
        if self.next == BLOCK {
            (self.draw)(&mut self.block[..self.left.min(BLOCK)]);
            self.next = 0;
        }
        self.left -= 1;
        self.next += 1;
        Some(self.block[self.next - 1])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// The first `n` times.
fn first_times(n: usize, mut next: impl FnMut() -> Nanos + 'static) -> ArrivalTimes {
    ArrivalTimes {
        draw: Box::new(move |block| block.fill_with(&mut next)),
        block: [Nanos::ZERO; BLOCK],
        next: BLOCK,
        left: n,
    }
}

pub fn check_rate(rate: Rate) -> Result<(), String> {
    refuse_if(!(LEAST_RATE..=MOST_RATE).contains(&rate.0), || {
        format!("must be a number of requests per second from 1e-6 to 1e9, not {rate}")
    })
}

/// The arrivals with independent gaps, whose mean is 1.
fn renewals(rate: Rate, mut gap: impl FnMut() -> f64) -> impl FnMut() -> Nanos {
    let mut sum = KahanSum::default();
    // Multiplying first is exact for whole sums.
    move || Nanos::round(sum.add(gap()) * 1e9 / rate.0)
}

/// The arrivals of a Poisson process with changing rates. `states` are pairs of a rate and a time, both in seconds,
/// without end. Gaps are drawn in expected requests.
fn modulated_arrivals(
    mut states: impl Iterator<Item = (f64, f64)>,
    mut rng: RandomSequence,
) -> impl FnMut() -> Nanos {
    let mut state = move || states.next().expect("states do not end");
    let mut passed = KahanSum::default();
    let mut begun_at = KahanSum::default();
    let mut begun_units = KahanSum::default();
    let (mut rate, mut stays) = state();
    move || {
        let units = passed.add(Exp1.sample(&mut rng));
        while units >= begun_units.value + stays * rate {
            begun_at.add(stays);
            begun_units.add(stays * rate);
            (rate, stays) = state();
        }
        Nanos::from_secs_f64(begun_at.value + (units - begun_units.value) / rate)
    }
}

/// The arrivals of a Poisson process whose rate changes in steps with equal numbers of requests.
fn stepping(
    from: Rate,
    to: Rate,
    steps: u32,
    n: usize,
    mut rng: RandomSequence,
) -> impl FnMut() -> Nanos {
    let rise = (to.0 - from.0) / f64::from(steps - 1);
    let mut seconds = KahanSum::default();
    let mut request = 0u128;
    move || {
        let step = (request * u128::from(steps) / n as u128) as f64;
        request += 1;
        let gap: f64 = Exp1.sample(&mut rng);
        Nanos::from_secs_f64(seconds.add(gap / (from.0 + rise * step)))
    }
}

/// A Kahan sum, precise over ten million terms.
#[derive(Default)]
struct KahanSum {
    value: f64,
    excess: f64,
}

impl KahanSum {
    fn add(&mut self, term: f64) -> f64 {
        let corrected = term - self.excess;
        let value = self.value + corrected;
        self.excess = (value - self.value) - corrected;
        self.value = value;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::random;

    const RATE: Rate = Rate(5_000.0);
    const N: usize = 200_000;

    fn draw(process: &Process, rate: Rate, n: usize) -> Vec<Nanos> {
        let rate =
            (!matches!(process, Process::Stepping { .. } | Process::Offline)).then_some(rate);
        process
            .times(rate, n, random::sequence(1, 0, "arrivals"))
            .collect()
    }

    fn rate_and_cv(times: &[Nanos]) -> (f64, f64) {
        let gaps: Vec<f64> = [Nanos::ZERO]
            .iter()
            .chain(times)
            .zip(times)
            .map(|(a, b)| (*b - *a).as_secs_f64())
            .collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        (1.0 / mean, variance.sqrt() / mean)
    }

    fn mmpp(ratio: f64) -> Process {
        Process::Mmpp {
            ratio,
            low: Nanos(200_000_000),
            high: Nanos(50_000_000),
        }
    }

    #[test]
    fn gaps_have_the_asked_mean_and_variation() {
        for (process, cv) in [
            (Process::Poisson, 1.0),
            (Process::Uniform, 0.0),
            (Process::Gamma { cv: 0.5 }, 0.5),
            (Process::Gamma { cv: 1.0 }, 1.0),
            (Process::Gamma { cv: 4.0 }, 4.0),
        ] {
            let times = draw(&process, RATE, N);
            assert!(times.is_sorted());
            let (rate, seen) = rate_and_cv(&times);
            // Four standard errors of the mean gap; that of the variation is larger for bursts.
            assert!(
                (rate / RATE.0 - 1.0).abs() < 1e-9 + 4.0 * cv / (N as f64).sqrt(),
                "{process:?}: rate {rate}"
            );
            assert!(
                (seen - cv).abs() < 0.001 + 0.05 * cv,
                "{process:?}: cv {seen}"
            );
        }
    }

    #[test]
    fn uniform_arrivals_do_not_drift() {
        let times = draw(&Process::Uniform, Rate(3.0), 3_000_000);
        assert_eq!(
            times[..3],
            [Nanos(333_333_333), Nanos(666_666_667), Nanos(1_000_000_000)]
        );
        assert_eq!(*times.last().unwrap(), Nanos(1_000_000_000_000_000));
    }

    #[test]
    fn a_modulated_process_keeps_its_long_run_rate() {
        // A run of 100,000 requests has about 80 cycles: average over seeds.
        for ratio in [1.0, 4.0, 20.0] {
            let mean = (0..40)
                .map(|seed| {
                    let times =
                        mmpp(ratio).times(Some(RATE), N / 2, random::sequence(seed, 0, "arrivals"));
                    let times: Vec<Nanos> = times.collect();
                    assert!(times.is_sorted());
                    times.last().unwrap().as_secs_f64()
                })
                .sum::<f64>()
                / 40.0;
            let expected = (N / 2) as f64 / RATE.0;
            assert!(
                (mean / expected - 1.0).abs() < 0.05,
                "ratio {ratio}: {mean} s, expected {expected} s"
            );
        }
        let (_, calm) = rate_and_cv(&draw(&mmpp(1.0), RATE, N));
        let (_, bursty) = rate_and_cv(&draw(&mmpp(20.0), RATE, N));
        assert!(
            (calm - 1.0).abs() < 0.02,
            "equal rates make a Poisson process: cv {calm}"
        );
        assert!(bursty > 1.2, "cv {bursty}");
    }

    #[test]
    fn a_periodic_process_repeats_its_pattern() {
        let process = Process::Periodic {
            period: Nanos(4_000_000_000),
            pattern: vec![1.0, 0.0, 5.0, 2.0],
        };
        let times = draw(&process, Rate(1_000.0), 400_000);
        assert!(times.is_sorted());
        let mut counts = [0u32; 4];
        times
            .iter()
            .for_each(|at| counts[(at.0 / 1_000_000_000 % 4) as usize] += 1);
        // A hundred periods of 4,000 requests each; four standard deviations.
        for (count, expected) in counts
            .into_iter()
            .zip([50_000.0, 0.0, 250_000.0, 100_000.0])
        {
            assert!(
                (f64::from(count) - expected).abs() <= 4.0 * f64::sqrt(expected),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn a_modulated_process_has_two_rates() {
        let process = Process::Mmpp {
            ratio: 9.0,
            low: Nanos(2_000_000_000),
            high: Nanos(2_000_000_000),
        };
        let times = draw(&process, Rate(10_000.0), 400_000);
        let mut counts = vec![0u32; (times.last().unwrap().0 / 10_000_000 + 1) as usize];
        times
            .iter()
            .for_each(|at| counts[(at.0 / 10_000_000) as usize] += 1);
        let between = counts
            .iter()
            .filter(|count| (60..120).contains(*count))
            .count();
        assert!(between * 50 < counts.len(), "{between} of {}", counts.len());
        assert!(counts.iter().any(|count| *count < 40) && counts.iter().any(|count| *count > 140));
    }

    #[test]
    fn a_stepping_load_rises_step_by_step() {
        let process = Process::Stepping {
            from: Rate(66.0),
            to: Rate(4_000.0),
            steps: 15,
        };
        let times = draw(&process, RATE, 30_000);
        assert!(times.is_sorted());
        for (step, part) in times.chunks(2_000).enumerate() {
            let span = (part[1_999] - part[0]).as_secs_f64();
            let expected = 66.0 + (4_000.0 - 66.0) / 14.0 * step as f64;
            assert!(
                (1_999.0 / span / expected - 1.0).abs() < 0.1,
                "step {step}: {} of {expected}",
                1_999.0 / span
            );
        }
        assert_eq!(
            draw(&process, RATE, 7).len(),
            7,
            "fewer requests than steps"
        );
    }

    #[test]
    fn offline_requests_are_there_at_the_start() {
        assert_eq!(draw(&Process::Offline, RATE, 3), [Nanos::ZERO; 3]);
    }

    #[test]
    fn one_stream_gives_one_pattern_at_every_rate() {
        for process in [
            Process::Poisson,
            Process::Uniform,
            Process::Gamma { cv: 2.0 },
        ] {
            let (slow, fast) = (
                draw(&process, Rate(1_000.0), 1_000),
                draw(&process, Rate(4_000.0), 1_000),
            );
            assert!(
                slow.iter()
                    .zip(&fast)
                    .all(|(slow, fast)| slow.0.abs_diff(fast.0 * 4) <= 4),
                "{process:?}"
            );
        }
        for process in [Process::Poisson, Process::Gamma { cv: 2.0 }, mmpp(4.0)] {
            assert_eq!(draw(&process, RATE, 1_000), draw(&process, RATE, 1_000));
            assert_eq!(
                draw(&process, RATE, 1_000)[..500],
                draw(&process, RATE, 500),
                "a longer run begins like a shorter one"
            );
        }
    }

    #[test]
    fn parameters_have_bounds() {
        let mmpp = |ratio, high| Process::Mmpp {
            ratio,
            low: Nanos(1_000),
            high: Nanos(high),
        };
        let periodic = |period, pattern: &[f64]| Process::Periodic {
            period: Nanos(period),
            pattern: pattern.into(),
        };
        let stepping = |from, steps| Process::Stepping {
            from: Rate(from),
            to: Rate(2.0),
            steps,
        };
        for (process, message) in [
            (
                Process::Gamma { cv: 0.0 },
                "cv: 0 is out of range; it is a number from 0.001 to 1000",
            ),
            (
                mmpp(0.5, 1_000),
                "ratio: 0.5 is out of range; it is a number from 1 to 1000000",
            ),
            (
                periodic(4, &[1.0, -1.0]),
                "pattern[1]: -1 is out of range; it is a number from 0 to 1000000",
            ),
            (
                periodic(4, &[0.0]),
                "pattern: at least one relative rate must be above 0",
            ),
            (
                periodic(4, &[]),
                "pattern: at least one relative rate must be above 0",
            ),
            (
                periodic(1_999, &[1.0, 2.0]),
                "period: 1.999us is too short; each part of the pattern takes 1us or more",
            ),
            (
                mmpp(2.0, 0),
                "high: 0ns is too short; it is a time of 1us or more",
            ),
            (
                stepping(1.0, 1),
                "steps: 1 is too few; at least 2, and poisson has a single rate",
            ),
            (
                stepping(-1.0, 3),
                "from: must be a number of requests per second from 1e-6 to 1e9, not -1",
            ),
        ] {
            assert_eq!(process.check(), Err(message.to_string()));
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(check_rate(Rate(bad)).is_err());
        }
    }
}
