//! Shapes of several marks: markers with their signs, whiskers, bars and striped corners.

use super::canvas::{Canvas, Point, Rect, Stroke};
use super::dot::MarkerSigns;
use super::style::{Hatch, INK, Style, WHISKER_WIDTH, tint};

impl Canvas {
    /// Draws a marker with its signs. `grown` is added to its radius.
    pub fn marker(&mut self, (x, y): Point, style: &Style, grown: f64, signs: MarkerSigns) {
        self.marker_shape((x, y), style, grown, signs.saturated);
        if signs.rejected {
            let reach = 6.2 + grown;
            let bar = [(x - reach, y - reach), (x + reach, y + reach)];
            self.line(&bar, Stroke::solid(INK, WHISKER_WIDTH));
        }
        if signs.invalid {
            self.cross((x, y), 6.8 + grown);
        }
        if signs.above {
            self.arrow((x, y), Stroke::solid(style.color, WHISKER_WIDTH));
        }
    }

    fn cross(&mut self, (x, y): Point, reach: f64) {
        let stroke = Stroke::solid(INK, 1.6);
        for side in [-reach, reach] {
            self.line(&[(x - side, y - reach), (x + side, y + reach)], stroke);
        }
    }

    /// Draws an arrow that points upwards from a marker.
    fn arrow(&mut self, (x, y): Point, stroke: Stroke) {
        const HEAD: f64 = 2.8;
        let from = y - 6.2;
        let tip = y - 13.0;
        self.line(&[(x, from), (x, tip)], stroke);
        let head = [(x - HEAD, tip + HEAD), (x, tip), (x + HEAD, tip + HEAD)];
        self.line(&head, stroke);
    }

    /// Draws the part of a whisker that lies in the area, with a cap on each end there.
    pub fn whisker(&mut self, ends: [Point; 2], area: &Rect, stroke: Stroke) {
        const CAP: f64 = 3.0;
        self.line_within(area, &ends, stroke);
        let is_upright = ends[0].0 == ends[1].0;
        let (across, up) = if is_upright { (CAP, 0.0) } else { (0.0, CAP) };
        for (x, y) in ends {
            if area.holds((x, y)) {
                self.line(&[(x - across, y - up), (x + across, y + up)], stroke);
            }
        }
    }

    /// Draws stripes in the upper right corner of an area.
    pub fn striped_corner(&mut self, area: &Rect) {
        let reach = area.width().min(area.height()) * 0.45;
        for part in [0.4, 0.7, 1.0] {
            let x = area.right - reach * part;
            let y = area.top + reach * part;
            self.line(&[(x, area.top), (area.right, y)], Stroke::solid(INK, 1.0));
        }
    }

    /// Draws a bar with the colour and the hatch of its series.
    pub fn bar(&mut self, rect: &Rect, style: &Style) {
        const SPACING: f64 = 4.5;
        let Rect {
            left,
            top,
            right,
            bottom,
        } = *rect;
        let strokes = if style.hatch == Hatch::Plain {
            0
        } else {
            ((right - left + bottom - top) / SPACING).ceil() as u32
        };
        if strokes > 0 {
            self.fill(rect, tint(style.color, 0.3));
        } else {
            self.fill(rect, style.color);
        }
        for i in 1..strokes {
            let along = left + f64::from(i) * SPACING;
            let line = match style.hatch {
                Hatch::Falling => [(along + top - bottom, top), (along, bottom)],
                _ => [(along + top - bottom, bottom), (along, top)],
            };
            self.line_within(rect, &line, Stroke::solid(style.color, 1.4));
        }
        self.border(rect, Stroke::solid(style.color, 1.0));
    }
}
