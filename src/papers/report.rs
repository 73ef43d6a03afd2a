//! The claims' verdicts as text, as JSON, and on a page (one HTML file that loads nothing else) with all exhibits.

use serde_json::{Value, json};

use super::verdict::TOLERANCE;
use super::{Checked, Exhibit, Kind, Paper, Word};

/// A block each, with the reason if a claim does not hold.
pub fn table(checked: &[Checked]) -> String {
    let mut text = String::new();
    for one in checked {
        let Checked { claim, verdict, .. } = one;
        text.push_str(&format!("{:<10}{} ({}): {}\n", verdict.word.name(), claim.id, claim.place, claim.what));
        text.push_str(&format!("{:<10}paper {}, ours {}, gap {}\n", "", claim.paper, verdict.ours, verdict.gap_text()));
        if let Some(reason) = one.reason() {
            text.push_str(&format!("{:<10}why: {reason}\n", ""));
        }
    }
    text + &summary(checked)
}

/// By verdict, and how many of the simulated ones hold.
pub fn summary(checked: &[Checked]) -> String {
    let count = |word: Word| checked.iter().filter(|one| one.verdict.word == word).count();
    let words = Word::ALL.into_iter().filter(|word| count(*word) > 0);
    let words: Vec<String> = words.map(|word| format!("{} {}", count(word), word.name())).collect();
    let mut text = format!("{} claims: {}\n", checked.len(), words.join(", "));
    // A claim that a row of the cost table was made from checks nothing.
    let simulated = || checked.iter().filter(|one| one.claim.kind == Kind::Sim && one.verdict.word != Word::Derived);
    let all = simulated().count();
    if all > 0 {
        let holds = simulated().filter(|one| one.verdict.word == Word::Holds).count();
        let direction = holds + simulated().filter(|one| one.verdict.word == Word::Direction).count();
        let percent = |part: usize| 100 * part / all;
        text.push_str(&format!(
            "of {all} simulated ones {holds} ({} %) are within {} % of the paper's value or in its order, {direction} ({} %) agree in \
             direction\n",
            percent(holds),
            100.0 * TOLERANCE,
            percent(direction)
        ));
    }
    text
}

pub fn to_json(checked: &[Checked]) -> Value {
    let one = |one: &Checked| {
        let Checked { paper, claim, verdict } = one;
        json!({
            "id": claim.id,
            "of": paper.name(),
            "kind": claim.kind.name(),
            "place": claim.place,
            "what": claim.what,
            "paper": claim.paper,
            "ours": verdict.ours,
            "gap_percent": verdict.gap,
            "verdict": verdict.word.name(),
            "reason": one.reason(),
        })
    };
    checked.iter().map(one).collect()
}

#[derive(Clone, Debug)]
pub struct Shown {
    pub paper: Paper,
    pub exhibit: &'static Exhibit,
    pub pictures: Vec<String>,
    /// Below the pictures: a table, a note, or why there is no picture.
    pub text: Option<String>,
    /// Relative to the page.
    pub numbers: Option<String>,
}

/// With the claims of its papers.
pub fn html(shown: &[Shown], checked: &[Checked]) -> String {
    let papers: Vec<Paper> =
        Paper::ALL.into_iter().filter(|paper| shown.iter().any(|one| one.paper == *paper)).collect();
    let mut sections = String::new();
    for paper in &papers {
        sections += &format!("<section>\n<h2>{}</h2>\n", escaped(paper.title()));
        for one in shown.iter().filter(|one| one.paper == *paper) {
            sections += &article(one, checked);
        }
        let without_exhibit = |one: &&Checked| one.paper == *paper && one.claim.exhibits.is_empty();
        let without_exhibit: Vec<&Checked> = checked.iter().filter(without_exhibit).collect();
        if !without_exhibit.is_empty() {
            sections +=
                &format!("<article>\n<h3>Claims without a figure</h3>\n{}</article>\n", claims(&without_exhibit));
        }
        sections += "</section>\n";
    }
    include_str!("page.html").replace("{totals}", &totals(&papers, checked)).replace("{papers}", &sections)
}

/// By paper and verdict.
fn totals(papers: &[Paper], checked: &[Checked]) -> String {
    let heads: String = Word::ALL.map(|word| format!("<th>{}</th>", chip(word))).concat();
    let mut text = format!("<table class=\"totals\">\n<tr><th>paper</th><th>claims</th>{heads}</tr>\n");
    for paper in papers {
        let of_paper = || checked.iter().filter(|one| one.paper == *paper);
        let count = |word: Word| of_paper().filter(|one| one.verdict.word == word).count();
        let counts: String = Word::ALL.map(|word| format!("<td>{}</td>", count(word))).concat();
        text.push_str(&format!("<tr><td>{}</td><td>{}</td>{counts}</tr>\n", paper.name(), of_paper().count()));
    }
    text.push_str("</table>\n");
    let lines: Vec<String> = summary(checked).lines().map(escaped).collect();
    text + &format!("<p>{}</p>\n", lines.join("<br>"))
}

fn article(shown: &Shown, checked: &[Checked]) -> String {
    let Shown { paper, exhibit, .. } = shown;
    let id = format!("{}-{}", paper.name(), exhibit.name);
    let mut text =
        format!("<article id=\"{id}\">\n<h3>{}</h3>\n<p>{}.</p>\n", escaped(&exhibit.place), escaped(&exhibit.shows));
    if !shown.pictures.is_empty() {
        text.push_str("<div class=\"pictures\">\n");
        for picture in &shown.pictures {
            text.push_str(&format!(
                "<figure role=\"img\" aria-label=\"{}\">\n{picture}\n</figure>\n",
                escaped(&exhibit.place)
            ));
        }
        text.push_str("</div>\n");
    }
    if let Some(table) = &shown.text {
        text.push_str(&format!("<pre>{}</pre>\n", escaped(table)));
    }
    let of_exhibit = |one: &&Checked| one.paper == *paper && one.claim.exhibits.first() == Some(&exhibit.name);
    let own: Vec<&Checked> = checked.iter().filter(of_exhibit).collect();
    if !own.is_empty() {
        text.push_str(&claims(&own));
    }
    text.push_str(&format!("<p class=\"made\"><code>batchlab reproduce {} {}</code>", paper.name(), exhibit.name));
    if let Some(numbers) = &shown.numbers {
        text.push_str(&format!(" · <a href=\"{0}\">{0}</a>", escaped(numbers)));
    }
    text + "</p>\n</article>\n"
}

fn claims(checked: &[&Checked]) -> String {
    let mut text = String::from(
        "<div class=\"wide\"><table class=\"claims\">\n<tr><th>verdict</th><th>claim</th><th>paper</th><th>ours</th>\
         <th>gap</th></tr>\n",
    );
    for one in checked {
        let Checked { claim, verdict, .. } = one;
        let reason = one.reason().map_or(String::new(), |reason| format!("<p class=\"why\">{}.</p>", escaped(reason)));
        text.push_str(&format!(
            "<tr><td>{}</td><td>{} <span class=\"id\">{}, {}, {}</span>{reason}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            chip(verdict.word),
            escaped(&claim.what),
            escaped(&claim.place),
            claim.kind.name(),
            claim.id,
            escaped(&claim.paper),
            escaped(&verdict.ours),
            escaped(&verdict.gap_text()),
        ));
    }
    text + "</table></div>\n"
}

fn chip(word: Word) -> String {
    format!("<span class=\"chip {0}\">{0}</span>", word.name())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::Verdict;

    #[test]
    fn a_page_shows_each_figure_with_its_claims_and_its_command() {
        let paper = Paper::BatchMaker;
        let exhibit = paper.exhibits().iter().find(|exhibit| exhibit.name == "fig7a").unwrap();
        let shown = Shown {
            paper,
            exhibit,
            pictures: vec!["<svg></svg>".into()],
            text: Some("a < b".into()),
            numbers: Some("batchmaker/fig7a/summary.csv".into()),
        };
        let claim = paper.claims().iter().find(|claim| claim.id == "bm-lstm-peak-base").unwrap();
        let verdict = Verdict { ours: "9,216 req/s".into(), gap: Some(-42.4), word: Word::Direction, reason: None };
        let page = html(&[shown], &[Checked { paper, claim, verdict }]);
        for part in [
            "<article id=\"batchmaker-fig7a\">",
            "<svg></svg>",
            "a &lt; b",
            "<code>batchlab reproduce batchmaker fig7a</code>",
            "16,000 req/s",
            "9,216 req/s",
            "-42.4 %",
            "<span class=\"chip direction\">direction</span>",
            "By the rules of section 7.1",
            "</html>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("http"), "a page that works offline loads nothing");
    }
}
