//! Typed reading of tables. Every error gives the place, the key, the bad value and the permitted ones.

use std::fmt::Display;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{Source, Span, shown};
use crate::error::{Error, Result};
use crate::units::Nanos;

#[derive(Debug)]
pub(super) struct Section<'s> {
    source: &'s Source,
    /// In messages: `device.`, `policy[1] (padded): `.
    prefix: String,
    pub span: Span,
    pub entries: DeTable<'s>,
}

#[derive(Clone, Debug)]
pub(super) struct Field<'s> {
    source: &'s Source,
    /// The full key for messages.
    key: String,
    span: Span,
    value: DeValue<'s>,
}

impl<'s> Section<'s> {
    pub fn new(source: &'s Source, prefix: String, span: Span, entries: DeTable<'s>) -> Self {
        Section { source, prefix, span, entries }
    }

    pub fn source(&self) -> &'s Source {
        self.source
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    pub fn take(&mut self, key: &str) -> Option<Field<'s>> {
        let value = self.entries.remove(key)?;
        let span = value.span();
        Some(Field { source: self.source, key: format!("{}{key}", self.prefix), span, value: value.into_inner() })
    }

    /// `what` describes it in the message.
    pub fn require(&mut self, key: &str, what: &str) -> Result<Field<'s>> {
        self.take(key).ok_or_else(|| self.refuse(key, format!("missing; {what}")))
    }

    /// Without it, an empty table at the same place.
    pub fn section(&mut self, key: &str) -> Result<Section<'s>> {
        match self.take(key) {
            Some(field) => field.table(),
            None => Ok(Section {
                source: self.source,
                prefix: format!("{}{key}.", self.prefix),
                span: self.span.clone(),
                entries: DeTable::new(),
            }),
        }
    }

    /// `of` names the owner of the keys (`""`, or ` of the process "gamma"`).
    pub fn only(&self, of: &str, known: &[&str]) -> Result<()> {
        let mut strangers: Vec<_> =
            self.entries.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
        strangers.sort_by_key(|key| key.span().start);
        match strangers.first() {
            None => Ok(()),
            Some(key) => {
                let name = key.get_ref().as_ref();
                let hint = did_you_mean(name, known);
                let problem = format!("unknown key{of}{hint}; known: {}", known.join(", "));
                Err(self.source.error(key.span(), &format!("{}{name}", self.prefix), problem))
            }
        }
    }

    /// An error at the key or, if it is missing, at the table.
    pub fn refuse(&self, key: &str, problem: impl Display) -> Error {
        let place = self.entries.get_key_value(key).map_or(self.span.clone(), |(key, _)| key.span());
        self.source.error(place, &format!("{}{key}", self.prefix), problem)
    }
}

impl<'s> Field<'s> {
    pub fn refuse(&self, problem: impl Display) -> Error {
        self.source.error(self.span.clone(), &self.key, problem)
    }

    pub fn must_be(&self, what: &str) -> Error {
        self.refuse(format!("must be {what}, not {}", shown(&self.value)))
    }

    pub fn text(&self) -> Result<String> {
        match &self.value {
            DeValue::String(text) if !text.trim().is_empty() => Ok(text.to_string()),
            DeValue::String(_) => Err(self.refuse("must not be empty")),
            _ => Err(self.must_be("a text in quotes")),
        }
    }

    pub fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.must_be("true or false"))
    }

    pub fn whole(&self, range: RangeInclusive<u64>) -> Result<u64> {
        let number = self.value.as_integer().and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            self.must_be(&match *range.end() {
                u64::MAX => format!("a whole number, at least {}", range.start()),
                end => format!("a whole number from {} to {end}", range.start()),
            })
        })
    }

    /// From 1 to the largest 32-bit number.
    pub fn count(&self) -> Result<u32> {
        self.whole(1..=u64::from(u32::MAX)).map(|n| n as u32)
    }

    /// `what` describes the rule.
    pub fn number(&self, what: &str, rule: impl Fn(f64) -> bool) -> Result<f64> {
        let number = match &self.value {
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
            DeValue::Float(n) => n.as_str().parse().ok(),
            _ => None,
        };
        number.filter(|n: &f64| n.is_finite() && rule(*n)).ok_or_else(|| self.must_be(what))
    }

    pub fn time(&self) -> Result<Nanos> {
        match &self.value {
            DeValue::String(text) => Nanos::parse(text).map_err(|problem| self.refuse(problem)),
            _ => Err(self.must_be("a time with its unit in quotes, such as \"100ms\"")),
        }
    }

    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let Some(text) = self.value.as_str() else {
            return Err(self.must_be(&format!("one of {}", names.join(", "))));
        };
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let hint = did_you_mean(text, &names);
            self.refuse(format!("unknown value \"{text}\"{hint}; known: {}", names.join(", ")))
        })
    }

    pub fn list(self, what: &str) -> Result<Vec<Field<'s>>> {
        match self.value {
            DeValue::Array(items) => {
                let item = |(index, item): (usize, Spanned<DeValue<'s>>)| Field {
                    source: self.source,
                    key: format!("{}[{index}]", self.key),
                    span: item.span(),
                    value: item.into_inner(),
                };
                Ok(items.into_iter().enumerate().map(item).collect())
            }
            _ => Err(self.must_be(what)),
        }
    }

    /// At least one item, without duplicates, since each names a folder of results.
    pub fn set<T: PartialEq + Copy>(self, what: &str, read: impl Fn(&Field<'s>) -> Result<T>) -> Result<Vec<T>> {
        let whole = self.clone();
        let mut values = Vec::new();
        for item in self.list(what)? {
            let value = read(&item)?;
            if values.contains(&value) {
                return Err(item.refuse(format!("{} stands twice", shown(&item.value))));
            }
            values.push(value);
        }
        if values.is_empty() { Err(whole.refuse(format!("empty; must be {what}"))) } else { Ok(values) }
    }

    pub fn table(self) -> Result<Section<'s>> {
        match self.value {
            DeValue::Table(entries) => Ok(Section::new(self.source, format!("{}.", self.key), self.span, entries)),
            _ => Err(self.must_be("a table")),
        }
    }

    pub fn value(&self) -> &DeValue<'s> {
        &self.value
    }

    pub fn source(&self) -> &'s Source {
        self.source
    }
}

/// `; did you mean workers?` if a known name is similar.
pub(super) fn did_you_mean(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|candidate| (edits(name, candidate), candidate)).min();
    match near {
        Some((distance, candidate)) if distance <= 1 + name.len() / 4 => format!("; did you mean {candidate}?"),
        _ => String::new(),
    }
}

/// Levenshtein's distance.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Rewords serde's messages; others stay.
pub(super) fn reworded(message: &str) -> String {
    if let Some((found, expected)) = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|start| message.strip_prefix(start))
        .and_then(|rest| rest.split_once(", expected "))
    {
        return format!("must be {}, not {}", wanted(expected), given(found));
    }
    if let Some((unknown, expected)) =
        message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        // Serde lists `a`, `a` or `b`, or one of `a`, `b`, `c`: every second part is a name.
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        return format!("unknown value \"{unknown}\"{}; known: {}", did_you_mean(unknown, &known), known.join(", "));
    }
    message.to_string()
}

fn wanted(expected: &str) -> String {
    match expected {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, at least 0".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "a borrowed string" | "a character" => "a text in quotes".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table".into(),
        other => other.into(),
    }
}

fn given(found: &str) -> String {
    for kind in ["string ", "integer ", "floating point ", "boolean "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.trim_matches('`').into();
        }
    }
    match found {
        "map" => "a table".into(),
        "sequence" => "a list".into(),
        other => other.into(),
    }
}
