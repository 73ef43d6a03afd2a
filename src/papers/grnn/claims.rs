//! Checks of GRNN's claims.

use super::figures::{DOUBLE, MODEL, SINGLE};
use super::measured::{Measured, Regret, Series, Size};
use super::model::TITAN_V;
use super::paper::{self, MAPPINGS, NETWORK_BATCHES, NETWORKS, WIDTHS, size};
use crate::base::error::Result;
use crate::core::cost::grnn::{Cell, Rnn, Space};
use crate::core::cost::roofline::Roofline;
use crate::papers::verdict::{higher, lower};
use crate::papers::{Check, Findings, Verdict, findings};

pub const CHECKS: &[(&str, Check)] = &[
    ("grnn-space", |_| {
        let size = Space {
            widest: 256,
            uneven: false,
        }
        .size(Rnn::Lstm, 20);
        Ok(Verdict::above(size as f64, 100_000.0, "configurations"))
    }),
    ("grnn-table2", mappings),
    ("grnn-top1", |found| regret(found, |one| one.first, 1.03)),
    ("grnn-top5", |found| {
        regret(found, |one| one.best_of_first, 1.02)
    }),
    ("grnn-table1", latencies),
    ("grnn-cudnn-trad", over_traditional),
    ("grnn-cudnn-pers", |found| {
        let ratio = over_grnn(found, Series::Persistent, size(Cell::Lstm, 2));
        judged(found, ratio, |ratio| higher(ratio, 1.0, 9.2, ""))
    }),
    ("grnn-table3", |found| {
        judged(found, synchronisations(found), Ok)
    }),
    ("grnn-crossover", crossover),
    ("grnn-cudnn-1024", |found| {
        let cut = |place| {
            Some(
                100.0
                    * (1.0 - 1.0 / over_grnn(found, Series::Traditional, size(Cell::Lstm, place))?),
            )
        };
        judged(found, mean([6, 7, 8].map(cut)), |cut| {
            higher(cut, 0.0, 40.6, "%")
        })
    }),
    ("grnn-cudnn-5", |found| {
        let ratio = |hidden| {
            over_grnn(
                found,
                Series::Persistent,
                Size {
                    hidden,
                    batch: 5,
                    ..size(Cell::Lstm, 0)
                },
            )
        };
        judged(found, mean(WIDTHS.map(ratio)), |ratio| {
            higher(ratio, 1.0, 3.46, "x")
        })
    }),
    ("grnn-cpu", |found| over_cpu(found, "fig11", 17.5)),
    ("grnn-cpu-gru", |found| over_cpu(found, "fig12", 12.5)),
    ("grnn-share", |found| {
        // More than DeepCPU's.
        Ok(higher(
            findings::mean(&found.study("fig13")?.values(0, MODEL)?),
            12.6,
            15.7,
            "%",
        )?
        .derived())
    }),
    ("grnn-oracle", |found| {
        sampled(found, |samples| {
            let (best, sizes) = (
                samples.iter().filter(|one| one.first_is_best()).count(),
                samples.len(),
            );
            let spread = samples
                .iter()
                .map(|one| 100.0 * one.spread)
                .fold(0.0, f64::max);
            let within = if spread > 0.0 {
                format!(" within the spread of its times, {spread:.1} %")
            } else {
                String::new()
            };
            let (share, ours) = (
                best as f64 / sizes as f64,
                format!("{best} of {sizes} measured{within}"),
            );
            Ok(Verdict {
                ours,
                ..Verdict::near(share, 5.0 / 9.0, "", best > 0)
            })
        })
    }),
    ("grnn-worst", |found| {
        sampled(found, |samples| {
            let most = |of: fn(&Regret) -> f64| samples.iter().map(of).fold(0.0, f64::max);
            let worst = [most(|one| one.first), most(|one| one.best_of_first)];
            let ours = format!(
                "{:.2}; {:.2} x, the worst {}",
                worst[0],
                worst[1],
                of_nine(samples)
            );
            Ok(Verdict {
                ours,
                ..Verdict::several(&worst, &[1.14, 1.08], "x", worst[1] < 1.14)
            })
        })
    }),
    ("grnn-median", |found| {
        sampled(found, |samples| {
            let over_first = |one: &Regret| one.median / one.first;
            let median = findings::mean(&samples.iter().map(over_first).collect::<Vec<_>>());
            let each: Vec<String> = samples
                .iter()
                .map(|one| format!("{:.2}", over_first(one)))
                .collect();
            let gru = (0..9).filter_map(|place| {
                Some(over_first(
                    &found.measured.as_ref()?.regret(size(Cell::Gru, place))?,
                ))
            });
            let gru: String = gru.map(|ratio| format!("; a GRU's {ratio:.2}")).collect();
            let verdict = Verdict::near(median, 1.8, "x", median > 1.0);
            Ok(verdict.with(&format!(
                ", the mean {} ({}{gru})",
                of_nine(samples),
                each.join(" and ")
            )))
        })
    }),
    ("grnn-networks", networks),
];

/// Judged if it was measured, and with the GPU's name.
fn judged<T>(
    found: &Findings,
    value: Option<T>,
    verdict: impl FnOnce(T) -> Result<Verdict>,
) -> Result<Verdict> {
    match value.zip(found.measured.as_ref()) {
        Some((value, own)) => Ok(verdict(value)?.with(&format!(", on {}", own.short()))),
        None => Ok(Verdict::not_run()),
    }
}

/// `None` if a value is missing.
fn mean(values: [Option<f64>; 3]) -> Option<f64> {
    Some(values.into_iter().sum::<Option<f64>>()? / 3.0)
}

/// Times that were measured, over GRNN's.
fn over_grnn(found: &Findings, series: Series, size: Size) -> Option<f64> {
    let own = found.measured.as_ref()?;
    Some(own.ms(series, size)? / own.ms(Series::Grnn, size)?)
}

/// The largest speed-up over DeepCPU. The model's times are fitted to those that the paper's follow from.
fn over_cpu(found: &Findings, figure: &str, paper: f64) -> Result<Verdict> {
    let all = found.study(figure)?.values(0, MODEL)?;
    let most = all.iter().copied().fold(0.0, f64::max);
    Ok(Verdict::near(most, paper, "x", all.iter().all(|speed_up| *speed_up > 1.0)).derived())
}

/// Judged by the sizes that have a sample.
fn sampled(
    found: &Findings,
    verdict: impl FnOnce(&[Regret]) -> Result<Verdict>,
) -> Result<Verdict> {
    let samples =
        (0..9).filter_map(|place| found.measured.as_ref()?.regret(size(Cell::Lstm, place)));
    let samples: Vec<Regret> = samples.collect();
    judged(
        found,
        Some(samples).filter(|all| !all.is_empty()),
        |samples| verdict(&samples),
    )
}

fn of_nine(samples: &[Regret]) -> String {
    format!("of {} of nine sizes", samples.len())
}

/// The mean over sizes that have a sample.
fn regret(found: &Findings, of: fn(&Regret) -> f64, paper: f64) -> Result<Verdict> {
    sampled(found, |samples| {
        let mean =
            |of: fn(&Regret) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        let run: usize = samples.iter().map(|one| one.run).sum();
        // The paper: the first mappings are as good as the best.
        let verdict = lower(mean(of), mean(|one| one.median), paper, "")?;
        Ok(verdict.with(&format!(", the mean {}, {run} mappings", of_nine(samples))))
    })
}

/// The largest gain over either of cuDNN's kinds of kernels; layers run one after the other.
fn networks(found: &Findings) -> Result<Verdict> {
    let gains = |hidden, steps| {
        let size = move |batch| Size {
            cell: Cell::Lstm,
            hidden,
            batch,
            steps,
        };
        NETWORK_BATCHES.into_iter().flat_map(move |batch| {
            let of = [
                (Series::Traditional, "traditional"),
                (Series::Persistent, "persistent"),
            ];
            of.into_iter().filter_map(move |(series, name)| {
                Some((
                    over_grnn(found, series, size(batch))?,
                    format!("{name} kernels, batch {batch}"),
                ))
            })
        })
    };
    let most = |(name, _, hidden, steps): (&str, u32, u32, u32)| {
        let (gain, over) = gains(hidden, steps).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((gain, format!("{name} {gain:.1} over {over}")))
    };
    let both = NETWORKS.into_iter().map(most).collect::<Option<Vec<_>>>();
    judged(found, both, |both| {
        let largest = both.iter().map(|(gain, _)| *gain).fold(0.0, f64::max);
        let each: Vec<&str> = both.iter().map(|(_, text)| text.as_str()).collect();
        Ok(higher(largest, 1.0, 14.6, "x")?.with(&format!(" ({})", each.join("; "))))
    })
}

fn latencies(found: &Findings) -> Result<Verdict> {
    let of = |own: &Measured, cell| -> Option<Vec<f64>> {
        (0..9)
            .map(|place| own.ms(Series::Grnn, size(cell, place)))
            .collect()
    };
    let both = found
        .measured
        .as_ref()
        .and_then(|own| of(own, Cell::Lstm).zip(of(own, Cell::Gru)));
    judged(found, both, |(lstm, gru)| {
        // On any GPU, wider states take longer and larger batches are not faster.
        let wider = |ms: &[f64]| ms.iter().zip(&ms[3..]).all(|(narrow, wide)| narrow < wide);
        let grows = |ms: &[f64]| wider(ms) && ms.chunks(3).all(|batches| batches[0] <= batches[2]);
        let direction = grows(&lstm) && grows(&gru);
        let ours = [lstm, gru].concat();
        let papers = [paper::LSTM.1, paper::GRU.1].concat();
        let (least, most) = findings::range(ours.iter().copied());
        let verdict = Verdict::several(&ours, &papers, "ms", direction);
        let verdict = Verdict {
            ours: format!("{least:.2} to {most:.2} ms"),
            ..verdict
        };
        let own = found
            .measured
            .as_ref()
            .and_then(|own| Roofline::of_gpu(&own.gpu));
        Ok(if own.is_some_and(|(file, _)| file == TITAN_V) {
            verdict
        } else {
            verdict.of_another_gpu()
        })
    })
}

fn over_traditional(found: &Findings) -> Result<Verdict> {
    // Mean over the batches.
    let ratio = |places: [usize; 3]| {
        mean(places.map(|place| over_grnn(found, Series::Traditional, size(Cell::Lstm, place))))
    };
    judged(
        found,
        ratio([0, 1, 2]).zip(ratio([3, 4, 5])),
        |(narrow, wide)| {
            Ok(Verdict::several(
                &[narrow, wide],
                &[6.67, 4.21],
                "",
                narrow > 1.0 && wide > 1.0,
            ))
        },
    )
}

/// `None` if a time is missing.
fn synchronisations(found: &Findings) -> Option<Verdict> {
    let ratio = |place| {
        let fastest = |kernel| {
            found
                .measured
                .as_ref()?
                .fastest(kernel, size(Cell::Gru, place))
        };
        Some(fastest(Rnn::GruDouble)? / fastest(Rnn::GruSingle)?)
    };
    let ratios = (0..9).map(ratio).collect::<Option<Vec<f64>>>()?;
    let verdict = one_below_1024(&ratios, |ratio| ratio > 1.0, |ratio| format!("{ratio:.2}"));
    Some(verdict.with(" times as fast with one"))
}

/// Whether one synchronisation is better up to states of 256, and two are with 1024.
fn one_below_1024(all: &[f64], is_one: fn(f64) -> bool, shown: fn(f64) -> String) -> Verdict {
    let rows = || WIDTHS.into_iter().zip(all.chunks(3));
    let holds = rows().all(|(width, row)| row.iter().all(|value| is_one(*value) == (width < 1024)));
    let row = |(width, row): (u32, &[f64])| {
        format!(
            "{width}: {}",
            row.iter()
                .map(|value| shown(*value))
                .collect::<Vec<_>>()
                .join(" ")
        )
    };
    Verdict::order(holds, rows().map(row).collect::<Vec<_>>().join("; "))
}

fn mappings(found: &Findings) -> Result<Verdict> {
    let study = found.study("table2")?;
    let (costs, ranks) = (study.values(0, MODEL)?, study.values(1, MODEL)?);
    // The paper truncates costs.
    let ours: Vec<f64> = costs
        .iter()
        .zip(ranks)
        .flat_map(|(cost, rank)| [cost.trunc(), rank])
        .collect();
    let papers: Vec<f64> = MAPPINGS
        .iter()
        .flat_map(|(.., cost, rank)| [*cost, *rank])
        .collect();
    let pairs: Vec<String> = ours
        .chunks(2)
        .map(|pair| format!("{}/{}", pair[0], pair[1]))
        .collect();
    Ok(Verdict {
        ours: pairs.join("; "),
        ..Verdict::exact(&ours, &papers, "")
    })
}

fn crossover(found: &Findings) -> Result<Verdict> {
    let costs = |kernel| found.study("table3")?.values(0, kernel);
    let ratios: Vec<f64> = costs(DOUBLE)?
        .iter()
        .zip(costs(SINGLE)?)
        .map(|(double, single)| double / single)
        .collect();
    let is_one = |ratio| ratio > 1.0;
    Ok(one_below_1024(&ratios, is_one, |ratio| {
        if ratio > 1.0 { "one" } else { "two" }.into()
    }))
}
