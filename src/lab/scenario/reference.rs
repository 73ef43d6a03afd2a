//! `scenarios/reference.toml` and `reference-llm.toml` as data, which `batchlab policies` and `batchlab schema` print.
//! A test compares them with the keys and defaults of the code.

use serde_json::{Value, json};

/// A line `key = value` or, for keys without a default, `# key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceKey {
    /// The table, such as `device` or `policy padded`; empty at the top.
    pub table: String,
    pub name: &'static str,
    /// The default, or an example.
    pub value: Value,
    has_default: bool,
    pub about: String,
}

pub struct Reference {
    pub keys: Vec<ReferenceKey>,
    /// Each table's name and the comment before it.
    pub tables: Vec<(String, String)>,
}

impl Reference {
    pub fn read() -> Reference {
        let mut found = Reference {
            keys: Vec::new(),
            tables: Vec::new(),
        };
        let mut table = String::new();
        let mut heading = String::new();
        let mut comment = Vec::new();
        let mut followed = false;
        let llm = include_str!("../../../scenarios/reference-llm.toml");
        for line in include_str!("../../../scenarios/reference.toml")
            .lines()
            .chain([""])
            .chain(llm.lines())
        {
            let text = line.strip_prefix("# ").unwrap_or(line);
            if let Some(key) = key_of(text) {
                let table_of_one: toml::Table =
                    toml::from_str(text).expect("a line of the reference is TOML");
                let value = json!(table_of_one[key]);
                if table == "policy"
                    && let Some(kind) = value.as_str()
                {
                    table = format!("policy {kind}");
                    found
                        .tables
                        .push((table.clone(), std::mem::take(&mut heading)));
                }
                if !found.keys(&table).any(|other| other.name == key) {
                    let about = comment.join(" ");
                    found.keys.push(ReferenceKey {
                        table: table.clone(),
                        name: key,
                        value,
                        has_default: text == line,
                        about,
                    });
                }
                followed = true;
            } else if line.starts_with('[') {
                table = line.trim_matches(['[', ']']).to_string();
                heading = comment.join(" ");
                comment.clear();
                if !found.tables.iter().any(|(known, _)| *known == table) {
                    found.tables.push((table.clone(), heading.clone()));
                }
            } else {
                // Keys that follow one another have one comment.
                if std::mem::take(&mut followed) || line.is_empty() {
                    comment.clear();
                }
                comment.extend(line.strip_prefix("# "));
            }
        }
        found
    }

    pub fn keys<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a ReferenceKey> {
        self.keys.iter().filter(move |key| key.table == table)
    }

    /// The description of a policy's key; empty for a policy that another crate adds.
    pub fn about(&self, kind: &str, name: &str) -> &str {
        let key = self
            .keys
            .iter()
            .find(|key| key.table.strip_prefix("policy ") == Some(kind) && key.name == name);
        key.map_or("", |key| key.about.as_str())
    }

    /// The comment before a policy.
    pub fn heading(&self, kind: &str) -> &str {
        let table = self
            .tables
            .iter()
            .find(|(name, _)| name.strip_prefix("policy ") == Some(kind));
        table.map_or("", |(_, about)| about.as_str())
    }
}

impl ReferenceKey {
    pub fn default(&self) -> Option<&Value> {
        Some(&self.value).filter(|_| self.has_default && !self.about.contains("Required"))
    }
}

fn key_of(line: &'static str) -> Option<&'static str> {
    let key = line.split_once(" = ")?.0;
    key.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        .then_some(key)
}
