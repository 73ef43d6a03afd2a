//! A point of a curve, and the signs that its marker has.

use crate::base::error::Result;
use crate::lab::results::read::CsvRow;

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// Whether the point has a marker. A page shows the values of the others, too.
    pub marked: bool,
    /// Whether the run was saturated; its marker is hollow.
    pub saturated: bool,
    /// Whether requests were turned away; a bar crosses the marker.
    pub rejected: bool,
    /// Whether the load generator was late; a cross lies over the marker.
    pub invalid: bool,
    /// The median and the 99th percentile, which a line joins.
    pub span: Option<[f64; 2]>,
    /// The ends of the 95 % interval of y over replications.
    pub interval: Option<[f64; 2]>,
    /// The ends of the 95 % interval of x over replications.
    pub across: Option<[f64; 2]>,
    /// The number of clients of a closed loop.
    pub clients: Option<u32>,
}

impl Dot {
    /// A point whose marker shows how the run of this row went.
    pub fn from_row(row: &CsvRow<'_>, x: f64, y: f64) -> Result<Dot> {
        let clients = match row.point()?.strip_prefix("clients-") {
            Some(clients) => clients.parse().ok(),
            None => None,
        };
        Ok(Dot {
            x,
            y,
            marked: true,
            saturated: row.is_saturated()?,
            rejected: row.rejects()?,
            invalid: !row.is_valid()?,
            clients,
            ..Dot::default()
        })
    }
}

/// What a marker shows of its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkerSigns {
    /// The run was saturated: the marker is hollow.
    pub saturated: bool,
    /// Requests were turned away: a bar crosses the marker.
    pub rejected: bool,
    /// The value lies above the axis: the marker has an arrow.
    pub above: bool,
    /// The load generator was late: a cross lies over the marker.
    pub invalid: bool,
}
