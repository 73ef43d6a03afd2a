//! Serde's messages in this project's words, so that a policy's own keys are refused like all others.

use super::section::did_you_mean;

/// Rewords the message of a deserialiser; one that is not serde's stays as it is.
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
        // What serde expects is `a`, `a` or `b`, or one of `a`, `b`, `c`: the names are every second part.
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
