//! The words of GLUE's sentences (Figure 4).

use std::path::Path;

use super::names::named_files;
use crate::base::shipped;
use crate::papers::study::{BarSeries, Study, bars_by_panel};

/// The ranges of words, by their last number.
const RANGES: [(&str, u32); 4] = [
    ("under 5", 4),
    ("5 to 20", 20),
    ("21 to 100", 100),
    ("over 100", u32::MAX),
];

/// Figure 4: the share of sentences in each range, in percent.
pub fn lengths() -> Study {
    let mut series: Vec<BarSeries> = Vec::new();
    let mut note = String::new();
    for [file, name] in named_files("tasks").iter().chain(named_files("more-tasks")) {
        let path = format!("traces/glue-words-{file}.csv");
        match shipped::text(Path::new(&path)) {
            Ok(text) => series.push((name.clone(), shares_by_range(&text))),
            Err(_) => {
                note += &format!(
                    "{name} is missing: its lengths may not be shipped; {path} (length,count) adds it\n"
                );
            }
        }
    }
    let ranges = RANGES.map(|(name, _)| name);
    Study::new([bars_by_panel(&[""], &ranges, &series)], note)
}

fn shares_by_range(text: &str) -> Vec<Option<f64>> {
    let mut sentences = [0.0; RANGES.len()];
    let mut all = 0.0;
    for line in text.lines().skip(1) {
        let Some((words, count)) = parse_line(line) else {
            continue;
        };
        if let Some(range) = RANGES.iter().position(|(_, last)| words <= *last) {
            sentences[range] += count;
        }
        all += count;
    }
    sentences
        .map(|in_range| Some(100.0 * in_range / all))
        .to_vec()
}

/// The number of words, and how many sentences have it.
fn parse_line(line: &str) -> Option<(u32, f64)> {
    let (words, count) = line.split_once(',')?;
    Some((words.parse().ok()?, count.parse().ok()?))
}
