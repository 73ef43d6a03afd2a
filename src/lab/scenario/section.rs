//! Reading of tables by serde. Every error gives the place, the key, the bad value and the permitted ones.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::reference::Reference;
use super::source::{Source, Span, quote};
use crate::base::error::{Error, Result, nearest};
use crate::core::workload::model;

/// A table, and how messages name it.
pub(super) struct Section<'s> {
    pub source: &'s Source,
    pub owner: Owner,
    pub table: Spanned<DeTable<'s>>,
}

/// The owner of keys, for messages.
#[derive(Default)]
pub(super) struct Owner {
    /// The text before each key: `arrivals.`, `policy[1] (padded): `.
    pub prefix: String,
    /// The text after "unknown key", such as ` of the process "gamma"`.
    pub of: String,
    /// Keys that the table has in addition to those that serde knows.
    pub shared: &'static [&'static str],
}

/// The place of a key and of its value, with the full key: `rates[1]`, `max_batch.decoder`.
struct KeyPlace {
    key: String,
    name: Span,
    value: Span,
    /// The value as messages quote it.
    shown: String,
}

impl<'s> Section<'s> {
    /// A section of the table `value`, which messages call `name`. Fails if it is not a table.
    pub fn new(
        source: &'s Source,
        name: &str,
        value: Spanned<DeValue<'s>>,
        owner: Owner,
    ) -> Result<Section<'s>> {
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(table) => Ok(Section {
                source,
                owner,
                table: Spanned::new(span, table),
            }),
            other => Err(source.error(
                span,
                format!("{name}: must be a table, not {}", quote(&other)),
            )),
        }
    }

    /// Reads a part of the section's table, in which values have their places in the document.
    pub fn read<T: Deserialize<'s>>(&self, table: Spanned<DeTable<'s>>) -> Result<T> {
        self.parse(table, |table| T::deserialize(Deserializer::from(table)))
    }

    /// Reads a table as [`Section::read`] does. Serde reports one mistake; without its key it reports the next.
    pub fn parse<T>(
        &self,
        mut table: Spanned<DeTable<'s>>,
        parse: impl Fn(Spanned<DeTable<'s>>) -> Result<T, toml::de::Error>,
    ) -> Result<T> {
        let mut mistakes: Vec<(usize, Error)> = Vec::new();
        loop {
            let error = match parse(table.clone()) {
                Ok(read) if mistakes.is_empty() => return Ok(read),
                Ok(_) => break,
                Err(error) => error,
            };
            let span = error.span().unwrap_or(self.table.span());
            // Perhaps a key, or the name of a process, is only missing because it was a mistake.
            let is_missing = ["missing field", "wanted exactly 1 element"]
                .iter()
                .any(|what| error.message().starts_with(what));
            if mistakes.is_empty() || !is_missing {
                mistakes.push((span.start, self.mistake(&error, span.clone())));
            }
            if span == self.table.span() || !cut(table.get_mut(), &span) {
                break;
            }
        }
        mistakes.sort_by_key(|(start, _)| *start);
        Err(Error::all(
            mistakes.into_iter().map(|(_, mistake)| mistake).collect(),
        ))
    }

    fn mistake(&self, error: &toml::de::Error, span: Span) -> Error {
        let places = if span == self.table.span() {
            Vec::new()
        } else {
            self.places()
        };
        let deepest = places
            .iter()
            .rev()
            .find(|place| contains(&place.name, &span) || contains(&place.value, &span));
        let (key, value) = deepest.map_or(("", ""), |place| (&place.key, &place.shown));
        let problem = self.owner.reword(error.message(), key, value);
        self.source
            .error(span, format!("{}{problem}", self.owner.prefix))
    }

    /// An error at the key with which the problem begins, or at the table that lacks the key.
    pub fn refuse(&self, problem: &str) -> Error {
        let key = problem.split_once(": ").map_or("", |(key, _)| key);
        let leads = |place: &KeyPlace| {
            key.strip_prefix(&place.key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let places = self.places();
        let span = places
            .iter()
            .rev()
            .find(|place| leads(place))
            .map_or(self.table.span(), |place| place.value.clone());
        self.source
            .error(span, format!("{}{problem}", self.owner.prefix))
    }

    /// The places of all keys, outer ones first.
    fn places(&self) -> Vec<KeyPlace> {
        let mut places = Vec::new();
        for (name, value) in self.table.get_ref() {
            visit(name.get_ref().to_string(), name.span(), value, &mut places);
        }
        places
    }
}

fn contains(outer: &Span, span: &Span) -> bool {
    outer.start <= span.start && span.end <= outer.end
}

/// Removes the innermost key at this place. The place of a table may be only that of its heading.
fn cut(table: &mut DeTable<'_>, span: &Span) -> bool {
    let within = |value: &mut Spanned<DeValue<'_>>| match value.get_mut() {
        DeValue::Table(inner) => cut(inner, span),
        _ => false,
    };
    if table.iter_mut().any(|(_, value)| within(value)) {
        return true;
    }
    let found = table
        .iter()
        .find(|(name, value)| contains(&name.span(), span) || contains(&value.span(), span));
    let key = found.map(|(name, _)| name.get_ref().to_string());
    key.is_some_and(|key| table.remove(key.as_str()).is_some())
}

fn visit(key: String, name: Span, value: &Spanned<DeValue<'_>>, places: &mut Vec<KeyPlace>) {
    places.push(KeyPlace {
        key: key.clone(),
        name,
        value: value.span(),
        shown: quote(value.get_ref()),
    });
    match value.get_ref() {
        DeValue::Table(table) => {
            for (name, value) in table {
                visit(
                    format!("{key}.{}", name.get_ref()),
                    name.span(),
                    value,
                    places,
                );
            }
        }
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(format!("{key}[{index}]"), item.span(), item, places);
            }
        }
        _ => {}
    }
}

/// The value that a key without a default must have, for messages.
pub(super) fn needed_value(key: &str) -> Option<String> {
    let known: toml::Table = toml::from_str(include_str!("needed.toml")).expect("the file is TOML");
    Some(known.get(key)?.as_str()?.replace("MODELS", model::KNOWN))
}

/// The keys of `[device]` that were removed, and what holds now.
pub(super) const REMOVED_FROM_DEVICE: [(&str, &str); 2] = [
    (
        "signal",
        "the last block of a task's last kernel always signals that the task is done (what \"fused\" did)",
    ),
    (
        "launch",
        "the kernels of a task are always launched as one captured graph where that is possible (what \"graph\" did)",
    ),
];

/// What holds instead of a key that was removed, or `None` for other keys.
fn removal_reason(key: &str) -> Option<&'static str> {
    let name = key.strip_prefix("device.")?;
    let (_, reason) = REMOVED_FROM_DEVICE
        .iter()
        .find(|(removed, _)| *removed == name)?;
    Some(*reason)
}

impl Owner {
    /// Serde's message on the value at a key in plain words; other messages stay.
    pub fn reword(&self, message: &str, key: &str, value: &str) -> String {
        let after = |start: &str| message.strip_prefix(start);
        let needed = |key: &str| needed_value(&format!("{}{key}", self.prefix));
        let (key, problem) = if let Some((name, known)) = unknown_key(message) {
            let key = if key.is_empty() { name } else { key };
            if let Some(reason) = removal_reason(&format!("{}{key}", self.prefix)) {
                return format!("{key}: this key was removed: {reason}; leave it out");
            }
            let (shared, of) = if key.contains('.') {
                (&[][..], "")
            } else {
                (self.shared, self.of.as_str())
            };
            let problem = unknown_name(
                &format!("unknown key{of}"),
                name,
                &[shared, &known].concat(),
            );
            (key.to_string(), problem + &self.belongs(name))
        } else if let Some(name) = after("missing field `").and_then(|rest| rest.strip_suffix('`'))
        {
            let key = if key.is_empty() {
                name.to_string()
            } else {
                format!("{key}.{name}")
            };
            let problem = needed(&key).map_or("missing".into(), |what| format!("missing; {what}"));
            (key, problem)
        } else if let Some((name, expected)) =
            after("unknown variant `").and_then(|rest| rest.split_once('`'))
        {
            (
                key.to_string(),
                unknown_name(
                    &format!("unknown value \"{name}\""),
                    name,
                    &quoted_names(expected),
                ),
            )
        } else if let Some((_, expected)) = message
            .strip_prefix("invalid ")
            .and_then(|rest| rest.split_once(", expected "))
        {
            let wanted = needed(key).unwrap_or_else(|| describe_expected(expected));
            (key.to_string(), format!("must be {wanted}, not {value}"))
        } else {
            (key.to_string(), message.to_string())
        };
        if key.is_empty() {
            problem
        } else {
            format!("{key}: {problem}")
        }
    }

    /// Names another table of the scenario that has the key.
    fn belongs(&self, name: &str) -> String {
        let keys = Reference::read().keys;
        let others = keys
            .iter()
            .filter(|key| key.name == name && !key.table.starts_with("policy"));
        let other = others
            .map(|key| key.table.as_str())
            .find(|table| !table.is_empty() && !self.prefix.starts_with(table));
        other.map_or(String::new(), |table| {
            format!("; {name} belongs to [{table}]")
        })
    }
}

/// `unknown key; did you mean workers?; known: workers, costs`, the guess only if a known name is similar.
pub fn unknown_name(what: &str, name: &str, known: &[&str]) -> String {
    format!(
        "{what}{}; known: {}",
        nearest(name, known),
        known.join(", ")
    )
}

/// The unknown key in a message, and the known ones.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    if let Some((name, known)) = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'))
    {
        return Some((name, quoted_names(known)));
    }
    // Serde has this other message for an unknown key in a variant's table.
    let (names, known) = message
        .strip_prefix("unexpected keys in table: ")?
        .split_once(", available keys: ")?;
    Some((
        names.split(", ").next()?,
        known.split(", ").filter(|name| !name.is_empty()).collect(),
    ))
}

/// The quoted names in a list. Serde writes `a`, `a` or `b`, or one of `a`, `b`, `c`, so every second part is a name.
fn quoted_names(list: &str) -> Vec<&str> {
    list.split('`').skip(1).step_by(2).collect()
}

fn describe_expected(expected: &str) -> String {
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
        other if other.starts_with("struct ") => "a table".into(),
        other => other.into(),
    }
}
