//! Drawings of the paper's nine sizes.

use super::measured::{Measured, Size};
use super::paper::{BATCHES, STEPS, WIDTHS};
use crate::cost::grnn::Cell;
use crate::error::Result;
use crate::plot::{Bar, Bars, Field, Group};

/// A drawing with a panel for each width and a group for each batch. `values` has a bar for each series, and is given the places of both in the
/// paper's tables.
pub fn by_size(
    [title, value, panel]: [&str; 3],
    series: Vec<String>,
    values: impl Fn(usize, usize) -> Result<Vec<Option<f64>>>,
) -> Result<Bars> {
    let mut fields = Vec::new();
    for (w, width) in WIDTHS.into_iter().enumerate() {
        let of_batch = |(b, batch): (usize, u32)| Ok(group(batch.to_string(), values(w, b)?));
        let groups = BATCHES.into_iter().enumerate().map(of_batch).collect::<Result<_>>()?;
        fields.push(Field { name: format!("{panel} of {width}"), groups });
    }
    Ok(Bars {
        title: Some(title.into()),
        across: "Batch".into(),
        value: value.into(),
        series,
        fields,
        ..Bars::default()
    })
}

/// The same of a GPU that was measured, in a drawing of its own: its times and those of the paper's GPU have little to say to each other. `of` gives
/// what milliseconds come to at these places.
pub fn measured_by_size(
    own: &Measured,
    cell: Cell,
    [title, value, panel]: [&str; 3],
    of: impl Fn(usize, usize, f64) -> f64,
) -> Result<Bars> {
    by_size([&format!("{title}, {}", own.short()), value, panel], own.labels(cell), |w, b| {
        Ok(own.times(size(cell, w, b)).into_iter().map(|ms| ms.map(|ms| of(w, b, ms))).collect())
    })
}

/// A group of bars; nothing stands where there is no value.
pub fn group(name: String, values: Vec<Option<f64>>) -> Group {
    let bar = |value: Option<f64>| value.map(|value| Bar { value, upto: None });
    Group { name, bars: values.into_iter().map(bar).collect() }
}

/// The names of series.
pub fn names(series: &[&str]) -> Vec<String> {
    series.iter().map(ToString::to_string).collect()
}

/// The size at these places of the paper's tables.
pub fn size(cell: Cell, w: usize, b: usize) -> Size {
    Size { cell, hidden: WIDTHS[w], batch: BATCHES[b], steps: STEPS }
}
