//! Reduces a case that breaks a law.

use toml::{Table, Value};

use super::draw::Case;
use crate::base::error::{Error, Result};

/// Attempts at most.
const MOST: usize = 600;

/// The smallest case found that breaks the law that `how` names, and how.
pub(super) fn smallest(
    mut case: Case,
    mut how: String,
    test: &dyn Fn(&Case) -> Result<Result<usize>>,
) -> Result<(Case, String)> {
    let mut left = MOST;
    loop {
        let (mut place, mut shrunk) = (0, false);
        while let Some(smaller) = simpler(&case).into_iter().nth(place).filter(|_| left > 0) {
            left -= 1;
            match test(&smaller)? {
                Err(Error::Failed(also)) if law(&also) == law(&how) => {
                    (case, how, shrunk) = (smaller, also, true)
                }
                _ => place += 1,
            }
        }
        if !shrunk {
            return Ok((case, how));
        }
    }
}

/// Its name; of a panic, the message without numbers.
fn law(how: &str) -> String {
    match how.split_once(": ") {
        Some(("panic", message)) => message
            .lines()
            .next()
            .unwrap_or("")
            .replace(|c: char| c.is_ascii_digit(), ""),
        Some((name, _)) => name.into(),
        None => how.into(),
    }
}

/// Cases with one thing less each, large things first.
fn simpler(case: &Case) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, lines) in &case.files {
        let halves = std::iter::successors(Some(lines.len()), |size| {
            (*size > 1).then(|| size.div_ceil(2))
        });
        for size in halves.skip(1) {
            for from in (1..lines.len()).step_by(size) {
                let mut smaller = case.clone();
                smaller
                    .files
                    .get_mut(name)
                    .expect("it is there")
                    .drain(from..lines.len().min(from + size));
                cases.push(smaller);
            }
        }
    }
    for fault in 0..case.faults.len() {
        let mut smaller = case.clone();
        smaller.faults.remove(fault);
        cases.push(smaller);
    }
    cases.extend(
        simpler_table(&case.scenario)
            .into_iter()
            .map(|scenario| Case {
                scenario,
                ..case.clone()
            }),
    );
    cases
}

/// With a key or an item less, or a smaller number.
fn simpler_table(table: &Table) -> Vec<Table> {
    let mut tables = Vec::new();
    for (key, value) in table {
        // Without their number there are as many requests as by default, which is more.
        let without = (key != "requests").then_some(None);
        let others = without
            .into_iter()
            .chain(simpler_values(value).into_iter().map(Some));
        tables.extend(others.map(|other| {
            let mut table = table.clone();
            table.remove(key);
            table.extend(other.map(|value| (key.clone(), value)));
            table
        }));
    }
    tables
}

fn simpler_values(value: &Value) -> Vec<Value> {
    let replaced = |items: &[Value], place: usize, by: Option<Value>| {
        let mut items = items.to_vec();
        items.splice(place..=place, by);
        Value::Array(items)
    };
    match value {
        Value::Table(table) => simpler_table(table).into_iter().map(Value::Table).collect(),
        Value::Integer(number) if *number > 1 => {
            vec![Value::Integer(1), Value::Integer(number / 2)]
        }
        Value::Array(items) => (0..items.len())
            .flat_map(|place| {
                let simpler = simpler_values(&items[place]).into_iter().map(Some);
                std::iter::once(None)
                    .chain(simpler)
                    .map(move |by| replaced(items, place, by))
            })
            .collect(),
        _ => Vec::new(),
    }
}
