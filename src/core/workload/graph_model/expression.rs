//! Expressions between the brackets of a rule: `i - 1`, `N + 1 - i`, `1..i-1`, `*`, `v.children`.

use super::rule::NodeFamily;

/// A sum of indices, sizes and numbers; equal sums have equal fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// How often each name is added: the indices, then the [sizes](super::rule::sizes).
    pub times: Vec<i64>,
    pub constant: i64,
}

/// The values of one index in a need. The last four variants are nodes of a tree, seen from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexValues {
    All,
    Span(Linear, Linear),
    Itself,
    Children,
    Parent,
    Root,
}

/// The largest number: far beyond any sequence, and far from an overflow.
const MAX_NUMBER: i64 = 1 << 30;

impl Linear {
    pub fn parse(text: &str, names: &[&str]) -> Result<Linear, String> {
        let refuse = || {
            format!(
                "\"{}\" is not a sum of names and numbers, such as i - 1 or N + 1 - i",
                text.trim()
            )
        };
        let mut sum = Linear {
            times: vec![0; names.len()],
            constant: 0,
        };
        let mut rest = text.trim();
        let mut sign = 1;
        loop {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match (
                word.parse::<i64>(),
                names.iter().position(|name| *name == word),
            ) {
                (Ok(number), _) if number <= MAX_NUMBER => sum.constant += sign * number,
                (Ok(number), _) => {
                    return Err(format!("{number} is too large; at most {MAX_NUMBER}"));
                }
                (_, Some(place)) => sum.times[place] += sign,
                _ if word.is_empty() => return Err(refuse()),
                _ if names.is_empty() => {
                    return Err(format!(
                        "unknown name \"{word}\"; only numbers are known here"
                    ));
                }
                _ => {
                    return Err(format!(
                        "unknown name \"{word}\"; known here: {}",
                        names.join(", ")
                    ));
                }
            }
            rest = behind.trim_start();
            sign = match rest.as_bytes().first() {
                None => break,
                Some(b'+') => 1,
                Some(b'-') => -1,
                Some(_) => return Err(refuse()),
            };
            rest = rest[1..].trim_start();
        }
        Ok(sum)
    }

    pub fn evaluate(&self, values: &[i64]) -> i64 {
        self.constant
            + self
                .times
                .iter()
                .zip(values)
                .map(|(times, value)| times * value)
                .sum::<i64>()
    }

    /// Whether the sum consists of the first name, once, and a number.
    pub fn is_from_first(&self) -> bool {
        self.times
            .iter()
            .enumerate()
            .all(|(place, times)| *times == i64::from(place == 0))
    }

    /// The sum with a sum of sizes in place of its only index, if it has one.
    pub fn with_first(&self, first: &Linear) -> Linear {
        let (index, sizes) = self.times.split_at(self.times.len() - first.times.len());
        let factor = index.first().copied().unwrap_or(0);
        let times = sizes
            .iter()
            .zip(&first.times)
            .map(|(own, of_first)| own + factor * of_first);
        Linear {
            times: times.collect(),
            constant: self.constant + factor * first.constant,
        }
    }

    /// Whether a sum of sizes is at least 1 if each size is.
    pub fn is_positive(&self) -> bool {
        self.times.iter().all(|times| *times >= 0)
            && self.times.iter().sum::<i64>() + self.constant >= 1
    }
}

impl IndexValues {
    /// Reads the values of an index in a need of a family.
    pub fn parse(text: &str, of: &NodeFamily, sizes: &[&str]) -> Result<IndexValues, String> {
        let text = text.trim();
        // The node of a tree can't be added.
        let indices = of
            .indices
            .iter()
            .map(String::as_str)
            .filter(|_| of.node().is_none());
        let names: Vec<&str> = indices.chain(sizes.iter().copied()).collect();
        let linear = |text| Linear::parse(text, &names);
        match text {
            "*" => return Ok(IndexValues::All),
            "root" => return Ok(IndexValues::Root),
            text if of.node() == Some(text) => return Ok(IndexValues::Itself),
            _ => {}
        }
        if let Some((from, to)) = text.split_once("..") {
            return Ok(IndexValues::Span(linear(from)?, linear(to)?));
        }
        let Some((node, relation)) = text.split_once('.') else {
            return linear(text).map(|one| IndexValues::Span(one.clone(), one));
        };
        match (of.node() == Some(node.trim()), relation.trim()) {
            (true, "children") => Ok(IndexValues::Children),
            (true, "parent") => Ok(IndexValues::Parent),
            (true, other) => Err(format!(
                "a node of a tree has no {other}; it has children, parent"
            )),
            (false, _) => Err(format!("\"{node}\" does not range over a tree")),
        }
    }
}
