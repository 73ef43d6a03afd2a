//! The metrics of a run, defined in docs/METRICS.md, and the laws and bounds that they obey.

pub mod stats;

pub mod times;
pub mod validity;
pub mod warmup;

mod order;
pub mod rejections;
mod saturation;
pub mod tokens;
mod window;

mod digest;

pub mod attainment;
pub mod bounds;
pub mod laws;

use serde::{Deserialize, Serialize};

use self::digest::RequestGroup;
pub use self::digest::{Measure, Summarize};
use self::rejections::count_reasons;
pub use self::times::Times;
use self::tokens::TokenSummary;
use self::validity::{Extrapolation, Lateness};
use self::window::Window;
use crate::base::units::{Nanos, Rate};
use crate::core::record::execution::Execution;
use crate::core::record::tally::Tally;

/// The metrics of one run. A rate over no time and a quantile of too few samples are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The rate that was asked for, otherwise [`Summary::achieved`].
    pub offered: Option<Rate>,
    /// The rate at which the measured requests arrived.
    pub achieved: Option<Rate>,
    /// The number of requests per second that finished in the window.
    pub throughput: Option<Rate>,
    /// The number of requests per second that finished in the window and met the SLO.
    pub goodput: Option<Rate>,
    /// The number of requests that were served, including the warm-up.
    pub completed: u64,
    /// The number of requests that arrived, but were neither served nor rejected.
    pub failed: u64,
    pub rejected: u64,
    /// The number of requests that the times below leave out.
    pub warmup: u64,
    /// Whether the latencies settle, or `None` if the warm-up's rule does not examine it.
    pub steady: Option<bool>,
    /// The number of independent requests that the measured ones are worth for quantiles and means of the latency, or
    /// `None` if the warm-up's rule does not count it or there are too few requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub independent: Option<f64>,
    /// The times from arrival to finish.
    pub latency: Times,
    /// The times from arrival to start.
    pub queue: Times,
    /// The times from start to finish.
    pub compute: Times,
    /// The mean batch size over all tasks.
    pub mean_batch: Option<f64>,
    /// The fraction of the executed cells that belonged to no request.
    pub padding: Option<f64>,
    /// The fraction of the run's time in which the workers were busy.
    pub utilization: Option<f64>,
    /// The fraction of the run's time in which each worker was busy.
    pub worker_utilization: Vec<f64>,
    /// The share of the run's time that passed after the last arrival without a task, while the last requests waited for
    /// their policy. `None` if it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_tail: Option<f64>,
    /// Whether the system did not keep up, or `None` if the run is too short to tell.
    pub saturated: Option<bool>,
    /// The cell types that ran outside the measured batch sizes. The caller fills them in from the cost table; a real
    /// device has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extrapolated: Vec<Extrapolation>,
    /// The lateness of the load generator, or `None` if the clock is virtual or clients wait for their answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// The number of rejected requests that had reached their deadline.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expired: u64,
    /// How often the policy gave each reason for a rejection, the most frequent first. Rejections without a reason are
    /// not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejection_reasons: Vec<(String, u64)>,
    /// The objective of goodput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Nanos>,
    /// The share of the measured requests that were served within the SLO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_slo: Option<f64>,
    /// The token metrics of a language model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenSummary>>,
    /// The metrics of each class's requests, without those of tasks and workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<(String, Summary)>,
}

impl Summary {
    /// Removes the number of independent requests, for runs that are repeated with the same requests.
    pub fn forget_independent(&mut self) {
        self.independent = None;
        for (_, class) in &mut self.classes {
            class.independent = None;
        }
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Computes the metrics of a run.
pub fn summarize(record: &impl Summarize, measure: &Measure) -> Summary {
    let digest = record.digest(measure);
    let window = Window::new(&digest.whole.tally);
    let requests = summarize_group(&digest.whole, window);
    let classes = digest
        .classes
        .iter()
        .map(|(name, group)| {
            let mut summary = summarize_group(group, window);
            // Requests of one class depend on each other as all do.
            let samples = summary.latency.samples as f64;
            summary.independent = digest.independent.map(|of_all| of_all.min(samples));
            (name.clone(), summary)
        })
        .collect();
    let execution = record.execution();
    let useful = share(execution.useful_cells, execution.executed_cells);
    let worker_utilization = worker_utilization(execution, digest.arrivals);
    Summary {
        offered: measure.offered.or(requests.achieved),
        steady: digest.steady,
        independent: digest.independent,
        saturated: digest.saturated,
        lateness: digest.lateness,
        tokens: digest.tokens,
        rejection_reasons: count_reasons(record.explained_rejections().iter()),
        classes,
        mean_batch: share(execution.batch_sum, execution.task_count),
        padding: useful.map(|useful| 1.0 - useful),
        utilization: mean_utilization(&worker_utilization),
        idle_tail: idle_tail(execution, digest.arrivals),
        worker_utilization,
        ..requests
    }
}

/// The metrics of a group of requests, without those of tasks and workers.
fn summarize_group(group: &RequestGroup<'_>, window: Option<Window>) -> Summary {
    let tally = &group.tally;
    let rates = window.and_then(|window| window.rates(tally));
    let goodput = match (rates, tally.slo) {
        (Some([_, good]), Some(_)) => Some(good),
        _ => None,
    };
    let within_slo = match tally.slo {
        Some(_) => share(tally.within_slo, tally.measured),
        None => None,
    };
    let [completed, rejected, expired, ..] = tally.outcomes;
    let [latency, queue, compute] = group.times;
    let achieved = arrival_rate(tally);
    Summary {
        offered: achieved,
        achieved,
        throughput: rates.map(|[all, _]| all),
        goodput,
        completed,
        failed: tally.arrived - completed - rejected - expired,
        rejected: rejected + expired,
        expired,
        warmup: tally.arrived - tally.measured,
        slo: tally.slo,
        within_slo,
        latency,
        queue,
        compute,
        ..Summary::default()
    }
}

/// The rate at which the measured requests arrived, or `None` if they arrived at one instant.
fn arrival_rate(tally: &Tally) -> Option<Rate> {
    let (first, last) = tally.period?;
    let seconds = (last - first).as_secs_f64();
    if seconds <= 0.0 {
        return None;
    }
    Some(Rate((tally.measured - 1) as f64 / seconds))
}

/// The fraction of the time from the first arrival to the last event in which each worker was busy; empty without time.
fn worker_utilization(execution: &Execution, arrivals: Option<(Nanos, Nanos)>) -> Vec<f64> {
    let Some(span) = run_time(execution, arrivals) else {
        return Vec::new();
    };
    execution
        .busy
        .iter()
        .map(|busy| busy.as_secs_f64() / span)
        .collect()
}

/// The seconds from the first arrival to the end, or `None` if they are none.
fn run_time(execution: &Execution, arrivals: Option<(Nanos, Nanos)>) -> Option<f64> {
    let (first, last) = arrivals?;
    let end = execution.end.max(last);
    let span = end.saturating_since(first).as_secs_f64();
    (span > 0.0).then_some(span)
}

fn idle_tail(execution: &Execution, arrivals: Option<(Nanos, Nanos)>) -> Option<f64> {
    let share = execution.idle_tail.as_secs_f64() / run_time(execution, arrivals)?;
    (share > 0.0).then_some(share)
}

fn mean_utilization(workers: &[f64]) -> Option<f64> {
    if workers.is_empty() {
        return None;
    }
    Some(workers.iter().sum::<f64>() / workers.len() as f64)
}

/// The share of a part in a whole, or `None` if the whole is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    if whole == 0 {
        return None;
    }
    Some(part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{Nanos, RequestId};
    use crate::core::record::Recorder;
    use crate::core::record::tests::{queue, record};
    use crate::core::summary::warmup::Warmup;

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
        // Two requests run as one batch, and the third alone. The fourth executed cell is padding.
        let mut run = record(&[
            (0, 2 * MS, 6 * MS),
            (MS, 2 * MS, 6 * MS),
            (4 * MS, 6 * MS, 9 * MS),
        ]);
        run.execution.busy[0] = Nanos(7 * MS);
        run.execution.task_count = 2;
        run.execution.batch_sum = 3;
        run.execution.executed_cells = 4;
        run.execution.useful_cells = 3;
        let measure = Measure {
            slo: Some(Nanos(5 * MS)),
            ..Measure::default()
        };
        let summary = summarize(&run, &measure);
        assert_near(rate(summary.offered), 500.0, 1e-12);
        // Nine tenths of the three requests are all three, so the window ends with the last at 9 ms.
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
        // The run has ten batches of 50, which take a millisecond each.
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
        stuck.reject(RequestId(2), Nanos(3 * MS));
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
        // The rows are not in the order of arrival, as in a closed loop.
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
    fn the_automatic_warmup_is_a_tenth_and_counts_independent_requests() {
        let measure = Measure {
            warmup: Warmup::Auto,
            ..Measure::default()
        };
        let light = summarize(&queue(20_009, 0.3, 1), &measure);
        assert_eq!((light.warmup, light.steady), (2000, None));
        let heavy = summarize(&queue(20_009, 0.95, 1), &measure);
        let [light, heavy] = [light, heavy].map(|summary| summary.independent.unwrap());
        assert!(light > 1000.0 && heavy < 250.0, "{light}, {heavy}");
        assert_eq!(summarize(&queue(300, 0.3, 1), &measure).independent, None);
        assert_eq!(
            summarize(&queue(20_009, 0.3, 1), &Measure::default()).independent,
            None
        );
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
