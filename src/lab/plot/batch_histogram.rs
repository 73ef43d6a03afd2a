//! Share of the executed cells by batch size.

use std::collections::BTreeMap;

use super::axis::number;
use super::chart::{Bar, Bars};
use super::folder::Series;
use super::input::PlotInputs;
use super::options::PlotOptions;
use super::points::point_label;
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::lab::results::logs::BatchLine;

/// The number of executed cells of each batch size. A count is exact up to 2^53, and a damaged file cannot overflow it.
type CellCounts = BTreeMap<u64, f64>;

/// The largest number of sizes that have a bin each. If there are more, a bin ends at each power of two.
const MOST_SIZES: usize = 10;

/// Draws the share of the cells by batch size at one point.
pub fn draw_histogram(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let (point, series) = inputs.compared_point(options)?;
    let mut counts = Vec::new();
    for s in &series {
        counts.push(cells_by_batch(s, &point)?);
    }
    let sizes = counts.iter().flat_map(|cells| cells.keys().copied());
    let ends = bin_ends(sizes.collect());
    let label = if has_sizes_between(&ends, &counts) {
        "Batch size (bin end)"
    } else {
        "Batch size"
    };
    let mut bars = Vec::new();
    for (s, cells) in series.iter().zip(&counts) {
        for (end, share) in ends.iter().zip(shares(cells, &ends)) {
            let value = if share > 0.0 { Some(share) } else { None };
            bars.push(Bar::new(number(*end as f64), &s.label, value));
        }
    }
    let chart = Bars {
        sheet: options.sheet(),
        title: options.title.clone(),
        across: format!("{label}{}", point_label(&point)),
        value: "Share of executed cells (%)".into(),
        series: series.iter().map(|s| s.label.clone()).collect(),
        bars,
        styles: series.iter().map(|s| s.style).collect(),
        ..Bars::default()
    };
    chart.draw_with(options)
}

/// Whether a bin has sizes below its end.
fn has_sizes_between(ends: &[u64], counts: &[CellCounts]) -> bool {
    ends.windows(2).any(|pair| {
        counts
            .iter()
            .any(|cells| cells.range(pair[0] + 1..pair[1]).next().is_some())
    })
}

fn cells_by_batch(series: &Series<'_>, point: &str) -> Result<CellCounts, Undrawn> {
    let (path, rows) = series.log::<BatchLine>(point)?;
    let Some(mut rows) = rows else {
        return Err(nothing(format!("there is no {}", path.display())));
    };
    let mut cells = CellCounts::new();
    while let Some(line) = rows.read()? {
        if line.batch > 0 && line.tasks > 0 {
            *cells.entry(line.batch).or_default() += line.batch as f64 * line.tasks as f64;
        }
    }
    if cells.is_empty() {
        return Err(nothing(format!(
            "{}: no batch was executed",
            path.display()
        )));
    }
    Ok(cells)
}

/// The largest size of each bin.
fn bin_ends(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() <= MOST_SIZES {
        return sizes;
    }
    let first = exponent_above(sizes[0]);
    let last = exponent_above(sizes[sizes.len() - 1]);
    (first..=last)
        .map(|exponent| 1u64.checked_shl(exponent).unwrap_or(u64::MAX))
        .collect()
}

/// The exponent of the smallest power of two that is not below a size.
fn exponent_above(size: u64) -> u32 {
    u64::BITS - (size - 1).leading_zeros()
}

/// The percentage of the cells in each bin.
fn shares(cells: &CellCounts, ends: &[u64]) -> Vec<f64> {
    let all: f64 = cells.values().sum();
    let mut counts = vec![0.0; ends.len()];
    for (size, count) in cells {
        counts[ends.partition_point(|end| end < size)] += count;
    }
    counts
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
            shares(
                &CellCounts::from([(4, most), (u64::MAX, most)]),
                &[4, u64::MAX]
            ),
            [50.0, 50.0]
        );
    }

    #[test]
    fn shares_count_cells_and_not_batches() {
        let cells = CellCounts::from([(1, 10.0), (2, 30.0), (4, 60.0)]);
        assert_eq!(shares(&cells, &[1, 2, 4]), [10.0, 30.0, 60.0]);
        assert_eq!(shares(&cells, &[2, 4]), [40.0, 60.0]);
    }
}
