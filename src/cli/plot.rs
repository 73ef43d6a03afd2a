//! `batchlab plot`.

use std::path::{Path, PathBuf};

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

    #[arg(
        long,
        value_parser = |text: &str| text.parse::<FigureKind>(),
        help = kinds_help(),
        long_help = kinds_long_help()
    )]
    pub kind: Vec<FigureKind>,

    #[command(flatten)]
    pub options: PlotOptions,

    /// Output file, with or without .svg, .png or .pdf, or folder
    #[arg(short, long, value_name = "STEM_OR_DIR", alias = "output")]
    pub out: Option<PathBuf>,

    /// Also write the drawn points to a CSV file: figure, panel, series, values, the ends of intervals and what these
    /// are
    #[arg(long, value_name = "FILE.csv")]
    pub data: Option<PathBuf>,

    /// Print only the names of files and errors, without notes
    #[arg(long, short)]
    pub quiet: bool,
}

/// The help of --kind with the names of all kinds.
fn kinds_help() -> String {
    let names = FigureKind::list(FigureKind::value_variants());
    format!("Kind of figure (repeatable): {names}")
}

/// The help of --kind with a description of each kind.
fn kinds_long_help() -> String {
    let mut help = "Kind of figure (repeatable): ".to_string();
    for kind in FigureKind::value_variants() {
        help += &format!("\n- {kind}: {}", kind.about());
    }
    help
}

pub fn run(args: &Args) -> Result<()> {
    let mut names = String::new();
    for file in draw_figures(args)? {
        names += &format!("{}\n", file.display());
    }
    print(&names)
}

/// The kinds that show the requests of one point.
const OF_REQUESTS: [FigureKind; 3] = [
    FigureKind::QueueCdf,
    FigureKind::ComputeCdf,
    FigureKind::LatencyCdf,
];

/// The kinds that show one point.
const OF_POINT: [FigureKind; 6] = [
    FigureKind::QueueCdf,
    FigureKind::ComputeCdf,
    FigureKind::LatencyCdf,
    FigureKind::BatchHistogram,
    FigureKind::Gantt,
    FigureKind::HeatMap,
];

/// The kinds without an x axis of numbers.
const WITHOUT_X: [FigureKind; 3] = [
    FigureKind::Bars,
    FigureKind::BatchHistogram,
    FigureKind::HeatMap,
];

/// The kinds without a y axis of numbers.
const WITHOUT_Y: [FigureKind; 2] = [FigureKind::Gantt, FigureKind::HeatMap];

/// The kinds that can have a panel for each results folder.
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

/// An option that only some kinds read.
struct PartialOption {
    name: &'static str,
    is_given: bool,
    readers: Vec<FigureKind>,
}

impl PartialOption {
    fn new(name: &'static str, is_given: bool, readers: &[FigureKind]) -> PartialOption {
        PartialOption {
            name,
            is_given,
            readers: readers.to_vec(),
        }
    }

    /// A note on the kinds that do not read the option although it is given.
    fn note(&self, kinds: &[FigureKind]) -> Option<String> {
        let without: Vec<FigureKind> = all_except(kinds, &self.readers);
        if !self.is_given || without.is_empty() {
            return None;
        }
        Some(format!(
            "{} has no effect on {}; it is for {}",
            self.name,
            FigureKind::list(&without),
            FigureKind::list(&self.readers)
        ))
    }
}

fn all_except(kinds: &[FigureKind], others: &[FigureKind]) -> Vec<FigureKind> {
    kinds
        .iter()
        .filter(|kind| !others.contains(kind))
        .copied()
        .collect()
}

/// Notes on options that some of the chosen kinds do not read.
fn notes_on_options(args: &Args) -> Vec<String> {
    let options = &args.options;
    let look = &options.look;
    let with_x = all_except(FigureKind::value_variants(), &WITHOUT_X);
    let with_y = all_except(FigureKind::value_variants(), &WITHOUT_Y);
    let with_slo = [FigureKind::LatencyRate, FigureKind::LatencySteps];
    let heat_map = [FigureKind::HeatMap];
    let has_point = options.point.is_some() && options.x.is_none();
    let partial = [
        PartialOption::new("--point", has_point, &OF_POINT),
        PartialOption::new("--y", options.y.is_some(), &heat_map),
        PartialOption::new("--metric", options.metric.is_some(), &heat_map),
        PartialOption::new("--panels", options.panels, &SIDE_BY_SIDE),
        PartialOption::new("--x-range", look.x_range.is_some(), &with_x),
        PartialOption::new("--x-scale", look.x_scale.is_some(), &with_x),
        PartialOption::new("--y-range", look.y_range.is_some(), &with_y),
        PartialOption::new("--y-scale", look.y_scale.is_some(), &with_y),
        PartialOption::new("--first", options.first.is_some(), &[FigureKind::Gantt]),
        PartialOption::new("--tail", options.tail, &OF_REQUESTS),
        PartialOption::new("--slo", options.slo.is_some(), &with_slo),
        PartialOption::new(
            "--bars",
            look.bars.is_some(),
            &[FigureKind::LatencyThroughput],
        ),
    ];
    partial
        .iter()
        .filter_map(|option| option.note(&args.kind))
        .collect()
}

/// Draws the figures and returns the files that it wrote.
fn draw_figures(args: &Args) -> Result<Vec<PathBuf>> {
    if !args.quiet {
        for note in notes_on_options(args) {
            say(format_args!("batchlab: note: {note}"));
        }
    }
    let inputs = PlotInputs::open(&args.results)?;
    let destination = destination(args, &inputs)?;
    let format = match destination.format {
        Some(format) => vec![format],
        None => args.options.look.format.clone(),
    };
    let options = PlotOptions {
        look: Look {
            format,
            ..args.options.look.clone()
        },
        ..args.options.clone()
    };
    warn_of_missing_letters(args, &inputs, &options)?;
    let mut figures = Vec::new();
    if args.kind.is_empty() {
        figures = draw_all(&inputs, &options, &destination.path)?;
    }
    for kind in &args.kind {
        let stem = if destination.is_file {
            destination.path.clone()
        } else {
            destination.path.join(options.stem(*kind))
        };
        figures.push(draw(*kind, &inputs, &options, &stem)?);
    }
    if let Some(file) = &args.data {
        write_data(file, &figures)?;
    }
    note_point(args, &inputs, &options);
    let mut files: Vec<PathBuf> = figures
        .into_iter()
        .flat_map(|figure| figure.files)
        .collect();
    files.extend(args.data.clone());
    Ok(files)
}

/// Warns of letters that a picture shows as boxes.
fn warn_of_missing_letters(args: &Args, inputs: &PlotInputs, options: &PlotOptions) -> Result<()> {
    let missing = missing_letters(inputs, options)?;
    let only_svg = PictureFormat::all(&options.look.format) == [PictureFormat::Svg];
    if !only_svg && !missing.is_empty() && !args.quiet {
        say(format_args!(
            "batchlab: warning: the figures' font has no {missing:?}; PNG and PDF show boxes instead; \
             --font FILE takes another font"
        ));
    }
    Ok(())
}

fn write_data(file: &Path, figures: &[WrittenFigure]) -> Result<()> {
    let mut all: Vec<(String, Vec<Datum>)> = Vec::new();
    for figure in figures {
        all.push((figure.name.clone(), figure.canvas.data.clone()));
    }
    data::write(file, &all)
}

/// Says which point the figures show if the user did not choose it.
fn note_point(args: &Args, inputs: &PlotInputs, options: &PlotOptions) {
    let shows_point = args.kind.is_empty() || args.kind.iter().any(|kind| OF_POINT.contains(kind));
    if args.quiet || !(shows_point || options.x.is_some()) {
        return;
    }
    if let Some(point) = inputs.default_point(options) {
        say(format_args!(
            "batchlab: note: figures of one point show {point}: the highest rate that saturates no policy, but for \
             policies that are saturated at every rate; --point chooses another"
        ));
    }
}

/// Where figures go.
struct Destination {
    path: PathBuf,
    /// Whether the path is the one figure's file without the format's ending. Otherwise it is a folder, in which each
    /// figure is named after its kind.
    is_file: bool,
    /// The format that a file's name asks for.
    format: Option<PictureFormat>,
}

impl Destination {
    fn folder(path: PathBuf) -> Destination {
        Destination {
            path,
            is_file: false,
            format: None,
        }
    }
}

fn destination(args: &Args, inputs: &PlotInputs) -> Result<Destination> {
    let Some(output) = &args.out else {
        // The figures of one results folder go into that folder.
        return Ok(Destination::folder(
            match (&inputs.folders[..], &inputs.files[..]) {
                ([only], []) => only.results.path.clone(),
                _ => PathBuf::new(),
            },
        ));
    };
    let format = format_of_name(output)?;
    let has_one_kind = args.kind.len() == 1;
    let is_folder = output.is_dir() || output.to_string_lossy().ends_with('/');
    if is_folder || (!has_one_kind && format.is_none()) {
        return Ok(Destination::folder(output.clone()));
    }
    let asked = &args.options.look.format;
    if let Some(format) = format
        && !asked.is_empty()
        && !PictureFormat::all(asked).contains(&format)
    {
        let why = "has another ending than --format asks for";
        return Err(wrong_output(output, why));
    }
    if !has_one_kind {
        let why = "is one file's name, but there may be several figures; name one --kind";
        return Err(wrong_output(output, why));
    }
    let path = match format {
        Some(_) => output.with_extension(""),
        None => output.clone(),
    };
    Ok(Destination {
        path,
        is_file: true,
        format: if asked.is_empty() { format } else { None },
    })
}

/// The format that a file's ending names, or `None` if the ending is no format's.
fn format_of_name(output: &Path) -> Result<Option<PictureFormat>> {
    let ending = output.extension().and_then(|ending| ending.to_str());
    match ending {
        Some("svg") => Ok(Some(PictureFormat::Svg)),
        Some("png") => Ok(Some(PictureFormat::Png)),
        Some("pdf") => Ok(Some(PictureFormat::Pdf)),
        Some(other @ ("eps" | "ps" | "jpg" | "jpeg" | "gif" | "webp" | "tif" | "tiff" | "bmp")) => {
            let why = format!("unknown picture format \"{other}\"; known: svg, png, pdf");
            Err(wrong_output(output, &why))
        }
        _ => Ok(None),
    }
}

fn wrong_output(output: &Path, why: &str) -> Error {
    Error::input(format!("-o {}: {why}", output.display()))
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
        draw_figures(&cli.args)
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
