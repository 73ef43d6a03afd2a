//! The verdict on a claim.

use clap::ValueEnum;

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
    /// `direction`: whether the paper's conclusion also follows from our number.
    pub(super) fn near(ours: f64, paper: f64, unit: &str, direction: bool) -> Verdict {
        Verdict::ends(shown(ours, unit), &[(ours, paper)], direction)
    }

    /// No gap inside the range.
    pub(super) fn inside(
        ours: f64,
        (low, high): (f64, f64),
        unit: &str,
        direction: bool,
    ) -> Verdict {
        Verdict::ends(
            shown(ours, unit),
            &[(ours, ours.clamp(low, high))],
            direction,
        )
    }

    pub(super) fn range(
        ours: (f64, f64),
        paper: (f64, f64),
        unit: &str,
        direction: bool,
    ) -> Verdict {
        let text = format!("{:.1} to {:.1} {unit}", ours.0, ours.1);
        Verdict::ends(text, &[(ours.0, paper.0), (ours.1, paper.1)], direction)
    }

    pub(super) fn several(ours: &[f64], paper: &[f64], unit: &str, direction: bool) -> Verdict {
        let list: Vec<String> = ours
            .iter()
            .map(|value| format!("{}", (value * 10.0).round() / 10.0))
            .collect();
        let pairs: Vec<(f64, f64)> = ours.iter().copied().zip(paper.iter().copied()).collect();
        Verdict::ends(
            format!("{} {unit}", list.join("; ")).trim_end().into(),
            &pairs,
            direction,
        )
    }

    pub(super) fn above(ours: f64, bound: f64, unit: &str) -> Verdict {
        let word = if ours > bound { Word::Order } else { Word::Off };
        let gap = if ours > bound {
            0.0
        } else {
            100.0 * (ours / bound - 1.0)
        };
        Verdict {
            ours: shown(ours, unit),
            gap: Some(gap),
            word,
        }
    }

    /// Values that must equal the paper's.
    pub(super) fn exact(ours: &[f64], paper: &[f64], unit: &str) -> Verdict {
        let list: Vec<String> = ours.iter().map(|value| format!("{value}")).collect();
        let pairs = ours
            .iter()
            .zip(paper)
            .map(|(ours, paper)| 100.0 * (ours / paper - 1.0));
        let gap = (ours.len() == paper.len()).then(|| pairs.fold(0.0, further));
        let word = if ours == paper {
            Word::Exact
        } else {
            Word::Off
        };
        Verdict {
            ours: format!("{} {unit}", list.join("; ")),
            gap,
            word,
        }
    }

    pub(super) fn magnitude(ours: f64, paper: f64, unit: &str) -> Verdict {
        let factor = (ours / paper).max(paper / ours);
        let word = if factor <= MAGNITUDE {
            Word::Order
        } else {
            Word::Off
        };
        Verdict {
            ours: shown(ours, unit),
            gap: Some(100.0 * (ours / paper - 1.0)),
            word,
        }
    }

    /// With the numbers that show it.
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

    fn ends(ours: String, pairs: &[(f64, f64)], direction: bool) -> Verdict {
        let gap = pairs
            .iter()
            .map(|(ours, paper)| 100.0 * (ours / paper - 1.0))
            .fold(0.0, further);
        // Slack for rounding at the very end.
        let word = match (gap.abs() <= 100.0 * TOLERANCE + 1e-9, direction) {
            (true, true) => Word::Within,
            (false, true) => Word::Trend,
            (_, false) => Word::Off,
        };
        Verdict {
            ours,
            gap: Some(gap),
            word,
        }
    }
}

/// As the paper's number, and above another system's.
pub(super) fn higher(ours: f64, theirs: f64, paper: f64, unit: &str) -> Result<Verdict> {
    Ok(Verdict::near(ours, paper, unit, ours > theirs))
}

/// As the paper's number, and below another system's.
pub(super) fn lower(ours: f64, theirs: f64, paper: f64, unit: &str) -> Result<Verdict> {
    Ok(Verdict::near(ours, paper, unit, ours < theirs))
}

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

    #[test]
    fn a_number_holds_within_the_tolerance_and_keeps_its_direction_beyond() {
        let word = |ours, direction| Verdict::near(ours, 100.0, "ms", direction).word;
        assert_eq!([word(115.0, true), word(85.0, true)], [Word::Within; 2]);
        assert_eq!([word(115.1, true), word(20.0, true)], [Word::Trend; 2]);
        assert_eq!([word(100.0, false), word(300.0, false)], [Word::Off; 2]);
        assert_eq!(
            Verdict::near(80.0, 100.0, "ms", true).gap_text(),
            "-20.00 %"
        );
        assert_eq!(
            Verdict::near(114.9, 100.0, "ms", true).gap_text(),
            "+14.90 %"
        );
        assert_eq!(
            Verdict::near(115.0, 100.0, "ms", true).gap_text(),
            "+15.00 %: within by the last digit"
        );
        assert_eq!(
            Verdict::near(115.002, 100.0, "ms", true).gap_text(),
            "+15.002 %",
            "a miss"
        );
    }

    #[test]
    fn a_time_of_another_gpu_is_no_miss() {
        let word = |ours| {
            Verdict::near(ours, 100.0, "ms", false)
                .of_another_gpu()
                .word
        };
        assert_eq!(word(50.0), Word::OtherGpu);
        assert_eq!(
            Verdict::near(105.0, 100.0, "ms", true)
                .of_another_gpu()
                .word,
            Word::Within
        );
    }

    #[test]
    fn a_range_is_as_far_off_as_its_further_end() {
        let verdict = Verdict::range((20.0, 84.0), (40.0, 80.0), "%", true);
        assert_eq!(
            (verdict.gap_text().as_str(), verdict.word),
            ("-50.00 %", Word::Trend)
        );
        assert_eq!(
            Verdict::inside(30.0, (25.0, 33.0), "%", true).gap,
            Some(0.0)
        );
        assert_eq!(
            Verdict::inside(36.3, (25.0, 33.0), "%", true).word,
            Word::Within
        );
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
