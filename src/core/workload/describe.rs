//! The statistics of a trace's arrivals and lengths.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::shape::Shape;
use super::shared_list::SharedList;
use super::trace::Trace;
use crate::base::units::Nanos;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    pub requests: usize,
    pub span_s: f64,
    /// The gaps per second of the span; `None` if all requests arrive at once.
    pub rate_rps: Option<f64>,
    /// The standard deviation of the gaps over their mean; `None` if all requests arrive at once.
    pub gap_cv: Option<f64>,
    pub peak: Option<Peak>,
    /// Requests of equal parts of the span; empty if all arrive at once.
    pub parts: Vec<SpanPart>,
    /// Whether the parts differ by no more than chance explains; `None` if there are too few requests to tell.
    pub stationary: Option<bool>,
    pub coarse_stamps: Option<CoarseStamps>,
    pub kinds: Vec<KindCount>,
    pub lengths: Vec<Lengths>,
    pub histogram: Vec<Bin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KindCount {
    pub kind: &'static str,
    pub requests: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    pub window_s: f64,
    pub rate_rps: f64,
    pub over_mean: f64,
}

/// The requests of a part of the span.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpanPart {
    pub from_s: f64,
    pub requests: usize,
    pub rate_rps: f64,
}

/// Stamps that are whole multiples of a unit, so that requests seem to arrive at once that did not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoarseStamps {
    pub unit_ns: Nanos,
    /// The share of requests that have their stamp in common with another.
    pub shared: f64,
}

impl fmt::Display for CoarseStamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit_ns;
        let percent = 100.0 * self.shared;
        write!(
            f,
            "all stamps are multiples of {unit}, and {percent:.0} % of the requests share theirs with another, which makes \
             batches that never were; --spread {unit} of trace import and trace convert spreads them"
        )
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lengths {
    pub what: &'static str,
    pub mean: f64,
    pub sd: f64,
    pub min: u32,
    pub p50: u32,
    pub p90: u32,
    pub p99: u32,
    pub max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bin {
    pub from: u32,
    pub to: u32,
    pub count: usize,
}

impl Description {
    /// Describes a trace. By default the window of the peak is a second; in a span below ten seconds it is the longest
    /// of 100 ms, 10 ms … that fits ten times.
    pub fn from_trace(trace: &Trace, window: Option<Nanos>) -> Description {
        let span = match &trace.arrivals[..] {
            [first, .., last] => *last - *first,
            _ => Nanos::ZERO,
        };
        let rate = (span > Nanos::ZERO).then(|| (trace.len() - 1) as f64 / span.as_secs_f64());
        let window = window.unwrap_or_else(|| {
            let powers = (0..=9).rev().map(|power| 10u64.pow(power));
            Nanos(
                powers
                    .into_iter()
                    .find(|window| window * 10 <= span.0)
                    .unwrap_or(1),
            )
        });
        let mut lengths: Vec<u32> = trace.shapes.iter().map(Shape::length).collect();
        lengths.sort_unstable();
        let parts = parts(&trace.arrivals);
        let cv = gap_cv(&trace.arrivals);
        Description {
            requests: trace.len(),
            span_s: span.as_secs_f64(),
            rate_rps: rate,
            gap_cv: rate.and(cv),
            peak: rate.map(|mean| peak(&trace.arrivals, window, mean)),
            stationary: cv.and_then(|cv| is_stationary(&parts, cv)),
            parts,
            coarse_stamps: describe_coarse(&trace.arrivals),
            kinds: kinds(&trace.shapes),
            lengths: length_statistics(&trace.shapes),
            histogram: histogram(&lengths),
        }
    }
}

/// The number of equal parts of the span.
const PARTS: usize = 10;
/// The mean number of requests of a part from which parts are compared.
const ENOUGH: f64 = 10.0;
/// The quantile 99.9 % of chi-square with nine degrees of freedom.
const CRITICAL: f64 = 27.877;
/// The ratio of the largest part to the smallest from which a difference matters.
const MATTERS: f64 = 1.5;

/// Counts the requests of each part of the span. The last request belongs to the last part.
fn parts(arrivals: &[Nanos]) -> Vec<SpanPart> {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Vec::new();
    };
    let span = *last - *first;
    if span == Nanos::ZERO {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut rest = arrivals;
    for part in 1..=PARTS as u128 {
        let end = u128::from(span.0) * part / PARTS as u128;
        let count = match part == PARTS as u128 {
            true => rest.len(),
            false => rest.partition_point(|at| u128::from((*at - *first).0) < end),
        };
        let seconds = span.as_secs_f64() / PARTS as f64;
        parts.push(SpanPart {
            from_s: (part - 1) as f64 * seconds,
            requests: count,
            rate_rps: count as f64 / seconds,
        });
        rest = &rest[count..];
    }
    parts
}

/// Whether the numbers of requests in the parts differ by no more than chance explains. The index of dispersion is
/// compared with that of independent gaps of this variation, which is its square (Cox and Lewis, The Statistical
/// Analysis of Series of Events, 1966, chapter 4).
fn is_stationary(parts: &[SpanPart], cv: f64) -> Option<bool> {
    let counts = || parts.iter().map(|part| part.requests as f64);
    let mean = counts().sum::<f64>() / parts.len() as f64;
    if parts.is_empty() || mean < ENOUGH {
        return None;
    }
    let dispersion: f64 = counts().map(|count| (count - mean).powi(2) / mean).sum();
    let least = counts().fold(f64::INFINITY, f64::min);
    let most = counts().fold(0.0, f64::max);
    Some(dispersion <= CRITICAL * cv.powi(2).max(1.0) || most < MATTERS * least)
}

/// The largest share of requests that may have their stamp in common with another before stamps count as coarse.
const MAX_SHARED: f64 = 0.05;

/// Describes stamps of which all are whole multiples of a millisecond or more, and many are equal; `None` for others.
pub fn describe_coarse(arrivals: &[Nanos]) -> Option<CoarseStamps> {
    const UNITS: [u64; 5] = [
        60_000_000_000,
        1_000_000_000,
        100_000_000,
        10_000_000,
        1_000_000,
    ];
    let first = *arrivals.first()?;
    let unit = UNITS.into_iter().find(|unit| {
        let mut gaps = arrivals.iter().map(|at| (*at - first).0);
        gaps.all(|gap| gap.is_multiple_of(*unit))
    })?;
    let mut stamps: BTreeMap<Nanos, usize> = BTreeMap::new();
    for at in arrivals {
        *stamps.entry(*at).or_default() += 1;
    }
    let shared: usize = stamps.values().filter(|count| **count > 1).sum();
    let shared = shared as f64 / arrivals.len() as f64;
    if stamps.len() < 2 || shared < MAX_SHARED {
        return None;
    }
    Some(CoarseStamps {
        unit_ns: Nanos(unit),
        shared,
    })
}

/// The coefficient of variation of the gaps.
fn gap_cv(arrivals: &[Nanos]) -> Option<f64> {
    let gaps = || arrivals.windows(2).map(|pair| (pair[1] - pair[0]).0 as f64);
    let (mean, sd) = mean_and_sd(gaps())?;
    if mean > 0.0 { Some(sd / mean) } else { None }
}

/// The most requests in a window of this length, as a rate.
fn peak(arrivals: &[Nanos], window: Nanos, mean_rate: f64) -> Peak {
    let mut end = 0;
    let mut most = 0;
    for (begin, at) in arrivals.iter().enumerate() {
        while arrivals
            .get(end)
            .is_some_and(|next| next.saturating_since(*at) < window)
        {
            end += 1;
        }
        most = most.max(end - begin);
    }
    let rate_rps = most as f64 / window.as_secs_f64();
    Peak {
        window_s: window.as_secs_f64(),
        rate_rps,
        over_mean: rate_rps / mean_rate,
    }
}

/// The number of requests of each kind, the most frequent first.
fn kinds(shapes: &SharedList<Shape>) -> Vec<KindCount> {
    let mut kinds: Vec<KindCount> = Vec::new();
    for shape in shapes.iter() {
        match kinds.iter_mut().find(|kind| kind.kind == shape.kind()) {
            Some(kind) => kind.requests += 1,
            None => kinds.push(KindCount {
                kind: shape.kind(),
                requests: 1,
            }),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.requests));
    kinds
}

fn length_statistics(shapes: &SharedList<Shape>) -> Vec<Lengths> {
    type Figure = (&'static str, fn(&Shape) -> Option<u32>);
    let figures: [Figure; 7] = [
        ("chain steps", |shape| {
            if let Shape::Chain(n) = shape {
                Some(*n)
            } else {
                None
            }
        }),
        ("source steps", |shape| {
            if let Shape::Seq2Seq { source, .. } = shape {
                Some(*source)
            } else {
                None
            }
        }),
        ("target steps", |shape| {
            if let Shape::Seq2Seq { target, .. } = shape {
                Some(*target)
            } else {
                None
            }
        }),
        ("tokens", |shape| {
            if let Shape::Tokens(n) = shape {
                Some(*n)
            } else {
                None
            }
        }),
        ("tree nodes", |shape| {
            if let Shape::Tree(tree) = shape {
                Some(tree.len() as u32)
            } else {
                None
            }
        }),
        ("tree leaves", |shape| {
            if let Shape::Tree(tree) = shape {
                Some(tree.leaves() as u32)
            } else {
                None
            }
        }),
        ("tree height", |shape| {
            if let Shape::Tree(tree) = shape {
                Some(tree.height())
            } else {
                None
            }
        }),
    ];
    figures
        .into_iter()
        .filter_map(|(what, figure)| {
            Lengths::from_values(what, shapes.iter().filter_map(figure).collect())
        })
        .collect()
}

impl Lengths {
    fn from_values(what: &'static str, mut values: Vec<u32>) -> Option<Lengths> {
        let (mean, sd) = mean_and_sd(values.iter().map(|value| f64::from(*value)))?;
        values.sort_unstable();
        let quantile = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        Some(Lengths {
            what,
            mean,
            sd,
            min: values[0],
            p50: quantile(50),
            p90: quantile(90),
            p99: quantile(99),
            max: values[values.len() - 1],
        })
    }
}

/// The mean and the standard deviation of a population; `None` without values.
pub fn mean_and_sd(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let n = values.clone().count() as f64;
    if n == 0.0 {
        return None;
    }
    let mean = values.clone().sum::<f64>() / n;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    Some((mean, variance.sqrt()))
}

/// Counts ascending lengths in bins of one width, or of growing widths if most lengths would lie in the first bin.
fn histogram(lengths: &[u32]) -> Vec<Bin> {
    const MOST_BINS: u32 = 20;
    let Some(&longest) = lengths.last() else {
        return Vec::new();
    };
    let width = round_widths()
        .find(|width| longest.div_ceil(*width) <= MOST_BINS)
        .unwrap_or(longest);
    let heavy_tail =
        width > 1 && 2 * lengths.partition_point(|length| *length <= width) > lengths.len();
    let ends: Vec<u32> = if heavy_tail {
        round_widths()
            .take_while(|end| *end < longest)
            .chain([longest])
            .collect()
    } else {
        (1..=longest.div_ceil(width))
            .map(|bin| bin.saturating_mul(width))
            .collect()
    };
    let mut bins = Vec::with_capacity(ends.len());
    let mut rest = lengths;
    let mut from = 1;
    for to in ends {
        let count = rest.partition_point(|length| *length <= to);
        bins.push(Bin { from, to, count });
        rest = &rest[count..];
        from = to.saturating_add(1);
    }
    bins
}

/// The widths 1, 2, 5, 10, 20, 50 and so on.
fn round_widths() -> impl Iterator<Item = u32> {
    (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u32.pow(power)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::workload::cell_graph::tree::Tree;

    fn trace(arrivals: &[u64], shapes: &[&str]) -> Trace {
        Trace {
            arrivals: arrivals.iter().copied().map(Nanos).collect(),
            shapes: shapes
                .iter()
                .map(|shape| shape.parse::<Shape>().unwrap())
                .collect::<Vec<_>>()
                .into(),
            classes: None,
        }
    }

    #[test]
    fn even_arrivals_have_no_variation() {
        let arrivals: Vec<u64> = (0..101).map(|i| i * 1_000_000_000).collect();
        let shapes = vec!["chain:4"; 101];
        let about =
            Description::from_trace(&trace(&arrivals, &shapes), Some(Nanos(10_000_000_000)));
        assert_eq!((about.rate_rps, about.gap_cv), (Some(1.0), Some(0.0)));
        let peak = about.peak.unwrap();
        assert_eq!(
            (peak.window_s, peak.rate_rps, peak.over_mean),
            (10.0, 1.0, 1.0)
        );
    }

    #[test]
    fn the_peak_is_found_between_the_seconds() {
        let about = Description::from_trace(
            &trace(&[0, 1_900, 2_100, 10_000], &["fixed"; 4]),
            Some(Nanos(1_000)),
        );
        assert_eq!(about.peak.unwrap().rate_rps, 2e6);
        let unasked =
            Description::from_trace(&trace(&[0, 1_900, 2_100, 10_000], &["fixed"; 4]), None);
        assert_eq!(unasked.peak.unwrap().window_s, 1e-6);
    }

    /// A request in the middle of each of these gaps.
    fn described(gaps: &[u64]) -> Description {
        let mut now = 0;
        let mut arrivals = vec![0];
        for gap in gaps {
            now += gap;
            arrivals.push(now);
        }
        Description::from_trace(&trace(&arrivals, &vec!["fixed"; arrivals.len()]), None)
    }

    #[test]
    fn a_load_that_drifts_is_told_from_one_that_scatters() {
        // Gaps of 1 and 3 in turn scatter, gaps of 1 and then of 3 drift.
        let turns: Vec<u64> = (0..1000).map(|i| 1 + 2 * (i % 2)).collect();
        let drift: Vec<u64> = (0..1000).map(|i| 1 + 2 * (i / 500)).collect();
        assert_eq!(described(&turns).stationary, Some(true));
        let about = described(&drift);
        assert_eq!(about.stationary, Some(false));
        let counts: Vec<usize> = about.parts.iter().map(|part| part.requests).collect();
        assert_eq!((counts[0], counts[9]), (200, 67));
        assert_eq!(counts.iter().sum::<usize>(), 1001);
        assert_eq!(described(&drift[450..540]).stationary, None);
    }

    #[test]
    fn stamps_in_whole_seconds_are_noticed() {
        let stamps = |seconds: &[u64]| {
            let at: Vec<Nanos> = seconds.iter().map(|s| Nanos(s * 1_000_000_000)).collect();
            describe_coarse(&at)
        };
        let coarse = stamps(&[5, 5, 5, 6, 6]).unwrap();
        assert_eq!((coarse.unit_ns, coarse.shared), (Nanos(1_000_000_000), 1.0));
        // Equal gaps alone, or one instant, are no sign of rounding.
        assert_eq!(stamps(&[5, 6, 7, 8]), None);
        assert_eq!(stamps(&[5, 5, 5]), None);
        let fine = [Nanos(5), Nanos(5), Nanos(1_000_007)];
        assert_eq!(describe_coarse(&fine), None);
    }

    #[test]
    fn requests_at_one_instant_have_no_rate() {
        for arrivals in [&[5][..], &[5, 5, 5]] {
            let about =
                Description::from_trace(&trace(arrivals, &["fixed"; 3][..arrivals.len()]), None);
            assert_eq!(
                (about.rate_rps, about.gap_cv, about.peak),
                (None, None, None)
            );
        }
    }

    #[test]
    fn lengths_are_told_apart_by_kind() {
        let about = Description::from_trace(
            &trace(
                &[0, 1, 2, 3],
                &["seq2seq:2>4", "seq2seq:4>8", "tree:3 3 0", "seq2seq:4>9"],
            ),
            None,
        );
        assert_eq!(
            about.kinds,
            [
                KindCount {
                    kind: "seq2seq",
                    requests: 3
                },
                KindCount {
                    kind: "tree",
                    requests: 1
                }
            ]
        );
        let what: Vec<_> = about
            .lengths
            .iter()
            .map(|l| (l.what, l.min, l.p50, l.max))
            .collect();
        assert_eq!(
            what,
            [
                ("source steps", 2, 4, 4),
                ("target steps", 4, 8, 9),
                ("tree nodes", 3, 3, 3),
                ("tree leaves", 2, 2, 2),
                ("tree height", 1, 1, 1)
            ]
        );
    }

    #[test]
    fn quantiles_are_the_nearest_rank() {
        let hundred = Lengths::from_values("n", (1..=100).rev().collect()).unwrap();
        assert_eq!(
            (hundred.p50, hundred.p90, hundred.p99, hundred.max),
            (50, 90, 99, 100)
        );
        assert_eq!(
            (hundred.mean, hundred.sd),
            (50.5, (9999.0f64 / 12.0).sqrt())
        );
    }

    #[test]
    fn a_histogram_has_round_bins() {
        assert_eq!(
            histogram(&[1, 10, 11, 100])
                .iter()
                .filter(|bin| bin.count > 0)
                .copied()
                .collect::<Vec<_>>(),
            [
                Bin {
                    from: 1,
                    to: 5,
                    count: 1
                },
                Bin {
                    from: 6,
                    to: 10,
                    count: 1
                },
                Bin {
                    from: 11,
                    to: 15,
                    count: 1
                },
                Bin {
                    from: 96,
                    to: 100,
                    count: 1
                }
            ]
        );
        assert_eq!(
            histogram(&[1, 1]),
            [Bin {
                from: 1,
                to: 1,
                count: 2
            }]
        );
        let tail: Vec<_> = histogram(&[3, 4, 7, 900])
            .iter()
            .map(|bin| (bin.from, bin.to, bin.count))
            .collect();
        let all = [
            (1, 1, 0),
            (2, 2, 0),
            (3, 5, 2),
            (6, 10, 1),
            (11, 20, 0),
            (21, 50, 0),
            (51, 100, 0),
            (101, 200, 0),
        ];
        assert_eq!(tail, [&all[..], &[(201, 500, 0), (501, 900, 1)]].concat());
        let most = histogram(&[1 << 30]);
        assert!(most.len() <= 20 && most[most.len() - 1].count == 1);
    }

    #[test]
    fn height_counts_edges_in_any_order_of_nodes() {
        for (parents, edges) in [
            ("0", 0),
            ("3 3 0", 1),
            ("0 1 2 3", 3),
            ("2 3 4 0", 3),
            ("3 0 2 2", 2),
        ] {
            let tree: Tree = parents.parse().unwrap();
            assert_eq!(tree.height(), edges, "{parents}");
        }
    }

    #[test]
    fn nothing_is_described_as_nothing() {
        let empty = Trace {
            arrivals: Arc::new([]),
            shapes: Vec::new().into(),
            classes: None,
        };
        let about = Description::from_trace(&empty, None);
        assert_eq!(
            (about.requests, about.rate_rps, about.histogram.len()),
            (0, None, 0)
        );
    }
}
