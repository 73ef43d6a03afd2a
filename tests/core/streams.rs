//! A policy that uses several streams of each worker, from its settings to the files of a run.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use crate::lab::{Device, simulated};
use batchlab::conformance::{Guarantees, check};
use batchlab::cost::CostModel;
use batchlab::cost::table::Overhead;
use batchlab::error::Error;
use batchlab::explain::{ExplainedSubject, RepeatedRun};
use batchlab::figures;
use batchlab::policy::registry::{PolicyKind, Registry, Settings, Setup};
use batchlab::policy::whole::PaddedBatch;
use batchlab::policy::{Completed, Outcomes, Policy};
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::run::executor::Executors;
use batchlab::run::inputs::RunInputs;
use batchlab::scenario::Scenario;
use batchlab::task::Dispatch;
use batchlab::task::{Step, Task};
use batchlab::units::{CellId, Nanos, RequestId, Share, StreamId, TaskId};
use batchlab::validate::results::Results;
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::shape::Shape;
use batchlab::workload::trace::Request;
use serde::{Deserialize, Serialize};

/// `kind = "abreast"`: whole requests, first come first served, padded to the longest, one batch on each free stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Abreast {
    streams: u16,
    /// The share of the device that the batches of all streams may use together, in percent. It needs costs.
    percent: u32,
}

impl Default for Abreast {
    fn default() -> Self {
        Abreast {
            streams: 2,
            percent: 100,
        }
    }
}

/// The smallest batch of the first cell type that uses a share of the device.
fn batch_of(costs: &dyn CostModel, share: Share) -> u32 {
    let takes = |batch: &u32| {
        costs.demand(&Step {
            cell: CellId(0),
            batch: *batch,
            times: 1,
            input: 0,
        }) >= share
    };
    (1..=64).find(takes).unwrap_or(64)
}

impl Settings for Abreast {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("abreast", "whole requests on several streams")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("padding")?;
        let costs = setup.costs.ok_or("percent: needs device.costs")?;
        let share = Share(Share::WHOLE.0 * u64::from(self.percent) / 100 / u64::from(self.streams));
        Ok(Box::new(AbreastPolicy {
            max_batch: batch_of(&**costs, share.min(Share::WHOLE)) as usize,
            busy: vec![vec![false; self.streams.into()]; setup.workers],
            waiting: VecDeque::new(),
        }))
    }

    fn streams(&self, _: &Setup<'_>) -> u16 {
        self.streams
    }
}

struct AbreastPolicy {
    max_batch: usize,
    /// By worker and stream.
    busy: Vec<Vec<bool>>,
    waiting: VecDeque<(RequestId, CellGraph)>,
}

impl Policy for AbreastPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.waiting.push_back((request.id, request.graph.clone()));
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.busy[completed.worker.index()][completed.stream.index()] = false;
        completed
            .requests
            .iter()
            .for_each(|request| outcomes.finish(*request));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for worker in dispatch.workers() {
            let streams = self.busy[worker.index()].iter_mut().zip(0..);
            for (busy, stream) in streams.filter(|(busy, _)| !**busy) {
                let count = self.max_batch.min(self.waiting.len());
                if count == 0 {
                    return;
                }
                let mut batch = PaddedBatch::default();
                self.waiting
                    .drain(..count)
                    .for_each(|(request, graph)| batch.add(request, &graph));
                dispatch.submit(&Task {
                    stream: StreamId(stream),
                    ..batch.task(worker)
                });
                *busy = true;
            }
        }
    }

    fn works_ahead(&self) -> bool {
        true
    }
}

#[test]
fn it_keeps_the_laws_on_any_number_of_streams() {
    for streams in 1..=4 {
        for percent in [100, 250] {
            check(
                &Abreast { streams, percent },
                &Guarantees {
                    cases: 120,
                    ..Guarantees::default()
                },
            );
        }
    }
}

#[test]
#[should_panic(expected = "work: task 1 is on stream 1, and the policy uses 1")]
fn a_stream_that_was_not_asked_for_breaks_a_law() {
    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Quiet {}
    impl Settings for Quiet {
        fn describe(&self) -> PolicyKind {
            PolicyKind::new("quiet", "does not say that it uses two streams")
        }
        fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
            Abreast::default().build(setup)
        }
    }
    check(&Quiet {}, &Guarantees::default());
}

/// Batches up to 4 take the same time, so 4 is preferred.
const COSTS: &str = "lstm,1,100\nlstm,4,100\nlstm,8,200";

/// Chains of three that arrive at once, with a cost of 5 ns for each task.
fn served(streams: u16, percent: u32, requests: usize) -> FullRecord {
    served_with(COSTS, streams, percent, requests)
}

fn served_with(costs: &str, streams: u16, percent: u32, requests: usize) -> FullRecord {
    let device = Device::new(
        "lstm",
        1,
        costs,
        Overhead {
            task: Some(Nanos(5)),
            ..Overhead::default()
        },
    );
    let requests = device.requests(vec![Shape::Chain(3); requests]);
    let arrivals = vec![Nanos::ZERO; requests.len()];
    device.run(
        &Abreast { streams, percent },
        &requests,
        &arrivals,
        RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        },
    )
}

fn batches(record: &FullRecord) -> Vec<(u16, u32, u64, u64)> {
    record
        .execution
        .tasks
        .iter()
        .map(|task| (task.stream.0, task.batch, task.start.0, task.finish.0))
        .collect()
}

#[test]
fn halves_run_at_full_speed_and_wholes_at_half() {
    let halves = served(2, 100, 6);
    assert_eq!(
        batches(&halves),
        [(0, 2, 0, 305), (1, 2, 0, 305), (0, 2, 305, 610)]
    );
    assert_eq!(halves.execution.busy, [Nanos(610)], "not the sum");
    let wholes = served(2, 200, 8);
    assert_eq!(batches(&wholes), [(0, 4, 0, 610), (1, 4, 0, 610)]);
    assert_eq!(wholes.execution.busy, [Nanos(610)]);
    let one = served(1, 100, 8);
    assert_eq!(batches(&one), [(0, 4, 0, 305), (0, 4, 305, 610)]);
}

#[test]
fn measured_demands_replace_the_preferred_batch() {
    let costs = format!("{COSTS}\nlstm.demand,1,250000\nlstm.demand,4,750000");
    // Three are the least that use half of the device: 0.25 + 2 · 0.5 / 3 of it, so that two batches together take 7/6 of
    // the 305 ns, and what is left alone 305.
    assert_eq!(
        batches(&served_with(&costs, 2, 100, 9)),
        [(0, 3, 0, 356), (1, 3, 0, 356), (0, 3, 356, 661)]
    );
    assert_eq!(
        batches(&served_with(&costs, 2, 150, 8)),
        [(0, 4, 0, 458), (1, 4, 0, 458)]
    );
}

fn registry() -> Registry {
    Registry::standard().with::<Abreast>()
}

/// A scenario of six chains of three that arrive at once, with this `[device]`.
fn scenario(folder: &Path, device: &str) -> Result<Scenario, Error> {
    fs::write(
        folder.join("costs.csv"),
        format!("cell,batch,ns\n{COSTS}\n"),
    )
    .unwrap();
    fs::write(folder.join("broken.csv"), "cell,batch,ns\nlstm,0,5\n").unwrap();
    let text = format!(
        "name = 'streams'\n[workload]\nmodel = 'lstm'\ndataset = 'constant:3'\nrequests = 6\n[arrivals]\nprocess = 'offline'\n\
         [device]\n{device}\n[overhead]\ntask_ns = 5\n[output]\ntimeline = true\nplots = ['gantt']\n\
         [[policy]]\nkind = 'abreast'\n"
    );
    Scenario::parse(text, &folder.join("streams.toml"), &[], &registry())
}

#[test]
fn files_and_figures_have_a_lane_for_each_stream() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenario(folder.path(), "costs = 'costs.csv'").unwrap();
    let report = simulated(&scenario, folder.path().join("out"));
    let path = &report.folder.path;
    let results = Results::open(path, &registry()).unwrap();
    let point = &results.points[0];
    let read = |file: &str| fs::read_to_string(point.folder.join(file)).unwrap();
    assert_eq!(
        read("tasks.csv"),
        "task,worker,stream,cell,batch,submit_ns,start_ns,finish_ns\n\
         0,0,0,lstm,2,0,0,305\n1,0,1,lstm,2,0,0,305\n2,0,0,lstm,2,305,305,610\n"
    );
    let timeline = read("timeline.json");
    assert!(
        timeline.contains("worker 0 stream 0") && timeline.contains("worker 0 stream 1"),
        "{timeline}"
    );
    figures::draw(&scenario, path, &[]).unwrap();
    let gantt = fs::read_to_string(path.join("gantt.svg")).unwrap();
    assert!(
        gantt.contains("stream 0") && gantt.contains("stream 1"),
        "{gantt}"
    );
    let point_json: serde_json::Value = serde_json::from_str(&read("point.json")).unwrap();
    assert!(
        point_json.to_string().contains("\"utilization\":1.0"),
        "{point_json}"
    );
    // A second run is identical.
    let subject = ExplainedSubject::Task(TaskId(1));
    let again = RepeatedRun::run(&results, point, &subject, &Executors::standard()).unwrap();
    assert_eq!(again.record.execution.busy, [Nanos(610)]);
    assert_eq!(again.row(TaskId(1)).unwrap().stream, StreamId(1));
    // Two streams serve no more than one stream of full batches: 4 in 100 · 3 ns, without the overhead.
    let bounds: serde_json::Value =
        serde_json::from_slice(&fs::read(path.join("bounds.json")).unwrap()).unwrap();
    assert_eq!(bounds["ceiling_rps"], 4e9 / 300.0);
}

#[test]
fn a_policy_finds_costs_wherever_a_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let named = scenario(folder.path(), "costs = 'costs.csv'").unwrap();
    RunInputs::new(&named).unwrap().policy(0).unwrap();
    let error = scenario(folder.path(), "").unwrap_err().to_string();
    assert!(
        error.contains("policy[0] (abreast): percent: needs device.costs"),
        "{error}"
    );
    let error = scenario(folder.path(), "costs = 'broken.csv'")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("broken.csv:2: batch") && !error.contains("policy[0]"),
        "{error}"
    );
}
