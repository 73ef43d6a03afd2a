//! Reduces a case that breaks a law.

use std::iter;

use batchlab::error::{Error, Result};
use toml::{Table, Value};

use crate::draw::Case;

const MAX_ATTEMPTS: usize = 600;

/// The smallest case found that breaks the law that `message` names, and its message. `check` returns the outcome of a
/// case, or an error if the case can't be checked.
pub fn smallest(
    mut case: Case,
    mut message: String,
    check: impl Fn(&Case) -> Result<Result<usize>>,
) -> Result<(Case, String)> {
    let mut attempts_left = MAX_ATTEMPTS;
    loop {
        let mut has_shrunk = false;
        let mut place = 0;
        while attempts_left > 0 {
            let Some(smaller) = simpler_cases(&case).into_iter().nth(place) else {
                break;
            };
            attempts_left -= 1;
            match check(&smaller)? {
                Err(Error::Failed(also)) if law(&also) == law(&message) => {
                    case = smaller;
                    message = also;
                    has_shrunk = true;
                }
                _ => place += 1,
            }
        }
        if !has_shrunk {
            return Ok((case, message));
        }
    }
}

/// The name of the law that a message begins with; for a panic, its message without numbers.
fn law(message: &str) -> String {
    match message.split_once(": ") {
        Some(("panic", text)) => {
            let first_line = text.lines().next().unwrap_or("");
            first_line.replace(|c: char| c.is_ascii_digit(), "")
        }
        Some((name, _)) => name.into(),
        None => message.into(),
    }
}

/// Cases that each lack one thing, large things first.
fn simpler_cases(case: &Case) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, lines) in &case.files {
        let mut size = lines.len();
        while size > 1 {
            size = size.div_ceil(2);
            for from in (1..lines.len()).step_by(size) {
                let mut smaller = case.clone();
                let lines = smaller.files.get_mut(name).expect("it is there");
                lines.drain(from..lines.len().min(from + size));
                cases.push(smaller);
            }
        }
    }
    for fault in 0..case.faults.len() {
        let mut smaller = case.clone();
        smaller.faults.remove(fault);
        cases.push(smaller);
    }
    for scenario in simpler_tables(&case.scenario) {
        cases.push(Case {
            scenario,
            ..case.clone()
        });
    }
    cases
}

/// Tables that lack a key or an item, or have a smaller number.
fn simpler_tables(table: &Table) -> Vec<Table> {
    let mut tables = Vec::new();
    for (key, value) in table {
        // Without this key there are as many requests as by default, which is more.
        if key != "requests" {
            tables.push(with_value(table, key, None));
        }
        for simpler in simpler_values(value) {
            tables.push(with_value(table, key, Some(simpler)));
        }
    }
    tables
}

/// The table with this value at the end in place of the key's own, or without the key.
fn with_value(table: &Table, key: &str, value: Option<Value>) -> Table {
    let mut table = table.clone();
    table.remove(key);
    table.extend(value.map(|value| (key.to_owned(), value)));
    table
}

fn simpler_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Table(table) => simpler_tables(table)
            .into_iter()
            .map(Value::Table)
            .collect(),
        Value::Integer(number) if *number > 1 => {
            vec![Value::Integer(1), Value::Integer(number / 2)]
        }
        Value::Array(items) => {
            let mut simpler = Vec::new();
            for (place, item) in items.iter().enumerate() {
                let others = simpler_values(item).into_iter().map(Some);
                for other in iter::once(None).chain(others) {
                    let mut items = items.clone();
                    items.splice(place..=place, other);
                    simpler.push(Value::Array(items));
                }
            }
            simpler
        }
        _ => Vec::new(),
    }
}
