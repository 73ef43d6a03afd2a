//! Times in the notations of published traces.

use toml::value::{Datetime, Offset};

use crate::base::units::scale_decimal;

/// How a column of arrival times is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeNotation {
    /// A date and a time of day.
    Date,
    /// A number whose unit is this power of ten of a nanosecond.
    Number { places: i32, unit: &'static str },
}

/// The columns of arrival times by our names for them.
pub(super) const TIME_COLUMNS: [(&str, TimeNotation); 5] = [
    ("arrival_s", number(9, "seconds")),
    ("arrival_ms", number(6, "milliseconds")),
    ("arrival_us", number(3, "microseconds")),
    ("arrival_ns", number(0, "nanoseconds")),
    ("arrival", TimeNotation::Date),
];

const fn number(places: i32, unit: &'static str) -> TimeNotation {
    TimeNotation::Number { places, unit }
}

impl TimeNotation {
    /// The time in nanoseconds, since 1970 for dates. `given` is the column's name in the file, for messages.
    pub fn parse(self, text: &str, given: &str) -> Result<i128, String> {
        let TimeNotation::Number { places, unit } = self else {
            return match date_time(text) {
                Some(nanos) if nanos >= 0 => Ok(nanos),
                Some(_) => Err(format!("\"{text}\" is before 1970, in which dates begin")),
                None => Err(format!(
                    "\"{text}\" is not a date and a time, as 2023-11-16 18:15:46.6805900"
                )),
            };
        };
        let Some(nanos) = scale_decimal(text, places) else {
            return Err(format!("\"{text}\" is not a number of {unit}, 0 or more"));
        };
        match u64::try_from(nanos) {
            Ok(nanos) => Ok(nanos.into()),
            Err(_) => Err(too_large(text, unit, places, given)),
        }
    }
}

/// The problem of a number that is too large for its unit, with the smaller unit that it may have.
fn too_large(text: &str, unit: &str, places: i32, given: &str) -> String {
    let smaller = TIME_COLUMNS
        .iter()
        .find_map(|(column, notation)| match notation {
            TimeNotation::Number {
                places: other,
                unit,
            } if *other < places && fits(text, *other) => Some((unit, column)),
            _ => None,
        });
    match smaller {
        Some((smaller, column)) => format!(
            "{text} is too large for {unit}; {smaller}? then add --map \"{given}={column}\""
        ),
        None => format!("{text} is too large for {unit}; times go up to 584 years"),
    }
}

fn fits(text: &str, places: i32) -> bool {
    scale_decimal(text, places).is_some_and(|nanos| nanos <= u64::MAX.into())
}

/// Nanoseconds since 1970 of `2023-11-16 18:15:46.6805900`; `T` for the space and a trailing `Z`, `+01:00`, `+0100` or
/// `+01` are allowed. All but the last two are TOML's.
fn date_time(text: &str) -> Option<i128> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let (clock, zone) = time.split_at(time.find(['+', '-']).unwrap_or(time.len()));
    let digits = zone.replace(':', "");
    let zone = match digits.len() {
        3 => format!("{digits}:00"),
        5 => format!("{}:{}", digits.get(..3)?, digits.get(3..)?),
        _ => digits,
    };
    let Datetime {
        date: Some(date),
        time: Some(time),
        offset,
    } = format!("{date}T{clock}{zone}").parse().ok()?
    else {
        return None;
    };
    let ahead = match offset {
        Some(Offset::Custom { minutes }) => i64::from(minutes),
        _ => 0,
    };
    let days = days_since_1970(date.year.into(), date.month.into(), date.day.into());
    let minutes = (days * 24 + i64::from(time.hour)) * 60 + i64::from(time.minute) - ahead;
    let nanos = i128::from(time.nanosecond.unwrap_or(0));
    Some(i128::from(minutes * 60 + i64::from(time.second?)) * 1_000_000_000 + nanos)
}

/// The days from the start of 1970 to a date of the Gregorian calendar. Years begin in March here, so that the leap day
/// is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let leap_days = year / 4 - year / 100 + year / 400;
    let months_since_march = (month + 9) % 12;
    let days_before_month = (153 * months_since_march + 2) / 5;
    const EPOCH: i64 = 719_468; // the same sum for 1970-01-01, so that it becomes day 0
    year * 365 + leap_days + days_before_month + day - 1 - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_in_nanoseconds() {
        assert_eq!(date_time("1970-01-01 00:00:00"), Some(0));
        assert_eq!(
            date_time("2000-02-29 12:00:00.5"),
            Some(951_825_600_500_000_000)
        );
        assert_eq!(
            date_time("2024-05-10 01:30:00.009930+01:30"),
            Some(1_715_299_200_009_930_000)
        );
        assert_eq!(
            date_time("2024-05-10T00:00:00Z"),
            Some(1_715_299_200_000_000_000)
        );
        assert_eq!(
            date_time("2023-11-16 18:15:46-0100"),
            Some(1_700_162_146_000_000_000)
        );
        for bad in [
            "",
            "2023-11-16",
            "2023-13-01 00:00:00",
            "2023-11-16 18:15",
            "2023-11-16 18:15:46.x",
            "x y",
        ] {
            assert_eq!(date_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_begin_in_1970() {
        for early in ["1969-12-31 23:59:59", "0000-01-01 00:00:00"] {
            let problem = format!("\"{early}\" is before 1970, in which dates begin");
            assert_eq!(TimeNotation::Date.parse(early, "at"), Err(problem));
        }
    }

    #[test]
    fn numbers_are_exact_and_name_a_smaller_unit() {
        let seconds = TIME_COLUMNS[0].1;
        assert_eq!(
            seconds.parse("1787000000.000001", "ts"),
            Ok(1_787_000_000_000_001_000)
        );
        for (text, problem) in [
            ("soon", "\"soon\" is not a number of seconds, 0 or more"),
            ("-1", "\"-1\" is not a number of seconds, 0 or more"),
            (
                "1787000000123",
                "1787000000123 is too large for seconds; milliseconds? then add --map \"ts=arrival_ms\"",
            ),
            (
                "1787000000123456",
                "1787000000123456 is too large for seconds; microseconds? then add --map \"ts=arrival_us\"",
            ),
            (
                "1787000000123456789",
                "1787000000123456789 is too large for seconds; nanoseconds? then add --map \"ts=arrival_ns\"",
            ),
            (
                "1e300",
                "1e300 is too large for seconds; times go up to 584 years",
            ),
        ] {
            assert_eq!(seconds.parse(text, "ts"), Err(problem.into()), "{text}");
        }
    }
}
