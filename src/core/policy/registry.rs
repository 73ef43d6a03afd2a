//! The policies that a scenario can name.

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;
use std::{fmt, iter};

use serde::de::{self, DeserializeOwned};
use serde::{Serialize, Serializer};
use toml::Spanned;
use toml::de::DeTable;

use super::Policy;
use crate::core::cost::CostModel;
use crate::core::workload::model::{CellType, Model};

/// The run for which a policy is built.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub model: &'a Model,
    pub cells: &'a [CellType],
    pub workers: usize,
    /// The costs without overheads. A real run has them only if a table is named and has the model's cells.
    pub costs: Option<&'a Arc<dyn CostModel>>,
    /// The longest [length](crate::core::workload::shape::Shape::length) in the trace or the dataset, if it is known.
    pub longest: Option<u32>,
}

impl<'a> Setup<'a> {
    /// The costs that a key's value is computed from.
    pub(super) fn costs_for(&self, key: &str) -> Result<&'a Arc<dyn CostModel>, String> {
        self.costs.ok_or_else(|| {
            format!(
                "{key}: can't be computed, because the costs of the device are unknown; name a cost table (device.costs) \
                 or a data sheet (device.roofline), or give a value"
            )
        })
    }

    /// Refuses models with other graphs than chains, which `who` can't pad.
    pub fn require_sequences(&self, who: &str) -> Result<(), String> {
        if self.model.is_sequence() {
            return Ok(());
        }
        let why = match self.model.graph_model() {
            Some(graph) => format!(
                ": chains of cells, one type after another, the first of them as long as the request, which graph:{} does \
                 not promise",
                graph.given
            ),
            None => format!(", and the model {} has trees", self.model.name()),
        };
        Err(format!(
            "{who} takes sequences only{why}; use cellular or merged"
        ))
    }
}

/// The names of a kind of policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKind {
    pub name: &'static str,
    /// Another name that scenarios may use.
    pub alias: Option<&'static str>,
    /// One line for the help.
    pub about: &'static str,
}

impl PolicyKind {
    pub const fn new(name: &'static str, about: &'static str) -> PolicyKind {
        PolicyKind {
            name,
            alias: None,
            about,
        }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        iter::once(self.name).chain(self.alias)
    }
}

/// The settings of one kind of policy: the keys of its `[[policy]]` table.
///
/// Implement it for a struct with named fields (or none: `struct Unbatched {}`) that derives `Serialize` and
/// `Deserialize` with `#[serde(deny_unknown_fields, default)]`, so every key has a default. The keys `kind`, `label`,
/// `costs` and `overhead` belong to every policy. All methods but `describe` and `build` may assume settings that
/// `build` accepts.
pub trait Settings: fmt::Debug + Send + Sync {
    /// The names of the kind in scenarios and the help.
    fn describe(&self) -> PolicyKind;

    /// Builds a fresh policy, or refuses settings that do not fit the run. A message that begins with a key and a colon
    /// is shown with that key's line.
    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String>;

    /// The largest batches, if known, for which a device can prepare.
    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        None
    }

    /// The number of waiting requests from which on a batch no longer waits for its window to end; `None` without a
    /// window.
    fn full_batch(&self) -> Option<u32> {
        None
    }

    /// The only sizes of the policy's steps, ascending; empty if it uses any size up to the largest.
    fn batch_sizes(&self) -> &[u32] {
        &[]
    }

    /// The number of streams of each worker. Tasks on several streams run side by side and share the device.
    fn streams(&self, _: &Setup<'_>) -> u16 {
        1
    }

    /// Whether steps are operators, numbered as in a
    /// [`Catalogue`](crate::core::workload::operator::catalogue::Catalogue). Only simulated devices run them.
    fn runs_operators(&self) -> bool {
        false
    }

    /// Whether tasks are [iterations](crate::core::task::Iteration) of a language model. Such policies serve only
    /// language models, and other policies serve none.
    fn iterates(&self) -> bool {
        false
    }

    /// Whether the policy needs the lists of a tree's graph, which take many times as much memory as its parents.
    fn lists_trees(&self) -> bool {
        true
    }

    /// Whether tasks run [`Members::Parts`](crate::core::task::Members::Parts), all steps of which a device may run in
    /// one launch.
    fn runs_parts(&self) -> bool {
        false
    }
}

/// The largest batches of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batches {
    /// The largest number of nodes of each cell type.
    Nodes(Vec<u32>),
    /// The largest number of whole requests.
    Requests(u32),
}

/// The settings of a policy in a scenario.
#[derive(Clone, Debug)]
pub struct ConfiguredPolicy {
    kind: &'static str,
    values: PolicyValues,
    settings: Arc<dyn Settings>,
}

impl ConfiguredPolicy {
    /// The name of the kind in the scenario, which may be an alias.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The effective value of a key of the policy's kind.
    pub fn value(&self, key: &str) -> Option<&serde_json::Value> {
        self.values.get(key)
    }
}

impl Serialize for ConfiguredPolicy {
    /// Writes every key with its effective value, in the order of the fields.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl Deref for ConfiguredPolicy {
    type Target = dyn Settings;

    fn deref(&self) -> &Self::Target {
        &*self.settings
    }
}

/// The kinds of policies that scenarios can name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    entries: Vec<RegisteredKind>,
}

#[derive(Clone)]
struct RegisteredKind {
    kind: PolicyKind,
    defaults: PolicyValues,
    parse: Arc<ParseSettings>,
}

type ParseSettings =
    dyn Fn(Spanned<DeTable<'_>>) -> Result<ParsedSettings, toml::de::Error> + Send + Sync;

/// The keys of a policy's kind, with their values.
pub type PolicyValues = serde_json::Map<String, serde_json::Value>;

/// The settings, and every key with its value.
pub type ParsedSettings = (Arc<dyn Settings>, PolicyValues);

impl fmt::Debug for RegisteredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl Registry {
    pub fn new() -> Self {
        Registry::default()
    }

    /// The policies of this crate.
    pub fn standard() -> Self {
        Registry::new()
            .with::<super::cellular::Cellular>()
            .with::<super::late::Late>()
            .with::<super::padded::Padded>()
            .with::<super::merged::Merged>()
            .with::<super::fold::Fold>()
            .with::<super::ideal::Ideal>()
            .with::<super::unbatched::Unbatched>()
            .with::<super::dynet::DyNet>()
            .with::<super::jit::Jit>()
            .with::<super::dvabatch::DvaBatch>()
            .with::<super::dvabatch::Lazy>()
            .with::<super::triton::Triton>()
            .with::<super::nexus::Nexus>()
            .with::<super::clockwork::Clockwork>()
            .with::<super::symphony::Symphony>()
            .with::<super::control_limit::ControlLimit>()
            .with::<super::request_level::Static>()
            .with::<super::orca::Orca>()
            .with::<super::vllm::Vllm>()
            .with::<super::sarathi::Sarathi>()
    }

    /// Adds a kind.
    ///
    /// # Panics
    /// On a name that is taken.
    #[must_use]
    pub fn with<S: Settings + Default + Serialize + DeserializeOwned + 'static>(self) -> Self {
        self.with_parser(
            S::default().describe(),
            values(&S::default()),
            parse_settings::<S>,
        )
    }

    /// Adds a kind that is known only when the program runs. `defaults` are its keys, with the values that they have
    /// if a scenario leaves them out. `parse` reads the settings from the policy's table without the keys that all
    /// policies share, and returns them with the values that results record.
    ///
    /// # Panics
    /// On a name that is taken.
    #[must_use]
    pub fn with_parser(
        mut self,
        kind: PolicyKind,
        defaults: PolicyValues,
        parse: impl Fn(Spanned<DeTable<'_>>) -> Result<ParsedSettings, toml::de::Error>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        for name in kind.names() {
            assert!(
                self.find(name).is_none(),
                "two policies of the kind \"{name}\""
            );
        }
        self.entries.push(RegisteredKind {
            kind,
            defaults,
            parse: Arc::new(parse),
        });
        self
    }

    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.entries.iter().map(|entry| entry.kind.name)
    }

    /// The line of a kind in the help.
    pub fn about(&self, kind: &str) -> Option<&'static str> {
        self.find(kind).map(|(_, entry)| entry.kind.about)
    }

    /// The names that scenarios may use, with an alias if there is one.
    pub fn names(&self, kind: &str) -> Vec<&'static str> {
        match self.find(kind) {
            Some((_, entry)) => entry.kind.names().collect(),
            None => Vec::new(),
        }
    }

    /// The keys that only this kind has, with their default values.
    pub fn defaults(&self, kind: &str) -> Option<&PolicyValues> {
        self.find(kind).map(|(_, entry)| &entry.defaults)
    }

    /// The keys that only this kind has.
    pub fn keys(&self, kind: &str) -> Option<Vec<&str>> {
        let defaults = self.defaults(kind)?;
        Some(defaults.keys().map(String::as_str).collect())
    }

    /// Reads the settings of a kind from its table, without the keys that all policies share.
    pub fn parse(
        &self,
        kind: &str,
        table: Spanned<DeTable<'_>>,
    ) -> Result<ConfiguredPolicy, toml::de::Error> {
        let Some((kind, entry)) = self.find(kind) else {
            let known: Vec<&str> = self.kinds().collect();
            return Err(de::Error::custom(format!(
                "unknown policy \"{kind}\"; known: {}",
                known.join(", ")
            )));
        };
        let (settings, values) = (entry.parse)(table)?;
        Ok(ConfiguredPolicy {
            kind,
            values,
            settings,
        })
    }

    fn find(&self, name: &str) -> Option<(&'static str, &RegisteredKind)> {
        for entry in &self.entries {
            if let Some(known) = entry.kind.names().find(|known| *known == name) {
                return Some((known, entry));
            }
        }
        None
    }
}

fn parse_settings<S: Settings + Serialize + DeserializeOwned + 'static>(
    table: Spanned<DeTable<'_>>,
) -> Result<ParsedSettings, toml::de::Error> {
    let settings = S::deserialize(toml::de::Deserializer::from(table))?;
    let values = values(&settings);
    Ok((Arc::new(settings), values))
}

/// Every key with its value.
fn values<S: Serialize>(settings: &S) -> PolicyValues {
    match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(values)) => values,
        other => panic!(
            "{} must serialise to a table of its keys, not to {other:?}",
            type_name::<S>()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::values::{PerCell, time_with_unit};

    #[derive(Debug, Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Toy {
        max_batch: PerCell,
        #[serde(with = "time_with_unit")]
        window: crate::base::units::Nanos,
    }

    impl Default for Toy {
        fn default() -> Self {
            Toy {
                max_batch: PerCell::All(512),
                window: crate::base::units::Nanos(2_000_000),
            }
        }
    }

    impl Settings for Toy {
        fn describe(&self) -> PolicyKind {
            PolicyKind {
                alias: Some("old-toy"),
                ..PolicyKind::new("toy", "for tests")
            }
        }

        fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
            Err("a toy runs nothing".into())
        }
    }

    fn parse(text: &str) -> Result<ConfiguredPolicy, toml::de::Error> {
        Registry::new()
            .with::<Toy>()
            .parse("toy", DeTable::parse(text).unwrap())
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        let registry = Registry::new().with::<Toy>();
        assert_eq!(registry.kinds().collect::<Vec<_>>(), ["toy"]);
        assert_eq!(registry.about("toy"), Some("for tests"));
        assert_eq!(registry.keys("toy"), Some(vec!["max_batch", "window"]));
        let error = registry
            .parse("toi", DeTable::parse("").unwrap())
            .unwrap_err();
        assert_eq!(error.message(), "unknown policy \"toi\"; known: toy");
        // Results keep the alias that the scenario used.
        assert_eq!(
            registry
                .parse("old-toy", DeTable::parse("").unwrap())
                .unwrap()
                .kind(),
            "old-toy"
        );
    }

    #[test]
    fn values_show_the_defaults() {
        let json = |text| serde_json::to_string(&parse(text).unwrap()).unwrap();
        assert_eq!(json(""), r#"{"max_batch":512,"window":"2ms"}"#);
        assert_eq!(
            json("window = '0ms'\nmax_batch = { encoder = 4, decoder = 2 }"),
            r#"{"max_batch":{"decoder":2,"encoder":4},"window":"0ns"}"#
        );
    }

    #[test]
    fn errors_keep_their_place() {
        for (text, place, part) in [
            ("max_batch = -1", 12..14, "`-1`"),
            ("max_batch = 'all'", 12..17, "table by cell"),
            ("max_batch = { a = 1, b = 'x' }", 25..28, "string \"x\""),
            ("\nwindow = '2'", 10..13, "no unit"),
            ("\nwidow = '2ms'", 1..6, "unknown field `widow`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message().contains(part), "{text}: {error}");
            assert_eq!(error.span(), Some(place), "{text}");
        }
    }
}
