//! How figures look: files, size, font, axes, names and legend. The keys are the same on the command line and in a
//! scenario's `[output.figure]`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::axis::Spread;
use crate::base::error::nearest;

#[derive(Clone, Debug, Default, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Look of figures (in scenarios: [output.figure])")]
pub struct Look {
    /// Files to write [default: svg,png]
    #[arg(long, value_delimiter = ',', value_name = "svg,png,pdf", value_parser = named::<PictureFormat>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub format: Vec<PictureFormat>,
    /// Width, such as 3.3in, in in, cm, mm, pt or px [default: 240pt, a column]
    #[arg(long, value_name = "LENGTH", value_parser = Length::side)]
    #[serde(deserialize_with = "side", skip_serializing_if = "Option::is_none")]
    pub width: Option<Length>,
    /// Height, legend and title included [default: what the kind needs]
    #[arg(long, value_name = "LENGTH", value_parser = Length::side)]
    #[serde(deserialize_with = "side", skip_serializing_if = "Option::is_none")]
    pub height: Option<Length>,
    /// "DejaVu Sans", "DejaVu Sans Condensed" or "DejaVu Serif", which are built in, or a font file (.ttf, .otf); any other name
    /// for SVG only [default: DejaVu Sans]
    #[arg(long, value_name = "NAME|FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub font: Option<String>,
    /// Size of ticks and legend; headings, labels and the title are slightly larger [default: 7.5pt]
    #[arg(long, value_name = "LENGTH", value_parser = Length::letters)]
    #[serde(deserialize_with = "letters", skip_serializing_if = "Option::is_none")]
    pub font_size: Option<Length>,
    /// Ends of the x axis, as A..B, A.. or ..B, in its unit
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_range: Option<AxisRange>,
    /// Ends of the y axis
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y_range: Option<AxisRange>,
    /// How values are spread along the x axis [default: log for times and swept keys of several magnitudes]
    #[arg(long, value_name = "log|linear", value_parser = named::<Scale>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_scale: Option<Scale>,
    /// How values are spread along the y axis [default: log for latencies]
    #[arg(long, value_name = "log|linear", value_parser = named::<Scale>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y_scale: Option<Scale>,
    /// Another name for a policy, by its label, for a results folder, or for the axis x or y (repeatable)
    #[arg(long, value_name = "KEY=TEXT", value_parser = relabelled)]
    #[serde(with = "labels", skip_serializing_if = "Vec::is_empty")]
    pub label: Vec<(String, String)>,
    /// Order of the policies, by their labels; others follow
    #[arg(long, value_name = "A,B")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Whether latency-throughput has bars from p50 to p99; on the command line --bars and --no-bars
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<bool>,
    /// Titles of single kinds of figures, by their names
    #[arg(skip)]
    #[serde(with = "labels", skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<(String, String)>,
    /// Place of the legend; inside, it is where it hides least [default: outside, above the axes]
    #[arg(long, value_name = "inside|outside|none", value_parser = named::<Legend>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legend: Option<Legend>,
}

/// A file of a figure.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PictureFormat {
    /// Scalable, for web pages and editing
    Svg,
    /// Pixels, for slides and web pages
    Png,
    /// Scalable with its font, for papers
    Pdf,
    /// SVG and PNG
    #[value(hide = true)]
    Both,
}

impl PictureFormat {
    pub fn extension(self) -> &'static str {
        match self {
            PictureFormat::Svg => "svg",
            PictureFormat::Png => "png",
            PictureFormat::Pdf => "pdf",
            PictureFormat::Both => "svg,png",
        }
    }

    /// Each once; SVG and PNG if none is asked for.
    pub fn all(asked: &[PictureFormat]) -> Vec<PictureFormat> {
        let with = |one: PictureFormat| {
            asked.contains(&one)
                || (one != PictureFormat::Pdf && asked.contains(&PictureFormat::Both))
        };
        let found: Vec<PictureFormat> =
            [PictureFormat::Svg, PictureFormat::Png, PictureFormat::Pdf]
                .into_iter()
                .filter(|one| with(*one))
                .collect();
        if found.is_empty() {
            vec![PictureFormat::Svg, PictureFormat::Png]
        } else {
            found
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    Log,
    Linear,
}

impl From<Scale> for Spread {
    fn from(scale: Scale) -> Spread {
        match scale {
            Scale::Log => Spread::Log,
            Scale::Linear => Spread::Linear,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Legend {
    Inside,
    #[default]
    Outside,
    None,
}

/// One of several names; others are told them.
fn named<T: ValueEnum + Clone + Send + Sync + 'static>(text: &str) -> Result<T, String> {
    T::from_str(text.trim(), false).map_err(|_| {
        let shown = T::value_variants()
            .iter()
            .filter_map(T::to_possible_value)
            .filter(|value| !value.is_hide_set());
        let known: Vec<String> = shown.map(|value| value.get_name().to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        format!(
            "unknown value \"{text}\"{}; known: {}",
            nearest(text, &known),
            known.join(", ")
        )
    })
}

/// A length in points, 72 to the inch.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Length(pub f64);

const UNITS: [(&str, f64); 5] = [
    ("in", 72.0),
    ("cm", 72.0 / 2.54),
    ("mm", 7.2 / 2.54),
    ("pt", 1.0),
    ("px", 0.75),
];

impl Length {
    /// Reads the length of a side of a figure, from a centimetre to a metre.
    pub fn side(text: &str) -> Result<Length, String> {
        Length::within(text, "1cm", "100cm")
    }

    /// Reads a size of letters.
    pub fn letters(text: &str) -> Result<Length, String> {
        Length::within(text, "4pt", "72pt")
    }

    fn within(text: &str, least: &str, most: &str) -> Result<Length, String> {
        let length: Length = text.parse()?;
        let [low, high] =
            [least, most].map(|end| end.parse::<Length>().expect("a length with its unit"));
        match (low..=high).contains(&length) {
            true => Ok(length),
            false => Err(format!(
                "\"{text}\" is out of range; from {least} to {most}"
            )),
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        let wrong = |what: &str| {
            Err(format!(
                "\"{text}\" {what}; write a number with in, cm, mm, pt or px, such as 3.3in"
            ))
        };
        let Some((number, points)) = UNITS
            .iter()
            .find_map(|(unit, points)| Some((text.strip_suffix(unit)?, points)))
        else {
            return wrong(if text.parse::<f64>().is_ok() {
                "has no unit"
            } else {
                "is not a length"
            });
        };
        match number.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(Length(number * points)),
            _ => wrong("is not a length"),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 3.3in are 237.6pt, not 237.59999999999997pt.
        write!(f, "{}pt", (self.0 * 1e6).round() / 1e6)
    }
}

/// The ends of an axis; `None`: those of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisRange {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl FromStr for AxisRange {
    type Err = String;

    fn from_str(text: &str) -> Result<AxisRange, String> {
        let wrong = |what: &str| {
            format!("\"{text}\" {what}; write A..B, A.. or ..B with numbers, such as 0..500")
        };
        let (low, high) = text
            .split_once("..")
            .ok_or_else(|| wrong("is not a range"))?;
        let end = |text: &str| match text.trim() {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(end) if end.is_finite() => Ok(Some(end)),
                _ => Err(wrong("is not a range")),
            },
        };
        match (end(low)?, end(high)?) {
            (None, None) => Err(wrong("has no end")),
            (Some(low), Some(high)) if low >= high => Err(wrong("does not ascend")),
            (low, high) => Ok(AxisRange { low, high }),
        }
    }
}

impl fmt::Display for AxisRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: Option<f64>| end.map_or(String::new(), |end| end.to_string());
        write!(f, "{}..{}", end(self.low), end(self.high))
    }
}

fn relabelled(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, text)) if !key.is_empty() => Ok((key.into(), text.into())),
        _ => Err(format!(
            "\"{text}\" is not KEY=TEXT; KEY is a policy's label, a results folder, x or y"
        )),
    }
}

/// Makes a type a text in files.
macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
as_text!(Length, AxisRange);

fn side<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Length>, D::Error> {
    Length::side(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(D::Error::custom)
}

fn letters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Length>, D::Error> {
    Length::letters(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(D::Error::custom)
}

/// A table of texts.
mod labels {
    use super::*;

    pub fn serialize<S: Serializer>(
        labels: &[(String, String)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(labels.iter().map(|(key, text)| (key, text)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, String)>, D::Error> {
        Ok(BTreeMap::deserialize(deserializer)?.into_iter().collect())
    }
}
