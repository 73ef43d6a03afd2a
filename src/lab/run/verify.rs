//! Compares results of a real run with the same requests run alone on the CPU: bit for bit on a CPU, within a
//! [`Tolerance`] on a GPU.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::seq::index;
use rayon::prelude::*;

use super::executor::Verify;
pub use super::tolerance::{LargestError, Tolerance};
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, RequestId};
pub use crate::core::backend::Answer;
use crate::core::record::full::FullRecord;
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::random::RandomSequence;
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;

const SAMPLE: usize = 32;

pub type Answered = (RequestId, Option<Answer>);

/// The outcome of a comparison without errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verified {
    pub requests: usize,
    /// The largest error, or `None` if all bits are equal.
    pub largest: Option<LargestError>,
}

impl std::iter::Sum for Verified {
    fn sum<I: Iterator<Item = Verified>>(iter: I) -> Verified {
        iter.fold(Verified::default(), |a, b| Verified {
            requests: a.requests + b.requests,
            largest: [a.largest, b.largest]
                .into_iter()
                .flatten()
                .reduce(LargestError::max),
        })
    }
}

pub fn finished_requests(record: &FullRecord) -> Vec<RequestId> {
    let all = (0u32..).zip(&record.finish);
    all.filter(|(_, at)| **at != Nanos::MAX)
        .map(|(id, _)| RequestId(id.into()))
        .collect()
}

/// Chooses the requests to compare, in ascending order like `all`.
pub fn chosen(verify: Verify, all: Vec<RequestId>, rng: &mut RandomSequence) -> Vec<RequestId> {
    match verify {
        Verify::None => Vec::new(),
        Verify::All => all,
        Verify::Sample => {
            let mut places = index::sample(rng, all.len(), SAMPLE.min(all.len())).into_vec();
            places.sort_unstable();
            places.into_iter().map(|place| all[place]).collect()
        }
    }
}

/// The most numbers that are kept: 2 GiB of host memory.
const MOST_KEPT: u64 = 1 << 29;

/// The first requests whose results a device can keep, at least one. Listed networks keep all activations.
pub fn kept_requests(
    network: &Network,
    requests: &Requests,
    mut all: Vec<RequestId>,
) -> Vec<RequestId> {
    let Some(operators) = network.operators() else {
        return all;
    };
    let mut numbers = 0;
    let fits = |request: &RequestId| {
        numbers += operators
            .lengths(&requests.graphs[request.index()])
            .sum::<u64>();
        numbers <= MOST_KEPT
    };
    let fitting = all.iter().map(fits).take_while(|fits| *fits).count();
    all.truncate(fitting.max(1));
    all
}

/// Compares the answers with the results on the CPU. The error names the first wrong or missing result.
pub fn compare(
    network: &Network,
    requests: &Requests,
    answers: &[Answered],
    tolerance: &Tolerance,
    stop: &AtomicBool,
) -> Result<Verified> {
    let one = |(request, answer): &Answered| {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let right = match answer {
            None => Err("no result at all".into()),
            Some(answer) => compare_answer(
                network,
                *request,
                &requests.graphs[request.index()],
                answer,
                tolerance,
            ),
        };
        let largest =
            right.map_err(|wrong| Error::failure(format!("request {request} has {wrong}")))?;
        Ok(Verified {
            requests: 1,
            largest,
        })
    };
    // The results are collected in order, so that the first error is reported.
    let found: Vec<Result<Verified>> = answers.par_iter().map(one).collect();
    found.into_iter().sum()
}

/// The largest difference from the same request run alone; `None` if all bits are equal.
fn compare_answer(
    network: &Network,
    request: RequestId,
    graph: &CellGraph,
    answer: &Answer,
    tolerance: &Tolerance,
) -> Result<Option<LargestError>, String> {
    let mut largest = LargestError::default();
    let judged = match (answer, network.operators()) {
        (Answer::Digest(found), _) => {
            let alone = network.alone(request, graph).digest();
            let differs = || {
                format!("a result of digest {found:016x}, but run alone one of digest {alone:016x}")
            };
            return if *found == alone {
                Ok(None)
            } else {
                Err(differs())
            };
        }
        (Answer::Output(found), Some(operators)) => {
            operators.follow(request, graph, &found.state, |passed| {
                tolerance.check_operator(passed, &mut largest)
            })
        }
        (Answer::Output(found), None) => {
            let expected = network.follow(request, graph, &found.words);
            tolerance.check(
                found,
                &expected,
                graph.depth(),
                network.state(),
                &mut largest,
            )
        }
    };
    judged.map_err(|wrong| format!("a result that rounding does not explain: {wrong}"))?;
    Ok(Some(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::precision::Precision;
    use crate::core::record::RecordOptions;
    use crate::core::workload::dnn::Dnn;
    use crate::core::workload::model::Model;
    use crate::core::workload::random;
    use crate::core::workload::shape::Shape;
    use crate::devices::network::Spec;

    fn record(finished: impl Fn(u32) -> bool) -> FullRecord {
        let mut record = FullRecord::new(100, 1, 1, RecordOptions::default());
        (0..100)
            .filter(|id| finished(*id))
            .for_each(|id| record.finish[id as usize] = Nanos(1));
        record
    }

    #[test]
    fn a_sample_is_of_the_finished_and_the_seeds_own() {
        let odd = finished_requests(&record(|id| id % 2 == 1));
        let draw = |seed| {
            chosen(
                Verify::Sample,
                odd.clone(),
                &mut random::sequence(seed, 0, "verify"),
            )
        };
        let sample = draw(1);
        assert_eq!(sample.len(), SAMPLE);
        assert!(
            sample.is_sorted() && sample.iter().all(|request| request.0 % 2 == 1),
            "{sample:?}"
        );
        assert_eq!((&draw(1), draw(2) == sample), (&sample, false));
    }

    #[test]
    fn few_are_all() {
        let rng = &mut random::sequence(1, 0, "verify");
        let few = finished_requests(&record(|id| id < 3));
        let all = [0, 1, 2].map(RequestId);
        assert_eq!(chosen(Verify::Sample, few.clone(), rng), all);
        assert_eq!(chosen(Verify::All, few.clone(), rng), all);
        assert!(chosen(Verify::None, few, rng).is_empty());
        assert!(chosen(Verify::Sample, finished_requests(&record(|_| false)), rng).is_empty());
    }

    fn lstm() -> (Network, Requests) {
        let spec = Spec {
            hidden: 4,
            embedding: 4,
            vocabulary: 9,
            seed: 1,
            weights: None,
        };
        let requests = Requests::unfold(vec![Shape::Chain(3); 3].into(), &Model::Lstm).unwrap();
        (Network::new(&Model::Lstm, &spec).unwrap(), requests)
    }

    fn verified(found: [Option<Answer>; 3]) -> Result<Verified, String> {
        let (network, requests) = lstm();
        let answers: Vec<Answered> = (0..3).map(RequestId).zip(found).collect();
        let tolerance = Tolerance::new(Precision::F32, network.spec());
        compare(
            &network,
            &requests,
            &answers,
            &tolerance,
            &AtomicBool::new(false),
        )
        .map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_or_missing_result_is_named() {
        let (network, requests) = lstm();
        let alone = |id: u32| network.alone(RequestId(id.into()), &requests.graphs[id as usize]);
        let right = |id: u32| Some(Answer::Digest(alone(id).digest()));
        let found = verified([right(0), right(1), right(2)]);
        assert_eq!(
            found,
            Ok(Verified {
                requests: 3,
                largest: None
            })
        );
        assert_ne!(right(0), right(1), "other words come to other results");
        let other = verified([right(0), right(0), right(2)]).unwrap_err();
        assert!(
            other.starts_with("request 1 has a result of digest "),
            "{other}"
        );
        let missing = verified([right(0), right(1), None]).unwrap_err();
        assert!(
            missing.starts_with("request 2 has no result at all"),
            "{missing}"
        );

        let whole = |id: u32| Some(Answer::Output(alone(id)));
        let found = verified([whole(0), whole(1), right(2)]).unwrap();
        assert_eq!(
            found,
            Verified {
                requests: 3,
                largest: Some(LargestError::default())
            }
        );
        let other = verified([whole(0), whole(1), whole(1)]).unwrap_err();
        assert!(
            other.starts_with("request 2 has a result that rounding does not explain: number "),
            "{other}"
        );
    }

    #[test]
    fn large_activations_are_kept_for_as_many_requests_as_fit() {
        let operators: String = (0..32)
            .map(|place| format!("m{place},memory,16777216\n"))
            .collect();
        let text = format!("shape,fixed\nname,kind,elements\n{operators}");
        let listed = Dnn::parse("n.csv", std::path::Path::new("n.csv"), &text).unwrap();
        let model = Model::Network(std::sync::Arc::new(listed));
        let spec = Spec {
            hidden: 1,
            embedding: 1,
            vocabulary: 1,
            seed: 1,
            weights: None,
        };
        let network = Network::new(&model, &spec).unwrap();
        let requests = Requests::unfold(vec![Shape::Fixed; 4].into(), &model).unwrap();
        let ids = |ids: &[u64]| ids.iter().copied().map(RequestId).collect::<Vec<_>>();
        // Two of the requests have 2^28 numbers each.
        assert_eq!(
            kept_requests(&network, &requests, ids(&[0, 2, 3])),
            ids(&[0, 2])
        );
        assert_eq!(kept_requests(&network, &requests, ids(&[3])), ids(&[3]));
        let (network, requests) = lstm();
        assert_eq!(
            kept_requests(&network, &requests, ids(&[0, 1, 2])),
            ids(&[0, 1, 2])
        );
    }

    #[test]
    fn the_largest_of_several_runs_is_kept() {
        let run = |requests, largest: Option<f64>| Verified {
            requests,
            largest: largest.map(|error| LargestError {
                error,
                of_tolerated: 2.0 * error,
            }),
        };
        let sum: Verified = [
            run(3, Some(0.1)),
            run(0, None),
            run(4, Some(0.3)),
            run(1, Some(0.2)),
        ]
        .into_iter()
        .sum();
        assert_eq!(sum, run(8, Some(0.3)));
    }
}
