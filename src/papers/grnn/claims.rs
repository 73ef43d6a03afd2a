//! Checks of GRNN's claims.

use super::figures::{DOUBLE, MODEL, SINGLE};
use super::measured::{Measured, Regret, Series};
use super::paper::{self, BATCHES, Grid, MAPPINGS, WIDTHS, size};
use crate::cost::grnn::{Cell, Rnn, Space};
use crate::error::Result;
use crate::papers::{Check, Findings, Verdict};

pub const CHECKS: &[(&str, Check)] = &[
    ("grnn-space", |_| {
        let size = Space { widest: 256, uneven: false }.size(Rnn::Lstm, 20);
        Ok(Verdict::above(size as f64, 100_000.0, "configurations"))
    }),
    ("grnn-table2", mappings),
    ("grnn-top1", |found| Ok(regret(found, |one| one.first, 1.03))),
    ("grnn-top5", |found| Ok(regret(found, |one| one.best_of_first, 1.02))),
    ("grnn-table1", |found| Ok(latencies(found))),
    ("grnn-cudnn-trad", |found| Ok(over_traditional(found))),
    ("grnn-cudnn-pers", |found| Ok(over_persistent(found))),
    ("grnn-table3", |found| Ok(synchronisations(found))),
    ("grnn-crossover", crossover),
];

/// Why times are not judged, and the part of the script that measures them.
macro_rules! unmeasured {
    ($why:literal, $part:literal) => {
        concat!(
            $why,
            ". scripts/gpu-check.sh measures it (part ",
            $part,
            ") on a GPU host, and --measured takes the measured.csv that it leaves"
        )
    };
}

const LATENCIES: &str = unmeasured!(
    "a ratio of latencies that a GPU has to measure; the model has costs, which rank mappings and predict no time",
    "grnn-figures"
);
const SAMPLES: &str = unmeasured!(
    "a ratio of latencies that a GPU has to measure; the model has costs, which rank mappings and predict no time",
    "regret"
);
const FITTED: &str = unmeasured!(
    "not all of it was measured on a GPU, and the simulator's times are lines that were fitted to this very table",
    "persistent"
);
const CUDNN: &str = unmeasured!(
    "not all of it was measured on a GPU, and the simulator has no model of cuDNN's kernels",
    "persistent, with PyTorch"
);

/// The mean over sizes that have a sample.
fn regret(found: &Findings, of: fn(&Regret) -> f64, paper: f64) -> Verdict {
    let sizes = (0..9).map(|place| size(Cell::Lstm, place / 3, place % 3));
    let samples: Vec<Regret> = sizes.filter_map(|size| found.measured()?.regret(size)).collect();
    if samples.is_empty() {
        return Verdict::not_run(SAMPLES);
    }
    let mean = |of: fn(&Regret) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
    // The paper: the first mappings are as good as the best.
    let verdict = Verdict::near(mean(of), paper, "", mean(of) < mean(|one| one.median));
    let run: usize = samples.iter().map(|one| one.run).sum();
    verdict.with(&format!(", the mean of {} of nine sizes, {run} mappings", samples.len()))
}

/// In ms, of all nine sizes; `None` if one is missing.
fn nine(own: &Measured, series: Series, cell: Cell) -> Option<Grid> {
    let mut grid = Grid::default();
    for (w, row) in grid.iter_mut().enumerate() {
        for (b, ms) in row.iter_mut().enumerate() {
            *ms = own.ms(series, size(cell, w, b))?;
        }
    }
    Some(grid)
}

fn latencies(found: &Findings) -> Verdict {
    let of = |cell: Cell| nine(found.measured()?, Series::Grnn, cell);
    let (Some(lstm), Some(gru)) = (of(Cell::Lstm), of(Cell::Gru)) else { return Verdict::not_run(FITTED) };
    // On any GPU, wider states take longer and larger batches are not faster.
    let grows = |grid: Grid| {
        let wider = (0..3).all(|b| grid[0][b] < grid[1][b] && grid[1][b] < grid[2][b]);
        wider && grid.iter().all(|row| row[0] <= row[2])
    };
    let flat = |grids: [Grid; 2]| grids.into_iter().flatten().flatten().collect::<Vec<f64>>();
    let (ours, papers) = (flat([lstm, gru]), flat([paper::LSTM, paper::GRU]));
    let direction = grows(lstm) && grows(gru);
    let end = |pick: fn(f64, f64) -> f64| ours.iter().copied().reduce(pick).unwrap_or_default();
    let text = format!("{:.2} to {:.2} ms", end(f64::min), end(f64::max));
    Verdict { ours: text, ..Verdict::several(&ours, &papers, "ms", direction) }
}

fn over_traditional(found: &Findings) -> Verdict {
    // Mean over the batches.
    let ratio = |w: usize| -> Option<f64> {
        let own = found.measured()?;
        let of_batch = |b: usize| {
            let size = size(Cell::Lstm, w, b);
            Some(own.ms(Series::Traditional, size)? / own.ms(Series::Grnn, size)?)
        };
        Some((0..BATCHES.len()).map(of_batch).sum::<Option<f64>>()? / BATCHES.len() as f64)
    };
    match (ratio(0), ratio(1)) {
        (Some(narrow), Some(wide)) => Verdict::several(&[narrow, wide], &[6.67, 4.21], "", narrow > 1.0 && wide > 1.0),
        _ => Verdict::not_run(CUDNN),
    }
}

fn over_persistent(found: &Findings) -> Verdict {
    let size = size(Cell::Lstm, 0, 2);
    let ratio = found.measured().and_then(|own| Some(own.ms(Series::Persistent, size)? / own.ms(Series::Grnn, size)?));
    ratio.map_or_else(|| Verdict::not_run(CUDNN), |ratio| Verdict::near(ratio, 9.2, "", ratio > 1.0))
}

fn synchronisations(found: &Findings) -> Verdict {
    let mut holds = true;
    let mut words = Vec::new();
    for (w, width) in WIDTHS.into_iter().enumerate() {
        let ratio = |b: usize| {
            let fastest = |kernel| found.measured()?.fastest(kernel, size(Cell::Gru, w, b));
            Some(fastest(Rnn::GruDouble)? / fastest(Rnn::GruSingle)?)
        };
        let Some(ratios) = (0..BATCHES.len()).map(ratio).collect::<Option<Vec<f64>>>() else {
            return Verdict::not_run(LATENCIES);
        };
        holds &= ratios.iter().all(|ratio| (*ratio > 1.0) == (width < 1024));
        let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        words.push(format!("{width}: {}", ratios.join(" ")));
    }
    Verdict::order(holds, words.join("; ")).with(" times as fast with one")
}

fn mappings(found: &Findings) -> Result<Verdict> {
    let study = found.study("table2")?;
    let (mut ours, mut paper) = (Vec::new(), Vec::new());
    for (groups, size, _, cost, rank) in MAPPINGS {
        let value = |drawing: usize| study.value(drawing, "", &format!("{groups}×{size}"), MODEL);
        // The paper truncates costs.
        ours.extend([value(0)?.trunc(), value(1)?]);
        paper.extend([cost, rank]);
    }
    let exact = Verdict::exact(&ours, &paper, "");
    let pairs: Vec<String> = ours.chunks(2).map(|pair| format!("{}/{}", pair[0], pair[1])).collect();
    Ok(Verdict { ours: pairs.join("; "), ..exact })
}

fn crossover(found: &Findings) -> Result<Verdict> {
    let study = found.study("table3")?;
    let mut holds = true;
    let mut words = Vec::new();
    for width in WIDTHS {
        let mut picked = Vec::new();
        for batch in BATCHES {
            let cost = |kernel| study.value(0, &format!("GRU of {width}"), &batch.to_string(), kernel);
            let single = cost(SINGLE)? < cost(DOUBLE)?;
            holds &= single == (width < 1024);
            picked.push(if single { "one" } else { "two" });
        }
        words.push(format!("{width}: {}", picked.join(" ")));
    }
    Ok(Verdict::order(holds, words.join("; ")))
}
