//! A drawing as SVG in a page: in the page's colours, with series that it can hide and areas that show values.

use super::escaped;
use crate::lab::plot::canvas::{Align, Canvas, Mark, Point, Rect, TextMark};
use crate::lab::plot::style::{INK, Rgb, untinted};

pub fn svg(canvas: &Canvas, name: &str) -> String {
    let mut text = format!(
        "<svg viewBox=\"0 0 {} {}\" aria-label=\"{}\">\n",
        canvas.width,
        canvas.height,
        escaped(name)
    );
    let mut groups = canvas
        .groups
        .iter()
        .filter(|group| !group.marks.is_empty())
        .peekable();
    for (i, mark) in canvas.marks.iter().enumerate() {
        if let Some(group) = groups.peek().filter(|group| group.marks.start == i) {
            let class = if group.key.is_some() { "key" } else { "series" };
            text += &format!(
                "<g class=\"{class}\" data-series=\"{}\">\n",
                escaped(&group.series)
            );
            // Between the strokes of a key, too, it can be clicked.
            text += &group.key.map_or(String::new(), |area| rect(&area, "/>\n"));
        }
        text += &drawn(mark);
        if groups.next_if(|group| group.marks.end == i + 1).is_some() {
            text += "</g>\n";
        }
    }
    for spot in &canvas.spots {
        let (series, values) = (escaped(&spot.series), escaped(&spot.values));
        let rest = format!(
            " class=\"spot\" data-series=\"{series}\"><title>{series}\n{values}</title></rect>\n"
        );
        text += &rect(&spot.area, &rest);
    }
    text + "</svg>\n"
}

fn rect(area: &Rect, rest: &str) -> String {
    let (x, y, width, height) = (
        area.left,
        area.top,
        area.width().max(0.0),
        area.height().max(0.0),
    );
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"transparent\"{rest}"
    )
}

fn drawn(mark: &Mark) -> String {
    let list = |points: &[Point]| {
        points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    match mark {
        Mark::Line(points, rgb, width) => {
            let (points, color) = (list(points), color(*rgb));
            format!(
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"/>\n"
            )
        }
        Mark::Area(points, rgb) => format!(
            "<polygon points=\"{}\" fill=\"{}\"/>\n",
            list(points),
            color(*rgb)
        ),
        Mark::Text(TextMark {
            words,
            at: (x, y),
            size,
            align,
            color: rgb,
        }) => {
            let (anchor, turn) = match align {
                Align::Left => ("start", String::new()),
                Align::Center => ("middle", String::new()),
                Align::Upright => (
                    "middle",
                    format!(" transform=\"rotate(-90 {x:.1} {y:.1})\""),
                ),
                Align::Right => ("end", String::new()),
            };
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\"{turn}>{}</text>\n",
                color(*rgb),
                escaped(words)
            )
        }
    }
}

/// Greys lie between the page's ink and its paper, which change places in the dark, and tints between colour and paper.
fn color(rgb: Rgb) -> String {
    let mixed = |color: &str, share: f64| {
        format!(
            "color-mix(in srgb, {color} {:.0}%, var(--paper))",
            (100.0 * share).min(100.0)
        )
    };
    let hex = |(red, green, blue): Rgb| format!("#{red:02x}{green:02x}{blue:02x}");
    match untinted(rgb) {
        _ if (rgb.0, rgb.1) == (rgb.1, rgb.2) => mixed(
            "var(--ink)",
            (255.0 - f64::from(rgb.0)) / (255.0 - f64::from(INK.0)),
        ),
        Some((color, strength)) if strength < 1.0 => mixed(&hex(color), strength),
        _ => hex(rgb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::Stroke;
    use crate::lab::plot::style::{PAPER, tint};

    #[test]
    fn series_and_their_values_are_marked_and_escaped() {
        let mut canvas = Canvas::sized(60.0, 40.0);
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
