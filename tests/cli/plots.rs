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
    desk.sim(&[
        "--set",
        "metrics.slo=20ms",
        "--set",
        "workload.requests=2000",
    ])
    .ok();
    desk
}

#[test]
fn the_log_of_a_stream_is_drawn_without_its_warm_up() {
    let desk = Desk::new();
    desk.sim(&[
        "--set",
        "workload.requests=2000",
        "--set",
        "output={record='stream',tasks=false,log_every=20}",
    ])
    .ok();
    // Of 100 logged requests the first ten are in the warm-up of 200.
    let measured = desk.column("out/t/A/200/requests.csv", "measured");
    assert_eq!(measured.len(), 100);
    assert_eq!(measured.iter().filter(|flag| *flag == "1").count(), 90);
    desk.run(&["plot", "out/t", "--kind", "latency-cdf"]).ok();
}

#[test]
fn every_kind_is_drawn_and_the_same_twice() {
    let desk = with_results();
    let draw = |kind: &str, out: &str, format: &str| {
        let words = [
            "plot", "out/t", "--kind", kind, "-o", out, "--slo", "20ms", "--first", "20",
            "--quiet", "--format", format,
        ];
        let ran = desk.run(&words).ok();
        assert_eq!(ran.stderr, "");
        ran.stdout
    };
    for kind in KINDS {
        assert_eq!(
            draw(kind, "one/", "both"),
            format!("one/{kind}.svg\none/{kind}.png\n")
        );
        draw(kind, "two/", "svg"); // Both formats are rendered from the same marks.
    }
    draw("gantt", "two/", "png");
    let (mut one, two) = (desk.files("one"), desk.files("two"));
    assert_eq!(one.len(), 2 * KINDS.len());
    for (name, bytes) in &one {
        match name.ends_with(".svg") {
            true => assert!(
                bytes.starts_with(b"<svg") && bytes.trim_ascii_end().ends_with(b"</svg>"),
                "{name}"
            ),
            false => assert!(
                bytes.starts_with(b"\x89PNG\r\n") && bytes.ends_with(b"IEND\xaeB`\x82"),
                "{name}"
            ),
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
    assert!(
        ran.stdout
            .lines()
            .all(|file| file.starts_with("out/t/") && desk.path(file).is_file()),
        "{}",
        ran.stdout
    );
    let all_figures = ran.stdout;
    fs::remove_dir_all(desk.path("out/t/B")).unwrap();
    desk.run(&[
        "plot",
        "out/t",
        "--policies",
        "A",
        "--format",
        "svg",
        "--kind",
        "queue-cdf",
        "-o",
        "x/a.svg",
    ])
    .ok();
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
    let told = notes(&[
        "--kind", "goodput", "--kind", "bars", "--point", "100", "--tail", "--first", "3",
    ]);
    for note in [
        "note: --point has no effect on goodput, bars; it is for queue-cdf, compute-cdf, latency-cdf, batch-histogram, gantt, heat-map",
        "note: --tail has no effect on goodput, bars; it is for queue-cdf, compute-cdf, latency-cdf\n",
        "note: --first has no effect on goodput, bars; it is for gantt\n",
    ] {
        assert!(told.contains(note), "{told}");
    }
    let told = notes(&["--kind", "queue-cdf"]);
    assert!(
        told.starts_with("batchlab: note: figures of one point show 200: the highest rate that"),
        "{told}"
    );
    assert_eq!(notes(&["--kind", "queue-cdf", "--point", "200"]), "");
}

#[test]
fn mistakes_are_named() {
    let desk = with_results();
    for (words, message) in [
        (&["none"][..], "none: cannot be read: No such file"),
        (
            &["out"],
            "out: has no summary.csv; the results are in out/t",
        ),
        (
            &["t.toml"],
            "t.toml: line 1: the header should be \"length,count\"",
        ),
        (
            &["out/t", "--kind", "queue-cdf", "--point", "300"],
            "--point: no point \"300\" in these results; there are 100, 200",
        ),
        (
            &["out/t", "--policies", "C"],
            "--policies: unknown policy \"C\"; there are A, B",
        ),
        (
            &["out/t/lengths.csv", "--kind", "goodput"],
            "goodput: this kind of figure needs a results folder",
        ),
        (
            &[
                "out/t", "--kind", "goodput", "-o", "x.svg", "--format", "png",
            ],
            "-o x.svg: has another ending than --format",
        ),
        (
            &[
                "out/t",
                "--kind",
                "goodput",
                "--kind",
                "queue-cdf",
                "-o",
                "x.svg",
            ],
            "there may be several figures; name one --kind",
        ),
    ] {
        desk.run(&[&["plot"], words].concat()).failed(2, message);
    }
    fs::remove_file(desk.path("out/t/lengths.csv")).unwrap();
    desk.run(&["plot", "out/t", "--kind", "length-cdf"]).failed(
        2,
        "length-cdf: needs a results folder with lengths.csv, or a file: a histogram of lengths",
    );
    desk.write(
        "out/t/A/100/requests.csv",
        "id,arrival_ns,start_ns,finish_ns\n0,1,2,x\n",
    );
    desk.run(&["plot", "out/t", "--kind", "queue-cdf", "--point", "100"])
        .failed(
            2,
            "out/t/A/100/requests.csv: line 2: finish_ns: \"x\" is not",
        );
    desk.write("file", "");
    desk.run(&["plot", "out/t", "--kind", "goodput", "-o", "file/x.svg"])
        .failed(1, "file: cannot be written: ");
    assert!(
        desk.files("out").keys().all(|name| !name.ends_with(".svg")),
        "nothing was drawn"
    );
}

#[test]
fn the_look_is_given_by_options_or_by_the_scenario() {
    let desk = with_results();
    let look = [
        "--width",
        "3.3in",
        "--height",
        "2in",
        "--font",
        "DejaVu Serif",
        "--font-size",
        "8pt",
        "--y-range",
        "1..500",
    ];
    let more = [
        "--x-scale",
        "log",
        "--label",
        "A=First",
        "--label",
        "y=Time",
        "--order",
        "B",
        "--legend",
        "inside",
    ];
    let plain = [
        "plot",
        "out/t",
        "--kind",
        "latency-rate",
        "--format",
        "svg,png,pdf",
        "-o",
        "by/options",
    ];
    let ran = desk
        .run(&[&plain[..], &look, &more, &["--data", "points.csv"]].concat())
        .ok();
    assert_eq!(
        ran.stdout,
        "by/options.svg\nby/options.png\nby/options.pdf\npoints.csv\n"
    );
    let svg = desk.read("by/options.svg");
    for part in [
        "width=\"237.6pt\" height=\"144pt\"",
        "DejaVu Serif, DejaVu Sans",
        "\nFirst\n",
        "\nTime\n",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    assert!(
        desk.read("points.csv")
            .contains("\noptions,,First,Offered rate (requests/s),100,,,Time,"),
        "{}",
        desk.read("points.csv")
    );
    let table = "output.figure={ width = '3.3in', height = '2in', font = 'DejaVu Serif', font_size = '8pt', y_range = '1..500', \
        x_scale = 'log', label = { A = 'First', y = 'Time' }, order = ['B'], legend = 'inside', format = ['svg', 'pdf'] }";
    desk.sim(&[
        "--set",
        "metrics.slo=20ms",
        "--set",
        "workload.requests=2000",
        "--set",
        "output.plots=['latency-rate']",
        "--set",
        table,
    ])
    .ok();
    let (pdf, svg) = (
        fs::read(desk.path("out/t/latency-rate.pdf")).unwrap(),
        desk.read("out/t/latency-rate.svg"),
    );
    assert!(!desk.path("out/t/latency-rate.png").exists());
    desk.run(&[&plain[..], &look, &more, &["--slo", "20ms"]].concat())
        .ok();
    assert_eq!(svg, desk.read("by/options.svg"));
    assert!(pdf == fs::read(desk.path("by/options.pdf")).unwrap());
    desk.run(&["sim", "t.toml", "--set", "output.figure.width=3 feet"]).failed(
        2,
        "output.figure.width: \"3 feet\" is not a length; write a number with in, cm, mm, pt or px, such as 3.3in",
    );
    desk.run(&["sim", "t.toml", "--set", "output.figure.order=['C']"])
        .failed(
            2,
            "output.figure.order: unknown policy \"C\"; there are A, B",
        );
    desk.run(&[
        "sim",
        "t.toml",
        "--set",
        "output.figure.label={ Third = 'x' }",
    ])
    .failed(
        2,
        "output.figure.label: nothing is called \"Third\"; there are A, B, t, x, y",
    );
    desk.run(&["sim", "t.toml", "--set", "output.figure.font=Times"])
        .failed(
            2,
            "output.figure.font: \"Times\" is not built in, and PNG needs its letters",
        );
    desk.run(&["sim", "t.toml", "--set", "output.figure.legend=top"])
        .failed(
            2,
            "output.figure.legend: unknown value \"top\"; known: inside, outside, none",
        );
}

#[test]
fn mistakes_in_the_look_are_named() {
    let desk = with_results();
    for (words, message) in [
        (
            &["--format", "svg,eps"][..],
            "unknown value \"eps\"; known: svg, png, pdf",
        ),
        (
            &["--width", "3.3"],
            "\"3.3\" has no unit; write a number with in, cm, mm, pt or px, such as 3.3in",
        ),
        (&["--width", "3in2"], "\"3in2\" is not a length"),
        (&["--height", "3m"], "\"3m\" is not a length"),
        (
            &["--height", "1mm"],
            "\"1mm\" is out of range; from 1cm to 100cm",
        ),
        (
            &["--font-size", "2pt"],
            "\"2pt\" is out of range; from 4pt to 72pt",
        ),
        (
            &["--font", "Times"],
            "--font: \"Times\" is not built in, and PNG needs its letters; give the font's file (.ttf or .otf)",
        ),
        (&["--font", "none.ttf"], "none.ttf: cannot be read"),
        (&["--x-range", "9..1"], "\"9..1\" does not ascend"),
        (
            &["--y-range", "5"],
            "\"5\" is not a range; write A..B, A.. or ..B with numbers, such as 0..500",
        ),
        (
            &["--y-range", "0..5"],
            "--y-range: a logarithmic axis begins above 0, not at 0; or --y-scale linear",
        ),
        (
            &["--x-scale", "cubic"],
            "unknown value \"cubic\"; known: log, linear",
        ),
        (
            &["--label", "Third=x"],
            "--label: nothing is called \"Third\"; there are A, B, t, x, y",
        ),
        (
            &["--label", "A"],
            "\"A\" is not KEY=TEXT; KEY is a policy's label, a results folder, x or y",
        ),
        (
            &["--order", "C"],
            "--order: unknown policy \"C\"; there are A, B",
        ),
        (
            &["--legend", "top"],
            "unknown value \"top\"; known: inside, outside, none",
        ),
        (
            &["--height", "1cm"],
            "--height: 29pt is too little for this figure, which needs ",
        ),
        (&["--by-class"], "--by-class: has no classes.csv"),
        (
            &["--linear"],
            "--linear: the option was removed; use --y-scale linear",
        ),
        (
            &["--no-bars"],
            "--no-bars: the option was removed; use --bars false",
        ),
        (&["--bars"], "a value is required for '--bars <true|false>'"),
    ] {
        let ran = desk.run(&[&["plot", "out/t", "--kind", "latency-rate"], words].concat());
        assert!(
            ran.code == Some(2) && ran.stderr.contains(message),
            "expected {message}: {ran:?}"
        );
    }
    desk.run(&["plot", "out/t", "--kind", "knee"]).failed(
        2,
        "there is no knee.csv with an answer; find-knee writes it",
    );
    desk.run(&["plot", "out/t", "--kind", "heat-map"])
        .failed(2, "heat-map: needs two swept keys");
}

#[test]
fn a_search_and_a_sweep_of_two_keys_are_drawn() {
    let desk = Desk::new();
    let few = ["--set", "workload.requests=1200", "--out", "out"];
    let keys = [
        "--sweep",
        "policy.A.max_batch=2,8",
        "--sweep",
        "device.workers=1,2",
    ];
    desk.run(&[&["sim", "t.toml"], &keys[..], &few].concat())
        .ok();
    let search = [
        "--slo",
        "60ms",
        "--replications",
        "2",
        "--tolerance",
        "0.1",
        "--max-requests",
        "4000",
    ];
    desk.run(&[&["find-knee", "t.toml"], &keys[..2], &search, &few].concat())
        .ok();
    let draw = |more: &[&str]| {
        let words = [
            &[
                "plot",
                "out/t",
                "--policies",
                "A",
                "--format",
                "svg",
                "--quiet",
            ],
            more,
        ]
        .concat();
        desk.run(&words).ok().stdout
    };
    assert_eq!(
        draw(&["--kind", "heat-map", "--point", "200"]),
        "out/t/heat-map.svg\n"
    );
    assert!(desk.read("out/t/heat-map.svg").contains("\nmax_batch\n"));
    assert_eq!(
        draw(&["--kind", "knee", "--x", "max_batch", "--data", "knee.csv"]),
        "out/t/knee-by-max_batch.svg\nknee.csv\n"
    );
    let data = desk.read("knee.csv");
    assert!(
        data.lines().count() == 3 && data.contains(",95 % interval,"),
        "{data}"
    );
}

#[test]
fn a_run_is_done_although_a_figure_has_nothing_to_show() {
    let desk = Desk::new();
    let few = [
        "--set",
        "workload.requests=20",
        "--set",
        "output.plots=['latency-throughput', 'length-cdf']",
    ];
    let ran = desk
        .run(&[&["sim", "t.toml", "--out", "out"], &few[..]].concat())
        .ok();
    assert!(ran.stdout.contains("policy"), "the table is shown: {ran:?}");
    let why =
        "no figure: latency-throughput: summary.csv has no row with throughput_rps and p90_ms\n";
    assert!(
        ran.stderr.contains(why) && ran.stderr.contains("(length-cdf.svg"),
        "{}",
        ran.stderr
    );
}

/// A folder from elsewhere may have links to any file of the user's.
#[cfg(unix)]
#[test]
fn links_in_results_are_neither_followed_nor_written_through() {
    use std::os::unix::fs::symlink;
    let desk = with_results();
    desk.write("precious", "mine");
    let (precious, figure) = (
        desk.path("precious"),
        desk.path("out/t/latency-throughput.svg"),
    );
    let _ = fs::remove_file(&figure);
    symlink(&precious, &figure).unwrap();
    desk.run(&[
        "plot",
        "out/t",
        "--kind",
        "latency-throughput",
        "--format",
        "svg",
    ])
    .ok();
    assert!(!figure.is_symlink() && fs::read_to_string(&figure).unwrap().starts_with("<svg"));

    let page = desk.path("out/t/report.html");
    symlink(&precious, &page).unwrap();
    desk.run(&["report", "out/t"]).ok();
    assert!(!page.is_symlink());
    assert_eq!(desk.read("precious"), "mine");

    let log = fs::read_dir(desk.path("out/t"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir());
    let log = fs::read_dir(log.unwrap())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("requests.csv");
    fs::remove_file(&log).unwrap();
    symlink(&precious, &log).unwrap();
    let point = log
        .parent()
        .and_then(|point| point.file_name()?.to_str())
        .unwrap();
    let figure = ["plot", "out/t", "--kind", "latency-cdf", "--point", point];
    for words in [&figure[..], &["export", "out/t", "--out", "all.csv"]] {
        desk.run(words).failed(
            2,
            "requests.csv: is a link; results are read only from their own folder",
        );
    }
}
