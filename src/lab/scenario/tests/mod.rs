use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::arrivals::Distribution;
use super::*;
use crate::core::policy::registry::{PolicyKind, Settings, Setup};
use crate::core::policy::values::PerCell;
use crate::core::policy::{Completed, Outcomes, Policy};
use crate::core::task::Dispatch;
use crate::core::workload::trace::Request;

mod mistakes;
mod reference;

/// A policy that rejects everything.
struct Refuser;

impl Policy for Refuser {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        outcomes.reject(request.id);
    }
    fn complete(&mut self, _: &Completed<'_>, _: &mut Outcomes) {}
    fn schedule(&mut self, _: &mut Dispatch<'_>) {}
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Toy {
    max_batch: PerCell,
    pad_to: PadTo,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PadTo {
    Bucket,
    Longest,
}

impl Default for Toy {
    fn default() -> Self {
        Toy {
            max_batch: PerCell::All(512),
            pad_to: PadTo::Bucket,
        }
    }
}

impl Settings for Toy {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("toy", "rejects everything")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.max_batch.resolve("max_batch", setup.cells)?;
        match setup.model {
            Model::TreeLstm => Err("toys take no trees".into()),
            _ => Ok(Box::new(Refuser)),
        }
    }
}

struct Desk {
    folder: tempfile::TempDir,
}

const GOOD: &str = r#"name = "s"
[workload]
model = "seq2seq"
dataset = "lengths.csv"
[arrivals]
process = "poisson"
rates = [1000, 2000.5]
[device]
costs = "costs.csv"
[[policy]]
kind = "toy"
[[policy]]
kind = "toy"
label = "Big (1.5)"
max_batch = { encoder = 4, decoder = 2 }
"#;

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lengths = "src_len,tgt_len,count\n5,4,1\n";
        for (file, text) in [
            ("lengths.csv", lengths),
            ("costs.csv", ""),
            ("trace.csv", ""),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        Desk { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("s.toml")
    }

    fn read(&self, text: &str, overrides: &[&str]) -> Result<Scenario> {
        let overrides: Vec<String> = overrides.iter().map(|set| set.to_string()).collect();
        Scenario::parse(
            text.into(),
            &self.file(),
            &overrides,
            &Registry::new().with::<Toy>(),
        )
    }

    /// The error message without the folder.
    fn refusal(&self, text: &str, overrides: &[&str]) -> String {
        match self.read(text, overrides) {
            Ok(scenario) => panic!("accepted:\n{text}{overrides:?}\n{scenario:?}"),
            Err(error) => {
                assert_eq!(error.exit_code(), 2);
                error
                    .to_string()
                    .replace(&format!("{}/", self.folder.path().display()), "")
            }
        }
    }
}

#[test]
fn a_scenario_is_read_with_its_defaults() {
    let desk = Desk::new();
    let scenario = desk.read(GOOD, &[]).unwrap();
    assert_eq!(
        (
            scenario.name.as_str(),
            scenario.seed,
            scenario.device.workers
        ),
        ("s", 1, 1)
    );
    assert_eq!(
        scenario.points(),
        [1000.0, 2000.5].map(|rate| LoadPoint::Rate(Rate(rate)))
    );
    assert_eq!(
        scenario.device.costs.as_deref(),
        Some(&*desk.folder.path().join("costs.csv"))
    );
    assert_eq!(
        scenario.resolved_json(),
        json!({
            "name": "s",
            "seed": 1,
            "workload": {
                "model": "seq2seq", "hidden": 1024, "embedding": 1024, "vocabulary": 30_000, "weights": null,
                "dataset": "lengths.csv", "requests": 100_000, "max_length": null,
            },
            "arrivals": { "process": "poisson", "rates": [1000, 2000.5] },
            "device": { "workers": 1, "costs": "costs.csv", "roofline": null, "grnn": null, "max_waiting": null,
                "precision": "f32" },
            "overhead": { "task_ns": null, "gather_ns": null, "launch_ns": null },
            "metrics": { "slo": null, "quantile": "p99", "warmup": "auto" },
            "output": {
                "requests": true, "tasks": true, "timeline": false, "plots": [], "plot_point": null, "title": null,
            },
            "policy": [
                {
                    "kind": "toy", "label": "toy", "costs": "costs.csv",
                    "overhead": { "task_ns": null, "gather_ns": null, "launch_ns": null }, "max_batch": 512, "pad_to": "bucket",
                },
                {
                    "kind": "toy", "label": "Big (1.5)", "costs": "costs.csv",
                    "overhead": { "task_ns": null, "gather_ns": null, "launch_ns": null },
                    "max_batch": { "decoder": 2, "encoder": 4 }, "pad_to": "bucket",
                },
            ],
        })
    );
}

#[test]
fn overrides_replace_and_create() {
    let desk = Desk::new();
    for (set, pointer, value) in [
        ("device.workers=2", "/device/workers", json!(2)),
        ("seed = 7", "/seed", json!(7)),
        ("policy.0.max_batch=64", "/policy/0/max_batch", json!(64)),
        ("policy.toy.max_batch=64", "/policy/0/max_batch", json!(64)),
        (
            "policy.\"Big (1.5)\".max_batch=64",
            "/policy/1/max_batch",
            json!(64),
        ),
        (
            "policy.1.max_batch.encoder=9",
            "/policy/1/max_batch",
            json!({ "encoder": 9, "decoder": 2 }),
        ),
        (
            "policy.1.overhead.task_ns=5",
            "/policy/1/overhead/task_ns",
            json!(5),
        ),
        ("policy.1.label=a=b", "/policy/1/label", json!("a=b")),
        (
            "overhead.gather_ns=5",
            "/policy/1/overhead/gather_ns",
            json!(5),
        ),
        (
            "arrivals.rates=[500, 1_000.0]",
            "/arrivals/rates",
            json!([500, 1000]),
        ),
        (
            "arrivals.rates.1=500",
            "/arrivals/rates",
            json!([1000, 500]),
        ),
        (
            "arrivals={process = 'offline'}",
            "/arrivals",
            json!({ "process": "offline" }),
        ),
        (
            "workload.dataset=constant:24",
            "/workload/dataset",
            json!("constant:24"),
        ),
        ("metrics.slo=100ms", "/metrics/slo", json!("100ms")),
        ("metrics.warmup=10%", "/metrics/warmup", json!("10%")),
        ("metrics.warmup=5000", "/metrics/warmup", json!(5000)),
        (
            "output.plot_point=1000",
            "/output/plot_point",
            json!("1000"),
        ),
        (
            "output.plot_point=3000",
            "/output/plot_point",
            json!("2000.5"),
        ),
        (
            "output.plot_point=1100.5",
            "/output/plot_point",
            json!("1000"),
        ),
        (
            "output.title=Padded, and not",
            "/output/title",
            json!("Padded, and not"),
        ),
    ] {
        let scenario = desk
            .read(GOOD, &[set])
            .unwrap_or_else(|error| panic!("{set}: {error}"));
        assert_eq!(
            scenario.resolved_json().pointer(pointer),
            Some(&value),
            "{set}"
        );
    }
    let last = desk.read(GOOD, &["seed=2", "seed=3"]).unwrap();
    assert_eq!(last.seed, 3, "the last one holds");
}

#[test]
fn processes_are_read_with_their_keys() {
    let desk = Desk::new();
    let rates = vec![Rate(10.0)];
    for (table, expected, points) in [
        (
            "{ process = 'uniform', rates = [10] }",
            ArrivalSpec::Uniform {
                rates: rates.clone(),
            },
            "10",
        ),
        (
            "{ process = 'gamma', cv = 2, rates = [10] }",
            ArrivalSpec::Gamma {
                cv: 2.0,
                rates: rates.clone(),
            },
            "10",
        ),
        (
            "{ process = 'periodic', period = '1s', pattern = [0, 2.5], rates = [10] }",
            ArrivalSpec::Periodic {
                period: Nanos(1_000_000_000),
                pattern: vec![0.0, 2.5],
                rates: rates.clone(),
            },
            "10",
        ),
        (
            "{ process = 'mmpp', ratio = 4, low = '1s', high = '20ms', rates = [10] }",
            ArrivalSpec::Mmpp {
                ratio: 4.0,
                low: Nanos(1_000_000_000),
                high: Nanos(20_000_000),
                rates,
            },
            "10",
        ),
        (
            "{ process = 'stepping', from = 66, to = 4000, steps = 15 }",
            ArrivalSpec::Stepping {
                from: Rate(66.0),
                to: Rate(4000.0),
                steps: 15,
            },
            "stepping",
        ),
        (
            "{ process = 'offline' }",
            ArrivalSpec::Offline {},
            "offline",
        ),
        (
            "{ process = 'closed', clients = [8], think = '2ms', think_dist = 'exponential' }",
            ArrivalSpec::Closed {
                clients: vec![8],
                think: Nanos(2_000_000),
                think_dist: Distribution::Exponential,
            },
            "clients-8",
        ),
    ] {
        let set = format!("arrivals={table}");
        let scenario = desk.read(GOOD, &[&set]).unwrap();
        assert_eq!(scenario.arrivals.as_ref(), Some(&expected));
        assert_eq!(
            scenario
                .points()
                .iter()
                .map(LoadPoint::to_string)
                .collect::<Vec<_>>(),
            [points]
        );
        // The JSON gives the same process.
        let json = scenario.resolved_json()["arrivals"]
            .to_string()
            .replace("\":", "\"=");
        assert_eq!(
            desk.read(GOOD, &[&format!("arrivals={json}")])
                .unwrap()
                .arrivals
                .as_ref(),
            Some(&expected)
        );
    }
}

#[test]
fn a_trace_takes_the_place_of_dataset_and_arrivals() {
    let desk = Desk::new();
    let (before, rest) = GOOD.split_once("dataset").unwrap();
    let after = &rest[rest.find("[device]").unwrap()..];
    let scenario = desk
        .read(
            &format!("{before}trace = \"trace.csv\"\ntime_scale = 0.5\n{after}"),
            &[],
        )
        .unwrap();
    assert_eq!(scenario.arrivals.as_ref(), None);
    assert_eq!(scenario.points(), [LoadPoint::Trace]);
    let json = scenario.resolved_json();
    assert_eq!(
        json["workload"],
        json!({
            "model": "seq2seq", "hidden": 1024, "embedding": 1024, "vocabulary": 30_000, "weights": null,
            "trace": "trace.csv", "time_scale": 0.5,
        })
    );
    assert!(json.get("arrivals").is_none());
}

#[test]
fn paths_are_found_from_here_before_beside_the_scenario() {
    let desk = Desk::new();
    // Tests run in the package's folder, where this file is found first.
    fs::write(desk.folder.path().join("Cargo.toml"), "").unwrap();
    let costs = |set: &str| {
        desk.read(GOOD, &[set])
            .unwrap()
            .device
            .costs
            .expect("it was given")
    };
    assert_eq!(&*costs("device.costs=Cargo.toml"), Path::new("Cargo.toml"));
    let beside = costs("device.costs=costs.csv");
    assert_eq!(
        (&beside.given[..], &*beside),
        ("costs.csv", &*desk.folder.path().join("costs.csv"))
    );
    let absolute = desk.folder.path().join("trace.csv");
    assert_eq!(
        &*costs(&format!("device.costs={}", absolute.display())),
        absolute
    );
    let missing = desk.refusal(GOOD, &["device.costs=/none.csv"]);
    assert_eq!(
        missing,
        "s.toml: --set device.costs=/none.csv: device.costs: no such file: /none.csv"
    );
    let folder = desk.refusal(GOOD, &["device.costs=src"]);
    assert!(
        folder.contains("no such file: src (a folder), nor "),
        "a folder is no file: {folder}"
    );
}

#[test]
fn a_policy_keeps_to_its_own_costs_and_overhead() {
    let desk = Desk::new();
    let own = [
        "overhead.gather_ns=7",
        "policy.1.overhead={task_ns = 5}",
        "policy.1.costs=trace.csv",
    ];
    let scenario = desk.read(GOOD, &own).unwrap();
    let [first, second] = &scenario.policies[..] else {
        panic!("two policies")
    };
    assert_eq!(first.overhead, scenario.overhead);
    assert_eq!(
        second.overhead,
        Overhead {
            task: Some(Nanos(5)),
            gather: Some(Nanos(7)),
            launch: None
        },
        "what it leaves out is the scenario's"
    );
    let costs = |policy: &PolicyEntry| policy.costs.file().map(|costs| costs.given.clone());
    assert_eq!(
        (costs(first).as_deref(), costs(second).as_deref()),
        (Some("costs.csv"), Some("trace.csv"))
    );
}

#[test]
fn a_network_is_described_and_costs_may_be_left_out() {
    let desk = Desk::new();
    let sets = [
        "workload.hidden=8",
        "workload.vocabulary=11",
        "workload.weights=trace.csv",
        "device.max_waiting=7",
    ];
    let scenario = desk
        .read(&GOOD.replace("costs = \"costs.csv\"", ""), &sets)
        .unwrap();
    let WorkloadSection {
        hidden,
        embedding,
        vocabulary,
        weights,
        ..
    } = &scenario.workload;
    assert_eq!(
        (hidden, embedding, vocabulary),
        (&8, &8, &11),
        "words are as wide as layers"
    );
    assert_eq!(
        weights.as_ref().map(|input| &*input.given),
        Some("trace.csv")
    );
    assert_eq!(
        (&scenario.device.costs, scenario.device.max_waiting),
        (&None, Some(7))
    );
    assert!(
        scenario
            .policies
            .iter()
            .all(|policy| policy.costs.file().is_none())
    );
    assert_eq!(
        scenario.resolved_json()["policy"][0]["costs"],
        serde_json::Value::Null
    );
}

#[test]
fn gpus_are_told_how_to_compute() {
    let desk = Desk::new();
    for precision in ["tf32", "bf16", "f16"] {
        let set = format!("device.precision={precision}");
        let scenario = desk.read(GOOD, &[&set]).unwrap();
        assert_eq!(scenario.resolved_json()["device"]["precision"], precision);
    }
}

#[test]
fn shares_print_as_they_are_written() {
    for percent in 0..100 {
        assert_eq!(
            Warmup::Share(f64::from(percent) / 100.0).to_string(),
            format!("{percent}%")
        );
    }
    assert_eq!(Warmup::Share(12.5 / 100.0).to_string(), "12.5%");
}
