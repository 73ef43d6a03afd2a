//! The laws of the conformance kit, for every policy that comes with batchlab.

use batchlab::conformance::{Guarantees, check};
use batchlab::cost::table::Overhead;
use batchlab::policy::cellular::Cellular;
use batchlab::policy::clockwork::Clockwork;
use batchlab::policy::closed_batches::Version;
use batchlab::policy::control_limit::ControlLimit;
use batchlab::policy::fold::Fold;
use batchlab::policy::ideal::Ideal;
use batchlab::policy::late::Late;
use batchlab::policy::merged::Merged;
use batchlab::policy::nexus::Nexus;
use batchlab::policy::padded::{PadTo, Padded, Turn};
use batchlab::policy::registry::Registry;
use batchlab::policy::symphony::Symphony;
use batchlab::policy::triton::{QueuePolicy, TimeoutAction, Triton};
use batchlab::policy::unbatched::Unbatched;
use batchlab::policy::values::{BatchSizes, PerCell};
use batchlab::prelude::*;
use batchlab::record::RecordOptions;
use batchlab::scenario::Scenario;
use batchlab::units::Nanos;
use batchlab::workload::shape::Shape;
use serde::Serialize;

use crate::lab::{Device, simulated};

#[test]
fn cellular_keeps_the_laws() {
    for (max_tasks, max_batch) in [(1, 1), (1, 4), (3, 5), (5, 512)] {
        let policy = Cellular {
            max_tasks,
            max_batch: PerCell::All(max_batch),
            ..Cellular::default()
        };
        check(
            &policy,
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn cellular_keeps_the_laws_with_a_smallest_batch() {
    let policy = Cellular {
        max_tasks: 4,
        max_batch: PerCell::All(6),
        min_batch: PerCell::All(3),
        ..Cellular::default()
    };
    check(
        &policy,
        &Guarantees {
            max_batch: 6,
            ..Guarantees::default()
        },
    );
}

#[test]
fn chunks_keep_the_laws() {
    for (max_tasks, max_batch, chunk) in [(1, 4, 3), (3, 5, 2), (1, 8, u32::MAX)] {
        let policy = Cellular {
            max_tasks,
            max_batch: PerCell::All(max_batch),
            chunk,
            ..Cellular::default()
        };
        check(
            &policy,
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn supported_sizes_keep_the_laws() {
    for (chunk, sizes) in [(1, vec![1, 2, 4]), (1, vec![3, 9]), (3, vec![2, 4, 6])] {
        let (max_batch, batch_sizes) = (PerCell::All(4), BatchSizes(Some(sizes)));
        let policy = Cellular {
            max_batch,
            batch_sizes,
            chunk,
            ..Cellular::default()
        };
        check(
            &policy,
            &Guarantees {
                max_batch: 4,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn late_keeps_the_laws() {
    for (lookahead, max_batch, min_batch) in
        [(0, 4, 1), (1, 1, 1), (1, 4, 1), (3, 512, 1), (2, 5, 3)]
    {
        let (of_all, least) = (PerCell::All(max_batch), PerCell::All(min_batch));
        let policy = Late {
            max_batch: of_all,
            min_batch: least,
            lookahead,
            ..Late::default()
        };
        check(
            &policy,
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn tasks_ahead_keep_the_laws() {
    for (max_tasks, ahead, chunk) in [(1, 1, 1), (5, 1, 1), (2, 3, 2)] {
        let policy = Cellular {
            max_tasks,
            max_batch: PerCell::All(4),
            chunk,
            ahead,
            ..Cellular::default()
        };
        check(
            &policy,
            &Guarantees {
                max_batch: 4,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn padded_keeps_the_laws() {
    for (bucket_width, max_batch, pad_to, turn) in [
        (1, 2, PadTo::Bucket, Turn::Bucket),
        (10, 512, PadTo::Bucket, Turn::Batch),
        (4, 3, PadTo::Longest, Turn::Bucket),
        (4, 3, PadTo::Bucket, Turn::Oldest),
        (2, 5, PadTo::Longest, Turn::Fullest),
    ] {
        for ahead in [0, 1, 3] {
            let policy = Padded {
                bucket_width,
                max_batch,
                pad_to,
                turn,
                ahead,
                ..Padded::default()
            };
            check(
                &policy,
                &Guarantees {
                    max_batch,
                    ..Guarantees::default()
                },
            );
        }
    }
}

#[test]
fn padded_with_closed_batches_keeps_the_laws() {
    for (ahead, window) in [(0, 0), (2, 0), (0, 400), (1, 90)] {
        let (turn, version) = (Turn::Batch, Some(Version::Closed));
        let policy = Padded {
            bucket_width: 1_000,
            max_batch: 4,
            turn,
            ahead,
            window: Nanos(window),
            version,
            ..Padded::default()
        };
        let work_conserving = window == 0;
        check(
            &policy,
            &Guarantees {
                max_batch: 4,
                work_conserving,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn padded_with_a_window_keeps_the_laws_but_may_idle() {
    let policy = Padded {
        bucket_width: 5,
        max_batch: 4,
        window: Nanos(400),
        ..Padded::default()
    };
    check(
        &policy,
        &Guarantees {
            max_batch: 4,
            work_conserving: false,
            ..Guarantees::default()
        },
    );
}

#[test]
#[should_panic(expected = "work conservation")]
fn the_kit_notices_a_worker_that_idles() {
    let policy = Padded {
        bucket_width: 5,
        max_batch: 4,
        window: Nanos(400),
        ..Padded::default()
    };
    check(
        &policy,
        &Guarantees {
            max_batch: 4,
            ..Guarantees::default()
        },
    );
}

#[test]
#[should_panic(expected = "caps")]
fn the_kit_notices_a_batch_that_is_too_large() {
    check(
        &Merged {
            max_batch: 8,
            ..Merged::default()
        },
        &Guarantees {
            max_batch: 7,
            ..Guarantees::default()
        },
    );
}

#[test]
fn triton_keeps_the_laws() {
    let delay = Triton {
        max_queue_delay: Nanos(300),
        ..Triton::default()
    };
    let policies = [
        Triton::default(),
        Triton {
            ahead: 2,
            ..Triton::default()
        },
        Triton {
            version: Version::Closed,
            instances: 2,
            ..Triton::default()
        },
        Triton {
            version: Version::Closed,
            preferred_batch_size: vec![2, 3],
            ahead: 1,
            ..delay.clone()
        },
        Triton {
            version: Version::Closed,
            preserve_ordering: true,
            instances: 3,
            ..timeouts(TimeoutAction::Reject)
        },
        Triton {
            preferred_batch_size: vec![2, 3],
            ..delay.clone()
        },
        Triton {
            preferred_batch_size: vec![2, 5],
            mandatory: true,
            instances: 3,
            ..delay.clone()
        },
        Triton {
            max_total: Some(12),
            instances: 2,
            ahead: 1,
            ..delay
        },
        Triton {
            priority_levels: 3,
            default_priority_level: 2,
            ..timeouts(TimeoutAction::Reject)
        },
        timeouts(TimeoutAction::Delay),
        Triton {
            preserve_ordering: true,
            instances: 3,
            ..timeouts(TimeoutAction::Reject)
        },
    ];
    for policy in policies {
        let (work_conserving, holds_back) = (
            policy.max_queue_delay == Nanos::ZERO,
            policy.preserve_ordering,
        );
        let policy = Triton {
            max_batch: 5,
            ..policy
        };
        check(
            &policy,
            &Guarantees {
                max_batch: 5,
                work_conserving,
                holds_back,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
#[should_panic(expected = "causality")]
fn the_kit_notices_a_response_that_is_held_back() {
    let policy = Triton {
        max_batch: 2,
        preserve_ordering: true,
        instances: 3,
        ..Triton::default()
    };
    check(
        &policy,
        &Guarantees {
            work_conserving: false,
            ..Guarantees::default()
        },
    );
}

fn timeouts(timeout_action: TimeoutAction) -> Triton {
    let policy = QueuePolicy {
        max_queue_size: 4,
        default_timeout: Nanos(2_000),
        timeout_action,
        ..QueuePolicy::default()
    };
    Triton {
        default_queue_policy: policy,
        ..Triton::default()
    }
}

#[test]
fn policies_with_deadlines_keep_the_laws() {
    let (max_batch, margin) = (5, Nanos(10));
    let promises = Guarantees {
        max_batch,
        ..Guarantees::default()
    };
    check(&Nexus { max_batch, margin }, &promises);
    check(
        &Clockwork {
            batch_sizes: vec![1, 2, 5],
            margin,
        },
        &promises,
    );
    check(
        &Symphony {
            max_batch,
            target_batch: 3,
            margin,
        },
        &promises,
    );
}

#[test]
fn control_limit_keeps_the_laws_but_may_idle() {
    for (wait_for, work_conserving) in [(1, true), (3, false)] {
        let policy = ControlLimit {
            wait_for,
            max_batch: 5,
            window: Nanos(5_000),
        };
        check(
            &policy,
            &Guarantees {
                max_batch: 5,
                work_conserving,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn merged_keeps_the_laws() {
    for max_batch in [1, 3, 64] {
        check(
            &Merged {
                max_batch,
                ..Merged::default()
            },
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn fold_keeps_the_laws() {
    for (max_batch, construct_ns, overlap) in [
        (1, 0, 1.0),
        (64, 0, 0.5),
        (3, 9, 0.0),
        (5, 20, 0.6),
        (64, 100, 1.0),
    ] {
        let policy = Fold {
            max_batch,
            construct_ns: Nanos(construct_ns),
            overlap,
            ..Fold::default()
        };
        check(
            &policy,
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn ideal_keeps_the_laws() {
    for max_batch in [1, 3, 64] {
        check(
            &Ideal { max_batch },
            &Guarantees {
                max_batch,
                ..Guarantees::default()
            },
        );
    }
}

#[test]
fn immediate_keeps_the_laws() {
    check(
        &Unbatched::default(),
        &Guarantees {
            max_batch: 1,
            ..Guarantees::default()
        },
    );
}

/// The table falls from 4 to 16, so a batch of one that is padded to 32 takes less time than one of 4.
#[test]
fn a_padded_batch_takes_no_less_than_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("costs.csv", "cell,batch,ns\nnet,4,91\nnet,16,76\n");
    write("trace.csv", "id,arrival_ns,shape\n0,0,fixed\n");
    let text = "name = 'padded'\n[workload]\nmodel = 'dnn:net'\ntrace = 'trace.csv'\n[device]\ncosts = 'costs.csv'\n\
                [[policy]]\nkind = 'late'\nmax_batch = 1\nbatch_sizes = [32]\n";
    let scenario = Scenario::parse(
        text.into(),
        &folder.path().join("t.toml"),
        &[],
        &Registry::standard(),
    )
    .unwrap();
    let report = simulated(&scenario, folder.path().join("out"));
    let bounds = std::fs::read_to_string(report.folder.path.join("bounds.json")).unwrap();
    let bounds: serde_json::Value = serde_json::from_str(&bounds).unwrap();
    assert_eq!(report.rows[0].runs[0].latency.mean_ms, Some(56e-6));
    assert_eq!(bounds["floor"]["mean_ms"], 56e-6);
}

/// Loses every third request.
#[derive(Debug, Serialize)]
struct Forgetful;

struct Line(Vec<RequestId>);

impl Settings for Forgetful {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("forgetful", "loses every third request")
    }

    fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(Line(Vec::new())))
    }
}

impl Policy for Line {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        if !request.id.0.is_multiple_of(3) {
            self.0.push(request.id);
        }
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let mut idle = dispatch.idle();
        if let Some(worker) = idle.next(dispatch)
            && let Some(request) = self.0.pop()
        {
            let steps = [Step {
                cell: CellId(0),
                batch: 1,
                times: 2,
                input: 0,
            }];
            dispatch.submit(&Task::whole_requests(worker, &steps, &[request], 2));
        }
    }
}

#[test]
fn requests_that_a_policy_loses_have_failed() {
    let device = Device::new("lstm", 1, "lstm,1,10", Overhead::default());
    let requests = device.requests(vec![Shape::Chain(2); 7]);
    let arrivals: Vec<Nanos> = (0..7).map(Nanos).collect();
    let record = device.run(&Forgetful, &requests, &arrivals, RecordOptions::default());
    let lost: Vec<(u64, u64)> = record
        .failures
        .iter()
        .map(|(request, at, _)| (request.0, at.0))
        .collect();
    assert_eq!(lost, [(0, 81), (3, 81), (6, 81)]);
    assert_eq!(
        record.failures[0].2,
        "the policy neither served nor rejected it"
    );
}
