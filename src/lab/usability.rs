//! Whether measurements can be used: the rules, and the last sentence of `profile`, `real`, `validate` and `compare`.
//! docs/METRICS.md states the rules with their reasons.

use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::core::cost::table::{CostTable, MeasuredRow, is_demand};
use crate::core::workload::row_names::{BANDWIDTH, LAUNCH, PERSISTENT, RESERVED, SUFFIXES, WHOLE};

/// The largest spread of repeated runs, in percent of their mean or median, with which a figure says anything.
pub const LARGEST_SPREAD: f64 = 100.0;

/// The longest plausible time from a decision to its task. Starting a kernel or waking a thread takes microseconds.
const LONGEST_LAUNCH: Nanos = Nanos(1_000_000);

/// The largest distance of the lines between a profile's rows from times that were measured there, as a share of them.
pub const LARGEST_MISS: f64 = 0.05;

/// What to do about late load generators.
pub const EARLIER: &str =
    "use fewer workers than cores, a machine that does nothing else, or a lower load";

const STEADIER: &str = "use more or longer runs, or a machine that does nothing else";

const PROFILE_AGAIN: &str = "profile with more --repeats, or on a machine that does nothing else";

/// What speaks against the use of measurements.
#[derive(Clone, Debug)]
pub struct Usability {
    /// What is judged, such as `the profile`, with its verb.
    subject: &'static str,
    /// The reasons. Without any, the measurements can be used.
    reasons: Vec<String>,
    /// The ways out, each once.
    remedies: Vec<String>,
    /// What the measurements leave open, although they can be used.
    caveats: Vec<String>,
}

impl Usability {
    /// A judgement without reasons on what is named with its verb, such as `the runs are`.
    pub fn new(subject: &'static str) -> Usability {
        Usability {
            subject,
            reasons: Vec::new(),
            remedies: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// Adds a reason, and what to do about it.
    pub fn refuse(&mut self, reason: String, remedy: impl Into<String>) {
        self.reasons.push(reason);
        let remedy = remedy.into();
        if !self.remedies.contains(&remedy) {
            self.remedies.push(remedy);
        }
    }

    /// Adds what the measurements leave open.
    pub fn leave_open(&mut self, caveat: String) {
        self.caveats.push(caveat);
    }

    /// Judges the load generators of real runs: whether they were late at some of the points.
    pub fn judge_lateness(&mut self, late: usize, points: usize) {
        if late > 0 {
            let reason = format!("requests were handed over too late at {late} of {points} points");
            self.refuse(reason, EARLIER);
        }
    }

    /// Judges the spreads of figures in percent, where they are known.
    pub fn judge_spreads(&mut self, spreads: impl IntoIterator<Item = Option<f64>>) {
        let known: Vec<f64> = spreads.into_iter().flatten().collect();
        let wide = known.iter().filter(|spread| is_too_wide(**spread)).count();
        let widest = known.iter().copied().fold(0.0, f64::max);
        if wide > 0 {
            let figures = known.len();
            let reason = format!(
                "{wide} of {figures} figures vary by more than {LARGEST_SPREAD} % from one run to the next, up to {widest:.0} %"
            );
            self.refuse(reason, STEADIER);
        }
    }

    /// Judges the lines between the rows of a profile by the largest miss, if one is known, and the size at which it
    /// was. `listed` says whether the user has chosen the rows.
    pub fn judge_lines(&mut self, largest_miss: Option<(f64, u32)>, listed: bool) {
        let Some((miss, size)) = largest_miss.filter(|(miss, _)| *miss > LARGEST_MISS) else {
            return;
        };
        let reason = format!(
            "lines between rows are off by up to {:.1} %, more than {:.0} %",
            100.0 * miss,
            100.0 * LARGEST_MISS
        );
        if listed {
            let remedy = format!("add sizes around {size} to --batches, or leave --batches out");
            self.refuse(reason, remedy);
        } else {
            self.refuse(reason, PROFILE_AGAIN);
        }
    }

    /// Judges the measured rows of a cost table. A table that says itself why it cannot be used is believed.
    pub fn judge_costs(&mut self, table: &CostTable) {
        match table.remark() {
            Some(remark) => self.refuse(remark.to_string(), PROFILE_AGAIN),
            None => self.judge_rows(table.measured_rows()),
        }
    }

    fn judge_rows(&mut self, rows: &[MeasuredRow]) {
        let steps: Vec<&MeasuredRow> = rows.iter().filter(|row| is_step(&row.cell)).collect();
        let vague: Vec<&MeasuredRow> = rows.iter().filter(|row| is_vague(row, &steps)).collect();
        if let Some(worst) = vague
            .iter()
            .max_by(|a, b| a.deviation.total_cmp(&b.deviation))
        {
            let count = vague.len();
            let all = rows.len();
            let reason = format!(
                "{count} of {all} rows deviate by more than their time and that of a step (the worst is {} at {}: {} ± {})",
                worst.cell,
                worst.batch,
                round_digits(worst.time),
                round_digits(Nanos::round(worst.deviation))
            );
            self.refuse(reason, PROFILE_AGAIN);
        }
        let launches = rows.iter().filter(|row| row.cell == LAUNCH);
        let launch = launches.map(|row| row.time).max().unwrap_or_default();
        let step = steps.iter().map(|row| row.time).min().unwrap_or_default();
        if launch > LONGEST_LAUNCH.max(step) {
            let longest = round_digits(launch);
            let shortest = round_digits(step);
            let reason = format!("a launch takes up to {longest}, and a step from {shortest} on");
            self.refuse(reason, PROFILE_AGAIN);
        }
    }

    /// Whether nothing speaks against the use.
    pub fn is_usable(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Why the measurements cannot be used.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// The conclusion in one sentence, with every reason and what to do.
    pub fn sentence(&self) -> String {
        let subject = self.subject;
        if self.is_usable() {
            let mut sentence = format!("{subject} usable");
            for caveat in &self.caveats {
                sentence += &format!(", but {caveat}");
            }
            return sentence;
        }
        let reasons = self.reasons.join("; ");
        let remedies = self.remedies.join("; ");
        format!("{subject} not usable: {reasons}; {remedies}")
    }

    /// Fails for measurements that cannot be used.
    pub fn require(&self) -> Result<()> {
        if self.is_usable() {
            return Ok(());
        }
        Err(Error::Unusable(format!("--strict: {}", self.sentence())))
    }
}

/// The judgement on a cost table.
pub fn judge_table(table: &CostTable) -> Usability {
    let mut usability = Usability::new("the costs are");
    usability.judge_costs(table);
    usability
}

/// What a reader should know of a cost table: why it cannot be used, and which times look like mistakes.
pub fn describe_costs(table: &CostTable) -> Vec<String> {
    let usability = judge_table(table);
    let mut notes = Vec::new();
    if !usability.is_usable() {
        notes.push(format!("{}: {}", table.name(), usability.sentence()));
    }
    notes.extend(table.doubts());
    notes
}

/// Whether a figure with this spread, in percent, says nothing.
pub fn is_too_wide(spread: f64) -> bool {
    spread > LARGEST_SPREAD
}

/// The time with three significant digits.
fn round_digits(time: Nanos) -> Nanos {
    let scale = 10u64.pow(time.0.max(1).ilog10().saturating_sub(2));
    Nanos(time.0.saturating_add(scale / 2) / scale * scale)
}

/// Whether the rows of a name are steps of a cell.
fn is_step(name: &str) -> bool {
    match name.rsplit_once('.') {
        None => !RESERVED.contains(&name),
        Some((_, suffix)) => suffix == WHOLE || suffix == PERSISTENT || !SUFFIXES.contains(&suffix),
    }
}

/// Whether single measurements of a row deviate by more than its time. Little overheads may, as long as a step takes
/// longer than they deviate.
fn is_vague(row: &MeasuredRow, steps: &[&MeasuredRow]) -> bool {
    let is_time = !is_demand(&row.cell) && row.cell != BANDWIDTH;
    let smaller = steps.iter().filter(|step| step.batch <= row.batch);
    let size = smaller.clone().map(|step| step.batch).max();
    let nearest = smaller.filter(|step| Some(step.batch) == size);
    let step = nearest.map(|step| step.time).min().unwrap_or_default();
    let least = if is_step(&row.cell) {
        row.time
    } else {
        row.time.max(step)
    };
    is_time && row.deviation > 0.0 && row.deviation >= least.0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rows: &str) -> String {
        let text = format!("cell,batch,ns,stddev_ns\n{rows}");
        let table = CostTable::parse(&text, "costs.csv").unwrap();
        let mut usability = Usability::new("the profile is");
        usability.judge_costs(&table);
        usability.sentence()
    }

    #[test]
    fn rows_deviate_by_less_than_they_take() {
        assert_eq!(judge("lstm,1,1000,999\n"), "the profile is usable");
        assert_eq!(
            judge("lstm,1,1000,10\nlstm,8,2000,2000\n"),
            "the profile is not usable: 1 of 2 rows deviate by more than their time and that of a step (the worst is lstm \
             at 8: 2us ± 2us); profile with more --repeats, or on a machine that does nothing else"
        );
        // A gather of nearly nothing may deviate, unless by more than a step.
        assert_eq!(
            judge("lstm,1,1000,10\nlstm,8,2000,20\ngather,8,0,1999\n"),
            "the profile is usable"
        );
        assert!(judge("lstm,1,1000,10\nlstm,8,2000,20\ngather,8,0,2000\n").contains("1 of 3 rows"));
        // Parts per million are no time.
        assert_eq!(
            judge("lstm,1,1000,10\nlstm.demand,1,10,100000\n"),
            "the profile is usable"
        );
    }

    #[test]
    fn a_launch_takes_no_time_slice() {
        let launch =
            |step: u64, launch: u64| judge(&format!("lstm,1,{step},1\nlaunch,1,{launch},1\n"));
        // The profile of a starved process: 4,000 steps.
        assert_eq!(
            launch(2_882, 11_990_920),
            "the profile is not usable: a launch takes up to 12ms, and a step from 2.88us on; profile with more \
             --repeats, or on a machine that does nothing else"
        );
        assert_eq!(launch(2_882, 1_000_000), "the profile is usable");
        assert_eq!(launch(20_000_000, 11_990_920), "the profile is usable");
    }

    #[test]
    fn tables_of_other_sources_are_not_measured() {
        let text = "cell,batch,ns\nlstm,1,2882\nlaunch,1,11990920\n";
        let table = CostTable::parse(text, "costs.csv").unwrap();
        assert_eq!(describe_costs(&table), [""; 0]);
    }

    #[test]
    fn a_remark_is_believed() {
        let text = "# not usable: lines are off\ncell,batch,ns,stddev_ns\nlstm,1,1000,2000\n";
        let table = CostTable::parse(text, "costs.csv").unwrap();
        assert_eq!(
            describe_costs(&table),
            [
                "costs.csv: the costs are not usable: lines are off; profile with more --repeats, or on a machine that does \
                 nothing else"
            ]
        );
    }

    #[test]
    fn a_figure_that_varies_by_more_than_itself_says_nothing() {
        let mut runs = Usability::new("the runs are");
        runs.judge_lateness(0, 4);
        runs.judge_spreads([None, Some(100.0)]);
        runs.leave_open("one run does not show how much they vary".into());
        assert_eq!(
            runs.sentence(),
            "the runs are usable, but one run does not show how much they vary"
        );
        assert!(runs.require().is_ok());
        runs.judge_lateness(1, 4);
        runs.judge_spreads([Some(100.1), None, Some(12.0), Some(1350.4)]);
        assert_eq!(
            runs.require().unwrap_err().to_string(),
            "--strict: the runs are not usable: requests were handed over too late at 1 of 4 points; 2 of 3 figures vary \
             by more than 100 % from one run to the next, up to 1350 %; use fewer workers than cores, a machine that does \
             nothing else, or a lower load; use more or longer runs, or a machine that does nothing else"
        );
    }
}
