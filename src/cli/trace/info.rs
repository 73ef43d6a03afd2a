//! `batchlab trace info`.

use std::fmt::{self, Display};
use std::io::Write;
use std::path::PathBuf;

use super::open;
use crate::cli::{Format, print_with};
use crate::error::{Context, Error, Result};
use crate::units::Nanos;
use crate::workload::describe::{Bin, Description};
use crate::workload::trace::Trace;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The trace; `-` for standard input
    file: PathBuf,
    /// Length of the busiest window to find, such as 100ms [default: 1s, less for traces under 10s]
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse)]
    window: Option<Nanos>,
    /// How the description is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.window == Some(Nanos::ZERO) {
        return Err(Error::input("--window: 0ns is not a window; it must be above 0"));
    }
    let (input, name) = open(&args.file)?;
    let description = Description::of(&Trace::read_from(input).within(name)?, args.window);
    match args.format {
        Format::Table => print_with(|out| write!(out, "{}", Table(&description))),
        Format::Json => print_with(|out| {
            serde_json::to_writer_pretty(&mut *out, &description)?;
            writeln!(out)
        }),
    }
}

struct Table<'a>(&'a Description);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table(about) = self;
        let kinds: Vec<String> = about.kinds.iter().map(|kind| format!("{} {}", kind.requests, kind.kind)).collect();
        writeln!(f, "requests    {} ({})", about.requests, kinds.join(", "))?;
        writeln!(f, "span        {:.6} s", about.span_s)?;
        match about.rate_rps {
            Some(rate) => writeln!(f, "rate        {rate:.3} requests/s")?,
            None => writeln!(f, "rate        none: all requests arrive at once")?,
        }
        if let Some(cv) = about.gap_cv {
            writeln!(f, "gap cv      {cv:.3}")?;
        }
        if let Some(peak) = about.peak {
            let (rate, over_mean) = (peak.rate_rps, peak.over_mean);
            writeln!(
                f,
                "peak        {rate:.3} requests/s, {over_mean:.2} x mean (busiest {})",
                Nanos::from_secs_f64(peak.window_s)
            )?;
        }
        if !about.lengths.is_empty() {
            writeln!(f)?;
            write!(f, "{:<14}{:>10}{:>10}", "length", "mean", "sd")?;
            writeln!(f, "{:>8}{:>8}{:>8}{:>8}{:>8}", "min", "p50", "p90", "p99", "max")?;
        }
        for l in &about.lengths {
            write!(f, "{:<14}{:>10.2}{:>10.2}", l.what, l.mean, l.sd)?;
            writeln!(f, "{:>8}{:>8}{:>8}{:>8}{:>8}", l.min, l.p50, l.p90, l.p99, l.max)?;
        }
        if about.lengths.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        histogram(f, &about.histogram, about.requests)
    }
}

/// In eighths of a character.
fn histogram(f: &mut fmt::Formatter<'_>, bins: &[Bin], requests: usize) -> fmt::Result {
    const WIDTH: usize = 40;
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let digits = bins.last().map_or(1, |bin| bin.to.to_string().len());
    for bin in bins {
        let eighths = (bin.count * WIDTH * 8).div_ceil(most);
        let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        let share = 100.0 * bin.count as f64 / requests as f64;
        let range = if bin.from == bin.to {
            format!("{:>width$}", bin.to, width = 2 * digits + 1)
        } else {
            format!("{:>digits$}-{:<digits$}", bin.from, bin.to)
        };
        writeln!(f, "{range}  {:>9}  {share:>5.1} %  {bar}", bin.count)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::fails;
    use super::*;

    #[test]
    fn a_description_reads_like_this() {
        let trace =
            "id,arrival_ns,shape\n0,0,chain:1\n1,1000000000,chain:3\n2,2000000000,chain:3\n3,4000000000,chain:3\n";
        let about = Description::of(&Trace::read_from(trace.as_bytes()).unwrap(), Some(Nanos(1_000_000_000)));
        let expected = "\
requests    4 (4 chain)
span        4.000000 s
rate        0.750 requests/s
gap cv      0.354
peak        1.000 requests/s, 1.33 x mean (busiest 1s)

length              mean        sd     min     p50     p90     p99     max
chain steps         2.50      0.87       1       3       3       3       3

  1          1   25.0 %  █████████████▍
  2          0    0.0 %  \n  3          3   75.0 %  ████████████████████████████████████████
";
        assert_eq!(Table(&about).to_string(), expected);
    }

    #[test]
    fn requests_at_one_instant_are_described() {
        let trace = "id,arrival_ns,shape\n0,0,fixed\n1,0,fixed\n";
        let about = Description::of(&Trace::read_from(trace.as_bytes()).unwrap(), None);
        assert!(Table(&about).to_string().contains("none: all requests arrive at once"));
        let json = serde_json::to_value(&about).unwrap();
        assert_eq!((&json["requests"], &json["rate_rps"]), (&2.into(), &serde_json::Value::Null));
    }

    #[test]
    fn bad_input_is_named() {
        assert!(fails(&["info", "no/such.csv"]).starts_with("no/such.csv: cannot be read"));
        assert!(
            fails(&["info", "traces/europarl-en.csv"]).starts_with("traces/europarl-en.csv: line 1: the header is")
        );
        assert!(fails(&["info", "--window", "0s", "traces/europarl-en-1k.csv"]).starts_with("--window"));
    }
}
