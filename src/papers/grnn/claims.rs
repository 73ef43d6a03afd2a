//! Checks of GRNN's claims.

use super::figures::{DOUBLE, MEDIAN, MODEL, SINGLE};
use super::measured::{Measured, Regret, Series, Size};
use super::paper::{self, BATCHES, Grid, MAPPINGS, WIDTHS, size};
use crate::cost::grnn::{Cell, Rnn, Space};
use crate::error::Result;
use crate::papers::verdict::{higher, lower};
use crate::papers::{Check, Findings, Verdict, findings};

pub const CHECKS: &[(&str, Check)] = &[
    ("grnn-space", |_| {
        let size = Space { widest: 256, uneven: false }.size(Rnn::Lstm, 20);
        Ok(Verdict::above(size as f64, 100_000.0, "configurations"))
    }),
    ("grnn-table2", mappings),
    ("grnn-top1", |found| regret(found, |one| one.first, 1.03)),
    ("grnn-top5", |found| regret(found, |one| one.best_of_first, 1.02)),
    ("grnn-table1", latencies),
    ("grnn-cudnn-trad", over_traditional),
    ("grnn-cudnn-pers", |found| {
        let ratio = over_grnn(found, Series::Persistent, size(Cell::Lstm, 0, 2));
        judged(ratio, CUDNN, |ratio| higher(ratio, 1.0, 9.2, ""))
    }),
    ("grnn-table3", |found| judged(synchronisations(found), LATENCIES, Ok)),
    ("grnn-crossover", crossover),
    ("grnn-cudnn-1024", |found| {
        let cut = |b: usize| Some(100.0 * (1.0 - 1.0 / over_grnn(found, Series::Traditional, size(Cell::Lstm, 2, b))?));
        judged(mean(cut, BATCHES.len()), CUDNN, |cut| higher(cut, 0.0, 40.6, "%"))
    }),
    ("grnn-cudnn-5", |found| {
        let ratio = |w: usize| over_grnn(found, Series::Persistent, Size { batch: 5, ..size(Cell::Lstm, w, 0) });
        judged(mean(ratio, WIDTHS.len()), CUDNN, |ratio| higher(ratio, 1.0, 3.46, "x"))
    }),
    ("grnn-cpu", |found| over_cpu(found, "fig11", 17.5)),
    ("grnn-cpu-gru", |found| over_cpu(found, "fig12", 12.5)),
    ("grnn-share", |found| {
        // More than DeepCPU's.
        Ok(higher(findings::mean(&of_all(found, "fig13", MODEL)?), 12.6, 15.7, "%")?.derived())
    }),
    ("grnn-oracle", |found| {
        let best = |all: Vec<Regret>| all.iter().filter(|one| one.first == 1.0).count() as f64;
        judged(of_nine(found), SAMPLES, |all| higher(best(all), 0.0, 5.0, "of 9"))
    }),
    ("grnn-worst", |found| {
        judged(of_nine(found), SAMPLES, |all| {
            let most = |of: fn(&Regret) -> f64| all.iter().map(of).fold(0.0, f64::max);
            let worst = [most(|one| one.first), most(|one| one.best_of_first)];
            Ok(Verdict::several(&worst, &[1.14, 1.08], "x", worst[1] < 1.14))
        })
    }),
    ("grnn-median", |found| {
        Ok(Verdict::magnitude(findings::mean(&of_all(found, "fig14", MEDIAN)?), 1.8, "x, in costs"))
    }),
    ("grnn-networks", |_| judged(None, CUDNN, Ok)),
];

/// Why times are not judged, and the part of the script that measures them.
type Why = [&'static str; 2];

const OF_TIMES: &str =
    "a ratio of latencies that a GPU has to measure; the model has costs, which rank mappings and predict no time";
const LATENCIES: Why = [OF_TIMES, "grnn-figures"];
const SAMPLES: Why = [OF_TIMES, "regret"];
const FITTED: Why = [
    "not all of it was measured on a GPU, and the simulator's times are lines that were fitted to this very table",
    "persistent",
];
const CUDNN: Why = [
    "not all of it was measured on a GPU, and the simulator has no model of cuDNN's kernels",
    "persistent, with PyTorch",
];

/// Judged if it was measured.
fn judged<T>(measured: Option<T>, [why, part]: Why, verdict: impl FnOnce(T) -> Result<Verdict>) -> Result<Verdict> {
    let how = format!("scripts/gpu-check.sh measures it (part {part}) on a GPU host");
    let not_run = || Verdict::not_run(format!("{why}. {how}, and --measured takes the measured.csv that it leaves"));
    measured.map_or_else(|| Ok(not_run()), verdict)
}

/// `None` if a value is missing.
fn mean(value: impl Fn(usize) -> Option<f64>, count: usize) -> Option<f64> {
    Some((0..count).map(value).sum::<Option<f64>>()? / count as f64)
}

/// Times that were measured, over GRNN's.
fn over_grnn(found: &Findings, series: Series, size: Size) -> Option<f64> {
    let own = found.measured.as_ref()?;
    Some(own.ms(series, size)? / own.ms(Series::Grnn, size)?)
}

/// A figure's bars, at all nine sizes.
fn of_all(found: &Findings, figure: &str, series: &str) -> Result<Vec<f64>> {
    let study = found.study(figure)?;
    let value = |w: u32, b: u32| study.value(0, &format!("State of {w}"), &b.to_string(), series);
    WIDTHS.iter().flat_map(|w| BATCHES.map(|b| value(*w, b))).collect()
}

/// The largest speed-up over DeepCPU. The model's times are fitted to those that the paper's follow from.
fn over_cpu(found: &Findings, figure: &str, paper: f64) -> Result<Verdict> {
    let all = of_all(found, figure, MODEL)?;
    let most = all.iter().copied().fold(0.0, f64::max);
    Ok(Verdict::near(most, paper, "x", all.iter().all(|speed_up| *speed_up > 1.0)).derived())
}

/// Of sizes that have a sample.
fn samples(found: &Findings) -> Vec<Regret> {
    let sizes = (0..9).map(|place| size(Cell::Lstm, place / 3, place % 3));
    sizes.filter_map(|size| found.measured.as_ref()?.regret(size)).collect()
}

/// `None` unless all sizes have one.
fn of_nine(found: &Findings) -> Option<Vec<Regret>> {
    Some(samples(found)).filter(|all| all.len() == 9)
}

/// The mean over sizes that have a sample.
fn regret(found: &Findings, of: fn(&Regret) -> f64, paper: f64) -> Result<Verdict> {
    judged(Some(samples(found)).filter(|all| !all.is_empty()), SAMPLES, |samples| {
        let mean = |of: fn(&Regret) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        let run: usize = samples.iter().map(|one| one.run).sum();
        // The paper: the first mappings are as good as the best.
        let verdict = lower(mean(of), mean(|one| one.median), paper, "")?;
        Ok(verdict.with(&format!(", the mean of {} of nine sizes, {run} mappings", samples.len())))
    })
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

fn latencies(found: &Findings) -> Result<Verdict> {
    let of = |cell: Cell| nine(found.measured.as_ref()?, Series::Grnn, cell);
    judged(of(Cell::Lstm).zip(of(Cell::Gru)), FITTED, |grids| Ok(of_table_1(grids)))
}

fn of_table_1((lstm, gru): (Grid, Grid)) -> Verdict {
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

fn over_traditional(found: &Findings) -> Result<Verdict> {
    // Mean over the batches.
    let of_batch = |w: usize, b: usize| over_grnn(found, Series::Traditional, size(Cell::Lstm, w, b));
    let ratio = |w: usize| mean(|b| of_batch(w, b), BATCHES.len());
    judged(ratio(0).zip(ratio(1)), CUDNN, |(narrow, wide)| {
        Ok(Verdict::several(&[narrow, wide], &[6.67, 4.21], "", narrow > 1.0 && wide > 1.0))
    })
}

/// `None` if a time is missing.
fn synchronisations(found: &Findings) -> Option<Verdict> {
    let mut holds = true;
    let mut words = Vec::new();
    for (w, width) in WIDTHS.into_iter().enumerate() {
        let ratio = |b: usize| {
            let fastest = |kernel| found.measured.as_ref()?.fastest(kernel, size(Cell::Gru, w, b));
            Some(fastest(Rnn::GruDouble)? / fastest(Rnn::GruSingle)?)
        };
        let ratios = (0..BATCHES.len()).map(ratio).collect::<Option<Vec<f64>>>()?;
        holds &= ratios.iter().all(|ratio| (*ratio > 1.0) == (width < 1024));
        let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        words.push(format!("{width}: {}", ratios.join(" ")));
    }
    Some(Verdict::order(holds, words.join("; ")).with(" times as fast with one"))
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
