//! What a figure is drawn on: its size, the size and font of its letters, and the place of its legend.

use super::face::Face;
use super::look::{Legend, Look};
use super::style::SMALL;

/// The points of a unit, unless a font size is asked for: the letters of ticks and legends then have 7.5 points.
const UNIT: f64 = 0.5;
/// The width in points, unless one is asked for: a column of 8.5 cm.
const WIDTH: f64 = 240.0;

/// The size and the letters of a figure. Sizes are in units: the letters of ticks and legends have [`SMALL`] units,
/// whatever the figure's size in print.
#[derive(Clone, Debug)]
pub struct Sheet {
    pub width: f64,
    /// The height that was asked for, or `None` for what the content needs.
    pub height: Option<f64>,
    /// The points of a unit.
    pub unit: f64,
    /// Whether a size was asked for; otherwise an SVG has a pixel for each unit, for screens.
    pub is_sized: bool,
    pub face: Face,
    pub legend: Legend,
}

impl Default for Sheet {
    fn default() -> Sheet {
        Sheet::new(&Look::default(), Face::default())
    }
}

impl Sheet {
    /// The sheet that a look asks for, with the font that was read for it.
    pub fn new(look: &Look, face: Face) -> Sheet {
        let unit = match look.font_size {
            Some(letters) => letters.0 / SMALL,
            None => UNIT,
        };
        let width = look.width.map_or(WIDTH, |width| width.0);
        Sheet {
            width: width / unit,
            height: look.height.map(|height| height.0 / unit),
            unit,
            is_sized: look.width.is_some() || look.height.is_some() || look.font_size.is_some(),
            face,
            legend: look.legend.unwrap_or_default(),
        }
    }
}
