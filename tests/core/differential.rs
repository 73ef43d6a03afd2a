//! The crate against the naive reference, to the nanosecond, on random cases.
//!
//! Times are small and often equal or zero, so that several events at one instant, whose order the design fixes, are
//! common. A case on which the two disagree is reduced while they still disagree, and printed in the format of
//! `tests/schedules`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::lab::Run;
use crate::naive::{Case, Costs, Graph, Policy, RequestRow, TaskRow};
use batchlab::units::Nanos;
use batchlab::workload::random::{self, RandomSequence};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;

#[test]
fn cellular_serves_chains_as_the_reference_does() {
    agree("cellular", "lstm", 250);
}

#[test]
fn cellular_serves_seq2seq_as_the_reference_does() {
    agree("cellular", "seq2seq", 250);
}

#[test]
fn cellular_serves_trees_as_the_reference_does() {
    agree("cellular", "tree-lstm", 250);
}

/// Any acyclic graph of four cell types, with subgraphs that need several others, and several that one event releases.
#[test]
fn cellular_serves_graphs_as_the_reference_does() {
    agree("cellular", "graphs", 250);
}

#[test]
fn chunks_agree_with_the_reference() {
    agree("chunks", "lstm", 250);
    agree("chunks", "seq2seq", 250);
}

#[test]
fn late_agrees_with_the_reference() {
    agree("late", "lstm", 150);
    agree("late", "seq2seq", 150);
    agree("late", "tree-lstm", 150);
    agree("late", "graphs", 150);
}

#[test]
fn cellular_works_ahead_as_the_reference_does() {
    agree("tasks ahead", "lstm", 100);
    agree("tasks ahead", "seq2seq", 100);
    agree("tasks ahead", "tree-lstm", 100);
}

/// 1,200 cases: every rule of turns, one to four workers, half of them with windows.
#[test]
fn padded_agrees_with_the_reference() {
    agree("padded", "lstm", 800);
    agree("padded", "seq2seq", 400);
}

/// 1,200 more, with up to three batches behind the running one.
#[test]
fn padded_works_ahead_as_the_reference_does() {
    agree("ahead", "lstm", 800);
    agree("ahead", "seq2seq", 400);
}

/// 1,200 cases in which batches are closed, half of them of Triton's own policy.
#[test]
fn closed_batches_agree_with_the_reference() {
    agree("closed", "lstm", 800);
    agree("closed", "seq2seq", 400);
}

#[test]
fn merged_agrees_with_the_reference() {
    for model in ["lstm", "seq2seq", "tree-lstm", "graphs"] {
        agree("merged", model, 100);
    }
}

#[test]
fn immediate_agrees_with_the_reference() {
    for model in ["lstm", "seq2seq", "tree-lstm", "graphs"] {
        agree("immediate", model, 60);
    }
}

#[test]
fn fold_agrees_with_the_reference() {
    for model in ["lstm", "seq2seq", "tree-lstm", "graphs"] {
        agree("fold", model, 150);
    }
}

#[test]
fn ideal_agrees_with_the_reference() {
    for model in ["lstm", "seq2seq", "tree-lstm", "graphs"] {
        agree("ideal", model, 100);
    }
}

#[test]
fn jit_agrees_with_the_reference() {
    for model in ["lstm", "seq2seq", "tree-lstm", "graphs"] {
        agree("jit", model, 100);
    }
}

/// The reference also agrees with the drawn schedules.
#[test]
fn schedules_agree_with_the_reference() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schedules");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue; // the networks that schedules name
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (input, _) = text
            .split_once("----\n")
            .expect("a picture below the input");
        let run: Run = toml::from_str(input).unwrap();
        // The specification from which the reference was written has no switches and no persistent kernels: steps cost
        // the same in every task. It has no rows that stay in place either, and does not say how a file describes a
        // model. The cut of graphs is compared on the random ones of the model "graphs".
        let beyond = [
            ".switch,",
            ".persistent,",
            "\nchange,",
            "\"graph:",
            "\"dnn:",
        ]
        .iter()
        .any(|what| input.contains(what));
        if beyond || !KNOWN.contains(&run.policy["kind"].as_str().expect("a kind")) {
            continue;
        }
        let difference = difference(&run);
        assert_eq!(difference, None, "{}", path.display());
    }
}

/// The policies of the reference.
const KNOWN: [&str; 8] = [
    "cellular",
    "late",
    "padded",
    "merged",
    "immediate",
    "fold",
    "ideal",
    "jit",
];

/// Compares the two on random cases of a policy and a model.
fn agree(policy: &str, model: &str, cases: u32) {
    for number in 0..cases {
        let run = random_run(
            &mut random::sequence(1, number, &format!("{policy} {model}")),
            policy,
            model,
        );
        if difference(&run).is_some() {
            let (run, what) = shrink(run);
            let text = toml::to_string(&run).expect("a run is text");
            panic!("crate and reference disagree: {what}\nthe smallest case found:\n\n{text}\n");
        }
    }
}

/// The first difference between the crate and the reference.
fn difference(run: &Run) -> Option<String> {
    let Ok((requests, tasks)) = catch_unwind(AssertUnwindSafe(|| by_the_crate(run))) else {
        return Some("the crate panics".into());
    };
    let (expected_requests, expected_tasks) = crate::naive::simulate(&case_of(run));
    first_difference("task", &tasks, &expected_tasks)
        .or_else(|| first_difference("request", &requests, &expected_requests))
}

fn first_difference<T: PartialEq + std::fmt::Debug>(
    what: &str,
    ours: &[T],
    theirs: &[T],
) -> Option<String> {
    let rows = ours.len().max(theirs.len());
    let row = (0..rows).find(|i| ours.get(*i) != theirs.get(*i))?;
    Some(format!(
        "{what} {row}\n    crate     {:?}\n    reference {:?}",
        ours.get(row),
        theirs.get(row)
    ))
}

fn by_the_crate(run: &Run) -> (Vec<RequestRow>, Vec<TaskRow>) {
    let recorder = run.run();
    let names: Vec<String> = run
        .device()
        .cells
        .into_iter()
        .map(|cell| cell.name)
        .collect();
    let at = |times: &[Nanos], id: usize| times[id].0;
    let requests = (0..recorder.arrival.len())
        .map(|id| RequestRow {
            id,
            arrival: at(&recorder.arrival, id),
            start: at(&recorder.start, id),
            finish: at(&recorder.finish, id),
        })
        .collect();
    let tasks = recorder
        .execution
        .tasks
        .iter()
        .map(|row| {
            let mut cells: Vec<String> = row
                .cells
                .iter()
                .map(|cell| names[cell.index()].clone())
                .collect();
            cells.sort();
            TaskRow {
                task: row.task.index(),
                worker: row.worker.index(),
                cells,
                batch: row.batch as usize,
                submit: row.submit.0,
                start: row.start.0,
                finish: row.finish.0,
            }
        })
        .collect();
    (requests, tasks)
}

/// The same run, parsed by the reference.
fn case_of(run: &Run) -> Case {
    let table = &run.policy;
    // A key that the table leaves out has its default: no smallest batch, no window, whole buckets in turn.
    let number = |key: &str| {
        table
            .get(key)
            .map_or(1, |value| value.as_integer().expect("a number") as u32)
    };
    let cells = cells_of(&run.model);
    let limit = |key: &str, cell: &str| match table.get(key) {
        Some(toml::Value::Table(by_cell)) => by_cell[cell].as_integer().expect("a number") as u32,
        _ => number(key),
    };
    let text = |key: &str| table.get(key).and_then(|value| value.as_str());
    let nanoseconds = |text: &str| {
        text.strip_suffix("ns")
            .and_then(|n| n.parse().ok())
            .expect("nanoseconds")
    };
    let time = |key: &str| {
        table
            .get(key)
            .map_or(0, |value| value.as_integer().expect("nanoseconds") as u64)
    };
    let limits = || {
        cells
            .iter()
            .map(|c| (c.to_string(), limit("max_batch", c), limit("min_batch", c)))
            .collect()
    };
    let sizes = || -> Vec<usize> {
        let list = table
            .get("batch_sizes")
            .and_then(|sizes| sizes.as_array())
            .into_iter()
            .flatten();
        list.map(|size| size.as_integer().expect("a size") as usize)
            .collect()
    };
    let policy = match table["kind"].as_str().expect("a kind") {
        "cellular" => Policy::Cellular {
            max_tasks: number("max_tasks"),
            lookahead: table
                .get("ahead")
                .map_or(0, |ahead| ahead.as_integer().expect("a number") as usize),
            chunk: number("chunk") as usize,
            sizes: sizes(),
            limits: limits(),
        },
        "late" => Policy::Cellular {
            max_tasks: 1,
            lookahead: number("lookahead") as usize,
            chunk: 1,
            sizes: sizes(),
            limits: limits(),
        },
        "padded" => Policy::Padded {
            bucket_width: number("bucket_width"),
            max_batch: number("max_batch"),
            pad_to_longest: text("pad_to") == Some("longest"),
            turn: text("turn").unwrap_or("bucket").into(),
            window: text("window").map_or(0, nanoseconds),
            ahead: table
                .get("ahead")
                .map_or(0, |value| value.as_integer().expect("a number") as usize),
            closes: text("version") == Some("21.10"),
        },
        // Without levels, preferred sizes and timeouts it is one bucket.
        "triton" => Policy::Padded {
            bucket_width: u32::MAX,
            max_batch: number("max_batch"),
            pad_to_longest: true,
            turn: "batch".into(),
            window: text("max_queue_delay").map_or(0, nanoseconds),
            ahead: table
                .get("ahead")
                .map_or(0, |value| value.as_integer().expect("a number") as usize),
            closes: text("version") == Some("21.10"),
        },
        "merged" => Policy::Merged {
            max_batch: number("max_batch"),
        },
        "fold" => Policy::Fold {
            max_batch: number("max_batch"),
            construct: time("construct_ns"),
            quarters: table
                .get("overlap")
                .map_or(4, |share| (share.as_float().expect("a share") * 4.0) as u64),
            copies: table
                .get("copies")
                .is_none_or(|copies| copies.as_bool().expect("yes or no")),
        },
        "ideal" => Policy::Ideal {
            max_batch: number("max_batch"),
        },
        "jit" => Policy::Jit {
            max_batch: number("max_batch"),
            by_graph: text("granularity") == Some("graph"),
            analysis: time("analysis_ns"),
            cache: table
                .get("cache")
                .is_none_or(|cache| cache.as_bool().expect("yes or no")),
        },
        "immediate" => Policy::Immediate,
        other => panic!("the reference does not know {other}"),
    };
    let cost_row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (
            fields[0].to_string(),
            fields[1].parse().expect("a batch"),
            fields[2].parse().expect("a time"),
        )
    };
    Case {
        trace: run.requests(),
        cells: cells.iter().map(ToString::to_string).collect(),
        costs: Costs(run.costs.lines().map(cost_row).collect()),
        given: [
            ("task", run.task_ns),
            ("gather", run.gather_ns),
            ("launch", run.launch_ns),
        ],
        workers: run.workers,
        policy,
    }
}

/// The cell types of a model.
fn cells_of(model: &str) -> &'static [&'static str] {
    match model {
        "lstm" => &["lstm"],
        "seq2seq" => &["encoder", "decoder"],
        "tree-lstm" => &["leaf", "internal"],
        _ => &["leaf", "internal", "encoder", "decoder"],
    }
}

/// Reduces a failing case step by step while it still fails.
fn shrink(mut run: Run) -> (Run, String) {
    while let Some(smaller) = smaller_runs(&run)
        .into_iter()
        .find(|run| difference(run).is_some())
    {
        run = smaller;
    }
    let what = difference(&run).expect("only failing cases are made smaller");
    (run, what)
}

/// Simpler variants of a run, the largest reduction first.
fn smaller_runs(run: &Run) -> Vec<Run> {
    let mut variants = Vec::new();
    let lines: Vec<&str> = run.trace.lines().collect();
    let mut length = lines.len() / 2;
    while length > 0 {
        for first in (0..lines.len()).step_by(length) {
            let kept = lines
                .iter()
                .enumerate()
                .filter(|(i, _)| !(first..first + length).contains(i));
            let trace: Vec<&str> = kept.map(|(_, line)| *line).collect();
            if !trace.is_empty() {
                variants.push(Run {
                    trace: trace.join("\n"),
                    ..run.clone()
                });
            }
        }
        length /= 2;
    }
    if run.workers > 1 {
        variants.push(Run {
            workers: run.workers - 1,
            ..run.clone()
        });
    }
    for without in [
        Run {
            task_ns: None,
            ..run.clone()
        },
        Run {
            gather_ns: None,
            ..run.clone()
        },
        Run {
            launch_ns: None,
            ..run.clone()
        },
    ] {
        let given = |run: &Run| [run.task_ns, run.gather_ns, run.launch_ns];
        if given(&without) != given(run) {
            variants.push(without);
        }
    }
    let costs: Vec<&str> = run.costs.lines().collect();
    for dropped in &costs {
        let cell = dropped.split(',').next();
        if costs
            .iter()
            .filter(|line| line.split(',').next() == cell)
            .count()
            > 1
        {
            let kept: Vec<&str> = costs
                .iter()
                .copied()
                .filter(|line| line != dropped)
                .collect();
            variants.push(Run {
                costs: kept.join("\n"),
                ..run.clone()
            });
        }
    }
    for (place, line) in lines.iter().enumerate() {
        let (at, shape) = line.split_once(' ').expect("an arrival and a shape");
        let mut simpler: Vec<String> = SMALL_SHAPES
            .iter()
            .filter(|small| {
                small.split(':').next() == shape.split(':').next() && small.len() < shape.len()
            })
            .map(|small| format!("{at} {small}"))
            .collect();
        if let Some((rest, last)) = shape
            .rsplit_once(' ')
            .filter(|_| shape.starts_with("graph:"))
        {
            let needed = format!("{}", rest.split(' ').count());
            if !rest.split(['<', ',', ' ']).any(|word| word == needed) {
                simpler.push(format!("{at} {rest}"));
            }
            if let Some((cell, _)) = last.split_once('<') {
                simpler.push(format!("{at} {rest} {cell}"));
            }
        }
        if place == 0 && lines.len() == 1 && at != "0" {
            simpler.push(format!("0 {shape}"));
        }
        for line in simpler {
            let mut trace = lines.clone();
            trace[place] = &line;
            variants.push(Run {
                trace: trace.join("\n"),
                ..run.clone()
            });
        }
    }
    variants
}

/// Replacements for a shape of the same kind.
const SMALL_SHAPES: [&str; 8] = [
    "chain:1",
    "chain:2",
    "chain:3",
    "seq2seq:1>1",
    "seq2seq:2>2",
    "tree:0",
    "tree:2 0",
    "tree:3 3 0",
];

/// A random run. All times are from one small range, so that many fall on the same instant.
fn random_run(rng: &mut RandomSequence, policy: &str, model: &str) -> Run {
    // The reference does not define the order of multi-cell chains that two workers could continue.
    let one = matches!(policy, "late" | "tasks ahead") && matches!(model, "lstm" | "seq2seq");
    let workers = if one { 1 } else { rng.random_range(1..=4) };
    let longest_gap = *pick(rng, &[0, 2, 20, 500, 50_000]);
    let dearest = *pick(rng, &[1, 3, 20, 400, 5_000_000_000]);
    let most_requests = *pick(rng, &[3, 8, 25, 60]);

    let mut at = *pick(rng, &[0, 0, 7]);
    let trace: Vec<String> = (0..rng.random_range(1..=most_requests))
        .map(|_| {
            if rng.random_bool(0.5) {
                at += rng.random_range(0..=longest_gap);
            }
            format!("{at} {}", random_shape(rng, model))
        })
        .collect();

    let cells = cells_of(model);
    let mut costs: Vec<String> = cells
        .iter()
        .flat_map(|cell| random_costs(rng, cell, dearest))
        .collect();
    // Each overhead is one number, or depends on the batch size, or is absent.
    let [task_ns, gather_ns, launch_ns] = ["task", "gather", "launch"].map(|name| {
        let given = rng.random_range(0..3);
        if given == 1 {
            costs.extend(random_costs(rng, name, dearest));
        }
        (given == 0).then(|| rng.random_range(0..=dearest))
    });
    if policy == "fold" {
        for name in ["copy", "empty"] {
            if rng.random_bool(0.7) {
                costs.extend(random_costs(rng, name, dearest));
            }
        }
    }
    costs.shuffle(rng);
    let policy = random_policy(rng, policy, model, longest_gap.max(dearest.min(400)));
    if workers > 1 && rng.random_bool(0.5) {
        costs.extend(random_costs(rng, "transfer", dearest));
    }
    Run {
        classes: Default::default(),
        model: model.into(),
        workers,
        policy,
        task_ns,
        gather_ns,
        launch_ns,
        costs: costs.join("\n"),
        trace: trace.join("\n"),
    }
}

fn pick<'a, T>(rng: &mut RandomSequence, choices: &'a [T]) -> &'a T {
    &choices[rng.random_range(0..choices.len())]
}

fn random_shape(rng: &mut RandomSequence, model: &str) -> String {
    let longest = *pick(rng, &[1, 4, 12]);
    match model {
        "lstm" if rng.random_bool(0.1) => format!("tokens:{}", rng.random_range(1..=longest)),
        "lstm" => format!("chain:{}", rng.random_range(1..=longest)),
        "seq2seq" => format!(
            "seq2seq:{}>{}",
            rng.random_range(1..=longest),
            rng.random_range(1..=longest)
        ),
        "tree-lstm" => random_tree(rng, longest),
        _ => random_graph(rng, longest),
    }
}

/// An acyclic graph whose subgraphs do not wait for each other, with randomly numbered nodes. Neighbours often have one
/// type, so subgraphs have several nodes.
fn random_graph(rng: &mut RandomSequence, most: usize) -> String {
    let types = rng.random_range(1..=4);
    loop {
        let size = rng.random_range(1..=most);
        let mut numbers: Vec<usize> = (0..size).collect();
        numbers.shuffle(rng);
        let mut words = vec![String::new(); size];
        let mut cells: Vec<&str> = Vec::new();
        for node in 0..size {
            let needs: Vec<usize> = (0..node)
                .filter(|_| rng.random_bool((1.5 / size as f64).min(0.5)))
                .collect();
            let cell = match needs.first() {
                Some(input) if rng.random_bool(0.6) => cells[*input],
                _ => *pick(rng, &cells_of("graphs")[..types]),
            };
            cells.push(cell);
            let needs: Vec<String> = needs
                .iter()
                .map(|need| numbers[*need].to_string())
                .collect();
            let mark = if needs.is_empty() { "" } else { "<" };
            words[numbers[node]] = format!("{cell}{mark}{}", needs.join(","));
        }
        let graph = format!("graph:{}", words.join(" "));
        if !Graph::unfold(&graph).waits_in_a_circle() {
            return graph;
        }
    }
}

/// A tree of random arity, a binary tree, or a path, with randomly numbered nodes.
fn random_tree(rng: &mut RandomSequence, size: usize) -> String {
    let arity = *pick(rng, &[1, 2, 2, size]);
    let mut children = vec![0; size];
    let mut parents = vec![usize::MAX];
    for _ in 1..size {
        let free: Vec<usize> = (0..parents.len())
            .filter(|node| children[*node] < arity)
            .collect();
        let parent = *pick(rng, &free);
        children[parent] += 1;
        parents.push(parent);
    }
    let mut names: Vec<usize> = (1..=size).collect();
    names.shuffle(rng);
    let mut named = vec![String::new(); size];
    for (node, parent) in parents.into_iter().enumerate() {
        named[names[node] - 1] = names.get(parent).copied().unwrap_or(0).to_string();
    }
    format!("tree:{}", named.join(" "))
}

/// One to five rows of a cell, in random order, increasing or not.
fn random_costs(rng: &mut RandomSequence, cell: &str, dearest: u64) -> Vec<String> {
    let mut batches: Vec<u32> = (1..=*pick(rng, &[5, 30])).collect();
    batches.shuffle(rng);
    batches.truncate(rng.random_range(1..=5));
    batches
        .into_iter()
        .map(|batch| format!("{cell},{batch},{}", rng.random_range(0..=dearest)))
        .collect()
}

fn random_policy(
    rng: &mut RandomSequence,
    kind: &str,
    model: &str,
    longest_time: u64,
) -> toml::Table {
    let largest = *pick(rng, &[2, 4, 8, 64]);
    let max_batch = rng.random_range(1..=largest);
    let text = match kind {
        "cellular" | "chunks" | "tasks ahead" | "late" => {
            let kept = match kind {
                "chunks" => format!(
                    "chunk = {}\nmax_tasks = {}",
                    rng.random_range(2..=7),
                    rng.random_range(1..=4)
                ),
                "late" => format!("lookahead = {}", rng.random_range(0..=3)),
                "tasks ahead" => format!(
                    "ahead = {}\nmax_tasks = {}",
                    rng.random_range(1..=4),
                    rng.random_range(1..=4)
                ),
                _ => format!("max_tasks = {}", rng.random_range(1..=6)),
            };
            // Three in five of the 2,100 cases of these kinds.
            let mut sizes: Vec<u32> = (1..largest).filter(|_| rng.random_bool(0.3)).collect();
            sizes.push(largest + rng.random_range(0..3));
            let kept = if rng.random_bool(0.6) {
                format!("{kept}\nbatch_sizes = {sizes:?}")
            } else {
                kept
            };
            let (mut max, mut min) = (Vec::new(), Vec::new());
            for cell in cells_of(model) {
                let most = rng.random_range(1..=largest);
                max.push(format!("{cell} = {most}"));
                min.push(format!("{cell} = {}", rng.random_range(1..=most)));
            }
            if rng.random_bool(0.5) {
                let min_batch = rng.random_range(1..=max_batch.min(3));
                format!("{kept}\nmax_batch = {max_batch}\nmin_batch = {min_batch}")
            } else {
                let (max, min) = (max.join(", "), min.join(", "));
                format!("{kept}\nmax_batch = {{ {max} }}\nmin_batch = {{ {min} }}")
            }
        }
        "padded" | "ahead" => {
            let width = rng.random_range(1..=6);
            let pad_to = *pick(rng, &["bucket", "longest"]);
            let turn = *pick(
                rng,
                &[
                    "",
                    "turn = 'bucket'\n",
                    "turn = 'batch'\n",
                    "turn = 'oldest'\n",
                    "turn = 'fullest'\n",
                ],
            );
            let window = if rng.random_bool(0.5) {
                0
            } else {
                rng.random_range(0..=longest_time)
            };
            let ahead = if kind == "ahead" {
                format!("ahead = {}\n", rng.random_range(1..=3))
            } else {
                String::new()
            };
            format!(
                "{turn}{ahead}bucket_width = {width}\nmax_batch = {max_batch}\npad_to = \"{pad_to}\"\nwindow = \"{window}ns\""
            )
        }
        "closed" => {
            let window = if rng.random_bool(0.3) {
                0
            } else {
                rng.random_range(0..=longest_time)
            };
            let both = format!(
                "version = '21.10'\nmax_batch = {max_batch}\nahead = {}\n",
                rng.random_range(0..=2)
            );
            match rng.random_bool(0.5) {
                true => format!("kind = 'triton'\n{both}max_queue_delay = '{window}ns'"),
                false => {
                    let (width, pad_to) =
                        (rng.random_range(12..=20), pick(rng, &["bucket", "longest"]));
                    format!(
                        "kind = 'padded'\n{both}window = '{window}ns'\nturn = 'batch'\nbucket_width = {width}\npad_to = '{pad_to}'"
                    )
                }
            }
        }
        "merged" | "ideal" => format!("max_batch = {max_batch}"),
        "fold" => {
            let construct = if rng.random_bool(0.2) {
                0
            } else {
                rng.random_range(0..=longest_time)
            };
            let overlap = pick(rng, &["0.0", "0.25", "0.5", "0.75", "1.0", "1.0"]);
            let copies = rng.random_bool(0.7);
            format!(
                "max_batch = {max_batch}\nconstruct_ns = {construct}\noverlap = {overlap}\ncopies = {copies}"
            )
        }
        "jit" => {
            // A shape in a file describes its graph; the shape of a random graph does not, and the crate compares
            // shapes.
            let granularities = if model == "graphs" {
                &["cell"][..]
            } else {
                &["cell", "graph"]
            };
            let granularity = pick(rng, granularities);
            let analysis = rng.random_range(0..=longest_time);
            let cache = rng.random_bool(0.7);
            format!(
                "max_batch = {max_batch}\ngranularity = \"{granularity}\"\nanalysis_ns = {analysis}\ncache = {cache}"
            )
        }
        _ => String::new(),
    };
    let kind = match kind {
        "chunks" | "tasks ahead" => "kind = 'cellular'".into(),
        "ahead" => "kind = 'padded'".into(),
        "closed" => String::new(),
        kind => format!("kind = '{kind}'"),
    };
    format!("{kind}\n{text}").parse().expect("a table")
}
