//! The mechanism and its policies: the laws on random workloads, and what must not happen.

use super::settings::{Diversity, DvaBatch, Rule, Stages};
use crate::conformance::{Promises, check};
use crate::units::Nanos;

/// Not work-conserving: behind a batch that is served in turn nothing begins, and latecomers are waited for.
fn laws(policy: &DvaBatch) {
    let promises = Promises {
        max_batch: policy.max_batch,
        work_conserving: false,
        pins: false,
        cases: 400,
        ..Promises::default()
    };
    check(policy, &promises);
}

#[test]
fn it_keeps_the_laws() {
    for policy in [Diversity::Input, Diversity::Load, Diversity::Auto] {
        for (steps, stages) in [(1, Stages::By(Rule::Operators)), (3, Stages::Count(2)), (4, Stages::Count(1))] {
            for buffer_pairs in [1, 2, 3] {
                for (window, comp_wait) in
                    [(Nanos(0), Nanos(0)), (Nanos(300), Nanos(u64::MAX)), (Nanos(0), Nanos(2_000))]
                {
                    laws(&DvaBatch {
                        policy,
                        stages: stages.clone(),
                        steps,
                        max_batch: 6,
                        window: Some(window),
                        comp_wait: Some(comp_wait),
                        buffer_pairs,
                        bucket_width: 5,
                        split_slack: 0.0,
                    });
                }
            }
        }
    }
}
