use serde::{Deserialize, Serialize};

use super::part::Part;
use super::recorder::{Outcome, Recorder, happened};
use super::stats::{Quantile, mean, quantiles};
use super::tokens::TokenSummary;
use super::validity::{Extrapolation, Lateness, Truncation, Warmup, mser5, saturated};
use crate::base::units::{Nanos, Rate};
use crate::core::workload::class::{Class, Classes};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// For goodput.
    pub slo: Option<Nanos>,
    pub warmup: Warmup,
    /// The requested rate; without it, the arrival rate counts as offered.
    pub offered: Option<Rate>,
    /// Clients wait for their answers, so no load generator can be late.
    pub closed_loop: bool,
}

/// The metrics of one run. A rate over no time and a quantile of too few samples are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The rate that was asked for, otherwise [`Summary::achieved`].
    pub offered: Option<Rate>,
    /// The rate at which the measured requests arrived.
    pub achieved: Option<Rate>,
    /// Completions per second in the window.
    pub throughput: Option<Rate>,
    /// Per second, of requests that met the SLO.
    pub goodput: Option<Rate>,
    /// Requests that were served, including the warm-up.
    pub completed: u64,
    /// Arrived, but neither finished nor rejected.
    pub failed: u64,
    pub rejected: u64,
    /// Left out of the times below.
    pub warmup: u64,
    /// Whether the latencies settle; `None` if the warm-up's rule does not examine it.
    pub steady: Option<bool>,
    /// From arrival to finish.
    pub latency: Times,
    /// From arrival to start.
    pub queue: Times,
    /// From start to finish.
    pub compute: Times,
    /// The mean batch size over all tasks.
    pub mean_batch: Option<f64>,
    /// The fraction of the executed cells that belonged to no request.
    pub padding: Option<f64>,
    /// The fraction of the run's time in which the workers were busy.
    pub utilization: Option<f64>,
    pub worker_utilization: Vec<f64>,
    /// `None` where the run is too short to tell.
    pub saturated: Option<bool>,
    /// Filled in by the caller, who knows the cost table; empty on a real device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extrapolated: Vec<Extrapolation>,
    /// `None` where the clock is virtual or clients wait for their answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Of the rejected, those that were at their deadline or past it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expired: u64,
    /// The objective of goodput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Nanos>,
    /// The share of the measured requests that were served within the SLO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_slo: Option<f64>,
    /// Of language models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenSummary>>,
    /// The same for the requests of each class, without what concerns tasks and workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<(String, Summary)>,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Over the measured requests that finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub samples: u64,
    pub mean_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p90_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub p999_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

impl Times {
    /// Times in nanoseconds, which are reordered.
    pub(super) fn of(spans: &mut [u64]) -> Times {
        let (mean, max) = (mean(spans), spans.iter().max().copied());
        Times::new(
            spans.len() as u64,
            mean,
            max,
            quantiles(spans, Quantile::ALL),
        )
    }

    /// From nanoseconds; the quantiles are [`Quantile::ALL`].
    pub(super) fn new(
        samples: u64,
        mean: Option<f64>,
        max: Option<u64>,
        quantiles: [Option<u64>; 5],
    ) -> Times {
        let millis = |ns: u64| Nanos(ns).as_millis_f64();
        let [p50_ms, p90_ms, p95_ms, p99_ms, p999_ms] =
            quantiles.map(|quantile| quantile.map(millis));
        let (mean_ms, max_ms) = (mean.map(|ns| ns / 1e6), max.map(millis));
        Times {
            samples,
            mean_ms,
            p50_ms,
            p90_ms,
            p95_ms,
            p99_ms,
            p999_ms,
            max_ms,
        }
    }
}

pub fn summarize(record: &Recorder, measure: &Measure) -> Summary {
    let (requests, arrivals) = match &record.stream {
        Some(stream) => (stream.summary(), stream.arrivals()),
        None => of_requests(record, measure),
    };
    let (utilization, worker_utilization) = utilization(record, arrivals);
    Summary {
        offered: measure.offered.or(requests.achieved),
        mean_batch: share(record.batch_sum, record.task_count),
        padding: share(record.useful_cells, record.executed_cells).map(|useful| 1.0 - useful),
        utilization,
        worker_utilization,
        ..requests
    }
}

/// Without what concerns tasks and workers; also the first and last arrival.
fn of_requests(record: &Recorder, measure: &Measure) -> (Summary, Option<(Nanos, Nanos)>) {
    let run = RunRecord::new(record);
    let (warmup, steady) = run.warmup(measure.warmup);
    let arrival = |request: &u32| record.arrival[*request as usize];
    let period = |requests: &[u32]| {
        requests
            .first()
            .map(arrival)
            .zip(requests.last().map(arrival))
    };
    let measured = period(&run.order[warmup..]);
    let part = run.part(&run.order, warmup, measured, measure.slo);
    let window = part.window();
    let whole = part.summary(window, run.times(&run.order[warmup..]));
    // A class without an objective has the scenario's.
    let of_class = |(class, (requests, warmup)): (&Class, (Vec<u32>, usize))| {
        let part = run.part(&requests, warmup, measured, class.slo.or(measure.slo));
        (
            class.name.to_string(),
            part.summary(window, run.times(&requests[warmup..])),
        )
    };
    let classes = record
        .classes
        .iter()
        .flat_map(|classes| classes.all.iter().zip(run.members(classes, warmup)));
    let lateness = record
        .lateness
        .get(warmup..)
        .filter(|_| !measure.closed_loop);
    let summary = Summary {
        steady,
        saturated: saturated(&run),
        lateness: lateness.and_then(|spans| Lateness::of(spans, whole.latency.p50_ms)),
        classes: classes.map(of_class).collect(),
        tokens: record
            .tokens
            .as_ref()
            .map(|tokens| tokens.summary(&run, &run.order[warmup..]).into()),
        ..whole
    };
    (summary, period(&run.order))
}

/// Of all workers and of each, from the first arrival to the last event.
fn utilization(record: &Recorder, arrivals: Option<(Nanos, Nanos)>) -> (Option<f64>, Vec<f64>) {
    let Some((first, last)) = arrivals else {
        return (None, Vec::new());
    };
    let span = record.end.max(last).saturating_since(first).as_secs_f64();
    if span == 0.0 || record.busy.is_empty() {
        return (None, Vec::new());
    }
    let by_worker: Vec<f64> = record
        .busy
        .iter()
        .map(|busy| busy.as_secs_f64() / span)
        .collect();
    (
        Some(by_worker.iter().sum::<f64>() / by_worker.len() as f64),
        by_worker,
    )
}

pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A record, with data that several metrics need.
pub(super) struct RunRecord<'a> {
    pub record: &'a Recorder,
    /// In the order of arrival.
    pub order: Vec<u32>,
    pub departures: Vec<(Nanos, Outcome)>,
}

impl<'a> RunRecord<'a> {
    pub fn new(record: &'a Recorder) -> Self {
        RunRecord {
            record,
            order: record.in_order(),
            departures: record.departures(),
        }
    }

    /// Some of the requests, in the order of arrival; the first of them are the warm-up. `measured`: the first and last
    /// measured arrival of the run.
    fn part(
        &self,
        requests: &[u32],
        warmup: usize,
        measured: Option<(Nanos, Nanos)>,
        slo: Option<Nanos>,
    ) -> Part {
        let mut part = Part::new(slo);
        for (rank, request) in requests.iter().enumerate() {
            let (left, outcome) = self.departures[*request as usize];
            part.arrived(self.record.arrival[*request as usize], rank >= warmup);
            part.outcomes[outcome as usize] += 1;
            let Some([latency, ..]) = self.spans(*request) else {
                continue;
            };
            let good = part.served(latency, rank >= warmup);
            if let Some((_, last)) = measured.filter(|(first, _)| left >= *first) {
                part.completed(left, good, left > last);
            }
        }
        part
    }

    fn times(&self, requests: &[u32]) -> [Times; 3] {
        // One buffer for all three times: a run may have ten million requests.
        let mut spans = Vec::with_capacity(requests.len());
        [0, 1, 2].map(|which| {
            spans.clear();
            spans.extend(
                requests
                    .iter()
                    .filter_map(|request| Some(self.spans(*request)?[which])),
            );
            Times::of(&mut spans)
        })
    }

    /// Of a request that finished, in nanoseconds: the latency, the time in the queue, and that from start to finish, which
    /// is 0 without a task.
    pub fn spans(&self, request: u32) -> Option<[u64; 3]> {
        let Recorder {
            arrival,
            start,
            finish,
            ..
        } = self.record;
        let finish = happened(finish[request as usize])?;
        let latency = finish.saturating_since(arrival[request as usize]).0;
        let compute = finish.saturating_since(start[request as usize]).0;
        Some([latency, latency - compute, compute])
    }

    /// Of each class in the order of arrival, and how many of them are the warm-up.
    fn members(&self, classes: &Classes, warmup: usize) -> Vec<(Vec<u32>, usize)> {
        let mut members = vec![(Vec::new(), 0); classes.all.len()];
        for (rank, request) in self.order.iter().enumerate() {
            let (requests, left_out) = &mut members[usize::from(classes.of[*request as usize])];
            requests.push(*request);
            *left_out += usize::from(rank < warmup);
        }
        members
    }

    /// Also whether the latencies settle.
    pub fn warmup(&self, rule: Warmup) -> (usize, Option<bool>) {
        let all = self.order.len();
        match rule {
            Warmup::Auto | Warmup::None => (0, None),
            Warmup::Requests(n) => ((n as usize).min(all), None),
            // `as` maps NaN to zero and saturates; a fraction above 1 leaves out all.
            Warmup::Share(share) => (((share * all as f64) as usize).min(all), None),
            Warmup::Mser5 => {
                let latency =
                    |(rank, request): (usize, &u32)| Some((rank, self.spans(*request)?[0] as f64));
                let (finished, latencies): (Vec<usize>, Vec<f64>) =
                    self.order.iter().enumerate().filter_map(latency).unzip();
                match mser5(&latencies) {
                    // The rule counts finished requests; the others between them are dropped too.
                    Truncation::Steady(dropped) => {
                        (if dropped == 0 { 0 } else { finished[dropped] }, Some(true))
                    }
                    Truncation::NotSteady => (0, Some(false)),
                    Truncation::TooFew => (0, None),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{queue, record};
    use super::*;
    use crate::base::units::RequestId;

    const MS: u64 = 1_000_000;

    fn rate(rate: Option<Rate>) -> f64 {
        rate.expect("there is a rate").0
    }

    fn assert_near(found: f64, expected: f64, relative: f64) {
        assert!(
            (found / expected - 1.0).abs() <= relative,
            "{found} is not {expected} within {relative}"
        );
    }

    #[test]
    fn three_requests_by_hand() {
        // Two run as one batch, the third alone; a fourth is padding.
        let mut run = record(&[
            (0, 2 * MS, 6 * MS),
            (MS, 2 * MS, 6 * MS),
            (4 * MS, 6 * MS, 9 * MS),
        ]);
        run.busy[0] = Nanos(7 * MS);
        (run.task_count, run.batch_sum) = (2, 3);
        (run.executed_cells, run.useful_cells) = (4, 3);
        let measure = Measure {
            slo: Some(Nanos(5 * MS)),
            ..Measure::default()
        };
        let summary = summarize(&run, &measure);
        assert_near(rate(summary.offered), 500.0, 1e-12);
        // Nine tenths need all three, the last at 9 ms.
        assert_near(rate(summary.throughput), 3.0 / 0.009, 1e-12);
        assert_near(rate(summary.goodput), 2.0 / 0.009, 1e-12);
        assert_eq!(
            (summary.completed, summary.failed, summary.rejected),
            (3, 0, 0)
        );
        assert_near(summary.latency.mean_ms.unwrap(), 16.0 / 3.0, 1e-12);
        assert_eq!(summary.queue.max_ms, Some(2.0));
        assert_eq!(summary.queue.mean_ms, Some(5.0 / 3.0));
        assert_near(summary.compute.mean_ms.unwrap(), 11.0 / 3.0, 1e-12);
        assert_eq!(
            summary.latency.p50_ms, None,
            "three samples are no distribution"
        );
        assert_eq!(summary.mean_batch, Some(1.5));
        assert_eq!(summary.padding, Some(0.25));
        assert_near(summary.utilization.unwrap(), 7.0 / 9.0, 1e-12);
        assert_eq!(summary.saturated, None);
    }

    #[test]
    fn light_load_is_delivered_as_offered() {
        let summary = summarize(&queue(20_000, 0.3, 1), &Measure::default());
        assert_near(rate(summary.throughput), rate(summary.offered), 1e-3);
        assert_near(summary.utilization.unwrap(), 0.3, 0.03);
        assert_eq!(summary.saturated, Some(false));
        assert!(summary.latency.p999_ms.is_some());
    }

    #[test]
    fn overload_delivers_the_capacity_with_and_without_warmup() {
        for load in [1.2, 3.0, 50.0] {
            for warmup in [Warmup::None, Warmup::Share(0.5), Warmup::Mser5] {
                let summary = summarize(
                    &queue(20_000, load, 1),
                    &Measure {
                        warmup,
                        ..Measure::default()
                    },
                );
                assert_near(rate(summary.throughput), 1e6, 1e-3);
                assert_eq!(summary.saturated, Some(true));
                assert_eq!(summary.steady, (warmup == Warmup::Mser5).then_some(false));
            }
        }
    }

    #[test]
    fn a_straggler_is_no_loss_of_throughput() {
        let mut rows: Vec<_> = (0..1000).map(|i| (i * MS, i * MS, (i + 1) * MS)).collect();
        rows[999].2 = 5000 * MS;
        let summary = summarize(&record(&rows), &Measure::default());
        assert_near(rate(summary.throughput), 1000.0, 1e-9);
    }

    #[test]
    fn offline_throughput_is_that_of_the_batches() {
        // Ten batches of 50, of a millisecond each.
        let rows: Vec<_> = (0..500)
            .map(|i| (0, i / 50 * MS, (i / 50 + 1) * MS))
            .collect();
        let summary = summarize(&record(&rows), &Measure::default());
        assert_eq!(summary.offered, None);
        assert_near(rate(summary.throughput), 50_000.0, 1e-12);
    }

    #[test]
    fn what_never_happened_leaves_no_figures() {
        let nothing = summarize(
            &record(&[]),
            &Measure {
                slo: Some(Nanos(MS)),
                ..Measure::default()
            },
        );
        assert_eq!(
            nothing,
            Summary {
                slo: Some(Nanos(MS)),
                ..Summary::default()
            }
        );

        let never = u64::MAX;
        let mut stuck = record(&[
            (0, never, never),
            (MS, MS, never),
            (2 * MS, never, never),
            (never, never, never),
        ]);
        stuck.rejected(RequestId(2), Nanos(3 * MS));
        for warmup in [
            Warmup::None,
            Warmup::Mser5,
            Warmup::Share(0.5),
            Warmup::Share(1.0),
            Warmup::Requests(9),
        ] {
            let summary = summarize(
                &stuck,
                &Measure {
                    warmup,
                    ..Measure::default()
                },
            );
            assert_eq!(
                (summary.completed, summary.failed, summary.rejected),
                (0, 2, 1)
            );
            assert_eq!(summary.latency, Times::default());
        }
        assert_eq!(
            summarize(&stuck, &Measure::default()).throughput,
            Some(Rate(0.0))
        );

        let one = summarize(&record(&[(5 * MS, 6 * MS, 7 * MS)]), &Measure::default());
        assert_eq!(one.throughput, Some(Rate(500.0)));
        assert_eq!(one.offered, None);
        let instant = summarize(&record(&[(5, 5, 5), (5, 5, 5)]), &Measure::default());
        assert_eq!((instant.throughput, instant.utilization), (None, None));
        assert_eq!(instant.latency.max_ms, Some(0.0));
    }

    #[test]
    fn warmup_counts_requests_in_the_order_of_arrival() {
        // Not in the order of arrival, as in a closed loop.
        let rows = [
            (20 * MS, 20 * MS, 21 * MS),
            (0, 0, 9 * MS),
            (10 * MS, 10 * MS, 12 * MS),
        ];
        let summary = summarize(
            &record(&rows),
            &Measure {
                warmup: Warmup::Requests(1),
                ..Measure::default()
            },
        );
        assert_eq!(
            (summary.warmup, summary.latency.samples, summary.completed),
            (1, 2, 3)
        );
        assert_eq!(summary.latency.max_ms, Some(2.0));
        let half = summarize(
            &record(&rows),
            &Measure {
                warmup: Warmup::Share(0.5),
                ..Measure::default()
            },
        );
        assert_eq!(half.warmup, 1);
    }

    #[test]
    fn mser_drops_the_slow_beginning() {
        // The first hundred requests take twice as long, and every tenth is never served.
        let rows: Vec<_> = (0..2000)
            .map(|i| {
                let time = if i < 100 { 20 } else { 10 } + i % 3;
                let finish = if i % 10 == 3 {
                    u64::MAX
                } else {
                    100 * i + time
                };
                (100 * i, 100 * i, finish)
            })
            .collect();
        let summary = summarize(
            &record(&rows),
            &Measure {
                warmup: Warmup::Mser5,
                ..Measure::default()
            },
        );
        assert_eq!(summary.steady, Some(true));
        assert!((100..=150).contains(&summary.warmup), "{}", summary.warmup);
        assert_eq!(summary.latency.max_ms, Some(12e-6));
        assert_eq!((summary.completed, summary.failed), (1800, 200));
    }

    #[test]
    fn a_summary_reads_back_as_it_was() {
        let summary = summarize(
            &queue(3000, 0.7, 4),
            &Measure {
                slo: Some(Nanos(1500)),
                ..Measure::default()
            },
        );
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    }
}
