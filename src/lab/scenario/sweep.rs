//! Sweeps: lists of values for keys, in the table `[sweep]` and in `--sweep` options.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{Setting, Source, Span, find_item, quote, split_override};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::lab::results::sweep_keys::Swept;

/// A swept key and its values.
pub(super) struct SweptKey<'s> {
    key: String,
    /// The index of the policy, if the key belongs to one.
    policy: Option<usize>,
    /// The path from the root, or from the policy's table.
    path: Vec<String>,
    span: Span,
    values: Vec<Spanned<DeValue<'s>>>,
}

pub(super) type Choice<'a, 's> = (&'a SweptKey<'s>, &'a Spanned<DeValue<'s>>);

/// Takes the table `[sweep]` out of the root, and returns the swept keys. A key of `--sweep` replaces that of the
/// table.
pub(super) fn axes<'s>(source: &'s Source, root: &mut DeTable<'s>) -> Result<Vec<SweptKey<'s>>> {
    let mut lists = Vec::new();
    if let Some(sweep) = root.remove("sweep") {
        let span = sweep.span();
        match sweep.into_inner() {
            DeValue::Table(table) => read_table(source, Vec::new(), table, &mut lists)?,
            other => {
                return Err(source.error(
                    span,
                    format!("sweep: must be a table of lists, not {}", quote(&other)),
                ));
            }
        }
    }
    // Tables sort their keys alphabetically; restore the order of the text.
    lists.sort_by_key(|(_, span, _)| span.start);
    for given in &source.sweeps {
        lists.retain(|(path, ..)| *path != given.path);
        lists.push((given.path.clone(), given.span(), given.values().collect()));
    }
    let mut axes: Vec<SweptKey<'s>> = Vec::new();
    for list in lists {
        let axis = axis(source, root, list)?;
        let concerns = |other: &&SweptKey<'_>| {
            other.policy == axis.policy
                && (other.path.starts_with(&axis.path) || axis.path.starts_with(&other.path))
        };
        if let Some(other) = axes.iter().find(concerns) {
            return Err(axis.refuse(
                source,
                &format!(
                    "{} is swept too, and sets the same; leave one out",
                    other.key
                ),
            ));
        }
        axes.push(axis);
    }
    Ok(axes)
}

type List<'s> = (Vec<String>, Span, Vec<Spanned<DeValue<'s>>>);

/// Reads keys such as `"device.workers" = [1, 2]`, or the same as tables in tables.
fn read_table<'s>(
    source: &Source,
    above: Vec<String>,
    table: DeTable<'s>,
    lists: &mut Vec<List<'s>>,
) -> Result<()> {
    for (name, value) in table {
        let key = name.get_ref();
        let span = name.span();
        let value_span = value.span();
        let path = match above.is_empty() {
            true => {
                split_override(&format!("{key}="))
                    .map_err(|why| source.error(span.clone(), why))?
                    .0
            }
            false => [&above[..], &[key.to_string()]].concat(),
        };
        match value.into_inner() {
            DeValue::Table(below) => read_table(source, path, below, lists)?,
            DeValue::Array(items) => lists.push((path, span, items.into_iter().collect())),
            other => {
                let problem = format!(
                    "sweep: {key}: must be a list of values, such as [1, 2, 4], not {}",
                    quote(&other)
                );
                return Err(source.error(value_span, problem));
            }
        }
    }
    Ok(())
}

fn axis<'s>(
    source: &Source,
    root: &DeTable<'_>,
    (path, span, values): List<'s>,
) -> Result<SweptKey<'s>> {
    let quoted = |part: &String| {
        if part.contains(['.', '=']) {
            format!("\"{part}\"")
        } else {
            part.clone()
        }
    };
    let key = path.iter().map(quoted).collect::<Vec<_>>().join(".");
    let mut axis = SweptKey {
        key,
        policy: None,
        path,
        span,
        values,
    };
    let names: Vec<String> = axis
        .values
        .iter()
        .map(|value| folder_name(&value_text(value.get_ref())))
        .collect();
    let twice = (1..names.len()).find(|at| names[..*at].contains(&names[*at]));
    let parts: Vec<&str> = axis.path.iter().map(String::as_str).collect();
    let problem = match (&parts[..], twice) {
        _ if names.is_empty() => "there are no values; one or several, such as 1, 2, 4".into(),
        (_, Some(at)) => format!("two values name the same folder, {}", names[at]),
        (["name" | "output" | "sweep", ..] | ["policy", _, "label", ..], _) => {
            "tells where results go, and all of a sweep go to one folder; sweep another key".into()
        }
        (["policy"] | ["policy", _], _) => {
            "a key of a policy is needed, such as policy.LABEL.max_batch".into()
        }
        (["policy", chosen, ..], _) => {
            let items = root
                .get("policy")
                .and_then(|list| list.get_ref().as_array())
                .map_or(&[][..], |items| items);
            match find_item(items, chosen) {
                Ok(index) => {
                    axis.policy = Some(index);
                    axis.path.drain(..2);
                    return Ok(axis);
                }
                Err(problem) => problem,
            }
        }
        _ => return Ok(axis),
    };
    Err(axis.refuse(source, &problem))
}

impl SweptKey<'_> {
    pub fn refuse(&self, source: &Source, problem: &str) -> Error {
        let table = if source.is_in_sweep(&self.span) {
            ""
        } else {
            "sweep: "
        };
        source.error(self.span.clone(), format!("{table}{}: {problem}", self.key))
    }
}

/// The number of combinations of all keys, each with one of the policies.
pub(super) fn count_combinations(axes: &[SweptKey<'_>], policies: usize) -> u64 {
    let count = |policy: Option<usize>| {
        let own = axes.iter().filter(|axis| axis.policy == policy);
        own.fold(1, |count: u64, axis| {
            count.saturating_mul(axis.values.len() as u64)
        })
    };
    let mut by_policy: u64 = 0;
    for policy in 0..policies {
        by_policy = by_policy.saturating_add(count(Some(policy)));
    }
    count(None).saturating_mul(by_policy)
}

/// The combinations of the keys of a policy, or of those outside of policies. The last key varies fastest.
pub(super) fn product<'a, 's>(
    axes: &'a [SweptKey<'s>],
    policy: Option<usize>,
) -> Vec<Vec<Choice<'a, 's>>> {
    axes.iter()
        .filter(|axis| axis.policy == policy)
        .fold(vec![Vec::new()], |before, axis| {
            let with =
                |choices: &Vec<Choice<'a, 's>>, value| [&choices[..], &[(axis, value)]].concat();
            before
                .iter()
                .flat_map(|choices| axis.values.iter().map(move |value| with(choices, value)))
                .collect()
        })
}

pub(super) fn apply<'s>(
    source: &Source,
    table: &mut Spanned<DeValue<'s>>,
    choices: &[Choice<'_, 's>],
) -> Result<()> {
    choices.iter().try_for_each(|(axis, value)| {
        source.apply(
            &Setting {
                path: &axis.path,
                span: &axis.span,
                value,
            },
            0,
            table,
        )
    })
}

/// The keys and values of these choices, as results name them.
pub(super) fn swept<'a, 's: 'a>(choices: impl Iterator<Item = &'a Choice<'a, 's>>) -> Vec<Swept> {
    choices
        .map(|(axis, value)| (axis.key.clone(), value_text(value.get_ref())))
        .collect()
}

/// The text of a value in columns and in names of folders.
pub(super) fn value_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| value_text(item.get_ref()))
                .collect();
            format!("[{}]", items.join(","))
        }
        DeValue::Table(table) => {
            let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
                format!("{}={}", key.get_ref(), value_text(value.get_ref()))
            };
            format!(
                "{{{}}}",
                table.iter().map(entry).collect::<Vec<_>>().join(",")
            )
        }
        other => quote(other),
    }
}

/// The places of the values in `1,2,[3,4],"5,6"`: commas in brackets or quotes do not separate them.
pub(super) fn split(text: &str) -> Result<Vec<Span>, String> {
    let mut depth = 0;
    let mut quote = None;
    let mut ends = Vec::new();
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (_, Some(end)) if letter == end => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(letter),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => ends.push(at),
            _ => {}
        }
    }
    ends.push(text.len());
    let mut start = 0;
    let places = ends.into_iter().map(|end| {
        let value = &text[start..end];
        let from = start + value.len() - value.trim_start().len();
        start = end + 1;
        from..(from + value.trim().len())
    });
    let places: Vec<Span> = places.collect();
    match places.iter().any(Span::is_empty) {
        true => Err("a value is empty; separate values by single commas, as KEY=1,2,4".into()),
        false => Ok(places),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_and_quotes_separate_nothing() {
        let values = |text: &'static str| {
            split(text).map(|places| {
                places
                    .into_iter()
                    .map(|place| &text[place])
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(values("1,2, 4").unwrap(), ["1", "2", "4"]);
        assert_eq!(values("[1,2],[4, 8]").unwrap(), ["[1,2]", "[4, 8]"]);
        assert_eq!(values("{a=1,b=[2,3]},9").unwrap(), ["{a=1,b=[2,3]}", "9"]);
        assert_eq!(values("\"a,b\",'c,\"d'").unwrap(), ["\"a,b\"", "'c,\"d'"]);
        for text in ["", "1,,2", "1,"] {
            assert!(
                values(text).unwrap_err().starts_with("a value is empty"),
                "{text}"
            );
        }
    }
}
