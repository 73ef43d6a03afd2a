//! Tests of sizes, fonts, axes, names, legends, and what is marked.

use super::*;
use crate::lab::plot::axis::AxisRange;
use crate::lab::plot::canvas::{Align, CanvasMark, TextMark};
use crate::lab::plot::look::{Legend, Scale};

fn texts(canvas: &Canvas) -> Vec<&TextMark> {
    canvas
        .marks
        .iter()
        .filter_map(|mark| {
            if let CanvasMark::Text(text) = mark {
                Some(text)
            } else {
                None
            }
        })
        .collect()
}

fn draw_look(kind: FigureKind, inputs: &PlotInputs, look: Look) -> Canvas {
    let options = PlotOptions {
        look,
        ..PlotOptions::default()
    };
    kind.draw(inputs, &options)
        .map_err(|undrawn| undrawn.error(kind))
        .unwrap()
}

fn refused(kind: FigureKind, inputs: &PlotInputs, look: Look) -> String {
    let options = PlotOptions {
        look,
        ..PlotOptions::default()
    };
    let error = kind
        .draw(inputs, &options)
        .map_err(|undrawn| undrawn.error(kind))
        .unwrap_err();
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

fn small() -> Look {
    let [width, height, letters] =
        ["3.3in", "2in", "8pt"].map(|length| Some(length.parse().unwrap()));
    Look {
        width,
        height,
        font_size: letters,
        ..Look::default()
    }
}

/// The summary with these columns added, each with its values by row.
fn with_columns(folder: &tempfile::TempDir, columns: &[(&str, [&str; 4])]) {
    let file = folder.path().join("summary.csv");
    let text = fs::read_to_string(&file).unwrap();
    let line = |(at, line): (usize, &str)| {
        let more = columns
            .iter()
            .map(|(name, values)| if at == 0 { name } else { values[at - 1] });
        format!("{line},{}\n", more.collect::<Vec<_>>().join(","))
    };
    fs::write(
        &file,
        text.lines().enumerate().map(line).collect::<String>(),
    )
    .unwrap();
}

#[test]
fn a_figure_has_the_size_that_is_asked_for() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let look = Look {
        format: vec![PictureFormat::Svg, PictureFormat::Png, PictureFormat::Pdf],
        ..small()
    };
    let options = PlotOptions {
        look,
        ..PlotOptions::default()
    };
    let figure = draw(
        FigureKind::LatencyThroughput,
        &inputs,
        &options,
        &folder.path().join("f"),
    )
    .unwrap();
    let [svg, png, pdf] = [0, 1, 2].map(|i| fs::read(&figure.files[i]).unwrap());
    assert!(svg.starts_with(b"<svg width=\"237.6pt\" height=\"144pt\" viewBox=\"0 0 4455 2700\""));
    let reader = png::Decoder::new(png.as_slice()).read_info().unwrap();
    assert_eq!(reader.info().size(), (1426, 864), "432 to the inch");
    let has = |part: &str| {
        pdf.windows(part.len())
            .any(|window| window == part.as_bytes())
    };
    assert!(
        pdf.starts_with(b"%PDF-") && has("DejaVuSans") && has("FontFile2"),
        "the font is embedded"
    );
    let again = draw(
        FigureKind::LatencyThroughput,
        &inputs,
        &options,
        &folder.path().join("g"),
    )
    .unwrap();
    assert!(fs::read(&again.files[2]).unwrap() == pdf, "the same bytes");
}

/// The left and the right end of a text.
fn extent(canvas: &Canvas, text: &TextMark) -> (f64, f64) {
    let width = canvas.sheet.face.width(&text.words, text.size);
    let from = match text.align {
        Align::Left => text.at.0,
        Align::Center | Align::Upright => text.at.0 - width / 2.0,
        Align::Right => text.at.0 - width,
    };
    (from, from + width)
}

#[test]
fn no_texts_overlap_in_a_small_figure() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    for kind in [
        FigureKind::LatencyThroughput,
        FigureKind::LatencyRate,
        FigureKind::Goodput,
        FigureKind::QueueCdf,
        FigureKind::LengthCdf,
        FigureKind::Bars,
    ] {
        for width in ["3.3in", "2.4in"] {
            let canvas = draw_look(
                kind,
                &inputs,
                Look {
                    width: Some(width.parse().unwrap()),
                    height: None,
                    ..small()
                },
            );
            let level: Vec<&TextMark> = texts(&canvas)
                .into_iter()
                .filter(|text| text.align != Align::Upright)
                .collect();
            for (i, a) in level.iter().enumerate() {
                let (from, to) = extent(&canvas, a);
                assert!(
                    from >= -0.5 && to <= canvas.width + 0.5,
                    "{kind} {width}: {} sticks out",
                    a.words
                );
                for b in &level[..i] {
                    let (other_from, other_to) = extent(&canvas, b);
                    let apart = to <= other_from
                        || other_to <= from
                        || (a.at.1 - b.at.1).abs() >= 0.7 * a.size;
                    assert!(apart, "{kind} {width}: {} and {}", a.words, b.words);
                }
            }
        }
    }
}

fn look_of_size(width: &str, height: &str) -> Look {
    Look {
        width: Some(width.parse().unwrap()),
        height: Some(height.parse().unwrap()),
        ..Look::default()
    }
}

#[test]
fn a_figure_that_does_not_fit_says_what_it_needs() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let error = refused(
        FigureKind::LatencyThroughput,
        &inputs,
        look_of_size("3in", "1cm"),
    );
    assert!(
        error.starts_with("--height: 29pt is too little for this figure, which needs "),
        "{error}"
    );
    let error = refused(FigureKind::Bars, &inputs, look_of_size("1cm", "5in"));
    assert!(
        error.starts_with("--width: 29pt is too little for this figure, which needs "),
        "{error}"
    );
    assert_eq!(
        draw_look(FigureKind::Gantt, &inputs, look_of_size("3in", "5in")).height,
        720.0,
        "rows of a schedule are as high as fits"
    );
}

fn range(text: &str) -> Option<AxisRange> {
    Some(text.parse().unwrap())
}

#[test]
fn axes_have_the_ends_and_spreads_that_are_asked_for() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let labels = |look: Look| {
        let canvas = draw_look(FigureKind::LatencyThroughput, &inputs, look);
        let words = texts(&canvas).into_iter().map(|text| text.words.clone());
        words.collect::<Vec<_>>()
    };
    let found = labels(Look {
        x_range: range("500..2500"),
        y_range: range("..40"),
        ..Look::default()
    });
    assert!(
        found.contains(&"500".into())
            && found.contains(&"2,500".into())
            && !found.contains(&"0".into()),
        "{found:?}"
    );
    assert!(
        found.contains(&"above the axis".into()) && !found.contains(&"100".into()),
        "{found:?}"
    );
    let found = labels(Look {
        x_scale: Some(Scale::Log),
        y_scale: Some(Scale::Linear),
        ..Look::default()
    });
    assert!(
        found.contains(&"1,000".into()) && found.contains(&"0".into()),
        "{found:?}"
    );
    for (look, message) in [
        (
            Look {
                y_range: range("0..9"),
                ..Look::default()
            },
            "--y-range: a logarithmic axis begins above 0, not at 0",
        ),
        (
            Look {
                x_range: range("9000.."),
                ..Look::default()
            },
            "--x-range: 9,000 is not below ",
        ),
    ] {
        let error = refused(FigureKind::LatencyThroughput, &inputs, look);
        assert!(error.starts_with(message), "{error}");
    }
}

fn pair(key: &str, text: &str) -> (String, String) {
    (key.to_string(), text.to_string())
}

#[test]
fn names_and_their_order_are_those_asked_for() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let label = vec![
        pair("padded (bw=10)", "MXNet"),
        pair("x", "Load"),
        pair("y", "Time (ms)"),
    ];
    let look = Look {
        label,
        order: vec!["padded (bw=10)".into()],
        ..Look::default()
    };
    for kind in [
        FigureKind::LatencyThroughput,
        FigureKind::Bars,
        FigureKind::QueueCdf,
    ] {
        let canvas = draw_look(kind, &inputs, look.clone());
        let words: Vec<&str> = texts(&canvas)
            .iter()
            .map(|text| text.words.as_str())
            .collect();
        let place = |word: &str| words.iter().position(|other| *other == word);
        assert!(
            place("MXNet") < place("cellular") && place("MXNet").is_some(),
            "{kind}: {words:?}"
        );
        assert!(
            place("Load").is_some() && place("Time (ms)").is_some(),
            "{kind}: {words:?}"
        );
        assert!(
            canvas.data.iter().any(|datum| datum.series == "MXNet"),
            "{kind}"
        );
    }
    let plain = draw_look(FigureKind::QueueCdf, &inputs, Look::default());
    let colour = |canvas: &Canvas, of: &str| {
        let group = canvas
            .groups
            .iter()
            .find(|group| group.series == of && group.key.is_some())
            .unwrap();
        let CanvasMark::Area(_, color) = canvas.marks[group.marks.end - 2] else {
            panic!("the marker comes before the label")
        };
        color
    };
    let renamed = draw_look(
        FigureKind::QueueCdf,
        &inputs,
        Look {
            order: Vec::new(),
            ..look
        },
    );
    assert_eq!(
        colour(&plain, "padded (bw=10)"),
        colour(&renamed, "MXNet"),
        "its marker stays"
    );
    let look = Look {
        label: vec![pair("padde", "x")],
        ..Look::default()
    };
    assert!(
        refused(FigureKind::Bars, &inputs, look).contains("--label: nothing is called \"padde\"")
    );
    let look = Look {
        order: vec!["celular".into()],
        ..Look::default()
    };
    assert!(
        refused(FigureKind::Bars, &inputs, look)
            .contains("--order: unknown policy \"celular\"; there are cellular,")
    );
}

#[test]
fn a_legend_is_outside_inside_or_left_out() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let place = |legend| {
        let canvas = draw_look(
            FigureKind::QueueCdf,
            &inputs,
            Look {
                legend: Some(legend),
                ..Look::default()
            },
        );
        let found = texts(&canvas)
            .into_iter()
            .find(|text| text.words == "cellular")
            .map(|text| text.at.1);
        (found, canvas.height)
    };
    let [(outside, high), (inside, low), (none, lowest)] =
        [Legend::Outside, Legend::Inside, Legend::None].map(place);
    assert!(outside.unwrap() < 30.0 && inside.unwrap() > 9.0 && none.is_none());
    assert!(high > low && low == lowest);
}

#[test]
fn intervals_over_replications_are_drawn_and_named() {
    let results = results();
    with_columns(
        &results,
        &[
            ("replications", ["5", "5", "5", "5"]),
            ("throughput_rps_ci", ["10", "12", "9", "30"]),
            ("mean_ms_ci", ["0.2", "0.3", "1", "500"]),
            ("p90_ms_ci", ["0.4", "0.5", "2", ""]),
            ("p99_ms_ci", ["0.4", "0.5", "2", "900"]),
            ("goodput_rps_ci", ["10", "12", "9", "3"]),
        ],
    );
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    for kind in [
        FigureKind::LatencyThroughput,
        FigureKind::P99Throughput,
        FigureKind::LatencyRate,
        FigureKind::Goodput,
        FigureKind::ThroughputRate,
        FigureKind::Bars,
    ] {
        let canvas = draw_look(kind, &inputs, Look::default());
        let words: Vec<&str> = texts(&canvas)
            .iter()
            .map(|text| text.words.as_str())
            .collect();
        assert!(
            words.contains(&"95 % interval of 5 replications"),
            "{kind}: {words:?}"
        );
        assert!(
            canvas
                .data
                .iter()
                .any(|datum| datum.interval == "95 % interval" && datum.ends.is_some()),
            "{kind}"
        );
    }
    let canvas = draw_look(FigureKind::LatencyThroughput, &inputs, Look::default());
    let first: Vec<_> = canvas
        .data
        .iter()
        .filter(|datum| datum.x == "1000" && datum.series == "cellular")
        .collect();
    assert_eq!(
        first.iter().map(|datum| datum.interval).collect::<Vec<_>>(),
        ["95 % interval", "p50 to p99"]
    );
    assert_eq!(
        (first[0].ends, first[0].across),
        (Some([2.6, 3.4]), Some([990.0, 1010.0]))
    );
}

#[test]
fn runs_that_are_not_valid_are_crossed() {
    let results = results();
    let named = |inputs: &PlotInputs, kind| {
        let canvas = draw_look(kind, inputs, Look::default());
        let named = texts(&canvas)
            .iter()
            .any(|text| text.words == "not valid: requests were late");
        (
            named,
            canvas.data.iter().filter(|datum| datum.invalid).count(),
        )
    };
    assert_eq!(
        named(
            &PlotInputs::open(&[results.path()]).unwrap(),
            FigureKind::LatencyRate
        ),
        (false, 0)
    );
    with_columns(&results, &[("valid", ["true", "false", "", "true"])]);
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    for kind in [
        FigureKind::LatencyRate,
        FigureKind::Goodput,
        FigureKind::Bars,
    ] {
        assert_eq!(named(&inputs, kind), (true, 1), "{kind}");
    }
}

#[test]
fn folders_in_panels_have_axes_of_their_own_and_policies_one_style() {
    let a = results();
    let b = results();
    let file = b.path().join("summary.csv");
    let faster = fs::read_to_string(&file)
        .unwrap()
        .replace(",1000,1000,", ",50000,50000,");
    fs::write(&file, faster).unwrap();
    let inputs = PlotInputs::open(&[a.path(), b.path()]).unwrap();
    let look = Look {
        width: Some("6.6in".parse().unwrap()),
        ..Look::default()
    };
    let options = PlotOptions {
        panels: true,
        look,
        ..PlotOptions::default()
    };
    let canvas = FigureKind::LatencyThroughput
        .draw(&inputs, &options)
        .unwrap();
    let words: Vec<&str> = texts(&canvas)
        .iter()
        .map(|text| text.words.as_str())
        .collect();
    assert_eq!(
        words.iter().filter(|word| **word == "cellular").count(),
        1,
        "one entry for both"
    );
    assert!(
        words.contains(&"2,000") && words.contains(&"50,000"),
        "{words:?}"
    );
    let panels = distinct(canvas.data.iter().map(|datum| datum.panel.clone()));
    let names = [&a, &b].map(|folder| {
        folder
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    });
    assert_eq!(panels, names);
    let series = inputs.series(&options).unwrap();
    assert_eq!(
        (series[0].style, &series[0].label),
        (series[2].style, &series[2].label)
    );
    let together = inputs.series(&PlotOptions::default()).unwrap();
    assert_eq!(together[0].style.color, together[2].style.color);
    assert_ne!(
        together[0].style, together[2].style,
        "told apart by marker and line"
    );
}

#[test]
fn the_drawn_points_are_a_table() {
    let results = results();
    let inputs = PlotInputs::open(&[results.path()]).unwrap();
    let figures = [
        FigureKind::Goodput,
        FigureKind::Gantt,
        FigureKind::QueueCdf,
        FigureKind::BatchHistogram,
    ]
    .map(|kind| {
        let canvas = draw_look(kind, &inputs, Look::default());
        assert!(!canvas.data.is_empty(), "{kind}");
        (kind.to_string(), canvas.data)
    });
    let file = results.path().join("points.csv");
    data::write(&file, &figures).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "figure,panel,series,x_axis,x,x_low,x_high,y_axis,y,low,high,interval,valid,saturated"
    );
    assert_eq!(
        lines.next().unwrap(),
        "goodput,,cellular,Offered rate (requests/s),1000,,,Goodput within the SLO (1/s),1000,,,,true,false"
    );
    assert!(text.contains(
        "\ngoodput,,padded (bw=10),Offered rate (requests/s),2000,,,Goodput within the SLO (1/s),10,,,,true,true\n"
    ));
}
