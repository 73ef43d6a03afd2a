//! The backend's reports obey the laws of the conformance kit.

use std::sync::Arc;

use super::Spread;
use super::fake::Fake;
use crate::base::units::Nanos;
use crate::core::backend::Backend;
use crate::core::conformance::{Guarantees, check_backend};
use crate::core::policy::cellular::Cellular;
use crate::core::policy::fold::Fold;
use crate::core::policy::ideal::Ideal;
use crate::core::policy::jit::Jit;
use crate::core::policy::late::Late;
use crate::core::policy::merged::Merged;
use crate::core::policy::padded::Padded;
use crate::core::policy::registry::Settings;
use crate::core::policy::unbatched::Unbatched;
use crate::core::policy::values::PerCell;
use crate::core::workload::model::Model;
use crate::core::workload::random;
use crate::core::workload::trace::Requests;
use crate::devices::cuda::{Cuda, Options, check};
use crate::devices::network::{Network, Spec};

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
    let mut device = Fake::new(&network, random::sequence(3, 0, "laws device"));
    let mut cuda = Cuda::new(&mut device, network, requests, workers, &Options::default())
        .expect("a device that is well");
    let rng = random::sequence(3, 0, "laws");
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
