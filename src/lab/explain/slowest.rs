//! The slowest requests of runs, as their logs have them.

use std::cmp::Reverse;

use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, RequestId};
use crate::core::summary::stats::Quantile;
use crate::lab::results::logs::{LogRow as _, RequestLine};
use crate::lab::results::read::Log;
use crate::lab::validate::results::RecordedPoint;

/// A request, and the place of its point among those that were searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    pub point: usize,
    pub request: RequestId,
    pub latency: Nanos,
}

/// The slowest requests of some points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowestRequests {
    /// The requests, the slowest first. Of equally slow ones the earlier comes first.
    pub requests: Vec<SlowRequest>,
    /// The number of requests that were compared.
    pub compared: usize,
}

/// Finds the slowest of the measured requests that were served at these points.
///
/// # Errors
/// Fails if a point has no request log.
pub fn find_slowest(points: &[RecordedPoint], count: usize) -> Result<SlowestRequests> {
    let mut requests: Vec<SlowRequest> = Vec::new();
    let mut compared = 0;
    for (place, point) in points.iter().enumerate() {
        let latencies = measured_latencies(point)?;
        compared += latencies.len();
        for (latency, request) in latencies {
            requests.push(SlowRequest {
                point: place,
                request,
                latency,
            });
        }
        requests.sort_by_key(|slow| (Reverse(slow.latency), slow.point, slow.request));
        requests.truncate(count);
    }
    Ok(SlowestRequests { requests, compared })
}

/// The request of a point whose latency is this quantile of the measured ones, as in the summary. The first of several.
///
/// # Errors
/// Fails if the point has no request log, or if no measured request was served.
pub fn find_quantile(point: &RecordedPoint, quantile: Quantile) -> Result<RequestId> {
    let mut latencies = measured_latencies(point)?;
    if latencies.is_empty() {
        return Err(nothing_measured(point));
    }
    latencies.sort_unstable();
    let at = latencies[quantile.rank(latencies.len()) - 1].0;
    let first = latencies.partition_point(|(latency, _)| *latency < at);
    Ok(latencies[first].1)
}

/// The slowest request of a point.
///
/// # Errors
/// Fails as [`find_quantile`] does.
pub fn find_worst(point: &RecordedPoint) -> Result<RequestId> {
    let slowest = find_slowest(std::slice::from_ref(point), 1)?;
    match slowest.requests.first() {
        Some(slow) => Ok(slow.request),
        None => Err(nothing_measured(point)),
    }
}

fn nothing_measured(point: &RecordedPoint) -> Error {
    Error::mistake(&point.folder, "none of its measured requests was served")
}

/// The latencies of the measured requests that were served, in the order of the log.
fn measured_latencies(point: &RecordedPoint) -> Result<Vec<(Nanos, RequestId)>> {
    let Some(mut log) = Log::<RequestLine>::open_if_there(&point.folder.join(RequestLine::FILE))?
    else {
        return Err(Error::mistake(
            &point.folder,
            "has no requests.csv to find slow requests in; run it with output.requests = true, or name a request by its \
             number",
        ));
    };
    let mut latencies = Vec::new();
    while let Some(line) = log.read()? {
        if line.measured == 1
            && let Some(finish) = line.finish_ns
        {
            latencies.push((finish - line.arrival_ns, line.id));
        }
    }
    Ok(latencies)
}
