//! Reads published traces and shapes in their own formats. Columns are found by name, in any case and order; others are
//! ignored. A trace with times is CSV or has an object with these names in each line (JSON lines).

use std::io::Read;
use std::sync::Arc;

use csv::StringRecord;
use serde_json::{Map, Value};
use toml::value::{Datetime, Offset};

use super::shape::{MAX_LENGTH, Shape};
use super::trace::{Names, class_name};
use super::treebanks::{self, Notation};
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;

/// A format of published traces and shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens.
    Azure,
    /// BurstGPT: Timestamp,Model,Request tokens,Response tokens and others.
    BurstGpt,
    /// Mooncake: {"timestamp": …, "input_length": …, "output_length": …} in each line, the time in milliseconds.
    Mooncake,
    /// Seconds and lengths: `arrival_s,length_in,length_out`, the last optional.
    Csv,
    /// A sentence per line; its length is the number of words between spaces.
    Sentences,
    /// A tree per line: the 1-based parent of each node, 0 for the root, as in SICK's .parents files.
    Parents,
    /// The s-expressions of the Stanford and Penn treebanks.
    Treebank,
    /// CoNLL-U: a word per line, whose head is its parent in the tree.
    Conllu,
}

/// The shape that an imported request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedShape {
    /// A chain as long as the input.
    Chain,
    /// The lengths of input and output.
    Seq2seq,
    /// One pass over the tokens of an input.
    Tokens,
    /// The prompt and the output of a language model.
    Llm,
    /// A tree.
    Tree,
}

/// The requests of a file.
#[derive(Clone, Debug, Default)]
pub struct ImportedRequests {
    pub shapes: Arc<[Shape]>,
    /// The arrivals, the first at zero; `None` for formats without times.
    pub arrivals: Option<Arc<[Nanos]>>,
    /// The classes by the first of these columns that is there: class, model, tenant.
    pub classes: Option<Arc<[Arc<str>]>>,
    /// The number of rows that were left out because of a length 0.
    pub skipped: usize,
    /// Whether the rows were not in the order of their times and have been sorted.
    pub sorted: bool,
}

/// A function that reads a time in nanoseconds, and the name of such a time.
type TimeUnit = (fn(&str) -> Option<i128>, &'static str);

const SECONDS: TimeUnit = (|text| decimal(text, 1e9), "a number of seconds, 0 or more");
const MILLISECONDS: TimeUnit = (
    |text| decimal(text, 1e6),
    "a number of milliseconds, 0 or more",
);
const DATE: TimeUnit = (
    date_time,
    "a date and a time, as 2023-11-16 18:15:46.6805900",
);

/// A format with times: the columns of the time and of the lengths of input and output, the last optional.
type TimedFormat = (ImportFormat, [&'static str; 3], TimeUnit);

static TIMED: [TimedFormat; 4] = [
    (
        ImportFormat::Azure,
        ["timestamp", "contexttokens", "generatedtokens"],
        DATE,
    ),
    (
        ImportFormat::BurstGpt,
        ["timestamp", "request tokens", "response tokens"],
        SECONDS,
    ),
    (
        ImportFormat::Mooncake,
        ["timestamp", "input_length", "output_length"],
        MILLISECONDS,
    ),
    (
        ImportFormat::Csv,
        ["arrival_s", "length_in", "length_out"],
        SECONDS,
    ),
];

impl ImportFormat {
    /// The format with times whose columns the first line names.
    pub fn from_header(first_line: &str) -> Result<ImportFormat> {
        let names: Vec<String> = match serde_json::from_str::<Map<String, Value>>(first_line) {
            Ok(object) => object.keys().map(|name| normalize(name)).collect(),
            Err(_) => first_line.split(',').map(normalize).collect(),
        };
        let found = TIMED.iter().find(|(_, columns, _)| {
            let mut needed = columns[..2].iter();
            needed.all(|column| names.iter().any(|name| name == column))
        });
        found.map(|(format, ..)| *format).ok_or_else(|| {
            Error::input(
                "line 1: not the header of azure, burstgpt, mooncake or csv; name the format with --format, as sentences or parents",
            )
        })
    }

    fn timed_format(self) -> Option<&'static TimedFormat> {
        TIMED.iter().find(|(format, ..)| *format == self)
    }

    pub fn is_timed(self) -> bool {
        self.timed_format().is_some()
    }

    /// Reads requests. Without a `kind`, two lengths make a seq2seq shape, one makes a chain, and a parse a tree.
    pub fn read(self, text: &str, kind: Option<ImportedShape>) -> Result<ImportedRequests> {
        let imported = match (self, self.timed_format()) {
            (_, Some(timed)) => read_timed(text, timed, kind)?,
            (ImportFormat::Treebank, _) => read_trees(text, treebanks::brackets, kind)?,
            (ImportFormat::Conllu, _) => read_trees(text, treebanks::conllu, kind)?,
            (ImportFormat::Parents, _) => read_trees(text, treebanks::parents, kind)?,
            (_, None) => read_sentences(text, kind)?,
        };
        if imported.shapes.is_empty() {
            return Err(Error::input("holds no requests"));
        }
        Ok(imported)
    }
}

/// The name of a column without regard to case, blanks and a byte-order mark.
fn normalize(name: &str) -> String {
    name.trim_start_matches('\u{feff}')
        .trim()
        .to_ascii_lowercase()
}

fn read_timed(
    text: &str,
    (_, columns, unit): &TimedFormat,
    kind: Option<ImportedShape>,
) -> Result<ImportedRequests> {
    let (header, rows) = if text.starts_with('{') {
        json_rows(text)?
    } else {
        csv_rows(text)?
    };
    let place = |name: &str| header.iter().position(|column| column == name);
    let need = |name: &str| {
        place(name).ok_or_else(|| {
            Error::input(format!(
                "line 1: no column \"{name}\" in the header \"{}\"",
                header.join(",")
            ))
        })
    };
    let time = need(columns[0])?;
    let length = need(columns[1])?;
    let target = match kind {
        None => place(columns[2]),
        Some(ImportedShape::Seq2seq | ImportedShape::Llm) => Some(need(columns[2])?),
        Some(ImportedShape::Chain | ImportedShape::Tokens) => None,
        Some(ImportedShape::Tree) => {
            return Err(Error::input(
                "a length can't become a tree; it becomes a chain, seq2seq, llm or tokens",
            ));
        }
    };
    let shape = |input, output| match (kind, output) {
        (Some(ImportedShape::Llm), Some(output)) => Shape::Llm {
            prompt: input,
            output,
        },
        (_, Some(target)) => Shape::Seq2Seq {
            source: input,
            target,
        },
        (Some(ImportedShape::Tokens), None) => Shape::Tokens(input),
        _ => Shape::Chain(input),
    };

    let class = ["class", "model", "tenant"].into_iter().find_map(place);
    let mut names = Names::default();
    let mut requests: Vec<(i128, Shape, Option<Arc<str>>)> = Vec::new();
    let mut skipped = 0;
    for row in rows {
        let (start, record) = row?;
        let field = |column: usize| record.get(column).unwrap_or("").trim();
        let wrong = |column: usize, problem: String| {
            Error::input(format!(
                "line {}: {}: {problem}",
                line_of(text, start),
                header[column]
            ))
        };
        let size = |column| {
            let is_not = || {
                wrong(
                    column,
                    format!(
                        "\"{}\" is not a whole number up to {MAX_LENGTH}",
                        field(column)
                    ),
                )
            };
            tokens(field(column)).ok_or_else(is_not)
        };
        let (parse, time_is) = unit;
        let at = parse(field(time))
            .ok_or_else(|| wrong(time, format!("\"{}\" is not {time_is}", field(time))))?;
        let input = size(length)?;
        let output = target.map(size).transpose()?;
        if input == 0 || output == Some(0) {
            skipped += 1;
        } else {
            let name = |column| class_name(field(column)).map_err(|problem| wrong(column, problem));
            let class = class.map(name).transpose()?.map(|name| names.one(name));
            requests.push((at, shape(input, output), class));
        }
    }

    let sorted = !requests.is_sorted_by_key(|(at, ..)| *at);
    requests.sort_by_key(|(at, ..)| *at); // stable: requests of one instant keep the file's order
    let first = requests.first().map_or(0, |(at, ..)| *at);
    let arrivals = requests
        .iter()
        .map(|(at, ..)| u64::try_from(at - first).map(Nanos))
        .collect::<Result<Arc<[Nanos]>, _>>()
        .map_err(|_| Error::input(format!("the arrivals span more than {}", Nanos::MAX)))?;
    let classes = class.map(|_| {
        requests
            .iter()
            .filter_map(|(.., class)| class.clone())
            .collect()
    });
    let shapes = requests.into_iter().map(|(_, shape, _)| shape).collect();
    Ok(ImportedRequests {
        shapes,
        arrivals: Some(arrivals),
        classes,
        skipped,
        sorted,
    })
}

/// The names of the columns; the place of each row in the text, and its fields.
type FileRows<'t> = (
    Vec<String>,
    Box<dyn Iterator<Item = Result<(usize, StringRecord)>> + 't>,
);

fn csv_rows(text: &str) -> Result<FileRows<'_>> {
    let broken = |error: csv::Error| Error::input(format!("cannot be read: {error}"));
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let header = reader
        .headers()
        .map_err(broken)?
        .iter()
        .map(normalize)
        .collect();
    let start = |record: &StringRecord| {
        record
            .position()
            .map_or(0, |position| position.byte() as usize)
    };
    let rows = reader
        .into_records()
        .map(move |row| row.map(|row| (start(&row), row)).map_err(broken));
    Ok((header, Box::new(rows)))
}

/// The rows of JSON lines, of which the first object names the columns.
fn json_rows(text: &str) -> Result<FileRows<'_>> {
    let object = move |line: &str| {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        serde_json::from_str::<Map<String, Value>>(line)
            .map(|object| (start, object))
            .map_err(|cause| {
                Error::input(format!(
                    "line {}: is not a JSON object: {cause}",
                    line_of(text, start)
                ))
            })
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let first = lines()
        .next()
        .map(object)
        .transpose()?
        .map_or(Map::new(), |(_, first)| first);
    let keys: Vec<String> = first.keys().cloned().collect();
    let header = keys.iter().map(|key| normalize(key)).collect();
    let field = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(number @ Value::Number(_)) => number.to_string(),
        _ => String::new(),
    };
    let fields = move |object: Map<String, Value>| {
        keys.iter()
            .map(|key| field(object.get(key)))
            .collect::<Vec<_>>()
    };
    let rows =
        lines().map(move |line| object(line).map(|(start, object)| (start, fields(object).into())));
    Ok((header, Box::new(rows)))
}

/// A number of tokens; 0 means that a request failed. Some files write `12.0`.
fn tokens(text: &str) -> Option<u32> {
    text.strip_suffix(".0")
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|n| *n <= MAX_LENGTH)
}

/// Reads a text in UTF-8 to its end.
pub fn read_text(mut input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input
        .read_to_end(&mut bytes)
        .map_err(|cause| Error::input(format!("cannot be read: {cause}")))?;
    String::from_utf8(bytes).map_err(|_| Error::input("not a text file in UTF-8"))
}

/// The number of the line at a place of the text. The CSV reader's own count ignores preceding empty lines.
fn line_of(text: &str, start: usize) -> usize {
    let empty = text[start..].len() - text[start..].trim_start_matches(['\r', '\n']).len();
    1 + text.as_bytes()[..start + empty]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

fn read_trees(
    text: &str,
    notation: Notation,
    kind: Option<ImportedShape>,
) -> Result<ImportedRequests> {
    if !matches!(kind, None | Some(ImportedShape::Tree)) {
        return Err(Error::input("a parse becomes a tree"));
    }
    let trees = treebanks::read(notation, text).map_err(Error::input)?;
    let shapes = trees
        .into_iter()
        .map(|found| Shape::Tree(Arc::new(found.tree)))
        .collect();
    Ok(ImportedRequests {
        shapes,
        ..ImportedRequests::default()
    })
}

fn read_sentences(text: &str, kind: Option<ImportedShape>) -> Result<ImportedRequests> {
    let shape = match kind {
        None | Some(ImportedShape::Chain) => Shape::Chain,
        Some(ImportedShape::Tokens) => Shape::Tokens,
        Some(ImportedShape::Seq2seq | ImportedShape::Tree | ImportedShape::Llm) => {
            return Err(Error::input("a sentence becomes a chain or tokens"));
        }
    };
    let shapes: Arc<[Shape]> = sentences(text).map(shape).collect();
    let skipped = text.lines().count() - shapes.len();
    Ok(ImportedRequests {
        shapes,
        skipped,
        ..ImportedRequests::default()
    })
}

/// The number of words between blanks in each line that has any.
pub fn sentences(text: &str) -> impl Iterator<Item = u32> {
    let text = text.trim_start_matches('\u{feff}');
    text.lines()
        .map(|line| line.split_whitespace().count().min(MAX_LENGTH as usize) as u32)
        .filter(|words| *words > 0)
}

/// A time of this unit in nanoseconds; `unit` is the number of nanoseconds in it.
fn decimal(text: &str, unit: f64) -> Option<i128> {
    let time: f64 = text.parse().ok()?;
    (time >= 0.0 && time < u64::MAX as f64 / unit).then(|| (time * unit).round() as i128)
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
    (date.year >= 1970)
        .then_some(i128::from(minutes * 60 + i64::from(time.second?)) * 1_000_000_000 + nanos)
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

    fn read(
        format: ImportFormat,
        text: &str,
        kind: Option<ImportedShape>,
    ) -> Result<ImportedRequests> {
        format.read(text, kind)
    }

    fn shapes(imported: &ImportedRequests) -> Vec<String> {
        imported.shapes.iter().map(Shape::to_string).collect()
    }

    const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,0\n";

    #[test]
    fn azure_traces_have_dates() {
        let imported = read(
            ImportFormat::from_header(AZURE.lines().next().unwrap()).unwrap(),
            AZURE,
            None,
        )
        .unwrap();
        assert_eq!(shapes(&imported), ["seq2seq:374>44", "seq2seq:396>109"]);
        assert_eq!(
            imported.arrivals.unwrap()[..],
            [Nanos(0), Nanos(4_314_579_000)]
        );
        assert_eq!(imported.skipped, 1);
        assert_eq!(
            shapes(&read(ImportFormat::Azure, AZURE, Some(ImportedShape::Llm)).unwrap()),
            ["llm:374>44", "llm:396>109"]
        );
        let chains = read(ImportFormat::Azure, AZURE, Some(ImportedShape::Tokens)).unwrap();
        assert_eq!(shapes(&chains), ["tokens:374", "tokens:396", "tokens:879"]);
    }

    #[test]
    fn burstgpt_traces_have_seconds_and_further_columns() {
        let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
            5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,230,1317,API log\n118,ChatGPT,417,0,417,Conversation log\n";
        assert_eq!(
            ImportFormat::from_header(text.lines().next().unwrap()).unwrap(),
            ImportFormat::BurstGpt
        );
        let imported = read(ImportFormat::BurstGpt, text, None).unwrap();
        assert_eq!(shapes(&imported), ["seq2seq:472>18", "seq2seq:1087>230"]);
        assert_eq!(imported.arrivals.unwrap()[1], Nanos(40_500_000_000));
        assert_eq!(imported.skipped, 1);
    }

    #[test]
    fn plain_csv_takes_columns_in_any_order_and_sorts_by_time() {
        let imported = read(
            ImportFormat::Csv,
            "Length_In, arrival_s\n7,2.5\n9,0.5\n",
            None,
        )
        .unwrap();
        assert_eq!(shapes(&imported), ["chain:9", "chain:7"]);
        assert_eq!(
            imported.arrivals.as_deref().unwrap(),
            [Nanos(0), Nanos(2_000_000_000)]
        );
        assert!(imported.sorted);
        let pairs = read(
            ImportFormat::Csv,
            "arrival_s,length_in,length_out\n0,7,8\n",
            None,
        )
        .unwrap();
        assert_eq!(shapes(&pairs), ["seq2seq:7>8"]);
        let chains = read(
            ImportFormat::Csv,
            "arrival_s,length_in,length_out\n0,7,8\n",
            Some(ImportedShape::Chain),
        )
        .unwrap();
        assert_eq!(shapes(&chains), ["chain:7"]);
    }

    #[test]
    fn sentences_are_counted_in_words_and_trees_read_by_parents() {
        let imported = read(
            ImportFormat::Sentences,
            "Resumption of the session\n\n  I declare \n",
            None,
        )
        .unwrap();
        assert_eq!(shapes(&imported), ["chain:4", "chain:2"]);
        assert_eq!((imported.skipped, imported.arrivals.is_none()), (1, true));
        let trees = read(ImportFormat::Parents, "3 3 0\n2\t3 3 0\n", None).unwrap();
        assert_eq!(shapes(&trees), ["tree:3 3 0", "tree:3 3 0"]);
        let trees = read(
            ImportFormat::Treebank,
            "(3 (2 good) (2 film))\n(2 yes)",
            None,
        )
        .unwrap();
        assert_eq!(shapes(&trees), ["tree:3 3 0", "tree:0"]);
        let trees = read(
            ImportFormat::Conllu,
            "1\tit\t_\t_\t_\t_\t2\t_\t_\t_\n2\tis\t_\t_\t_\t_\t0\t_\t_\t_\n",
            Some(ImportedShape::Tree),
        );
        assert_eq!(shapes(&trees.unwrap()), ["tree:2 0"]);
    }

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
    fn mistakes_are_named_with_their_line() {
        for (format, text, kind, message) in [
            (
                ImportFormat::Azure,
                "a,b\n1,2\n",
                None,
                "line 1: no column \"timestamp\" in the header \"a,b\"",
            ),
            (
                ImportFormat::Azure,
                "TIMESTAMP,ContextTokens,GeneratedTokens\n5,1,1\n",
                None,
                "line 2: timestamp: \"5\" is not a date and a time, as 2023-11-16 18:15:46.6805900",
            ),
            (
                ImportFormat::Csv,
                "arrival_s,length_in\r\n0,3\r\n\r\n1,-3\r\n",
                None,
                "line 4: length_in: \"-3\" is not a whole number up to 1073741824",
            ),
            (
                ImportFormat::Csv,
                "arrival_s,length_in\nsoon,3\n",
                None,
                "line 2: arrival_s: \"soon\" is not a number of seconds, 0 or more",
            ),
            (
                ImportFormat::Csv,
                "arrival_s,length_in\n0,3\n",
                Some(ImportedShape::Seq2seq),
                "line 1: no column \"length_out\" in the header \"arrival_s,length_in\"",
            ),
            (
                ImportFormat::Csv,
                "arrival_s,length_in\n0,3\n",
                Some(ImportedShape::Tree),
                "a length can't become a tree; it becomes a chain, seq2seq, llm or tokens",
            ),
            (
                ImportFormat::Csv,
                "arrival_s,length_in\n0,0\n",
                None,
                "holds no requests",
            ),
            (ImportFormat::Sentences, "\n", None, "holds no requests"),
            (
                ImportFormat::Sentences,
                "a\n",
                Some(ImportedShape::Tree),
                "a sentence becomes a chain or tokens",
            ),
            (
                ImportFormat::Parents,
                "0\n",
                Some(ImportedShape::Chain),
                "a parse becomes a tree",
            ),
            (
                ImportFormat::Treebank,
                "(2 a)\n(2 b",
                None,
                "line 2: a bracket is never closed",
            ),
            (
                ImportFormat::Conllu,
                "1\n",
                None,
                "line 1: has 1 columns; a word of CoNLL-U has 10, with tabs between them",
            ),
            (
                ImportFormat::Parents,
                "0\n2 2\n",
                None,
                "line 2: no node has parent 0, so the parents form a cycle; a tree has one root",
            ),
        ] {
            assert_eq!(read(format, text, kind).unwrap_err().to_string(), message);
        }
        assert!(
            ImportFormat::from_header("some words")
                .unwrap_err()
                .to_string()
                .contains("--format")
        );
    }
}
