//! Listed networks and parts of requests: their results under every policy, on one stream and on several.

use rand::RngExt as _;

use super::Service;
use super::fake::Fake;
use super::staying::{Hand, step};
use crate::base::units::{CellId, Nanos, NodeId, RequestId, WorkerId};
use crate::core::backend::{Answer, Backend as _};
use crate::core::policy::cellular::Cellular;
use crate::core::policy::dvabatch::DvaBatch;
use crate::core::policy::values::PerCell;
use crate::core::task::{MemberList, NodeRef, Part, Step};
use crate::core::workload::model::Model;
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::cuda::{Cuda, Options};
use crate::devices::tests::listed_networks::{
    self, EXAMPLE, costs, is_right, listed, network, requests,
};

#[test]
fn results_are_the_same_in_stages_and_whole_and_node_by_node() {
    listed_networks::results_are_the_same(160, &|case, rng| {
        let mut service = Service::new(&case.network, &case.requests, &*case.policy);
        service.costs = Some(costs(case.network.model()));
        service.workers = case.workers;
        // Stages have streams of their own; other tasks are spread over several.
        service.streams = if case.by_stages && rng.random_bool(0.7) {
            0
        } else {
            rng.random_range(1..=3)
        };
        service.astray = rng.random_bool(0.2);
        let mut device = Fake::new(
            &case.network,
            random::sequence(rng.random(), 0, "cuda listed device"),
        );
        if case.network.operators().is_none() {
            device.most_steps = [0, 2, 100][rng.random_range(0..3)];
        }
        let (outputs, record) = service.serve(&mut device, rng);
        (
            outputs
                .into_iter()
                .map(|output| output.map(Answer::Output))
                .collect(),
            record,
        )
    });
}

#[test]
fn stages_on_streams_of_their_own_keep_the_laws() {
    listed_networks::stages_keep_the_laws(&|model, requests, workers, run| {
        let network = network(model);
        let mut device = Fake::new(&network, random::sequence(3, 0, "laws device"));
        let options = Options {
            streams: 3,
            ..Options::default()
        };
        run(
            &mut Cuda::new(&mut device, network, requests, workers, &options)
                .expect("a device that is well"),
        );
    });
}

#[test]
fn only_outputs_that_are_kept_are_there() {
    let model = listed(EXAMPLE);
    let network = network(&model);
    let mut rng = random::sequence(2, 0, "cuda listed kept");
    let requests = requests(&model, 9, &mut rng);
    let policy = Cellular::default();
    let mut service = Service::new(&network, &requests, &policy);
    service.options.keep = vec![RequestId(2), RequestId(7)];
    let mut device = Fake::new(&network, random::sequence(2, 0, "cuda listed kept device"));
    let (outputs, _) = service.serve(&mut device, &mut rng);
    for (request, output) in (0..).zip(&outputs) {
        assert_eq!(output.is_some(), [2, 7].contains(&request));
        if output.is_some() {
            assert_eq!(
                is_right(&network, &requests, request, output.as_ref()),
                Ok(()),
                "request {request}"
            );
        }
    }
}

fn part(request: u32, from: u32, to: u32) -> Part {
    Part {
        request: RequestId(request.into()),
        from: NodeId(from),
        to: NodeId(to),
    }
}

#[test]
fn parts_of_chains_stay_in_their_rows_over_a_stage() {
    let network = network(&Model::Lstm);
    let shapes: Vec<Shape> = vec![Shape::Chain(5), Shape::Chain(7)];
    let requests = Requests::unfold(shapes.into(), &Model::Lstm).expect("chains");
    let mut device = Fake::new(&network, random::sequence(5, 0, "parts"));
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    for (steps, parts, gathers) in [
        (3, vec![part(0, 0, 3), part(1, 0, 3)], 1),
        // The parts continue in place; one that has ended is padding.
        (3, vec![part(0, 3, 5), part(1, 3, 6)], 1),
        (1, vec![part(1, 6, 7)], 1),
    ] {
        hand.submit(0, &[step(0, 2, steps)], MemberList::Parts(parts));
        assert!(hand.cuda.wait(None).is_some());
        assert_eq!(hand.counts().0, gathers, "{steps} steps");
    }
    for request in 0..2 {
        assert_eq!(
            is_right(
                &network,
                &requests,
                request,
                hand.cuda.output(RequestId(request)).as_ref()
            ),
            Ok(())
        );
    }
}

#[test]
fn all_batches_of_operators_are_made_ready() {
    let model = listed(EXAMPLE);
    let network = network(&model);
    let mut rng = random::sequence(8, 0, "cuda listed ready");
    let requests = requests(&model, 6, &mut rng);
    let policy = Cellular {
        max_batch: PerCell::All(4),
        ..Cellular::default()
    };
    let mut service = Service::new(&network, &requests, &policy);
    let cells = 0..model.cell_types().len() as u16;
    service.options.materialise = cells.clone().map(|cell| (CellId(cell), 4)).collect();
    let mut device = Fake::new(&network, random::sequence(8, 0, "cuda listed ready device"));
    service.serve(&mut device, &mut rng);
    for (cell, rows) in cells.flat_map(|cell| (1..=4).map(move |rows| (CellId(cell), rows))) {
        assert!(
            device
                .shapes()
                .any(|shape| shape.cell == cell && shape.rows == rows),
            "{cell:?} of {rows}"
        );
    }
}

#[test]
fn a_batch_is_padded_to_its_longest_or_to_what_the_task_says() {
    let model = listed(EXAMPLE);
    let network = network(&model);
    let shapes: Vec<Shape> = [5, 9, 2].map(Shape::Tokens).into();
    let requests = Requests::unfold(shapes.into(), &model).expect("requests");
    let mut device = Fake::new(&network, random::sequence(5, 0, "padded"));
    let mut hand = Hand::new(&mut device, &network, &requests, 1, 8);
    let first = model
        .network()
        .and_then(|listed| listed.cell_at(NodeId(0)))
        .expect("an operator");
    for (input, members) in [(0, vec![0, 1]), (16, vec![2])] {
        let nodes = members
            .into_iter()
            .map(|id| NodeRef {
                request: RequestId(id),
                node: NodeId(0),
            })
            .collect();
        hand.submit(
            0,
            &[Step {
                cell: first,
                batch: 3,
                times: 1,
                input,
            }],
            MemberList::Nodes(nodes),
        );
        assert!(hand.cuda.wait(None).is_some());
    }
    let padded: Vec<u32> = hand
        .cuda
        .launcher
        .device
        .shapes()
        .map(|shape| shape.tokens)
        .collect();
    assert_eq!(padded, [9, 16]);
}

#[test]
fn nan_and_infinity_fail_only_their_request() {
    let model = listed(EXAMPLE);
    let network = network(&model);
    let mut rng = random::sequence(9, 0, "cuda listed broken");
    let requests = requests(&model, 12, &mut rng);
    let policy = DvaBatch {
        max_batch: 4,
        comp_wait: Some(Nanos(100_000)),
        ..DvaBatch::default()
    };
    let mut service = Service::new(&network, &requests, &policy);
    (service.costs, service.streams) = (Some(costs(&model)), 0);
    let mut device = Fake::new(
        &network,
        random::sequence(9, 0, "cuda listed broken device"),
    );
    device.trouble.not_a_number = Some((RequestId(4), 3));
    let (outputs, record) = service.serve(&mut device, &mut rng);
    let failed: Vec<u64> = record
        .failures
        .iter()
        .map(|(request, ..)| request.0)
        .collect();
    assert_eq!(failed, [4]);
    for (request, output) in (0..).zip(&outputs).filter(|(request, _)| *request != 4) {
        assert_eq!(
            is_right(&network, &requests, request, output.as_ref()),
            Ok(()),
            "request {request}"
        );
    }
}

#[test]
fn a_worker_that_dies_between_stages_takes_its_requests_with_it() {
    for (case, refuses) in (0..12).zip([false, true].into_iter().cycle()) {
        let model = listed(EXAMPLE);
        let network = network(&model);
        let mut rng = random::sequence(case, 0, "cuda listed dies");
        let requests = requests(&model, 20, &mut rng);
        let policy = DvaBatch {
            max_batch: 4,
            comp_wait: Some(Nanos(100_000)),
            ..DvaBatch::default()
        };
        let mut service = Service::new(&network, &requests, &policy);
        (service.costs, service.streams, service.workers) = (Some(costs(&model)), 0, 2);
        service.between_calls = std::time::Duration::ZERO;
        let mut device = Fake::new(
            &network,
            random::sequence(case, 0, "cuda listed dies device"),
        );
        device.trouble.dies = Some((WorkerId(1), 20 + 5 * case));
        device.trouble.refuses = refuses;
        let (outputs, record) = service.serve(&mut device, &mut rng);
        assert!(
            record
                .failures
                .iter()
                .all(|(.., reason)| reason.contains("worker 1")),
            "{:?}",
            record.failures
        );
        for (request, output) in (0..).zip(&outputs) {
            let failed = record
                .failures
                .iter()
                .any(|(failed, ..)| failed.0 == request);
            assert_eq!(failed, output.is_none(), "request {request}");
            if !failed {
                assert_eq!(
                    is_right(&network, &requests, request, output.as_ref()),
                    Ok(()),
                    "request {request}"
                );
            }
        }
    }
}
