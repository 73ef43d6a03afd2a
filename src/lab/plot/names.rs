//! The names of policies in figures: their places in the palette, which are drawn, and under which labels.

use serde_json::Value;

use super::look::Look;
use crate::base::error::{Error, Result, nearest};
use crate::lab::results::sweep_keys::distinct;

/// Kinds of policies with a place of their own in the palette, so that a policy looks the same in the figures of all runs.
/// Kinds of one place rarely meet.
const PLACES: [&[&str]; 7] = [
    &["cellular"],
    &["padded", "triton", "static"],
    &["dvabatch"],
    &["merged", "fold", "vllm", "nexus"],
    &["late", "sarathi", "clockwork", "lazy"],
    &["dynet", "orca", "symphony", "control-limit"],
    &["ideal", "jit", "unbatched"],
];

/// The kinds of the policies of a run, by their labels, as its settings say.
pub fn kinds(settings: &Value) -> Vec<(&str, &str)> {
    let policies = settings
        .pointer("/scenario/policy")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    policies
        .filter_map(|policy| Some((policy["label"].as_str()?, policy["kind"].as_str()?)))
        .collect()
}

/// The place in the palette of each label, whose kind may be known. It is the place of the kind, unless an earlier
/// label has it; then it is the first that is free.
pub fn places(labels: &[(String, Option<String>)]) -> Vec<(String, usize)> {
    let home = |kind: &str| PLACES.iter().position(|kinds| kinds.contains(&kind));
    let mut homes: Vec<Option<usize>> = Vec::new();
    for (_, kind) in labels {
        let own = kind
            .as_deref()
            .and_then(home)
            .filter(|place| !homes.contains(&Some(*place)));
        homes.push(own);
    }
    let mut free = (0..).filter(|place| !homes.contains(&Some(*place)));
    let place = |home: &Option<usize>| {
        home.or_else(|| free.next())
            .expect("there is no end of places")
    };
    let found: Vec<usize> = homes.iter().map(place).collect();
    labels
        .iter()
        .map(|(label, _)| label.clone())
        .zip(found)
        .collect()
}

/// All if none is asked for. `option` is its name, for messages.
pub fn chosen<'k>(option: &str, asked: &[String], known: &[&'k str]) -> Result<Vec<&'k str>> {
    let find = |part: &str| {
        let unknown = || {
            format!(
                "{option}: unknown policy \"{part}\"; there are {}",
                known.join(", ")
            )
        };
        known
            .iter()
            .find(|policy| **policy == part)
            .copied()
            .ok_or_else(|| Error::input(unknown()))
    };
    let mut chosen = Vec::new();
    for text in asked {
        // A label may contain a comma, so the whole text comes first.
        match find(text) {
            Ok(policy) => chosen.push(policy),
            Err(_) => chosen.extend(
                text.split(',')
                    .map(|part| find(part.trim()))
                    .collect::<Result<Vec<_>>>()?,
            ),
        }
    }
    Ok(if asked.is_empty() {
        known.to_vec()
    } else {
        chosen
    })
}

/// Those that are asked for first, then the others.
pub fn ordered<'k>(asked: &[String], known: &[&'k str]) -> Result<Vec<&'k str>> {
    let first = if asked.is_empty() {
        Vec::new()
    } else {
        chosen("--order", asked, known)?
    };
    Ok(distinct(first.into_iter().chain(known.iter().copied())))
}

impl Look {
    /// The look with labels of these names only. On the command line, a name may itself have a `=`.
    pub fn with_labels(&self, known: &[String]) -> Result<Look> {
        let found = |(key, text): &(String, String)| {
            let whole = format!("{key}={text}");
            let splits = whole
                .match_indices('=')
                .map(|(at, _)| (&whole[..at], &whole[at + 1..]));
            let mut fits = splits.filter(|(key, _)| {
                ["x", "y"].contains(key) || known.iter().any(|name| name == key)
            });
            fits.next()
                .map(|(key, text)| (key.to_string(), text.to_string()))
                .ok_or_else(|| {
                    let known: Vec<&str> =
                        known.iter().map(String::as_str).chain(["x", "y"]).collect();
                    let guess = nearest(key, &known);
                    Error::input(format!(
                        "--label: nothing is called \"{key}\"{guess}; there are {}",
                        known.join(", ")
                    ))
                })
        };
        Ok(Look {
            label: self.label.iter().map(found).collect::<Result<_>>()?,
            ..self.clone()
        })
    }

    /// What a figure calls it.
    pub fn name<'n>(&'n self, name: &'n str) -> &'n str {
        self.label
            .iter()
            .rfind(|(key, _)| key == name)
            .map_or(name, |(_, text)| text)
    }
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
            ordered(&asked(&["merged"]), &known).unwrap(),
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
