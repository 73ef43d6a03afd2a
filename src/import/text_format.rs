//! Protocol Buffers' text format, as far as a reader without the schema can tell.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Messages in messages beyond this depth are refused.
const DEEPEST: usize = 100;

/// A message as JSON. A field that stands several times is a list, and so is one in brackets.
///
/// # Errors
/// Names the line.
pub fn parse(text: &str) -> Result<Map<String, Value>> {
    Parser { tokens: tokens(text)?, next: 0 }.message(None, 0)
}

/// A token and its line. Strings keep their opening quote.
type Token<'a> = (&'a str, usize);

fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || "_.+-/".contains(c);
        let (token, length) = match first {
            '#' => ("", rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' => {
                let end = rest[1..].find([first, '\n']).filter(|end| rest[1 + end..].starts_with(first));
                let end =
                    end.ok_or_else(|| Error::input(format!("line {line}: a string without its closing {first}")))?;
                (&rest[..1 + end], end + 2)
            }
            _ if first.is_whitespace() => ("", first.len_utf8()),
            _ if "{}<>[]:,;".contains(first) => (&rest[..1], 1),
            _ if is_word(first) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (&rest[..length], length)
            }
            _ => return Err(Error::input(format!("line {line}: unexpected character {first:?}"))),
        };
        if !token.is_empty() {
            tokens.push((token, line));
        }
        line += usize::from(first == '\n');
        rest = &rest[length..];
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).map(|(token, _)| *token)
    }

    /// Skips one of these signs.
    fn skip(&mut self, signs: &str) -> bool {
        let found = self.peek().is_some_and(|token| signs.contains(token));
        self.next += usize::from(found);
        found
    }

    fn fails(&self, wanted: &str) -> Error {
        match self.tokens.get(self.next) {
            Some((token, line)) => Error::input(format!("line {line}: {token:?} where {wanted} must be")),
            None => Error::input(format!("the file ends where {wanted} must be")),
        }
    }

    fn message(&mut self, end: Option<&str>, depth: usize) -> Result<Map<String, Value>> {
        let mut fields = Map::new();
        loop {
            while self.skip(",;") {}
            if self.peek() == end {
                self.next += 1;
                return Ok(fields);
            }
            let name = self.peek().filter(|token| token.starts_with(|c: char| c.is_alphabetic() || c == '_'));
            let name = name.ok_or_else(|| self.fails("the name of a field"))?;
            self.next += 1;
            self.skip(":");
            let value = self.value(depth)?;
            match fields.get_mut(name) {
                None => drop(fields.insert(name.into(), value)),
                Some(Value::Array(several)) => match value {
                    Value::Array(more) => several.extend(more),
                    one => several.push(one),
                },
                Some(before) => *before = Value::Array(vec![before.take(), value]),
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
        let scalar = self.peek().filter(|token| !"{}<>[]:,;".contains(token)).ok_or_else(|| self.fails("a value"))?;
        self.next += 1;
        Ok(match scalar.strip_prefix(['"', '\'']) {
            Some(text) => text.into(),
            None => serde_json::from_str(scalar).unwrap_or_else(|_| scalar.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_format_are_read() {
        for (text, expected) in [
            ("a: 1 b: \"x y\" # comment\nc { d: 'z' }", r#"{"a":1,"b":"x y","c":{"d":"z"}}"#),
            ("a: [1, 2, 3], b <c: TYPE_FP32;>", r#"{"a":[1,2,3],"b":{"c":"TYPE_FP32"}}"#),
            ("a [ { key: 1 value: {b: -2} } , { key: 3 } ]", r#"{"a":[{"key":1,"value":{"b":-2}},{"key":3}]}"#),
            ("a: []\nb: true b: false b: [1.5]", r#"{"a":[],"b":[true,false,1.5]}"#),
            ("", "{}"),
        ] {
            assert_eq!(Value::Object(parse(text).unwrap()).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, message) in [
            ("a: 1\nb {", "the file ends where the name of a field must be"),
            ("a: 1\n}", "line 2: \"}\" where the name of a field must be"),
            ("a: \"x\ny\"", "line 1: a string without its closing \""),
            ("a: ]", "line 1: \"]\" where a value must be"),
            ("a: [1 2]", "line 1: \"2\" where a comma or ] must be"),
            ("a: @", "line 1: unexpected character '@'"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
        for deep in ["a{".repeat(1_000_000), "a:".to_string() + &"[".repeat(1_000_000)] {
            assert!(parse(&deep).unwrap_err().to_string().contains("100 messages"));
        }
    }
}
