use std::borrow::Cow;

use super::order::OrderedRecord;
use super::saturation::{is_saturated, presence};
use super::times::Times;
use super::tokens::TokenSummary;
use super::validity::Lateness;
use super::warmup::Warmup;
use crate::base::units::{Nanos, Rate};
use crate::core::record::Recorder;
use crate::core::record::compact::{CompactGroup, CompactRecord};
use crate::core::record::full::FullRecord;
use crate::core::record::parts::LatencyParts;
use crate::core::record::tally::Tally;

/// How a run is summarised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The objective of goodput.
    pub slo: Option<Nanos>,
    pub warmup: Warmup,
    /// The requested rate. Without one, the arrival rate counts as offered.
    pub offered: Option<Rate>,
    /// Whether clients wait for their answers, so that no load generator can be late.
    pub closed_loop: bool,
}

impl Default for Measure {
    /// All requests count.
    fn default() -> Measure {
        Measure {
            slo: None,
            warmup: Warmup::None,
            offered: None,
            closed_loop: false,
        }
    }
}

/// A record that can be summarised.
pub trait Summarize: Recorder {
    /// What the summary is computed from. A compact record has had its objective and warm-up since before the run.
    fn digest(&self, measure: &Measure) -> Digest<'_>;
}

/// What both kinds of records give for a summary.
pub struct Digest<'a> {
    /// The first and last arrival.
    pub(super) arrivals: Option<(Nanos, Nanos)>,
    pub(super) whole: RequestGroup<'a>,
    pub(super) classes: Vec<(String, RequestGroup<'a>)>,
    pub(super) steady: Option<bool>,
    pub(super) independent: Option<f64>,
    pub(super) saturated: Option<bool>,
    pub(super) lateness: Option<Lateness>,
    pub(super) tokens: Option<Box<TokenSummary>>,
}

/// The requests of a run or of one class.
pub(super) struct RequestGroup<'a> {
    pub tally: Cow<'a, Tally>,
    /// The latency, the time in the queue, and the time from start to finish.
    pub times: [Times; 3],
}

impl Summarize for FullRecord {
    fn digest(&self, measure: &Measure) -> Digest<'_> {
        let run = OrderedRecord::new(self);
        let (warmup, steady) = run.warmup(measure.warmup);
        let measured = &run.order[warmup..];
        let period = run.period(measured);
        let whole = RequestGroup {
            tally: Cow::Owned(run.tally(&run.order, warmup, period, measure.slo)),
            times: run.times(measured),
        };
        let mut classes = Vec::new();
        if let Some(known) = &self.classes {
            for (class, members) in known.all.iter().zip(run.members(known, warmup)) {
                // A class without an objective has the scenario's.
                let slo = class.slo.or(measure.slo);
                let tally = run.tally(&members.requests, members.warmup, period, slo);
                let group = RequestGroup {
                    tally: Cow::Owned(tally),
                    times: run.times(&members.requests[members.warmup..]),
                };
                classes.push((class.name.to_string(), group));
            }
        }
        let independent = match measure.warmup {
            Warmup::Auto => run.independent(measured),
            _ => None,
        };
        let lateness = match self.lateness.get(warmup..) {
            Some(spans) if !measure.closed_loop => Lateness::new(spans, whole.times[0].p50_ms),
            _ => None,
        };
        let tokens = self
            .tokens
            .as_ref()
            .map(|tokens| TokenSummary::new(tokens, &run, measured).into());
        Digest {
            arrivals: run.period(&run.order),
            whole,
            classes,
            steady,
            independent,
            saturated: presence(&run).and_then(|presence| is_saturated(&presence)),
            lateness,
            tokens,
        }
    }
}

impl Summarize for CompactRecord {
    fn digest(&self, _measure: &Measure) -> Digest<'_> {
        let mut classes = Vec::with_capacity(self.classes.len());
        for (class, group) in self.classes.iter().zip(&self.by_class) {
            classes.push((class.name.to_string(), RequestGroup::from_compact(group)));
        }
        Digest {
            arrivals: self.arrivals(),
            whole: RequestGroup::from_compact(&self.whole),
            classes,
            steady: None,
            independent: self.parts.as_ref().and_then(LatencyParts::independent),
            saturated: is_saturated(&self.presence),
            lateness: None,
            tokens: None,
        }
    }
}

impl<'a> RequestGroup<'a> {
    fn from_compact(group: &'a CompactGroup) -> RequestGroup<'a> {
        let times = [&group.latency, &group.queue, &group.compute].map(Times::from_histogram);
        RequestGroup {
            tally: Cow::Borrowed(&group.tally),
            times,
        }
    }
}
