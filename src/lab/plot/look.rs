//! How figures look: files, size, font, axes, names and legend. The keys are the same on the command line and in a
//! scenario's `[output.figure]`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::axis::{AxisRange, Spread};
use crate::base::error::nearest;

// What a user can choose about figures. A doc comment here would replace that of the command; those of the fields are
// the help of the options.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Look of figures (in scenarios: [output.figure])")]
pub struct Look {
    /// Files to write [default: svg,png]
    #[arg(long, value_delimiter = ',', value_name = "svg,png,pdf", value_parser = parse_name::<PictureFormat>)]
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
    /// "DejaVu Sans", "DejaVu Sans Condensed" or "DejaVu Serif", which are built in, or a font file (.ttf, .otf); any
    /// other name for SVG only [default: DejaVu Sans]
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
    #[arg(long, value_name = "log|linear", value_parser = parse_name::<Scale>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_scale: Option<Scale>,
    /// How values are spread along the y axis [default: log for latencies]
    #[arg(long, value_name = "log|linear", value_parser = parse_name::<Scale>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y_scale: Option<Scale>,
    /// Another name for a policy, by its label, for a results folder, or for the axis x or y (repeatable)
    #[arg(long, value_name = "KEY=TEXT", value_parser = parse_label)]
    #[serde(with = "labels", skip_serializing_if = "Vec::is_empty")]
    pub label: Vec<(String, String)>,
    /// Order of the policies, by their labels; others follow
    #[arg(long, value_name = "A,B")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Whether latency-throughput has bars from p50 to p99 [default: with at most 4 policies]
    #[arg(long, value_name = "true|false")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<bool>,
    /// Titles of single kinds of figures, by their names
    #[arg(skip)]
    #[serde(with = "labels", skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<(String, String)>,
    /// Place of the legend; inside, it is where it hides least [default: outside, above the axes]
    #[arg(long, value_name = "inside|outside|none", value_parser = parse_name::<Legend>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legend: Option<Legend>,
}

/// A format of a figure's file.
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

    /// The formats that are asked for, each once; SVG and PNG if none is.
    pub fn all(asked: &[PictureFormat]) -> Vec<PictureFormat> {
        let has_both = asked.is_empty() || asked.contains(&PictureFormat::Both);
        let mut all = Vec::new();
        if has_both || asked.contains(&PictureFormat::Svg) {
            all.push(PictureFormat::Svg);
        }
        if has_both || asked.contains(&PictureFormat::Png) {
            all.push(PictureFormat::Png);
        }
        if asked.contains(&PictureFormat::Pdf) {
            all.push(PictureFormat::Pdf);
        }
        all
    }
}

/// How a user can spread values along an axis.
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

/// The place of a figure's legend.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Legend {
    Inside,
    #[default]
    Outside,
    None,
}

/// Reads one of several names. The error for another name lists them.
fn parse_name<T: ValueEnum + Clone + Send + Sync + 'static>(text: &str) -> Result<T, String> {
    if let Ok(value) = T::from_str(text.trim(), false) {
        return Ok(value);
    }
    let known: Vec<String> = T::value_variants()
        .iter()
        .filter_map(T::to_possible_value)
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_string())
        .collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(format!(
        "unknown value \"{text}\"{}; known: {}",
        nearest(text, &known),
        known.join(", ")
    ))
}

/// A length in points, 72 to the inch.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Length(pub f64);

/// The units of a length, each with its points.
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
        let low: Length = least.parse()?;
        let high: Length = most.parse()?;
        if (low..=high).contains(&length) {
            Ok(length)
        } else {
            Err(format!(
                "\"{text}\" is out of range; from {least} to {most}"
            ))
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        for (unit, points) in UNITS {
            let Some(number) = text.strip_suffix(unit) else {
                continue;
            };
            return match number.trim().parse::<f64>() {
                Ok(number) if number.is_finite() && number > 0.0 => Ok(Length(number * points)),
                _ => Err(wrong_length(text, "is not a length")),
            };
        }
        Err(wrong_length(
            text,
            if text.parse::<f64>().is_ok() {
                "has no unit"
            } else {
                "is not a length"
            },
        ))
    }
}

fn wrong_length(text: &str, what: &str) -> String {
    format!("\"{text}\" {what}; write a number with in, cm, mm, pt or px, such as 3.3in")
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounding hides the noise of the unit: 3.3in are 237.6pt, not 237.59999999999997pt.
        write!(f, "{}pt", (self.0 * 1e6).round() / 1e6)
    }
}

/// Reads `KEY=TEXT`.
fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, text)) if !key.is_empty() => Ok((key.into(), text.into())),
        _ => Err(format!(
            "\"{text}\" is not KEY=TEXT; KEY is a policy's label, a results folder, x or y"
        )),
    }
}

/// Implements reading and writing a type as a text in files.
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

/// Reads and writes a list of pairs as a table of texts.
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
