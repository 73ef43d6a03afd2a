//! Colours, dashes, markers and sizes. Series differ in all of them, for colour-blind readers and black and white.

pub type Rgb = (u8, u8, u8);

/// Ticks and legends, in units.
pub const SMALL: f64 = 15.0;
pub const MEDIUM: f64 = 16.0;
pub const LARGE: f64 = 17.0;

pub const INK: Rgb = (30, 30, 30);
/// Such as an SLO.
pub const REFERENCE: Rgb = (110, 110, 110);
pub const GRID: Rgb = (222, 222, 222);
pub const PAPER: Rgb = (255, 255, 255);

/// Okabe and Ito's palette, without the yellow, too faint on white.
const COLORS: [Rgb; 7] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (0, 0, 0),
];

/// The same, darker: for an eighth series and more.
const DARK: [Rgb; 7] = [
    (0, 62, 98),
    (122, 54, 0),
    (0, 90, 66),
    (122, 52, 92),
    (138, 94, 0),
    (30, 98, 134),
    (128, 128, 128),
];

/// In units; the first is solid.
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

/// Circle, square, triangle up, diamond, triangle down, triangle left, pentagon, triangle right.
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

/// Strokes in a bar: none, from the lower left, from the upper left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hatch {
    Plain,
    Rising,
    Falling,
}

const HATCHES: [Hatch; 3] = [Hatch::Plain, Hatch::Rising, Hatch::Falling];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    pub color: Rgb,
    pub dash: &'static [f64],
    pub marker: Marker,
    pub hatch: Hatch,
}

impl Style {
    /// The first 840 styles differ.
    pub fn of(series: usize) -> Style {
        Style {
            color: if (series / COLORS.len()).is_multiple_of(2) {
                COLORS
            } else {
                DARK
            }[series % COLORS.len()],
            dash: DASHES[series % DASHES.len()],
            marker: MARKERS[series % MARKERS.len()],
            hatch: HATCHES[series % HATCHES.len()],
        }
    }
}

/// Mixed with paper: 0 gives the paper, 1 the colour.
pub fn tint(color: Rgb, strength: f64) -> Rgb {
    let mix = |c: u8| (255.0 - (255.0 - f64::from(c)) * strength).round() as u8;
    (mix(color.0), mix(color.1), mix(color.2))
}

/// The colour and the strength that give this tint.
pub fn untinted(tinted: Rgb) -> Option<(Rgb, f64)> {
    let from_paper =
        |(red, green, blue): Rgb| 765.0 - f64::from(red) - f64::from(green) - f64::from(blue);
    COLORS.into_iter().chain(DARK).find_map(|color| {
        let strength = (from_paper(tinted) / from_paper(color) * 100.0).round() / 100.0;
        (tint(color, strength) == tinted).then_some((color, strength))
    })
}

impl Marker {
    /// Around the origin.
    pub fn outline(self, radius: f64) -> impl Iterator<Item = (f64, f64)> {
        (0..self.corners).map(move |i| {
            let angle =
                (self.first_degrees + 360.0 * f64::from(i) / f64::from(self.corners)).to_radians();
            (
                radius * self.scale * angle.cos(),
                radius * self.scale * angle.sin(),
            )
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
                assert_ne!(Style::of(i).marker, Style::of(j).marker);
            }
            let (a, b) = (Style::of(i), Style::of(i + 1));
            assert!(a.color != b.color && a.dash != b.dash && a.hatch != b.hatch);
        }
        for (i, j) in (0..28).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let (a, b) = (Style::of(i), Style::of(j));
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
            assert_eq!(untinted(tint(color, 0.3)), Some((color, 0.3)));
            assert_eq!(untinted(color), Some((color, 1.0)));
        }
        assert_eq!(untinted((1, 200, 3)), None);
    }
}
