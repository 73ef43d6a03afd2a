//! `batchlab trace info`.

use std::path::PathBuf;

use super::open;
use crate::base::error::{Context, Error, Result};
use crate::base::units::Nanos;
use crate::cli::render::Shown;
use crate::core::workload::describe::{Bin, Description, Peak, SpanPart};
use crate::core::workload::trace::Trace;
use crate::lab::results::columns::decimals;
use crate::lab::results::table::tabulate;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The trace, a file or a built-in one such as figure5; `-` for standard input
    file: PathBuf,
    /// Length of the busiest window to find, such as 100ms [default: 1s, less for traces under 10s]
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse)]
    window: Option<Nanos>,
    #[command(flatten)]
    shown: Shown,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.window == Some(Nanos::ZERO) {
        return Err(Error::input(
            "--window: 0ns is not a window; it must be above 0",
        ));
    }
    let (input, name) = open(&args.file)?;
    let description = Description::from_trace(&Trace::read_from(input).within(name)?, args.window);
    args.shown.show(|| text(&description), || &description)
}

fn text(about: &Description) -> String {
    let kinds: Vec<String> = about
        .kinds
        .iter()
        .map(|kind| format!("{} {}", kind.requests, kind.kind))
        .collect();
    let mut text = format!(
        "requests    {} ({})\nspan        {:.6} s\n",
        about.requests,
        kinds.join(", "),
        about.span_s
    );
    text += &match about.rate_rps {
        Some(rate) => format!("rate        {rate:.3} requests/s\n"),
        None => "rate        none: all requests arrive at once\n".into(),
    };
    if let Some(cv) = about.gap_cv {
        text += &format!("gap cv      {cv:.3}\n");
    }
    if let Some(Peak {
        window_s,
        rate_rps,
        over_mean,
    }) = about.peak
    {
        let window = Nanos::from_secs_f64(window_s);
        text += &format!(
            "peak        {rate_rps:.3} requests/s, {over_mean:.2} x mean (busiest {window})\n"
        );
    }
    for note in notes(about) {
        text += &format!("note        {note}\n");
    }
    if about.stationary.is_some() {
        text += "\n";
        text += &rate_over_time(&about.parts);
    }
    if about.lengths.is_empty() {
        return text;
    }
    let lengths = tabulate(
        &about.lengths,
        &[
            ("length", &|of| of.what.to_string()),
            ("mean", &|of| format!("{:.2}", of.mean)),
            ("sd", &|of| format!("{:.2}", of.sd)),
            ("min", &|of| of.min.to_string()),
            ("p50", &|of| of.p50.to_string()),
            ("p90", &|of| of.p90.to_string()),
            ("p99", &|of| of.p99.to_string()),
            ("max", &|of| of.max.to_string()),
        ],
    );
    text + "\n" + &lengths + "\n" + &histogram(&about.histogram, about.requests)
}

/// What a reader should know before the trace is used.
fn notes(about: &Description) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(coarse) = about.coarse_stamps {
        notes.push(coarse.to_string());
    }
    if about.stationary == Some(false) {
        let rates = || about.parts.iter().map(|part| part.rate_rps);
        notes.push(format!(
            "the load is not stationary: {} to {} requests/s in the tenths of the span, so a mean over the whole trace \
             describes no part of it; trace convert --skip N --take N cuts a part out",
            rate_text(rates().fold(f64::INFINITY, f64::min)),
            rate_text(rates().fold(0.0, f64::max))
        ));
    }
    notes
}

/// A rate with three significant digits or more.
fn rate_text(rate: f64) -> String {
    format!("{rate:.*}", decimals(rate, 3))
}

/// The rate of each part of the span, with a bar.
fn rate_over_time(parts: &[SpanPart]) -> String {
    let most = parts.iter().map(|part| part.requests).max().unwrap_or(0);
    let mut text = format!(
        "{:>10}  {:>9}  {:>10}\n",
        "from s", "requests", "requests/s"
    );
    for part in parts {
        text += &format!(
            "{:>10}  {:>9}  {:>10}  {}\n",
            rate_text(part.from_s),
            part.requests,
            rate_text(part.rate_rps),
            bar(part.requests, most)
        );
    }
    text
}

/// A bar, drawn in eighths of a character.
fn bar(count: usize, most: usize) -> String {
    const WIDTH: usize = 40;
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count * WIDTH * 8).div_ceil(most.max(1));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// The bars of a histogram.
fn histogram(bins: &[Bin], requests: usize) -> String {
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let digits = bins.last().map_or(1, |bin| bin.to.to_string().len());
    let line = |bin: &Bin| {
        let bar = bar(bin.count, most);
        let share = 100.0 * bin.count as f64 / requests as f64;
        let range = if bin.from == bin.to {
            format!("{:>width$}", bin.to, width = 2 * digits + 1)
        } else {
            format!("{:>digits$}-{:<digits$}", bin.from, bin.to)
        };
        format!("{range}  {:>9}  {share:>5.1} %  {bar}\n", bin.count)
    };
    bins.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::fails;
    use super::*;

    #[test]
    fn a_description_reads_like_this() {
        let trace = "id,arrival_ns,shape\n0,0,chain:1\n1,1000000000,chain:3\n2,2000000000,chain:3\n3,4000000000,chain:3\n";
        let about = Description::from_trace(
            &Trace::read_from(trace.as_bytes()).unwrap(),
            Some(Nanos(1_000_000_000)),
        );
        let expected = "\
requests    4 (4 chain)
span        4.000000 s
rate        0.750 requests/s
gap cv      0.354
peak        1.000 requests/s, 1.33 x mean (busiest 1s)

length       mean    sd  min  p50  p90  p99  max
chain steps  2.50  0.87    1    3    3    3    3

  1          1   25.0 %  █████████████▍
  2          0    0.0 %  \n  3          3   75.0 %  ████████████████████████████████████████
";
        assert_eq!(text(&about), expected);
    }

    #[test]
    fn requests_at_one_instant_are_described() {
        let trace = "id,arrival_ns,shape\n0,0,fixed\n1,0,fixed\n";
        let about = Description::from_trace(&Trace::read_from(trace.as_bytes()).unwrap(), None);
        assert!(text(&about).contains("none: all requests arrive at once"));
        let json = serde_json::to_value(&about).unwrap();
        assert_eq!(
            (&json["requests"], &json["rate_rps"]),
            (&2.into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn bad_input_is_named() {
        assert!(fails(&["info", "no/such.csv"]).starts_with("no/such.csv: cannot be read"));
        assert!(
            fails(&["info", "traces/europarl-en.csv"])
                .starts_with("traces/europarl-en.csv: line 1: the header is")
        );
        assert!(
            fails(&["info", "--window", "0s", "traces/europarl-en-1k.csv"]).starts_with("--window")
        );
    }
}
