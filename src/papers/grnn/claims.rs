//! Checks of GRNN's claims.

use super::figures::{DOUBLE, MODEL, SINGLE};
use super::measured::{GpuTimes, Regret, RnnSystem, SequenceSize};
use super::model::TITAN_V;
use super::tables::{self, DEEP_CPU_SHARE, NETWORK_BATCHES, NETWORKS, RnnNetwork, WIDTHS, size};
use crate::base::error::Result;
use crate::core::cost::grnn::{RecurrentCell, Rnn, Space};
use crate::core::cost::roofline::Roofline;
use crate::papers::findings::{Check, Findings};
use crate::papers::numbers::{mean, range};
use crate::papers::value::PaperValue;
use crate::papers::verdict::{ClaimVerdict, higher, lower};

pub const CHECKS: &[(&str, Check)] = &[
    ("grnn-space", number_of_configurations),
    ("grnn-table2", mappings),
    ("grnn-top1", |found, paper| {
        mean_regret(found, |one| one.first, paper)
    }),
    ("grnn-top5", |found, paper| {
        mean_regret(found, |one| one.best_of_first, paper)
    }),
    ("grnn-table1", latencies),
    ("grnn-cudnn-trad", over_traditional),
    ("grnn-cudnn-pers", over_persistent_at_20),
    ("grnn-table3", synchronisations),
    ("grnn-crossover", crossover),
    ("grnn-cudnn-1024", cut_at_1024),
    ("grnn-cudnn-5", over_persistent_at_5),
    ("grnn-cpu", |found, paper| over_cpu(found, "fig11", paper)),
    ("grnn-cpu-gru", |found, paper| {
        over_cpu(found, "fig12", paper)
    }),
    ("grnn-share", share_of_peak),
    ("grnn-oracle", first_is_best),
    ("grnn-worst", worst_case),
    ("grnn-median", median_mapping),
    ("grnn-networks", networks),
];

fn number_of_configurations(_: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let space = Space {
        widest: 256,
        uneven: false,
    };
    Ok(ClaimVerdict::above(space.size(Rnn::Lstm, 20) as f64, paper))
}

fn mappings(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let study = found.study("table2")?;
    let costs = study.values(0, MODEL)?;
    let ranks = study.values(1, MODEL)?;
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for (cost, rank) in costs.iter().zip(ranks) {
        // The paper truncates costs.
        let cost = cost.trunc();
        numbers.extend([cost, rank]);
        texts.push(format!("{cost}/{rank}"));
    }
    Ok(ClaimVerdict {
        ours: texts.join("; "),
        ..ClaimVerdict::exact(&numbers, paper)
    })
}

/// The mean of a value over the sizes that have a sample. `value` selects a multiple of the best time.
fn mean_regret(
    found: &Findings,
    value: fn(&Regret) -> f64,
    paper: &PaperValue,
) -> Result<ClaimVerdict> {
    judge_samples(found, |samples| {
        let mappings: usize = samples.iter().map(|one| one.run).sum();
        let ours = mean_of(samples, value);
        // The paper's conclusion is that the first mappings are as good as the best.
        let verdict = lower(ours, mean_of(samples, |one| one.median), paper)?;
        let sizes = count_sizes(samples);
        Ok(verdict.with(&format!(", the mean {sizes}, {mappings} mappings")))
    })
}

fn mean_of(samples: &[Regret], value: fn(&Regret) -> f64) -> f64 {
    samples.iter().map(value).sum::<f64>() / samples.len() as f64
}

fn count_sizes(samples: &[Regret]) -> String {
    format!("of {} of nine sizes", samples.len())
}

fn latencies(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let Some(measured) = &found.measured else {
        return Ok(ClaimVerdict::without_run());
    };
    let lstm = all_latencies(measured, RecurrentCell::Lstm);
    let gru = all_latencies(measured, RecurrentCell::Gru);
    let Some((lstm, gru)) = lstm.zip(gru) else {
        return Ok(ClaimVerdict::without_run());
    };
    let agrees = grow_with_size(&lstm) && grow_with_size(&gru);
    let ours = [lstm, gru].concat();
    let papers = [tables::LSTM.1, tables::GRU.1].concat();
    let (least, most) = range(ours.iter().copied());
    let verdict = ClaimVerdict {
        ours: format!("{least:.2} to {most:.2} ms"),
        ..ClaimVerdict::several_numbers(&ours, &papers, "ms", agrees)
    };
    let device_file = Roofline::find_for_gpu(&measured.gpu).map(|(file, _)| file);
    let verdict = if device_file == Some(TITAN_V) {
        verdict
    } else {
        verdict.mark_other_gpu()
    };
    Ok(verdict.with(&format!(", on {}", measured.short())))
}

/// GRNN's times at the nine sizes, or `None` if one is missing.
fn all_latencies(measured: &GpuTimes, cell: RecurrentCell) -> Option<Vec<f64>> {
    (0..9)
        .map(|place| measured.ms(RnnSystem::Grnn, size(cell, place)))
        .collect()
}

/// Whether wider states take longer and larger batches are not faster, as on any GPU.
fn grow_with_size(ms: &[f64]) -> bool {
    let wider_takes_longer = ms.iter().zip(&ms[3..]).all(|(narrow, wide)| narrow < wide);
    wider_takes_longer && ms.chunks(3).all(|batches| batches[0] <= batches[2])
}

/// The means over the batches at states of 64 and of 256.
fn over_traditional(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let narrow = mean_over_traditional(found, [0, 1, 2]);
    let wide = mean_over_traditional(found, [3, 4, 5]);
    judge(found, narrow.zip(wide), |(narrow, wide)| {
        let agrees = narrow > 1.0 && wide > 1.0;
        Ok(ClaimVerdict::several(&[narrow, wide], paper, agrees))
    })
}

fn mean_over_traditional(found: &Findings, places: [usize; 3]) -> Option<f64> {
    mean_of_three(places.map(|place| {
        over_grnn(
            found,
            RnnSystem::Traditional,
            size(RecurrentCell::Lstm, place),
        )
    }))
}

fn over_persistent_at_20(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ratio = over_grnn(found, RnnSystem::Persistent, size(RecurrentCell::Lstm, 2));
    judge(found, ratio, |ratio| higher(ratio, 1.0, paper))
}

fn over_persistent_at_5(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ratios = WIDTHS.map(|hidden| {
        let size = SequenceSize {
            hidden,
            batch: 5,
            ..size(RecurrentCell::Lstm, 0)
        };
        over_grnn(found, RnnSystem::Persistent, size)
    });
    judge(found, mean_of_three(ratios), |ratio| {
        higher(ratio, 1.0, paper)
    })
}

fn cut_at_1024(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let cuts = [6, 7, 8].map(|place| {
        let ratio = over_grnn(
            found,
            RnnSystem::Traditional,
            size(RecurrentCell::Lstm, place),
        )?;
        Some(100.0 * (1.0 - 1.0 / ratio))
    });
    judge(found, mean_of_three(cuts), |cut| higher(cut, 0.0, paper))
}

/// The mean, or `None` if a value is missing.
fn mean_of_three(values: [Option<f64>; 3]) -> Option<f64> {
    Some(values.into_iter().sum::<Option<f64>>()? / 3.0)
}

/// The measured time of another system over GRNN's.
fn over_grnn(found: &Findings, system: RnnSystem, size: SequenceSize) -> Option<f64> {
    let measured = found.measured.as_ref()?;
    Some(measured.ms(system, size)? / measured.ms(RnnSystem::Grnn, size)?)
}

fn synchronisations(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    judge(found, measured_synchronisations(found), |ratios| {
        let verdict = one_below_1024(&ratios, |ratio| ratio > 1.0, |ratio| format!("{ratio:.2}"));
        Ok(verdict.with(" times as fast with one"))
    })
}

/// The times with two synchronisations over those with one at the nine sizes, or `None` if one is missing.
fn measured_synchronisations(found: &Findings) -> Option<Vec<f64>> {
    let measured = found.measured.as_ref()?;
    let mut ratios = Vec::new();
    for place in 0..9 {
        let size = size(RecurrentCell::Gru, place);
        let two = measured.fastest(Rnn::GruDouble, size)?;
        let one = measured.fastest(Rnn::GruSingle, size)?;
        ratios.push(two / one);
    }
    Some(ratios)
}

fn crossover(found: &Findings, _: &PaperValue) -> Result<ClaimVerdict> {
    let study = found.study("table3")?;
    let with_two = study.values(0, DOUBLE)?;
    let with_one = study.values(0, SINGLE)?;
    let ratios: Vec<f64> = with_two
        .iter()
        .zip(with_one)
        .map(|(double, single)| double / single)
        .collect();
    Ok(one_below_1024(
        &ratios,
        |ratio| ratio > 1.0,
        |ratio| if ratio > 1.0 { "one" } else { "two" }.to_string(),
    ))
}

/// Whether one synchronisation is better up to states of 256, and two are with 1024.
fn one_below_1024(all: &[f64], is_one: fn(f64) -> bool, show: fn(f64) -> String) -> ClaimVerdict {
    let mut holds = true;
    let mut texts = Vec::new();
    for (width, values) in WIDTHS.into_iter().zip(all.chunks(3)) {
        holds &= values.iter().all(|value| is_one(*value) == (width < 1024));
        let values: Vec<String> = values.iter().map(|value| show(*value)).collect();
        texts.push(format!("{width}: {}", values.join(" ")));
    }
    ClaimVerdict::order(holds, texts.join("; "))
}

/// The largest speed-up over DeepCPU. The model's times are fitted to those that the paper's follow from.
fn over_cpu(found: &Findings, figure: &str, paper: &PaperValue) -> Result<ClaimVerdict> {
    let all = found.study(figure)?.values(0, MODEL)?;
    let largest = all.iter().copied().fold(0.0, f64::max);
    let agrees = all.iter().all(|speed_up| *speed_up > 1.0);
    Ok(ClaimVerdict::near(largest, paper, agrees).mark_derived())
}

fn share_of_peak(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ours = mean(&found.study("fig13")?.values(0, MODEL)?);
    Ok(higher(ours, DEEP_CPU_SHARE, paper)?.mark_derived())
}

/// How often the model's first mapping is the best. The paper's text has this number and the number of all sizes.
fn first_is_best(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let (papers_best, papers_sizes) = paper.range();
    judge_samples(found, |samples| {
        let best = samples.iter().filter(|one| one.first_is_best()).count();
        let sizes = samples.len();
        let spread = largest(samples, |one| 100.0 * one.spread);
        let within = if spread > 0.0 {
            format!(" within the spread of its times, {spread:.1} %")
        } else {
            String::new()
        };
        let share = best as f64 / sizes as f64;
        Ok(ClaimVerdict {
            ours: format!("{best} of {sizes} measured{within}"),
            ..ClaimVerdict::near_number(share, papers_best / papers_sizes, "", best > 0)
        })
    })
}

fn worst_case(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let papers_worst_first = paper.numbers()[0];
    judge_samples(found, |samples| {
        let first = largest(samples, |one| one.first);
        let best_of_first = largest(samples, |one| one.best_of_first);
        let agrees = best_of_first < papers_worst_first;
        let sizes = count_sizes(samples);
        Ok(ClaimVerdict {
            ours: format!("{first:.2}; {best_of_first:.2} x, the worst {sizes}"),
            ..ClaimVerdict::several(&[first, best_of_first], paper, agrees)
        })
    })
}

fn largest(samples: &[Regret], value: fn(&Regret) -> f64) -> f64 {
    samples.iter().map(value).fold(0.0, f64::max)
}

fn median_mapping(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let mut grus = String::new();
    for regret in regrets(found, RecurrentCell::Gru) {
        grus += &format!("; a GRU's {:.2}", regret.median_over_first());
    }
    judge_samples(found, |samples| {
        let ratios: Vec<f64> = samples.iter().map(Regret::median_over_first).collect();
        let texts: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let median = mean(&ratios);
        let verdict = ClaimVerdict::near(median, paper, median > 1.0);
        Ok(verdict.with(&format!(
            ", the mean {} ({}{grus})",
            count_sizes(samples),
            texts.join(" and ")
        )))
    })
}

/// The largest gain of either network over either of cuDNN's kinds of kernels. Layers run one after the other.
fn networks(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let gains = NETWORKS
        .into_iter()
        .map(|network| gain_of_network(found, network))
        .collect::<Option<Vec<_>>>();
    judge(found, gains, |gains| {
        let largest = gains.iter().map(|(gain, _)| *gain).fold(0.0, f64::max);
        let texts: Vec<&str> = gains.iter().map(|(_, text)| text.as_str()).collect();
        Ok(higher(largest, 1.0, paper)?.with(&format!(" ({})", texts.join("; "))))
    })
}

/// The largest gain of one network, with its text. The last of several equal ones counts.
fn gain_of_network(found: &Findings, network: RnnNetwork) -> Option<(f64, String)> {
    let mut largest: Option<(f64, String)> = None;
    for batch in NETWORK_BATCHES {
        let size = SequenceSize {
            cell: RecurrentCell::Lstm,
            hidden: network.width,
            batch,
            steps: network.steps,
        };
        for (system, kernels) in [
            (RnnSystem::Traditional, "traditional"),
            (RnnSystem::Persistent, "persistent"),
        ] {
            let Some(gain) = over_grnn(found, system, size) else {
                continue;
            };
            if largest.as_ref().is_none_or(|(most, _)| gain >= *most) {
                let name = network.name;
                let text = format!("{name} {gain:.1} over {kernels} kernels, batch {batch}");
                largest = Some((gain, text));
            }
        }
    }
    largest
}

/// The verdict on a value if it was measured, with the GPU's name.
fn judge<T>(
    found: &Findings,
    value: Option<T>,
    verdict: impl FnOnce(T) -> Result<ClaimVerdict>,
) -> Result<ClaimVerdict> {
    match value.zip(found.measured.as_ref()) {
        Some((value, measured)) => Ok(verdict(value)?.with(&format!(", on {}", measured.short()))),
        None => Ok(ClaimVerdict::without_run()),
    }
}

/// The verdict on the sizes of an LSTM that have a sample, if there are any.
fn judge_samples(
    found: &Findings,
    verdict: impl FnOnce(&[Regret]) -> Result<ClaimVerdict>,
) -> Result<ClaimVerdict> {
    let samples = regrets(found, RecurrentCell::Lstm);
    let samples = if samples.is_empty() {
        None
    } else {
        Some(samples)
    };
    judge(found, samples, |samples| verdict(&samples))
}

/// The regrets at the sizes of the paper that have a sample.
fn regrets(found: &Findings, cell: RecurrentCell) -> Vec<Regret> {
    let Some(measured) = &found.measured else {
        return Vec::new();
    };
    (0..9)
        .filter_map(|place| measured.regret(size(cell, place)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::paper::Paper;

    #[test]
    fn table_1_is_shown_as_it_is_checked() {
        let (least, most) = range([tables::LSTM.1, tables::GRU.1].concat());
        let text = format!("{least} to {most} ms");
        assert_eq!(Paper::Grnn.value("grnn-table1").text(), text);
    }
}
