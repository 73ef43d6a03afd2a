//! The policies that a scenario can name, and how a `[[policy]]` table becomes one of them.
//!
//! A policy's file defines its [`Settings`]; one line in the registry makes the kind known to scenarios.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use toml::Spanned;
use toml::de::DeTable;

use super::Policy;
use crate::cost::CostModel;
use crate::workload::model::{CellType, Model};

/// What a policy may know of the run that it is built for.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The network that all requests run through.
    pub model: &'a Model,
    /// Its cell types, in the order of their ids.
    pub cells: &'a [CellType],
    /// The number of workers.
    pub workers: usize,
    /// What tasks cost on the device by the policy's cost table, without the overheads of its own: in every simulated run, and elsewhere
    /// where a table is named and has the model's cells.
    pub costs: Option<&'a Arc<dyn CostModel>>,
}

/// The settings of one kind of policy: the keys of its `[[policy]]` table.
///
/// A struct with named fields (or none: `struct Immediate {}`) that derives `Serialize` and `Deserialize` with
/// `#[serde(deny_unknown_fields, default)]`, so that every key has a default and the result files can show it.
/// `kind`, `label`, `costs` and `overhead` belong to every policy and are taken out before.
pub trait Settings: Serialize + DeserializeOwned + Send + Sync + fmt::Debug + 'static {
    /// The value of `kind` that selects this policy.
    const KIND: &'static str;
    /// One line for `--help` and errors.
    const ABOUT: &'static str;

    /// Builds the policy.
    ///
    /// # Errors
    /// Says what does not fit (padded batching refuses trees). A message that begins with a key and a colon is shown
    /// with that key's line.
    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String>;

    /// The largest batches that the policy makes, if it knows: a device can be made ready for them before a run begins. The
    /// settings are some that [`Settings::build`] accepts.
    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        None
    }

    /// How many streams of each worker it submits to: those with the numbers below. Tasks of several streams run beside each other and
    /// share the device. The settings are some that [`Settings::build`] accepts.
    fn streams(&self, _: &Setup<'_>) -> u16 {
        1
    }

    /// Whether the steps of its tasks are operators of cells, by their numbers in a
    /// [`Catalogue`](crate::workload::operator::catalogue::Catalogue). Simulated devices alone run them.
    fn runs_operators(&self) -> bool {
        false
    }

    /// Whether its tasks run parts of requests ([`Members::Parts`](crate::task::Members::Parts)), whose steps a device may have in one launch.
    fn runs_parts(&self) -> bool {
        false
    }
}

/// The largest batches of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batches {
    /// So many nodes of each cell type, in the order of their ids.
    Nodes(Vec<u32>),
    /// So many whole requests.
    Requests(u32),
}

/// The settings of some policy, whichever kind it is. Every [`Settings`] is one.
pub trait Configured: Send + Sync + fmt::Debug {
    /// The kind that was selected.
    fn kind(&self) -> &'static str;

    /// Builds a fresh policy.
    ///
    /// # Errors
    /// As [`Settings::build`].
    fn build_policy(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String>;

    /// As [`Settings::largest_batches`].
    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches>;

    /// As [`Settings::streams`].
    fn streams(&self, setup: &Setup<'_>) -> u16;

    /// As [`Settings::runs_operators`].
    fn runs_operators(&self) -> bool;

    /// As [`Settings::runs_parts`].
    fn runs_parts(&self) -> bool;

    /// Every key with its effective value, defaults included, in the order of the struct's fields.
    fn values(&self) -> serde_json::Map<String, serde_json::Value>;
}

impl<S: Settings> Configured for S {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn build_policy(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.build(setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        Settings::largest_batches(self, setup)
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        Settings::streams(self, setup)
    }

    fn runs_operators(&self) -> bool {
        Settings::runs_operators(self)
    }

    fn runs_parts(&self) -> bool {
        Settings::runs_parts(self)
    }

    fn values(&self) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(values)) => values,
            other => panic!("{} must serialise to a table of its keys, not to {other:?}", type_name::<S>()),
        }
    }
}

/// The kinds of policy that scenarios can name, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Vec<Kind>,
}

#[derive(Clone, Debug)]
struct Kind {
    name: &'static str,
    about: &'static str,
    keys: &'static [&'static str],
    parse: fn(Spanned<DeTable<'_>>) -> Parsed,
}

/// Settings, or what is wrong with them and where.
type Parsed = Result<Arc<dyn Configured>, toml::de::Error>;

impl Registry {
    /// A registry that knows no policy.
    pub fn new() -> Self {
        Registry::default()
    }

    /// The policies that come with batchlab, a line each.
    pub fn standard() -> Self {
        Registry::new()
            .with::<super::cellular::Cellular>()
            .with::<super::late::Late>()
            .with::<super::padded::Padded>()
            .with::<super::merged::Merged>()
            .with::<super::fold::Fold>()
            .with::<super::ideal::Ideal>()
            .with::<super::immediate::Immediate>()
            .with::<super::dynet::DyNet>()
            .with::<super::jit::Jit>()
            .with::<super::dvabatch::settings::DvaBatch>()
            .with::<super::dvabatch::lazy::Lazy>()
    }

    /// Adds a kind of policy.
    ///
    /// # Panics
    /// When the kind is there already: which of the two a scenario means would depend on the order.
    #[must_use]
    pub fn with<S: Settings>(mut self) -> Self {
        assert!(self.find(S::KIND).is_none(), "two policies of the kind \"{}\"", S::KIND);
        let parse = |table: Spanned<DeTable<'_>>| -> Parsed {
            Ok(Arc::new(S::deserialize(toml::de::Deserializer::from(table))?))
        };
        self.kinds.push(Kind { name: S::KIND, about: S::ABOUT, keys: field_names::<S>(), parse });
        self
    }

    /// The names of the kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.kinds.iter().map(|kind| kind.name)
    }

    /// What a kind does, in one line.
    pub fn about(&self, kind: &str) -> Option<&'static str> {
        self.find(kind).map(|found| found.about)
    }

    /// The keys of a kind's own in its `[[policy]]` table.
    pub fn keys(&self, kind: &str) -> Option<&'static [&'static str]> {
        self.find(kind).map(|found| found.keys)
    }

    /// The settings of one policy, from its table without the keys that all policies share.
    ///
    /// # Errors
    /// An unknown kind, with those that are known; or the key that is unknown or does not parse, with its span in the
    /// table's source.
    pub fn parse(&self, kind: &str, table: Spanned<DeTable<'_>>) -> Result<Arc<dyn Configured>, toml::de::Error> {
        match self.find(kind) {
            Some(found) => (found.parse)(table),
            None => {
                let known: Vec<&str> = self.kinds().collect();
                Err(de::Error::custom(format!("unknown policy \"{kind}\"; known: {}", known.join(", "))))
            }
        }
    }

    fn find(&self, kind: &str) -> Option<&Kind> {
        self.kinds.iter().find(|known| known.name == kind)
    }
}

/// The names of a struct's fields as its file format has them. The derived `Deserialize` hands them to the
/// deserialiser before it reads anything, so one that only listens learns them.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Listener<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Listener<'_> {
        type Error = de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("settings are a struct with named fields"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    let refused = T::deserialize(Listener(&mut names));
    debug_assert!(refused.is_err(), "a listener gives no values");
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::values::{PerCell, time_with_unit};

    #[derive(Debug, Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Toy {
        max_batch: PerCell<u32>,
        #[serde(with = "time_with_unit")]
        window: crate::units::Nanos,
    }

    impl Default for Toy {
        fn default() -> Self {
            Toy { max_batch: PerCell::All(512), window: crate::units::Nanos(2_000_000) }
        }
    }

    impl Settings for Toy {
        const KIND: &'static str = "toy";
        const ABOUT: &'static str = "for tests";

        fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
            Err("a toy runs nothing".into())
        }
    }

    fn parse(text: &str) -> Result<Arc<dyn Configured>, toml::de::Error> {
        Registry::new().with::<Toy>().parse("toy", DeTable::parse(text).unwrap())
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        let registry = Registry::new().with::<Toy>();
        assert_eq!(registry.kinds().collect::<Vec<_>>(), ["toy"]);
        assert_eq!(registry.about("toy"), Some("for tests"));
        assert_eq!(registry.keys("toy"), Some(&["max_batch", "window"][..]));
        let error = registry.parse("toi", DeTable::parse("").unwrap()).unwrap_err();
        assert_eq!(error.message(), "unknown policy \"toi\"; known: toy");
    }

    #[test]
    fn values_show_the_defaults() {
        let json = |text| serde_json::Value::from(parse(text).unwrap().values()).to_string();
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
