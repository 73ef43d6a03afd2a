//! The names of policies in figures: their places in the palette, which of them are drawn, and their labels.

use serde_json::Value;

use super::look::Look;
use crate::base::error::{Error, Result, nearest};
use crate::lab::results::sweep_keys::distinct;

/// The kinds of policies at each place of the palette. A policy looks the same in the figures of all runs. Kinds that
/// share a place rarely meet.
const PLACES: [&[&str]; 7] = [
    &["cellular"],
    &["padded", "triton", "static"],
    &["dvabatch"],
    &["merged", "fold", "vllm", "nexus"],
    &["late", "sarathi", "clockwork", "lazy"],
    &["dynet", "orca", "symphony", "control-limit"],
    &["ideal", "jit", "unbatched"],
];

/// The label and the kind of each policy of a run, from the run's settings.
pub fn kinds(settings: &Value) -> Vec<(&str, &str)> {
    let Some(policies) = settings
        .pointer("/scenario/policy")
        .and_then(Value::as_array)
    else {
        return Vec::new();
    };
    policies
        .iter()
        .filter_map(|policy| Some((policy["label"].as_str()?, policy["kind"].as_str()?)))
        .collect()
}

/// The place in the palette of each label. It is the place of the label's kind, unless the kind is unknown or an
/// earlier label has it; then it is the first place that is free.
pub fn places(labels: &[(String, Option<String>)]) -> Vec<(String, usize)> {
    let mut homes: Vec<Option<usize>> = Vec::new();
    for (_, kind) in labels {
        let home = kind.as_deref().and_then(place_of_kind);
        let is_taken = homes.contains(&home);
        homes.push(if is_taken { None } else { home });
    }
    let mut places = Vec::new();
    let mut next = 0;
    for ((label, _), home) in labels.iter().zip(&homes) {
        let place = home.unwrap_or_else(|| {
            while homes.contains(&Some(next)) {
                next += 1;
            }
            next += 1;
            next - 1
        });
        places.push((label.clone(), place));
    }
    places
}

fn place_of_kind(kind: &str) -> Option<usize> {
    PLACES.iter().position(|kinds| kinds.contains(&kind))
}

/// The policies that are asked for, or all if none is. `option` is the name of the option, for messages.
pub fn chosen<'k>(option: &str, asked: &[String], known: &[&'k str]) -> Result<Vec<&'k str>> {
    if asked.is_empty() {
        return Ok(known.to_vec());
    }
    let mut chosen = Vec::new();
    for text in asked {
        // A label may contain a comma, so the whole text comes first.
        if let Ok(policy) = find_policy(option, text, known) {
            chosen.push(policy);
            continue;
        }
        for part in text.split(',') {
            chosen.push(find_policy(option, part.trim(), known)?);
        }
    }
    Ok(chosen)
}

fn find_policy<'k>(option: &str, label: &str, known: &[&'k str]) -> Result<&'k str> {
    match known.iter().find(|policy| **policy == label) {
        Some(policy) => Ok(policy),
        None => Err(Error::input(format!(
            "{option}: unknown policy \"{label}\"; there are {}",
            known.join(", ")
        ))),
    }
}

/// The policies that are asked for, and then the others.
pub fn order<'k>(asked: &[String], known: &[&'k str]) -> Result<Vec<&'k str>> {
    if asked.is_empty() {
        return Ok(distinct(known.iter().copied()));
    }
    let first = chosen("--order", asked, known)?;
    Ok(distinct(first.into_iter().chain(known.iter().copied())))
}

impl Look {
    /// The look with labels of these names only. On the command line, a name may itself have a `=`.
    ///
    /// # Errors
    /// A label for anything else is a user's mistake.
    pub fn with_labels(&self, known: &[String]) -> Result<Look> {
        let mut label = Vec::new();
        for (key, text) in &self.label {
            label.push(split_label(key, text, known)?);
        }
        Ok(Look {
            label,
            ..self.clone()
        })
    }

    /// The name under which figures show a policy, a results folder or an axis.
    pub fn name<'n>(&'n self, name: &'n str) -> &'n str {
        match self.label.iter().rfind(|(key, _)| key == name) {
            Some((_, text)) => text,
            None => name,
        }
    }
}

/// Splits `KEY=TEXT`, which was split at its first `=`, where the key is one of the known names.
fn split_label(key: &str, text: &str, known: &[String]) -> Result<(String, String)> {
    let mut known: Vec<&str> = known.iter().map(String::as_str).collect();
    known.extend(["x", "y"]);
    let whole = format!("{key}={text}");
    for (at, _) in whole.match_indices('=') {
        if known.contains(&&whole[..at]) {
            return Ok((whole[..at].to_string(), whole[at + 1..].to_string()));
        }
    }
    Err(Error::input(format!(
        "--label: nothing is called \"{key}\"{}; there are {}",
        nearest(key, &known),
        known.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_with_a_comma_can_be_chosen() {
        let known = ["padded (10, 512)", "cellular", "merged"];
        let asked = |asked: &[&str]| asked.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = |names: &[&str]| chosen("--policies", &asked(names), &known);
        assert_eq!(all(&["padded (10, 512)"]).unwrap(), ["padded (10, 512)"]);
        assert_eq!(all(&["merged,cellular"]).unwrap(), ["merged", "cellular"]);
        let error = all(&["celular"]).unwrap_err().to_string();
        assert!(
            error.contains("\"celular\"; there are padded (10, 512), cellular, merged"),
            "{error}"
        );
        assert_eq!(
            order(&asked(&["merged"]), &known).unwrap(),
            ["merged", "padded (10, 512)", "cellular"]
        );
    }

    #[test]
    fn a_policy_has_the_place_of_its_kind_and_others_the_free_ones() {
        let of = |labels: &[(&str, &str)]| {
            let kind = |kind: &str| Some(kind.to_string()).filter(|kind| !kind.is_empty());
            let labels: Vec<_> = labels
                .iter()
                .map(|(label, of)| (label.to_string(), kind(of)))
                .collect();
            places(&labels)
                .into_iter()
                .map(|(_, place)| place)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[("A", ""), ("B", ""), ("C", "")]), [0, 1, 2]);
        assert_eq!(
            of(&[
                ("MXNet", "padded"),
                ("TF", "padded"),
                ("BatchMaker", "cellular")
            ]),
            [1, 2, 0]
        );
        assert_eq!(
            of(&[
                ("DVABatch", "dvabatch"),
                ("own", "mine"),
                ("Graph", "padded")
            ]),
            [2, 0, 1]
        );
        let nine: Vec<_> = (0..9).map(|_| ("p", "padded")).collect();
        assert_eq!(of(&nine), [1, 0, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_renamed_policy_may_have_an_equals_sign() {
        let look = |text: (&str, &str)| Look {
            label: vec![(text.0.into(), text.1.into())],
            ..Look::default()
        };
        let known = ["padded (bw=10)".to_string(), "cellular".into()];
        let renamed = look(("padded (bw", "10)=Padded = wide"))
            .with_labels(&known)
            .unwrap();
        assert_eq!(
            (renamed.name("padded (bw=10)"), renamed.name("cellular")),
            ("Padded = wide", "cellular")
        );
        assert_eq!(
            look(("x", "Load")).with_labels(&known).unwrap().name("x"),
            "Load"
        );
        let error = look(("celular", "C"))
            .with_labels(&known)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "--label: nothing is called \"celular\"; did you mean cellular?; there are padded (bw=10), cellular, x, y"
        );
    }
}
