//! A drawing as SVG text or PNG bytes. The same drawing gives the same bytes.

use plotters::prelude::{BitMapBackend, DrawingBackend, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, FontTransform, ShapeStyle, TextStyle};

use super::canvas::{Align, Canvas, Mark, Point, Text};
use super::font::{FAMILIES, rasterize};
use super::style::{PAPER, Rgb};
use crate::error::{Error, Result};

/// Pixels of an SVG for one unit: the painter's coordinates are whole pixels, so it is drawn ten times as large as it
/// says that it is.
const SVG_PIXELS: f64 = 10.0;
/// Pixels of a PNG for one unit: 430 to the inch in a column of 8.5 cm.
const PNG_PIXELS: usize = 3;
/// Each pixel of a PNG is the mean of so many by so many that are drawn, because the painter's edges are jagged.
const OVERSAMPLING: usize = 2;

/// The drawing as an SVG document.
///
/// # Errors
/// When the painter fails.
pub fn svg(canvas: &Canvas) -> Result<String> {
    let (width, height) = pixels(canvas, SVG_PIXELS);
    let mut document = String::new();
    paint(canvas, &mut SVGBackend::with_string(&mut document, (width, height)), SVG_PIXELS, write_text)?;
    let drawn = format!("width=\"{width}\" height=\"{height}\"");
    let shown = format!("width=\"{}\" height=\"{}\"", canvas.width, canvas.height);
    Ok(document.replacen(&drawn, &shown, 1))
}

/// The drawing as a PNG file.
///
/// # Errors
/// When the painter or the encoder fails.
pub fn png(canvas: &Canvas) -> Result<Vec<u8>> {
    let unit = (PNG_PIXELS * OVERSAMPLING) as f64;
    let (width, height) = pixels(canvas, unit);
    let mut drawn = vec![255; width as usize * height as usize * 3];
    paint(canvas, &mut BitMapBackend::with_buffer(&mut drawn, (width, height)), unit, paint_text)?;
    let (image, width, height) = averaged(&drawn, width as usize, height as usize);
    encoded(&image, width, height).map_err(|cause| Error::failed(format!("the PNG cannot be encoded: {cause}")))
}

fn pixels(canvas: &Canvas, unit: f64) -> (u32, u32) {
    ((canvas.width * unit).round() as u32, (canvas.height * unit).round() as u32)
}

fn averaged(drawn: &[u8], width: usize, height: usize) -> (Vec<u8>, usize, usize) {
    let (columns, rows) = (width / OVERSAMPLING, height / OVERSAMPLING);
    let mut image = Vec::with_capacity(columns * rows * 3);
    for row in 0..rows {
        for column in 0..columns {
            for channel in 0..3 {
                let mut sum = 0;
                for y in row * OVERSAMPLING..(row + 1) * OVERSAMPLING {
                    for x in column * OVERSAMPLING..(column + 1) * OVERSAMPLING {
                        sum += u32::from(drawn[(y * width + x) * 3 + channel]);
                    }
                }
                image.push((sum / (OVERSAMPLING * OVERSAMPLING) as u32) as u8);
            }
        }
    }
    (image, columns, rows)
}

fn encoded(image: &[u8], width: usize, height: usize) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Best);
    // Flat areas and sharp letters are smallest as they are.
    encoder.set_filter(png::FilterType::NoFilter);
    // So that the picture has the width of a column when it is placed at its natural size.
    let per_metre = (super::style::WIDTH * PNG_PIXELS as f64 / 0.085).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit: png::Unit::Meter }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image)?;
    writer.finish()?;
    Ok(file)
}

/// Paints the marks with so many pixels for one unit. Texts are left to a function of the format.
fn paint<B: DrawingBackend>(
    canvas: &Canvas,
    painter: &mut B,
    unit: f64,
    text: fn(&mut B, &Text, f64) -> Result<()>,
) -> Result<()> {
    let at = |(x, y): Point| ((x * unit).round() as i32, (y * unit).round() as i32);
    let (width, height) = pixels(canvas, unit);
    let paper = ShapeStyle::from(rgb(PAPER)).filled();
    painter.draw_rect((0, 0), (width as i32, height as i32), &paper, true).map_err(failed)?;
    for mark in &canvas.marks {
        match mark {
            Mark::Line(points, color, width) => {
                let style = rgb(*color).stroke_width((width * unit).round().max(1.0) as u32);
                let mut path: Vec<(i32, i32)> = points.iter().map(|p| at(*p)).collect();
                path.dedup();
                if path.len() > 1 {
                    painter.draw_path(path, &style).map_err(failed)?;
                }
            }
            Mark::Area(points, color) => {
                let style = ShapeStyle::from(rgb(*color)).filled();
                painter.fill_polygon(points.iter().map(|p| at(*p)), &style).map_err(failed)?;
            }
            Mark::Text(words) => text(painter, words, unit)?,
        }
    }
    painter.present().map_err(failed)
}

/// A text that the viewer of the SVG sets.
fn write_text(painter: &mut SVGBackend<'_>, text: &Text, unit: f64) -> Result<()> {
    // What the painter calls the size of a font, and how far it sets the baseline below the place, both for one em.
    const SIZE: f64 = 1.24;
    const RISE: f64 = 0.76;
    let font = FontDesc::new(FontFamily::Name(FAMILIES), text.size * unit * SIZE, FontStyle::Normal);
    let rise = RISE * text.size;
    let (font, (x, y)) = match text.upright {
        false => (font, (text.at.0, text.at.1 - rise)),
        true => (font.transform(FontTransform::Rotate270), (text.at.0 - rise, text.at.1)),
    };
    let side = match text.align {
        Align::Left => HPos::Left,
        Align::Center => HPos::Center,
        Align::Right => HPos::Right,
    };
    let style = TextStyle { font, color: rgb(text.color).to_backend_color(), pos: Pos::new(side, VPos::Top) };
    let at = ((x * unit).round() as i32, (y * unit).round() as i32);
    painter.draw_text(&text.words, &style, at).map_err(failed)
}

/// A text in pixels. The painter's own texts leave out the space on the left of each letter.
fn paint_text(painter: &mut BitMapBackend<'_>, text: &Text, unit: f64) -> Result<()> {
    let (width, height) = painter.get_size();
    let color = rgb(text.color);
    let mut done = Ok(());
    rasterize(text, unit, |x, y, coverage| {
        if done.is_ok() && coverage > 0.0 && (0..width as i32).contains(&x) && (0..height as i32).contains(&y) {
            done = painter.draw_pixel((x, y), color.mix(f64::from(coverage)).to_backend_color()).map_err(failed);
        }
    });
    done
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::failed(format!("the figure cannot be drawn: {cause}"))
}

fn rgb((red, green, blue): Rgb) -> RGBColor {
    RGBColor(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::canvas::Stroke;

    fn sketch() -> Canvas {
        let mut canvas = Canvas::new(60.0, 40.0);
        canvas.line(&[(5.0, 5.0), (50.0, 30.0)], Stroke::solid((0, 0, 0), 2.0));
        canvas.text("a < b", (30.0, 20.0), 10.0, Align::Center, (0, 0, 0));
        canvas
    }

    #[test]
    fn an_svg_says_its_size_in_units_and_draws_in_tenths() {
        let document = svg(&sketch()).unwrap();
        assert!(document.starts_with("<svg width=\"60\" height=\"40\" viewBox=\"0 0 600 400\""), "{document}");
        assert!(document.contains("a &lt; b"));
        assert!(document.contains("font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\""));
    }

    #[test]
    fn a_png_has_three_pixels_a_unit() {
        let file = png(&sketch()).unwrap();
        let reader = png::Decoder::new(file.as_slice()).read_info().unwrap();
        assert_eq!(reader.info().size(), (180, 120));
    }

    #[test]
    fn the_same_drawing_gives_the_same_bytes() {
        assert_eq!(svg(&sketch()).unwrap(), svg(&sketch()).unwrap());
        assert_eq!(png(&sketch()).unwrap(), png(&sketch()).unwrap());
    }
}
