//! Share of the executed cells by batch size.

use std::collections::BTreeMap;

use super::axis::number;
use super::bars::{Bar, Bars};
use super::input::Series;
use super::points::at_point;
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::lab::results::logs::BatchLine;

/// Exact up to 2^53, and without an end for a damaged file.
type Cells = BTreeMap<u64, f64>;

/// With more sizes, a bin ends at each power of two.
const MOST_SIZES: usize = 10;

pub fn histogram(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let (point, series) = inputs.at_point(options)?;
    let of = |s| Ok((s, cells_by_batch(s, &point)?));
    let all = series.iter().map(of).collect::<Result<Vec<_>, Undrawn>>()?;
    let ends = bin_ends(
        all.iter()
            .flat_map(|(_, cells)| cells.keys().copied())
            .collect(),
    );
    let exact = ends.windows(2).all(|pair| {
        all.iter()
            .all(|(_, c)| c.range(pair[0] + 1..pair[1]).next().is_none())
    });
    let label = if exact {
        "Batch size"
    } else {
        "Batch size (bin end)"
    };
    let of_series = |(s, cells): &(&Series<'_>, Cells)| {
        let shares = shares(cells, &ends)
            .into_iter()
            .map(|share| Some(share).filter(|share| *share > 0.0));
        ends.iter()
            .zip(shares)
            .map(|(end, share)| Bar::new(number(*end as f64), &s.label, share))
            .collect::<Vec<_>>()
    };
    let bars = Bars {
        sheet: options.sheet(),
        title: options.title.clone(),
        across: format!("{label}{}", at_point(&point)),
        value: "Share of executed cells (%)".into(),
        series: all.iter().map(|(s, _)| s.label.clone()).collect(),
        bars: all.iter().flat_map(of_series).collect(),
        styles: all.iter().map(|(s, _)| s.style).collect(),
        ..Bars::default()
    };
    bars.asked(options)
}

fn cells_by_batch(series: &Series<'_>, point: &str) -> Result<Cells, Undrawn> {
    let (path, rows) = series.log::<BatchLine>(point)?;
    let mut rows = rows.ok_or_else(|| nothing(format!("there is no {}", path.display())))?;
    let mut cells = Cells::new();
    while let Some(BatchLine { batch, tasks, .. }) = rows.read()? {
        if batch > 0 && tasks > 0 {
            *cells.entry(batch).or_default() += batch as f64 * tasks as f64;
        }
    }
    match cells.is_empty() {
        true => Err(nothing(format!(
            "{}: no batch was executed",
            path.display()
        ))),
        false => Ok(cells),
    }
}

/// The largest size of each bin.
fn bin_ends(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() <= MOST_SIZES {
        return sizes;
    }
    let power = |size: u64| u64::BITS - (size - 1).leading_zeros();
    (power(sizes[0])..=power(sizes[sizes.len() - 1]))
        .map(|power| 1u64.checked_shl(power).unwrap_or(u64::MAX))
        .collect()
}

fn shares(cells: &Cells, ends: &[u64]) -> Vec<f64> {
    let all: f64 = cells.values().sum();
    let mut binned = vec![0.0; ends.len()];
    for (size, count) in cells {
        binned[ends.partition_point(|end| end < size)] += count;
    }
    binned
        .into_iter()
        .map(|count| 100.0 * count / all)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sizes_are_exact_and_many_are_powers_of_two() {
        assert_eq!(bin_ends(vec![4, 1, 4, 3]), [1, 3, 4]);
        assert_eq!(bin_ends((3..=200).collect()), [4, 8, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn no_size_and_no_count_is_too_large() {
        let mut sizes: Vec<u64> = (1..=10).collect();
        sizes.push(u64::MAX);
        let ends = bin_ends(sizes);
        assert_eq!(
            (ends.len(), ends[..3].to_vec(), ends[63..].to_vec()),
            (65, vec![1, 2, 4], vec![1 << 63, u64::MAX])
        );
        let most = u64::MAX as f64 * u64::MAX as f64;
        assert_eq!(
            shares(&Cells::from([(4, most), (u64::MAX, most)]), &[4, u64::MAX]),
            [50.0, 50.0]
        );
    }

    #[test]
    fn shares_count_cells_and_not_batches() {
        let cells = Cells::from([(1, 10.0), (2, 30.0), (4, 60.0)]);
        assert_eq!(shares(&cells, &[1, 2, 4]), [10.0, 30.0, 60.0]);
        assert_eq!(shares(&cells, &[2, 4]), [40.0, 60.0]);
    }
}
