//! The policies of language models: against a naive reference, token by token; laws; and the stability region.

use rand::RngExt as _;

use crate::lab::{Device, policy};
use crate::naive::continuous::{Case, Fate, Policy, Task, run};
use batchlab::cost::table::{CostTable, Overhead};
use batchlab::policy::registry::ConfiguredPolicy;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::units::Nanos;
use batchlab::workload::model::Model;
use batchlab::workload::random::{self, RandomSequence};
use batchlab::workload::shape::Shape;

const KINDS: [&str; 4] = ["static", "orca", "vllm", "sarathi"];

fn draw(kind: &str, number: u64) -> Case {
    let rng = &mut random::sequence(number, 0, kind);
    let mut clock = 0;
    let mut draw = |rng: &mut RandomSequence| {
        clock += [0, rng.random_range(0..40), rng.random_range(0..400)][rng.random_range(0..3)];
        (
            clock,
            rng.random_range(1..=30),
            [1, rng.random_range(1..=6), rng.random_range(1..=40)][rng.random_range(0..3)],
        )
    };
    let trace = (0..rng.random_range(1..=30)).map(|_| draw(rng)).collect();
    let kv_tokens = rng.random_range(24..=160);
    let max_batch = rng.random_range(1..=8);
    let max_length = rng.random_range(8..=kv_tokens.min(60));
    let (block, watermark) = (
        rng.random_range(1..=8),
        [0.0, 0.01, 0.3][rng.random_range(0..3)],
    );
    let policy = match kind {
        "static" => Policy::Static {
            max_batch,
            max_length,
        },
        "orca" => Policy::Orca {
            max_batch,
            max_length,
        },
        "vllm" => Policy::Vllm {
            max_batched_tokens: rng.random_range(1..=60),
            max_batch,
            block,
            watermark,
        },
        _ => Policy::Sarathi {
            token_budget: max_batch as u64 + rng.random_range(0..=20),
            max_batch,
            block,
            watermark,
        },
    };
    let costs = [
        rng.random_range(1..=20),
        rng.random_range(0..=3),
        rng.random_range(0..=2),
    ];
    Case {
        trace,
        workers: rng.random_range(1..=3),
        kv_tokens,
        costs,
        policy,
    }
}

fn settings(of: &Policy) -> ConfiguredPolicy {
    policy(&match of {
        Policy::Static {
            max_batch,
            max_length,
        } => {
            format!("kind = 'static'\nmax_batch = {max_batch}\nmax_length = {max_length}")
        }
        Policy::Orca {
            max_batch,
            max_length,
        } => {
            format!("kind = 'orca'\nmax_batch = {max_batch}\nmax_length = {max_length}")
        }
        Policy::Vllm {
            max_batched_tokens: tokens,
            max_batch,
            block,
            watermark,
        } => format!(
            "kind = 'vllm'\nmax_batched_tokens = {tokens}\nmax_batch = {max_batch}\nblock = {block}\nwatermark = {watermark:?}"
        ),
        Policy::Sarathi {
            token_budget: tokens,
            max_batch,
            block,
            watermark,
        } => format!(
            "kind = 'sarathi'\ntoken_budget = {tokens}\nmax_batch = {max_batch}\nblock = {block}\nwatermark = {watermark:?}"
        ),
    })
}

fn simulate(case: &Case) -> FullRecord {
    let [fixed, token, context] = case.costs;
    let row = |t: u64, c: u64| format!("iteration,{t},{c},{}\n", fixed + token * t + context * c);
    let rows = [row(1, 0), row(2, 0), row(1, 1), row(2, 1)].concat();
    let table = CostTable::parse(&format!("cell,tokens,context,ns\n{rows}"), "costs").unwrap();
    let model = Model::Llm(None);
    let cells = model.cell_types();
    let costs = table
        .with_kv_tokens(Some(case.kv_tokens))
        .costs_for(&cells, Overhead::default())
        .unwrap();
    let device = Device {
        model,
        cells,
        workers: case.workers,
        costs,
    };
    let shape = |&(_, prompt, output): &(u64, u64, u64)| Shape::Llm {
        prompt: prompt as u32,
        output: output as u32,
    };
    let requests = device.requests(case.trace.iter().map(shape));
    let arrivals: Vec<Nanos> = case.trace.iter().map(|request| Nanos(request.0)).collect();
    device.run(
        &*settings(&case.policy),
        &requests,
        &arrivals,
        RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        },
    )
}

fn logged(run: &FullRecord) -> (Vec<Task>, Vec<Fate>) {
    let tasks = run.execution.tasks.iter().map(|task| Task {
        worker: task.worker.index(),
        batch: task.batch as usize,
        start: task.start.0,
        finish: task.finish.0,
    });
    let happened = |at: Nanos| (at != Nanos::MAX).then_some(at.0);
    let sequences = &run.tokens.as_ref().unwrap().sequences;
    let fate = |(id, one): (usize, &batchlab::record::tokens::Sequence)| Fate {
        finish: happened(run.finish[id]),
        rejected: run
            .rejections
            .iter()
            .find(|(request, _)| request.index() == id)
            .map(|(_, at)| at.0),
        first: happened(one.first),
        worst_gap: one.worst_gap.0,
        preemptions: one.preemptions.into(),
    };
    (
        tasks.collect(),
        sequences.iter().enumerate().map(fate).collect(),
    )
}

/// 2,400 cases of each policy: one to three workers, memory that is short, prompts that never fit, outputs that outgrow it.
#[test]
fn policies_agree_with_the_reference_token_by_token() {
    for kind in KINDS {
        let (mut preempted, mut rejected, mut served) = (0, 0, 0);
        for number in 0..2_400 {
            let case = draw(kind, number);
            let (tasks, fates) = logged(&simulate(&case));
            let expected = run(&case);
            assert_eq!(
                (tasks, &fates),
                (expected.0, &expected.1),
                "{kind}, case {number}: {case:#?}"
            );
            preempted += fates.iter().map(|fate| fate.preemptions).sum::<u64>();
            rejected += fates.iter().filter(|fate| fate.rejected.is_some()).count();
            served += fates.iter().filter(|fate| fate.finish.is_some()).count();
            assert!(
                fates
                    .iter()
                    .all(|fate| fate.rejected.is_some() != fate.finish.is_some()),
                "all leave, once"
            );
        }
        assert_eq!(
            preempted > 1_000,
            ["vllm", "sarathi"].contains(&kind),
            "{kind}: {preempted} preemptions"
        );
        assert!(
            rejected > 1_000 && served > 10_000,
            "{kind}: {rejected} rejected, {served} served"
        );
    }
}

/// Other lengths of outputs change nothing before one of the two runs has ended a sequence that the other has not.
#[test]
fn lengths_change_no_decision_before_they_matter() {
    for (kind, number) in KINDS
        .into_iter()
        .flat_map(|kind| (0..300).map(move |number| (kind, number)))
    {
        let case = Case {
            workers: 1,
            ..draw(kind, number)
        };
        let mut other = case.clone();
        let outputs: Vec<u64> = case.trace.iter().map(|request| request.2).rev().collect();
        other
            .trace
            .iter_mut()
            .zip(outputs)
            .for_each(|(request, output)| request.2 = output);
        let ([tasks, others], [fates, other_fates]) = {
            let ((a, b), (c, d)) = (logged(&simulate(&case)), logged(&simulate(&other)));
            ([a, c], [b, d])
        };
        // A sequence ends with its last token; under `static` it returns later.
        let last =
            |trace: &[(u64, u64, u64)], tasks: &[Task], fate: &Fate, id: usize| -> Option<u64> {
                let first = fate.first?;
                let output = trace[id].2 as usize;
                tasks
                    .iter()
                    .map(|task| task.finish)
                    .filter(|at| *at >= first)
                    .nth(output - 1)
            };
        let differs = |id: &usize| case.trace[*id].2 != other.trace[*id].2;
        let ends = (0..case.trace.len()).filter(differs).flat_map(|id| {
            [
                last(&case.trace, &tasks, &fates[id], id),
                last(&other.trace, &others, &other_fates[id], id),
            ]
        });
        // Tasks without decodes are counted too, so this is at most the instant of the first end.
        let matters = ends.flatten().min().unwrap_or(u64::MAX);
        let before = |tasks: &[Task]| -> Vec<Task> {
            tasks
                .iter()
                .filter(|task| task.start < matters)
                .cloned()
                .collect()
        };
        assert_eq!(before(&tasks), before(&others), "{kind}, case {number}");
    }
}

/// 12 sequences of 20 + 1 to 80 tokens on 1,000 tokens of memory: Orca reserves 100 for each, vLLM admits all.
#[test]
fn admissions_follow_from_the_memory() {
    let trace: Vec<(u64, u64, u64)> = (0..40).map(|_| (0, 20, 80)).collect();
    let most = |policy| {
        let case = Case {
            trace: trace.clone(),
            workers: 1,
            kv_tokens: 1_000,
            costs: [1, 0, 0],
            policy,
        };
        let run = simulate(&case);
        let tokens = run.tokens.as_ref().unwrap();
        assert_eq!(run.rejections.len(), 0);
        (
            run.execution.tasks[0].batch,
            run.execution
                .tasks
                .iter()
                .map(|task| task.batch)
                .max()
                .unwrap(),
            tokens.most_blocks,
            tokens.preemptions,
        )
    };
    // ⌊1,000 / 100⌋ reservations, and ⌊1,000 / 20⌋ prompts of which each gets its blocks of 10.
    assert_eq!(
        most(Policy::Orca {
            max_batch: 256,
            max_length: 100
        }),
        (10, 10, 1_000, 0)
    );
    let vllm = Policy::Vllm {
        max_batched_tokens: 100_000,
        max_batch: 256,
        block: 10,
        watermark: 0.0,
    };
    let (first, largest, blocks, preemptions) = most(vllm);
    assert_eq!((first, largest, blocks), (40, 40, 100));
    assert!(preemptions > 0, "40 · 100 tokens never fit at once");
}

/// λ(m_p + m_d) < b / t_b (Li, Dai, Peng: arXiv 2504.07347), with the token that ends a prompt counted with the prompt.
#[test]
fn iterations_are_stable_up_to_the_budget_and_request_level_batches_are_not() {
    let (budget, time, prompt, output) = (64u64, 1_000_000u64, 50u64, 15u64);
    let limit = budget as f64 / (time as f64 / 1e9) / (prompt + output - 1) as f64;
    let grows = |policy: Policy, load: f64| {
        let trace = (0..40_000).map(|id| {
            (
                (f64::from(id) * 1e9 / (load * limit)) as u64,
                prompt,
                output,
            )
        });
        let case = Case {
            trace: trace.collect(),
            workers: 1,
            kv_tokens: 1 << 30,
            costs: [time, 0, 0],
            policy,
        };
        let run = simulate(&case);
        let wait = |of: std::ops::Range<usize>| {
            let waits = of
                .clone()
                .map(|id| (run.finish[id] - run.arrival[id]).as_secs_f64());
            waits.sum::<f64>() / of.len() as f64
        };
        wait(30_000..40_000) / wait(10_000..20_000)
    };
    let sarathi = || Policy::Sarathi {
        token_budget: budget,
        max_batch: 64,
        block: 16,
        watermark: 0.0,
    };
    assert!(
        grows(sarathi(), 0.99) < 1.05,
        "stable 1 % below the limit: {}",
        grows(sarathi(), 0.99)
    );
    assert!(
        grows(sarathi(), 1.01) > 1.5,
        "not 1 % above: {}",
        grows(sarathi(), 1.01)
    );
    // The prompt fills an iteration's budget, so a batch has one request, and takes as many iterations as it has tokens.
    let fixed = Policy::Static {
        max_batch: 1,
        max_length: 2048,
    };
    assert!(
        grows(fixed, 0.5) > 1.5,
        "request-level batching is not, at half of it"
    );
}
