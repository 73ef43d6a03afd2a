//! The text of a scenario: the file, the `--set` overrides and the swept values as one document, in which an
//! offset identifies the place of a key or value.

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{SweepOptions, sweep};
use crate::base::error::{Error, Result};
use crate::base::shipped;

/// A range of bytes from the start of the document.
pub(super) type Span = Range<usize>;

#[derive(Debug)]
pub(super) struct Source {
    pub file: PathBuf,
    text: String,
    overrides: Vec<Override>,
    pub sweeps: Vec<Override>,
    /// The file that keeps a restored scenario, which was checked before. Messages give no line, which would mean
    /// nothing to the user.
    pub kept_in: Option<PathBuf>,
}

/// The values for a key: one from `--set KEY=VALUE`, or several from [`SweepOptions`].
#[derive(Clone, Debug)]
pub(super) struct Override {
    option: &'static str,
    written: String,
    offset: usize,
    pub path: Vec<String>,
    /// The place of each value in `written`, and `v=VALUE` after blanks, which move it to its place in the document.
    values: Vec<(Span, String)>,
}

/// A value to set at a path. The place of the key is for messages.
pub(super) struct Setting<'a, 's> {
    pub path: &'a [String],
    pub span: &'a Span,
    pub value: &'a Spanned<DeValue<'s>>,
}

impl Source {
    pub fn new(
        file: &Path,
        text: String,
        overrides: &[String],
        sweeps: SweepOptions<'_>,
    ) -> Result<Source> {
        let mut offset = text.len() + 1;
        let mut parse = |option, written: &String, split: fn(&str) -> Result<Vec<Span>, String>| {
            offset += written.len() + 1;
            Override::parse(option, written, offset - written.len() - 1, split)
        };
        let set = |written| {
            parse("--set", written, |text| {
                Ok(vec![Span {
                    start: 0,
                    end: text.len(),
                }])
            })
        };
        let overrides = overrides.iter().map(set).collect::<Result<_>>()?;
        let SweepOptions {
            option,
            values,
            policy,
        } = sweeps;
        let mut sweeps: Vec<Override> = Vec::new();
        for written in values {
            let mut sweep = parse(option, written, sweep::split)?;
            if let (Some(label), [_]) = (policy, &sweep.path[..]) {
                sweep.path.splice(..0, ["policy".into(), label.into()]);
            }
            if let Some(other) = sweeps.iter().find(|other| other.path == sweep.path) {
                let first = &other.written;
                return Err(Error::input(format!(
                    "{option} {written}: its key is in {option} {first} too; give all values of a key at once"
                )));
            }
            sweeps.push(sweep);
        }
        Ok(Source {
            file: file.to_path_buf(),
            text,
            overrides,
            sweeps,
            kept_in: None,
        })
    }

    pub fn from_copy(file: &Path, text: String, kept_in: &Path) -> Source {
        let kept_in = Some(kept_in.to_path_buf());
        Source {
            file: file.to_path_buf(),
            text,
            overrides: Vec::new(),
            sweeps: Vec::new(),
            kept_in,
        }
    }

    /// Parses the file and applies the overrides.
    pub fn parse(&self) -> Result<DeTable<'_>> {
        let table = DeTable::parse(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.error(
                span,
                format!("not valid TOML: {}", error.message().replace('\n', ", ")),
            )
        })?;
        let mut root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
        for set in &self.overrides {
            for value in set.values() {
                self.apply(
                    &Setting {
                        path: &set.path,
                        span: &set.span(),
                        value: &value,
                    },
                    0,
                    &mut root,
                )?;
            }
        }
        match root.into_inner() {
            DeValue::Table(table) => Ok(table),
            _ => unreachable!("an override has a key, so it replaces no root"),
        }
    }

    /// Sets the value at the rest of the path, from `depth` on, and creates missing tables.
    pub fn apply<'s>(
        &self,
        set: &Setting<'_, 's>,
        depth: usize,
        value: &mut Spanned<DeValue<'s>>,
    ) -> Result<()> {
        let Some(key) = set.path.get(depth) else {
            *value = set.value.clone();
            return Ok(());
        };
        let refuse = |problem| {
            self.error(
                set.span.clone(),
                format!("{}: {problem}", set.path[..depth].join(".")),
            )
        };
        let below = match value.get_mut() {
            DeValue::Table(table) => {
                if depth + 1 == set.path.len() {
                    // Otherwise the old key and its place would stay.
                    table.remove(key.as_str());
                }
                let name = Spanned::new(set.span.clone(), key.clone().into());
                table.entry(name).or_insert_with(|| {
                    Spanned::new(set.span.clone(), DeValue::Table(DeTable::new()))
                })
            }
            DeValue::Array(items) => {
                let items: &mut [_] = items;
                &mut items[find_item(items, key).map_err(refuse)?]
            }
            scalar => {
                return Err(refuse(format!(
                    "no table but {}, so it has no key \"{key}\"",
                    quote(scalar)
                )));
            }
        };
        self.apply(set, depth + 1, below)
    }

    /// The place in messages: `FILE:LINE`, the override, or the file that keeps the scenario. A file in memory has no
    /// lines that the user wrote.
    fn place(&self, span: &Span) -> String {
        if let Some(kept_in) = &self.kept_in {
            return kept_in.display().to_string();
        }
        let file = self.file.display();
        let options = self.overrides.iter().chain(&self.sweeps);
        match options.rev().find(|set| set.offset <= span.start) {
            Some(set) => format!("{file}: {} {}", set.option, set.written),
            None if shipped::is_in_memory(&self.file) => file.to_string(),
            None => {
                let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
                format!(
                    "{file}:{}",
                    1 + before.iter().filter(|byte| **byte == b'\n').count()
                )
            }
        }
    }

    /// Whether a place is in an option with swept values.
    pub fn is_in_sweep(&self, span: &Span) -> bool {
        let first = self.sweeps.first();
        first.is_some_and(|first| first.offset <= span.start)
    }

    pub fn error(&self, span: Span, problem: impl Display) -> Error {
        Error::input(format!("{}: {problem}", self.place(&span)))
    }
}

impl Override {
    /// Parses the text of an option. `split` returns the places of the values in the text after the key.
    fn parse(
        option: &'static str,
        written: &str,
        offset: usize,
        split: impl Fn(&str) -> Result<Vec<Span>, String>,
    ) -> Result<Override> {
        let wrong = |problem| Error::input(format!("{option} {written}: {problem}"));
        let (path, value_at) = split_override(written)
            .map_err(|problem| wrong(format!("{problem}; write it as {option} key.path=value")))?;
        let one = |place: Span| {
            let value = value_at + place.start..value_at + place.end;
            let text = &written[value.clone()];
            let number = whole_number(text).map(|number| number.to_string());
            let assigned = format!(
                "{}v={}",
                " ".repeat(offset + value.start - 2),
                number.as_deref().unwrap_or(text)
            );
            (value, assigned)
        };
        let values = split(&written[value_at..])
            .map_err(wrong)?
            .into_iter()
            .map(one)
            .collect();
        Ok(Override {
            option,
            written: written.to_string(),
            offset,
            path,
            values,
        })
    }

    pub fn span(&self) -> Span {
        self.offset..self.offset + self.written.len()
    }

    /// The values. A word that is not valid TOML is a text, as in `workload.dataset=constant:24`.
    pub fn values(&self) -> impl Iterator<Item = Spanned<DeValue<'_>>> {
        self.values.iter().map(|(place, assigned)| {
            let table = DeTable::parse(assigned).map(Spanned::into_inner);
            match table.map(|mut table| (table.remove("v"), table.is_empty())) {
                Ok((Some(value), true)) => value,
                _ => Spanned::new(
                    self.span(),
                    DeValue::String(self.written[place.clone()].into()),
                ),
            }
        })
    }
}

/// A whole number in the notation of TOML's floats, such as `1e6`, which keys for whole numbers would refuse.
fn whole_number(text: &str) -> Option<i64> {
    const MOST: f64 = 1e15;
    let number: f64 = text.trim().parse().ok()?;
    let is_whole = text.contains(['e', 'E']) && number.fract() == 0.0 && number.abs() <= MOST;
    is_whole.then_some(number as i64)
}

/// Finds an item by its index, its label or name, or its kind, tried in this order.
pub(super) fn find_item(items: &[Spanned<DeValue<'_>>], chosen: &str) -> Result<usize, String> {
    if let Some(index) = chosen.parse().ok().filter(|index| *index < items.len()) {
        return Ok(index);
    }
    let text = |index: usize, key: &str| {
        items[index]
            .get_ref()
            .get(key)
            .and_then(|value| value.get_ref().as_str())
    };
    let kind = |index: usize| text(index, "kind");
    // A policy without a label is called by its kind, a class by its name.
    let label = |index: usize| text(index, "label").or(text(index, "name")).or(kind(index));
    for by_label in [true, false] {
        let name = |index: &usize| {
            if by_label {
                label(*index)
            } else {
                kind(*index)
            }
        };
        let found: Vec<usize> = (0..items.len())
            .filter(|index| name(index) == Some(chosen))
            .collect();
        match found[..] {
            [] => {}
            [index] => return Ok(index),
            _ => {
                return Err(format!(
                    "several are called \"{chosen}\"; choose one by its number: {found:?}"
                ));
            }
        }
    }
    let known = (0..items.len()).map(|index| match label(index) {
        Some(label) => format!("{index} ({label})"),
        None => index.to_string(),
    });
    Err(format!(
        "there is no \"{chosen}\"; known: {}",
        known.collect::<Vec<_>>().join(", ")
    ))
}

/// Splits `key.path=value` at the first `=` outside quotes.
pub(super) fn split_override(written: &str) -> Result<(Vec<String>, usize), String> {
    let mut path = vec![String::new()];
    let mut quoted = false;
    for (at, letter) in written.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '.' if !quoted => path.push(String::new()),
            '=' if !quoted => {
                let value = &written[at + 1..];
                let value_at = at + 1 + (value.len() - value.trim_start().len());
                let path: Vec<String> = path.iter().map(|key| key.trim().to_string()).collect();
                if path.iter().any(String::is_empty) {
                    return Err("a part of the key is empty".into());
                }
                return Ok((path, value_at));
            }
            _ => path.last_mut().expect("a key has a part").push(letter),
        }
    }
    Err("no value".into())
}

/// A value as messages quote it.
pub(super) fn quote(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
