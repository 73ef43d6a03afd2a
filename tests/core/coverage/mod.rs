//! How often intervals over replications hold the exact value, for queues whose mean and 99th percentile are known.
//! `examples/coverage.rs` counts over many seeds, the test over a few.

use std::fmt;

use batchlab::record::parts::LatencyParts;
use batchlab::results::columns::Metric;
use batchlab::results::summary::SummaryRow;
use batchlab::summary::stats::{Quantile, mean, quantiles};
use batchlab::summary::warmup::AUTO_PARTS;
use batchlab::summary::{Summary, Times};
use batchlab::units::Nanos;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use crate::exact;

pub const REPLICATIONS: u64 = 10;
pub const LOADS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];
pub const SYSTEMS: [System; 3] = [System::Servers(1), System::Servers(4), System::Batches];

/// The largest batch of the batch server.
const CAP: usize = 8;
const UNIT_NS: f64 = 1e6;

/// A queue with Poisson arrivals, first come first served. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum System {
    /// Servers that take a millisecond for each request.
    Servers(usize),
    /// A server that takes all waiting requests, up to eight, as a batch of b, in 0.1438 b + 1.8874.
    Batches,
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            System::Servers(servers) => write!(f, "M/D/{servers}"),
            System::Batches => write!(f, "batches of up to {CAP}"),
        }
    }
}

fn service(batch: usize) -> f64 {
    0.1438 * batch as f64 + 1.8874
}

impl System {
    /// Arrivals per millisecond at a share of the capacity.
    fn rate(self, load: f64) -> f64 {
        match self {
            System::Servers(servers) => load * servers as f64,
            System::Batches => load * CAP as f64 / service(CAP),
        }
    }

    /// The exact mean of the latency, and its 99th percentile.
    pub fn exact(self, load: f64) -> [f64; 2] {
        let rate = self.rate(load);
        match self {
            System::Servers(servers) => {
                let waiting = exact::MdcWait::new(rate, 1.0, servers);
                let within = |time: f64| waiting.within(time - 1.0);
                [1.0 + waiting.mean(), smallest(0.99, 1.0, within)]
            }
            System::Batches => {
                let mean = exact::batch_latency(rate, service, 1, CAP, 600);
                let latency = exact::BatchLatency::new(rate, service, CAP, 600);
                let within = |time| latency.within(time);
                [mean, smallest(0.99, service(1), within)]
            }
        }
    }

    /// The latencies of requests with these gaps between arrivals, of mean 1, in nanoseconds.
    fn latencies(self, load: f64, gaps: &[f64], latencies: &mut Vec<u64>) {
        let mean_gap = 1.0 / self.rate(load);
        latencies.clear();
        let mut now = 0.0;
        match self {
            System::Servers(servers) => {
                let mut free = vec![0.0f64; servers];
                let mut server = 0;
                for gap in gaps {
                    now += gap * mean_gap;
                    let finish = free[server].max(now) + 1.0;
                    free[server] = finish;
                    latencies.push(to_nanos(finish - now));
                    server = if server + 1 == servers { 0 } else { server + 1 };
                }
            }
            System::Batches => {
                let mut arrivals = Vec::with_capacity(gaps.len());
                for gap in gaps {
                    now += gap * mean_gap;
                    arrivals.push(now);
                }
                let mut free = 0.0f64;
                while let Some(first) = arrivals.get(latencies.len()) {
                    let start = free.max(*first);
                    let waiting = &arrivals[latencies.len()..];
                    let present = waiting.iter().take(CAP).take_while(|at| **at <= start);
                    let batch = present.count();
                    free = start + service(batch);
                    latencies.extend(waiting[..batch].iter().map(|at| to_nanos(free - at)));
                }
            }
        }
    }
}

fn to_nanos(time: f64) -> u64 {
    (time * UNIT_NS).round() as u64
}

/// The smallest time by which this share of the requests is served, not below `low`.
fn smallest(share: f64, low: f64, within: impl Fn(f64) -> f64) -> f64 {
    let mut low = low;
    let mut high = 2.0 * low;
    while within(high) < share {
        high *= 2.0;
    }
    while high - low > 1e-7 * high {
        let middle = (low + high) / 2.0;
        if within(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The outcomes of intervals of one figure of one system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// The number of seeds for which the runs were too short.
    pub refused: u32,
    /// The number of intervals that hold the exact value.
    pub covered: u32,
    /// The number of intervals that lie below it.
    pub below: u32,
    /// The number of intervals that lie above it.
    pub above: u32,
    /// The sum of the half-widths, in shares of the exact value.
    pub half_widths: f64,
}

impl Count {
    pub fn intervals(&self) -> u32 {
        self.covered + self.below + self.above
    }

    pub fn coverage(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.intervals())
    }

    fn add(&mut self, row: &SummaryRow, metric: Metric, exact: f64) {
        let estimate = row.estimate(metric);
        let value = estimate.value.expect("the figure has enough samples");
        let Some(half_width) = estimate.half_width else {
            assert!(row.requests_needed(metric).is_some());
            self.refused += 1;
            return;
        };
        self.half_widths += half_width / exact;
        if (value - exact).abs() <= half_width {
            self.covered += 1;
        } else if value < exact {
            self.below += 1;
        } else {
            self.above += 1;
        }
    }
}

/// The systems and loads that have the same gaps between arrivals, with what was counted of the mean and of p99.
pub struct Coverage {
    pub requests: usize,
    pub cells: Vec<(System, f64, [f64; 2], [Count; 2])>,
}

impl Coverage {
    pub fn new(requests: usize) -> Coverage {
        let mut cells = Vec::new();
        for system in SYSTEMS {
            for load in LOADS {
                cells.push((system, load, system.exact(load), [Count::default(); 2]));
            }
        }
        Coverage { requests, cells }
    }

    /// Adds ten replications of each system at each load.
    pub fn add(&mut self, seed: u64) {
        let mut rows = vec![SummaryRow::default(); self.cells.len()];
        let mut latencies = Vec::with_capacity(self.requests);
        for replication in 0..REPLICATIONS {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(2 * replication + u64::from(self.requests > 20_000));
            let gaps: Vec<f64> = Exp1.sample_iter(&mut random).take(self.requests).collect();
            for ((system, load, ..), row) in self.cells.iter().zip(&mut rows) {
                system.latencies(*load, &gaps, &mut latencies);
                row.runs.push(summarize(&latencies));
            }
        }
        for ((.., exact, counts), row) in self.cells.iter_mut().zip(&rows) {
            let [mean, p99] = *exact;
            counts[0].add(row, Metric::Mean, mean);
            counts[1].add(row, Metric::P99, p99);
        }
    }
}

/// The figures of a run by the rules of `warmup = "auto"`, from the latencies in the order of arrival.
fn summarize(latencies: &[u64]) -> Summary {
    let completed = latencies.len() as u64;
    let measured = &latencies[completed as usize / AUTO_PARTS..];
    let mut parts = LatencyParts::new(measured.len() as u64);
    for (rank, latency) in measured.iter().enumerate() {
        parts.add(rank as u64, *latency);
    }
    let mean = mean(measured);
    let [p99] = quantiles(measured, [Quantile::P99]);
    Summary {
        completed,
        independent: parts.independent(),
        latency: Times {
            samples: measured.len() as u64,
            mean_ms: mean.map(|ns| ns / UNIT_NS),
            p99_ms: p99.map(|ns| Nanos(ns).as_millis_f64()),
            ..Times::default()
        },
        ..Summary::default()
    }
}

#[cfg(test)]
mod tests {
    use batchlab::record::RecordOptions;
    use batchlab::record::full::FullRecord;
    use batchlab::summary::warmup::Warmup;
    use batchlab::summary::{self, Measure};

    use super::*;

    /// The values of docs/METRICS.md, found by another program that inverts the same chains.
    #[test]
    fn exact_values_are_those_of_another_program() {
        for (system, load, mean, p99) in [
            (System::Servers(1), 0.8, 3.0, 11.355887),
            (System::Servers(4), 0.9, 1.999966, 6.339377),
            (System::Batches, 0.5, 3.639446, 5.364209),
            (System::Batches, 0.9, 5.522493, 12.359733),
        ] {
            for (found, expected) in system.exact(load).into_iter().zip([mean, p99]) {
                let off = (found / expected - 1.0).abs();
                assert!(off < 1e-6, "{system} at {load}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn the_figures_are_those_of_a_full_record() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let gaps: Vec<f64> = Exp1.sample_iter(&mut random).take(20_000).collect();
        let mut latencies = Vec::new();
        System::Batches.latencies(0.8, &gaps, &mut latencies);
        let mut record = FullRecord::new(latencies.len(), 1, 1, RecordOptions::default());
        for (request, latency) in latencies.iter().enumerate() {
            record.arrival[request] = Nanos(1000 * request as u64);
            record.start[request] = record.arrival[request];
            record.finish[request] = record.arrival[request] + Nanos(*latency);
        }
        let measure = Measure {
            warmup: Warmup::Auto,
            ..Measure::default()
        };
        let full = summary::summarize(&record, &measure);
        let found = summarize(&latencies);
        assert_eq!(found.independent, full.independent);
        assert_eq!(found.latency.mean_ms, full.latency.mean_ms);
        assert_eq!(found.latency.p99_ms, full.latency.p99_ms);
        assert_eq!(found.latency.samples, full.latency.samples);
    }

    /// Forty seeds instead of the two thousand of docs/METRICS.md: a share of 0.95 has a standard deviation of 0.034.
    #[test]
    fn intervals_hold_the_exact_value_or_are_refused() {
        let mut coverage = Coverage::new(20_000);
        for seed in 1..=40 {
            coverage.add(seed);
        }
        let mut covered = 0.0;
        let mut figures = 0.0;
        for (system, load, _, [mean, p99]) in &coverage.cells {
            let name = format!("{system} at {load}");
            assert_eq!(mean.refused, 0, "{name}, mean: {mean:?}");
            assert!(mean.coverage() >= 0.85, "{name}, mean: {mean:?}");
            covered += mean.coverage();
            figures += 1.0;
            if *load >= 0.9 {
                assert!(p99.refused >= 36, "{name}, p99: {p99:?}");
            } else {
                assert_eq!(p99.refused, 0, "{name}, p99: {p99:?}");
                assert!(p99.coverage() >= 0.82, "{name}, p99: {p99:?}");
                covered += p99.coverage();
                figures += 1.0;
            }
        }
        let mean = covered / figures;
        assert!((0.91..=0.985).contains(&mean), "{mean}");
    }
}
