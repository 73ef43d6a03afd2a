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
        tokens: tokens(text.trim_start_matches('\u{feff}'))?
            .into_iter()
            .peekable(),
    }
    .message(None, 0)
}

/// A token and its line. Strings keep their quotes and escapes.
type Token<'a> = (&'a str, usize);

fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next().filter(|first| *first != '#') {
            let fails = |why: &str| Error::input(format!("line {line}: {why}"));
            let length = match first {
                '"' | '\'' => string_length(rest, first)
                    .ok_or_else(|| fails(&format!("a string without its closing {first}")))?,
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

/// The bytes of the string that a text begins with, with its quotes.
fn string_length(text: &str, quote: char) -> Option<usize> {
    let mut letters = text.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return Some(place + 1);
        }
    }
    None
}

/// The bytes of a string without its quotes.
///
/// # Errors
/// An escape is none of the format's.
fn unescape(text: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            bytes.extend(letter.to_string().bytes());
            continue;
        }
        let escape = letters.next().unwrap_or_default();
        let mut number = |first: Option<char>, radix: u32, most: usize| {
            let mut digits: String = first.into_iter().collect();
            while digits.len() < most
                && let Some(digit) = letters.next_if(|letter| letter.is_digit(radix))
            {
                digits.push(digit);
            }
            u32::from_str_radix(&digits, radix).ok()
        };
        let value = match escape {
            'n' => Some(vec![b'\n']),
            'r' => Some(vec![b'\r']),
            't' => Some(vec![b'\t']),
            'a' => Some(vec![7]),
            'b' => Some(vec![8]),
            'v' => Some(vec![11]),
            'f' => Some(vec![12]),
            '\\' | '\'' | '"' | '?' => Some(vec![escape as u8]),
            '0'..='7' => number(Some(escape), 8, 3)
                .and_then(|byte| u8::try_from(byte).ok())
                .map(|byte| vec![byte]),
            'x' | 'X' => number(None, 16, 2).map(|byte| vec![byte as u8]),
            'u' | 'U' => number(None, 16, if escape == 'u' { 4 } else { 8 })
                .and_then(char::from_u32)
                .map(|letter| letter.to_string().into_bytes()),
            _ => None,
        };
        match value {
            Some(value) => bytes.extend(value),
            None => return Err(format!("\\{escape} is not an escape of a string")),
        }
    }
    Ok(())
}

/// The value of a number or a word. Numbers may be hexadecimal or octal, and floats may end in `f`.
fn scalar_value(text: &str) -> Value {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let whole = if let Some(hexadecimal) = lower.strip_prefix("0x") {
        u64::from_str_radix(hexadecimal, 16).ok()
    } else if lower.len() > 1 && lower.starts_with('0') {
        u64::from_str_radix(&lower, 8).ok()
    } else {
        None
    };
    let number = match whole {
        Some(whole) => format!("{sign}{whole}"),
        None if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            let decimal = lower.trim_end_matches('f');
            let zero = if decimal.starts_with('.') { "0" } else { "" };
            format!("{sign}{zero}{}", decimal.trim_end_matches('.'))
        }
        None => text.to_string(),
    };
    serde_json::from_str(&number).unwrap_or_else(|_| text.into())
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
            let name = self.name()?;
            self.skip(":");
            let value = self.value(depth)?;
            match fields.get_mut(&name) {
                None => drop(fields.insert(name, value)),
                Some(before) => {
                    let mut all = several(before.take());
                    all.extend(several(value));
                    *before = Value::Array(all);
                }
            }
        }
    }

    /// The name of a field: a word, or that of an extension in brackets.
    fn name(&mut self) -> Result<String> {
        let is_extension = self.skip("[");
        let is_name =
            |(token, _): &Token<'_>| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let (name, _) = self
            .tokens
            .next_if(is_name)
            .ok_or_else(|| self.fails("the name of a field"))?;
        if is_extension && !self.skip("]") {
            return Err(self.fails("]"));
        }
        Ok(name.into())
    }

    /// The text of a string, and of those that follow it at once.
    fn string(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        let is_string = |(token, _): &Token<'_>| token.starts_with(['"', '\'']);
        while let Some((token, line)) = self.tokens.next_if(is_string) {
            unescape(&token[1..token.len() - 1], &mut bytes)
                .map_err(|problem| Error::input(format!("line {line}: {problem}")))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
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
        if self
            .peek()
            .is_some_and(|token| token.starts_with(['"', '\'']))
        {
            return Ok(self.string()?.into());
        }
        // A sign may stand apart from its number.
        let minus = self.tokens.next_if(|(token, _)| *token == "-").is_some();
        let is_scalar = |(token, _): &Token<'_>| !SIGNS.contains(token);
        let (scalar, _) = self
            .tokens
            .next_if(is_scalar)
            .ok_or_else(|| self.fails("a value"))?;
        if minus {
            return Ok(scalar_value(&format!("-{scalar}")));
        }
        Ok(scalar_value(scalar))
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
            (
                r#"a: "{\"b\": 1}" c: 'it\'s' d: "\x41\101\u00e9\n""#,
                r#"{"a":"{\"b\": 1}","c":"it's","d":"AAé\n"}"#,
            ),
            ("\u{feff}a: \"x\" 'y'\n  \"z\" b: 1", r#"{"a":"xyz","b":1}"#),
            (
                "a: 0x1F b: 010 c: -0x2 d: - 3 e: 1.5f f: .5 g: 2.",
                r#"{"a":31,"b":8,"c":-2,"d":-3,"e":1.5,"f":0.5,"g":2}"#,
            ),
            ("[a.b/C]: 1 d: inf", r#"{"a.b/C":1,"d":"inf"}"#),
            ("a: 18446744073709551615", r#"{"a":18446744073709551615}"#),
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
            ("\na: \"\\q\"", "line 2: \\q is not an escape of a string"),
            ("a: \"\\400\"", "line 1: \\4 is not an escape of a string"),
            ("a: \"x\\\"", "line 1: a string without its closing \""),
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
