//! Tasks that no correct policy submits: the request fails with a reason.

use std::sync::Arc;

use super::listed_networks::{REPEATED, listed, network};
use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::task::{MemberList, NodeRef, Part, Step};
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;
use crate::devices::task_checks::left_over;

pub type ByHand = (Vec<Step>, MemberList);

/// Runs tasks in order, asserts that request 0 has no output, and returns the reasons of failures.
pub type Run<'a> = &'a dyn Fn(&Arc<Network>, &Requests, &[ByHand]) -> Vec<Option<String>>;

const NOT_ONE_BATCH: &str =
    "the policy's task lists nodes, but its steps are not one batch that holds them";

fn step(cell: u16, batch: u32, times: u32) -> Step {
    Step {
        cell: CellId(cell),
        batch,
        times,
        input: 0,
    }
}

pub fn nodes_out_of_order(run: Run<'_>) {
    let node = |node| NodeRef {
        request: RequestId(0),
        node: NodeId(node),
    };
    let nodes = |list: &[u32]| MemberList::Nodes(list.iter().map(|n| node(*n)).collect());
    let whole = || MemberList::Requests(vec![RequestId(0)]);
    let one = || vec![step(0, 1, 1)];
    let leaf = || vec![step(1, 1, 1)];
    // The tree has the leaves 0 and 1 under the root 2.
    let chain = ("lstm", "chain:3");
    let tree = ("tree-lstm", "tree:3 3 0");
    let cases: [(_, Vec<ByHand>, &str); 11] = [
        (
            chain,
            vec![(one(), nodes(&[2]))],
            "the policy ran node 2 before node 1, whose state it needs",
        ),
        (
            chain,
            vec![(one(), nodes(&[0])), (one(), nodes(&[0]))],
            "the policy ran node 0 twice",
        ),
        (
            chain,
            vec![(vec![step(0, 2, 1)], nodes(&[0, 1]))],
            "the policy ran node 1 before node 0, whose state it needs",
        ),
        (
            chain,
            vec![(one(), nodes(&[7]))],
            "the policy ran node 7, which the request does not have",
        ),
        (
            chain,
            vec![(leaf(), nodes(&[0]))],
            "the policy ran node 0 as the cell 1, but it is the cell lstm",
        ),
        (
            chain,
            vec![(vec![step(0, 1, 2)], nodes(&[0]))],
            NOT_ONE_BATCH,
        ),
        (
            chain,
            vec![(vec![step(0, 1, 2)], whole())],
            "the steps of the policy's task ended while 1 of 3 nodes had not run",
        ),
        // Three encoders and a decoder, for which no node is ready.
        (
            ("seq2seq", "seq2seq:3>1"),
            vec![(vec![step(1, 1, 2), step(0, 1, 1)], whole())],
            "the steps of the policy's task ended while 2 of 4 nodes had not run",
        ),
        (
            tree,
            vec![(one(), nodes(&[2]))],
            "the policy ran node 2 before node 0, whose state it needs",
        ),
        (
            tree,
            vec![(leaf(), nodes(&[1])), (leaf(), nodes(&[1]))],
            "the policy ran node 1 twice",
        ),
        (
            tree,
            vec![(leaf(), whole())],
            "the steps of the policy's task ended while 2 of 3 nodes had not run",
        ),
    ];
    for ((model, shape), tasks, reason) in cases {
        let model = Model::parse(model).expect("a model");
        let shapes = vec![shape.parse().expect("a shape")];
        let requests = Requests::unfold(shapes.into(), &model).expect("a request");
        assert_eq!(
            run(&network(&model), &requests, &tasks)[0].as_deref(),
            Some(reason)
        );
    }
}

pub fn parts_out_of_order(run: Run<'_>) {
    let model = listed(REPEATED);
    let part = |from, to| Part {
        request: RequestId(0),
        from: NodeId(from),
        to: NodeId(to),
    };
    let step = |cell, times| step(cell, 1, times);
    let cases: [(Vec<Step>, Vec<Part>, &str); 5] = [
        (
            vec![step(0, 1)],
            vec![part(2, 3)],
            "the policy ran node 2 before node 1, whose state it needs",
        ),
        (
            vec![step(0, 1)],
            vec![part(0, 1), part(0, 1)],
            NOT_ONE_BATCH,
        ),
        (
            vec![step(0, 1), step(1, 1)],
            vec![part(0, 3)],
            NOT_ONE_BATCH,
        ),
        (
            vec![step(0, 2), step(2, 1)],
            vec![part(0, 3)],
            NOT_ONE_BATCH,
        ),
        (
            vec![step(0, 1), step(1, 1), step(0, 1)],
            vec![part(0, 9)],
            NOT_ONE_BATCH,
        ),
    ];
    for (steps, parts, reason) in cases {
        let requests = Requests::unfold(vec![Shape::Fixed; 2].into(), &model).expect("requests");
        // The other request runs as far as its own steps reach.
        let other = (
            vec![step(0, 3), step(1, 2), step(2, 1)],
            MemberList::Requests(vec![RequestId(1)]),
        );
        let failures = run(
            &network(&model),
            &requests,
            &[(steps, MemberList::Parts(parts)), other],
        );
        assert_eq!(failures, [Some(reason.to_string()), Some(left_over(4, 6))]);
    }
}
