//! The cost table: linear interpolation between integers, in exact arithmetic.

/// Rows `cell, batch, ns` in the order of the file.
#[derive(Clone, Debug)]
pub struct Costs(pub Vec<(String, u64, u64)>);

impl Costs {
    pub fn knows(&self, cell: &str) -> bool {
        self.0.iter().any(|(name, _, _)| name == cell)
    }

    /// The time of one batched cell.
    pub fn time(&self, cell: &str, batch: usize) -> u64 {
        let mut rows: Vec<(i128, i128)> = Vec::new();
        for (name, size, ns) in &self.0 {
            if name == cell {
                rows.push((i128::from(*size), i128::from(*ns)));
            }
        }
        rows.sort();
        assert!(!rows.is_empty(), "the cost table has no row of {cell}");
        let batch = batch as i128;
        let (first, last) = (rows[0], rows[rows.len() - 1]);

        let exact = if batch <= first.0 {
            first.1
        } else if rows.len() == 1 {
            half_up(first.1 * batch, first.0)
        } else if batch > last.0 {
            line(rows[rows.len() - 2], last, batch)
        } else {
            let above = rows
                .iter()
                .position(|row| row.0 >= batch)
                .expect("the batch is within the table");
            line(rows[above - 1], rows[above], batch)
        };
        u64::try_from(exact.max(0)).expect("a time fits into 64 bits")
    }
}

/// The line through two points, at `x`, rounded.
fn line(left: (i128, i128), right: (i128, i128), x: i128) -> i128 {
    let run = right.0 - left.0;
    half_up(left.1 * run + (right.1 - left.1) * (x - left.0), run)
}

/// `numerator / denominator` to the nearest whole number, a half upwards; the denominator is positive.
fn half_up(numerator: i128, denominator: i128) -> i128 {
    (2 * numerator + denominator).div_euclid(2 * denominator)
}

#[test]
fn lines_are_rounded_half_up() {
    let table = |rows: &[(u64, u64)]| {
        Costs(
            rows.iter()
                .map(|(b, ns)| ("c".to_string(), *b, *ns))
                .collect(),
        )
    };
    let two = table(&[(4, 10), (2, 5)]);
    assert_eq!([1, 2, 3, 4, 5].map(|b| two.time("c", b)), [5, 5, 8, 10, 13]);
    assert_eq!(
        [1, 2, 3, 5].map(|b| table(&[(2, 5)]).time("c", b)),
        [5, 5, 8, 13]
    );
    assert_eq!(
        [2, 3, 4].map(|b| table(&[(1, 9), (2, 5)]).time("c", b)),
        [5, 1, 0]
    );
}
