//! Right answers: what requests came to in a real run, against the same requests run alone, bit for bit.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::seq::index;
use rayon::prelude::*;

use super::target::Verify;
use crate::error::{Error, Result};
use crate::metrics::recorder::Recorder;
use crate::network::Network;
use crate::units::{Nanos, RequestId};
use crate::workload::random::Stream;
use crate::workload::trace::Requests;

/// How many requests a sample has.
const SAMPLE: usize = 32;

/// A request with the digest of what it came to in a run.
pub type Digest = (RequestId, Option<u64>);

/// The finished requests of a run that are to be compared, ascending.
pub fn chosen(verify: Verify, record: &Recorder, rng: &mut Stream) -> Vec<RequestId> {
    let finished = || (0u32..).zip(&record.finish).filter(|(_, at)| **at != Nanos::MAX).map(|(id, _)| RequestId(id));
    match verify {
        Verify::None => Vec::new(),
        Verify::All => finished().collect(),
        Verify::Sample => {
            let all: Vec<RequestId> = finished().collect();
            let mut places = index::sample(rng, all.len(), SAMPLE.min(all.len())).into_vec();
            places.sort_unstable();
            places.into_iter().map(|place| all[place]).collect()
        }
    }
}

/// Runs each request alone and compares the digests.
///
/// # Errors
/// Names the first request whose result differs or is missing; [`Error::Interrupted`] once `stop` is set.
pub fn compare(network: &Network, requests: &Requests, digests: &[Digest], stop: &AtomicBool) -> Result<()> {
    let wrong = digests.par_iter().find_map_first(|(request, found)| {
        if stop.load(Ordering::Relaxed) {
            return Some(Error::Interrupted);
        }
        let alone = network.alone(*request, &requests.graphs[request.index()]).digest();
        (*found != Some(alone)).then(|| {
            let found = found.map_or("no result at all".into(), |found| format!("a result of digest {found:016x}"));
            Error::failed(format!("request {request} has {found}, but run alone one of digest {alone:016x}"))
        })
    });
    wrong.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::recorder::Keep;
    use crate::network::Spec;
    use crate::workload::model::Model;
    use crate::workload::random;
    use crate::workload::shape::Shape;

    fn record(finished: impl Fn(u32) -> bool) -> Recorder {
        let mut record = Recorder::new(100, 1, 1, Keep::default());
        (0..100).filter(|id| finished(*id)).for_each(|id| record.finish[id as usize] = Nanos(1));
        record
    }

    #[test]
    fn a_sample_is_of_the_finished_and_the_seeds_own() {
        let odd = record(|id| id % 2 == 1);
        let draw = |seed| chosen(Verify::Sample, &odd, &mut random::stream(seed, 0, "verify"));
        let sample = draw(1);
        assert_eq!(sample.len(), SAMPLE);
        assert!(sample.is_sorted() && sample.iter().all(|request| request.0 % 2 == 1), "{sample:?}");
        assert_eq!((&draw(1), draw(2) == sample), (&sample, false));
    }

    #[test]
    fn few_are_all() {
        let rng = &mut random::stream(1, 0, "verify");
        let few = record(|id| id < 3);
        let all = [0, 1, 2].map(RequestId);
        assert_eq!(chosen(Verify::Sample, &few, rng), all);
        assert_eq!(chosen(Verify::All, &few, rng), all);
        assert!(chosen(Verify::None, &few, rng).is_empty());
        assert!(chosen(Verify::Sample, &record(|_| false), rng).is_empty());
    }

    #[test]
    fn a_wrong_or_missing_result_is_named() {
        let spec = Spec { hidden: 4, embedding: 4, vocabulary: 9, seed: 1, weights: None };
        let network = Network::new(&Model::Lstm, &spec).unwrap();
        let requests = Requests::unfold(vec![Shape::Chain(3); 3].into(), &Model::Lstm).unwrap();
        let right = |id: u32| Some(network.alone(RequestId(id), &requests.graphs[id as usize]).digest());
        let check = |found: [Option<u64>; 3]| {
            let digests: Vec<Digest> = (0..3).map(RequestId).zip(found).collect();
            compare(&network, &requests, &digests, &AtomicBool::new(false)).map_err(|error| error.to_string())
        };
        assert_eq!(check([right(0), right(1), right(2)]), Ok(()));
        assert_ne!(right(0), right(1), "other words come to other results");
        let other = check([right(0), right(0), right(2)]).unwrap_err();
        assert!(other.starts_with("request 1 has a result of digest "), "{other}");
        let missing = check([right(0), right(1), None]).unwrap_err();
        assert!(missing.starts_with("request 2 has no result at all, but run alone one of digest "), "{missing}");
    }
}
