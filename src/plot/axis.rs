//! Axes: the places of values, and the labelled ones.

use indicatif::HumanFloatCount;

/// How values are spread along an axis; bins have one width, and no grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Linear,
    Log,
    Bins,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    /// Empty at minor ticks.
    pub label: String,
}

#[derive(Clone, Debug)]
pub struct Axis {
    /// With the unit.
    pub label: String,
    pub spread: Spread,
    pub low: f64,
    pub high: f64,
    /// Ascending.
    pub ticks: Vec<Tick>,
}

impl Axis {
    /// From 0 to exactly `high`, with at most about `room` labels.
    pub fn linear(label: impl Into<String>, high: f64, room: usize) -> Axis {
        let (high, step) = steps(high, room);
        // Slack for rounding: an end that is a multiple of the step gets its tick.
        let values = (0..=(high / step + 1e-9) as u32).map(|i| f64::from(i) * step);
        let ticks = values.map(|value| Tick { value, label: number(value) }).collect();
        Axis { label: label.into(), spread: Spread::Linear, low: 0.0, high, ticks }
    }

    /// The end is rounded up to a tick.
    pub fn linear_to_tick(label: impl Into<String>, high: f64, room: usize) -> Axis {
        let (high, step) = steps(high, room);
        Axis::linear(label, (high / step - 1e-9).ceil() * step, room)
    }

    /// A logarithmic axis around two positive values. The lower end is rounded down to a 1, 2 or 5, the upper end up
    /// to the next digit. Labels take `extent` of `length`: each 1, 2 and 5 if they fit, otherwise powers of ten or
    /// some of them.
    pub fn log(label: impl Into<String>, low: f64, high: f64, length: f64, extent: impl Fn(&str) -> f64) -> Axis {
        let low = round_down(low, &[1.0, 2.0, 5.0]);
        let high = round_up(high.max(low * 2.0), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let mut axis = Axis { label: label.into(), spread: Spread::Log, low, high, ticks: Vec::new() };
        let (first, last) = (exponent(low), exponent(high));
        let within = low * (1.0 - 1e-9)..=high * (1.0 + 1e-9);
        // Over many decades, minor ticks would run together.
        const MOST_MINOR: i32 = 6;
        // Stride 0 labels each 1, 2 and 5.
        for stride in 0..=last - first + 1 {
            let shown = |power: i32, digit: u32| match stride {
                0 => matches!(digit, 1 | 2 | 5),
                _ => digit == 1 && (power - last).rem_euclid(stride) == 0,
            };
            let tick = |power: i32, digit: u32| {
                let value = f64::from(digit) * 10f64.powi(power);
                let label = if shown(power, digit) { number(value) } else { String::new() };
                let is_drawn = !label.is_empty() || last - first <= MOST_MINOR;
                (within.contains(&value) && is_drawn).then_some(Tick { value, label })
            };
            axis.ticks = (first..=last).flat_map(|power| (1..10).filter_map(move |digit| tick(power, digit))).collect();
            if axis.has_room(length, &extent) {
                break;
            }
        }
        axis
    }

    /// With a tick at each of the values, which ascend; labels that would touch the one before are left out.
    pub fn at_values(label: &str, values: &[(f64, String)], length: f64, extent: impl Fn(&str) -> f64) -> Axis {
        const MARGIN: f64 = 0.05;
        let (first, last) = (values.first().map_or(0.0, |value| value.0), values.last().map_or(1.0, |value| value.0));
        // Such as 1, 2, 4, 8, 16.
        let spread = if first > 0.0 && last >= 16.0 * first { Spread::Log } else { Spread::Linear };
        let (low, high) = match spread {
            Spread::Log => (first * (first / last).powf(MARGIN), last * (last / first).powf(MARGIN)),
            _ if last > first => (first - (last - first) * MARGIN, last + (last - first) * MARGIN),
            _ => (first - 0.5, first + 0.5),
        };
        let mut axis = Axis { label: label.into(), spread, low, high, ticks: Vec::new() };
        for (value, name) in values {
            axis.ticks.push(Tick { value: *value, label: name.clone() });
            if !axis.has_room(length, &extent) {
                axis.ticks.last_mut().expect("there is this one").label.clear();
            }
        }
        axis
    }

    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.ticks.iter().map(|tick| tick.label.as_str()).filter(|label| !label.is_empty())
    }

    pub fn in_grid(&self) -> impl Iterator<Item = &Tick> {
        self.ticks.iter().filter(|tick| !tick.label.is_empty() && self.spread != Spread::Bins)
    }

    /// Whether no two labels touch.
    fn has_room(&self, length: f64, extent: impl Fn(&str) -> f64) -> bool {
        let labelled: Vec<&Tick> = self.ticks.iter().filter(|tick| !tick.label.is_empty()).collect();
        let end = |tick: &Tick, side: f64| self.place(tick.value) * length + side * extent(&tick.label) / 2.0;
        labelled.windows(2).all(|pair| end(pair[0], 1.0) <= end(pair[1], -1.0))
    }

    /// The place of a value: 0 is the beginning of the axis, 1 its end. On a logarithmic axis, 0 and negative values
    /// lie far before it.
    pub fn place(&self, value: f64) -> f64 {
        match self.spread {
            Spread::Linear | Spread::Bins => (value - self.low) / (self.high - self.low),
            Spread::Log => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        }
    }
}

/// The end of a linear axis, 1 if there is none above 0, and the distance of its ticks.
fn steps(high: f64, room: usize) -> (f64, f64) {
    let high = if high > 0.0 { high } else { 1.0 };
    (high, round_up(high / room.max(1) as f64, &[1.0, 2.0, 5.0]))
}

/// Of the power of ten at or below a value.
fn exponent(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

fn round_up(value: f64, digits: &[f64]) -> f64 {
    let scale = 10f64.powi(exponent(value));
    digits.iter().find(|digit| value / scale <= *digit * (1.0 + 1e-9)).unwrap_or(&10.0) * scale
}

/// Rounded down to one of these digits (1 first) times a power of ten.
fn round_down(value: f64, digits: &[f64]) -> f64 {
    let scale = 10f64.powi(exponent(value));
    digits.iter().rfind(|digit| value / scale >= *digit * (1.0 - 1e-9)).unwrap_or(&1.0) * scale
}

/// `0.05`, `250`, `20,000`: at most nine decimals.
pub fn number(value: f64) -> String {
    let text = format!("{:.9}", HumanFloatCount(value));
    if text == "-0" { "0".into() } else { text.replace('-', "−") }
}

/// A number's digits, with a comma between thousands.
pub fn thousands(digits: &str) -> String {
    digits.parse().map_or(digits.into(), |value| HumanFloatCount(value).to_string())
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
        assert_eq!(labels(&Axis::linear("", 21_500.0, 5)), ["0", "5,000", "10,000", "15,000", "20,000"]);
        assert_eq!(labels(&Axis::linear("", 1.0, 5)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(&Axis::linear_to_tick("", 430.0, 5)), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(labels(&Axis::linear("", 0.0, 2)), ["0", "0.5", "1"]);
    }

    #[test]
    fn a_log_axis_thins_its_labels_as_it_grows() {
        let log = |low, high, length| Axis::log("", low, high, length, |label| 10.0 * label.len() as f64);
        assert_eq!(labels(&log(3.0, 420.0, 300.0)), ["2", "5", "10", "20", "50", "100", "200", "500"]);
        assert_eq!(labels(&log(3.0, 420.0, 100.0)), ["10", "100"]);
        assert_eq!(labels(&log(0.011, 9000.0, 400.0)), ["0.01", "0.1", "1", "10", "100", "1,000"]);
        assert_eq!(labels(&log(1e-5, 1.0, 200.0)), ["0.0001", "0.01", "1"]);
        assert_eq!(labels(&log(1e-9, 1.0, 10.0)), ["1"], "one label at least");
    }

    #[test]
    fn a_log_axis_ends_around_its_values() {
        for (low, high, ends) in [(3.0, 420.0, (2.0, 500.0)), (10.0, 10.0, (10.0, 20.0)), (0.5, 0.91, (0.5, 1.0))] {
            let axis = Axis::log("", low, high, 300.0, |_| 10.0);
            assert!((axis.low / ends.0 - 1.0).abs() < 1e-9 && (axis.high / ends.1 - 1.0).abs() < 1e-9, "{axis:?}");
        }
    }

    #[test]
    fn places_run_from_0_to_1() {
        let axis = Axis::log("", 1.0, 100.0, 300.0, |_| 10.0);
        for (value, place) in [(1.0, 0.0), (10.0, 0.5), (100.0, 1.0)] {
            assert!((axis.place(value) - place).abs() < 1e-12);
        }
        assert!(axis.place(0.0) < -10.0);
        assert_eq!(Axis::linear("", 8.0, 4).place(2.0), 0.25);
    }
}
