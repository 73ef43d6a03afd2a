//! A drawing as PDF. Its texts are texts of an embedded part of the font, so they can be searched and edited.

mod font;

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::LineJoinStyle;
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Settings, Str, TextStr};

use super::canvas::{Align, Canvas, CanvasMark, Point, TextMark};
use super::face::Face;
use super::style::Rgb;
use crate::base::error::Result;
use font::FontSubset;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);

/// The name by which texts refer to the font.
const FONT_NAME: Name = Name(b"F");

/// Draws a figure as a PDF.
pub fn pdf(canvas: &Canvas) -> Result<Vec<u8>> {
    let mut font = FontSubset::new(&canvas.sheet.face)?;
    let content = draw_marks(canvas, &mut font);
    let mut document = Pdf::with_settings(Settings { pretty: false });
    write_page(&mut document, canvas, &content);
    font.embed(&mut document)?;
    Ok(document.finish())
}

fn write_page(document: &mut Pdf, canvas: &Canvas, content: &[u8]) {
    document.catalog(CATALOG).pages(PAGES);
    document.pages(PAGES).kids([PAGE]).count(1);
    let [width, height] = [canvas.width, canvas.height].map(|side| points(canvas, side));
    let mut page = document.page(PAGE);
    page.parent(PAGES)
        .media_box(Rect::new(0.0, 0.0, width, height))
        .contents(CONTENT);
    page.resources().fonts().pair(FONT_NAME, font::FONT);
    page.finish();
    document
        .stream(CONTENT, &compress(content))
        .filter(Filter::FlateDecode);
}

/// A length of the canvas in points.
fn points(canvas: &Canvas, length: f64) -> f32 {
    length as f32 * canvas.sheet.unit as f32
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed
        .write_all(bytes)
        .and_then(|()| packed.finish())
        .expect("a vector takes all bytes")
}

/// The operators that draw the marks, in the coordinates of the canvas, whose y axis points down.
fn draw_marks(canvas: &Canvas, font: &mut FontSubset<'_>) -> Vec<u8> {
    let unit = points(canvas, 1.0);
    let mut content = Content::new();
    content
        .transform([unit, 0.0, 0.0, -unit, 0.0, points(canvas, canvas.height)])
        .set_line_join(LineJoinStyle::RoundJoin);
    for mark in &canvas.marks {
        match mark {
            CanvasMark::Line(corners, color, width) => {
                draw_line(&mut content, corners, *color, *width);
            }
            CanvasMark::Area(corners, color) => draw_area(&mut content, corners, *color),
            CanvasMark::Text(text) => write_text(&mut content, text, &canvas.sheet.face, font),
        }
    }
    content.finish().into_vec()
}

fn draw_line(content: &mut Content, corners: &[Point], color: Rgb, width: f64) {
    if extent(corners) == [0.0, 0.0] {
        return;
    }
    let [red, green, blue] = shares(color);
    content
        .set_stroke_rgb(red, green, blue)
        .set_line_width(width as f32);
    trace(content, corners);
    content.stroke();
}

fn draw_area(content: &mut Content, corners: &[Point], color: Rgb) {
    // Viewers show an area without a width or a height as a thin line.
    if extent(corners).contains(&0.0) {
        return;
    }
    set_fill(content, color);
    trace(content, corners);
    content.close_path().fill_nonzero();
}

fn trace(content: &mut Content, corners: &[Point]) {
    for (i, &(x, y)) in corners.iter().enumerate() {
        if i == 0 {
            content.move_to(x as f32, y as f32);
        } else {
            content.line_to(x as f32, y as f32);
        }
    }
}

/// The width and the height of the smallest upright rectangle around points, as exact as a PDF has them.
fn extent(corners: &[Point]) -> [f32; 2] {
    let Some(&(x, y)) = corners.first() else {
        return [0.0, 0.0];
    };
    let mut low = [x as f32, y as f32];
    let mut high = low;
    for &(x, y) in corners {
        low = [low[0].min(x as f32), low[1].min(y as f32)];
        high = [high[0].max(x as f32), high[1].max(y as f32)];
    }
    [high[0] - low[0], high[1] - low[1]]
}

fn set_fill(content: &mut Content, color: Rgb) {
    let [red, green, blue] = shares(color);
    content.set_fill_rgb(red, green, blue);
}

/// A colour as shares of full light.
fn shares((red, green, blue): Rgb) -> [f32; 3] {
    [red, green, blue].map(|share| f32::from(share) / 255.0)
}

fn write_text(content: &mut Content, text: &TextMark, face: &Face, font: &mut FontSubset<'_>) {
    let size = text.size as f32;
    let (placed, width) = face.place_glyphs(&text.words, size);
    let glyphs: Vec<u16> = text
        .words
        .chars()
        .zip(&placed)
        .map(|(letter, glyph)| font.add(glyph.id, letter))
        .collect();
    let is_spelt = font.spells(&glyphs, &text.words);
    if !is_spelt {
        content
            .begin_marked_content_with_properties(Name(b"Span"))
            .properties()
            .actual_text(TextStr(&text.words));
    }
    set_fill(content, text.color);
    content
        .begin_text()
        .set_font(FONT_NAME, size)
        .set_text_matrix(text_matrix(text, width));
    let places = placed.iter().map(|glyph| glyph.position.x / size);
    show_glyphs(content, glyphs.into_iter().zip(places), font);
    content.end_text();
    if !is_spelt {
        content.end_marked_content();
    }
}

/// The transformation from a text, which begins at the origin and whose y axis points up, to the canvas.
fn text_matrix(text: &TextMark, width: f32) -> [f32; 6] {
    let x = text.at.0 as f32;
    let y = text.at.1 as f32;
    match text.align {
        Align::Left => [1.0, 0.0, 0.0, -1.0, x, y],
        Align::Center => [1.0, 0.0, 0.0, -1.0, x - width / 2.0, y],
        Align::Right => [1.0, 0.0, 0.0, -1.0, x - width, y],
        Align::Upright => [0.0, -1.0, -1.0, 0.0, x, y + width / 2.0],
    }
}

/// Shows glyphs, each at its place in units of the text's size. Gaps, such as those of kerning, are rounded to
/// thousandths of the size.
fn show_glyphs(
    content: &mut Content,
    glyphs: impl Iterator<Item = (u16, f32)>,
    font: &FontSubset<'_>,
) {
    let mut shown = content.show_positioned();
    let mut items = shown.items();
    let mut codes: Vec<u8> = Vec::new();
    // The place at which a viewer puts the next glyph without a gap.
    let mut next = 0.0;
    for (glyph, place) in glyphs {
        let gap = (place * font::UNITS - next).round();
        if gap != 0.0 {
            items.show(Str(&codes)).adjust(-gap);
            codes.clear();
        }
        codes.extend(glyph.to_be_bytes());
        next += gap + font.advance(glyph);
    }
    items.show(Str(&codes));
}

#[cfg(test)]
mod tests;
