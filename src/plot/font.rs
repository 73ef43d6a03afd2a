//! The embedded font: how wide texts are, and which pixels they cover. No font of the system is looked for.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont};

use super::canvas::Text;

/// The font, and what an SVG viewer without it takes instead; the second has the same widths.
pub const FAMILIES: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

static FONT: LazyLock<FontRef<'static>> =
    LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::regular()).expect("the embedded font can be read"));

/// Whether the font has the letter.
pub fn has(letter: char) -> bool {
    FONT.glyph_id(letter).0 != 0
}

/// The width of a text whose em has this size, in the same unit.
pub fn text_width(words: &str, size: f64) -> f64 {
    f64::from(placed(words, size as f32).1)
}

/// The text, or as much of its beginning as fits, with an ellipsis.
pub fn fitted(words: &str, size: f64, width: f64) -> String {
    if text_width(words, size) <= width {
        return words.to_string();
    }
    let mut kept: Vec<char> = words.chars().collect();
    while kept.pop().is_some() {
        let shorter = format!("{}…", kept.iter().collect::<String>().trim_end());
        if text_width(&shorter, size) <= width {
            return shorter;
        }
    }
    String::new()
}

/// Calls `cover` with each pixel that a text covers and with how much of it, from 0 to 1.
pub fn rasterize(text: &Text, pixels_per_unit: f64, mut cover: impl FnMut(i32, i32, f32)) {
    let (glyphs, width) = placed(&text.words, (text.size * pixels_per_unit) as f32);
    let (x, y) = (text.at.0 * pixels_per_unit, text.at.1 * pixels_per_unit);
    let (x, y) = (x.round() as i32, y.round() as i32);
    let before = (f64::from(width) * text.align.share_before()).round() as i32;
    for outlined in glyphs.into_iter().filter_map(|glyph| FONT.outline_glyph(glyph)) {
        let corner = outlined.px_bounds().min;
        outlined.draw(|column, row, coverage| {
            let along = corner.x as i32 + column as i32 - before;
            let below = corner.y as i32 + row as i32;
            let (x, y) = if text.upright { (x + below, y - along) } else { (x + along, y + below) };
            cover(x, y, coverage.clamp(0.0, 1.0));
        });
    }
}

/// The glyphs of a text from the origin on, and the width of all.
fn placed(words: &str, size: f32) -> (Vec<Glyph>, f32) {
    // A font's scale is the height from its deepest to its highest letter, not the em.
    let em = FONT.units_per_em().unwrap_or(FONT.height_unscaled());
    let scale = PxScale::from(size * FONT.height_unscaled() / em);
    let font = FONT.as_scaled(scale);
    let mut x = 0.0;
    let mut glyphs: Vec<Glyph> = Vec::with_capacity(words.len());
    for letter in words.chars() {
        let id = font.glyph_id(letter);
        if let Some(before) = glyphs.last() {
            x += font.kern(before.id, id);
        }
        glyphs.push(id.with_scale_and_position(scale, ab_glyph::point(x, 0.0)));
        x += font.h_advance(id);
    }
    (glyphs, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::canvas::Align;

    #[test]
    fn text_is_as_wide_as_its_letters() {
        let (one, two) = (text_width("0", 10.0), text_width("00", 10.0));
        assert!((6.3..6.4).contains(&one), "{one}: a digit of DejaVu Sans is 0.636 em wide");
        assert!((two - 2.0 * one).abs() < 0.01);
        assert_eq!(fitted("cellular", 10.0, 100.0), "cellular");
        let short = fitted("a label that is far too long", 10.0, 50.0);
        assert!(short.ends_with('…') && text_width(&short, 10.0) <= 50.0);
    }

    #[test]
    fn a_text_covers_pixels_on_the_right_side_of_its_place() {
        let covered = |align, upright| {
            let text = Text { words: "HHH".into(), at: (50.0, 50.0), size: 10.0, align, upright, color: (0, 0, 0) };
            let (mut left, mut right, mut top, mut bottom) = (i32::MAX, i32::MIN, i32::MAX, i32::MIN);
            rasterize(&text, 1.0, |x, y, coverage| {
                if coverage > 0.0 {
                    (left, right) = (left.min(x), right.max(x));
                    (top, bottom) = (top.min(y), bottom.max(y));
                }
            });
            (left, right, top, bottom)
        };
        let (left, right, top, bottom) = covered(Align::Left, false);
        assert!(left >= 50 && right <= 73 && top >= 42 && bottom <= 50, "{left} {right} {top} {bottom}");
        let (left, right, ..) = covered(Align::Right, false);
        assert!(left >= 27 && right <= 50, "{left} {right}");
        let (left, right, top, bottom) = covered(Align::Center, true);
        assert!(left >= 42 && right <= 50 && top >= 38 && bottom <= 62, "{left} {right} {top} {bottom}");
    }
}
