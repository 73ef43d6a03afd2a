//! `batchlab plot`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::render::{print, say};
use crate::base::error::{Error, Result};
use crate::lab::plot::data::{self, Datum};
use crate::lab::plot::{
    FigureKind, Look, PictureFormat, PlotInputs, PlotOptions, WrittenFigure, draw, draw_all,
    missing_letters,
};

/// Draw figures from results
///
/// Without --kind, draws every figure that the results have data for. Without -o, figures go into the results folder if
/// there is only one, otherwise into the current folder.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Results folders (with a summary.csv); for length-cdf also histograms of lengths or traces
    ///
    /// A label that occurs in several folders is preceded by the folder's name.
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,

    #[arg(long, value_parser = |text: &str| text.parse::<FigureKind>(), help = kinds(false), long_help = kinds(true))]
    pub kind: Vec<FigureKind>,

    #[command(flatten)]
    pub options: PlotOptions,

    /// Output file, with or without .svg, .png or .pdf, or folder
    #[arg(short, long, value_name = "STEM_OR_DIR", alias = "output")]
    pub out: Option<PathBuf>,

    /// Also write the drawn points to a CSV file: figure, panel, series, values, the ends of intervals and what these are
    #[arg(long, value_name = "FILE.csv")]
    pub data: Option<PathBuf>,

    /// Print only the names of files and errors, without notes
    #[arg(long, short)]
    pub quiet: bool,
}

/// Of --kind, with descriptions or names only.
fn kinds(long: bool) -> String {
    let name = |kind: &FigureKind| {
        if long {
            format!("\n- {kind}: {}", kind.about())
        } else {
            kind.to_string()
        }
    };
    let names: Vec<String> = FigureKind::value_variants().iter().map(name).collect();
    format!(
        "Kind of figure (repeatable): {}",
        names.join(if long { "" } else { ", " })
    )
}

pub fn run(args: &Args) -> Result<()> {
    let names: Vec<String> = written(args)?
        .iter()
        .map(|file| format!("{}\n", file.display()))
        .collect();
    print(&names.concat())
}

/// The kinds that show one point.
const OF_POINT: [FigureKind; 6] = [
    FigureKind::QueueCdf,
    FigureKind::ComputeCdf,
    FigureKind::LatencyCdf,
    FigureKind::BatchHistogram,
    FigureKind::Gantt,
    FigureKind::HeatMap,
];

/// Options that only some kinds read.
fn unread(args: &Args) -> Vec<String> {
    const LATENCIES: [FigureKind; 5] = [
        FigureKind::LatencyThroughput,
        FigureKind::P50Throughput,
        FigureKind::P99Throughput,
        FigureKind::LatencyRate,
        FigureKind::Bars,
    ];
    const OF_BINS: [FigureKind; 3] = [
        FigureKind::Bars,
        FigureKind::BatchHistogram,
        FigureKind::HeatMap,
    ];
    const SIDE_BY_SIDE: [FigureKind; 13] = [
        FigureKind::LatencyThroughput,
        FigureKind::P50Throughput,
        FigureKind::P99Throughput,
        FigureKind::ThroughputRate,
        FigureKind::LatencyRate,
        FigureKind::TtftRate,
        FigureKind::TbtRate,
        FigureKind::NormalisedRate,
        FigureKind::Goodput,
        FigureKind::QueueCdf,
        FigureKind::ComputeCdf,
        FigureKind::LatencyCdf,
        FigureKind::Bars,
    ];
    let (options, look) = (&args.options, &args.options.look);
    let with_x: Vec<FigureKind> = FigureKind::value_variants()
        .iter()
        .filter(|kind| !OF_BINS.contains(kind))
        .copied()
        .collect();
    let with_y: Vec<FigureKind> = FigureKind::value_variants()
        .iter()
        .filter(|kind| ![FigureKind::Gantt, FigureKind::HeatMap].contains(kind))
        .copied()
        .collect();
    let options: [(&str, bool, &[FigureKind]); 14] = [
        (
            "--point",
            options.point.is_some() && options.x.is_none(),
            &OF_POINT,
        ),
        ("--y", options.y.is_some(), &[FigureKind::HeatMap]),
        ("--metric", options.metric.is_some(), &[FigureKind::HeatMap]),
        ("--panels", options.panels, &SIDE_BY_SIDE),
        ("--x-range", look.x_range.is_some(), &with_x),
        ("--x-scale", look.x_scale.is_some(), &with_x),
        ("--y-range", look.y_range.is_some(), &with_y),
        ("--y-scale", look.y_scale.is_some(), &with_y),
        ("--linear", args.options.linear, &LATENCIES),
        (
            "--first",
            args.options.first.is_some(),
            &[FigureKind::Gantt],
        ),
        ("--tail", args.options.tail, &OF_POINT[..3]),
        (
            "--slo",
            args.options.slo.is_some(),
            &[FigureKind::LatencyRate, FigureKind::LatencySteps],
        ),
        (
            "--bars",
            args.options.bars,
            &[FigureKind::LatencyThroughput],
        ),
        (
            "--no-bars",
            args.options.no_bars,
            &[FigureKind::LatencyThroughput],
        ),
    ];
    let listed = |kinds: &mut dyn Iterator<Item = &FigureKind>| {
        kinds
            .map(FigureKind::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let note = |(option, given, readers): (&str, bool, &[FigureKind])| {
        let without = listed(
            &mut args
                .kind
                .iter()
                .filter(|kind| given && !readers.contains(kind)),
        );
        let note = format!(
            "{option} has no effect on {without}; it is for {}",
            listed(&mut readers.iter())
        );
        (!without.is_empty()).then_some(note)
    };
    options.into_iter().filter_map(note).collect()
}

fn written(args: &Args) -> Result<Vec<PathBuf>> {
    for note in unread(args).iter().filter(|_| !args.quiet) {
        say(format_args!("batchlab: note: {note}"));
    }
    let inputs = PlotInputs::open(&args.results)?;
    let (place, is_file, named) = place(args, &inputs)?;
    let format = named.map_or_else(|| args.options.look.format.clone(), |named| vec![named]);
    let options = PlotOptions {
        look: Look {
            format,
            ..args.options.look.clone()
        },
        ..args.options.clone()
    };
    let missing = missing_letters(&inputs, &options)?;
    if PictureFormat::all(&options.look.format) != [PictureFormat::Svg]
        && !missing.is_empty()
        && !args.quiet
    {
        let way = "--font FILE takes another font";
        say(format_args!(
            "batchlab: warning: the figures' font has no {missing:?}; PNG and PDF show boxes instead; {way}"
        ));
    }
    let stem = |kind: &FigureKind| {
        if is_file {
            place.clone()
        } else {
            place.join(options.stem(*kind))
        }
    };
    let drawn = |kind: &FigureKind| draw(*kind, &inputs, &options, &stem(kind));
    let figures = match &args.kind[..] {
        [] => draw_all(&inputs, &options, &place)?,
        kinds => kinds.iter().map(drawn).collect::<Result<Vec<_>>>()?,
    };
    if let Some(file) = &args.data {
        let of = |figure: &WrittenFigure| (figure.name.clone(), figure.canvas.data.clone());
        data::write(
            file,
            &figures
                .iter()
                .map(of)
                .collect::<Vec<(String, Vec<Datum>)>>(),
        )?;
    }
    let of_point = args.kind.is_empty() || args.kind.iter().any(|kind| OF_POINT.contains(kind));
    let point = inputs
        .default_point(&options)
        .filter(|_| (of_point || options.x.is_some()) && !args.quiet);
    if let Some(point) = point {
        let held = "the highest rate that saturates no policy, but for policies that are saturated at every rate";
        say(format_args!(
            "batchlab: note: figures of one point show {point}: {held}; --point chooses another"
        ));
    }
    Ok(figures
        .into_iter()
        .flat_map(|figure| figure.files)
        .chain(args.data.clone())
        .collect())
}

/// Where figures go; whether that is the one figure's file, without the format's ending, or a folder, in which each is named
/// after its kind; and the format that a file's name asks for.
fn place(args: &Args, inputs: &PlotInputs) -> Result<(PathBuf, bool, Option<PictureFormat>)> {
    let Some(output) = &args.out else {
        let beside = match (&inputs.folders[..], &inputs.files[..]) {
            ([only], []) => only.results.path.clone(),
            _ => PathBuf::new(),
        };
        return Ok((beside, false, None));
    };
    let wrong = |why: &str| Err(Error::input(format!("-o {}: {why}", output.display())));
    let format = match output.extension().and_then(|e| e.to_str()) {
        Some("svg") => Some(PictureFormat::Svg),
        Some("png") => Some(PictureFormat::Png),
        Some("pdf") => Some(PictureFormat::Pdf),
        Some(other @ ("eps" | "ps" | "jpg" | "jpeg" | "gif" | "webp" | "tif" | "tiff" | "bmp")) => {
            return wrong(&format!(
                "unknown picture format \"{other}\"; known: svg, png, pdf"
            ));
        }
        _ => None,
    };
    let one = args.kind.len() == 1;
    if output.is_dir() || output.to_string_lossy().ends_with('/') || (!one && format.is_none()) {
        return Ok((output.clone(), false, None));
    }
    let asked = &args.options.look.format;
    match format {
        Some(named) if !asked.is_empty() && !PictureFormat::all(asked).contains(&named) => {
            wrong("has another ending than --format asks for")
        }
        _ if !one => wrong("is one file's name, but there may be several figures; name one --kind"),
        None => Ok((output.clone(), true, None)),
        Some(_) => Ok((
            output.with_extension(""),
            true,
            format.filter(|_| asked.is_empty()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn files(arguments: &[&str]) -> Result<Vec<PathBuf>> {
        let cli = Cli::try_parse_from([&["plot"], arguments].concat()).map_err(Error::input)?;
        written(&cli.args)
    }

    #[test]
    fn the_output_is_a_stem_a_file_or_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("lengths.csv"), "length,count\n3,10\n24,20\n").unwrap();
        let written = |output: &str, more: &[&str]| {
            let (input, output) = (at("lengths.csv"), at(output));
            let files = files(&[&[input.as_str(), "-o", output.as_str()], more].concat())?;
            let names = files.iter().map(|file| {
                file.strip_prefix(folder.path())
                    .unwrap()
                    .display()
                    .to_string()
            });
            Ok::<_, Error>(names.collect::<Vec<_>>())
        };
        let kind = ["--kind", "length-cdf"];
        assert_eq!(
            written("a/fig.10", &kind).unwrap(),
            ["a/fig.10.svg", "a/fig.10.png"]
        );
        assert_eq!(written("b.png", &kind).unwrap(), ["b.png"]);
        assert_eq!(
            written("c.svg", &[&kind[..], &["--format", "both"]].concat()).unwrap(),
            ["c.svg", "c.png"]
        );
        assert_eq!(
            written("d/", &[&kind[..], &["--format", "svg"]].concat()).unwrap(),
            ["d/length-cdf.svg"]
        );
        assert_eq!(
            written("e", &["--format", "png"]).unwrap(),
            ["e/length-cdf.png"]
        );
        let error = written("f.svg", &[]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("there may be several figures; name one --kind"),
            "{error}"
        );
        let error = written("g.svg", &[&kind[..], &["--format", "png"]].concat()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has another ending than --format asks for"),
            "{error}"
        );
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn an_unknown_kind_is_answered_with_the_known_ones() {
        let error = files(&["results", "--kind", "pie"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unknown kind of figure \"pie\"; known: latency-throughput,"),
            "{error}"
        );
        let error = files(&["results", "--slo", "100"]).unwrap_err().to_string();
        assert!(error.contains("has no unit"), "{error}");
    }
}
