//! Expressions between the brackets of a rule: `i - 1`, `N + 1 - i`, `1..i-1`, `*`, `v.children`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    N,
    S,
    T,
}

impl Size {
    pub fn name(self) -> &'static str {
        match self {
            Size::N => "N",
            Size::S => "S",
            Size::T => "T",
        }
    }
}

/// [`Size::N`], [`Size::S`], [`Size::T`]; 0 for those that a shape lacks.
pub type Sizes = [i64; 3];

/// A sum of indices, sizes and numbers; equal sums have equal fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    pub indices: Vec<i64>,
    pub sizes: [i64; 3],
    pub constant: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub indices: &'a [String],
    pub tree: Option<&'a str>,
    pub sizes: &'a [Size],
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

    pub fn parse(text: &str, scope: &Scope<'_>) -> Result<Linear, String> {
        let refuse = || format!("\"{}\" is not a sum of names and numbers, such as i - 1 or N + 1 - i", text.trim());
        let mut sum = Linear { indices: vec![0; scope.indices.len()], ..Linear::default() };
        let mut rest = text.trim();
        let mut sign = 1;
        loop {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match word.parse::<i64>() {
                Ok(number) if number <= MAX_NUMBER => sum.constant += sign * number,
                Ok(number) => return Err(format!("{number} is too large; at most {MAX_NUMBER}")),
                Err(_) if word.is_empty() => return Err(refuse()),
                Err(_) => sum.add(sign, word, scope)?,
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

    fn add(&mut self, sign: i64, name: &str, scope: &Scope<'_>) -> Result<(), String> {
        if let Some(place) = scope.indices.iter().position(|index| index == name) {
            self.indices[place] += sign;
            return Ok(());
        }
        if let Some(size) = scope.sizes.iter().find(|size| size.name() == name) {
            self.sizes[*size as usize] += sign;
            return Ok(());
        }
        let indices = scope.indices.iter().map(String::as_str);
        let known: Vec<&str> = indices.chain(scope.sizes.iter().map(|size| size.name())).collect();
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
    pub fn parse(text: &str, scope: &Scope<'_>) -> Result<Item, String> {
        let text = text.trim();
        match (text, scope.tree) {
            ("*", _) => return Ok(Item::All),
            ("root", _) => return Ok(Item::Tree(Relative::Root)),
            (text, Some(node)) if text == node => return Ok(Item::Tree(Relative::Itself)),
            _ => {}
        }
        if let Some((node, relation)) = text.split_once('.').filter(|_| !text.contains("..")) {
            return match (scope.tree == Some(node.trim()), relation.trim()) {
                (true, "children") => Ok(Item::Tree(Relative::Children)),
                (true, "parent") => Ok(Item::Tree(Relative::Parent)),
                (true, other) => Err(format!("a node of a tree has no {other}; it has children, parent")),
                (false, _) => Err(format!("\"{node}\" does not range over a tree")),
            };
        }
        match text.split_once("..") {
            Some((from, to)) => Ok(Item::Span(Linear::parse(from, scope)?, Linear::parse(to, scope)?)),
            None => Linear::parse(text, scope).map(|one| Item::Span(one.clone(), one)),
        }
    }
}
