//! Mistakes in scenarios, and their messages.

use super::*;

/// Each case replaces a line of the good scenario, and gives the start of the message.
#[test]
fn bad_scenarios_are_refused_with_their_place() {
    let desk = Desk::new();
    let rates = "rates = [1000, 2000.5]";
    let poisson = "process = \"poisson\"\nrates = [1000, 2000.5]";
    let mut wrong = Vec::new();
    for (old, new, message) in [
        // The file as a whole.
        (
            "name = \"s\"",
            "name = s",
            "s.toml:1: not valid TOML: string values must be quoted, expected literal string",
        ),
        (
            "name = \"s\"",
            "",
            "s.toml:1: name: missing; a name for the folder of the results",
        ),
        (
            "name = \"s\"",
            "name = \"a/b\"",
            "s.toml:1: name: \"a/b\" cannot name a folder of results; leave out slashes",
        ),
        (
            "name = \"s\"",
            "name = \".lock\"",
            "s.toml:1: name: \".lock\" begins with a dot, as the files of a run that is under way do; leave",
        ),
        (
            "name = \"s\"",
            "name = \"s\"\nsed = 3",
            "s.toml:2: sed: unknown key; did you mean seed?; known: name, seed,",
        ),
        (
            "name = \"s\"",
            "name = \"s\"\nseed = -3",
            "s.toml:2: seed: must be a whole number, at least 0, not -3",
        ),
        (
            "[device]",
            "[devices]",
            "s.toml:8: devices: unknown key; did you mean device?; known: name, seed, workload",
        ),
        // The workload.
        (
            "seq2seq",
            "seq3seq",
            "s.toml:3: workload.model: unknown model \"seq3seq\"; known: lstm, gru, seq2seq",
        ),
        (
            "\"seq2seq\"",
            "3",
            "s.toml:3: workload.model: must be one of lstm, gru, seq2seq, tree-lstm",
        ),
        (
            "model = \"seq2seq\"",
            "",
            "s.toml:2: workload.model: missing; one of lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, childsum-tree-lstm:N, dnn:NAME, dnn:FILE.csv, graph:FILE",
        ),
        (
            "lengths.csv",
            "lenghts.csv",
            "s.toml:4: workload.dataset: no such file: lenghts.csv, nor lenghts.csv",
        ),
        (
            "dataset = \"lengths.csv\"",
            "",
            "s.toml:2: workload.dataset: missing; a dataset to draw requests from (or one for each class), or else a trace to replay",
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
            "s.toml:5: arrivals: the trace has its arrivals; remove [arrivals] but for rates, or workload.trace",
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
            "s.toml:5: workload.requests: must be a whole number from 1 to 1000000000000000, not 0",
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
        // The arrivals.
        (
            "\"poisson\"",
            "\"poison\"",
            "s.toml:6: arrivals.process: unknown value \"poison\"; did you mean poisson?; known:",
        ),
        (
            "process = \"poisson\"",
            "",
            "s.toml:5: arrivals.process: missing; one of poisson, uniform, gamma, mmpp,",
        ),
        (
            "\"poisson\"",
            "\"poisson\"\ncv = 2",
            "s.toml:7: arrivals.cv: unknown key of the process \"poisson\"; known: process, rates",
        ),
        (
            "\"poisson\"",
            "\"poisson\"\ntime_scale = 2",
            "s.toml:7: arrivals.time_scale: unknown key of the process \"poisson\"; known: process, rates; \
             time_scale belongs to [workload]",
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
            "process = \"mmpp\"\nratio = 0.5\nlow = \"1s\"\nhigh = \"1s\"\nrates = [1]",
            "s.toml:7: arrivals.ratio: 0.5 is out of range; it is a number from 1 to 1000000",
        ),
        (
            poisson,
            "process = \"mmpp\"\nratio = 2\nlow = 100",
            "s.toml:8: arrivals.low: must be a time of at least 1us, such as \"100ms\", not 100",
        ),
        (
            poisson,
            "process = \"mmpp\"\nratio = 2\nlow = \"0s\"\nhigh = \"1s\"\nrates = [1]",
            "s.toml:8: arrivals.low: 0ns is too short; it is a time of 1us or more",
        ),
        (
            poisson,
            "process = \"closed\"\nclients = [8, 8]",
            "s.toml:7: arrivals.clients[1]: 8 stands twice",
        ),
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
            "s.toml:7: arrivals.rates[1]: must be a number, not \"2k\"",
        ),
        // Other tables.
        (
            "[device]",
            "[device]\nworkers = 70000",
            "s.toml:9: device.workers: must be a whole number from 1 to 65535, not 70000",
        ),
        (
            "[device]",
            "[device]\nworker = 2",
            "s.toml:9: device.worker: unknown key; did you mean workers?; known: workers, costs, roofline, grnn, noise, max_waiting, kv_tokens, precision, step_kernels, task_limit",
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
        (
            "[device]",
            "[device]\nsignal = \"kernel\"",
            "s.toml:9: device.signal: this key was removed: the last block of a task's last kernel always signals that the task is done (what \"fused\" did); leave it out",
        ),
        (
            "[device]",
            "[device]\nlaunch = \"kernels\"",
            "s.toml:9: device.launch: this key was removed: the kernels of a task are always launched as one captured graph where that is possible (what \"graph\" did); leave it out",
        ),
        (
            "[device]",
            "overhead = 3\n[device]",
            "s.toml:8: arrivals.overhead: unknown key of the process \"poisson\"; known",
        ),
        (
            "[device]",
            "[overhead]\ntask_ns = 0.5\n[device]",
            "s.toml:9: overhead.task_ns: must be a whole number of nanoseconds, or a time with its unit in quotes, such as \"5us\", not 0.5",
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
        (
            "[device]",
            "[output]\ntasks = 1\n[device]",
            "s.toml:9: output.tasks: must be true or false, not 1",
        ),
        (
            "[device]",
            "[output]\nplot_point = \"offline\"\n[device]",
            "s.toml:9: output.plot_point: no point of this scenario is \"offline\"; known: 1000, 2000.5",
        ),
        (
            "[arrivals]",
            "requests = 300000000\n[arrivals]",
            "s.toml:5: workload.requests: 300000000 is too many for a full record, which has up to 200000000; draw fewer,",
        ),
        (
            "[device]",
            "[output]\nrecord = \"some\"\n[device]",
            "s.toml:9: output.record: unknown value \"some\"; known: full, stream",
        ),
        (
            "[device]",
            "[output]\nlog_every = 7\n[device]",
            "s.toml:9: output.log_every: goes with record = \"stream\"; a full record logs every request, so remove it",
        ),
        (
            "[device]",
            "[output]\nrecord = \"stream\"\nlog_every = 0\n[device]",
            "s.toml:10: output.log_every: must be a whole number from 1 to 1000000000000000, not 0",
        ),
        (
            "[device]",
            "[output]\nrecord = \"stream\"\n[device]",
            "s.toml:8: output.tasks: a stream logs no tasks; set tasks = false",
        ),
        (
            "[device]",
            "[output]\nrecord = \"stream\"\ntasks = false\ntimeline = true\n[device]",
            "s.toml:11: output.timeline: a stream logs no tasks; set timeline = false",
        ),
        (
            "[device]",
            "[output]\nrecord = \"stream\"\ntasks = false\n[metrics]\nwarmup = \"mser5\"\n[device]",
            "s.toml:12: metrics.warmup: mser5 examines all requests, which a stream does not keep; set a share or a number",
        ),
        // Policies.
        (
            "kind = \"toy\"\nlabel",
            "kind = \"toys\"\nlabel",
            "s.toml:13: policy[1].kind: unknown policy \"toys\"; did you mean toy?; known: toy",
        ),
        (
            "kind = \"toy\"\nlabel",
            "label",
            "s.toml:12: policy[1].kind: missing; one of toy",
        ),
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
        (
            "\"seq2seq\"",
            "\"tree-lstm\"",
            "s.toml:10: policy[0] (toy): toys take no trees",
        ),
    ] {
        assert!(GOOD.contains(old), "{old}");
        let base = if new.contains("tree") {
            GOOD.replace("{ encoder = 4, decoder = 2 }", "4")
        } else {
            GOOD.into()
        };
        let text = base.replacen(old, new, 1);
        let found = desk.refusal(&text, &[]);
        if !found.starts_with(message) {
            wrong.push(format!("expected {message}\nfound    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let without_policies = &GOOD[..GOOD.find("[[policy]]").unwrap()];
    assert_eq!(
        desk.refusal(without_policies, &[]),
        "s.toml:1: policy: missing; at least one [[policy]] table"
    );
    let empty = format!("policy = []\n{without_policies}");
    assert_eq!(
        desk.refusal(&empty, &[]),
        "s.toml:1: policy: there is none; at least one [[policy]] table is needed"
    );
}

#[test]
fn bad_overrides_are_named() {
    let desk = Desk::new();
    for (set, message) in [
        (
            "device.workers",
            "--set device.workers: no value; write it as --set key.path=value",
        ),
        (
            "device..x=3",
            "--set device..x=3: a part of the key is empty; write it as --set key.path=value",
        ),
        (
            "device.workers=two",
            "s.toml: --set device.workers=two: device.workers: must be a whole number from 1 to 65535, not \"two\"",
        ),
        (
            "device.wrkers=2",
            "s.toml: --set device.wrkers=2: device.wrkers: unknown key; did you mean workers?; known: workers, costs, roofline, grnn, noise, max_waiting, kv_tokens, precision, step_kernels, task_limit",
        ),
        (
            "device.signal=fused",
            "s.toml: --set device.signal=fused: device.signal: this key was removed: the last block of a task's last kernel",
        ),
        (
            "name.x=2",
            "s.toml: --set name.x=2: name: no table but \"s\", so it has no key \"x\"",
        ),
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
        assert!(
            found.starts_with(message),
            "expected {message}\nfound    {found}"
        );
    }
    let several = GOOD.replace("Big (1.5)", "other").replacen(
        "kind = \"toy\"",
        "kind = \"toy\"\nlabel = \"one\"",
        1,
    );
    assert_eq!(
        desk.refusal(&several, &["policy.toy.max_batch=3"]),
        "s.toml: --set policy.toy.max_batch=3: policy: several are called \"toy\"; choose one by its number: [0, 1]"
    );
    // Mistakes of the file are still reported at their line.
    assert!(
        desk.refusal(&GOOD.replace("costs.csv", "x"), &["seed=1"])
            .starts_with("s.toml:9: device.costs")
    );
}

#[test]
fn a_scenario_that_is_not_there_is_named() {
    let registry = Registry::new();
    let error = Scenario::load(Path::new("no-such.toml"), &[], &registry).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no-such.toml: cannot be read: "),
        "{error}"
    );
}

#[test]
fn half_a_scenario_is_refused_and_no_panic() {
    let desk = Desk::new();
    let lines: Vec<&str> = GOOD.lines().collect();
    for left_out in 0..lines.len() {
        let text = [&lines[..left_out], &lines[left_out + 1..]]
            .concat()
            .join("\n");
        // Without its label the second policy would be a second "toy"; without a header, its keys would belong to
        // another table.
        if let Err(error) = desk.read(&text, &["policy.0.max_batch=3"]) {
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
    for end in 0..GOOD.len() {
        if let Err(error) = desk.read(
            &GOOD[..end],
            &["policy.0.max_batch=3", "arrivals.rates.0=5"],
        ) {
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
}
