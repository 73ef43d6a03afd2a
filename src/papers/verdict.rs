//! Verdicts on claims: our values against the papers'.

use super::value::PaperValue;
use crate::base::error::Result;
use crate::lab::plot::axis::thousands;

/// The relative difference up to which values agree. The papers' values are read off plots, and few step times of their
/// testbeds are known.
pub const TOLERANCE: f64 = 0.15;

/// The largest factor between numbers of the same magnitude: half an order.
const MAGNITUDE: f64 = 3.162_277_660_168_379_5;

/// The outcome of a comparison, in the order of the counts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimOutcome {
    Exact,
    Within,
    Order,
    Trend,
    Off,
    Derived,
    OtherGpu,
    NotRun,
}

impl ClaimOutcome {
    pub const ALL: [ClaimOutcome; 8] = [
        ClaimOutcome::Exact,
        ClaimOutcome::Within,
        ClaimOutcome::Order,
        ClaimOutcome::Trend,
        ClaimOutcome::Off,
        ClaimOutcome::Derived,
        ClaimOutcome::OtherGpu,
        ClaimOutcome::NotRun,
    ];

    /// The name for a reader.
    pub fn name(self) -> &'static str {
        match self {
            ClaimOutcome::Exact => "exact",
            ClaimOutcome::Within => "within 15 %",
            ClaimOutcome::Order => "order holds",
            ClaimOutcome::Trend => "trend only",
            ClaimOutcome::Off => "off",
            ClaimOutcome::Derived => "derived",
            ClaimOutcome::OtherGpu => "other GPU",
            ClaimOutcome::NotRun => "not run",
        }
    }

    /// The meaning on the page.
    pub fn meaning(self) -> &'static str {
        match self {
            ClaimOutcome::Exact => "The paper's value is exact, and ours is equal",
            ClaimOutcome::Within => "The number differs from the paper's by at most 15 %",
            ClaimOutcome::Order => {
                "The paper's ranking or bound holds, or the magnitude to half an order"
            }
            ClaimOutcome::Trend => {
                "The paper's conclusion holds, but the number differs by more than 15 %"
            }
            ClaimOutcome::Off => "The paper's conclusion does not hold",
            ClaimOutcome::Derived => {
                "A constant or a rule was chosen by this value, so it is not counted"
            }
            ClaimOutcome::OtherGpu => {
                "A time that was measured on another GPU than the paper's and differs, so it is not counted"
            }
            ClaimOutcome::NotRun => {
                "Not measured: it needs data that is not available, or a real machine"
            }
        }
    }

    /// The name for a program.
    pub fn key(self) -> &'static str {
        match self {
            ClaimOutcome::Exact | ClaimOutcome::Within | ClaimOutcome::Order => "holds",
            ClaimOutcome::Trend => "direction",
            ClaimOutcome::Off => "off",
            ClaimOutcome::Derived => "derived",
            ClaimOutcome::OtherGpu => "other-gpu",
            ClaimOutcome::NotRun => "not-run",
        }
    }

    pub fn holds(self) -> bool {
        matches!(
            self,
            ClaimOutcome::Exact | ClaimOutcome::Within | ClaimOutcome::Order
        )
    }
}

/// Our value of a claim, compared with the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimVerdict {
    /// Our value, with its unit.
    pub ours: String,
    /// The difference from the paper's value in percent; the largest of several. `None` if the paper gives no number or
    /// nothing was measured.
    pub gap: Option<f64>,
    pub outcome: ClaimOutcome,
}

impl ClaimVerdict {
    /// Compares a number with the only number of the paper's value, in the same unit. `agrees` says whether the paper's
    /// conclusion also follows from our number.
    pub fn near(ours: f64, paper: &PaperValue, agrees: bool) -> ClaimVerdict {
        ClaimVerdict::near_number(ours, paper.number(), paper.unit(), agrees)
    }

    /// The same as [`near`](ClaimVerdict::near) with a number of the paper that follows from several values.
    pub fn near_number(ours: f64, paper: f64, unit: &str, agrees: bool) -> ClaimVerdict {
        ClaimVerdict::from_gaps(show_number(ours, unit), &[(ours, paper)], agrees)
    }

    /// Compares a number with a range of the paper. There is no gap inside the range.
    pub fn inside(ours: f64, paper: &PaperValue, agrees: bool) -> ClaimVerdict {
        let (low, high) = paper.range();
        let nearest = ours.clamp(low, high);
        ClaimVerdict::from_gaps(show_number(ours, paper.unit()), &[(ours, nearest)], agrees)
    }

    /// Compares a range with a range of the paper: low end with low end, and high end with high end.
    pub fn range(ours: (f64, f64), paper: &PaperValue, agrees: bool) -> ClaimVerdict {
        let (low, high) = paper.range();
        let text = format!("{:.1} to {:.1} {}", ours.0, ours.1, paper.unit());
        ClaimVerdict::from_gaps(text, &[(ours.0, low), (ours.1, high)], agrees)
    }

    /// Compares several numbers with as many numbers of the paper.
    pub fn several(ours: &[f64], paper: &PaperValue, agrees: bool) -> ClaimVerdict {
        ClaimVerdict::several_numbers(ours, paper.numbers(), paper.unit(), agrees)
    }

    /// The same as [`several`](ClaimVerdict::several) with numbers that the paper's text only sums up.
    pub fn several_numbers(ours: &[f64], paper: &[f64], unit: &str, agrees: bool) -> ClaimVerdict {
        let list: Vec<String> = ours
            .iter()
            .map(|value| format!("{}", (value * 10.0).round() / 10.0))
            .collect();
        let text = format!("{} {unit}", list.join("; "));
        let pairs: Vec<(f64, f64)> = ours.iter().copied().zip(paper.iter().copied()).collect();
        ClaimVerdict::from_gaps(text.trim_end().to_string(), &pairs, agrees)
    }

    /// A number that has to be above the paper's.
    pub fn above(ours: f64, paper: &PaperValue) -> ClaimVerdict {
        let bound = paper.number();
        let is_above = ours > bound;
        ClaimVerdict {
            ours: show_number(ours, paper.unit()),
            gap: Some(if is_above { 0.0 } else { gap(ours, bound) }),
            outcome: if is_above {
                ClaimOutcome::Order
            } else {
                ClaimOutcome::Off
            },
        }
    }

    /// Numbers that must equal the paper's.
    pub fn exact(ours: &[f64], paper: &PaperValue) -> ClaimVerdict {
        let list: Vec<String> = ours.iter().map(|value| format!("{value}")).collect();
        let papers = paper.numbers();
        let largest_gap = ours
            .iter()
            .zip(papers)
            .map(|(ours, paper)| gap(*ours, *paper))
            .fold(0.0, further);
        ClaimVerdict {
            ours: format!("{} {}", list.join("; "), paper.unit()),
            gap: if ours.len() == papers.len() {
                Some(largest_gap)
            } else {
                None
            },
            outcome: if ours == papers {
                ClaimOutcome::Exact
            } else {
                ClaimOutcome::Off
            },
        }
    }

    /// A number of which only the magnitude can be compared. Its unit may differ from the paper's.
    pub fn magnitude(ours: f64, paper: f64, unit: &str) -> ClaimVerdict {
        let factor = (ours / paper).max(paper / ours);
        ClaimVerdict {
            ours: show_number(ours, unit),
            gap: Some(gap(ours, paper)),
            outcome: if factor <= MAGNITUDE {
                ClaimOutcome::Order
            } else {
                ClaimOutcome::Off
            },
        }
    }

    /// A statement without a number. `figures` are the numbers that show whether it holds.
    pub fn order(holds: bool, figures: String) -> ClaimVerdict {
        ClaimVerdict {
            ours: figures,
            gap: None,
            outcome: if holds {
                ClaimOutcome::Order
            } else {
                ClaimOutcome::Off
            },
        }
    }

    pub fn without_run() -> ClaimVerdict {
        ClaimVerdict {
            ours: "not measured".into(),
            gap: None,
            outcome: ClaimOutcome::NotRun,
        }
    }

    /// The same verdict on a claim from which a row of the cost table was made.
    pub fn mark_derived(self) -> ClaimVerdict {
        ClaimVerdict {
            outcome: ClaimOutcome::Derived,
            ..self
        }
    }

    /// The same verdict on times that another GPU than the paper's took. A difference is then not a miss.
    pub fn mark_other_gpu(self) -> ClaimVerdict {
        let outcome = if self.outcome.holds() {
            self.outcome
        } else {
            ClaimOutcome::OtherGpu
        };
        ClaimVerdict { outcome, ..self }
    }

    /// The same verdict, with more text after our value.
    pub fn with(mut self, more: &str) -> ClaimVerdict {
        self.ours.push_str(more);
        self
    }

    pub fn gap_text(&self) -> String {
        let Some(gap) = self.gap else {
            return "-".to_string();
        };
        let beyond_tolerance = gap.abs() - 100.0 * TOLERANCE;
        let is_miss = matches!(self.outcome, ClaimOutcome::Trend | ClaimOutcome::Off);
        if gap.abs() < 0.005 {
            "0 %".to_string()
        } else if is_miss && beyond_tolerance.abs() < 0.005 {
            // A miss must not look like a number within the tolerance.
            format!("{gap:+.3} %")
        } else if self.outcome == ClaimOutcome::Within && gap.abs() > 100.0 * TOLERANCE - 0.05 {
            format!("{gap:+.2} %: within by the last digit")
        } else {
            format!("{gap:+.2} %")
        }
    }

    /// The outcome for pairs of our number and the paper's. The largest gap counts.
    fn from_gaps(ours: String, pairs: &[(f64, f64)], agrees: bool) -> ClaimVerdict {
        let largest_gap = pairs
            .iter()
            .map(|(ours, paper)| gap(*ours, *paper))
            .fold(0.0, further);
        // The slack allows for rounding at exactly the tolerance.
        let is_within = largest_gap.abs() <= 100.0 * TOLERANCE + 1e-9;
        let outcome = if !agrees {
            ClaimOutcome::Off
        } else if is_within {
            ClaimOutcome::Within
        } else {
            ClaimOutcome::Trend
        };
        ClaimVerdict {
            ours,
            gap: Some(largest_gap),
            outcome,
        }
    }
}

/// The verdict on a number that has to be above another system's.
pub fn higher(ours: f64, theirs: f64, paper: &PaperValue) -> Result<ClaimVerdict> {
    Ok(ClaimVerdict::near(ours, paper, ours > theirs))
}

/// The verdict on a number that has to be below another system's.
pub fn lower(ours: f64, theirs: f64, paper: &PaperValue) -> Result<ClaimVerdict> {
    Ok(ClaimVerdict::near(ours, paper, ours < theirs))
}

/// The relative difference of our number from the paper's, in percent.
fn gap(ours: f64, paper: f64) -> f64 {
    100.0 * (ours / paper - 1.0)
}

/// The value that is further from zero.
fn further(a: f64, b: f64) -> f64 {
    if b.abs() > a.abs() { b } else { a }
}

/// A number with about three significant digits, with a comma between thousands.
pub fn show_number(value: f64, unit: &str) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 1_000.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{magnitude:.decimals$}");
    let point = text.find('.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(point);
    let sign = if value < 0.0 { "-" } else { "" };
    let number = format!("{sign}{}{fraction}", thousands(whole));
    format!("{number} {unit}").trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(text: &str) -> PaperValue {
        PaperValue::from(text.to_string())
    }

    #[test]
    fn a_number_holds_within_the_tolerance_and_keeps_its_direction_beyond() {
        let near = |ours, agrees| ClaimVerdict::near(ours, &paper("100 ms"), agrees);
        for (ours, agrees, outcome) in [
            (115.0, true, ClaimOutcome::Within),
            (85.0, true, ClaimOutcome::Within),
            (115.1, true, ClaimOutcome::Trend),
            (20.0, true, ClaimOutcome::Trend),
            (100.0, false, ClaimOutcome::Off),
            (300.0, false, ClaimOutcome::Off),
        ] {
            assert_eq!(near(ours, agrees).outcome, outcome, "{ours} {agrees}");
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
        let miss = ClaimVerdict::near(50.0, &paper("100 ms"), false).mark_other_gpu();
        assert_eq!(miss.outcome, ClaimOutcome::OtherGpu);
        let hit = ClaimVerdict::near(105.0, &paper("100 ms"), true).mark_other_gpu();
        assert_eq!(hit.outcome, ClaimOutcome::Within);
    }

    #[test]
    fn a_range_is_as_far_off_as_its_further_end() {
        let verdict = ClaimVerdict::range((20.0, 84.0), &paper("40 to 80 %"), true);
        assert_eq!(verdict.gap_text(), "-50.00 %");
        assert_eq!(verdict.outcome, ClaimOutcome::Trend);
        let inside = |ours| ClaimVerdict::inside(ours, &paper("25 to 33 %"), true);
        assert_eq!(inside(30.0).gap, Some(0.0));
        assert_eq!(inside(36.3).outcome, ClaimOutcome::Within);
    }

    #[test]
    fn a_magnitude_is_half_an_order() {
        assert_eq!(
            ClaimVerdict::magnitude(310.0, 100.0, "").outcome,
            ClaimOutcome::Order
        );
        assert_eq!(
            ClaimVerdict::magnitude(31.0, 100.0, "").outcome,
            ClaimOutcome::Off
        );
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(show_number(1_234_567.8, "req/s"), "1,234,568 req/s");
        assert_eq!(show_number(12.34, "ms"), "12.3 ms");
        assert_eq!(show_number(-1_234.0, ""), "-1,234");
        assert_eq!(show_number(0.87, ""), "0.87");
    }
}
