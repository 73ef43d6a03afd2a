//! The shape of a language model's decoder, in TOML: what its weights and the keys and values of its tokens take.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::input;
use crate::base::shipped;

/// The shape of a decoder. Sizes are counts of numbers, whatever their precision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    #[serde(skip)]
    pub given: String,
    #[serde(skip)]
    pub path: PathBuf,
    pub name: String,
    pub layers: u64,
    pub hidden: u64,
    /// The width between the matrices after attention.
    pub inner: u64,
    /// The number of these matrices: two, or three with a gate.
    pub matrices: u64,
    pub heads: u64,
    /// The heads that have keys and values of their own.
    pub kv_heads: u64,
    pub vocabulary: u64,
    /// Whether input and output share one table of embeddings.
    pub tied: bool,
}

/// The largest size, a thousand times that of the largest model, so that no product of sizes overflows.
const MAX: f64 = (1 << 20) as f64;
const MAX_LAYERS: f64 = (1 << 12) as f64;

impl Transformer {
    /// Reads a file. `given` is the file's name in the scenario. Errors name the file, and the line or the key.
    pub fn read(given: &str, path: &Path) -> Result<Transformer, String> {
        let text = shipped::text(path).map_err(|error| error.to_string())?;
        Transformer::parse(given, path, &text)
    }

    fn parse(given: &str, path: &Path, text: &str) -> Result<Transformer, String> {
        let read: Transformer = input::settings(text, given, |key| match key {
            "layers" => Some(1.0..=MAX_LAYERS),
            "matrices" => Some(1.0..=3.0),
            _ => Some(1.0..=MAX),
        })?;
        let Transformer {
            hidden,
            heads,
            kv_heads,
            ..
        } = read;
        if kv_heads > heads {
            return Err(format!(
                "{given}: kv_heads: {kv_heads} is out of range; a whole number from 1 to {heads}"
            ));
        }
        if hidden % heads != 0 {
            return Err(format!(
                "{given}: heads: {heads} do not divide hidden ({hidden}); each head has an equal part"
            ));
        }
        Ok(Transformer {
            given: given.into(),
            path: path.into(),
            ..read
        })
    }

    /// The numbers in the matrices of all layers, with which each token is multiplied.
    pub fn matrix_weights(&self) -> u64 {
        let attention = self.hidden * (2 * self.hidden + 2 * self.kv_width());
        self.layers * (attention + self.matrices * self.hidden * self.inner)
    }

    /// The numbers of all weights, with the tables of embeddings. Biases, norms and positions, less than 0.1 %, are
    /// left out.
    pub fn weights(&self) -> u64 {
        self.matrix_weights() + self.vocabulary * self.hidden * if self.tied { 1 } else { 2 }
    }

    /// The numbers in the keys and values of a token in all layers.
    pub fn kv_numbers(&self) -> u64 {
        2 * self.layers * self.kv_width()
    }

    fn kv_width(&self) -> u64 {
        self.hidden / self.heads * self.kv_heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(name: &str) -> Transformer {
        let path = PathBuf::from(format!("scenarios/llms/{name}.toml"));
        Transformer::read(name, &path).unwrap()
    }

    #[test]
    fn sizes_are_those_of_the_papers() {
        let billions = |name| (shipped(name).weights() as f64 / 1e8).round() / 10.0;
        assert_eq!(
            ["opt-13b", "llama-2-7b", "llama-2-70b"].map(billions),
            [12.8, 6.7, 69.0]
        );
        // vLLM, section 3: 800 KB for a token of OPT-13B in float16.
        assert_eq!(2 * shipped("opt-13b").kv_numbers(), 800 << 10);
        assert_eq!(
            2 * shipped("llama-2-70b").kv_numbers(),
            320 << 10,
            "eight heads have keys, of 64"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let text = std::fs::read_to_string("scenarios/llms/opt-13b.toml").unwrap();
        let refused = |from: &str, to: &str| {
            Transformer::parse("m.toml", Path::new("m.toml"), &text.replace(from, to)).unwrap_err()
        };
        assert!(
            refused("kv_heads = 40", "kv_heads = 41")
                .starts_with("m.toml: kv_heads: 41 is out of range")
        );
        assert!(
            refused("heads = 40", "heads = 33").contains("heads: 33 do not divide hidden (5120)")
        );
        assert!(refused("layers = 40", "layers = 0").contains("layers: 0 is out of range"));
        assert!(refused("layers = 40", "layer = 40").contains(": unknown field `layer`"));
    }
}
