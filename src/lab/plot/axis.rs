//! Axes: the places of values, and the labelled ones.

use std::fmt;
use std::str::FromStr;

use indicatif::HumanFloatCount;

/// How values are spread along an axis. Bins have one width, and no grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Linear,
    Log,
    Bins,
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    /// The label; empty at minor ticks.
    pub label: String,
}

/// What decides the ticks of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TickRule {
    /// The ticks are multiples of a step, with at most this many steps.
    Steps(usize),
    Decades,
    /// The ticks are given, some of them without a label.
    Given,
}

/// An axis of a panel.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    pub spread: Spread,
    pub low: f64,
    pub high: f64,
    /// The ticks, ascending.
    pub ticks: Vec<Tick>,
    rule: TickRule,
}

/// What the user asks of an axis.
#[derive(Clone, Copy, Debug)]
pub struct AxisWish {
    /// The options that set the spread and the ends, for messages.
    pub scale_option: &'static str,
    pub range_option: &'static str,
    pub spread: Option<Spread>,
    pub range: Option<AxisRange>,
}

impl Axis {
    /// An axis from 0 to exactly `high`, with at most about `room` labels.
    pub fn linear(label: impl Into<String>, high: f64, room: usize) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let mut axis = Axis {
            label: label.into(),
            spread: Spread::Linear,
            low: 0.0,
            high,
            ticks: Vec::new(),
            rule: TickRule::Steps(room.max(1)),
        };
        axis.ticks = axis.multiples(room);
        axis
    }

    /// An axis from 0 whose end is rounded up to a tick.
    pub fn linear_to_tick(label: impl Into<String>, high: f64, room: usize) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = step(high, room);
        Axis::linear(label, (high / step - 1e-9).ceil() * step, room)
    }

    /// A logarithmic axis around two positive values. The lower end is rounded down to a 1, 2 or 5, the upper end up to
    /// the next digit. It gets its labels when it is [`fit`](Axis::fit) to its length.
    pub fn log(label: impl Into<String>, low: f64, high: f64) -> Axis {
        let low = round_down(low, &[1.0, 2.0, 5.0]);
        let high = round_up(
            high.max(low * 2.0),
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        );
        Axis {
            label: label.into(),
            spread: Spread::Log,
            low,
            high,
            ticks: Vec::new(),
            rule: TickRule::Decades,
        }
    }

    /// An axis with a tick at each of the values, which ascend. It is logarithmic if they span several magnitudes.
    pub fn with_values(label: &str, values: &[(f64, String)]) -> Axis {
        let first = values.first().map_or(0.0, |value| value.0);
        let last = values.last().map_or(1.0, |value| value.0);
        // Values such as 1, 2, 4, 8, 16 are logarithmic.
        let spread = if first > 0.0 && last >= 16.0 * first {
            Spread::Log
        } else {
            Spread::Linear
        };
        let ticks = values
            .iter()
            .map(|(value, name)| Tick {
                value: *value,
                label: name.clone(),
            })
            .collect();
        let axis = Axis {
            label: label.into(),
            spread,
            low: first,
            high: last,
            ticks,
            rule: TickRule::Given,
        };
        axis.around(first, last)
    }

    /// An axis of bins with these ends and ticks.
    pub fn bins(label: impl Into<String>, [low, high]: [f64; 2], ticks: Vec<Tick>) -> Axis {
        Axis {
            label: label.into(),
            spread: Spread::Bins,
            low,
            high,
            ticks,
            rule: TickRule::Given,
        }
    }

    /// An axis with a bin for each of these labels. The middles of the bins are 0, 1, 2 and so on.
    pub fn named_bins<L: Into<String>>(
        label: impl Into<String>,
        names: impl IntoIterator<Item = L>,
    ) -> Axis {
        let mut ticks = Vec::new();
        for name in names {
            ticks.push(Tick {
                value: ticks.len() as f64,
                label: name.into(),
            });
        }
        let high = ticks.len() as f64 - 0.5;
        Axis::bins(label, [-0.5, high], ticks)
    }

    /// The axis with a margin, so that markers at the ends do not touch the border.
    fn around(self, first: f64, last: f64) -> Axis {
        const MARGIN: f64 = 0.05;
        let (low, high) = if self.spread == Spread::Log {
            (
                first * (first / last).powf(MARGIN),
                last * (last / first).powf(MARGIN),
            )
        } else if last > first {
            let margin = (last - first) * MARGIN;
            (first - margin, last + margin)
        } else {
            (first - 0.5, first + 0.5)
        };
        Axis { low, high, ..self }
    }

    /// The axis with the spread and the ends that the user asked for. `least` is the least value that a logarithmic
    /// axis has to show.
    ///
    /// # Errors
    /// A wish that cannot be met is an error that begins with its option.
    pub fn with_wish(self, wish: &AxisWish, least: f64) -> Result<Axis, String> {
        if self.spread == Spread::Bins {
            return Ok(self);
        }
        let mut axis = match wish.spread {
            Some(spread) if spread != self.spread => self.with_spread(spread, wish, least)?,
            _ => self,
        };
        if let Some(AxisRange { low, high }) = wish.range {
            axis.low = low.unwrap_or(axis.low);
            axis.high = high.unwrap_or(axis.high);
        }
        let scale = wish.scale_option;
        let range = wish.range_option;
        let low = number(axis.low);
        let high = number(axis.high);
        if axis.spread == Spread::Log && axis.low <= 0.0 {
            return Err(format!(
                "{range}: a logarithmic axis begins above 0, not at {low}; or {scale} linear"
            ));
        }
        if axis.low >= axis.high {
            return Err(format!(
                "{range}: {low} is not below {high}, where the data ends; give both ends"
            ));
        }
        axis.ticks
            .retain(|tick| axis.low <= tick.value && tick.value <= axis.high);
        Ok(axis)
    }

    /// The axis with another spread.
    fn with_spread(self, spread: Spread, wish: &AxisWish, least: f64) -> Result<Axis, String> {
        if spread == Spread::Log && !(least > 0.0 && least.is_finite()) {
            return Err(format!("{} log: no value is above 0", wish.scale_option));
        }
        if self.rule == TickRule::Given {
            let first = self.ticks[0].value;
            let last = self.ticks[self.ticks.len() - 1].value;
            return Ok(Axis { spread, ..self }.around(first, last));
        }
        Ok(if spread == Spread::Log {
            // The axis begins below the least value, whose marker must not overlap it.
            Axis::log(self.label, least * 0.93, self.high)
        } else {
            Axis::linear_to_tick(self.label, self.high, 5)
        })
    }

    /// The axis with ticks whose labels fit the length. `extent` is the length of a label. The ends stay.
    pub fn fit(mut self, length: f64, extent: impl Fn(&str) -> f64) -> Axis {
        match self.rule {
            TickRule::Steps(most) => {
                for room in (1..=most).rev() {
                    self.ticks = self.multiples(room);
                    if self.has_room(length, &extent) {
                        break;
                    }
                }
            }
            TickRule::Decades => self.ticks = self.decades(length, extent),
            TickRule::Given if self.spread == Spread::Bins => self.thin_out(length, extent),
            TickRule::Given => {
                let all = std::mem::take(&mut self.ticks);
                for tick in all {
                    self.ticks.push(tick);
                    if !self.has_room(length, &extent)
                        && let Some(last) = self.ticks.last_mut()
                    {
                        last.label.clear();
                    }
                }
            }
        }
        self
    }

    /// Keeps the labels of every second or third bin and so on, counted from the last, until they fit the length.
    fn thin_out(&mut self, length: f64, extent: impl Fn(&str) -> f64) {
        let all = self.ticks.clone();
        let count = all.len();
        for stride in 1..=count.max(1) {
            self.ticks = all.clone();
            for (i, tick) in self.ticks.iter_mut().enumerate() {
                if !(count - 1 - i).is_multiple_of(stride) {
                    tick.label.clear();
                }
            }
            if self.has_room(length, &extent) {
                break;
            }
        }
    }

    /// The ticks at multiples of a round step, at most about `room` ticks.
    fn multiples(&self, room: usize) -> Vec<Tick> {
        // An end that is a multiple of the step gets its tick in spite of rounding.
        const SLACK: f64 = 1e-9;
        let step = step(self.high - self.low, room);
        let first = (self.low / step - SLACK).ceil() as i64;
        let last = (self.high / step + SLACK).floor() as i64;
        let mut ticks = Vec::new();
        for i in first..=last {
            let value = i as f64 * step;
            ticks.push(Tick {
                value,
                label: number(value),
            });
        }
        ticks
    }

    /// The ticks of a logarithmic axis. If all labels fit, each 1, 2 and 5 has one; otherwise all or some powers of ten
    /// have labels.
    fn decades(&self, length: f64, extent: impl Fn(&str) -> f64) -> Vec<Tick> {
        let decades = exponent(self.high) - exponent(self.low);
        let mut axis = self.clone();
        for stride in 0..=decades + 1 {
            axis.ticks = self.decade_ticks(stride);
            if axis.has_room(length, &extent) {
                break;
            }
        }
        axis.ticks
    }

    /// The ticks of a logarithmic axis. One in `stride` powers of ten, counted from the highest, has a label; stride 0
    /// labels each 1, 2 and 5.
    fn decade_ticks(&self, stride: i32) -> Vec<Tick> {
        // Minor ticks would run together on an axis of more decades.
        const MOST_WITH_MINOR: i32 = 6;
        let first = exponent(self.low);
        let last = exponent(self.high);
        let within = self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9);
        let mut ticks = Vec::new();
        for power in first..=last {
            for digit in 1..10u32 {
                let value = f64::from(digit) * 10f64.powi(power);
                let has_label = if stride == 0 {
                    matches!(digit, 1 | 2 | 5)
                } else {
                    digit == 1 && (power - last).rem_euclid(stride) == 0
                };
                let has_tick = has_label || last - first <= MOST_WITH_MINOR;
                if has_tick && within.contains(&value) {
                    let label = if has_label {
                        number(value)
                    } else {
                        String::new()
                    };
                    ticks.push(Tick { value, label });
                }
            }
        }
        ticks
    }

    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.ticks
            .iter()
            .map(|tick| tick.label.as_str())
            .filter(|label| !label.is_empty())
    }

    /// The ticks at which the grid has lines.
    pub fn grid_ticks(&self) -> impl Iterator<Item = &Tick> {
        self.ticks
            .iter()
            .filter(|tick| !tick.label.is_empty() && self.spread != Spread::Bins)
    }

    /// Whether no two labels touch.
    fn has_room(&self, length: f64, extent: impl Fn(&str) -> f64) -> bool {
        let mut end_before = f64::NEG_INFINITY;
        for tick in &self.ticks {
            if tick.label.is_empty() {
                continue;
            }
            let middle = self.place(tick.value) * length;
            let half = extent(&tick.label) / 2.0;
            if end_before > middle - half {
                return false;
            }
            end_before = middle + half;
        }
        true
    }

    /// The place of a value: 0 is the beginning of the axis, 1 its end. On a logarithmic axis, 0 and negative values
    /// lie far before it.
    pub fn place(&self, value: f64) -> f64 {
        match self.spread {
            Spread::Linear | Spread::Bins => (value - self.low) / (self.high - self.low),
            Spread::Log => {
                (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
            }
        }
    }
}

/// The ends that a user gives an axis. An end without a value is where the data ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisRange {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl FromStr for AxisRange {
    type Err = String;

    fn from_str(text: &str) -> Result<AxisRange, String> {
        let Some((low, high)) = text.split_once("..") else {
            return Err(wrong_range(text, "is not a range"));
        };
        match (range_end(low, text)?, range_end(high, text)?) {
            (None, None) => Err(wrong_range(text, "has no end")),
            (Some(low), Some(high)) if low >= high => Err(wrong_range(text, "does not ascend")),
            (low, high) => Ok(AxisRange { low, high }),
        }
    }
}

/// An end of a range, or `None` if its text is empty.
fn range_end(end: &str, range: &str) -> Result<Option<f64>, String> {
    let end = end.trim();
    if end.is_empty() {
        return Ok(None);
    }
    match end.parse::<f64>() {
        Ok(end) if end.is_finite() => Ok(Some(end)),
        _ => Err(wrong_range(range, "is not a range")),
    }
}

fn wrong_range(text: &str, what: &str) -> String {
    format!("\"{text}\" {what}; write A..B, A.. or ..B with numbers, such as 0..500")
}

impl fmt::Display for AxisRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(low) = self.low {
            write!(f, "{low}")?;
        }
        f.write_str("..")?;
        if let Some(high) = self.high {
            write!(f, "{high}")?;
        }
        Ok(())
    }
}

/// The distance of the ticks of a linear axis of this length.
fn step(length: f64, room: usize) -> f64 {
    round_up(length / room.max(1) as f64, &[1.0, 2.0, 5.0])
}

/// The exponent of the power of ten at or below a value.
fn exponent(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

/// A value rounded up to one of these digits, or to 10, times a power of ten.
fn round_up(value: f64, digits: &[f64]) -> f64 {
    let scale = 10f64.powi(exponent(value));
    let digit = digits
        .iter()
        .find(|digit| value / scale <= *digit * (1.0 + 1e-9));
    digit.unwrap_or(&10.0) * scale
}

/// A value rounded down to one of these digits (1 first) times a power of ten.
fn round_down(value: f64, digits: &[f64]) -> f64 {
    let scale = 10f64.powi(exponent(value));
    let digit = digits
        .iter()
        .rfind(|digit| value / scale >= *digit * (1.0 - 1e-9));
    digit.unwrap_or(&1.0) * scale
}

/// A number as text with at most nine decimals, such as `0.05`, `250` or `20,000`.
pub fn number(value: f64) -> String {
    let text = format!("{:.9}", HumanFloatCount(value));
    if text == "-0" {
        "0".into()
    } else {
        text.replace('-', "−")
    }
}

/// A number's digits, with a comma between thousands.
pub fn thousands(digits: &str) -> String {
    match digits.parse() {
        Ok(value) => HumanFloatCount(value).to_string(),
        Err(_) => digits.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.labels().collect()
    }

    #[test]
    fn numbers_have_thousands_and_no_noise() {
        for (value, text) in [
            (0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (20_000.0, "20,000"),
            (1_234_567.5, "1,234,567.5"),
            (-500.0, "−500"),
            (-1e-12, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_linear_axis_has_round_ticks_within_its_ends() {
        assert_eq!(
            labels(&Axis::linear("", 21_500.0, 5)),
            ["0", "5,000", "10,000", "15,000", "20,000"]
        );
        assert_eq!(
            labels(&Axis::linear("", 1.0, 5)),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
        assert_eq!(
            labels(&Axis::linear_to_tick("", 430.0, 5)),
            ["0", "100", "200", "300", "400", "500"]
        );
        assert_eq!(labels(&Axis::linear("", 0.0, 2)), ["0", "0.5", "1"]);
    }

    #[test]
    fn a_log_axis_thins_its_labels_as_it_grows() {
        let log = |low, high, length| {
            Axis::log("", low, high).fit(length, |label| 10.0 * label.len() as f64)
        };
        assert_eq!(
            labels(&log(3.0, 420.0, 300.0)),
            ["2", "5", "10", "20", "50", "100", "200", "500"]
        );
        assert_eq!(labels(&log(3.0, 420.0, 100.0)), ["10", "100"]);
        assert_eq!(
            labels(&log(0.011, 9000.0, 400.0)),
            ["0.01", "0.1", "1", "10", "100", "1,000"]
        );
        assert_eq!(labels(&log(1e-5, 1.0, 200.0)), ["0.0001", "0.01", "1"]);
        assert_eq!(labels(&log(1e-9, 1.0, 10.0)), ["1"], "one label at least");
    }

    #[test]
    fn a_log_axis_ends_around_its_values() {
        for (low, high, ends) in [
            (3.0, 420.0, (2.0, 500.0)),
            (10.0, 10.0, (10.0, 20.0)),
            (0.5, 0.91, (0.5, 1.0)),
        ] {
            let axis = Axis::log("", low, high);
            assert!(
                (axis.low / ends.0 - 1.0).abs() < 1e-9 && (axis.high / ends.1 - 1.0).abs() < 1e-9,
                "{axis:?}"
            );
        }
    }

    #[test]
    fn places_run_from_0_to_1() {
        let axis = Axis::log("", 1.0, 100.0);
        for (value, place) in [(1.0, 0.0), (10.0, 0.5), (100.0, 1.0)] {
            assert!((axis.place(value) - place).abs() < 1e-12);
        }
        assert!(axis.place(0.0) < -10.0);
        assert_eq!(Axis::linear("", 8.0, 4).place(2.0), 0.25);
    }
}
