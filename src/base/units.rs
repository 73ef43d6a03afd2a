//! Time, rates and ids as types, so that interfaces take no bare integers.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Nanoseconds: an instant since the start of the run, or a span.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of a run, or no time.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest time, later than any event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// The nearest whole number, halves up; negative values and NaN become zero, and large ones [`Nanos::MAX`].
    #[inline]
    pub fn round(nanos: f64) -> Self {
        // `as` saturates at both ends and maps NaN to zero. `f64::round` would call the C library. Numbers that a signed
        // integer holds are converted in one instruction, and larger ones are whole.
        if nanos >= i64::MAX as f64 {
            return Nanos(nanos as u64);
        }
        let whole = (nanos as i64).max(0);
        let above = nanos - whole as f64 >= 0.5;
        Nanos(whole as u64 + u64::from(above))
    }

    /// The nearest number of nanoseconds, rounded as by [`Nanos::round`].
    #[inline]
    pub fn from_secs_f64(seconds: f64) -> Self {
        Nanos::round(seconds * 1e9)
    }

    /// The time in seconds, for plots and summaries only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time in milliseconds, for plots and summaries only.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span since `earlier`, zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The sum, at most [`Nanos::MAX`].
    pub fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// The product, at most [`Nanos::MAX`].
    pub fn saturating_mul(self, times: u64) -> Nanos {
        Nanos(self.0.saturating_mul(times))
    }

    /// Parses a time with its unit: `2ms`, `1.5s`, `250us`, `40ns`.
    ///
    /// # Errors
    /// The unit is missing or unknown, or the number invalid or negative; the message says what is allowed.
    pub fn parse(text: &str) -> Result<Nanos, String> {
        let text = text.trim();
        let split = text
            .find(|c: char| c.is_alphabetic() || c == 'µ')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let places = match unit {
            "ns" => 0,
            "us" | "µs" => 3,
            "ms" => 6,
            "s" => 9,
            "" => {
                return Err(format!(
                    "\"{text}\" has no unit; write it as 250us, 2ms or 1.5s"
                ));
            }
            other => {
                return Err(format!(
                    "unknown unit \"{other}\" in \"{text}\"; known: ns, us, ms, s"
                ));
            }
        };
        let nanos = scale_decimal(number.trim(), places).map(u64::try_from);
        match nanos {
            Some(Ok(nanos)) => Ok(Nanos(nanos)),
            _ => Err(format!(
                "\"{text}\" is not a time; write it as 250us, 2ms or 1.5s"
            )),
        }
    }
}

impl Add for Nanos {
    type Output = Nanos;

    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;

    #[inline]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;

    #[inline]
    fn mul(self, times: u64) -> Nanos {
        Nanos(self.0 * times)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(times: I) -> Nanos {
        times.fold(Nanos::ZERO, Add::add)
    }
}

/// Reads a number of nanoseconds or a time with its unit: keys such as `task_ns` take both.
pub fn nanos_or_time<'de, D: Deserializer<'de>, T: From<Nanos>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct Either;

    impl Visitor<'_> for Either {
        type Value = Nanos;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(
                "a whole number of nanoseconds, or a time with its unit in quotes, such as \"5us\"",
            )
        }

        fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<Nanos, E> {
            Ok(Nanos(nanos))
        }

        fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<Nanos, E> {
            u64::try_from(nanos)
                .map(Nanos)
                .map_err(|_| E::invalid_value(de::Unexpected::Signed(nanos), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Nanos, E> {
            Nanos::parse(text).map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Either).map(T::from)
}

/// The same time of the standard library.
impl From<Nanos> for Duration {
    fn from(time: Nanos) -> Duration {
        Duration::from_nanos(time.0)
    }
}

/// The time in whole nanoseconds, at most [`Nanos::MAX`].
impl From<Duration> for Nanos {
    fn from(time: Duration) -> Nanos {
        Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Nanos {
    /// Writes the time with the largest unit that keeps the number at 1 or above: `1.25ms`, `40ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (places, unit) = match self.0 {
            0..1_000 => (0, "ns"),
            1_000..1_000_000 => (3, "us"),
            1_000_000..1_000_000_000 => (6, "ms"),
            _ => (9, "s"),
        };
        let scale = 10u64.pow(places);
        let whole = self.0 / scale;
        let rest = self.0 % scale;
        if rest == 0 {
            return write!(f, "{whole}{unit}");
        }
        let digits = format!("{rest:0width$}", width = places as usize);
        write!(f, "{whole}.{}{unit}", digits.trim_end_matches('0'))
    }
}

/// A decimal number of 0 or more times 10^`places`, rounded to the nearest whole number, halves up, without the errors
/// of floating point. Numbers beyond 128 bits become the largest such number; `None` if the text is no such number.
pub fn scale_decimal(text: &str, places: i32) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (mantissa, power) = match text.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?.clamp(-9_999, 9_999)),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // The decimal point stands behind this many digits; leading zeros only lengthen the number.
    let point = whole.len() as i64 + i64::from(power) + i64::from(places);
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let digits = &digits.as_bytes()[zeros..];
    let point = point - zeros as i64;
    if digits.is_empty() || point < 0 {
        return Some(0);
    }
    let mut value: u128 = 0;
    for place in 0..point {
        let digit = digits.get(place as usize).map_or(0, |digit| digit - b'0');
        let Some(next) = value
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(digit.into()))
        else {
            return Some(u128::MAX);
        };
        value = next;
    }
    let rounds_up = digits
        .get(point as usize)
        .is_some_and(|digit| *digit >= b'5');
    Some(value.saturating_add(rounds_up.into()))
}

/// Requests per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    /// Writes the rate as short as possible without loss: `5000`, `0.5`. Folders of results have these names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A share of a device, in units of 2^-32. Also the speed of a task relative to running alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u64);

impl Share {
    pub const WHOLE: Share = Share(1 << 32);

    /// The share of `part` in `whole`, rounded up and at most [`Share::WHOLE`].
    pub fn from_ratio(part: u32, whole: u32) -> Share {
        if part >= whole {
            Share::WHOLE
        } else {
            Share((u64::from(part) << 32).div_ceil(u64::from(whole)))
        }
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The index into a vector that has an entry for each id.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A request: its line in the trace, from 0.
    RequestId(u64)
);
id!(
    /// A node of one request's cell graph, from 0.
    NodeId(u32)
);
id!(
    /// A batched task, in order of submission, from 0.
    TaskId(u64)
);
id!(
    /// A worker: one device with its streams, from 0.
    WorkerId(u16)
);
id!(
    /// A stream of a worker; its tasks run in order of submission.
    StreamId(u16)
);
id!(
    /// A cell type of the model; types are numbered by name.
    CellId(u16)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_a_unit() {
        assert_eq!(Nanos::parse("2ms"), Ok(Nanos(2_000_000)));
        assert_eq!(Nanos::parse("1.5 s"), Ok(Nanos(1_500_000_000)));
        assert_eq!(Nanos::parse("250us"), Ok(Nanos(250_000)));
        for bad in [
            "2",
            "2 parsecs",
            "-1ms",
            "ms",
            "1e30s",
            "18446744073709551616ns",
        ] {
            assert!(Nanos::parse(bad).is_err(), "{bad} should be refused");
        }
    }

    #[test]
    fn times_convert_from_and_to_those_of_the_standard_library() {
        assert_eq!(Nanos::from(Duration::from_millis(2)), Nanos(2_000_000));
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
        assert_eq!(Duration::from(Nanos(1_500)).as_nanos(), 1_500);
    }

    #[test]
    fn every_time_reads_back_as_it_was_written() {
        let powers = (0..64).map(|power| 1u64 << power);
        let near = powers.flat_map(|power| [power - 1, power, power + 1]);
        for nanos in near.chain([u64::MAX, 1_000, 1_000_001, 1_787_000_000_000_001_003]) {
            let text = Nanos(nanos).to_string();
            assert_eq!(Nanos::parse(&text), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn decimals_are_scaled_exactly() {
        for (text, places, scaled) in [
            ("1787000000.000001", 9, 1_787_000_000_000_001_000),
            ("1787000000.000003", 9, 1_787_000_000_000_003_000),
            ("1.787e9", 9, 1_787_000_000_000_000_000),
            ("17870000000000e-4", 9, 1_787_000_000_000_000_000),
            ("0.0000000005", 9, 1),
            ("0.00000000049999999999999999", 9, 0),
            ("1.9999999995", 9, 2_000_000_000),
            (".5", 3, 500),
            ("5.", 3, 5_000),
            ("+007", 0, 7),
            ("0e9999", 9, 0),
            ("1e-9999", 9, 0),
            ("1e9999", 9, u128::MAX),
        ] {
            assert_eq!(scale_decimal(text, places), Some(scaled), "{text}");
        }
        for bad in [
            "", ".", "-1", "1,5", "1e", "e5", "1e5.5", "0x1", "nan", "inf", "1 ",
        ] {
            assert_eq!(scale_decimal(bad, 9), None, "{bad}");
        }
    }

    #[test]
    fn rounding_is_that_of_floats_at_every_size() {
        let sizes = (-3..70).map(|power| f64::from(power).exp2());
        let near = sizes.flat_map(|size| {
            [
                size.next_down(),
                size,
                size.next_up(),
                size + 0.5,
                size + 0.25,
                -size,
            ]
        });
        for nanos in near.chain([
            0.0,
            -0.0,
            0.5f64.next_down(),
            1.5,
            2.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ]) {
            assert_eq!(
                Nanos::round(nanos),
                Nanos(nanos.round() as u64),
                "{nanos:e}"
            );
        }
    }

    #[test]
    fn a_share_is_rounded_up_to_all_at_most() {
        assert_eq!(Share::from_ratio(1, 2), Share(1 << 31));
        assert_eq!(Share::from_ratio(1, 3), Share(1_431_655_766));
        assert_eq!(Share::from_ratio(0, 3), Share(0));
        assert_eq!(
            [
                Share::from_ratio(3, 3),
                Share::from_ratio(4, 3),
                Share::from_ratio(0, 0)
            ],
            [Share::WHOLE; 3]
        );
    }

    #[test]
    fn a_time_prints_in_its_largest_unit() {
        assert_eq!(Nanos(1_250_000).to_string(), "1.25ms");
        assert_eq!(Nanos(40).to_string(), "40ns");
    }
}
