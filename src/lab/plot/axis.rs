//! Axes: the places of values, and the labelled ones.

use indicatif::HumanFloatCount;

use super::look::AxisRange;

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

/// What decides the ticks of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticks {
    /// Multiples of a step, with at most this many steps.
    Steps(usize),
    Decades,
    /// These, some of them without a label.
    Given,
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
    made: Ticks,
}

impl Axis {
    /// From 0 to exactly `high`, with at most about `room` labels.
    pub fn linear(label: impl Into<String>, high: f64, room: usize) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let mut axis = Axis {
            label: label.into(),
            spread: Spread::Linear,
            low: 0.0,
            high,
            ticks: Vec::new(),
            made: Ticks::Steps(room.max(1)),
        };
        axis.ticks = axis.multiples(room);
        axis
    }

    /// The end is rounded up to a tick.
    pub fn linear_to_tick(label: impl Into<String>, high: f64, room: usize) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = step(high, room);
        Axis::linear(label, (high / step - 1e-9).ceil() * step, room)
    }

    /// A logarithmic axis around two positive values. The lower end is rounded down to a 1, 2 or 5, the upper end up
    /// to the next digit. It has labels only when it is [`fitted`](Axis::fitted).
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
            made: Ticks::Decades,
        }
    }

    /// An axis with a tick at each of the values, which ascend. It is logarithmic if they span several magnitudes.
    pub fn at_values(label: &str, values: &[(f64, String)]) -> Axis {
        let (first, last) = (
            values.first().map_or(0.0, |value| value.0),
            values.last().map_or(1.0, |value| value.0),
        );
        // Such as 1, 2, 4, 8, 16.
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
            made: Ticks::Given,
        };
        axis.around(first, last)
    }

    /// An axis of bins or rows with these labels.
    pub fn bins(label: impl Into<String>, [low, high]: [f64; 2], ticks: Vec<Tick>) -> Axis {
        Axis {
            label: label.into(),
            spread: Spread::Bins,
            low,
            high,
            ticks,
            made: Ticks::Given,
        }
    }

    /// The axis with a margin, so that markers at the ends do not touch the border.
    fn around(self, first: f64, last: f64) -> Axis {
        const MARGIN: f64 = 0.05;
        let (low, high) = match self.spread {
            Spread::Log => (
                first * (first / last).powf(MARGIN),
                last * (last / first).powf(MARGIN),
            ),
            _ if last > first => (
                first - (last - first) * MARGIN,
                last + (last - first) * MARGIN,
            ),
            _ => (first - 0.5, first + 0.5),
        };
        Axis { low, high, ..self }
    }

    /// The axis with the spread and the ends that the user asked for. `least` is the least value that a logarithmic
    /// axis has to show. What cannot be is an error that begins with the option.
    pub fn asked(
        mut self,
        [scale, range]: [&str; 2],
        spread: Option<Spread>,
        ends: Option<AxisRange>,
        least: f64,
    ) -> Result<Axis, String> {
        if self.spread == Spread::Bins {
            return Ok(self);
        }
        if let Some(spread) = spread.filter(|spread| *spread != self.spread) {
            if spread == Spread::Log && !(least > 0.0 && least.is_finite()) {
                return Err(format!("{scale} log: no value is above 0"));
            }
            self = match (self.made, spread) {
                (Ticks::Given, _) => {
                    let (first, last) =
                        (self.ticks[0].value, self.ticks[self.ticks.len() - 1].value);
                    Axis { spread, ..self }.around(first, last)
                }
                // Below the least value, whose marker must not overlap the axis.
                (_, Spread::Log) => Axis::log(self.label, least * 0.93, self.high),
                _ => Axis::linear_to_tick(self.label, self.high, 5),
            };
        }
        if let Some(AxisRange { low, high }) = ends {
            self.low = low.unwrap_or(self.low);
            self.high = high.unwrap_or(self.high);
        }
        let (low, high) = (number(self.low), number(self.high));
        if self.spread == Spread::Log && self.low <= 0.0 {
            return Err(format!(
                "{range}: a logarithmic axis begins above 0, not at {low}; or {scale} linear"
            ));
        }
        if self.low >= self.high {
            return Err(format!(
                "{range}: {low} is not below {high}, where the data ends; give both ends"
            ));
        }
        self.ticks
            .retain(|tick| self.low <= tick.value && tick.value <= self.high);
        Ok(self)
    }

    /// The axis with ticks whose labels, of this extent, fit the length. The ends stay.
    pub fn fitted(mut self, length: f64, extent: impl Fn(&str) -> f64) -> Axis {
        match self.made {
            Ticks::Steps(most) => {
                let all = (1..=most).rev().map(|room| Axis {
                    ticks: self.multiples(room),
                    ..self.clone()
                });
                let least = Axis {
                    ticks: self.multiples(1),
                    ..self.clone()
                };
                return all
                    .into_iter()
                    .find(|axis| axis.has_room(length, &extent))
                    .unwrap_or(least);
            }
            Ticks::Decades => self.ticks = self.decades(length, extent),
            Ticks::Given if self.spread == Spread::Bins => {
                // Every second or third has a label, counted from the last.
                let count = self.ticks.len();
                let every = |stride: usize| {
                    let mut thinned = self.clone();
                    let hidden = thinned
                        .ticks
                        .iter_mut()
                        .enumerate()
                        .filter(|(i, _)| !(count - 1 - i).is_multiple_of(stride));
                    hidden.for_each(|(_, tick)| tick.label.clear());
                    thinned
                };
                let fits = (1..=count.max(1))
                    .map(every)
                    .find(|axis| axis.has_room(length, &extent));
                return fits.unwrap_or_else(|| every(count.max(1)));
            }
            Ticks::Given => {
                let all = std::mem::take(&mut self.ticks);
                for tick in all {
                    self.ticks.push(tick);
                    if !self.has_room(length, &extent) {
                        self.ticks
                            .last_mut()
                            .expect("there is this one")
                            .label
                            .clear();
                    }
                }
            }
        }
        self
    }

    /// The multiples of a round step, at most about `room` of them.
    fn multiples(&self, room: usize) -> Vec<Tick> {
        let step = step(self.high - self.low, room);
        // Slack for rounding: an end that is a multiple of the step gets its tick.
        let (first, last) = (
            (self.low / step - 1e-9).ceil() as i64,
            (self.high / step + 1e-9).floor() as i64,
        );
        let values = (first..=last).map(|i| i as f64 * step);
        values
            .map(|value| Tick {
                value,
                label: number(value),
            })
            .collect()
    }

    /// Each 1, 2 and 5 if the labels fit, otherwise powers of ten or some of them.
    fn decades(&self, length: f64, extent: impl Fn(&str) -> f64) -> Vec<Tick> {
        let (first, last) = (exponent(self.low), exponent(self.high));
        let within = self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9);
        // Over many decades, minor ticks would run together.
        const MOST_MINOR: i32 = 6;
        let mut axis = self.clone();
        // Stride 0 labels each 1, 2 and 5.
        for stride in 0..=last - first + 1 {
            let shown = |power: i32, digit: u32| match stride {
                0 => matches!(digit, 1 | 2 | 5),
                _ => digit == 1 && (power - last).rem_euclid(stride) == 0,
            };
            let tick = |power: i32, digit: u32| {
                let value = f64::from(digit) * 10f64.powi(power);
                let label = if shown(power, digit) {
                    number(value)
                } else {
                    String::new()
                };
                let is_drawn = !label.is_empty() || last - first <= MOST_MINOR;
                (within.contains(&value) && is_drawn).then_some(Tick { value, label })
            };
            axis.ticks = (first..=last)
                .flat_map(|power| (1..10).filter_map(move |digit| tick(power, digit)))
                .collect();
            if axis.has_room(length, &extent) {
                break;
            }
        }
        axis.ticks
    }

    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.ticks
            .iter()
            .map(|tick| tick.label.as_str())
            .filter(|label| !label.is_empty())
    }

    pub fn in_grid(&self) -> impl Iterator<Item = &Tick> {
        self.ticks
            .iter()
            .filter(|tick| !tick.label.is_empty() && self.spread != Spread::Bins)
    }

    /// Whether no two labels touch.
    fn has_room(&self, length: f64, extent: impl Fn(&str) -> f64) -> bool {
        let labelled: Vec<&Tick> = self
            .ticks
            .iter()
            .filter(|tick| !tick.label.is_empty())
            .collect();
        let end = |tick: &Tick, side: f64| {
            self.place(tick.value) * length + side * extent(&tick.label) / 2.0
        };
        labelled
            .windows(2)
            .all(|pair| end(pair[0], 1.0) <= end(pair[1], -1.0))
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

/// The distance of the ticks of a linear axis of this length.
fn step(length: f64, room: usize) -> f64 {
    round_up(length / room.max(1) as f64, &[1.0, 2.0, 5.0])
}

/// Of the power of ten at or below a value.
fn exponent(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

fn round_up(value: f64, digits: &[f64]) -> f64 {
    let scale = 10f64.powi(exponent(value));
    digits
        .iter()
        .find(|digit| value / scale <= *digit * (1.0 + 1e-9))
        .unwrap_or(&10.0)
        * scale
}

/// Rounded down to one of these digits (1 first) times a power of ten.
fn round_down(value: f64, digits: &[f64]) -> f64 {
    let scale = 10f64.powi(exponent(value));
    digits
        .iter()
        .rfind(|digit| value / scale >= *digit * (1.0 - 1e-9))
        .unwrap_or(&1.0)
        * scale
}

/// `0.05`, `250`, `20,000`: at most nine decimals.
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
    digits
        .parse()
        .map_or(digits.into(), |value| HumanFloatCount(value).to_string())
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
            Axis::log("", low, high).fitted(length, |label| 10.0 * label.len() as f64)
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
