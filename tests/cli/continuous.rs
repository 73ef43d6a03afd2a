//! Language models: runs, searches, mistakes and `batchlab reproduce continuous`.

use crate::desk::Desk;

/// An iteration takes 10 ms, and 1 µs for each token. A worker holds 1,000 tokens.
fn conversations() -> Desk {
    let desk = Desk::new();
    desk.write(
        "it.csv",
        "cell,tokens,context,ns\niteration,1,0,10001000\niteration,1001,0,11001000\n",
    );
    desk.write(
        "t.toml",
        "name = \"t\"\n[workload]\nmodel = \"llm\"\ndataset = \"constant:100>20\"\nrequests = 2000\n[arrivals]\n\
         process = \"poisson\"\nrates = [5, 10]\n[device]\ncosts = \"it.csv\"\nkv_tokens = 1000\n[[policy]]\n\
         kind = \"vllm\"\n[[policy]]\nkind = \"orca\"\nmax_length = 500\n",
    );
    desk
}

#[test]
fn tokens_are_in_summaries_logs_and_figures() {
    let desk = conversations();
    let ran = desk.run(&["sim", "t.toml", "-q", "--out", "out"]).ok();
    assert!(
        ran.stdout.contains("ttft p99  tbt p99  tbt max") && ran.stdout.contains("preempted"),
        "{}",
        ran.stdout
    );
    let header = desk
        .read("out/t/summary.csv")
        .lines()
        .next()
        .unwrap()
        .to_string();
    assert!(
        header.contains(
            "ttft_p99_ms,tbt_mean_ms,tbt_p99_ms,tbt_max_ms,normalised_ms,tokens_per_s,kv_mean"
        ),
        "{header}"
    );
    let requests = desk.read("out/t/vllm/5/requests.csv");
    let mut rows = requests.lines();
    assert!(
        rows.next()
            .unwrap()
            .ends_with("outcome,first_token_ns,output,worst_gap_ns,preemptions"),
        "{requests}"
    );
    let row: Vec<u64> = rows
        .next()
        .unwrap()
        .split(',')
        .filter_map(|field| field.parse().ok())
        .collect();
    // A prompt of 100 tokens alone: 10.1 ms; then 19 iterations of 10.001 ms or more.
    let [arrival, finish, first, gap] = [row[1], row[3], row[6], row[8]];
    assert!(
        first - arrival >= 10_100_000 && finish - first >= 19 * 10_001_000 && gap >= 10_001_000,
        "{row:?}"
    );
    for kind in ["ttft-rate", "tbt-rate", "normalised-rate", "latency-rate"] {
        desk.run(&["plot", "out/t", "--kind", kind, "-o", "f/"])
            .ok();
        assert!(desk.path(&format!("f/{kind}.svg")).exists());
    }
    desk.run(&["plot", "out/t", "--kind", "length-cdf", "-o", "f/"])
        .ok();
    let lengths = desk.read("f/length-cdf.svg");
    assert!(
        [
            "prompt (median 100)",
            "output (median 20)",
            "Length (tokens)"
        ]
        .iter()
        .all(|text| lengths.contains(text))
    );
    desk.run(&["sim", "t.toml", "-q", "--out", "again"]).ok();
    assert_eq!(
        desk.read("out/t/summary.csv"),
        desk.read("again/t/summary.csv")
    );
}

#[test]
fn sequences_and_iterations_are_explained() {
    let desk = conversations();
    desk.run(&["sim", "t.toml", "-q", "--out", "out"]).ok();
    let explained = |what, number| {
        desk.run(&["explain", "out/t/vllm/5", what, number])
            .ok()
            .stdout
    };
    let request = explained("request", "0");
    // Another prompt, of 10.1 ms, came before a decode of two.
    assert!(
        request.contains("its first token came after 10.100 ms; the longest time between two tokens was 20.102 ms"),
        "{request}"
    );
    assert!(!request.contains("between tasks"), "{request}");
    let prompt = explained("task", "0");
    assert!(
        prompt.contains("tokens: 100, no padding") && prompt.contains("prompts are fed: 0\n"),
        "{prompt}"
    );
    let decode = explained("task", "1");
    assert!(
        decode.contains("tokens: 1, no padding") && decode.contains("prompts are fed: none"),
        "{decode}"
    );
}

#[test]
fn the_longest_time_between_tokens_is_explained_by_the_tasks_in_it() {
    let desk = conversations();
    // The second prompt arrives while the first request gets its second token, and is fed before its third.
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape\n0,0,llm:100>4\n1,15000000,llm:50>2\n",
    );
    let text = desk
        .read("t.toml")
        .replace(
            "dataset = \"constant:100>20\"\nrequests = 2000",
            "trace = \"trace.csv\"",
        )
        .replace("[arrivals]\nprocess = \"poisson\"\nrates = [5, 10]\n", "");
    desk.write("t.toml", text);
    desk.run(&["sim", "t.toml", "-q", "--out", "out"]).ok();
    let expected = "request 0 (llm:100>4) under vllm at trace\n\
        \x20 arrived at 0.000 ms\n\
        \x20 left after 50.154 ms: waited 0.000 ms for its first task\n\
        \x20 its first token came after 10.100 ms; the longest time between two tokens was 20.052 ms, 13.351 ms on average; \
        preemptions: 0\n\
        \x20 below are the tasks that fed its prompt; the later tokens came with the decodes of its worker\n\
        \n\
        task       cell  nodes  batch      with  worker      start       took    waited  for\n\
        0     iteration      0      1  0 others       0  +0.000 ms  10.100 ms  0.000 ms\n\
        \n\
        longest time between two tokens: 20.052 ms, from +20.101 ms to +40.153 ms; its worker ran 2 tasks\n\
        task       start       took  what ran\n\
        2     +20.101 ms  10.050 ms  sequences that decode: 0; prompts that are fed: 1; tokens: 50; blocks in use: 11 of 62; \
        requests that wait: 0\n\
        3     +30.151 ms  10.002 ms  sequences that decode: 2; prompts that are fed: 0; tokens: 2; blocks in use: 11 of 62; \
        requests that wait: 0\n";
    for which in ["0", "worst", "p99"] {
        let ran = desk
            .run(&["explain", "out/t/vllm/trace", "request", which])
            .ok();
        assert_eq!(ran.stdout, expected);
    }
    let json = desk
        .run(&[
            "explain",
            "out/t/vllm",
            "request",
            "worst",
            "--format",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(json["worst_gap_tasks"], serde_json::json!([2, 3]));
    assert_eq!(json["worst_gap_end_ns"], 40_153_000);
}

#[test]
fn a_search_names_the_main_reason_of_rejections() {
    let desk = conversations();
    let command =
        "find-knee t.toml --out out --ttft 1s --replications 1 --set policy.orca.max_length=110";
    let words: Vec<&str> = command.split(' ').collect();
    let ran = desk.run(&words).ok();
    let caveat = &desk.column("out/t/knee.csv", "caveat")[1];
    assert!(
        caveat.contains("were rejected at")
            && caveat.contains(" of them): prompt and output above 110 tokens (max_length)"),
        "{caveat} {ran:?}"
    );
}

#[test]
fn what_never_fits_is_rejected_with_the_reason() {
    let desk = conversations();
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape\n0,0,llm:1001>1\n1,5,llm:990>40\n2,5,llm:10>2\n",
    );
    let set = [
        "--set",
        "workload={ model = 'llm', trace = 'trace.csv' }",
        "--set",
        "arrivals={}",
    ];
    let text = desk
        .read("t.toml")
        .replace("[arrivals]\nprocess = \"poisson\"\nrates = [5, 10]\n", "");
    desk.write("t.toml", text);
    let ran = desk
        .run(&[&["sim", "t.toml", "--out", "out"], &set[..2]].concat())
        .ok();
    let notes = [
        "\"vllm\" at trace: 2 requests were rejected; main reason (1 of them): prompt above 992 tokens (device.kv_tokens)\n",
        "\"orca\" at trace: 2 requests were rejected; main reason (2 of them): prompt above 500 tokens (max_length)\n",
    ];
    for note in notes {
        assert!(ran.stderr.contains(note), "{ran:?}");
    }
    let rejected = desk.read("out/t/vllm/trace/rejections.csv");
    assert!(
        rejected.contains("0,0,prompt above 992 tokens (device.kv_tokens): it has 1001\n"),
        "{rejected}"
    );
    assert!(
        rejected.contains(",prompt and output above 992 tokens (device.kv_tokens)\n"),
        "{rejected}"
    );
    assert_eq!(rejected.lines().count(), 3);
    assert!(
        desk.read("out/t/vllm/trace/requests.csv")
            .contains("served")
    );
}

#[test]
fn the_knee_holds_both_objectives() {
    let desk = conversations();
    let knee = |more: &[&str]| {
        let words = [
            "find-knee",
            "t.toml",
            "-q",
            "--out",
            "out",
            "--replications",
            "2",
            "--max-requests",
            "4000",
        ];
        let found = desk
            .run(
                &[
                    &words[..],
                    &["--tolerance", "0.05", "--format", "json"],
                    more,
                ]
                .concat(),
            )
            .ok()
            .json();
        found["rows"][0]["knee_rps"].as_f64().unwrap()
    };
    let (loose, strict) = (
        knee(&["--ttft", "1s"]),
        knee(&["--ttft", "1s", "--tbt", "11ms"]),
    );
    // Prompts of others stop a sequence for 10.1 ms, which a hundredth of the gaps may do.
    assert!(strict < 0.5 * loose, "{strict} of {loose}");
    let told = desk
        .run(&[
            "find-knee",
            "t.toml",
            "-q",
            "--replications",
            "1",
            "--max-requests",
            "4000",
            "--ttft",
            "1s",
        ])
        .ok();
    assert!(
        told.stdout
            .contains("p99 of the time to the first token at most 1s"),
        "{}",
        told.stdout
    );
    let alone = desk.run(&["find-knee", "t.toml", "--tbt", "1s"]);
    assert!(
        alone.code == Some(2) && alone.stderr.contains("--ttft"),
        "{alone:?}"
    );
}

#[test]
fn other_policies_and_real_runs_refuse_language_models() {
    let desk = conversations();
    let sim = |set: &str| desk.run(&["sim", "t.toml", "-q", "--set", set]);
    sim("policy.vllm={ kind = 'cellular', label = 'vllm' }").failed(
        2,
        "cellular serves no language models; use static, orca, vllm or sarathi",
    );
    let lstm = sim("workload.model=lstm").stderr;
    assert!(
        lstm.contains("vllm serves language models only (llm or llm:FILE), not lstm"),
        "{lstm}"
    );
    sim("policy.orca.max_length=1001")
        .failed(2, "max_length: 1001 tokens never fit; a worker holds 1000");
    sim("output.record=stream").failed(2, "output.record: a stream keeps no times of tokens");
    let on_h100 = "device={ roofline = 'scenarios/devices/h100.toml', precision = 'f16' }";
    let shape = "workload.model=llm:scenarios/llms/llama-2-70b.toml";
    let shapeless = desk.run(&["sim", "t.toml", "-q", "--set", on_h100]);
    assert!(
        shapeless.code == Some(2)
            && shapeless
                .stderr
                .contains("llm has no shape for device.roofline"),
        "{shapeless:?}"
    );
    let with_memory =
        "device={ roofline = 'scenarios/devices/h100.toml', precision = 'f16', kv_tokens = 1000 }";
    let own = ["policy.0.costs=it.csv", "policy.1.costs=it.csv"];
    desk.run(&[
        "sim",
        "t.toml",
        "-q",
        "--set",
        with_memory,
        "--set",
        own[0],
        "--set",
        own[1],
    ])
    .ok();
    let both = desk.run(&[
        "sim",
        "t.toml",
        "-q",
        "--set",
        on_h100,
        "--set",
        "policy.vllm.block=0",
    ]);
    assert!(
        both.stderr.contains("block: 0 is too small; at least 1"),
        "{both:?}"
    );
    let refused = desk.run(&["sim", "t.toml", "-q", "--set", on_h100, "--set", shape]);
    let why =
        "the weights of Llama-2-70B take 138.0 GB, and 90 % of the memory of H100 are 77.3 GB";
    assert!(
        refused.code == Some(2) && refused.stderr.contains(why),
        "{refused:?}"
    );
    for scenario in ["t.toml", "continuous/one-trace"] {
        desk.run(&["real", scenario, "-q"]).failed(
            2,
            "language models are simulated only; run this scenario with batchlab sim",
        );
    }
}

#[test]
fn mooncakes_trace_becomes_prompts_and_outputs() {
    let desk = conversations();
    desk.write(
        "m.jsonl",
        "{\"timestamp\": 0, \"input_length\": 90, \"output_length\": 5, \"hash_ids\": [1]}\n\
         {\"timestamp\": 27, \"input_length\": 80, \"output_length\": 7, \"hash_ids\": [2]}\n",
    );
    desk.run(&["trace", "import", "m.jsonl", "--as", "llm", "-o", "m.csv"])
        .ok();
    assert_eq!(
        desk.read("m.csv"),
        "id,arrival_ns,shape\n0,0,llm:90>5\n1,27000000,llm:80>7\n"
    );
}

#[test]
fn the_history_is_one_page() {
    let desk = Desk::new();
    desk.run(&[
        "reproduce",
        "continuous",
        "-q",
        "--out",
        "out",
        "--set",
        "workload.requests=300",
    ])
    .ok();
    let page = desk.read("out/index.html");
    for part in [
        "Padding and cellular batching",
        "Request-level, Orca, vLLM, Sarathi",
        "Time between tokens",
        "cont-vllm",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
