//! Networks that a file lists: every operator computes what the CPU's does from the same activations.

use std::path::Path;
use std::sync::Arc;

use batchlab::cuda::device::{Device, GatherRow, HostPlace, StateSlot};
use batchlab::network::Spec;
use batchlab::precision::Precision;
use batchlab::units::{CellId, NodeId, RequestId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::dnn::Dnn;
use batchlab::workload::model::{Model, Unfolder};
use batchlab::workload::shape::Shape;

use crate::bench::{Bench, PLACE, STREAM, inside, spec};

/// A block of a transformer, in widths that are read by fours.
const EXAMPLE: &str = include_str!("../../scenarios/networks/example.csv");

/// Widths and numbers of all kinds: groups, matrices of odd sizes, operators that read round and round, one of a single number, and one
/// that comes again directly behind itself.
const ODD: &str = "shape,tokens,12\nname,kind,count,rows,inner,columns,elements\npairs,batched-matmul,2,tokens,3,tokens + 1,9\n\
                   groups,matmul,3,tokens,5,7,9\nagain,matmul,2,3,5,7,9\nagain,matmul,2,3,5,7,9\nmove,memory,,,,,101*tokens\n\
                   fours,matmul,,tokens,8,12,9\nmixed,batched-matmul,3,2,tokens,tokens*tokens,9\none,memory,,,,,1\n\
                   last,matmul,2,4,4,4,9\n";

fn listed(text: &str) -> Model {
    Model::Network(Arc::new(
        Dnn::parse("n.csv", Path::new("n.csv"), text).expect("a network"),
    ))
}

/// How far operators may be off what they come to on the CPU.
fn bound(precision: Precision) -> f32 {
    if precision == Precision::F32 {
        5e-6
    } else {
        3e-2
    }
}

/// Runs queries of these tokens, 0 for one of fixed size, as one batch with padding, operator by operator, and compares.
fn runs_as_the_cpu(text: &str, tokens: &[u32], precision: Precision) {
    let model = listed(text);
    let network = model.network().expect("a network").clone();
    let mut bench = Bench::of(&model, &Spec { ..spec() }, precision, 1);
    let unfold = |tokens: &u32| {
        let shape = if *tokens == 0 {
            Shape::Fixed
        } else {
            Shape::Tokens(*tokens)
        };
        Unfolder::new(&model).unfold(&shape).expect("a request")
    };
    let graphs: Vec<CellGraph> = tokens.iter().map(unfold).collect();
    let lengths: Vec<Vec<u32>> = {
        let operators = bench.network.operators().expect("operators");
        graphs
            .iter()
            .map(|graph| {
                operators
                    .lengths(graph)
                    .map(|length| length as u32)
                    .collect()
            })
            .collect()
    };
    let place = |request: usize, node: usize| {
        let number = (request * network.operators().len() + node) as u32;
        HostPlace {
            number,
            begin: PLACE * u64::from(number),
            numbers: lengths[request][node],
        }
    };
    for (node, operator) in network.operators().enumerate() {
        let CellId(cell) = operator.cell;
        let longest = tokens.iter().max().expect("queries") + 1;
        let padded = if operator.form.is_constant() {
            0
        } else {
            longest.min(network.most_tokens.unwrap_or(0))
        };
        let plan = bench.plan_of(STREAM, cell, tokens.len() as u32 + 1, padded, true);
        let node = node as u32;
        let rows: Vec<GatherRow> = (0..)
            .zip(tokens)
            .map(|(request, tokens)| GatherRow {
                request: RequestId(request.into()),
                node,
                last: node,
                state: StateSlot(request),
                words: 0,
                tokens: *tokens,
                inputs_end: if node == 0 { 0 } else { request + 1 },
            })
            .collect();
        let inputs: Vec<u32> = if node == 0 {
            Vec::new()
        } else {
            (0..tokens.len() as u32).collect()
        };
        bench.gather(plan, &rows, &inputs);
        bench.launch(plan, 1);
        for request in 0..tokens.len() {
            let place = place(request, node as usize);
            bench
                .gpus
                .copy_to_host(STREAM, StateSlot(request as u32), place)
                .expect("a fetch");
        }
        assert_eq!(network.cell_at(NodeId(node)), Some(operator.cell));
    }
    bench.gpus.signal(STREAM).unwrap();
    bench
        .wait(STREAM, network.operators().len() as u64 + 1)
        .unwrap();
    let operators = bench.network.operators().expect("operators");
    for (request, graph) in graphs.iter().enumerate() {
        let nodes = 0..network.operators().len();
        let found: Vec<f32> = nodes
            .flat_map(|node| bench.gpus.fetched_state(place(request, node)).to_vec())
            .collect();
        let near = operators.follow(RequestId(request as u64), graph, &found, |passed| {
            let far = passed
                .found
                .iter()
                .zip(passed.expected)
                .position(|(found, expected)| {
                    let off = (found - expected).abs();
                    off.is_nan() || off > bound(precision)
                });
            far.map_or(Ok(()), |at| {
                Err(format!(
                    "{at}: {}, not {}",
                    passed.found[at], passed.expected[at]
                ))
            })
        });
        assert_eq!(near, Ok(()), "request {request} under {precision:?}");
        assert!(
            !bench
                .gpus
                .take_non_finite(STREAM.worker, StateSlot(request as u32))
        );
    }
}

#[test]
fn operators_in_all_precisions() {
    if inside("listed::operators_in_all_precisions", &[]) {
        for precision in Precision::ALL {
            runs_as_the_cpu(EXAMPLE, &[5, 9, 2], precision);
            runs_as_the_cpu(ODD, &[5, 11, 1, 4], precision);
        }
    }
}

#[test]
fn threads_of_operators_may_run_in_any_order() {
    for seed in ["1", "2"] {
        if inside(
            "listed::threads_of_operators_may_run_in_any_order",
            &[("SEED", seed)],
        ) {
            runs_as_the_cpu(EXAMPLE, &[4, 8], Precision::F32);
            runs_as_the_cpu(ODD, &[3, 12], Precision::F32);
            return;
        }
    }
}

/// A query has more numbers than half of what is in memory at once, so that each of them goes by itself; the first of the next operator
/// are enough to see them all.
#[test]
fn large_queries_go_one_after_the_other() {
    if !inside("listed::large_queries_go_one_after_the_other", &[]) {
        return;
    }
    let text = "shape,fixed\nname,kind,count,rows,inner,columns,elements\nwide,memory,,,,,16777300\nmany,matmul,,9000000,1,1,9\n\
                few,matmul,,8,16,16,9\n";
    runs_as_the_cpu_in_part(text);
}

fn runs_as_the_cpu_in_part(text: &str) {
    let model = listed(text);
    let mut bench = Bench::of(&model, &spec(), Precision::F32, 1);
    let network = model.network().expect("a network").clone();
    let count = 3;
    for (node, operator) in (0..).zip(network.operators()) {
        let plan = bench.plan_of(STREAM, operator.cell.0, count, 0, true);
        let rows: Vec<GatherRow> = (0..count)
            .map(|request| GatherRow {
                request: RequestId(request.into()),
                node,
                last: node,
                state: StateSlot(request),
                words: 0,
                tokens: 0,
                inputs_end: if node == 0 { 0 } else { request + 1 },
            })
            .collect();
        let inputs: Vec<u32> = if node == 0 {
            Vec::new()
        } else {
            (0..count).collect()
        };
        bench.gather(plan, &rows, &inputs);
        bench.launch(plan, 1);
    }
    let place = |request: u32| HostPlace {
        number: request,
        begin: PLACE * u64::from(request),
        numbers: 128,
    };
    (0..count).for_each(|request| {
        bench
            .gpus
            .copy_to_host(STREAM, StateSlot(request), place(request))
            .expect("a fetch")
    });
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 4).unwrap();
    let graph = Unfolder::new(&model)
        .unfold(&Shape::Fixed)
        .expect("a request");
    for request in 0..count {
        let expected = bench.alone(request, &graph).state;
        let came = bench.gpus.fetched_state(place(request));
        assert_eq!(came.len(), expected.len());
        for (came, expected) in came.iter().zip(&expected) {
            assert!(
                (came - expected).abs() < 1e-5,
                "request {request}: {came}, not {expected}"
            );
        }
    }
}
