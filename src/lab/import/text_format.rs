//! Protocol Buffers' text format, as far as it can be read without the schema.

use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::{Map, Value};

use crate::base::error::{Error, Result, refuse_if};

/// The depth of messages in messages beyond which a file is refused.
const DEEPEST: usize = 100;
const SIGNS: &str = "{}<>[]:,;";

/// Reads a message as JSON. A field that occurs several times is a list, and so is one in brackets.
///
/// # Errors
/// The text is malformed; the error names the line.
pub fn parse(text: &str) -> Result<Map<String, Value>> {
    Parser {
        tokens: tokens(text)?.into_iter().peekable(),
    }
    .message(None, 0)
}

/// A token and its line. Strings keep their quotes.
type Token<'a> = (&'a str, usize);

fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next().filter(|first| *first != '#') {
            let fails = |why: &str| Error::input(format!("line {line}: {why}"));
            let length = match first {
                '"' | '\'' => {
                    2 + rest[1..]
                        .find(first)
                        .ok_or_else(|| fails(&format!("a string without its closing {first}")))?
                }
                _ if SIGNS.contains(first) => 1,
                _ => rest
                    .find(|c: char| !c.is_alphanumeric() && !"_.+-/".contains(c))
                    .unwrap_or(rest.len()),
            };
            refuse_if(length == 0, || {
                fails(&format!("unexpected character {first:?}"))
            })?;
            tokens.push((&rest[..length], line));
            rest = rest[length..].trim_start();
        }
    }
    Ok(tokens)
}

/// A value as a list.
fn several(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        one => vec![one],
    }
}

struct Parser<'a> {
    tokens: Peekable<IntoIter<Token<'a>>>,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<&'a str> {
        self.tokens.peek().map(|(token, _)| *token)
    }

    /// Skips one of these signs, and returns whether it was there.
    fn skip(&mut self, signs: &str) -> bool {
        self.tokens
            .next_if(|(token, _)| signs.contains(token))
            .is_some()
    }

    fn fails(&mut self, wanted: &str) -> Error {
        match self.tokens.peek() {
            Some((token, line)) => {
                Error::input(format!("line {line}: {token:?} where {wanted} must be"))
            }
            None => Error::input(format!("the file ends where {wanted} must be")),
        }
    }

    fn message(&mut self, end: Option<&str>, depth: usize) -> Result<Map<String, Value>> {
        let mut fields = Map::new();
        loop {
            while self.skip(",;") {}
            if self.peek() == end {
                self.tokens.next();
                return Ok(fields);
            }
            let is_name =
                |(token, _): &Token<'_>| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
            let (name, _) = self
                .tokens
                .next_if(is_name)
                .ok_or_else(|| self.fails("the name of a field"))?;
            self.skip(":");
            let value = self.value(depth)?;
            match fields.get_mut(name) {
                None => drop(fields.insert(name.into(), value)),
                Some(before) => {
                    let mut all = several(before.take());
                    all.extend(several(value));
                    *before = Value::Array(all);
                }
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth == DEEPEST {
            return Err(self.fails(&format!("the end of {DEEPEST} messages in each other")));
        }
        if self.skip("[") {
            let mut several = Vec::new();
            while !self.skip("]") {
                several.push(self.value(depth + 1)?);
                if !self.skip(",") && self.peek() != Some("]") {
                    return Err(self.fails("a comma or ]"));
                }
            }
            return Ok(Value::Array(several));
        }
        for (open, close) in [("{", "}"), ("<", ">")] {
            if self.skip(open) {
                return self.message(Some(close), depth + 1).map(Value::Object);
            }
        }
        let is_scalar = |(token, _): &Token<'_>| !SIGNS.contains(token);
        let (scalar, _) = self
            .tokens
            .next_if(is_scalar)
            .ok_or_else(|| self.fails("a value"))?;
        Ok(match scalar.starts_with(['"', '\'']) {
            true => scalar[1..scalar.len() - 1].into(),
            false => serde_json::from_str(scalar).unwrap_or_else(|_| scalar.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_format_are_read() {
        for (text, expected) in [
            (
                "a: 1 b: \"x y\" # comment\nc { d: 'z' }",
                r#"{"a":1,"b":"x y","c":{"d":"z"}}"#,
            ),
            (
                "a: [1, 2, 3], b <c: TYPE_FP32;>",
                r#"{"a":[1,2,3],"b":{"c":"TYPE_FP32"}}"#,
            ),
            (
                "a [ { key: 1 value: {b: -2} } , { key: 3 } ]",
                r#"{"a":[{"key":1,"value":{"b":-2}},{"key":3}]}"#,
            ),
            (
                "a: []\nb: true b: false b: [1.5]",
                r#"{"a":[],"b":[true,false,1.5]}"#,
            ),
            ("a: 1 a: [2, 3] a: 4", r#"{"a":[1,2,3,4]}"#),
            ("", "{}"),
        ] {
            assert_eq!(
                Value::Object(parse(text).unwrap()).to_string(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, message) in [
            (
                "a: 1\nb {",
                "the file ends where the name of a field must be",
            ),
            ("a: 1\n}", "line 2: \"}\" where the name of a field must be"),
            ("a: \"x\ny\"", "line 1: a string without its closing \""),
            ("a: ]", "line 1: \"]\" where a value must be"),
            ("a: [1 2]", "line 1: \"2\" where a comma or ] must be"),
            ("a: @", "line 1: unexpected character '@'"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
        for deep in [
            "a{".repeat(1_000_000),
            "a:".to_string() + &"[".repeat(1_000_000),
        ] {
            assert!(
                parse(&deep)
                    .unwrap_err()
                    .to_string()
                    .contains("100 messages")
            );
        }
    }
}
