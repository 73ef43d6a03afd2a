//! What a figure is drawn on: its size, the size and font of its letters, and where its legend stands.

use super::face::Face;
use super::look::{Legend, Look};
use super::style::SMALL;

/// The points of a unit. With it the letters of ticks and legends have 7.5 points.
const UNIT: f64 = 0.5;
/// The width without an option, in points: a column of 8.5 cm.
const WIDTH: f64 = 240.0;

/// Sizes are in units: the letters of ticks and legends have [`SMALL`] of them, whatever the figure's size in print.
#[derive(Clone, Debug)]
pub struct Sheet {
    pub width: f64,
    /// `None`: what the content needs.
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
        Sheet::of(&Look::default(), Face::default())
    }
}

impl Sheet {
    pub fn of(look: &Look, face: Face) -> Sheet {
        let unit = look.font_size.map_or(UNIT, |letters| letters.0 / SMALL);
        Sheet {
            width: look.width.map_or(WIDTH, |width| width.0) / unit,
            height: look.height.map(|height| height.0 / unit),
            unit,
            is_sized: look.width.is_some() || look.height.is_some() || look.font_size.is_some(),
            face,
            legend: look.legend.unwrap_or_default(),
        }
    }
}
