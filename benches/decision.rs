//! Nanoseconds per scheduling decision: one call of the policy for an idle worker, with 10,000 requests waiting.
//!
//! A closed loop without think time keeps the number in the system constant. The driver measures each call that
//! submitted something; the figure is their mean, with what the policy, the task book and the device do in it.

mod common;

use std::time::Duration;

use batchlab::policy::cellular::Cellular;
use batchlab::policy::merged::Merged;
use batchlab::policy::padded::Padded;
use batchlab::policy::registry::Settings;
use batchlab::policy::values::PerCell;
use batchlab::workload::model::Model;
use common::{Case, fingerprint};
use criterion::{Criterion, criterion_group, criterion_main};

/// Enough for a thousand decisions at 512 requests of 24.6 cells and five tasks a decision.
const REQUESTS: usize = 200_000;
const WAITING: u32 = 10_000;

fn decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(3));
    let one_task = Cellular {
        max_tasks: 1,
        ..Cellular::default()
    };
    let trees = Cellular {
        max_batch: PerCell::All(64),
        ..Cellular::default()
    };
    let (lstm, tree) = (
        (Model::Lstm, "traces/europarl-en.csv"),
        (Model::TreeLstm, "generator:treebank"),
    );
    let benches: [(&str, _, u32, &dyn Settings, u64); 5] = [
        (
            "cellular, 512 chains, five tasks",
            lstm.clone(),
            512,
            &Cellular::default(),
            0x104b_7f9d_ffbc_95cf,
        ),
        (
            "cellular, 512 chains, one task",
            lstm.clone(),
            512,
            &one_task,
            0x104b_7f9d_ffbc_95cf,
        ),
        (
            "cellular, 64 nodes of trees, five tasks",
            tree,
            64,
            &trees,
            0x4ba5_c910_b902_0b82,
        ),
        (
            "padded, 512 requests",
            lstm.clone(),
            512,
            &Padded::default(),
            0xd566_e95e_3936_b3d4,
        ),
        (
            "merged, 64 requests",
            lstm,
            64,
            &Merged::default(),
            0x2374_7beb_637f_14a5,
        ),
    ];
    for (name, (model, dataset), batch, policy, expected) in benches {
        let case = Case::new(model, dataset, REQUESTS, 1, policy);
        let run = || case.run_with(case.ready(), WAITING + batch);
        let record = run();
        assert_eq!(
            fingerprint(&record),
            expected,
            "{name}: requests finish at other times"
        );
        group.bench_function(name, |b| {
            // One run makes many decisions; it is repeated until there are as many as asked for.
            b.iter_custom(|decisions| {
                let (mut made, mut time) = (0, Duration::ZERO);
                while made < decisions {
                    let record = run();
                    made += record.execution.decisions.timed.calls;
                    time += record.execution.decisions.timed.time;
                }
                time.mul_f64(decisions as f64 / made as f64)
            });
        });
    }
    group.finish();
}

criterion_group!(all, decision);
criterion_main!(all);
