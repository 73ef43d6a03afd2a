//! `batchlab report`: one page with results, their figures and their differences.

use std::fs;

use crate::desk::{Desk, SCENARIO};

/// Two policies, one with a label that would be HTML.
const LABEL: &str = "<img src=x onerror=alert(1)>";

fn with_results() -> Desk {
    let desk = Desk::new();
    let title = "[output]\nplots = [\"latency-throughput\", \"gantt\"]\ntitle = \"<script>alert(2)</script>\"\n";
    desk.write(
        "t.toml",
        SCENARIO.replace("label = \"B\"", &format!("label = \"{LABEL}\"")) + title,
    );
    desk.sim(&["--set", "workload.requests=400"]).ok();
    desk
}

#[test]
fn a_page_has_the_question_the_table_and_the_figures() {
    let desk = with_results();
    let ran = desk.run(&["report", "out/t"]).ok();
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("out/t/report.html\n", "")
    );
    let page = desk.read("out/t/report.html");
    let p50 = desk.rows("out/t/summary.csv")[0]["p50_ms"].clone();
    for part in [
        "<a href=\"#results-1-summary\">Results</a>",
        "<dt>scenario</dt><dd>t.toml</dd>",
        "<dd>process = poisson; rates = 100, 200</dd>",
        "<dt>seed</dt>",
        "<dt>finished</dt><dd>20",
        "<th scope=\"col\"><button type=\"button\">p50<small>ms</small></button></th>",
        &format!("<td class=\"number\">{p50}</td>"),
        "<g class=\"series\" data-series=\"A\">",
        "<g class=\"key\" data-series=\"A\">",
        "<title>A\nThroughput (requests/s): ",
        "n&lt;1000: too few requests for this quantile",
        "no gantt: ",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for part in ["http:", "https:", "src=\"", "@import", "url("] {
        assert!(!page.contains(part), "{part}: a page loads nothing");
    }
    desk.sim(&[]).ok();
    assert!(
        !desk.path("out/t/report.html").exists(),
        "a new run has other results"
    );
}

/// A smaller limit stands for more points.
#[test]
fn a_page_is_never_larger_than_its_limit() {
    let desk = with_results();
    desk.sim(&[
        "--set",
        "workload.requests=50",
        "--set",
        "output={}",
        "--sweep",
        "device.workers=1,2,3,4,5,6,7,8",
        "--sweep",
        "policy.A.max_batch=1,2,3,4,5,6,7,8",
    ])
    .ok();
    let mut sizes = Vec::new();
    for limit in ["0.1", "0.2", "0.5", "1", "2"] {
        let out = format!("{limit}.html");
        desk.run(&["report", "out/t", "--max-size", limit, "-o", &out])
            .ok();
        let page = desk.read(&out);
        let most = limit.parse::<f64>().unwrap() * 1e6;
        assert!(page.len() as f64 <= most, "{} bytes of {most}", page.len());
        let start = format!("A page has at most {limit} MB, so these figures are left out: ");
        assert!(page.contains(&start), "{limit}");
        sizes.push(page.len());
    }
    assert!(sizes.is_sorted(), "{sizes:?}");
    let page = desk.read("0.1.html");
    assert!(
        page.contains(" of 144 rows, for the size of the page; summary.csv has all"),
        "a table is cut"
    );
    assert!(page.contains("batchlab plot out/t --kind "));
    let (_, rest) = page.split_once("A page with --max-size ").unwrap();
    let (enough, _) = rest.split_once(' ').unwrap();
    desk.run(&["report", "out/t", "--max-size", enough, "-o", "all.html"])
        .ok();
    let all = desk.read("all.html");
    assert!(!all.contains("left out") && all.len() as f64 <= enough.parse::<f64>().unwrap() * 1e6);
    let ran = desk.run(&["report", "out/t", "--max-size", "0"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn labels_and_titles_are_text() {
    let desk = with_results();
    desk.run(&[
        "report",
        "out/t",
        "-o",
        "page.html",
        "--title",
        "<i>",
        "--kind",
        "bars",
    ])
    .ok();
    let page = desk.read("page.html");
    assert_eq!(
        page.matches("<img").count() + page.matches("<i>").count(),
        0,
        "{page}"
    );
    assert_eq!(page.matches("<script").count(), 1, "its own");
    for part in [
        "&lt;img src=x onerror=alert(1)&gt;",
        "<title>&lt;i&gt;</title>",
        "&lt;script&gt;alert(2)&lt;/script&gt;",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(page.matches("<figure>").count(), 1, "only the bars");
}

/// A terminal obeys them, and no SVG may have them.
#[test]
fn control_characters_of_results_are_neither_drawn_nor_printed() {
    let desk = with_results();
    let summary = desk.read("out/t/summary.csv");
    desk.write(
        "out/t/summary.csv",
        summary.replace("\nA,", "\nA\u{1b}]0;pwn\u{7},"),
    );
    fs::rename(desk.path("out/t/A"), desk.path("out/t/A__0_pwn_")).unwrap();
    let printed = [
        desk.run(&[
            "plot",
            "out/t",
            "--kind",
            "latency-throughput",
            "--format",
            "svg",
            "-o",
            "one/",
        ])
        .ok(),
        desk.run(&["compare", "out/t", "out/t"]).ok(),
        desk.run(&["report", "out/t", "-o", "page.html"]).ok(),
        desk.run(&["plot", "out/t", "--kind", "gantt", "--point", "\u{1b}[31m"]),
    ];
    let files = ["one/latency-throughput.svg", "page.html"].map(|file| desk.read(file));
    assert!(
        files
            .iter()
            .all(|text| text.contains("A\u{fffd}]0;pwn\u{fffd}"))
    );
    let all = printed
        .into_iter()
        .flat_map(|ran| [ran.stdout, ran.stderr])
        .chain(files);
    for text in all {
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
    }
}

#[test]
fn several_results_are_compared_with_the_first() {
    let desk = with_results();
    desk.run(&[
        "sim",
        "t.toml",
        "--out",
        "two",
        "--quiet",
        "--set",
        "workload.requests=400",
        "--replications",
        "2",
    ])
    .ok();
    desk.run(&["sim", "t.toml", "--out", "three", "--quiet", "--seed", "9"])
        .ok();
    let ran = desk.run(&["report", "out/t", "two/t", "three/t"]).ok();
    assert_eq!(ran.stdout, "report.html\n");
    let page = desk.read("report.html");
    for part in [
        "<section id=\"results-3\">",
        "Differences between policies on the same requests",
        "data-series=\"two/t: A\"",
        "<h3>two/t against out/t</h3>",
        "<td>throughput (req/s)</td>",
        "not compared: three/t did not serve the same requests as out/t: seed is 1 there and 9 here",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_swept_key_is_on_the_x_axis() {
    let desk = Desk::new();
    desk.write(
        "t.toml",
        SCENARIO.replace("requests = 200", "requests = 2000"),
    );
    let sweep = [
        "sim",
        "t.toml",
        "--quiet",
        "--sweep",
        "device.workers=1,2",
        "--sweep",
        "policy.B.max_batch=2,4",
    ];
    let captions = |results: &str, more: &[&str]| {
        desk.run(&[&["report", results, "-o", "page.html"], more].concat())
            .ok();
        let page = desk.read("page.html");
        let captions = page
            .split("<figcaption>")
            .skip(1)
            .map(|rest| rest.split('<').next().unwrap().to_string());
        captions
            .filter(|caption| caption.contains(" against "))
            .collect::<Vec<_>>()
    };
    desk.run(&[&sweep[..], &["--out", "loads"]].concat()).ok();
    let figure = ["--kind", "latency-rate"];
    let by = |x: &str| format!("99th percentile of latency against {x}, with the SLO");
    assert_eq!(captions("loads/t", &figure), [by("offered rate")]);
    assert_eq!(
        captions("loads/t", &["--kind", "gantt", "--x", "device.workers"]),
        [by("device.workers")]
    );
    // At one load, figures over the rate show little.
    desk.run(
        &[
            &sweep[..],
            &["--out", "load", "--set", "arrivals.rates=[100]"],
        ]
        .concat(),
    )
    .ok();
    assert_eq!(
        captions("load/t", &figure),
        ["offered rate", "device.workers", "policy.B.max_batch"].map(by)
    );
    assert_eq!(
        captions("load/t", &[&figure[..], &["--x", "max_batch"]].concat()),
        ["offered rate", "max_batch"].map(by)
    );
    desk.run(&["report", "load/t", "--x", "policy.B.cap"])
        .failed(2, "--x policy.B.cap: is not a swept key");
}

#[test]
fn a_search_has_its_settings_and_its_table() {
    let desk = Desk::new();
    let search = [
        "find-knee",
        "t.toml",
        "--set",
        "workload.requests=2000",
        "--slo",
        "20ms",
        "--replications",
        "1",
        "--tolerance",
        "0.1",
        "--quiet",
        "--set",
        "device.workers=3",
    ];
    desk.run(&[&search[..], &["--out", "knees"]].concat()).ok();
    desk.run(&["report", "knees/t", "-o", "page.html"]).ok();
    let page = desk.read("page.html");
    for part in [
        "Highest rates that meet the objective",
        ">knee_rps</button>",
        "workers = 3",
        "<dt>commit</dt>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<figure>"), "{page}");
    // A later run of other settings leaves the search, and the page says so.
    let run = ["sim", "t.toml", "--out", "knees", "-q"];
    desk.run(&[&run[..], &["--set", "device.workers=3"]].concat())
        .ok();
    let other = "The search was made with other settings than the run above; knee.json has them.";
    let page = || {
        desk.run(&["report", "knees/t", "-o", "page.html"]).ok();
        desk.read("page.html")
    };
    assert!(page().contains(other), "of another number of requests");
    desk.run(
        &[
            &run[..],
            &[
                "--set",
                "device.workers=3",
                "--set",
                "workload.requests=2000",
            ],
        ]
        .concat(),
    )
    .ok();
    assert!(!page().contains(other));
}

#[test]
fn mistakes_are_told() {
    let desk = with_results();
    desk.run(&["report", "out"])
        .failed(2, "out: has no summary.csv; the results are in out/t");
    desk.run(&["report", "nowhere"]).failed(
        2,
        "nowhere: has no summary.csv; name the folder that a run wrote its results to",
    );
    desk.run(&["report", "out/t", "out/t"])
        .failed(2, "out/t: this results folder is named twice");
    desk.run(&["report", "out/t", "-o", "out"])
        .failed(1, "out: ");
    assert!(!desk.path("report.html").exists() && !desk.path("out/t/report.html").exists());
}

#[test]
fn a_sweep_is_part_of_the_question() {
    let desk = with_results();
    desk.sim(&[
        "--set",
        "workload.requests=400",
        "--sweep",
        "device.workers=1,2",
        "--sweep",
        "policy.A.max_batch=4,8",
    ])
    .ok();
    desk.run(&["report", "out/t"]).ok();
    let page = desk.read("out/t/report.html");
    assert!(
        page.contains("<dt>sweep</dt><dd>device.workers = 1, 2; policy.A.max_batch = 4, 8</dd>"),
        "{page}"
    );
    assert!(!page.contains("swept ="), "{page}");
}
