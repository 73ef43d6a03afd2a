//! Colours, dashes, markers and sizes. A series is told from another by all of them at once, so that a figure reads
//! the same to a colour-blind reader and on a black-and-white printer.

/// A colour: red, green, blue.
pub type Rgb = (u8, u8, u8);

/// The width of every figure, in units. One unit prints as 1/480 of a column: half a point in a column of 8.5 cm.
pub const WIDTH: f64 = 480.0;
/// The size of tick labels and legends: 7.5 points in print.
pub const SMALL: f64 = 15.0;
/// The size of axis labels.
pub const MEDIUM: f64 = 16.0;
/// The size of titles.
pub const LARGE: f64 = 17.0;

/// The colour of text and axes.
pub const INK: Rgb = (30, 30, 30);
/// The colour of reference lines, such as an SLO.
pub const REFERENCE: Rgb = (110, 110, 110);
/// The colour of the grid.
pub const GRID: Rgb = (222, 222, 222);
/// The colour of the paper.
pub const PAPER: Rgb = (255, 255, 255);

/// The colours of Okabe and Ito, without the yellow that is too faint for a line on white.
const COLORS: [Rgb; 7] =
    [(0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (0, 0, 0)];

/// Lengths of dashes and gaps, in units; the first is a solid line.
const DASHES: [&[f64]; 5] = [&[], &[9.0, 4.0], &[2.5, 2.5], &[10.0, 3.0, 2.5, 3.0], &[5.0, 2.5]];

/// The dash of reference lines.
pub const REFERENCE_DASH: &[f64] = &[4.0, 3.0];

/// The shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A circle.
    Circle,
    /// A square.
    Square,
    /// A triangle that points up.
    Up,
    /// A square on its corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// A triangle that points to the left.
    Left,
    /// A pentagon.
    Pentagon,
    /// A triangle that points to the right.
    Right,
}

const MARKERS: [Marker; 8] = [
    Marker::Circle,
    Marker::Square,
    Marker::Up,
    Marker::Diamond,
    Marker::Down,
    Marker::Left,
    Marker::Pentagon,
    Marker::Right,
];

/// The strokes in a filled area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hatch {
    /// A full area.
    Plain,
    /// Strokes from the lower left to the upper right.
    Rising,
    /// Strokes from the upper left to the lower right.
    Falling,
    /// Level strokes.
    Level,
}

const HATCHES: [Hatch; 4] = [Hatch::Plain, Hatch::Rising, Hatch::Falling, Hatch::Level];

/// How one series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// The colour of line, marker and area.
    pub color: Rgb,
    /// The line's dashes and gaps; none for a solid line.
    pub dash: &'static [f64],
    /// The shape at each point.
    pub marker: Marker,
    /// The strokes in its bars.
    pub hatch: Hatch,
}

impl Style {
    /// The style of the series with this number. The first 280 differ from one another.
    pub fn of(series: usize) -> Style {
        Style {
            color: COLORS[series % COLORS.len()],
            dash: DASHES[series % DASHES.len()],
            marker: MARKERS[series % MARKERS.len()],
            hatch: HATCHES[series % HATCHES.len()],
        }
    }
}

/// A colour mixed with paper: 0 is the paper, 1 the colour.
pub fn tint(color: Rgb, strength: f64) -> Rgb {
    let mix = |c: u8| (255.0 - (255.0 - f64::from(c)) * strength).round() as u8;
    (mix(color.0), mix(color.1), mix(color.2))
}

/// The outline of a marker around the origin, with a size that looks the same for every shape.
pub fn outline(marker: Marker, radius: f64) -> Vec<(f64, f64)> {
    let regular = |corners: u32, first_degrees: f64, scale: f64| {
        (0..corners)
            .map(|i| {
                let angle = (first_degrees + 360.0 * f64::from(i) / f64::from(corners)).to_radians();
                (radius * scale * angle.cos(), radius * scale * angle.sin())
            })
            .collect()
    };
    // The vertical axis points down, so 270 degrees is the top.
    match marker {
        Marker::Circle => regular(32, 0.0, 1.0),
        Marker::Square => regular(4, 45.0, 1.25),
        Marker::Up => regular(3, 270.0, 1.4),
        Marker::Diamond => regular(4, 0.0, 1.3),
        Marker::Down => regular(3, 90.0, 1.4),
        Marker::Left => regular(3, 180.0, 1.4),
        Marker::Pentagon => regular(5, 270.0, 1.15),
        Marker::Right => regular(3, 0.0, 1.4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_series_differ_in_marker_and_neighbours_in_everything() {
        for i in 0..8 {
            for j in 0..i {
                assert_ne!(Style::of(i).marker, Style::of(j).marker);
            }
            let (a, b) = (Style::of(i), Style::of(i + 1));
            assert!(a.color != b.color && a.dash != b.dash && a.hatch != b.hatch);
        }
    }

    #[test]
    fn a_tint_lies_between_paper_and_colour() {
        assert_eq!(tint((0, 114, 178), 0.0), PAPER);
        assert_eq!(tint((0, 114, 178), 1.0), (0, 114, 178));
        assert_eq!(tint((0, 0, 0), 0.5), (128, 128, 128));
    }
}
