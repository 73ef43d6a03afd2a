//! Requests under any policy come to what they come to alone; what breaks off fails, and nothing else does.

mod failures;
mod staying;
mod toy;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand::RngExt;

use self::toy::Kind;
use super::Cpu;
use crate::driver::drive;
use crate::metrics::recorder::{Keep, Recorder};
use crate::network::Network;
use crate::policy::cellular::Cellular;
use crate::policy::immediate::Immediate;
use crate::policy::merged::Merged;
use crate::policy::padded::{PadTo, Padded};
use crate::policy::registry::{Configured, PerCell, Setup};
use crate::units::{Nanos, RequestId};
use crate::workload::arrivals::OpenLoop;
use crate::workload::random::{self, Stream};
use crate::workload::trace::Requests;

/// Serves the requests, which arrive a few microseconds after one another, and gives the digest of each.
fn serve(
    network: &Arc<Network>,
    kind: Kind,
    requests: &Requests,
    policy: &dyn Configured,
    workers: usize,
    rng: &mut Stream,
) -> (Vec<Option<u64>>, Recorder) {
    let (model, cells) = (kind.model(), kind.cells());
    let mut policy = policy.build_policy(&Setup { model: &model, cells: &cells, workers }).expect("settings that fit");
    let mut at = Nanos::ZERO;
    let gap = rng.random_range(1..20_000);
    let arrivals: Vec<Nanos> = (0..requests.len())
        .map(|_| {
            at += Nanos(rng.random_range(0..gap));
            at
        })
        .collect();
    let mut recorder = Recorder::new(requests.len(), workers, cells.len(), Keep::default());
    let mut source = OpenLoop::new(requests, &arrivals);
    let mut backend = Cpu::new(Arc::clone(network), requests, workers).expect("threads");
    drive(&mut source, &mut *policy, &mut backend, &mut recorder, workers, &AtomicBool::new(false))
        .expect("nobody stops this run");
    let digests = (0..requests.len() as u32).map(|request| backend.digest(RequestId(request))).collect();
    (digests, recorder)
}

/// A random policy that serves requests of this kind.
fn random_policy(kind: Kind, rng: &mut Stream) -> Box<dyn Configured> {
    let max_batch = *[1, 2, 5, 16].get(rng.random_range(0..4)).expect("one of four");
    let pads = !matches!(kind, Kind::Trees | Kind::Graphs);
    match rng.random_range(0..if pads { 6 } else { 4 }) {
        0 | 1 => Box::new(Cellular {
            max_tasks: rng.random_range(1..6),
            max_batch: PerCell::All(max_batch),
            min_batch: PerCell::All(rng.random_range(1..=max_batch)),
        }),
        2 => Box::new(Merged { max_batch, ..Merged::default() }),
        3 => Box::new(Immediate {}),
        _ => Box::new(Padded {
            bucket_width: rng.random_range(1..6),
            max_batch,
            pad_to: if rng.random_bool(0.5) { PadTo::Bucket } else { PadTo::Longest },
            window: Nanos(rng.random_range(0..50_000)),
        }),
    }
}

#[test]
fn every_request_comes_to_what_it_comes_to_alone() {
    let network = toy::network();
    for case in 0..120 {
        let mut rng = random::stream(case, 0, "cpu");
        let kind = Kind::ALL[case as usize % Kind::ALL.len()];
        let requests = kind.requests(rng.random_range(1..40), &mut rng);
        let workers = rng.random_range(1..=3);
        let policy = random_policy(kind, &mut rng);
        let (digests, record) = serve(&network, kind, &requests, &*policy, workers, &mut rng);
        assert_eq!(record.failures, [], "case {case}: {kind:?} by {policy:?} on {workers} workers");
        for (request, digest) in (0..).map(RequestId).zip(digests) {
            let alone = toy::alone(&network, request, &requests.graphs[request.index()]);
            assert_eq!(
                digest,
                Some(alone),
                "case {case}: request {request}, {kind:?} by {policy:?} on {workers} workers"
            );
        }
    }
}
