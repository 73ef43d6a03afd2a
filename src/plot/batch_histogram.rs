//! Share of the executed cells by the size of the batch that they were executed in.

use std::collections::BTreeMap;

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::Rect;
use super::font::text_width;
use super::input::{Series, at_point, point};
use super::panel::{Entry, Key, bar, figure as panel_figure};
use super::style::SMALL;
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;

/// For each batch size, how many cells were executed in batches of that size.
type Cells = BTreeMap<u64, u64>;

/// With at most so many sizes, each has its own bars; otherwise a bin ends at each power of two.
const MOST_SIZES: usize = 10;

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let point = point(&series, options)?;
    let mut all = Vec::new();
    for s in series {
        if s.row_at(&point)?.is_some() {
            let cells = or_nothing!(cells_by_batch(&s, &point)?);
            all.push((s, cells));
        }
    }
    let ends = bin_ends(all.iter().flat_map(|(_, cells)| cells.keys().copied()).collect());
    let shares: Vec<Vec<f64>> = all.iter().map(|(_, cells)| shares(cells, &ends)).collect();
    let exact = ends.windows(2).all(|pair| all.iter().all(|(_, c)| c.range(pair[0] + 1..pair[1]).next().is_none()));
    let label = if exact { "Batch size" } else { "Batch size (bin end)" };
    let x = bins_axis(format!("{label}{}", at_point(&point, options)), &ends);
    let highest = shares.iter().flatten().copied().fold(0.0, f64::max);
    let y = Axis::linear_to_tick("Share of executed cells (%)", 0.0, highest.min(100.0), 5);

    let legend: Vec<Entry> =
        all.iter().map(|(s, _)| Entry { label: s.label.clone(), key: Key::Bar(s.style) }).collect();
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    // A bin is 1 wide; its bars take four fifths of that.
    let width = 0.8 / all.len() as f64;
    for (i, ((s, _), shares)) in all.iter().zip(&shares).enumerate() {
        for (bin, &share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let from = bin as f64 - 0.4 + i as f64 * width;
            let ((left, top), (right, bottom)) = (panel.at(from, share), panel.at(from + width, 0.0));
            let gap = ((right - left) * 0.08).min(1.5);
            bar(&mut canvas, &Rect { left: left + gap, top, right: right - gap, bottom }, &s.style);
        }
    }
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}

fn cells_by_batch(series: &Series<'_>, point: &str) -> Result<Result<Cells, Nothing>> {
    let path = series.log(point, "batches.csv");
    let Some(mut rows) = series.open_log(point, "batches.csv")? else {
        return Ok(Err(Nothing(format!("there is no {}", path.display()))));
    };
    let (batch, tasks) = (rows.column("batch")?, rows.column("tasks")?);
    let mut cells = Cells::new();
    while let Some(row) = rows.read()? {
        let (batch, tasks) = (row.needed(batch)?, row.needed(tasks)?);
        if batch > 0 && tasks > 0 {
            *cells.entry(batch).or_default() += batch * tasks;
        }
    }
    Ok(if cells.is_empty() { Err(Nothing(format!("{}: no batch was executed", path.display()))) } else { Ok(cells) })
}

/// The largest batch size of each bin: the sizes that occur if these are few, otherwise powers of two.
fn bin_ends(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() <= MOST_SIZES {
        return sizes;
    }
    let (first, last) = (sizes[0].next_power_of_two(), sizes[sizes.len() - 1].next_power_of_two());
    (first.trailing_zeros()..=last.trailing_zeros()).map(|power| 1 << power).collect()
}

/// The share of the cells in each bin, in per cent.
fn shares(cells: &Cells, ends: &[u64]) -> Vec<f64> {
    let all: u64 = cells.values().sum();
    let mut binned = vec![0; ends.len()];
    for (size, count) in cells {
        binned[ends.partition_point(|end| end < size)] += count;
    }
    binned.into_iter().map(|count| 100.0 * count as f64 / all as f64).collect()
}

/// An axis with a label below each bin, or below every second or third where they are too wide.
fn bins_axis(label: String, ends: &[u64]) -> Axis {
    let texts: Vec<String> = ends.iter().map(|end| number(*end as f64)).collect();
    let widest = texts.iter().map(|text| text_width(text, SMALL)).fold(0.0, f64::max) + 6.0;
    let stride = (widest / (390.0 / ends.len() as f64)).ceil().max(1.0) as usize;
    // Counted from the last, whose label matters most: it is the cap.
    let ticks = texts.into_iter().enumerate().map(|(bin, text)| {
        let shown = (ends.len() - 1 - bin).is_multiple_of(stride);
        Tick { value: bin as f64, label: shown.then_some(text) }
    });
    let high = ends.len() as f64 - 0.5;
    Axis { label, spread: Spread::Bins, low: -0.5, high, ticks: ticks.collect() }
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
    fn shares_count_cells_and_not_batches() {
        let cells = Cells::from([(1, 10), (2, 30), (4, 60)]);
        assert_eq!(shares(&cells, &[1, 2, 4]), [10.0, 30.0, 60.0]);
        assert_eq!(shares(&cells, &[2, 4]), [40.0, 60.0]);
    }
}
