//! Expressions between the brackets of a rule: `i - 1`, `N + 1 - i`, `1..i-1`, `*`, `v.children`.

use super::rule::Family;

/// The values of a rule's [sizes](super::rule::sizes); 0 for those that it lacks.
pub type Sizes = [i64; 2];

/// A sum of indices, sizes and numbers; equal sums have equal fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    pub indices: Vec<i64>,
    pub sizes: Sizes,
    pub constant: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    All,
    Span(Linear, Linear),
    Tree(Relative),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relative {
    Itself,
    Children,
    Parent,
    Root,
}

/// Far beyond any sequence, and far from an overflow.
const MAX_NUMBER: i64 = 1 << 30;

impl Linear {
    pub fn number(number: i64) -> Linear {
        Linear { constant: number, ..Linear::default() }
    }

    /// Of these indices and sizes.
    pub fn parse(text: &str, indices: &[String], sizes: &[&str]) -> Result<Linear, String> {
        let refuse = || format!("\"{}\" is not a sum of names and numbers, such as i - 1 or N + 1 - i", text.trim());
        let mut sum = Linear { indices: vec![0; indices.len()], ..Linear::default() };
        let mut rest = text.trim();
        let mut sign = 1;
        loop {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match word.parse::<i64>() {
                Ok(number) if number <= MAX_NUMBER => sum.constant += sign * number,
                Ok(number) => return Err(format!("{number} is too large; at most {MAX_NUMBER}")),
                Err(_) if word.is_empty() => return Err(refuse()),
                Err(_) => *sum.coefficient(word, indices, sizes)? += sign,
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
        // Otherwise equal sums of two families would differ.
        while sum.indices.last() == Some(&0) {
            sum.indices.pop();
        }
        Ok(sum)
    }

    fn coefficient(&mut self, name: &str, indices: &[String], sizes: &[&str]) -> Result<&mut i64, String> {
        if let Some(place) = indices.iter().position(|index| index == name) {
            return Ok(&mut self.indices[place]);
        }
        if let Some(place) = sizes.iter().position(|size| *size == name) {
            return Ok(&mut self.sizes[place]);
        }
        let known: Vec<&str> = indices.iter().map(String::as_str).chain(sizes.iter().copied()).collect();
        Err(match known.is_empty() {
            true => format!("unknown name \"{name}\"; only numbers are known here"),
            false => format!("unknown name \"{name}\"; known here: {}", known.join(", ")),
        })
    }

    pub fn at(&self, indices: &[i64], sizes: &Sizes) -> i64 {
        let of_indices: i64 = self.indices.iter().zip(indices).map(|(times, value)| times * value).sum();
        let of_sizes: i64 = self.sizes.iter().zip(sizes).map(|(times, value)| times * value).sum();
        of_indices + of_sizes + self.constant
    }

    /// `None` if there are further indices.
    pub fn with_first(&self, first: &Linear) -> Option<Linear> {
        let times = match self.indices[..] {
            [] => return Some(self.clone()),
            [times] => times,
            _ => return None,
        };
        let sizes = std::array::from_fn(|size| self.sizes[size] + times * first.sizes[size]);
        Some(Linear { indices: Vec::new(), sizes, constant: self.constant + times * first.constant })
    }

    /// For all sizes of at least 1.
    pub fn is_positive(&self) -> bool {
        let least = self.sizes.iter().sum::<i64>() + self.constant;
        self.indices.is_empty() && self.sizes.iter().all(|times| *times >= 0) && least >= 1
    }
}

impl Item {
    /// In a need of a family.
    pub fn parse(text: &str, of: &Family, sizes: &[&str]) -> Result<Item, String> {
        let text = text.trim();
        // The node of a tree can't be added.
        let indices = if of.node().is_some() { &[] } else { &of.indices[..] };
        let linear = |text| Linear::parse(text, indices, sizes);
        match text {
            "*" => return Ok(Item::All),
            "root" => return Ok(Item::Tree(Relative::Root)),
            text if of.node() == Some(text) => return Ok(Item::Tree(Relative::Itself)),
            _ => {}
        }
        if let Some((from, to)) = text.split_once("..") {
            return Ok(Item::Span(linear(from)?, linear(to)?));
        }
        let Some((node, relation)) = text.split_once('.') else {
            return linear(text).map(|one| Item::Span(one.clone(), one));
        };
        match (of.node() == Some(node.trim()), relation.trim()) {
            (true, "children") => Ok(Item::Tree(Relative::Children)),
            (true, "parent") => Ok(Item::Tree(Relative::Parent)),
            (true, other) => Err(format!("a node of a tree has no {other}; it has children, parent")),
            (false, _) => Err(format!("\"{node}\" does not range over a tree")),
        }
    }
}
