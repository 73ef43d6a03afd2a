//! A drawing as SVG in a page: in the page's colours, with series that it can hide and areas that show values.

use super::html::escape;
use crate::lab::plot::canvas::{Align, Canvas, CanvasMark, Point, Rect, TextMark};
use crate::lab::plot::style::{INK, Rgb, untint};

/// The SVG of a figure. The name is what screen readers read.
pub fn svg(canvas: &Canvas, name: &str) -> String {
    let mut text = format!(
        "<svg viewBox=\"0 0 {} {}\" aria-label=\"{}\">\n",
        canvas.width,
        canvas.height,
        escape(name)
    );
    let mut groups = canvas
        .groups
        .iter()
        .filter(|group| !group.marks.is_empty())
        .peekable();
    for (i, mark) in canvas.marks.iter().enumerate() {
        if let Some(group) = groups.peek()
            && group.marks.start == i
        {
            let class = if group.key.is_some() { "key" } else { "series" };
            let series = escape(&group.series);
            text += &format!("<g class=\"{class}\" data-series=\"{series}\">\n");
            if let Some(area) = &group.key {
                // A key can also be clicked between its strokes.
                text += &rect(area, "/>\n");
            }
        }
        text += &mark_svg(mark);
        if groups.next_if(|group| group.marks.end == i + 1).is_some() {
            text += "</g>\n";
        }
    }
    for spot in &canvas.spots {
        let series = escape(&spot.series);
        let values = escape(&spot.values);
        let rest = format!(
            " class=\"spot\" data-series=\"{series}\"><title>{series}\n{values}</title></rect>\n"
        );
        text += &rect(&spot.area, &rest);
    }
    text + "</svg>\n"
}

/// A transparent rectangle. `rest` follows its first attributes.
fn rect(area: &Rect, rest: &str) -> String {
    format!(
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"transparent\"{rest}",
        area.left,
        area.top,
        area.width().max(0.0),
        area.height().max(0.0)
    )
}

fn mark_svg(mark: &CanvasMark) -> String {
    match mark {
        CanvasMark::Line(points, rgb, width) => format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>\n",
            coordinates(points),
            color(*rgb)
        ),
        CanvasMark::Area(points, rgb) => format!(
            "<polygon points=\"{}\" fill=\"{}\"/>\n",
            coordinates(points),
            color(*rgb)
        ),
        CanvasMark::Text(text) => text_svg(text),
    }
}

fn coordinates(points: &[Point]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    points.join(" ")
}

fn text_svg(text: &TextMark) -> String {
    let (x, y) = text.at;
    let anchor = match text.align {
        Align::Left => "start",
        Align::Center | Align::Upright => "middle",
        Align::Right => "end",
    };
    let turn = if text.align == Align::Upright {
        format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
    } else {
        String::new()
    };
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{}\"{turn}>{}</text>\n",
        text.size,
        color(text.color),
        escape(&text.words)
    )
}

/// A colour as the page shows it. Greys are between the page's ink and its paper, which are swapped in dark mode. Tints
/// are between a colour and the paper.
fn color(rgb: Rgb) -> String {
    let (red, green, blue) = rgb;
    if red == green && green == blue {
        let strength = (255.0 - f64::from(red)) / (255.0 - f64::from(INK.0));
        return mix_with_paper("var(--ink)", strength);
    }
    match untint(rgb) {
        Some((color, strength)) if strength < 1.0 => mix_with_paper(&hex(color), strength),
        _ => hex(rgb),
    }
}

fn mix_with_paper(color: &str, share: f64) -> String {
    let percent = (100.0 * share).min(100.0);
    format!("color-mix(in srgb, {color} {percent:.0}%, var(--paper))")
}

fn hex((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::Stroke;
    use crate::lab::plot::style::{PAPER, tint};

    #[test]
    fn series_and_their_values_are_marked_and_escaped() {
        let mut canvas = Canvas::with_size(60.0, 40.0);
        canvas.line(&[(0.0, 0.0), (9.0, 9.0)], Stroke::solid(INK, 1.0));
        let stroke = Stroke::solid((0, 114, 178), 2.0);
        canvas.group("a < \"b\"", |canvas| {
            canvas.line(&[(5.0, 5.0), (50.0, 30.0)], stroke)
        });
        canvas.group("nothing", |_| ());
        canvas.fill(
            &Rect {
                left: 0.0,
                top: 0.0,
                right: 9.0,
                bottom: 9.0,
            },
            tint((0, 114, 178), 0.3),
        );
        canvas.text("<i>", (30.0, 20.0), 10.0, Align::Center, PAPER);
        canvas.spot(
            "a < \"b\"",
            Rect {
                left: 1.0,
                top: 2.0,
                right: 5.0,
                bottom: 8.0,
            },
            "x: 1".into(),
        );
        let text = svg(&canvas, "F & G");
        for part in [
            "<svg viewBox=\"0 0 60 40\" aria-label=\"F &amp; G\">",
            "stroke=\"color-mix(in srgb, var(--ink) 100%, var(--paper))\"",
            "<g class=\"series\" data-series=\"a &lt; &quot;b&quot;\">\n<polyline points=\"5.0,5.0 50.0,30.0\"",
            "stroke=\"#0072b2\" stroke-width=\"2\"/>\n</g>\n<polygon",
            "fill=\"color-mix(in srgb, #0072b2 30%, var(--paper))\"/>\n<text",
            "var(--ink) 0%, var(--paper))\">&lt;i&gt;</text>",
            "<rect x=\"1.0\" y=\"2.0\" width=\"4.0\" height=\"6.0\"",
            "<title>a &lt; &quot;b&quot;\nx: 1</title>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("nothing"));
    }
}
