//! The page with every exhibit beside its claims: one HTML file that loads nothing else.

use super::{Checked, Exhibit, Paper, Word, report};

/// An exhibit on the page.
#[derive(Clone, Debug)]
pub struct Shown {
    pub paper: Paper,
    pub exhibit: &'static Exhibit,
    /// Its pictures, as SVG documents.
    pub pictures: Vec<String>,
    /// Shown below the pictures: a table, a note, or why there is no picture.
    pub text: Option<String>,
    /// The file of its numbers, relative to the page.
    pub numbers: Option<String>,
}

/// The whole page, with the claims of its papers.
pub fn html(shown: &[Shown], checked: &[Checked]) -> String {
    let papers: Vec<Paper> =
        Paper::ALL.into_iter().filter(|paper| shown.iter().any(|one| one.paper == *paper)).collect();
    let mut page = String::from(HEAD);
    page.push_str("<header>\n<h1>The papers' figures, reproduced</h1>\n<p>batchlab runs each figure as a scenario on a simulated \
        GPU. A claim is a value that a paper states; the gap is the difference of ours from the paper's, in percent.</p>\n");
    page.push_str(&totals(&papers, checked));
    page.push_str(LEGEND);
    page.push_str("</header>\n");
    for paper in papers {
        page.push_str(&format!("<section>\n<h2>{}</h2>\n", escaped(paper.title())));
        for one in shown.iter().filter(|one| one.paper == paper) {
            page.push_str(&article(one, checked));
        }
        let without: Vec<&Checked> =
            checked.iter().filter(|one| one.paper == paper && one.claim.exhibits.is_empty()).collect();
        if !without.is_empty() {
            page.push_str("<article>\n<h3>Claims without a figure</h3>\n");
            page.push_str(&claims(&without));
            page.push_str("</article>\n");
        }
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// The number of claims by paper and verdict, and the totals.
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
    let lines: Vec<String> = report::summary(checked).lines().map(escaped).collect();
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

/// The word of a verdict as a coloured label.
fn chip(word: Word) -> String {
    format!("<span class=\"chip {0}\">{0}</span>", word.name())
}

/// Text with HTML's special characters escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const LEGEND: &str = "<details><summary>Meaning of the verdicts</summary>\n<dl>\n\
    <dt><span class=\"chip holds\">holds</span></dt><dd>Exact values are equal, numbers differ by at most 15 %, rankings are the paper's, magnitudes \
    differ by at most half an order</dd>\n\
    <dt><span class=\"chip direction\">direction</span></dt><dd>The paper's conclusion holds, but the number differs by more than 15 %</dd>\n\
    <dt><span class=\"chip off\">off</span></dt><dd>The paper's conclusion does not hold</dd>\n\
    <dt><span class=\"chip derived\">derived</span></dt><dd>A row of the cost table was made from this value, so it is not \
    counted</dd>\n\
    <dt><span class=\"chip not-run\">not-run</span></dt><dd>Not measured: it needs data that is not available, or a real machine</dd>\n\
    </dl></details>\n";

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<title>batchlab: the papers' figures, reproduced</title>\n<style>\n\
:root { --ink: #1d2430; --soft: #5b6675; --line: #dfe3e8; --paper: #ffffff; --ground: #f5f6f8; }\n\
* { box-sizing: border-box; }\n\
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }\n\
main { max-width: 70rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }\n\
h1 { font-size: 1.7rem; margin: 0 0 .5rem; }\n\
h2 { font-size: 1.25rem; margin: 2.5rem 0 1rem; padding-bottom: .4rem; border-bottom: 2px solid var(--line); }\n\
h3 { font-size: 1.05rem; margin: 0; }\n\
article { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 1.1rem 1.3rem; margin: 0 0 1.2rem; }\n\
article > p { margin: .2rem 0 .6rem; color: var(--soft); max-width: 60rem; }\n\
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; margin: .5rem 0 1rem; }\n\
figure { margin: 0; max-width: 34rem; flex: 1 1 24rem; }\n\
figure svg { width: 100%; height: auto; display: block; }\n\
.wide { overflow-x: auto; }\n\
table { border-collapse: collapse; font-size: .9rem; }\n\
th { text-align: left; font-weight: 600; color: var(--soft); }\n\
th, td { padding: .35rem .8rem .35rem 0; vertical-align: top; border-top: 1px solid var(--line); }\n\
tr:first-child > th { border-top: none; }\n\
.claims { width: 100%; }\n\
.claims td:nth-child(2) { min-width: 18rem; }\n\
.claims td:last-child, .claims td:nth-child(3) { white-space: nowrap; }\n\
.totals td + td, .totals th + th { text-align: center; }\n\
.id { color: var(--soft); font-size: .8rem; }\n\
.why { margin: .25rem 0 0; color: var(--soft); font-size: .85rem; max-width: 42rem; }\n\
.made { font-size: .85rem; }\n\
code, pre { font: .85rem/1.45 ui-monospace, monospace; background: var(--ground); border-radius: 4px; }\n\
code { padding: .1rem .35rem; }\n\
pre { padding: .8rem; overflow-x: auto; }\n\
a { color: #1f5fa8; }\n\
.chip { display: inline-block; min-width: 4.8rem; text-align: center; padding: 0 .5rem; border-radius: 9px; font-size: .8rem; }\n\
.holds { background: #d9f0e0; color: #14532d; }\n\
.direction { background: #fdf0cc; color: #6b4a00; }\n\
.off { background: #f9d9d6; color: #7f1d1d; }\n\
.derived, .not-run { background: #e4e8ee; color: #374151; }\n\
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; font-size: .9rem; }\n\
dd { margin: 0; }\n\
summary { cursor: pointer; color: var(--soft); }\n\
</style>\n</head>\n<body>\n<main>\n";

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
