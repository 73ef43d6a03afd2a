//! The backend's reports obey the laws of the conformance kit.

use std::sync::Arc;

use super::Spread;
use super::fake::Fake;
use crate::backend::Backend;
use crate::backend::cuda::{Cuda, Options, check};
use crate::conformance::{Guarantees, check_backend};
use crate::network::{Network, Spec};
use crate::policy::cellular::Cellular;
use crate::policy::fold::Fold;
use crate::policy::ideal::Ideal;
use crate::policy::jit::Jit;
use crate::policy::late::Late;
use crate::policy::merged::Merged;
use crate::policy::padded::Padded;
use crate::policy::registry::Settings;
use crate::policy::unbatched::Unbatched;
use crate::policy::values::PerCell;
use crate::units::Nanos;
use crate::workload::model::Model;
use crate::workload::random;
use crate::workload::trace::Requests;

/// Runs a workload on the backend, if there are cells for it.
fn on_cuda(
    model: &Model,
    requests: &Requests,
    workers: usize,
    streams: u16,
    run: &mut dyn FnMut(&mut dyn Backend),
) {
    if check(model).is_err() {
        return;
    }
    let spec = Spec {
        hidden: 4,
        embedding: 4,
        vocabulary: 30,
        seed: 3,
        weights: None,
    };
    let network = Arc::new(Network::new(model, &spec).expect("weights from the seed"));
    if requests
        .graphs
        .iter()
        .any(|graph| network.check(graph).is_err())
    {
        return;
    }
    let mut device = Fake::new(&network, random::stream(3, 0, "laws device"));
    let mut cuda = Cuda::new(&mut device, network, requests, workers, &Options::default())
        .expect("a device that is well");
    let rng = random::stream(3, 0, "laws");
    run(&mut Spread {
        inner: &mut cuda,
        rng,
        streams,
        workers: None,
    });
}

#[test]
fn tasks_keep_the_laws() {
    let policies: [&dyn Settings; 8] = [
        &Cellular {
            max_tasks: 3,
            max_batch: PerCell::All(4),
            ..Cellular::default()
        },
        &Late {
            max_batch: PerCell::All(4),
            ..Late::default()
        },
        &Padded {
            bucket_width: 4,
            max_batch: 4,
            ..Padded::default()
        },
        &Merged {
            max_batch: 4,
            ..Merged::default()
        },
        &Fold {
            max_batch: 4,
            construct_ns: Nanos(100),
            ..Fold::default()
        },
        &Ideal { max_batch: 4 },
        &Jit {
            max_batch: 4,
            ..Jit::default()
        },
        &Unbatched::default(),
    ];
    for policy in policies {
        let promises = Guarantees {
            max_batch: 4,
            cases: 80,
            ..Guarantees::default()
        };
        check_backend(policy, &promises, |model, requests, workers, run| {
            on_cuda(model, requests, workers, 1, run)
        });
    }
}

#[test]
fn models_without_cells_are_refused() {
    let model = Model::parse("dnn:block").expect("a model");
    let refusal = check(&model)
        .expect_err("there are no cells for it")
        .to_string();
    assert_eq!(
        refusal,
        "the model dnn:block has no cells for GPUs; run it with --backend cpu, or take lstm, gru, seq2seq, tree-lstm, \
         childsum-tree-lstm or dnn:FILE.csv"
    );
}
