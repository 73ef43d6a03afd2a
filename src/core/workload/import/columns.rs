//! The columns of traces with times: what each format calls them, and what the user does.

use super::times::{TIME_COLUMNS, TimeNotation};
use super::{ImportFormat, ImportOptions, ImportedShape, normalize};
use crate::core::workload::input::locate;

/// Our names for columns, beside those of [`TIME_COLUMNS`].
const LENGTH_IN: &str = "length_in";
const LENGTH_OUT: &str = "length_out";
const CLASS: &str = "class";
const IMAGES: &str = "images";

/// A format with times.
pub(super) struct TimedFormat {
    pub format: ImportFormat,
    name: &'static str,
    /// The number of columns, the first ones, by which a header is told.
    needed: usize,
    /// The name of each column in lower case, and our name for it.
    columns: &'static [(&'static str, &'static str)],
}

/// A header that fits several formats belongs to the first.
pub(super) static TIMED: [TimedFormat; 6] = [
    TimedFormat {
        format: ImportFormat::AzureLmm,
        name: "azure-lmm",
        needed: 3,
        columns: &[
            ("timestamp", "arrival"),
            ("numimages", IMAGES),
            ("contexttokens", LENGTH_IN),
            ("generatedtokens", LENGTH_OUT),
        ],
    },
    TimedFormat {
        format: ImportFormat::Azure,
        name: "azure",
        needed: 2,
        columns: &[
            ("timestamp", "arrival"),
            ("contexttokens", LENGTH_IN),
            ("generatedtokens", LENGTH_OUT),
        ],
    },
    TimedFormat {
        format: ImportFormat::BurstGpt,
        name: "burstgpt",
        needed: 2,
        columns: &[
            ("timestamp", "arrival_s"),
            ("request tokens", LENGTH_IN),
            ("response tokens", LENGTH_OUT),
        ],
    },
    TimedFormat {
        format: ImportFormat::Mooncake,
        name: "mooncake",
        needed: 2,
        columns: &[
            ("timestamp", "arrival_ms"),
            ("input_length", LENGTH_IN),
            ("output_length", LENGTH_OUT),
        ],
    },
    TimedFormat {
        format: ImportFormat::Alibaba,
        name: "alibaba",
        needed: 2,
        columns: &[
            ("gmt_create", "arrival"),
            ("num_inference_steps", LENGTH_IN),
            ("predict_type", CLASS),
        ],
    },
    TimedFormat {
        format: ImportFormat::Csv,
        name: "csv",
        needed: 1,
        columns: &[("arrival_s", "arrival_s")],
    },
];

/// The formats with times, each with the columns by which it is told.
pub(super) fn known_headers() -> String {
    let headers = TIMED.each_ref().map(|timed| {
        let needed = &timed.columns[..timed.needed];
        let names: Vec<&str> = needed.iter().map(|(theirs, _)| *theirs).collect();
        format!("{} ({})", timed.name, names.join(","))
    });
    headers.join(", ")
}

impl TimedFormat {
    /// Whether a header has the columns by which the format is told.
    pub fn is_header(&self, names: &[String], map: &ColumnMap) -> bool {
        if self.format == ImportFormat::Csv {
            let ours = |name: &String| map.ours(name).unwrap_or(name).to_string();
            return names.iter().any(|name| is_time(&ours(name)));
        }
        let mut needed = self.columns[..self.needed].iter();
        needed.all(|(theirs, _)| names.iter().any(|name| name == theirs))
    }

    /// What the format calls a column of ours.
    fn theirs(&self, ours: &'static str) -> &'static str {
        let column = self.columns.iter().find(|(_, known)| *known == ours);
        column.map_or(ours, |(theirs, _)| theirs)
    }
}

fn is_time(ours: &str) -> bool {
    TIME_COLUMNS.iter().any(|(name, _)| *name == ours)
}

/// The names that a user's columns have among ours.
#[derive(Clone, Debug, Default)]
pub struct ColumnMap(Vec<(String, &'static str)>);

impl ColumnMap {
    /// Reads pairs `YOURS=OURS`.
    ///
    /// # Errors
    /// A pair has no name of ours, or two pairs have the same.
    pub fn parse(pairs: &[String]) -> Result<ColumnMap, String> {
        let mut map: Vec<(String, &'static str)> = Vec::new();
        for pair in pairs {
            let (yours, ours) = pair
                .rsplit_once('=')
                .ok_or_else(|| format!("\"{pair}\" has no =; write YOURS=OURS"))?;
            let times = TIME_COLUMNS.iter().map(|(name, _)| *name);
            let known: Vec<&str> = times
                .chain([LENGTH_IN, LENGTH_OUT, CLASS, IMAGES])
                .collect();
            let Some(ours) = known.iter().find(|name| **name == ours.trim()) else {
                return Err(format!(
                    "\"{ours}\" is not a column of ours; known: {}",
                    known.join(", ")
                ));
            };
            let same = |other: &str| other == *ours || (is_time(other) && is_time(ours));
            if let Some((other, taken)) = map.iter().find(|(_, other)| same(other)) {
                return Err(format!(
                    "\"{other}\" is {taken} already; a trace has one such column"
                ));
            }
            map.push((normalize(yours), ours));
        }
        Ok(ColumnMap(map))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn ours(&self, name: &str) -> Option<&'static str> {
        let pair = self.0.iter().find(|(yours, _)| yours == name);
        pair.map(|(_, ours)| *ours)
    }

    /// Whether a column that has not been mapped may hold this: another one may have taken the name.
    fn leaves(&self, name: &str) -> bool {
        let takes = |ours: &str| ours == name || (is_time(ours) && is_time(name));
        !self.0.iter().any(|(_, ours)| takes(ours))
    }
}

/// The places of the columns in a header.
pub(super) struct Places {
    pub time: usize,
    pub notation: TimeNotation,
    pub length: Option<usize>,
    pub target: Option<usize>,
    pub class: Option<usize>,
    /// The number of images, by which requests without a class are told apart.
    pub images: Option<usize>,
}

impl Places {
    /// Finds the columns that a shape needs. Messages begin with the header's line or the option.
    pub fn find(
        line: usize,
        header: &[String],
        timed: &TimedFormat,
        options: &ImportOptions,
    ) -> Result<Places, String> {
        let map = &options.columns;
        for (yours, ours) in &map.0 {
            if !header.contains(yours) {
                return Err(format!(
                    "--map {yours}={ours}: no column \"{yours}\" in the header \"{}\"",
                    header.join(",")
                ));
            }
        }
        let names: Vec<&str> = header
            .iter()
            .map(|name| match map.ours(name) {
                Some(ours) => ours,
                None => {
                    let known = timed.columns.iter().find(|(theirs, _)| theirs == name);
                    let ours = known.map_or(name.as_str(), |(_, ours)| ours);
                    if map.leaves(ours) { ours } else { "" }
                }
            })
            .collect();
        let place = |ours: &str| names.iter().position(|name| *name == ours);
        let need = |ours: &'static str| {
            place(ours).ok_or_else(|| {
                format!(
                    "no column \"{}\" in the header \"{}\"; if yours has another name, add --map YOURS={ours}",
                    timed.theirs(ours),
                    header.join(",")
                )
            })
        };
        let times = TIME_COLUMNS.iter();
        let found = times.filter_map(|(ours, notation)| Some((place(ours)?, *notation)));
        let time = match found.min_by_key(|(place, _)| *place) {
            Some(found) => Ok(found),
            None => {
                let known = timed.columns.iter().find(|(_, ours)| is_time(ours));
                let missing = known.map_or(TIME_COLUMNS[0].0, |(_, ours)| ours);
                need(missing).map(|place| (place, TimeNotation::Date))
            }
        };
        let (time, notation) = time.map_err(locate(format!("line {line}")))?;
        let (length, target) = lengths(timed, options.shape, &place, &need).map_err(|problem| {
            match options.shape {
                Some(ImportedShape::Tree) => problem,
                _ => format!("line {line}: {problem}"),
            }
        })?;
        Ok(Places {
            time,
            notation,
            length,
            target,
            class: [CLASS, "model", "tenant"].into_iter().find_map(&place),
            images: place(IMAGES),
        })
    }
}

/// The columns of the lengths of input and output that a shape has.
fn lengths(
    timed: &TimedFormat,
    shape: Option<ImportedShape>,
    place: &dyn Fn(&str) -> Option<usize>,
    need: &dyn Fn(&'static str) -> Result<usize, String>,
) -> Result<(Option<usize>, Option<usize>), String> {
    match shape {
        Some(ImportedShape::Fixed) => Ok((None, None)),
        Some(ImportedShape::Tree) => {
            Err("a length can't become a tree; it becomes a chain, seq2seq, llm or tokens".into())
        }
        Some(ImportedShape::Seq2seq | ImportedShape::Llm) => {
            Ok((Some(need(LENGTH_IN)?), Some(need(LENGTH_OUT)?)))
        }
        Some(ImportedShape::Chain | ImportedShape::Tokens) => Ok((Some(need(LENGTH_IN)?), None)),
        None if timed.format == ImportFormat::Csv && place(LENGTH_IN).is_none() => {
            match place(LENGTH_OUT) {
                None => Ok((None, None)),
                Some(_) => Err(format!(
                    "a column is {LENGTH_OUT}, and none is {LENGTH_IN}; add --map YOURS={LENGTH_IN}, or --as fixed to leave \
                     the lengths out"
                )),
            }
        }
        None => Ok((Some(need(LENGTH_IN)?), place(LENGTH_OUT))),
    }
}
