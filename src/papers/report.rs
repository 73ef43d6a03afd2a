//! The claims' verdicts as text, as JSON, and on a page (one HTML file that loads nothing else) with all exhibits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::verdict::TOLERANCE;
use super::{Checked, Findings, Found, Item, Paper, Word, jit};
use crate::core::summary::bounds::Bounds;
use crate::lab::page::{self, PageSection, escaped, figures, folded, html_table};
use crate::lab::plot::WrittenFigure;
use crate::lab::results::columns::about;
use crate::lab::results::saved_results::SavedResults;
use crate::lab::results::table::aligned;
use crate::lab::results::{summary, table};
use crate::lab::run::RunReport;

/// A block each, with the reason if a claim does not hold.
pub fn table(checked: &[Checked]) -> String {
    let mut text = String::new();
    for one in checked {
        let Checked { claim, verdict, .. } = one;
        text.push_str(&format!(
            "{:<13}{} ({}): {}\n",
            verdict.word.name(),
            claim.id,
            claim.place,
            claim.what
        ));
        let mut below = |line: &str| text.push_str(&format!("{:<13}{line}\n", ""));
        below(&format!(
            "paper {}, ours {}, gap {}",
            claim.paper.text(),
            verdict.ours,
            verdict.gap_text()
        ));
        below(&one.command());
        one.reason()
            .iter()
            .for_each(|reason| below(&format!("why: {reason}")));
        one.shown_by()
            .iter()
            .for_each(|command| below(&format!("shown by: {command}")));
    }
    text + &summary(checked)
}

/// The number of claims by verdict, and how many of the simulated ones hold, for the papers that this project
/// implements and for the others.
pub fn summary(checked: &[Checked]) -> String {
    let count = |word: Word| {
        checked
            .iter()
            .filter(|one| one.verdict.word == word)
            .count()
    };
    let words = Word::value_variants()
        .iter()
        .copied()
        .filter(|word| count(*word) > 0);
    let words: Vec<String> = words
        .map(|word| format!("{} {}", count(word), word.name()))
        .collect();
    let mut text = format!("{} claims: {}\n", checked.len(), words.join(", "));
    let papers = ["the five papers", "the papers on continuous batching"];
    for (implemented, papers) in [true, false].into_iter().zip(papers) {
        // A claim that a row of the cost table was made from checks nothing.
        let is_simulated =
            |one: &&Checked| one.claim.kind == "sim" && one.verdict.word != Word::Derived;
        let simulated = || {
            checked
                .iter()
                .filter(is_simulated)
                .filter(|one| one.paper.is_implemented() == implemented)
        };
        let all = simulated().count();
        if all > 0 {
            let holds = simulated().filter(|one| one.verdict.word.holds()).count();
            let direction = holds
                + simulated()
                    .filter(|one| one.verdict.word == Word::Trend)
                    .count();
            let percent = |part: usize| 100 * part / all;
            text.push_str(&format!(
                "of {all} simulated ones of {papers} {holds} ({} %) are within {} % of the paper's value or in its order, \
                 {direction} ({} %) agree in direction\n",
                percent(holds),
                100.0 * TOLERANCE,
                percent(direction)
            ));
        }
    }
    text
}

/// The counts of [`summary()`], by paper.
pub fn by_paper(checked: &[Checked]) -> String {
    aligned(
        &[of_words(Word::name)]
            .into_iter()
            .chain(counts(checked))
            .collect::<Vec<_>>(),
    )
}

/// The headings of [`counts`].
fn of_words(heading: fn(Word) -> String) -> Vec<String> {
    let words = Word::value_variants().iter().map(|word| heading(*word));
    ["paper", "claims"]
        .map(String::from)
        .into_iter()
        .chain(words)
        .collect()
}

/// A line for each paper: its name, its claims, and how many have each verdict.
fn counts(checked: &[Checked]) -> impl Iterator<Item = Vec<String>> {
    let of = move |paper: Paper| checked.iter().filter(move |one| one.paper == paper);
    Paper::all()
        .filter(move |paper| of(*paper).count() > 0)
        .map(move |paper| {
            let count = |word: &Word| {
                of(paper)
                    .filter(|one| one.verdict.word == *word)
                    .count()
                    .to_string()
            };
            let counts = Word::value_variants().iter().map(count);
            [paper.name().into(), of(paper).count().to_string()]
                .into_iter()
                .chain(counts)
                .collect()
        })
}

pub fn to_json(checked: &[Checked]) -> Value {
    let one = |one: &Checked| {
        let Checked {
            paper,
            claim,
            verdict,
        } = one;
        json!({
            "id": claim.id,
            "of": paper.name(),
            "kind": claim.kind,
            "place": claim.place,
            "what": claim.what,
            "paper": claim.paper.text(),
            "ours": verdict.ours,
            "gap_percent": verdict.gap,
            "verdict": verdict.word.key(),
            "words": verdict.word.name(),
            "reason": one.reason(),
            "exhibits": claim.exhibits,
            "shown_by": one.shown_by(),
        })
    };
    checked.iter().map(one).collect()
}

/// An exhibit's results.
pub struct Shown<'a> {
    /// For a reader.
    pub text: String,
    /// For a program.
    pub json: Value,
    figures: &'a [WrittenFigure],
    /// Below the figures of a page: a table, a note, or why there is no figure.
    note: String,
    numbers: Option<PathBuf>,
    /// Its rows are a table.
    report: Option<&'a RunReport>,
}

impl Shown<'_> {
    /// `width`: of the terminal, if it is one.
    pub fn of<'a>(
        item: &Item,
        findings: &'a BTreeMap<Paper, Findings>,
        width: Option<usize>,
    ) -> Shown<'a> {
        let only_text = |text: String, json| Shown {
            note: text.clone(),
            text,
            json,
            figures: &[],
            numbers: None,
            report: None,
        };
        match &findings[&item.paper].exhibits[&item.exhibit.name] {
            Found::Study(study) => {
                let (note, numbers) = (study.note.clone(), study.numbers.clone());
                let file = numbers.as_ref().map_or(String::new(), |file| {
                    format!("numbers in {}\n", file.display())
                });
                let text = format!("{}\n{file}", study.table());
                Shown {
                    figures: &study.figures,
                    note,
                    numbers,
                    ..only_text(text, study.to_json())
                }
            }
            Found::Run(run, figures) => {
                let (scenario, report) = &**run;
                let (folder, numbers) = (&report.folder.path, Some(report.folder.summary()));
                let json = summary::to_json(&item.name(), &report.rows);
                if item.is_measured() {
                    let table = jit::measured(report).unwrap_or_else(|error| format!("{error}\n"));
                    let trees = &scenario.workload.source().given;
                    let text = format!("{table}trees: {trees}; results in {}\n", folder.display());
                    return Shown {
                        numbers,
                        report: Some(report),
                        ..only_text(text, json)
                    };
                }
                let (table, bounds) = (table::table(&report.rows, width), bounds(folder));
                let text = format!("{table}\n{bounds}results in {}\n", folder.display());
                let note = figures.undrawn.join("\n") + &bounds;
                Shown {
                    figures: &figures.drawn,
                    note,
                    numbers,
                    report: Some(report),
                    ..only_text(text, json)
                }
            }
            Found::Launches(launches) => only_text(launches.table(), json!(launches)),
            Found::Missing => only_text(jit::not_at_hand(item.exhibit), Value::Null),
        }
    }
}

/// The floor and the ceiling, which no policy can beat.
fn bounds(folder: &Path) -> String {
    let Ok(Some(Bounds {
        floor, ceiling_rps, ..
    })) = SavedResults::open(folder).and_then(|saved| saved.bounds())
    else {
        return String::new();
    };
    let percentiles = [
        ("p50", floor.p50_ms),
        ("p90", floor.p90_ms),
        ("p99", floor.p99_ms),
    ];
    let percentiles = percentiles
        .iter()
        .filter_map(|(name, ms)| ms.map(|ms| format!("{name} {ms:.3} ms")));
    let floor = format!("floor: {}\n", percentiles.collect::<Vec<_>>().join(", "));
    let ceiling = ceiling_rps.map_or(String::new(), |rate| {
        format!("ceiling: {rate:.0} requests/s\n")
    });
    floor + &ceiling
}

/// With the claims of the items' papers. Links are relative to the folder of the page.
pub fn html(
    items: &[Item],
    findings: &BTreeMap<Paper, Findings>,
    checked: &[Checked],
    folder: &Path,
) -> String {
    let papers: Vec<Paper> = Paper::all()
        .filter(|paper| items.iter().any(|item| item.paper == *paper))
        .collect();
    let section = |paper: &Paper| {
        let mut section = PageSection::new(paper.name(), paper.title());
        for item in items.iter().filter(|item| item.paper == *paper) {
            let shown = Shown::of(item, findings, None);
            section.add(
                &item.exhibit.name,
                &item.exhibit.place,
                &article(item, &shown, checked, folder),
            );
        }
        section
    };
    let sections: Vec<PageSection> = papers.iter().map(section).collect();
    if papers.iter().all(|paper| paper.claims().is_empty()) {
        return page::page(papers[0].title(), NEIGHBOURS, &sections);
    }
    let lead = format!(
        "{}{}{}",
        LEAD,
        totals(checked),
        folded("Meaning of the verdicts", &meanings())
    );
    page::page("The papers' figures, reproduced", &lead, &sections)
}

const LEAD: &str = "<p>batchlab runs each figure as a scenario on a simulated GPU. A claim is a value that a paper states; \
                    the gap is the difference of ours from the paper's, in percent.</p>\n";

const NEIGHBOURS: &str = "<p>Every policy that can serve a workload, on the same requests and the same simulated GPU. \
                          docs/METRICS.md defines the columns.</p>\n";

fn meanings() -> String {
    let meaning = |word: &Word| format!("<dt>{}</dt><dd>{}</dd>\n", chip(*word), about(word));
    format!(
        "<dl>\n{}</dl>\n",
        Word::value_variants()
            .iter()
            .map(meaning)
            .collect::<String>()
    )
}

/// By paper and verdict.
fn totals(checked: &[Checked]) -> String {
    let below: Vec<String> = summary(checked).lines().map(escaped).collect();
    let lines: Vec<Vec<String>> = counts(checked).collect();
    format!(
        "{}<p>{}</p>\n",
        html_table("totals", &of_words(chip), &lines),
        below.join("<br>")
    )
}

fn article(item: &Item, shown: &Shown<'_>, checked: &[Checked], folder: &Path) -> String {
    let mut text = format!("<p>{}.</p>\n", escaped(&item.exhibit.shows));
    text += &figures(shown.figures.iter().map(|figure| ("", &figure.canvas)));
    if !shown.note.is_empty() {
        text += &format!("<pre>{}</pre>\n", escaped(&shown.note));
    }
    if let Some(report) = shown.report {
        let table = page::summary(&report.rows, &[]);
        text += &folded(
            "Latency, goodput, batches, padding and busy share at every load",
            &table,
        );
    }
    let own: Vec<&Checked> = checked.iter().filter(|one| one.is_with(item)).collect();
    if !own.is_empty() {
        text += &claims(&own);
    }
    text += &format!(
        "<p class=\"made\"><code>batchlab reproduce {}</code>",
        item.name()
    );
    if let Some(numbers) = shown
        .numbers
        .as_ref()
        .and_then(|file| file.strip_prefix(folder).ok())
    {
        text += &format!(
            " · <a href=\"{0}\">{0}</a>",
            escaped(&numbers.display().to_string())
        );
    }
    text + "</p>\n"
}

fn claims(checked: &[&Checked]) -> String {
    let line = |one: &&Checked| {
        let Checked { claim, verdict, .. } = one;
        let commands = one
            .shown_by()
            .iter()
            .map(|command| format!(" <code>{}</code>", escaped(command)));
        let commands: String = commands.collect();
        let why = |reason| format!("<p class=\"why\">{}.{commands}</p>", escaped(reason));
        let reason = one.reason().map_or(String::new(), why);
        let exhibits: Vec<String> = claim
            .exhibits
            .iter()
            .map(|exhibit| linked(one.paper, exhibit))
            .collect();
        let place = format!("{}, {}, {}", escaped(&claim.place), claim.kind, claim.id);
        let place = format!("{place}</span> {}", exhibits.join(", "));
        let what = format!(
            "{} <span class=\"id\">{place}{reason}",
            escaped(&claim.what)
        );
        let values = [claim.paper.text(), &verdict.ours, &verdict.gap_text()].map(escaped);
        [chip(verdict.word), what]
            .into_iter()
            .chain(values)
            .collect()
    };
    let headings = ["verdict", "claim", "paper", "ours", "gap"].map(String::from);
    html_table(
        "claims",
        &headings,
        &checked.iter().map(line).collect::<Vec<_>>(),
    )
}

/// To an exhibit of the page.
fn linked(paper: Paper, exhibit: &str) -> String {
    let place = paper
        .exhibits()
        .iter()
        .find(|known| known.name == exhibit)
        .map_or(exhibit, |known| &known.place);
    format!(
        "<a href=\"#{}-{exhibit}\">{}</a>",
        paper.name(),
        escaped(place)
    )
}

fn chip(word: Word) -> String {
    format!("<span class=\"chip {}\">{}</span>", word.key(), word.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::Canvas;
    use crate::papers::Verdict;
    use crate::papers::lab::Study;

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
                canvas: Canvas::sized(480.0, 300.0),
                files: Vec::new(),
            }],
            numbers: Some("out/batchmaker/fig7a/numbers.csv".into()),
            note: "a < b".into(),
            ..Study::default()
        };
        let exhibits = BTreeMap::from([(exhibit.name.clone(), Found::Study(study))]);
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
        let verdict = Verdict {
            ours: "9,216 req/s".into(),
            gap: Some(-42.4),
            word: Word::Trend,
        };
        let checked = [Checked {
            paper,
            claim,
            verdict,
        }];
        let page = html(
            &[Item { paper, exhibit }],
            &findings,
            &checked,
            Path::new("out"),
        );
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
