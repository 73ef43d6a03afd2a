//! A drawing as PDF. Its texts are texts of an embedded part of the font, so they can be searched and edited.

use krilla::Document;
use krilla::color::rgb;
use krilla::geom::{Path, PathBuilder, Point as At, Transform};
use krilla::num::NormalizedF32;
use krilla::page::PageSettings;
use krilla::paint::{Fill, FillRule, LineCap, LineJoin, Stroke};
use krilla::surface::Surface;
use krilla::text::{Font, GlyphId, KrillaGlyph};

use super::canvas::{Align, Canvas, CanvasMark, Point, TextMark};
use super::face::Face;
use super::style::Rgb;
use crate::base::error::{Error, Result};

/// Draws a figure as a PDF.
pub fn pdf(canvas: &Canvas) -> Result<Vec<u8>> {
    let face = &canvas.sheet.face;
    let unit = canvas.sheet.unit as f32;
    let font = Font::new(face.font_bytes("PDF")?.to_vec().into(), 0)
        .ok_or_else(|| pdf_error("the font cannot be read"))?;
    let settings = PageSettings::from_wh(canvas.width as f32 * unit, canvas.height as f32 * unit)
        .ok_or_else(|| pdf_error("the figure has no size"))?;
    let mut document = Document::new();
    let mut page = document.start_page_with(settings);
    let mut surface = page.surface();
    surface.push_transform(&Transform::from_scale(unit, unit));
    for mark in &canvas.marks {
        match mark {
            CanvasMark::Line(points, color, width) => {
                draw_line(&mut surface, points, *color, *width)
            }
            CanvasMark::Area(points, color) => draw_area(&mut surface, points, *color),
            CanvasMark::Text(text) => write_text(&mut surface, text, &font, face),
        }
    }
    surface.pop();
    surface.finish();
    page.finish();
    document
        .finish()
        .map_err(|cause| pdf_error(&format!("{cause:?}")))
}

fn pdf_error(why: &str) -> Error {
    Error::failure(format!("the PDF cannot be written: {why}"))
}

fn draw_line(surface: &mut Surface<'_>, points: &[Point], color: Rgb, width: f64) {
    let stroke = Stroke {
        paint: paint(color).into(),
        width: width as f32,
        line_join: LineJoin::Round,
        line_cap: LineCap::Butt,
        ..Stroke::default()
    };
    surface.set_fill(None);
    surface.set_stroke(Some(stroke));
    if let Some(path) = path_through(points, false) {
        surface.draw_path(&path);
    }
}

fn draw_area(surface: &mut Surface<'_>, points: &[Point], color: Rgb) {
    surface.set_stroke(None);
    surface.set_fill(Some(fill(color)));
    if let Some(path) = path_through(points, true) {
        surface.draw_path(&path);
    }
}

fn write_text(surface: &mut Surface<'_>, text: &TextMark, font: &Font, face: &Face) {
    let size = text.size as f32;
    let (placed, width) = face.place_glyphs(&text.words, size);
    let mut glyphs: Vec<KrillaGlyph> = Vec::with_capacity(placed.len());
    for (i, (start, letter)) in text.words.char_indices().enumerate() {
        let glyph = &placed[i];
        let end = placed.get(i + 1).map_or(width, |next| next.position.x);
        let advance = (end - glyph.position.x) / size;
        glyphs.push(KrillaGlyph::new(
            GlyphId::new(glyph.id.0.into()),
            advance,
            0.0,
            0.0,
            0.0,
            start..start + letter.len_utf8(),
            None,
        ));
    }
    let before = match text.align {
        Align::Left => 0.0,
        Align::Center | Align::Upright => width / 2.0,
        Align::Right => width,
    };
    let turn = if text.align == Align::Upright {
        -90.0
    } else {
        0.0
    };
    surface.set_stroke(None);
    surface.set_fill(Some(fill(text.color)));
    surface.push_transform(&Transform::from_translate(
        text.at.0 as f32,
        text.at.1 as f32,
    ));
    surface.push_transform(&Transform::from_rotate(turn));
    surface.draw_glyphs(
        At::from_xy(-before, 0.0),
        &glyphs,
        font.clone(),
        &text.words,
        size,
        false,
    );
    surface.pop();
    surface.pop();
}

/// The path through points, or `None` if there are fewer than two.
fn path_through(points: &[Point], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        if i == 0 {
            path.move_to(x as f32, y as f32);
        } else {
            path.line_to(x as f32, y as f32);
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

fn fill(color: Rgb) -> Fill {
    Fill {
        paint: paint(color).into(),
        opacity: NormalizedF32::ONE,
        rule: FillRule::NonZero,
    }
}

fn paint((red, green, blue): Rgb) -> rgb::Color {
    rgb::Color::new(red, green, blue)
}
