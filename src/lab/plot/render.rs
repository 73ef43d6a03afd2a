//! A drawing as SVG or PNG.

use ab_glyph::Font as _;
use plotters::prelude::{BitMapBackend, DrawingBackend, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, FontTransform, ShapeStyle, TextStyle,
};

use super::canvas::{Align, Canvas, CanvasMark, Point, TextMark};
use super::face::Face;
use super::look::{Length, PictureFormat};
use super::style::{PAPER, Rgb};
use crate::base::error::{Error, Result};

/// The pixels of a unit in an SVG. plotters rounds coordinates to pixels, so the SVG is drawn ten times larger than its
/// stated size.
const SVG_PIXELS: f64 = 10.0;
/// The pixels of a PNG for an inch in print.
const PNG_PIXELS: f64 = 432.0;
/// The most pixels on the longer side of a PNG. A larger figure has fewer pixels per inch.
const MOST_PIXELS: f64 = 6000.0;
/// The side of the square of drawn pixels whose mean is a PNG pixel, because plotters does not smooth edges.
const OVERSAMPLING: usize = 2;

/// Draws a figure as an SVG.
pub fn svg(canvas: &Canvas) -> Result<String> {
    let [width, height] = pixels(canvas, SVG_PIXELS);
    let mut document = String::new();
    let painter = SVGBackend::with_string(&mut document, (width, height));
    paint(canvas, painter, SVG_PIXELS, |painter, text| {
        write_text(painter, text, &canvas.sheet.face.families())
    })?;
    let drawn_size = format!("width=\"{width}\" height=\"{height}\"");
    let [width, height] = [canvas.width, canvas.height].map(|side| stated_side(canvas, side));
    let stated_size = format!("width=\"{width}\" height=\"{height}\"");
    Ok(document.replacen(&drawn_size, &stated_size, 1))
}

/// A side as the SVG states it: in points if the user asked for a size, otherwise in pixels.
fn stated_side(canvas: &Canvas, side: f64) -> String {
    if canvas.sheet.is_sized {
        Length(side * canvas.sheet.unit).to_string()
    } else {
        side.to_string()
    }
}

/// Draws a figure as a PNG.
pub fn png(canvas: &Canvas) -> Result<Vec<u8>> {
    let sheet = &canvas.sheet;
    sheet.face.font_bytes(PictureFormat::Png)?;
    let longer_side = canvas.width.max(canvas.height);
    let unit = (sheet.unit / 72.0 * PNG_PIXELS).min(MOST_PIXELS / longer_side);
    let size = pixels(canvas, unit);
    let [width, height] = size.map(|side| side * OVERSAMPLING as u32);
    let mut drawn = vec![255; width as usize * height as usize * 3];
    let scale = unit * OVERSAMPLING as f64;
    let painter = BitMapBackend::with_buffer(&mut drawn, (width, height));
    paint(canvas, painter, scale, |painter, text| {
        paint_text(painter, text, scale, &sheet.face)
    })?;
    let image = average(&drawn, width as usize);
    let per_metre = unit / sheet.unit * 72.0 / 0.0254;
    encode(&image, size, per_metre.round() as u32)
        .map_err(|cause| Error::failure(format!("the PNG cannot be encoded: {cause}")))
}

fn pixels(canvas: &Canvas, unit: f64) -> [u32; 2] {
    [canvas.width, canvas.height].map(|side| (side * unit).round() as u32)
}

/// Makes a pixel of each square of drawn pixels. `width` is the width of the drawn pixels.
fn average(drawn: &[u8], width: usize) -> Vec<u8> {
    const SQUARE: usize = OVERSAMPLING * OVERSAMPLING;
    let mut image = Vec::with_capacity(drawn.len() / SQUARE);
    for rows in drawn.chunks_exact(3 * width * OVERSAMPLING) {
        for column in 0..width / OVERSAMPLING {
            for channel in 0..3 {
                let mut sum = 0;
                for row in 0..OVERSAMPLING {
                    for offset in 0..OVERSAMPLING {
                        let place = width * row + column * OVERSAMPLING + offset;
                        sum += usize::from(rows[3 * place + channel]);
                    }
                }
                image.push((sum / SQUARE) as u8);
            }
        }
    }
    image
}

fn encode(
    image: &[u8],
    [width, height]: [u32; 2],
    per_metre: u32,
) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Best);
    // Flat areas and sharp letters give the smallest files without a filter.
    encoder.set_filter(png::FilterType::NoFilter);
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image)?;
    writer.finish()?;
    Ok(file)
}

/// Paints the marks of a figure. `unit` has the pixels of a unit. The format's own function paints texts.
fn paint<B: DrawingBackend>(
    canvas: &Canvas,
    mut painter: B,
    unit: f64,
    mut text: impl FnMut(&mut B, &TextMark) -> Result<()>,
) -> Result<()> {
    let paper = ShapeStyle::from(rgb(PAPER)).filled();
    let corner = pixel((canvas.width, canvas.height), unit);
    painter
        .draw_rect((0, 0), corner, &paper, true)
        .map_err(drawing_error)?;
    for mark in &canvas.marks {
        match mark {
            CanvasMark::Line(points, color, width) => {
                let style = rgb(*color).stroke_width((width * unit).round().max(1.0) as u32);
                let mut path: Vec<(i32, i32)> =
                    points.iter().map(|point| pixel(*point, unit)).collect();
                path.dedup();
                if path.len() > 1 {
                    painter.draw_path(path, &style).map_err(drawing_error)?;
                }
            }
            CanvasMark::Area(points, color) => {
                let style = ShapeStyle::from(rgb(*color)).filled();
                let corners = points.iter().map(|point| pixel(*point, unit));
                painter
                    .fill_polygon(corners, &style)
                    .map_err(drawing_error)?;
            }
            CanvasMark::Text(words) => text(&mut painter, words)?,
        }
    }
    painter.present().map_err(drawing_error)
}

fn pixel((x, y): Point, unit: f64) -> (i32, i32) {
    ((x * unit).round() as i32, (y * unit).round() as i32)
}

fn write_text(painter: &mut SVGBackend<'_>, text: &TextMark, families: &str) -> Result<()> {
    // plotters' font size and its distance from the point to the baseline, for one em.
    const FONT_SIZE: f64 = 1.24;
    const RISE: f64 = 0.76;
    let font = FontDesc::new(
        FontFamily::Name(families),
        FONT_SIZE * text.size * SVG_PIXELS,
        FontStyle::Normal,
    );
    let (x, y) = text.at;
    let rise = RISE * text.size;
    let (font, at, side) = match text.align {
        Align::Left => (font, (x, y - rise), HPos::Left),
        Align::Center => (font, (x, y - rise), HPos::Center),
        Align::Right => (font, (x, y - rise), HPos::Right),
        Align::Upright => (
            font.transform(FontTransform::Rotate270),
            (x - rise, y),
            HPos::Center,
        ),
    };
    let style = TextStyle {
        font,
        color: rgb(text.color).to_backend_color(),
        pos: Pos::new(side, VPos::Top),
    };
    painter
        .draw_text(&text.words, &style, pixel(at, SVG_PIXELS))
        .map_err(drawing_error)
}

/// Paints a text letter by letter, because plotters' own texts lack the space on the left of each letter.
fn paint_text(
    painter: &mut BitMapBackend<'_>,
    text: &TextMark,
    unit: f64,
    face: &Face,
) -> Result<()> {
    let (glyphs, width) = face.place_glyphs(&text.words, (text.size * unit) as f32);
    let before = match text.align {
        Align::Left => 0,
        Align::Center | Align::Upright => (width / 2.0).round() as i32,
        Align::Right => width.round() as i32,
    };
    let (x, y) = pixel(text.at, unit);
    let mut done = Ok(());
    for glyph in glyphs {
        let Some(letter) = face.font().outline_glyph(glyph) else {
            continue;
        };
        let corner = letter.px_bounds().min;
        letter.draw(|column, row, coverage| {
            let along = corner.x as i32 + column as i32 - before;
            let below = corner.y as i32 + row as i32;
            let at = if text.align == Align::Upright {
                (x + below, y - along)
            } else {
                (x + along, y + below)
            };
            if done.is_ok() && coverage > 0.0 {
                let color = rgb(text.color).mix(f64::from(coverage.min(1.0)));
                done = painter
                    .draw_pixel(at, color.to_backend_color())
                    .map_err(drawing_error);
            }
        });
    }
    done
}

fn drawing_error(cause: impl std::fmt::Display) -> Error {
    Error::failure(format!("the figure cannot be drawn: {cause}"))
}

fn rgb((red, green, blue): Rgb) -> RGBColor {
    RGBColor(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::Stroke;

    fn sketch() -> Canvas {
        let mut canvas = Canvas::with_size(60.0, 40.0);
        canvas.line(&[(5.0, 5.0), (50.0, 30.0)], Stroke::solid((0, 0, 0), 2.0));
        canvas.text("a < b", (30.0, 20.0), 10.0, Align::Center, (0, 0, 0));
        canvas
    }

    #[test]
    fn an_svg_says_its_size_in_units_and_draws_in_tenths() {
        let document = svg(&sketch()).unwrap();
        assert!(
            document.starts_with("<svg width=\"60\" height=\"40\" viewBox=\"0 0 600 400\""),
            "{document}"
        );
        assert!(document.contains("a &lt; b"));
        assert!(document.contains("font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\""));
    }

    #[test]
    fn a_png_has_three_pixels_for_half_a_point() {
        let file = png(&sketch()).unwrap();
        let reader = png::Decoder::new(file.as_slice()).read_info().unwrap();
        assert_eq!(reader.info().size(), (180, 120));
    }

    #[test]
    fn the_same_drawing_gives_the_same_bytes() {
        assert_eq!(svg(&sketch()).unwrap(), svg(&sketch()).unwrap());
        assert_eq!(png(&sketch()).unwrap(), png(&sketch()).unwrap());
    }

    #[test]
    fn a_text_covers_pixels_on_the_right_side_of_its_place() {
        let covered = |align| {
            let mut canvas = Canvas::with_size(100.0, 100.0);
            canvas.text("HHH", (50.0, 50.0), 10.0, align, (0, 0, 0));
            let mut drawn = vec![255; 100 * 100 * 3];
            paint(
                &canvas,
                BitMapBackend::with_buffer(&mut drawn, (100, 100)),
                1.0,
                |painter, text| paint_text(painter, text, 1.0, &Face::default()),
            )
            .unwrap();
            let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, usize::MAX, 0);
            for i in (0..100 * 100).filter(|i| drawn[3 * i] < 255) {
                (left, right) = (left.min(i % 100), right.max(i % 100));
                (top, bottom) = (top.min(i / 100), bottom.max(i / 100));
            }
            (left, right, top, bottom)
        };
        let (left, right, top, bottom) = covered(Align::Left);
        assert!(
            left >= 50 && right <= 73 && top >= 42 && bottom <= 50,
            "{left} {right} {top} {bottom}"
        );
        let (left, right, ..) = covered(Align::Right);
        assert!(left >= 27 && right <= 50, "{left} {right}");
        let (left, right, top, bottom) = covered(Align::Upright);
        assert!(
            left >= 42 && right <= 50 && top >= 38 && bottom <= 62,
            "{left} {right} {top} {bottom}"
        );
    }
}
