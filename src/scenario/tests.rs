use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::policy::registry::{PerCell, Settings, Setup};
use crate::policy::{Completed, Dispatch, Outcomes, Policy};
use crate::workload::trace::Request;

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
    max_batch: PerCell<u32>,
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
        Toy { max_batch: PerCell::All(512), pad_to: PadTo::Bucket }
    }
}

impl Settings for Toy {
    const KIND: &'static str = "toy";
    const ABOUT: &'static str = "rejects everything";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.max_batch.resolve("max_batch", setup.cells)?;
        match setup.model {
            Model::TreeLstm => Err("toys take no trees".into()),
            _ => Ok(Box::new(Refuser)),
        }
    }
}

/// A folder with a scenario and the files that it names.
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
        for file in ["lengths.csv", "costs.csv", "trace.csv"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        Desk { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("s.toml")
    }

    fn read(&self, text: &str, overrides: &[&str]) -> Result<Scenario> {
        let overrides: Vec<String> = overrides.iter().map(|set| set.to_string()).collect();
        Scenario::parse(text.into(), &self.file(), &overrides, &Registry::new().with::<Toy>())
    }

    /// The message of the error, without the folder.
    fn refusal(&self, text: &str, overrides: &[&str]) -> String {
        match self.read(text, overrides) {
            Ok(scenario) => panic!("accepted:\n{text}{overrides:?}\n{scenario:?}"),
            Err(error) => {
                assert_eq!(error.exit_code(), 2);
                error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
            }
        }
    }
}

#[test]
fn a_scenario_is_read_with_its_defaults() {
    let desk = Desk::new();
    let scenario = desk.read(GOOD, &[]).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed, scenario.device.workers), ("s", 1, 1));
    assert_eq!(scenario.points(), [1000.0, 2000.5].map(|rate| LoadPoint::Rate(Rate(rate))));
    assert_eq!(scenario.device.costs.as_deref(), Some(&*desk.folder.path().join("costs.csv")));
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
            "device": { "workers": 1, "costs": "costs.csv", "roofline": null, "max_waiting": null,
                "precision": "f32", "signal": "fused", "launch": "graph" },
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

/// Each case turns one line of the good scenario into another text and names the beginning and a part of the message.
#[test]
fn bad_scenarios_are_refused_with_their_place() {
    let desk = Desk::new();
    let rates = "rates = [1000, 2000.5]";
    let poisson = "process = \"poisson\"\nrates = [1000, 2000.5]";
    for (old, new, message) in [
        // Of the file as a whole.
        ("name = \"s\"", "name = s", "s.toml:1: no TOML: string values must be quoted, expected literal string"),
        ("name = \"s\"", "", "s.toml:1: name: missing; a name for the folder of the results"),
        (
            "name = \"s\"",
            "name = \"a/b\"",
            "s.toml:1: name: \"a/b\" cannot name a folder of results; leave out slashes",
        ),
        ("name = \"s\"", "name = \"s\"\nsed = 3", "s.toml:2: sed: unknown key; did you mean seed?; known: name, seed,"),
        ("name = \"s\"", "name = \"s\"\nseed = -3", "s.toml:2: seed: must be a whole number, at least 0, not -3"),
        ("[device]", "[devices]", "s.toml:8: devices: unknown key; did you mean device?; known: name, seed, workload"),
        // Of the workload.
        ("seq2seq", "seq3seq", "s.toml:3: workload.model: unknown model \"seq3seq\"; known: lstm, gru, seq2seq"),
        ("\"seq2seq\"", "3", "s.toml:3: workload.model: must be a text in quotes, not 3"),
        (
            "model = \"seq2seq\"",
            "",
            "s.toml:2: workload.model: missing; one of lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, childsum-tree-lstm:N, dnn:NAME, dnn:FILE.csv, graph:FILE",
        ),
        ("lengths.csv", "lenghts.csv", "s.toml:4: workload.dataset: no such file: lenghts.csv, nor lenghts.csv"),
        (
            "dataset = \"lengths.csv\"",
            "",
            "s.toml:2: workload.dataset: missing; a dataset to draw requests from, or else a trace to replay",
        ),
        (
            "[arrivals]",
            "trace = \"trace.csv\"\n[arrivals]",
            "s.toml:5: workload.trace: there is a dataset too; \
             remove trace to draw requests from the dataset, or remove",
        ),
        (
            "dataset = \"lengths.csv\"",
            "trace = \"trace.csv\"",
            "s.toml:5: arrivals: the trace has its arrivals; remove [arrivals], or workload.trace",
        ),
        (
            "dataset = \"lengths.csv\"",
            "trace = \"trace.csv\"\nrequests = 5",
            "s.toml:5: workload.requests: goes with a dataset, and the trace has its requests; remove it",
        ),
        (
            "[arrivals]",
            "time_scale = 2\n[arrivals]",
            "s.toml:5: workload.time_scale: goes with a trace, and there is none; remove it",
        ),
        (
            "[arrivals]",
            "requests = 0\n[arrivals]",
            "s.toml:5: workload.requests: must be a whole number from 1 to 200000000",
        ),
        (
            "[arrivals]",
            "hidden = 0\n[arrivals]",
            "s.toml:5: workload.hidden: must be a whole number from 1 to 65536, not 0",
        ),
        (
            "[arrivals]",
            "vocabulary = 0\n[arrivals]",
            "s.toml:5: workload.vocabulary: must be a whole number from 1 to 16777216, not 0",
        ),
        (
            "[arrivals]",
            "weights = \"w.safetensors\"\n[arrivals]",
            "s.toml:5: workload.weights: no such file: w.safetensors, nor w.safetensors",
        ),
        // Of the arrivals.
        (
            "\"poisson\"",
            "\"poison\"",
            "s.toml:6: arrivals.process: unknown value \"poison\"; did you mean poisson?; known:",
        ),
        ("process = \"poisson\"", "", "s.toml:5: arrivals.process: missing; one of poisson, uniform, gamma, mmpp,"),
        (
            "\"poisson\"",
            "\"poisson\"\ncv = 2",
            "s.toml:7: arrivals.cv: unknown key of the process \"poisson\"; known: process, rates",
        ),
        (
            "\"poisson\"",
            "\"offline\"",
            "s.toml:7: arrivals.rates: unknown key of the process \"offline\"; known: process",
        ),
        (
            "\"poisson\"",
            "\"gamma\"",
            "s.toml:5: arrivals.cv: missing; the coefficient of variation of the gaps, a number",
        ),
        (
            poisson,
            "process = \"mmpp\"\nratio = 0.5",
            "s.toml:7: arrivals.ratio: must be the high rate over the low one, a number from 1 to 1e6, not 0.5",
        ),
        (
            poisson,
            "process = \"mmpp\"\nratio = 2\nlow = 100",
            "s.toml:8: arrivals.low: must be a time with its unit in quotes, such as \"100ms\", not 100",
        ),
        (
            poisson,
            "process = \"mmpp\"\nratio = 2\nlow = \"0s\"",
            "s.toml:8: arrivals.low: must be a time of at least 1us",
        ),
        (poisson, "process = \"closed\"\nclients = [8, 8]", "s.toml:7: arrivals.clients[1]: 8 stands twice"),
        (
            poisson,
            "process = \"closed\"\nclients = [1]\nthink_dist = \"normal\"",
            "s.toml:8: arrivals.think_dist: unknown value \"normal\"; known: constant, exponential",
        ),
        (
            rates,
            "rates = []",
            "s.toml:7: arrivals.rates: empty; must be a list of requests per second, such as [1000, 2000]",
        ),
        (
            rates,
            "rates = 1000",
            "s.toml:7: arrivals.rates: must be a list of requests per second, such as [1000, 2000], not 1",
        ),
        (
            rates,
            "rates = [\n  1000,\n  0,\n]",
            "s.toml:9: arrivals.rates[1]: must be a number of requests per second from 1e-6 to 1e9, not 0",
        ),
        (
            rates,
            "rates = [1000, \"2k\"]",
            "s.toml:7: arrivals.rates[1]: must be a number of requests per second from 1e-6",
        ),
        // Of the other tables.
        (
            "[device]",
            "[device]\nworkers = 2000",
            "s.toml:9: device.workers: must be a whole number from 1 to 1024, not 2000",
        ),
        (
            "[device]",
            "[device]\nworker = 2",
            "s.toml:9: device.worker: unknown key; did you mean workers?; known: workers, costs, roofline, max_waiting, precision, signal, launch",
        ),
        (
            "[device]",
            "[device]\nmax_waiting = 0",
            "s.toml:9: device.max_waiting: must be a whole number from 1 to 4294967295, not 0",
        ),
        (
            "[device]",
            "[device]\nprecision = \"fp16\"",
            "s.toml:9: device.precision: unknown value \"fp16\"; did you mean f16?; known: f32, tf32, bf16, f16",
        ),
        ("[device]", "[device]\nsignal = true", "s.toml:9: device.signal: must be one of fused, kernel, not true"),
        (
            "[device]",
            "[device]\nlaunch = \"graphs\"",
            "s.toml:9: device.launch: unknown value \"graphs\"; did you mean graph?; known: graph, kernels",
        ),
        (
            "[device]",
            "overhead = 3\n[device]",
            "s.toml:8: arrivals.overhead: unknown key of the process \"poisson\"; known",
        ),
        (
            "[device]",
            "[overhead]\ntask_ns = 0.5\n[device]",
            "s.toml:9: overhead.task_ns: must be a whole number, at least 0, not 0.5",
        ),
        (
            "[device]",
            "[metrics]\nquantile = \"p98\"\n[device]",
            "s.toml:9: metrics.quantile: unknown value \"p98\"; did you",
        ),
        (
            "[device]",
            "[metrics]\nslo = \"100\"\n[device]",
            "s.toml:9: metrics.slo: \"100\" has no unit; write it as 250us,",
        ),
        (
            "[device]",
            "[metrics]\nwarmup = \"100%\"\n[device]",
            "s.toml:9: metrics.warmup: must be \"auto\", \"none\", \"mser5\",",
        ),
        ("[device]", "[output]\ntasks = 1\n[device]", "s.toml:9: output.tasks: must be true or false, not 1"),
        (
            "[device]",
            "[output]\nplot_point = 3000\n[device]",
            "s.toml:9: output.plot_point: no point of this scenario is \"3000\"; known: 1000, 2000.5",
        ),
        // Of the policies.
        (
            "kind = \"toy\"\nlabel",
            "kind = \"toys\"\nlabel",
            "s.toml:13: policy[1].kind: unknown policy \"toys\"; did you mean toy?; known: toy",
        ),
        ("kind = \"toy\"\nlabel", "label", "s.toml:12: policy[1].kind: missing; one of toy"),
        (
            "label = \"Big (1.5)\"",
            "",
            "s.toml:12: policy[1] (toy): label: \"toy\" names the same folder as the label of policy[0]; add",
        ),
        (
            "Big (1.5)",
            "TOY",
            "s.toml:14: policy[1] (toy): label: \"TOY\" names the same folder as the label of policy[0]; add",
        ),
        (
            "max_batch",
            "max_bach",
            "s.toml:15: policy[1] (toy): max_bach: unknown key; did you mean max_batch?; \
             known: kind, label, costs, overhead, max_batch, pad_to",
        ),
        (
            "{ encoder = 4, decoder = 2 }",
            "-4",
            "s.toml:15: policy[1] (toy): max_batch: must be a whole number from 0 to 4294967295, not -4",
        ),
        (
            "{ encoder = 4, decoder = 2 }",
            "\"all\"",
            "s.toml:15: policy[1] (toy): max_batch: must be one value for all cells, or a table by cell such as \
             { encoder = 512, decoder = 256 }, not \"all\"",
        ),
        (
            "{ encoder = 4, decoder = 2 }",
            "{ encoder = 4,\n  decoder = true }",
            "s.toml:16: policy[1] (toy): max_batch.decoder: must be a whole number from 0 to 4294967295, not true",
        ),
        (
            "{ encoder = 4, decoder = 2 }",
            "{ encoder = 4,\n  decoder = 0 }",
            "s.toml:16: policy[1] (toy): max_batch.decoder: 0 is too small; \
             at least 1 (the model's cells: decoder, encoder)",
        ),
        (
            "{ encoder = 4, decoder = 2 }",
            "{ encoder = 4 }",
            "s.toml:15: policy[1] (toy): max_batch: no value for the cell \"decoder\"; \
             the model's cells: decoder, encoder",
        ),
        (
            "label = \"Big (1.5)\"",
            "label = \"b\"\npad_to = \"bukket\"",
            "s.toml:15: policy[1] (toy): pad_to: unknown value \"bukket\"; did you mean bucket?; \
             known: bucket, longest",
        ),
        (
            "label = \"Big (1.5)\"",
            "label = \"b\"\noverhead = { task = 1 }",
            "s.toml:15: policy[1] (toy): overhead.task: unknown key; known: task_ns, gather_ns, launch_ns",
        ),
        (
            "label = \"Big (1.5)\"",
            "label = \"b\"\ncosts = \"none.csv\"",
            "s.toml:15: policy[1] (toy): costs: no such file: none.csv, nor none.csv",
        ),
        ("\"seq2seq\"", "\"tree-lstm\"", "s.toml:10: policy[0] (toy): toys take no trees"),
    ] {
        assert!(GOOD.contains(old), "{old}");
        // Trees have other cells, which is not what that case is about.
        let base = if new.contains("tree") { GOOD.replace("{ encoder = 4, decoder = 2 }", "4") } else { GOOD.into() };
        let text = base.replacen(old, new, 1);
        let found = desk.refusal(&text, &[]);
        assert!(found.starts_with(message), "expected {message}\nfound    {found}\nin\n{text}");
    }
    let without_policies = &GOOD[..GOOD.find("[[policy]]").unwrap()];
    assert_eq!(desk.refusal(without_policies, &[]), "s.toml:1: policy: missing; at least one [[policy]] table");
    let empty = format!("policy = []\n{without_policies}");
    assert_eq!(desk.refusal(&empty, &[]), "s.toml:1: policy: there is none; at least one [[policy]] table is needed");
}

#[test]
fn overrides_replace_and_create() {
    let desk = Desk::new();
    for (set, pointer, value) in [
        ("device.workers=2", "/device/workers", json!(2)),
        ("seed = 7", "/seed", json!(7)),
        ("policy.0.max_batch=64", "/policy/0/max_batch", json!(64)),
        ("policy.toy.max_batch=64", "/policy/0/max_batch", json!(64)),
        ("policy.\"Big (1.5)\".max_batch=64", "/policy/1/max_batch", json!(64)),
        ("policy.1.max_batch.encoder=9", "/policy/1/max_batch", json!({ "encoder": 9, "decoder": 2 })),
        ("policy.1.overhead.task_ns=5", "/policy/1/overhead/task_ns", json!(5)),
        ("policy.1.label=a=b", "/policy/1/label", json!("a=b")),
        ("overhead.gather_ns=5", "/policy/1/overhead/gather_ns", json!(5)),
        ("arrivals.rates=[500, 1_000.0]", "/arrivals/rates", json!([500, 1000])),
        ("arrivals.rates.1=500", "/arrivals/rates", json!([1000, 500])),
        ("arrivals={process = 'offline'}", "/arrivals", json!({ "process": "offline" })),
        ("workload.dataset=constant:24", "/workload/dataset", json!("constant:24")),
        ("metrics.slo=100ms", "/metrics/slo", json!("100ms")),
        ("metrics.warmup=10%", "/metrics/warmup", json!("10%")),
        ("metrics.warmup=5000", "/metrics/warmup", json!(5000)),
        ("output.plot_point=1000", "/output/plot_point", json!("1000")),
        ("output.title=Padded, and not", "/output/title", json!("Padded, and not")),
    ] {
        let scenario = desk.read(GOOD, &[set]).unwrap_or_else(|error| panic!("{set}: {error}"));
        assert_eq!(scenario.resolved_json().pointer(pointer), Some(&value), "{set}");
    }
    let last = desk.read(GOOD, &["seed=2", "seed=3"]).unwrap();
    assert_eq!(last.seed, 3, "the last one holds");
}

#[test]
fn bad_overrides_are_named() {
    let desk = Desk::new();
    for (set, message) in [
        ("device.workers", "--set device.workers: no value; write it as --set key.path=value"),
        ("device..x=3", "--set device..x=3: a part of the key is empty; write it as --set key.path=value"),
        (
            "device.workers=two",
            "s.toml: --set device.workers=two: device.workers: must be a whole number from 1 to 1024, not \"two\"",
        ),
        (
            "device.wrkers=2",
            "s.toml: --set device.wrkers=2: device.wrkers: unknown key; did you mean workers?; known: workers, costs, roofline, max_waiting, precision, signal, launch",
        ),
        ("name.x=2", "s.toml: --set name.x=2: name: no table but \"s\", so it has no key \"x\""),
        (
            "policy.2.label=a",
            "s.toml: --set policy.2.label=a: policy: there is no \"2\"; known: 0 (toy), 1 (Big (1.5))",
        ),
        (
            "policy.1.max_batch=0",
            "s.toml: --set policy.1.max_batch=0: policy[1] (toy): max_batch: 0 is too small; at least 1",
        ),
        (
            "policy.1.max_batch={encoder=1,decoder=x}",
            "s.toml: --set policy.1.max_batch={encoder=1,decoder=x}: policy[1] (toy): max_batch: must be one value",
        ),
        (
            "policy.1.max_batch.decoder=0",
            "s.toml: --set policy.1.max_batch.decoder=0: policy[1] (toy): max_batch.decoder: 0 is",
        ),
        (
            "arrivals.rates=[1,-2]",
            "s.toml: --set arrivals.rates=[1,-2]: arrivals.rates[1]: must be a number of requests per",
        ),
        (
            "workload.dataset=no.csv",
            "s.toml: --set workload.dataset=no.csv: workload.dataset: no such file: no.csv, nor no.csv",
        ),
    ] {
        let found = desk.refusal(GOOD, &[set]);
        assert!(found.starts_with(message), "expected {message}\nfound    {found}");
    }
    let several = GOOD.replace("Big (1.5)", "other").replacen("kind = \"toy\"", "kind = \"toy\"\nlabel = \"one\"", 1);
    assert_eq!(
        desk.refusal(&several, &["policy.toy.max_batch=3"]),
        "s.toml: --set policy.toy.max_batch=3: policy: several are called \"toy\"; choose one by its number: [0, 1]"
    );
    // What the file says is still blamed on its line.
    assert!(desk.refusal(&GOOD.replace("costs.csv", "x"), &["seed=1"]).starts_with("s.toml:9: device.costs"));
}

#[test]
fn processes_are_read_with_their_keys() {
    let desk = Desk::new();
    let open = |process, rated| ArrivalSpec::Open { process, rates: if rated { vec![Rate(10.0)] } else { vec![] } };
    for (table, expected, points) in [
        ("{ process = 'uniform', rates = [10] }", open(Process::Uniform, true), "10"),
        ("{ process = 'gamma', cv = 2, rates = [10] }", open(Process::Gamma { cv: 2.0 }, true), "10"),
        (
            "{ process = 'mmpp', ratio = 4, low = '1s', high = '20ms', rates = [10] }",
            open(Process::Mmpp { ratio: 4.0, low: Nanos(1_000_000_000), high: Nanos(20_000_000) }, true),
            "10",
        ),
        (
            "{ process = 'stepping', from = 66, to = 4000, steps = 15 }",
            open(Process::Stepping { from: Rate(66.0), to: Rate(4000.0), steps: 15 }, false),
            "stepping",
        ),
        ("{ process = 'offline' }", open(Process::Offline, false), "offline"),
        (
            "{ process = 'closed', clients = [8], think = '2ms', think_dist = 'exponential' }",
            ArrivalSpec::Closed { clients: vec![8], think: Think::Exponential(Nanos(2_000_000)) },
            "clients-8",
        ),
    ] {
        let set = format!("arrivals={table}");
        let scenario = desk.read(GOOD, &[&set]).unwrap();
        assert_eq!(scenario.arrivals(), Some(&expected));
        assert_eq!(scenario.points().iter().map(LoadPoint::to_string).collect::<Vec<_>>(), [points]);
        // What the JSON says leads to the same process.
        let json = scenario.resolved_json()["arrivals"].to_string().replace("\":", "\"=");
        assert_eq!(desk.read(GOOD, &[&format!("arrivals={json}")]).unwrap().arrivals(), Some(&expected));
    }
}

#[test]
fn a_trace_takes_the_place_of_dataset_and_arrivals() {
    let desk = Desk::new();
    let (before, rest) = GOOD.split_once("dataset").unwrap();
    let after = &rest[rest.find("[device]").unwrap()..];
    let scenario = desk.read(&format!("{before}trace = \"trace.csv\"\ntime_scale = 0.5\n{after}"), &[]).unwrap();
    assert_eq!(scenario.arrivals(), None);
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
    // Tests run in the package's folder, where this file is found first; a copy beside the scenario is passed over.
    fs::write(desk.folder.path().join("Cargo.toml"), "").unwrap();
    let costs = |set: &str| desk.read(GOOD, &[set]).unwrap().device.costs.expect("it was given");
    assert_eq!(costs("device.costs=Cargo.toml").path(), Path::new("Cargo.toml"));
    let beside = costs("device.costs=costs.csv");
    assert_eq!((beside.given(), beside.path()), ("costs.csv", &*desk.folder.path().join("costs.csv")));
    let absolute = desk.folder.path().join("trace.csv");
    assert_eq!(costs(&format!("device.costs={}", absolute.display())).path(), absolute);
    let missing = desk.refusal(GOOD, &["device.costs=/none.csv"]);
    assert_eq!(missing, "s.toml: --set device.costs=/none.csv: device.costs: no such file: /none.csv");
    let folder = desk.refusal(GOOD, &["device.costs=src"]);
    assert!(folder.contains("no such file: src (a folder), nor "), "a folder is no file: {folder}");
}

#[test]
fn a_policy_keeps_to_its_own_costs_and_overhead() {
    let desk = Desk::new();
    let own = ["overhead.gather_ns=7", "policy.1.overhead={task_ns = 5}", "policy.1.costs=trace.csv"];
    let scenario = desk.read(GOOD, &own).unwrap();
    let [first, second] = &scenario.policies[..] else { panic!("two policies") };
    assert_eq!(first.overhead, scenario.overhead);
    assert_eq!(
        second.overhead,
        Overhead { task: Some(Nanos(5)), gather: Some(Nanos(7)), launch: None },
        "what it leaves out is the scenario's"
    );
    let costs = |policy: &PolicyEntry| policy.costs.as_ref().map(|costs| costs.given().to_string());
    assert_eq!((costs(first).as_deref(), costs(second).as_deref()), (Some("costs.csv"), Some("trace.csv")));
}

#[test]
fn a_network_is_described_and_costs_may_be_left_out() {
    let desk = Desk::new();
    let sets = ["workload.hidden=8", "workload.vocabulary=11", "workload.weights=trace.csv", "device.max_waiting=7"];
    let scenario = desk.read(&GOOD.replace("costs = \"costs.csv\"", ""), &sets).unwrap();
    let Workload { hidden, embedding, vocabulary, weights, .. } = &scenario.workload;
    assert_eq!((hidden, embedding, vocabulary), (&8, &8, &11), "words are as wide as layers");
    assert_eq!(weights.as_ref().map(Input::given), Some("trace.csv"));
    assert_eq!((&scenario.device.costs, scenario.device.max_waiting), (&None, Some(7)));
    assert!(scenario.policies.iter().all(|policy| policy.costs.is_none()));
    assert_eq!(scenario.resolved_json()["policy"][0]["costs"], serde_json::Value::Null);
}

#[test]
fn gpus_are_told_how_to_compute() {
    let desk = Desk::new();
    for (precision, signal, launch) in
        [("tf32", "kernel", "kernels"), ("bf16", "fused", "graph"), ("f16", "kernel", "graph")]
    {
        let sets = [("precision", precision), ("signal", signal), ("launch", launch)];
        let sets = sets.map(|(key, value)| format!("device.{key}={value}"));
        let scenario = desk.read(GOOD, &sets.each_ref().map(String::as_str)).unwrap();
        assert_eq!(gpu::names(&scenario.device.gpu), [precision, signal, launch]);
        let device = &scenario.resolved_json()["device"];
        assert_eq!((&device["precision"], &device["signal"]), (&json!(precision), &json!(signal)));
    }
}

#[test]
fn a_scenario_that_is_not_there_is_named() {
    let registry = Registry::new();
    let error = Scenario::load(Path::new("no-such.toml"), &[], &registry).unwrap_err();
    assert!(error.to_string().starts_with("no-such.toml: cannot be read: "), "{error}");
}

#[test]
fn shares_print_as_they_are_written() {
    for percent in 0..100 {
        assert_eq!(Warmup::Share(f64::from(percent) / 100.0).to_string(), format!("{percent}%"));
    }
    assert_eq!(Warmup::Share(12.5 / 100.0).to_string(), "12.5%");
}

#[test]
fn half_a_scenario_is_refused_and_no_panic() {
    let desk = Desk::new();
    let lines: Vec<&str> = GOOD.lines().collect();
    for left_out in 0..lines.len() {
        let text = [&lines[..left_out], &lines[left_out + 1..]].concat().join("\n");
        // Without its label the second policy would be a second "toy"; without a header, keys stand in another table.
        if let Err(error) = desk.read(&text, &["policy.0.max_batch=3"]) {
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
    for end in 0..GOOD.len() {
        if let Err(error) = desk.read(&GOOD[..end], &["policy.0.max_batch=3", "arrivals.rates.0=5"]) {
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
}
