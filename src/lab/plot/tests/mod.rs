//! Tests of every kind of figure from a small results folder, and of every mistake in its inputs.

use std::fs;

use super::*;
use crate::base::units::Nanos;
use crate::lab::plot::look::Scale;
use crate::lab::results::sweep_keys::distinct;

mod looks;
mod swept;

const HEADER: &str = "policy,backend,offered_rps,throughput_rps,goodput_rps,mean_ms,p50_ms,p90_ms,p99_ms,point,saturated,warmup";

/// Two policies at two rates; the second is saturated once and lacks its median there.
fn results() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let summary = [
        HEADER,
        "cellular,sim,1000,1000,1000,2.5,2,3,5,1000,false,1",
        "cellular,sim,2000,1990,1900,3.5,3,5,9,2000,false,1",
        "padded (bw=10),sim,1000,1000,900,12,9,20,60,1000,false,1",
        "padded (bw=10),sim,2000,1500,10,6000,,9000,12000,2000,true,1",
    ];
    fs::write(folder.path().join("summary.csv"), summary.join("\n")).unwrap();
    for policy in ["cellular", "padded (bw=10)"] {
        for (point, scale) in [("1000", 1), ("2000", 2)] {
            let logs = folder.path().join(policy).join(point);
            fs::create_dir_all(&logs).unwrap();
            let requests = (0..8u64).map(|i| {
                let arrival = i * 500_000;
                match i {
                    7 => format!("{i},{arrival},,\n"),
                    _ => format!(
                        "{i},{arrival},{},{}\n",
                        arrival + i * scale * 100_000,
                        arrival + 3_000_000 * scale
                    ),
                }
            });
            fs::write(
                logs.join("requests.csv"),
                format!(
                    "id,arrival_ns,start_ns,finish_ns\n{}",
                    requests.collect::<String>()
                ),
            )
            .unwrap();
            let tasks = "task,worker,stream,cell,batch,submit_ns,start_ns,finish_ns\n\
                0,0,0,lstm,4,0,0,1000000\n1,1,0,lstm,2,0,500000,2000000\n2,0,0,lstm,1,0,,\n";
            fs::write(logs.join("tasks.csv"), tasks).unwrap();
            fs::write(
                logs.join("batches.csv"),
                "cell,batch,tasks\nlstm,1,5\nlstm,4,10\nencoder,4,2\n",
            )
            .unwrap();
        }
    }
    fs::write(
        folder.path().join("joint.csv"),
        "src_len,tgt_len,count\n3,4,10\n5,6,20\n",
    )
    .unwrap();
    fs::write(
        folder.path().join("lengths.csv"),
        "length,count\n3,10\n24,20\n",
    )
    .unwrap();
    fs::write(
        folder.path().join("trace.csv"),
        "id,arrival_ns,shape\n0,0,chain:3\n1,5,chain:9\n",
    )
    .unwrap();
    folder
}

fn svg_options() -> PlotOptions {
    with_look(Look::default())
}

/// The options of an SVG with this look.
fn with_look(look: Look) -> PlotOptions {
    PlotOptions {
        look: Look {
            format: vec![PictureFormat::Svg],
            ..look
        },
        ..PlotOptions::default()
    }
}

fn svg(kind: &str, inputs: &PlotInputs, options: &PlotOptions) -> Result<String> {
    let folder = tempfile::tempdir().unwrap();
    let figure = draw(
        kind.parse().unwrap(),
        inputs,
        &PlotOptions {
            look: Look {
                format: vec![PictureFormat::Svg],
                ..options.look.clone()
            },
            ..options.clone()
        },
        &folder.path().join("f"),
    )?;
    Ok(fs::read_to_string(&figure.files[0]).unwrap())
}

/// The SVG of a kind, from the results as they are now.
fn draw_kind(results: &tempfile::TempDir, kind: &str) -> Result<String> {
    svg(kind, &PlotInputs::open(&[results.path()])?, &svg_options())
}

fn error(kind: &str, inputs: &PlotInputs, options: &PlotOptions) -> String {
    svg(kind, inputs, options).unwrap_err().to_string()
}

/// The names and the bytes of the files of all kinds that have data.
fn draw_files(results: &tempfile::TempDir, format: Vec<PictureFormat>) -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = PlotOptions {
        look: Look {
            format,
            ..Look::default()
        },
        ..PlotOptions::default()
    };
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let mut files = Vec::new();
    for figure in draw_all(&inputs, &options, folder.path()).unwrap() {
        for file in figure.files {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            files.push((name, fs::read(&file).unwrap()));
        }
    }
    files
}

#[test]
fn every_kind_is_drawn_twice_to_the_same_bytes() {
    let results = results();
    let both = draw_files(&results, Vec::new());
    // These kinds need a stepping load, a language model, or a sweep.
    let others = [
        FigureKind::LatencySteps,
        FigureKind::TtftRate,
        FigureKind::TbtRate,
        FigureKind::NormalisedRate,
    ];
    let kinds = FigureKind::value_variants()
        .iter()
        .filter(|kind| !others.contains(kind) && !OF_KEYS.contains(kind));
    let names: Vec<String> = kinds
        .flat_map(|kind| [format!("{kind}.svg"), format!("{kind}.png")])
        .collect();
    assert_eq!(
        both.iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>(),
        names
    );
    // The tests of the renderer check that a drawing gives the same PNG twice.
    let again = draw_files(&results, vec![PictureFormat::Svg]);
    assert!(
        both.into_iter()
            .filter(|(name, _)| name.ends_with("svg"))
            .eq(again)
    );
}

#[test]
fn a_rising_load_is_drawn_beside_latencies() {
    let results = results();
    let error = draw_kind(&results, "latency-steps").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("set output.requests and the arrival process stepping")
    );
    for policy in ["cellular", "padded (bw=10)"] {
        let logs = results.path().join(policy).join("stepping");
        fs::create_dir_all(&logs).unwrap();
        // A request arrives each millisecond and takes four.
        let mut log = "id,arrival_ns,start_ns,finish_ns\n".to_string();
        for i in 0..60 {
            let arrival = i * 1_000_000;
            log += &format!("{i},{arrival},{arrival},{}\n", arrival + 4_000_000);
        }
        fs::write(logs.join("requests.csv"), log).unwrap();
    }
    let text = draw_kind(&results, "latency-steps").unwrap();
    for label in ["Latency (ms)", "Load (requests/s)", "1,000", "60"] {
        assert!(
            text.lines().any(|line| line.trim() == label),
            "{label}: {text}"
        );
    }
}

/// A file of bounds with this ceiling.
fn bounds(rate: &str) -> String {
    format!(
        "{{\"workers\":1,\"floor\":{{\"samples\":9,\"p90_ms\":1.2345}},\"ceiling_rps\":{rate}}}"
    )
}

#[test]
fn bounds_are_drawn_and_named() {
    let results = results();
    let file = results.path().join("bounds.json");
    let kind = "latency-throughput";
    assert!(
        !draw_kind(&results, kind).unwrap().contains("ceiling"),
        "a real run has no bounds"
    );
    for (rate, label) in [
        ("2500.4", "ceiling 2,500 requests/s"),
        ("9000", "ceiling 9,000 requests/s →"),
    ] {
        fs::write(&file, bounds(rate)).unwrap();
        let text = draw_kind(&results, kind).unwrap();
        assert!(
            text.contains("no p90 below 1.23 ms") && text.lines().any(|line| line.trim() == label),
            "{rate}: {text}"
        );
    }
    fs::write(&file, bounds("null")).unwrap();
    assert!(
        !draw_kind(&results, kind).unwrap().contains("ceiling"),
        "cells that take no time have none"
    );
    fs::write(&file, "{}").unwrap();
    let error = draw_kind(&results, kind).unwrap_err().to_string();
    assert!(
        error.contains("bounds.json: missing field") && error.ends_with("run the scenario again"),
        "{error}"
    );
}

/// A value that a paper states about `cellular`.
fn stated(on: &str, value: f64, at: Option<f64>, label: &str) -> Stated {
    Stated {
        on: on.into(),
        value,
        at,
        upto: None,
        of: "cellular".into(),
        label: label.into(),
    }
}

#[test]
fn a_papers_values_are_marks_in_the_figures_of_their_quantity() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let values = [
        stated("p90 latency", 7.0, None, "cellular: 7 ms"),
        stated("Throughput", 1500.0, Some(10.0), "cellular: 1,500"),
        stated("Queueing time", 0.3, Some(0.9), "cellular: 0.3 ms"),
        stated("Time", 1.0, None, "no label in a schedule"),
    ];
    let options = PlotOptions {
        stated: values.to_vec(),
        ..svg_options()
    };
    for (kind, labels) in [
        (
            "latency-throughput",
            &["cellular: 1,500", "cellular: 7 ms"][..],
        ),
        ("queue-cdf", &["cellular: 0.3 ms"]),
        ("gantt", &[]),
        ("goodput", &[]),
    ] {
        let text = svg(kind, &inputs, &options).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("cellular: "))
            .collect();
        assert_eq!(lines, labels, "{kind}");
        assert_eq!(
            text.contains("stated in the paper"),
            kind != "goodput",
            "{kind}"
        );
    }
}

#[test]
fn a_policy_that_is_always_saturated_does_not_choose_the_point() {
    let results = results();
    let file = results.path().join("summary.csv");
    let summary = fs::read_to_string(&file)
        .unwrap()
        .replace("60,1000,false", "60,1000,true");
    fs::write(&file, summary).unwrap();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let text = svg("queue-cdf", &inputs, &svg_options()).unwrap();
    assert!(
        text.contains("at 2,000 requests/s") && text.contains("padded (bw=10) (saturated)"),
        "{text}"
    );
    assert!(!text.contains("cellular (saturated)"));
    assert_eq!(
        inputs.default_point(&svg_options()).as_deref(),
        Some("2000")
    );
    let options = PlotOptions {
        point: Some("1000".into()),
        ..svg_options()
    };
    assert_eq!(inputs.default_point(&options), None);
}

#[test]
fn the_scenarios_objective_is_named() {
    let results = results();
    let goodput = draw_kind(&results, "goodput").unwrap();
    assert!(goodput.contains("all within the SLO"));
    let latency = draw_kind(&results, "latency-rate").unwrap();
    assert!(!latency.contains("SLO"));
    fs::write(
        results.path().join("run.json"),
        "{\"scenario\": {\"metrics\": {\"slo\": \"50ms\"}}}",
    )
    .unwrap();
    let goodput = draw_kind(&results, "goodput").unwrap();
    assert!(goodput.contains("all within 50 ms"));
    let latency = draw_kind(&results, "latency-rate").unwrap();
    assert!(latency.contains("SLO 50 ms"));
}

#[test]
fn bars_of_several_magnitudes_have_a_logarithmic_axis() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let labels = |y_scale| {
        let options = with_look(Look {
            y_scale,
            ..Look::default()
        });
        let text = svg("bars", &inputs, &options).unwrap();
        ["100", "0", "saturated"].map(|label| text.lines().any(|line| line.trim() == label))
    };
    assert_eq!(
        (labels(None), labels(Some(Scale::Linear))),
        ([true, false, true], [false, true, true])
    );
}

#[test]
fn kinds_read_back_as_they_print() {
    for kind in FigureKind::value_variants() {
        assert_eq!(kind.to_string().parse(), Ok(*kind));
        assert_eq!(serde_json::json!(kind), kind.to_string());
        assert!(!kind.about().is_empty());
    }
    let error = "pie".parse::<FigureKind>().unwrap_err();
    assert!(
        error.starts_with("unknown kind of figure \"pie\"; known: latency-throughput, "),
        "{error}"
    );
    #[derive(serde::Deserialize)]
    struct Table {
        kind: FigureKind,
    }
    assert_eq!(
        toml::from_str::<Table>("kind = \"gantt\"").unwrap().kind,
        FigureKind::Gantt
    );
    assert!(toml::from_str::<Table>("kind = \"pie\"").is_err());
}

#[test]
fn figures_name_what_they_show() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let options = PlotOptions {
        title: Some("a & b".into()),
        ..svg_options()
    };
    let text = svg("latency-throughput", &inputs, &options).unwrap();
    for part in [
        "a &amp; b",
        "cellular",
        "padded (bw=10)",
        "p90 latency (ms)",
        "Throughput (requests/s)",
        "saturated",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let text = svg("queue-cdf", &inputs, &options).unwrap();
    assert!(
        text.contains("Queueing time at 1,000 requests/s (ms)"),
        "the highest rate that saturates no policy"
    );
    let options = PlotOptions {
        point: Some("2e3".into()),
        policies: vec!["cellular".into()],
        ..svg_options()
    };
    let text = svg("queue-cdf", &inputs, &options).unwrap();
    assert!(text.contains("2,000 requests/s") && !text.contains("padded"));
    let options = PlotOptions {
        slo: Some(Nanos(50_000_000)),
        ..svg_options()
    };
    assert!(
        svg("latency-rate", &inputs, &options)
            .unwrap()
            .contains("SLO 50 ms")
    );
    let text = svg("gantt", &inputs, &svg_options()).unwrap();
    assert!(text.contains("worker 1") && text.contains("Time (ms)"));
}

#[test]
fn a_policy_keeps_its_colour_when_others_are_left_out() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let options = PlotOptions {
        policies: vec!["padded (bw=10)".into()],
        ..svg_options()
    };
    let series = inputs.series(&options).unwrap();
    assert_eq!(series.len(), 1);
    assert_eq!(series[0].style, style::Style::number(1));
}

#[test]
fn a_label_that_occurs_in_two_folders_gets_the_folder() {
    let a = results();
    let b = results();
    let inputs = PlotInputs::open(&[a.path(), b.path()]).unwrap();
    let series = inputs.series(&svg_options()).unwrap();
    let name = a.path().file_name().unwrap().to_string_lossy();
    assert_eq!(series[0].label, format!("{name}: cellular"));
    assert_eq!(series.len(), 4);
}

#[test]
fn every_option_changes_the_figure() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let plain = |kind| svg(kind, &inputs, &svg_options()).unwrap();
    let linear = with_look(Look {
        y_scale: Some(Scale::Linear),
        ..Look::default()
    });
    assert_ne!(
        svg("latency-throughput", &inputs, &linear).unwrap(),
        plain("latency-throughput")
    );
    let no_bars = with_look(Look {
        bars: Some(false),
        ..Look::default()
    });
    assert!(
        !svg("latency-throughput", &inputs, &no_bars)
            .unwrap()
            .contains("p50–p99")
    );
    let tail = PlotOptions {
        tail: true,
        ..svg_options()
    };
    assert!(
        svg("latency-cdf", &inputs, &tail)
            .unwrap()
            .contains("Share of slower requests")
    );
    let first = PlotOptions {
        first: Some(2),
        ..svg_options()
    };
    assert!(svg("gantt", &inputs, &first).unwrap().len() < plain("gantt").len());
}

/// The SVG of the lengths in a file.
fn draw_lengths(results: &tempfile::TempDir, name: &str) -> String {
    let inputs = PlotInputs::open(&[results.path().join(name)]).unwrap();
    svg("length-cdf", &inputs, &svg_options()).unwrap()
}

#[test]
fn lengths_come_from_three_kinds_of_files() {
    let results = results();
    let lengths = draw_lengths(&results, "lengths.csv");
    assert!(lengths.contains("lengths (median 24)"));
    assert!(lengths.contains("Length (steps, nodes or tokens)"));
    let joint = draw_lengths(&results, "joint.csv");
    assert!(joint.contains("source (median 5)") && joint.contains("target (median 6)"));
    assert!(joint.contains("Length (steps)"));
    let trace = draw_lengths(&results, "trace.csv");
    assert!(trace.contains("trace (median 3)") && trace.contains("Length (steps)"));
    fs::write(
        results.path().join("mixed.csv"),
        "id,arrival_ns,shape\n0,0,chain:3\n1,0,tree:2 0\n",
    )
    .unwrap();
    let mixed = draw_lengths(&results, "mixed.csv");
    assert!(
        mixed.matches("mixed (median").count() == 1
            && mixed.contains("Length (steps, nodes or tokens)")
    );
}

#[test]
fn the_lengths_of_a_folder_are_in_the_units_of_its_model() {
    let results = results();
    for (model, unit) in [
        ("lstm", "steps"),
        ("tree-lstm", "nodes"),
        ("dnn:bert", "tokens"),
    ] {
        let run = format!("{{\"scenario\": {{\"workload\": {{\"model\": \"{model}\"}}}}}}");
        fs::write(results.path().join("run.json"), run).unwrap();
        let text = svg(
            "length-cdf",
            &PlotInputs::open(&[results.path()]).unwrap(),
            &svg_options(),
        )
        .unwrap();
        let name = results.path().file_name().unwrap().to_string_lossy();
        assert!(
            text.contains(&format!("Length ({unit})"))
                && text.contains(&format!("{name} (median 24)")),
            "{text}"
        );
    }
}

#[test]
fn folders_of_one_name_are_told_apart_by_the_folders_above_them() {
    let a = results();
    let b = results();
    let named = |above: &tempfile::TempDir| {
        let path = above.path().join("fig");
        fs::create_dir(&path).unwrap();
        fs::copy(above.path().join("summary.csv"), path.join("summary.csv")).unwrap();
        path
    };
    let inputs = PlotInputs::open(&[named(&a), named(&b)]).unwrap();
    let series = inputs.series(&svg_options()).unwrap();
    let name = a.path().file_name().unwrap().to_string_lossy();
    assert_eq!(series[0].label, format!("{name}/fig: cellular"));
}

#[test]
fn bars_are_left_out_when_there_are_many_policies() {
    let folders = [results(), results(), results()];
    let inputs = PlotInputs::open(&folders.each_ref().map(|folder| folder.path())).unwrap();
    let shows = |bars| {
        let options = with_look(Look {
            bars,
            ..Look::default()
        });
        svg("latency-throughput", &inputs, &options)
            .unwrap()
            .contains("p50–p99")
    };
    assert!(!shows(None) && shows(Some(true)));
    let two = PlotOptions {
        policies: vec!["cellular".into()],
        ..svg_options()
    };
    assert!(
        svg("latency-throughput", &inputs, &two)
            .unwrap()
            .contains("p50–p99")
    );
}

#[test]
fn letters_that_the_font_lacks_are_named() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let options = PlotOptions {
        title: Some("µ ≤ 束束".into()),
        ..svg_options()
    };
    assert_eq!(missing_letters(&inputs, &options).unwrap(), "束");
}

#[test]
fn errors_say_what_is_wrong_and_what_there_is() {
    let results = results();
    let path = results.path();
    let inputs = || PlotInputs::open(&[path]).unwrap();
    let says = |error: String, part: &str| assert!(error.contains(part), "{error}");

    let policies = PlotOptions {
        policies: vec!["merged".into()],
        ..svg_options()
    };
    says(
        error("goodput", &inputs(), &policies),
        "unknown policy \"merged\"; there are cellular, padded (bw=10)",
    );
    let point = PlotOptions {
        point: Some("50".into()),
        ..svg_options()
    };
    says(
        error("queue-cdf", &inputs(), &point),
        "no point \"50\" in these results; there are 1000, 2000",
    );
    let lengths = fs::read(path.join("lengths.csv")).unwrap();
    fs::remove_file(path.join("lengths.csv")).unwrap();
    says(
        error("length-cdf", &inputs(), &svg_options()),
        "needs a results folder with lengths.csv",
    );
    fs::write(path.join("lengths.csv"), lengths).unwrap();
    says(
        PlotInputs::open(&[path, path]).unwrap_err().to_string(),
        "is named twice",
    );
    let file = PlotInputs::open(&[path.join("lengths.csv")]).unwrap();
    says(
        error("goodput", &file, &svg_options()),
        "goodput: this kind of figure needs a results folder",
    );
    says(
        PlotInputs::open(&[path.join("nowhere")])
            .unwrap_err()
            .to_string(),
        "cannot be read",
    );
    says(
        PlotInputs::open(&[path.join("cellular")])
            .unwrap_err()
            .to_string(),
        "has no summary.csv",
    );
    let parent = tempfile::tempdir().unwrap();
    let open_parent = || PlotInputs::open(&[parent.path()]).unwrap_err().to_string();
    let add = |name: &str| {
        let folder = parent.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("summary.csv"), "").unwrap();
    };
    says(open_parent(), "; name the folder that a run wrote");
    add("one");
    says(open_parent(), "; the results are in ");
    add("two");
    says(
        open_parent(),
        "; it holds the results of 2 scenarios: name one, such as ",
    );

    let log = path.join("cellular/1000/requests.csv");
    let many: String = (0..100).map(|i| format!("{i},{i},{i},{i}\n")).collect();
    fs::write(&log, format!("id,arrival_ns,start_ns,finish_ns\n{many}")).unwrap();
    says(
        error("gantt", &inputs(), &svg_options()),
        "more than 60 requests, too many to read; draw the beginning with --first 60",
    );
    fs::write(&log, "id,arrival_ns,start_ns,finish_ns\n0,5,5,5\n1,9,,\n").unwrap();
    says(
        error("latency-cdf", &inputs(), &svg_options()),
        "no request finished after the warm-up",
    );
    fs::write(&log, "id,arrival_ns,start_ns,finish_ns\n0,5,5,5\n1,9,9,9\n").unwrap();
    fs::copy(&log, path.join("padded (bw=10)/1000/requests.csv")).unwrap();
    says(
        error("queue-cdf", &inputs(), &svg_options()),
        "every time at point 1000 is 0",
    );
    fs::remove_file(path.join("cellular/1000/batches.csv")).unwrap();
    says(
        error("batch-histogram", &inputs(), &svg_options()),
        "there is no ",
    );
    fs::remove_file(&log).unwrap();
    says(
        error("queue-cdf", &inputs(), &svg_options()),
        "a run writes it with output.requests = true",
    );

    let summary = |text: &str| {
        fs::write(path.join("summary.csv"), text).unwrap();
        error("latency-throughput", &inputs(), &svg_options())
    };
    says(summary(HEADER), "summary.csv: has no rows");
    says(
        summary("policy,throughput_rps\ncellular,5\n"),
        "no column \"offered_rps\"; there are policy, throughput_rps",
    );
    let row = "cellular,sim,1000,fast,1000,2.5,2,3,5,1000,false,1";
    says(
        summary(&format!("{HEADER}\n{row}")),
        "summary.csv: line 2: throughput_rps: \"fast\" is not a number",
    );
    let row = "cellular,sim,1000,1000,,,,,,1000,maybe,1";
    says(
        summary(&format!("{HEADER}\n{row}")),
        "latency-throughput: summary.csv has no row with throughput_rps and p90_ms",
    );
    says(
        error("goodput", &inputs(), &svg_options()),
        "goodput needs an SLO",
    );
    says(
        error("latency-rate", &inputs(), &svg_options()),
        "no row with offered_rps and p99_ms",
    );
    says(
        error("queue-cdf", &inputs(), &svg_options()),
        "saturated: \"maybe\" is neither true nor false",
    );

    fs::write(path.join("lengths.csv"), "a,b\n1,2\n").unwrap();
    let file = PlotInputs::open(&[path.join("lengths.csv")]).unwrap();
    says(
        error("length-cdf", &file, &svg_options()),
        "the header should be \"length,count\"",
    );
    fs::write(path.join("trace.csv"), "id,arrival_ns,shape\n0,0,ring:3\n").unwrap();
    let file = PlotInputs::open(&[path.join("trace.csv")]).unwrap();
    says(
        error("length-cdf", &file, &svg_options()),
        "trace.csv: line 2: shape: bad shape \"ring:3\"",
    );
    says(
        draw_all(&file, &svg_options(), path)
            .unwrap_err()
            .to_string(),
        "line 2: shape",
    );
    let none = PlotInputs::open::<PathBuf>(&[]).unwrap();
    says(
        draw_all(&none, &svg_options(), path)
            .unwrap_err()
            .to_string(),
        "there is nothing to draw\n  latency-throughput: ",
    );
}

#[test]
fn a_broken_log_is_an_error_of_its_line() {
    let results = results();
    fs::write(
        results.path().join("cellular/1000/requests.csv"),
        "id,arrival_ns,start_ns,finish_ns\n0,0,1,2\n1,9,9,7\n",
    )
    .unwrap();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let error = error("compute-cdf", &inputs, &svg_options());
    assert!(
        error.contains("requests.csv: line 3: finish_ns: the request's times run backwards"),
        "{error}"
    );
}
