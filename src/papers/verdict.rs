//! The verdict on a claim.

use clap::ValueEnum;

use super::value::PaperValue;
use crate::base::error::Result;
use crate::lab::plot::axis::thousands;
use crate::lab::results::columns::name_of;

/// The relative difference at which values agree: the paper's are read off plots, and few step times of its testbed
/// are known.
pub const TOLERANCE: f64 = 0.15;

/// Between magnitudes: half an order.
const MAGNITUDE: f64 = 3.162_277_660_168_379_5;

/// In the order of their counts. The comments are the meanings on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Word {
    /// The paper's value is exact, and ours is equal
    Exact,
    /// The number differs from the paper's by at most 15 %
    #[value(name = "within 15 %")]
    Within,
    /// The paper's ranking or bound holds, or the magnitude to half an order
    #[value(name = "order holds")]
    Order,
    /// The paper's conclusion holds, but the number differs by more than 15 %
    #[value(name = "trend only")]
    Trend,
    /// The paper's conclusion does not hold
    Off,
    /// A constant or a rule was chosen by this value, so it is not counted
    Derived,
    /// A time that was measured on another GPU than the paper's and differs, so it is not counted
    #[value(name = "other GPU")]
    OtherGpu,
    /// Not measured: it needs data that is not available, or a real machine
    #[value(name = "not run")]
    NotRun,
}

impl Word {
    pub fn name(self) -> String {
        name_of(&self)
    }

    /// For programs.
    pub fn key(self) -> &'static str {
        match self {
            Word::Exact | Word::Within | Word::Order => "holds",
            Word::Trend => "direction",
            Word::Off => "off",
            Word::Derived => "derived",
            Word::OtherGpu => "other-gpu",
            Word::NotRun => "not-run",
        }
    }

    pub fn holds(self) -> bool {
        matches!(self, Word::Exact | Word::Within | Word::Order)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// With its unit.
    pub ours: String,
    /// From the paper's value in percent; the largest of several. `None` if the paper gives no number or nothing was
    /// measured.
    pub gap: Option<f64>,
    pub word: Word,
}

impl Verdict {
    /// A number against the only one of the paper's value, in the same unit. `agrees`: whether the paper's conclusion
    /// also follows from our number.
    pub(super) fn near(ours: f64, paper: &PaperValue, agrees: bool) -> Verdict {
        Verdict::near_number(ours, paper.number(), paper.unit(), agrees)
    }

    /// As [`near`](Verdict::near), where the paper's number follows from several values.
    pub(super) fn near_number(ours: f64, paper: f64, unit: &str, agrees: bool) -> Verdict {
        Verdict::by_gaps(shown(ours, unit), &[(ours, paper)], agrees)
    }

    /// A number against a range of the paper. There is no gap inside the range.
    pub(super) fn inside(ours: f64, paper: &PaperValue, agrees: bool) -> Verdict {
        let (low, high) = paper.range();
        let nearest = ours.clamp(low, high);
        Verdict::by_gaps(shown(ours, paper.unit()), &[(ours, nearest)], agrees)
    }

    /// A range against a range of the paper: low end with low end, and high with high.
    pub(super) fn range(ours: (f64, f64), paper: &PaperValue, agrees: bool) -> Verdict {
        let (low, high) = paper.range();
        let text = format!("{:.1} to {:.1} {}", ours.0, ours.1, paper.unit());
        Verdict::by_gaps(text, &[(ours.0, low), (ours.1, high)], agrees)
    }

    /// Several numbers against as many of the paper.
    pub(super) fn several(ours: &[f64], paper: &PaperValue, agrees: bool) -> Verdict {
        Verdict::several_numbers(ours, paper.numbers(), paper.unit(), agrees)
    }

    /// As [`several`](Verdict::several), where the paper's text only sums its numbers up.
    pub(super) fn several_numbers(
        ours: &[f64],
        paper: &[f64],
        unit: &str,
        agrees: bool,
    ) -> Verdict {
        let list: Vec<String> = ours
            .iter()
            .map(|value| format!("{}", (value * 10.0).round() / 10.0))
            .collect();
        let text = format!("{} {unit}", list.join("; "));
        let pairs: Vec<(f64, f64)> = ours.iter().copied().zip(paper.iter().copied()).collect();
        Verdict::by_gaps(text.trim_end().to_string(), &pairs, agrees)
    }

    /// A number that has to be above the paper's.
    pub(super) fn above(ours: f64, paper: &PaperValue) -> Verdict {
        let bound = paper.number();
        let is_above = ours > bound;
        Verdict {
            ours: shown(ours, paper.unit()),
            gap: Some(if is_above { 0.0 } else { gap(ours, bound) }),
            word: if is_above { Word::Order } else { Word::Off },
        }
    }

    /// Numbers that must equal the paper's.
    pub(super) fn exact(ours: &[f64], paper: &PaperValue) -> Verdict {
        let list: Vec<String> = ours.iter().map(|value| format!("{value}")).collect();
        let papers = paper.numbers();
        let largest_gap = ours
            .iter()
            .zip(papers)
            .map(|(ours, paper)| gap(*ours, *paper))
            .fold(0.0, further);
        Verdict {
            ours: format!("{} {}", list.join("; "), paper.unit()),
            gap: if ours.len() == papers.len() {
                Some(largest_gap)
            } else {
                None
            },
            word: if ours == papers {
                Word::Exact
            } else {
                Word::Off
            },
        }
    }

    /// A number of which only the magnitude can be compared. Its unit may differ from the paper's.
    pub(super) fn magnitude(ours: f64, paper: f64, unit: &str) -> Verdict {
        let factor = (ours / paper).max(paper / ours);
        Verdict {
            ours: shown(ours, unit),
            gap: Some(gap(ours, paper)),
            word: if factor <= MAGNITUDE {
                Word::Order
            } else {
                Word::Off
            },
        }
    }

    /// A statement without a number. `figures` are the numbers that show whether it holds.
    pub(super) fn order(holds: bool, figures: String) -> Verdict {
        Verdict {
            ours: figures,
            gap: None,
            word: if holds { Word::Order } else { Word::Off },
        }
    }

    pub(super) fn not_run() -> Verdict {
        Verdict {
            ours: "not measured".into(),
            gap: None,
            word: Word::NotRun,
        }
    }

    /// A row of the cost table was made from this claim.
    pub(super) fn derived(self) -> Verdict {
        Verdict {
            word: Word::Derived,
            ..self
        }
    }

    /// Times that another GPU than the paper's took: a difference is no miss.
    pub(super) fn of_another_gpu(self) -> Verdict {
        let word = if self.word.holds() {
            self.word
        } else {
            Word::OtherGpu
        };
        Verdict { word, ..self }
    }

    pub(super) fn with(mut self, more: &str) -> Verdict {
        self.ours.push_str(more);
        self
    }

    pub fn gap_text(&self) -> String {
        match (self.gap, self.word) {
            (Some(gap), _) if gap.abs() < 0.005 => "0 %".into(),
            // A miss must not look like a number within the tolerance.
            (Some(gap), Word::Trend | Word::Off)
                if (gap.abs() - 100.0 * TOLERANCE).abs() < 0.005 =>
            {
                format!("{gap:+.3} %")
            }
            (Some(gap), Word::Within) if gap.abs() > 100.0 * TOLERANCE - 0.05 => {
                format!("{gap:+.2} %: within by the last digit")
            }
            (Some(gap), _) => format!("{gap:+.2} %"),
            (None, _) => "-".into(),
        }
    }

    /// The outcome for pairs of our number and the paper's. The largest gap counts.
    fn by_gaps(ours: String, pairs: &[(f64, f64)], agrees: bool) -> Verdict {
        let largest_gap = pairs
            .iter()
            .map(|(ours, paper)| gap(*ours, *paper))
            .fold(0.0, further);
        // Slack for rounding at the very end.
        let is_within = largest_gap.abs() <= 100.0 * TOLERANCE + 1e-9;
        let word = if !agrees {
            Word::Off
        } else if is_within {
            Word::Within
        } else {
            Word::Trend
        };
        Verdict {
            ours,
            gap: Some(largest_gap),
            word,
        }
    }
}

/// The verdict on a number that has to be above another system's.
pub(super) fn higher(ours: f64, theirs: f64, paper: &PaperValue) -> Result<Verdict> {
    Ok(Verdict::near(ours, paper, ours > theirs))
}

/// The verdict on a number that has to be below another system's.
pub(super) fn lower(ours: f64, theirs: f64, paper: &PaperValue) -> Result<Verdict> {
    Ok(Verdict::near(ours, paper, ours < theirs))
}

/// The relative difference of our number from the paper's, in percent.
fn gap(ours: f64, paper: f64) -> f64 {
    100.0 * (ours / paper - 1.0)
}

/// The value that is further from zero.
fn further(a: f64, b: f64) -> f64 {
    if b.abs() > a.abs() { b } else { a }
}

/// About three significant digits, a comma between thousands.
pub(super) fn shown(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v >= 1_000.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{:.digits$}", value.abs());
    let (whole, decimals) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}{decimals} {unit}", thousands(whole))
        .trim_end()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(text: &str) -> PaperValue {
        PaperValue::from(text.to_string())
    }

    #[test]
    fn a_number_holds_within_the_tolerance_and_keeps_its_direction_beyond() {
        let near = |ours, agrees| Verdict::near(ours, &paper("100 ms"), agrees);
        for (ours, agrees, word) in [
            (115.0, true, Word::Within),
            (85.0, true, Word::Within),
            (115.1, true, Word::Trend),
            (20.0, true, Word::Trend),
            (100.0, false, Word::Off),
            (300.0, false, Word::Off),
        ] {
            assert_eq!(near(ours, agrees).word, word, "{ours} {agrees}");
        }
        for (ours, text) in [
            (80.0, "-20.00 %"),
            (114.9, "+14.90 %"),
            (115.0, "+15.00 %: within by the last digit"),
            // A miss.
            (115.002, "+15.002 %"),
        ] {
            assert_eq!(near(ours, true).gap_text(), text);
        }
    }

    #[test]
    fn a_time_of_another_gpu_is_not_a_miss() {
        let miss = Verdict::near(50.0, &paper("100 ms"), false).of_another_gpu();
        assert_eq!(miss.word, Word::OtherGpu);
        let hit = Verdict::near(105.0, &paper("100 ms"), true).of_another_gpu();
        assert_eq!(hit.word, Word::Within);
    }

    #[test]
    fn a_range_is_as_far_off_as_its_further_end() {
        let verdict = Verdict::range((20.0, 84.0), &paper("40 to 80 %"), true);
        assert_eq!(verdict.gap_text(), "-50.00 %");
        assert_eq!(verdict.word, Word::Trend);
        let inside = |ours| Verdict::inside(ours, &paper("25 to 33 %"), true);
        assert_eq!(inside(30.0).gap, Some(0.0));
        assert_eq!(inside(36.3).word, Word::Within);
    }

    #[test]
    fn a_magnitude_is_half_an_order() {
        assert_eq!(Verdict::magnitude(310.0, 100.0, "").word, Word::Order);
        assert_eq!(Verdict::magnitude(31.0, 100.0, "").word, Word::Off);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(shown(1_234_567.8, "req/s"), "1,234,568 req/s");
        assert_eq!(shown(12.34, "ms"), "12.3 ms");
        assert_eq!(shown(-1_234.0, ""), "-1,234");
        assert_eq!(shown(0.87, ""), "0.87");
    }
}
