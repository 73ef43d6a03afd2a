//! Reads published traces and shapes in their own formats. Columns are found by name, in any case and order; others are
//! ignored. A trace with times is CSV or has an object with these names in each line (JSON lines).

mod columns;
mod times;

use std::io::Read;
use std::sync::Arc;

use csv::StringRecord;
use serde_json::{Map, Value};

pub use self::columns::ColumnMap;
use self::columns::{Places, TIMED, TimedFormat};
use super::input;
use super::shape::{MAX_LENGTH, Shape};
use super::shared_list::SharedList;
use super::trace::{NATIVE_HEADER, Names, class_name};
use super::treebanks::{self, Notation};
use crate::base::error::{Error, Result, refuse_if};
use crate::base::units::Nanos;

/// A format of published traces and shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens.
    Azure,
    /// Azure's trace of multimodal models: TIMESTAMP,NumImages,ContextTokens,GeneratedTokens.
    AzureLmm,
    /// BurstGPT: Timestamp,Model,Request tokens,Response tokens and others.
    BurstGpt,
    /// Mooncake: {"timestamp": …, "input_length": …, "output_length": …} in each line, the time in milliseconds.
    Mooncake,
    /// Alibaba's requests to Stable Diffusion: gmt_create,predict_type,num_inference_steps and others.
    Alibaba,
    /// Our own names: `arrival_s,length_in,length_out,class`, of which only the first is needed.
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
    /// A request of a model whose inputs are all alike, such as images of one size.
    Fixed,
}

/// What the user asks of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The shape of the requests; without one, two lengths make a seq2seq shape, one makes a chain, none a fixed shape,
    /// and a parse a tree.
    pub shape: Option<ImportedShape>,
    pub columns: ColumnMap,
}

/// The requests of a file.
#[derive(Clone, Debug, Default)]
pub struct ImportedRequests {
    pub shapes: SharedList<Shape>,
    /// The arrivals, the first at zero; `None` for formats without times.
    pub arrivals: Option<Arc<[Nanos]>>,
    /// The classes by the first of these columns that is there: class, model, tenant.
    pub classes: Option<Arc<[Arc<str>]>>,
    /// The number of rows that were left out because of a length 0.
    pub skipped: usize,
    /// Whether the rows were not in the order of their times and have been sorted.
    pub sorted: bool,
    /// The number of empty leaves (`-NONE-`) that were left out of the trees.
    pub empty_leaves: usize,
}

impl ImportFormat {
    /// The format with times whose columns the first line of a text names. Blank lines may precede it.
    pub fn from_header(text: &str, map: &ColumnMap) -> Result<ImportFormat> {
        let (line, header) = header_line(text);
        let names: Vec<String> = match serde_json::from_str::<Map<String, Value>>(header) {
            Ok(object) => object.keys().map(|name| normalize(name)).collect(),
            Err(_) => input::fields(header).iter().map(normalize).collect(),
        };
        if names.join(",").starts_with(NATIVE_HEADER) {
            return Err(Error::input(
                "is a trace already; name the file in a scenario (workload.trace), or change it with trace convert",
            ));
        }
        if let Some(found) = TIMED.iter().find(|timed| timed.is_header(&names, map)) {
            return Ok(found.format);
        }
        input::refuse_separators(header)
            .map_err(|problem| Error::input(format!("line {line}: {problem}")))?;
        let shown: String = header.chars().take(100).collect();
        Err(Error::input(format!(
            "line {line}: unknown header \"{shown}\"; give our names with --map YOURS=OURS, or name the format of sentences \
             or trees with --format; known: {}",
            columns::known_headers()
        )))
    }

    fn timed_format(self) -> Option<&'static TimedFormat> {
        TIMED.iter().find(|timed| timed.format == self)
    }

    pub fn is_timed(self) -> bool {
        self.timed_format().is_some()
    }

    /// Reads requests.
    ///
    /// # Errors
    /// A line or a column is wrong, or the shape does not fit the format.
    pub fn read(self, text: &str, options: &ImportOptions) -> Result<ImportedRequests> {
        let shape = options.shape;
        let imported = match (self, self.timed_format()) {
            (_, Some(timed)) => read_timed(text, timed, options)?,
            (ImportFormat::Treebank, _) => read_trees(text, treebanks::brackets, shape)?,
            (ImportFormat::Conllu, _) => read_trees(text, treebanks::conllu, shape)?,
            (ImportFormat::Parents, _) => read_trees(text, treebanks::parents, shape)?,
            (_, None) => read_sentences(text, shape)?,
        };
        if imported.shapes.is_empty() {
            return Err(Error::input("holds no requests"));
        }
        Ok(imported)
    }
}

/// The name of a column without regard to case and blanks.
fn normalize(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

/// The number and the text of the first line that is not blank, without the blanks before it.
fn header_line(text: &str) -> (usize, &str) {
    let content = text.trim_start();
    let blank = &text[..text.len() - content.len()];
    let header = content.lines().next().unwrap_or("");
    (1 + blank.matches('\n').count(), header)
}

fn read_timed(
    text: &str,
    timed: &TimedFormat,
    options: &ImportOptions,
) -> Result<ImportedRequests> {
    let (line, first) = header_line(text);
    let (header, rows) = if first.starts_with('{') {
        json_rows(text)?
    } else {
        input::refuse_separators(first)
            .map_err(|problem| Error::input(format!("line {line}: {problem}")))?;
        csv_rows(text)?
    };
    let Places {
        time,
        notation,
        length,
        target,
        class,
        images,
    } = Places::find(line, &header, timed, options).map_err(Error::Input)?;
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
            let found = match field(column) {
                // Published traces leave the lengths of failed requests out.
                "" if timed.format != ImportFormat::Csv => Some(0),
                given => tokens(given),
            };
            found.ok_or_else(|| {
                let given = field(column);
                wrong(
                    column,
                    format!("\"{given}\" is not a whole number up to {MAX_LENGTH}"),
                )
            })
        };
        let at = notation
            .parse(field(time), &header[time])
            .map_err(|problem| wrong(time, problem))?;
        let input = length.map(size).transpose()?;
        let output = target.map(size).transpose()?;
        if input == Some(0) || output == Some(0) {
            skipped += 1;
            continue;
        }
        let class = match (class, images) {
            (Some(column), _) => {
                let name = class_name(field(column)).map_err(|problem| wrong(column, problem))?;
                Some(names.one(name))
            }
            (None, Some(column)) => Some(names.one(match size(column)? {
                0 => "text",
                _ => "images",
            })),
            (None, None) => None,
        };
        requests.push((at, shape_of(options.shape, input, output), class));
    }

    let sorted = !requests.is_sorted_by_key(|(at, ..)| *at);
    requests.sort_by_key(|(at, ..)| *at); // stable: requests of one instant keep the file's order
    let first = requests.first().map_or(0, |(at, ..)| *at);
    let arrivals = requests
        .iter()
        .map(|(at, ..)| u64::try_from(at - first).map(Nanos))
        .collect::<Result<Arc<[Nanos]>, _>>()
        .map_err(|_| Error::input(format!("the arrivals span more than {}", Nanos::MAX)))?;
    let classes = class.or(images).map(|_| {
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
        ..ImportedRequests::default()
    })
}

/// The shape of a row with these lengths.
fn shape_of(kind: Option<ImportedShape>, input: Option<u32>, output: Option<u32>) -> Shape {
    match (kind, input, output) {
        (Some(ImportedShape::Fixed), ..) | (_, None, _) => Shape::Fixed,
        (Some(ImportedShape::Llm), Some(prompt), Some(output)) => Shape::Llm { prompt, output },
        (_, Some(source), Some(target)) => Shape::Seq2Seq { source, target },
        (Some(ImportedShape::Tokens), Some(input), None) => Shape::Tokens(input),
        (_, Some(input), None) => Shape::Chain(input),
    }
}

/// The names of the columns; the place of each row in the text, and its fields.
type FileRows<'t> = (
    Vec<String>,
    Box<dyn Iterator<Item = Result<(usize, StringRecord)>> + 't>,
);

fn csv_rows(text: &str) -> Result<FileRows<'_>> {
    let broken = |error: csv::Error| Error::input(format!("cannot be read: {error}"));
    let content = text.trim_start();
    let blank = text.len() - content.len();
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(content.as_bytes());
    let header = reader
        .headers()
        .map_err(broken)?
        .iter()
        .map(normalize)
        .collect();
    let start = move |record: &StringRecord| {
        let position = record.position();
        blank + position.map_or(0, |position| position.byte() as usize)
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

/// Reads a text in UTF-8 to its end. A byte-order mark is left out.
///
/// # Errors
/// The text can't be read, is not UTF-8 or has nothing but blanks.
pub fn read_text(mut input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input
        .read_to_end(&mut bytes)
        .map_err(|cause| Error::input(format!("cannot be read: {cause}")))?;
    let mut text =
        String::from_utf8(bytes).map_err(|_| Error::input("not a text file in UTF-8"))?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    refuse_if(text.trim().is_empty(), || Error::input("is empty"))?;
    Ok(text)
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
    let found = treebanks::read(notation, text).map_err(Error::input)?;
    let shapes = found
        .trees
        .into_iter()
        .map(|found| Shape::Tree(Arc::new(found.tree)))
        .collect();
    Ok(ImportedRequests {
        shapes,
        empty_leaves: found.empty_leaves,
        ..ImportedRequests::default()
    })
}

fn read_sentences(text: &str, kind: Option<ImportedShape>) -> Result<ImportedRequests> {
    let shape = match kind {
        None | Some(ImportedShape::Chain) => Shape::Chain,
        Some(ImportedShape::Tokens) => Shape::Tokens,
        Some(_) => {
            return Err(Error::input("a sentence becomes a chain or tokens"));
        }
    };
    let shapes: SharedList<Shape> = sentences(text).map(shape).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        format: ImportFormat,
        text: &str,
        kind: Option<ImportedShape>,
    ) -> Result<ImportedRequests> {
        let options = ImportOptions {
            shape: kind,
            ..ImportOptions::default()
        };
        format.read(text, &options)
    }

    fn from_header(first_line: &str) -> Result<ImportFormat> {
        ImportFormat::from_header(first_line, &ColumnMap::default())
    }

    fn shapes(imported: &ImportedRequests) -> Vec<String> {
        imported.shapes.iter().map(Shape::to_string).collect()
    }

    const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,0\n";

    #[test]
    fn azure_traces_have_dates() {
        let imported = read(
            from_header(AZURE.lines().next().unwrap()).unwrap(),
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
            from_header(text.lines().next().unwrap()).unwrap(),
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
    fn mistakes_are_named_with_their_line() {
        for (format, text, kind, message) in [
            (
                ImportFormat::Azure,
                "a,b\n1,2\n",
                None,
                "line 1: no column \"timestamp\" in the header \"a,b\"; if yours has another name, add --map YOURS=arrival",
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
                "line 1: no column \"length_out\" in the header \"arrival_s,length_in\"; if yours has another name, add --map \
                 YOURS=length_out",
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
                "line 2: a bracket is never closed; to leave this tree out, delete it from there on",
            ),
            (
                ImportFormat::Conllu,
                "1\n",
                None,
                "line 1: has 1 column; a word of CoNLL-U has 10, with tabs between them; to leave this tree out, delete the lines from 1 to the next empty one",
            ),
            (
                ImportFormat::Parents,
                "0\n2 2\n",
                None,
                "line 2: no node has parent 0, so the parents form a cycle; a tree has one root; to leave this tree out, delete the line",
            ),
        ] {
            assert_eq!(read(format, text, kind).unwrap_err().to_string(), message);
        }
        for (header, message) in [
            ("some words", "--format"),
            (
                "some words",
                "known: azure-lmm (timestamp,numimages,contexttokens), azure (timestamp,contexttokens),",
            ),
            ("time;size", "the columns are separated by semicolons"),
            ("id,arrival_ns,shape,class", "is a trace already"),
        ] {
            let error = from_header(header).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn columns_of_the_user_get_our_names() {
        let map = |pairs: &[&str]| {
            let pairs: Vec<String> = pairs.iter().map(ToString::to_string).collect();
            ColumnMap::parse(&pairs)
        };
        let text = "Class,Started At,id\nslow,1787000000123,7\nfast,1787000000120,8\n";
        let options = ImportOptions {
            columns: map(&["started at=arrival_ms"]).unwrap(),
            ..ImportOptions::default()
        };
        let header = text.lines().next().unwrap();
        let format = ImportFormat::from_header(header, &options.columns).unwrap();
        assert_eq!(format, ImportFormat::Csv);
        let imported = format.read(text, &options).unwrap();
        assert_eq!(shapes(&imported), ["fixed", "fixed"]);
        assert_eq!(imported.arrivals.unwrap()[1], Nanos(3_000_000));
        assert_eq!(&*imported.classes.unwrap()[0], "fast");

        // A column that has been mapped takes the name from the format's own.
        let options = ImportOptions {
            shape: Some(ImportedShape::Chain),
            columns: map(&["NumImages=length_in"]).unwrap(),
        };
        let chains = ImportFormat::AzureLmm.read(AZURE_LMM, &options).unwrap();
        assert_eq!(
            (shapes(&chains), chains.skipped),
            (vec!["chain:3".into()], 1)
        );

        for (pairs, message) in [
            (&["a"][..], "\"a\" has no =; write YOURS=OURS"),
            (
                &["a=b"],
                "\"b\" is not a column of ours; known: arrival_s, arrival_ms, arrival_us, arrival_ns, arrival, length_in, \
                 length_out, class, images",
            ),
            (
                &["a=arrival", "b=arrival_s"],
                "\"a\" is arrival already; a trace has one such column",
            ),
        ] {
            assert_eq!(map(pairs).unwrap_err(), message);
        }
        let options = ImportOptions {
            columns: map(&["x=class"]).unwrap(),
            ..ImportOptions::default()
        };
        let error = ImportFormat::Csv
            .read("arrival_s\n0\n", &options)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "--map x=class: no column \"x\" in the header \"arrival_s\""
        );
    }

    const AZURE_LMM: &str = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n\
        2024-10-15T12:00:00.250Z,0,700,40\n2024-10-15T12:00:01.000Z,3,1500,20\n";

    #[test]
    fn multimodal_traces_tell_images_from_text() {
        let header = AZURE_LMM.lines().next().unwrap();
        assert_eq!(from_header(header).unwrap(), ImportFormat::AzureLmm);
        let kind = Some(ImportedShape::Llm);
        let imported = read(ImportFormat::AzureLmm, AZURE_LMM, kind).unwrap();
        assert_eq!(shapes(&imported), ["llm:700>40", "llm:1500>20"]);
        assert_eq!(imported.arrivals.unwrap()[1], Nanos(750_000_000));
        let classes = imported.classes.unwrap();
        assert_eq!([&*classes[0], &*classes[1]], ["text", "images"]);
    }

    #[test]
    fn requests_of_stable_diffusion_are_chains_of_steps() {
        let text = "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,\
            negative_prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora\n\
            2024-01-01 00:00:00,TXT_2_IMG,SUCCEED,7.0,G1,5.0,,1.0,20.0,M1,0\n\
            2024-01-01 00:00:02,TXT_2_IMG,FAILED,0.0,G2,6.0,,1.0,,M1,1\n\
            2024-01-01 00:00:03,IMG_2_IMG,SUCCEED,9.0,G1,5.0,2.0,4.0,25.0,M2,0\n";
        let header = text.lines().next().unwrap();
        assert_eq!(from_header(header).unwrap(), ImportFormat::Alibaba);
        let imported = read(ImportFormat::Alibaba, text, None).unwrap();
        assert_eq!(shapes(&imported), ["chain:20", "chain:25"]);
        assert_eq!(imported.skipped, 1);
        assert_eq!(imported.arrivals.unwrap()[1], Nanos(3_000_000_000));
        assert_eq!(&*imported.classes.unwrap()[1], "IMG_2_IMG");
    }
}
