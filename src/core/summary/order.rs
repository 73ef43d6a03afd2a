use super::times::Times;
use super::warmup::{AUTO_PARTS, Truncation, Warmup, mser5};
use crate::base::units::Nanos;
use crate::core::record::full::{Departures, FullRecord, to_instant};
use crate::core::record::parts::LatencyParts;
use crate::core::record::tally::Tally;
use crate::core::workload::class::Classes;

/// A full record with the order of its requests and their departures, which several metrics need.
pub(super) struct OrderedRecord<'a> {
    pub record: &'a FullRecord,
    /// The requests that arrived, in the order of arrival.
    pub order: Vec<u32>,
    pub departures: Departures<'a>,
}

/// The times of a request that finished, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct RequestSpans {
    /// The time from arrival to finish.
    pub latency: u64,
    /// The time from arrival to start.
    pub queue: u64,
    /// The time from start to finish, which is 0 without a task.
    pub compute: u64,
}

/// Requests in the order of arrival.
#[derive(Clone, Default)]
pub(super) struct ClassMembers {
    pub requests: Vec<u32>,
    /// The number of requests at the start that are in the warm-up.
    pub warmup: usize,
}

impl<'a> OrderedRecord<'a> {
    pub fn new(record: &'a FullRecord) -> Self {
        OrderedRecord {
            record,
            order: record.arrival_order(),
            departures: record.departures(),
        }
    }

    /// The arrival of a request, in nanoseconds.
    pub fn arrival(&self, request: u32) -> u64 {
        self.record.arrival[request as usize].0
    }

    /// The first and last arrival of these requests, which are in the order of arrival.
    pub fn period(&self, requests: &[u32]) -> Option<(Nanos, Nanos)> {
        let first = requests.first()?;
        let last = requests.last()?;
        Some((Nanos(self.arrival(*first)), Nanos(self.arrival(*last))))
    }

    /// Adds up requests that are in the order of arrival; the first `warmup` of them are the warm-up. `measured` is the
    /// first and last measured arrival of the run.
    pub fn tally(
        &self,
        requests: &[u32],
        warmup: usize,
        measured: Option<(Nanos, Nanos)>,
        slo: Option<Nanos>,
    ) -> Tally {
        let mut tally = Tally::new(slo);
        for (rank, &request) in requests.iter().enumerate() {
            let (left, outcome) = self.departures.get(request as usize);
            tally.add_arrival(Nanos(self.arrival(request)), rank >= warmup);
            tally.outcomes[outcome as usize] += 1;
            let Some(spans) = self.spans(request) else {
                continue;
            };
            let good = tally.add_latency(spans.latency, rank >= warmup);
            if let Some((first, last)) = measured
                && left >= first
            {
                tally.add_finish(left, good, left > last);
            }
        }
        tally
    }

    /// The distributions of the latency, the time in the queue, and the time from start to finish.
    pub fn times(&self, requests: &[u32]) -> [Times; 3] {
        let rows = requests.iter().filter_map(|request| {
            let spans = self.spans(*request)?;
            Some([spans.latency, spans.queue, spans.compute])
        });
        Times::from_rows(rows)
    }

    /// The times of a request, or `None` if it has not finished.
    #[inline]
    pub fn spans(&self, request: u32) -> Option<RequestSpans> {
        let request = request as usize;
        let finish = to_instant(self.record.finish[request])?;
        let latency = finish.saturating_since(self.record.arrival[request]).0;
        let compute = finish.saturating_since(self.record.start[request]).0;
        Some(RequestSpans {
            latency,
            queue: latency - compute,
            compute,
        })
    }

    /// The requests of each class. The first `warmup` requests of the run are the warm-up.
    pub fn members(&self, classes: &Classes, warmup: usize) -> Vec<ClassMembers> {
        let mut members = vec![ClassMembers::default(); classes.all.len()];
        for (rank, &request) in self.order.iter().enumerate() {
            let class = &mut members[usize::from(classes.of[request as usize])];
            class.requests.push(request);
            class.warmup += usize::from(rank < warmup);
        }
        members
    }

    /// The number of requests in the warm-up, and whether the latencies settle if the rule examines it.
    pub fn warmup(&self, rule: Warmup) -> (usize, Option<bool>) {
        let all = self.order.len();
        match rule {
            Warmup::Auto => (all / AUTO_PARTS, None),
            Warmup::None => (0, None),
            Warmup::Requests(n) => ((n as usize).min(all), None),
            // `as` maps NaN to zero and saturates; a fraction above 1 leaves out all.
            Warmup::Share(share) => (((share * all as f64) as usize).min(all), None),
            Warmup::Mser5 => self.mser5_warmup(),
        }
    }

    /// The number of independent requests that the measured ones are worth, if it can be told.
    pub fn independent(&self, measured: &[u32]) -> Option<f64> {
        let mut parts = LatencyParts::new(measured.len() as u64);
        for (rank, &request) in measured.iter().enumerate() {
            if let Some(spans) = self.spans(request) {
                parts.add(rank as u64, spans.latency);
            }
        }
        parts.independent()
    }

    fn mser5_warmup(&self) -> (usize, Option<bool>) {
        let mut ranks = Vec::with_capacity(self.order.len());
        let mut latencies = Vec::with_capacity(self.order.len());
        for (rank, request) in self.order.iter().enumerate() {
            if let Some(spans) = self.spans(*request) {
                ranks.push(rank);
                latencies.push(spans.latency as f64);
            }
        }
        match mser5(&latencies) {
            Truncation::Steady(0) => (0, Some(true)),
            // The rule counts finished requests; the others between them are dropped too.
            Truncation::Steady(dropped) => (ranks[dropped], Some(true)),
            Truncation::NotSteady => (0, Some(false)),
            Truncation::TooFew => (0, None),
        }
    }
}
