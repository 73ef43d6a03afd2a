//! Colours, dashes, markers and sizes. Series differ in all of them, so that colour-blind readers and black-and-white
//! prints can tell them apart.

pub type Rgb = (u8, u8, u8);

/// The text size of ticks and legends, in units.
pub const SMALL: f64 = 15.0;
/// The text size of headings and of the labels of axes.
pub const MEDIUM: f64 = 16.0;
/// The text size of titles.
pub const LARGE: f64 = 17.0;

/// The distance between a figure's border and its content.
pub const PADDING: f64 = 8.0;

/// The width of a series' line.
pub const LINE_WIDTH: f64 = 2.2;
/// The width of lines to saturated runs, whose latency shows only how long they were.
pub const SATURATED_WIDTH: f64 = 0.8;
/// The width of whiskers.
pub const WHISKER_WIDTH: f64 = 1.4;
/// The width of a line next to whiskers that have another meaning.
pub const SPAN_WIDTH: f64 = 0.9;

pub const INK: Rgb = (30, 30, 30);
/// The colour of values that are not measured, such as an objective.
pub const REFERENCE: Rgb = (110, 110, 110);
pub const GRID: Rgb = (222, 222, 222);
pub const PAPER: Rgb = (255, 255, 255);

/// Okabe and Ito's palette without its yellow, which is too faint on white.
const COLORS: [Rgb; 7] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (0, 0, 0),
];

/// Darker tones of the same colours, for the eighth series and those after it.
const DARK: [Rgb; 7] = [
    (0, 62, 98),
    (122, 54, 0),
    (0, 90, 66),
    (122, 52, 92),
    (138, 94, 0),
    (30, 98, 134),
    (128, 128, 128),
];

/// Lengths of dashes and gaps in units. The first pattern is a solid line.
const DASHES: [&[f64]; 5] = [
    &[],
    &[9.0, 4.0],
    &[2.5, 2.5],
    &[10.0, 3.0, 2.5, 3.0],
    &[5.0, 2.5],
];

pub const REFERENCE_DASH: &[f64] = &[4.0, 3.0];

/// A regular polygon: the direction of its first corner in degrees (the vertical axis points down, so 270 is the
/// top), and a scale that makes all shapes look equally large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marker {
    corners: u32,
    first_degrees: f64,
    scale: f64,
}

/// The markers: circle, square, triangle up, diamond, triangle down, triangle left, pentagon, triangle right.
const MARKERS: [Marker; 8] = [
    Marker {
        corners: 32,
        first_degrees: 0.0,
        scale: 1.0,
    },
    Marker {
        corners: 4,
        first_degrees: 45.0,
        scale: 1.25,
    },
    Marker {
        corners: 3,
        first_degrees: 270.0,
        scale: 1.4,
    },
    Marker {
        corners: 4,
        first_degrees: 0.0,
        scale: 1.3,
    },
    Marker {
        corners: 3,
        first_degrees: 90.0,
        scale: 1.4,
    },
    Marker {
        corners: 3,
        first_degrees: 180.0,
        scale: 1.4,
    },
    Marker {
        corners: 5,
        first_degrees: 270.0,
        scale: 1.15,
    },
    Marker {
        corners: 3,
        first_degrees: 0.0,
        scale: 1.4,
    },
];

/// The strokes in a bar: none, rising from the lower left, or falling from the upper left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hatch {
    Plain,
    Rising,
    Falling,
}

const HATCHES: [Hatch; 3] = [Hatch::Plain, Hatch::Rising, Hatch::Falling];

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    pub color: Rgb,
    pub dash: &'static [f64],
    pub marker: Marker,
    pub hatch: Hatch,
}

impl Style {
    /// The style of the series with this number. The first 840 styles differ.
    pub fn number(series: usize) -> Style {
        let is_dark = !(series / COLORS.len()).is_multiple_of(2);
        let palette = if is_dark { DARK } else { COLORS };
        Style {
            color: palette[series % palette.len()],
            dash: DASHES[series % DASHES.len()],
            marker: MARKERS[series % MARKERS.len()],
            hatch: HATCHES[series % HATCHES.len()],
        }
    }
}

/// Mixes a colour with paper: strength 0 gives the paper, 1 the colour.
pub fn tint(color: Rgb, strength: f64) -> Rgb {
    let (red, green, blue) = color;
    (
        tint_channel(red, strength),
        tint_channel(green, strength),
        tint_channel(blue, strength),
    )
}

fn tint_channel(value: u8, strength: f64) -> u8 {
    (255.0 - (255.0 - f64::from(value)) * strength).round() as u8
}

/// The colour of the palette and the strength that give this tint.
pub fn untint(tinted: Rgb) -> Option<(Rgb, f64)> {
    for color in COLORS.into_iter().chain(DARK) {
        let ratio = distance_to_paper(tinted) / distance_to_paper(color);
        let strength = (ratio * 100.0).round() / 100.0;
        if tint(color, strength) == tinted {
            return Some((color, strength));
        }
    }
    None
}

fn distance_to_paper((red, green, blue): Rgb) -> f64 {
    765.0 - f64::from(red) - f64::from(green) - f64::from(blue)
}

impl Marker {
    /// The corners of the marker around the origin.
    pub fn outline(self, radius: f64) -> impl Iterator<Item = (f64, f64)> {
        let radius = radius * self.scale;
        (0..self.corners).map(move |i| {
            let degrees = self.first_degrees + 360.0 * f64::from(i) / f64::from(self.corners);
            let angle = degrees.to_radians();
            (radius * angle.cos(), radius * angle.sin())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_differ_in_colour_or_in_both_marker_and_dash() {
        for i in 0..8 {
            for j in 0..i {
                assert_ne!(Style::number(i).marker, Style::number(j).marker);
            }
            let a = Style::number(i);
            let b = Style::number(i + 1);
            assert!(a.color != b.color && a.dash != b.dash && a.hatch != b.hatch);
        }
        for (i, j) in (0..28).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let a = Style::number(i);
            let b = Style::number(j);
            assert!(
                a.color != b.color || a.marker != b.marker && a.dash != b.dash,
                "{i} and {j}"
            );
        }
    }

    #[test]
    fn a_tint_lies_between_paper_and_colour() {
        assert_eq!(tint((0, 114, 178), 0.0), PAPER);
        assert_eq!(tint((0, 114, 178), 1.0), (0, 114, 178));
        assert_eq!(tint((0, 0, 0), 0.5), (128, 128, 128));
        for color in COLORS {
            assert_eq!(untint(tint(color, 0.3)), Some((color, 0.3)));
            assert_eq!(untint(color), Some((color, 1.0)));
        }
        assert_eq!(untint((1, 200, 3)), None);
    }
}
