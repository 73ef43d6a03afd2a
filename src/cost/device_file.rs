//! Device files: a GPU's data sheet ([`Roofline`]) and the constants of [`grnn`](super::grnn)'s model, in TOML.

use std::fmt::Display;

use serde::de::DeserializeOwned;

use super::roofline::Roofline;
use crate::error::{Error, Result};
use crate::gpu_settings::Precision;
use crate::shipped::{BuiltIn, Shipped};

/// The file of a GPU by the driver's name, such as "NVIDIA TITAN V", which must contain the device's name as whole
/// words: a GH200 is not an H200. With its data sheet in float32.
pub fn of_gpu(gpu: &str) -> Option<(&'static str, Roofline)> {
    let gpu = words(gpu);
    Shipped::Device.all().into_iter().find_map(|BuiltIn { name: file, text }| {
        let sheet = Roofline::parse(text, file, Precision::F32).expect("a shipped file is complete");
        let name = words(&sheet.name);
        gpu.windows(name.len()).any(|part| part == name).then_some((file, sheet))
    })
}

fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect()
}

/// `check` refuses values. Errors name the file, and the line if the text is not such a table.
pub(super) fn parse<T: DeserializeOwned>(
    text: &str,
    file: &str,
    check: impl FnOnce(&T) -> Result<(), String>,
) -> Result<T> {
    let read: T = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        Error::input(format!("{file}:{line}: {}", error.message().replace('\n', ", ")))
    })?;
    check(&read).map_err(|problem| Error::input(format!("{file}: {problem}")))?;
    Ok(read)
}

/// Refuses a whole number outside a range.
pub(super) fn in_range<T: Display + PartialOrd>(key: &str, value: T, least: T, most: T) -> Result<(), String> {
    if least <= value && value <= most {
        return Ok(());
    }
    Err(format!("{key}: {value} is out of range; a whole number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_known_by_the_words_of_its_name() {
        let file = |gpu| of_gpu(gpu).map(|(file, _)| file);
        assert_eq!(file("NVIDIA TITAN V"), Some("titan-v"));
        assert_eq!(file("Tesla V100-SXM2-16GB"), Some("v100"));
        assert_eq!(file("NVIDIA TITAN RTX"), Some("titan-rtx"));
        assert_eq!(file("NVIDIA GH200 480GB"), None);
        let (file, sheet) = of_gpu("NVIDIA H200").unwrap();
        assert_eq!((file, sheet.unit.peak_gflops, sheet.multiprocessors), ("h200", 66_908, 132));
    }
}
