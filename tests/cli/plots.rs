//! `batchlab plot` on real results.

use std::fs;

use crate::desk::{Desk, same};

const KINDS: [&str; 12] = [
    "latency-throughput",
    "p50-throughput",
    "p99-throughput",
    "throughput-rate",
    "latency-rate",
    "goodput",
    "queue-cdf",
    "compute-cdf",
    "latency-cdf",
    "length-cdf",
    "batch-histogram",
    "gantt",
];

fn with_results() -> Desk {
    let desk = Desk::new();
    desk.sim(&["--set", "metrics.slo=20ms", "--set", "workload.requests=2000"]).ok();
    desk
}

#[test]
fn every_kind_is_drawn_and_the_same_twice() {
    let desk = with_results();
    let draw = |kind: &str, out: &str, format: &str| {
        let words = [
            "plot", "out/t", "--kind", kind, "-o", out, "--slo", "20ms", "--first", "20", "--quiet", "--format", format,
        ];
        let ran = desk.run(&words).ok();
        assert_eq!(ran.stderr, "");
        ran.stdout
    };
    for kind in KINDS {
        assert_eq!(draw(kind, "one/", "both"), format!("one/{kind}.svg\none/{kind}.png\n"));
        draw(kind, "two/", "svg"); // Both formats are rendered from the same marks.
    }
    draw("gantt", "two/", "png");
    let (mut one, two) = (desk.files("one"), desk.files("two"));
    assert_eq!(one.len(), 2 * KINDS.len());
    for (name, bytes) in &one {
        match name.ends_with(".svg") {
            true => assert!(bytes.starts_with(b"<svg") && bytes.trim_ascii_end().ends_with(b"</svg>"), "{name}"),
            false => assert!(bytes.starts_with(b"\x89PNG\r\n") && bytes.ends_with(b"IEND\xaeB`\x82"), "{name}"),
        }
    }
    one.retain(|name, _| two.contains_key(name));
    same(&one, &two);
}

#[test]
fn without_a_kind_all_that_can_be_is_drawn_beside_the_results() {
    let desk = with_results();
    let ran = desk.run(&["plot", "out/t", "--format", "svg"]).ok();
    assert!(ran.stdout.lines().count() >= 6, "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|file| file.starts_with("out/t/") && desk.path(file).is_file()), "{}", ran.stdout);
    let all_figures = ran.stdout;
    fs::remove_dir_all(desk.path("out/t/B")).unwrap();
    desk.run(&["plot", "out/t", "--policies", "A", "--format", "svg", "--kind", "queue-cdf", "-o", "x/a.svg"]).ok();
    assert!(desk.path("x/a.svg").is_file() && !desk.path("x/a.png").exists());
    assert!(all_figures.contains("out/t/queue-cdf.svg\n"));
}

#[test]
fn notes_say_what_has_no_effect_and_which_point_is_shown() {
    let desk = with_results();
    let notes = |more: &[&str]| {
        let words = [&["plot", "out/t", "--format", "svg", "-o", "f/"], more].concat();
        desk.run(&words).ok().stderr
    };
    assert_eq!(notes(&["--kind", "goodput"]), "");
    let told = notes(&["--kind", "goodput", "--kind", "bars", "--point", "100", "--linear", "--first", "3"]);
    for note in [
        "note: --point has no effect on goodput, bars; it is for queue-cdf, compute-cdf, latency-cdf, batch-histogram, gantt",
        "note: --linear has no effect on goodput; it is for latency-throughput, ",
        "note: --first has no effect on goodput, bars; it is for gantt\n",
    ] {
        assert!(told.contains(note), "{told}");
    }
    let told = notes(&["--kind", "queue-cdf"]);
    assert!(told.starts_with("batchlab: note: figures of one point show 200: the highest rate that"), "{told}");
    assert_eq!(notes(&["--kind", "queue-cdf", "--point", "200"]), "");
}

#[test]
fn mistakes_are_named() {
    let desk = with_results();
    for (words, message) in [
        (&["none"][..], "none: cannot be read: No such file"),
        (&["out"], "out: has no summary.csv; it holds the results of 1 scenarios: name one, such as out/t"),
        (&["t.toml"], "t.toml: line 1: the header should be \"length,count\""),
        (
            &["out/t", "--kind", "queue-cdf", "--point", "300"],
            "--point: no point \"300\" in these results; there are 100, 200",
        ),
        (&["out/t", "--policies", "C"], "--policies: unknown policy \"C\"; there are A, B"),
        (&["out/t/lengths.csv", "--kind", "goodput"], "goodput: this kind of figure needs a results folder"),
        (
            &["out/t", "--kind", "goodput", "-o", "x.svg", "--format", "png"],
            "-o x.svg: has another ending than --format",
        ),
        (
            &["out/t", "--kind", "goodput", "--kind", "queue-cdf", "-o", "x.svg"],
            "there may be several figures; name one --kind",
        ),
    ] {
        desk.run(&[&["plot"], words].concat()).failed(2, message);
    }
    fs::remove_file(desk.path("out/t/lengths.csv")).unwrap();
    desk.run(&["plot", "out/t", "--kind", "length-cdf"])
        .failed(2, "length-cdf: needs a results folder with lengths.csv, or a file: a histogram of lengths");
    desk.write("out/t/A/100/requests.csv", "id,arrival_ns,start_ns,finish_ns\n0,1,2,x\n");
    desk.run(&["plot", "out/t", "--kind", "queue-cdf", "--point", "100"])
        .failed(2, "out/t/A/100/requests.csv: line 2: finish_ns: \"x\" is not");
    desk.write("file", "");
    desk.run(&["plot", "out/t", "--kind", "goodput", "-o", "file/x.svg"]).failed(1, "file: cannot be written: ");
    assert!(desk.files("out").keys().all(|name| !name.ends_with(".svg")), "nothing was drawn");
}

#[test]
fn a_run_is_done_although_a_figure_has_nothing_to_show() {
    let desk = Desk::new();
    let few = ["--set", "workload.requests=20", "--set", "output.plots=['latency-throughput', 'length-cdf']"];
    let ran = desk.run(&[&["sim", "t.toml", "--out", "out"], &few[..]].concat()).ok();
    assert!(ran.stdout.contains("policy"), "the table is shown: {ran:?}");
    let why = "no figure: latency-throughput: summary.csv has no row with throughput_rps and p90_ms\n";
    assert!(ran.stderr.contains(why) && ran.stderr.contains("(length-cdf.svg"), "{}", ran.stderr);
}

/// A folder from elsewhere may have links to any file of the user's.
#[cfg(unix)]
#[test]
fn links_in_results_are_neither_followed_nor_written_through() {
    use std::os::unix::fs::symlink;
    let desk = with_results();
    desk.write("precious", "mine");
    let (precious, figure) = (desk.path("precious"), desk.path("out/t/latency-throughput.svg"));
    let _ = fs::remove_file(&figure);
    symlink(&precious, &figure).unwrap();
    desk.run(&["plot", "out/t", "--kind", "latency-throughput", "--format", "svg"]).ok();
    assert!(!figure.is_symlink() && fs::read_to_string(&figure).unwrap().starts_with("<svg"));

    let page = desk.path("out/t/report.html");
    symlink(&precious, &page).unwrap();
    desk.run(&["report", "out/t"]).ok();
    assert!(!page.is_symlink());
    assert_eq!(desk.read("precious"), "mine");

    let log = fs::read_dir(desk.path("out/t")).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let log = fs::read_dir(log.unwrap()).unwrap().next().unwrap().unwrap().path().join("requests.csv");
    fs::remove_file(&log).unwrap();
    symlink(&precious, &log).unwrap();
    let point = log.parent().and_then(|point| point.file_name()?.to_str()).unwrap();
    let figure = ["plot", "out/t", "--kind", "latency-cdf", "--point", point];
    for words in [&figure[..], &["export", "out/t", "--out", "all.csv"]] {
        desk.run(words).failed(2, "requests.csv: is a link; results are read only from their own folder");
    }
}
