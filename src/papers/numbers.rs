//! Means and ranges of numbers.

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The least and the greatest value.
pub fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut least = f64::INFINITY;
    let mut greatest = f64::NEG_INFINITY;
    for value in values {
        least = value.min(least);
        greatest = value.max(greatest);
    }
    (least, greatest)
}
