//! The claims' verdicts as text, as JSON, and on a page (one HTML file that loads nothing else) with all exhibits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::claims::CheckedClaim;
use super::findings::{ExhibitResult, Findings};
use super::jit::processor::table_of_costs;
use super::paper::{Exhibit, ExhibitKind, Paper};
use super::study::Study;
use super::verdict::{ClaimOutcome, TOLERANCE};
use crate::core::summary::bounds::Bounds;
use crate::lab::figures::ScenarioFigures;
use crate::lab::page::{self, PageSection, escape, figure, figures, fold, html_table};
use crate::lab::plot::WrittenFigure;
use crate::lab::results::saved_results::SavedResults;
use crate::lab::results::table::align;
use crate::lab::results::{summary, table};
use crate::lab::run::RunReport;
use crate::lab::scenario::Scenario;

/// A block for each claim, with the reason if it does not hold, and the summary.
pub fn claims_as_text(checked: &[CheckedClaim]) -> String {
    let mut text = String::new();
    for one in checked {
        let CheckedClaim { claim, verdict } = one;
        let value = claim.value.text();
        let mut lines = vec![
            format!(
                "paper {value}, ours {}, gap {}",
                verdict.ours,
                verdict.gap_text()
            ),
            claim.command(),
        ];
        if let Some(reason) = one.reason() {
            lines.push(format!("why: {reason}"));
        }
        for command in one.shown_by() {
            lines.push(format!("shown by: {command}"));
        }
        text += &format!(
            "{:<13}{} ({}): {}\n",
            verdict.outcome.name(),
            claim.id,
            claim.place,
            claim.what
        );
        for line in lines {
            text += &format!("{:<13}{line}\n", "");
        }
    }
    text + &summary(checked)
}

/// The number of claims by outcome, and how many of the simulated ones hold, for the papers that this project
/// implements and for the others.
fn summary(checked: &[CheckedClaim]) -> String {
    let mut counts = Vec::new();
    for outcome in ClaimOutcome::ALL {
        let count = count_outcome(checked, outcome);
        if count > 0 {
            counts.push(format!("{count} {}", outcome.name()));
        }
    }
    let mut text = format!("{} claims: {}\n", checked.len(), counts.join(", "));
    text += &summarise_simulated(checked, true, "the five papers");
    text += &summarise_simulated(checked, false, "the papers on continuous batching");
    text
}

fn summarise_simulated(checked: &[CheckedClaim], is_implemented: bool, papers: &str) -> String {
    let mut all: u32 = 0;
    let mut holding = 0;
    let mut agreeing = 0;
    for CheckedClaim { claim, verdict } in checked {
        // A claim from which a row of the cost table was made checks nothing.
        let is_counted = claim.kind == "sim" && verdict.outcome != ClaimOutcome::Derived;
        if is_counted && claim.paper.is_implemented() == is_implemented {
            all += 1;
            if verdict.outcome.holds() {
                holding += 1;
                agreeing += 1;
            } else if verdict.outcome == ClaimOutcome::Trend {
                agreeing += 1;
            }
        }
    }
    if all == 0 {
        return String::new();
    }
    let percent = |part: u32| 100.0 * f64::from(part) / f64::from(all);
    format!(
        "of {all} simulated ones of {papers} {holding} ({:.0} %) are within {} % of the paper's value or in its order, \
         {agreeing} ({:.0} %) agree in direction\n",
        percent(holding),
        100.0 * TOLERANCE,
        percent(agreeing)
    )
}

fn count_outcome(checked: &[CheckedClaim], outcome: ClaimOutcome) -> usize {
    let own = checked.iter();
    own.filter(|one| one.verdict.outcome == outcome).count()
}

/// A table of the claims by paper and outcome.
pub fn table_by_paper(checked: &[CheckedClaim]) -> String {
    let headings = headings_by_paper(|outcome| outcome.name().to_string());
    let mut lines = vec![headings];
    lines.extend(lines_by_paper(checked));
    align(&lines)
}

fn headings_by_paper(heading: fn(ClaimOutcome) -> String) -> Vec<String> {
    let mut headings = vec!["paper".to_string(), "claims".to_string()];
    headings.extend(ClaimOutcome::ALL.map(heading));
    headings
}

/// A line for each paper: its name, its claims, and how many have each outcome.
fn lines_by_paper(checked: &[CheckedClaim]) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for paper in Paper::ALL {
        let own = checked.iter().filter(|one| one.claim.paper == paper);
        let own: Vec<CheckedClaim> = own.cloned().collect();
        if own.is_empty() {
            continue;
        }
        let mut line = vec![paper.name().to_string(), own.len().to_string()];
        line.extend(ClaimOutcome::ALL.map(|outcome| count_outcome(&own, outcome).to_string()));
        lines.push(line);
    }
    lines
}

pub fn claims_as_json(checked: &[CheckedClaim]) -> Value {
    let mut claims = Vec::new();
    for one in checked {
        let CheckedClaim { claim, verdict } = one;
        claims.push(json!({
            "id": claim.id,
            "of": claim.paper.name(),
            "kind": claim.kind,
            "place": claim.place,
            "what": claim.what,
            "paper": claim.value.text(),
            "ours": verdict.ours,
            "gap_percent": verdict.gap,
            "verdict": verdict.outcome.key(),
            "words": verdict.outcome.name(),
            "reason": one.reason(),
            "exhibits": claim.exhibits,
            "shown_by": one.shown_by(),
        }));
    }
    Value::Array(claims)
}

/// An exhibit's results for a reader, for a program and for the page.
pub struct ExhibitReport<'a> {
    /// The results for a reader.
    pub text: String,
    /// The results for a program.
    pub json: Value,
    figures: &'a [WrittenFigure],
    /// The text below the figures of a page: a table, a note, or why there is no figure.
    note: String,
    /// The file with the numbers.
    numbers: Option<PathBuf>,
    /// The run whose summary is a table of the page.
    run: Option<&'a RunReport>,
}

impl<'a> ExhibitReport<'a> {
    /// `width`: the width of the terminal, if it is one.
    pub fn new(
        exhibit: &Exhibit,
        findings: &'a BTreeMap<Paper, Findings>,
        width: Option<usize>,
    ) -> ExhibitReport<'a> {
        match &findings[&exhibit.paper].exhibits[&exhibit.name] {
            ExhibitResult::Study(study) => ExhibitReport::from_study(study),
            ExhibitResult::Run(run, figures) => {
                let (scenario, report) = &**run;
                if exhibit.kind == ExhibitKind::Measurement {
                    ExhibitReport::from_measurement(exhibit, scenario, report)
                } else {
                    ExhibitReport::from_run(exhibit, report, figures, width)
                }
            }
            ExhibitResult::Launches(launches) => {
                ExhibitReport::from_text(launches.table(), json!(launches))
            }
            ExhibitResult::Missing => ExhibitReport::from_text(why_missing(exhibit), Value::Null),
        }
    }

    /// A report whose text is also its note.
    fn from_text(text: String, json: Value) -> ExhibitReport<'a> {
        ExhibitReport {
            note: text.clone(),
            text,
            json,
            figures: &[],
            numbers: None,
            run: None,
        }
    }

    fn from_study(study: &'a Study) -> ExhibitReport<'a> {
        let mut text = format!("{}\n", study.table());
        if let Some(file) = &study.numbers {
            text += &format!("numbers in {}\n", file.display());
        }
        ExhibitReport {
            text,
            json: study.to_json(),
            figures: &study.figures,
            note: study.note.clone(),
            numbers: study.numbers.clone(),
            run: None,
        }
    }

    fn from_run(
        exhibit: &Exhibit,
        report: &'a RunReport,
        figures: &'a ScenarioFigures,
        width: Option<usize>,
    ) -> ExhibitReport<'a> {
        let folder = &report.folder.path;
        let table = table::table(&report.rows, width);
        let bounds = bounds_as_text(folder);
        ExhibitReport {
            text: format!("{table}\n{bounds}results in {}\n", folder.display()),
            json: summary::to_json(&exhibit.full_name(), &report.rows),
            figures: &figures.drawn,
            note: figures.undrawn.join("\n") + &bounds,
            numbers: Some(report.folder.summary()),
            run: Some(report),
        }
    }

    fn from_measurement(
        exhibit: &Exhibit,
        scenario: &Scenario,
        report: &'a RunReport,
    ) -> ExhibitReport<'a> {
        let table = table_of_costs(report).unwrap_or_else(|error| format!("{error}\n"));
        let trees = &scenario.workload.source().given;
        let folder = report.folder.path.display();
        let text = format!("{table}trees: {trees}; results in {folder}\n");
        let json = summary::to_json(&exhibit.full_name(), &report.rows);
        ExhibitReport {
            numbers: Some(report.folder.summary()),
            run: Some(report),
            ..ExhibitReport::from_text(text, json)
        }
    }
}

/// Why an exhibit has no results.
fn why_missing(exhibit: &Exhibit) -> String {
    let (what, name) = if exhibit.kind == ExhibitKind::Measurement {
        ("measured", "measurement")
    } else {
        ("counted", "trees")
    };
    format!("not {what}: {}\n", exhibit.paper.reason_for_missing(name))
}

/// The floor and the ceiling, which no policy can beat.
fn bounds_as_text(folder: &Path) -> String {
    let saved = SavedResults::open(folder).and_then(|saved| saved.bounds());
    let Ok(Some(bounds)) = saved else {
        return String::new();
    };
    let Bounds {
        floor, ceiling_rps, ..
    } = bounds;
    let mut percentiles = Vec::new();
    for (name, ms) in [
        ("p50", floor.p50_ms),
        ("p90", floor.p90_ms),
        ("p99", floor.p99_ms),
    ] {
        if let Some(ms) = ms {
            percentiles.push(format!("{name} {ms:.3} ms"));
        }
    }
    let mut text = format!("floor: {}\n", percentiles.join(", "));
    if let Some(rate) = ceiling_rps {
        text += &format!("ceiling: {rate:.0} requests/s\n");
    }
    text
}

const LEAD: &str = "<p>batchlab runs each figure as a scenario on a simulated GPU. A claim is a value that a paper states; \
                    the gap is the difference of ours from the paper's, in percent.</p>\n";

const NEIGHBOURS: &str = "<p>Every policy that can serve a workload, on the same requests and the same simulated GPU. \
                          docs/METRICS.md defines the columns.</p>\n";

/// A page of exhibits with the claims of their papers. Links are relative to the folder of the page.
pub fn html(
    exhibits: &[&Exhibit],
    findings: &BTreeMap<Paper, Findings>,
    checked: &[CheckedClaim],
    folder: &Path,
) -> String {
    let mut papers = Vec::new();
    let mut sections = Vec::new();
    for paper in Paper::ALL {
        let own = exhibits.iter().filter(|exhibit| exhibit.paper == paper);
        let mut section = PageSection::new(paper.name(), paper.title());
        let mut is_empty = true;
        for exhibit in own {
            let report = ExhibitReport::new(exhibit, findings, None);
            let article = article(exhibit, &report, checked, folder);
            section.add(&exhibit.name, &exhibit.place, &article);
            is_empty = false;
        }
        if !is_empty {
            papers.push(paper);
            sections.push(section);
        }
    }
    if papers.iter().all(|paper| paper.claims().is_empty()) {
        return page::page(papers[0].title(), NEIGHBOURS, &sections);
    }
    let meanings = fold("Meaning of the verdicts", &meanings_as_html());
    let lead = format!("{LEAD}{}{meanings}", totals_as_html(checked));
    page::page("The papers' figures, reproduced", &lead, &sections)
}

fn meanings_as_html() -> String {
    let mut text = String::from("<dl>\n");
    for outcome in ClaimOutcome::ALL {
        text += &format!("<dt>{}</dt><dd>{}</dd>\n", chip(outcome), outcome.meaning());
    }
    text + "</dl>\n"
}

/// The number of claims by paper and outcome, and the summary.
fn totals_as_html(checked: &[CheckedClaim]) -> String {
    let table = html_table("totals", &headings_by_paper(chip), &lines_by_paper(checked));
    let below: Vec<String> = summary(checked).lines().map(escape).collect();
    format!("{table}<p>{}</p>\n", below.join("<br>"))
}

/// The results of an exhibit, its claims, and the command that makes it.
fn article(
    exhibit: &Exhibit,
    report: &ExhibitReport<'_>,
    checked: &[CheckedClaim],
    folder: &Path,
) -> String {
    let mut text = format!("<p>{}.</p>\n", escape(&exhibit.shows));
    text += &figures(
        &report
            .figures
            .iter()
            .map(|drawn| figure("", &drawn.canvas))
            .collect::<Vec<_>>(),
    );
    if !report.note.is_empty() {
        text += &format!("<pre>{}</pre>\n", escape(&report.note));
    }
    if let Some(run) = report.run {
        let table = page::summary(&run.rows, &[], usize::MAX);
        text += &fold(
            "Latency, goodput, batches, padding and busy share at every load",
            &table,
        );
    }
    let own: Vec<&CheckedClaim> = checked
        .iter()
        .filter(|one| one.claim.is_with(exhibit))
        .collect();
    if !own.is_empty() {
        text += &claims_as_html(&own);
    }
    text += &format!(
        "<p class=\"made\"><code>batchlab reproduce {}</code>",
        exhibit.full_name()
    );
    if let Some(file) = &report.numbers
        && let Ok(file) = file.strip_prefix(folder)
    {
        let link = escape(&file.display().to_string());
        text += &format!(" · <a href=\"{link}\">{link}</a>");
    }
    text + "</p>\n"
}

fn claims_as_html(checked: &[&CheckedClaim]) -> String {
    let headings = ["verdict", "claim", "paper", "ours", "gap"].map(String::from);
    let mut lines = Vec::new();
    for one in checked {
        let CheckedClaim { claim, verdict } = one;
        lines.push(vec![
            chip(verdict.outcome),
            claim_as_html(one),
            escape(claim.value.text()),
            escape(&verdict.ours),
            escape(&verdict.gap_text()),
        ]);
    }
    html_table("claims", &headings, &lines)
}

/// What the paper claims, where, and why the claim does not hold.
fn claim_as_html(checked: &CheckedClaim) -> String {
    let claim = checked.claim;
    let exhibits: Vec<String> = claim
        .exhibits
        .iter()
        .map(|name| link_to_exhibit(claim.paper, name))
        .collect();
    let mut text = format!(
        "{} <span class=\"id\">{}, {}, {}</span> {}",
        escape(&claim.what),
        escape(&claim.place),
        claim.kind,
        claim.id,
        exhibits.join(", ")
    );
    if let Some(reason) = checked.reason() {
        text += &format!("<p class=\"why\">{}.", escape(reason));
        for command in checked.shown_by() {
            text += &format!(" <code>{}</code>", escape(command));
        }
        text += "</p>";
    }
    text
}

/// A link to an exhibit of the page.
fn link_to_exhibit(paper: Paper, name: &str) -> String {
    let exhibit = paper.exhibits().iter().find(|known| known.name == name);
    let place = exhibit.map_or(name, |exhibit| &exhibit.place);
    let paper = paper.name();
    format!("<a href=\"#{paper}-{name}\">{}</a>", escape(place))
}

fn chip(outcome: ClaimOutcome) -> String {
    format!(
        "<span class=\"chip {}\">{}</span>",
        outcome.key(),
        outcome.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::Canvas;
    use crate::papers::verdict::ClaimVerdict;

    #[test]
    fn a_page_shows_each_figure_with_its_claims_and_its_command() {
        let paper = Paper::BatchMaker;
        let exhibit = paper
            .exhibits()
            .iter()
            .find(|exhibit| exhibit.name == "fig7a")
            .unwrap();
        let study = Study {
            figures: vec![WrittenFigure {
                name: String::new(),
                canvas: Canvas::with_size(480.0, 300.0),
                files: Vec::new(),
            }],
            numbers: Some("out/batchmaker/fig7a/numbers.csv".into()),
            note: "a < b".into(),
            ..Study::default()
        };
        let exhibits = BTreeMap::from([(exhibit.name.clone(), ExhibitResult::Study(study))]);
        let findings = BTreeMap::from([(
            paper,
            Findings {
                exhibits,
                measured: None,
            },
        )]);
        let claim = paper
            .claims()
            .iter()
            .find(|claim| claim.id == "bm-lstm-peak")
            .unwrap();
        let verdict = ClaimVerdict {
            ours: "9,216 req/s".into(),
            gap: Some(-42.4),
            outcome: ClaimOutcome::Trend,
        };
        let checked = [CheckedClaim { claim, verdict }];
        let page = html(&[exhibit], &findings, &checked, Path::new("out"));
        for part in [
            "<article id=\"batchmaker-fig7a\">",
            "<svg viewBox=\"0 0 480 300\" aria-label=\"\">",
            "<a href=\"#batchmaker-fig7a\">Figure 7a</a>",
            "a &lt; b",
            "<a href=\"batchmaker/fig7a/numbers.csv\">batchmaker/fig7a/numbers.csv</a>",
            "<code>batchlab reproduce batchmaker fig7a</code>",
            "20,000 req/s",
            "9,216 req/s",
            "-42.40 %",
            "<span class=\"chip direction\">trend only</span>",
            "what its server loses beyond scheduling",
            "</html>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for part in ["http:", "https:", "src=", "@import", "url("] {
            assert!(
                !page.contains(part),
                "{part}: a page that works offline loads nothing"
            );
        }
    }
}
