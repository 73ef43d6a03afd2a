//! Pages: one HTML file with tables that sort and figures that show values. It loads nothing from anywhere.

mod svg;

use crate::base::clock;
use crate::base::error::printable;
use crate::lab::plot::canvas::Canvas;
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::table::ResultTable;

#[derive(Clone, Debug)]
pub struct PageSection {
    id: String,
    title: String,
    /// HTML, like all texts that are not [`escaped`].
    body: String,
    /// To the parts of the body.
    links: String,
}

impl PageSection {
    pub fn new(id: &str, title: &str) -> PageSection {
        PageSection {
            id: id.into(),
            title: title.into(),
            body: String::new(),
            links: String::new(),
        }
    }

    /// An article with a heading, unless its HTML is empty.
    pub fn add(&mut self, name: &str, title: &str, html: &str) {
        if !html.is_empty() {
            let (id, heading) = (format!("{}-{name}", self.id), escaped(title));
            self.body += &format!(
                "<article id=\"{}\">\n<h3>{heading}</h3>\n{html}</article>\n",
                escaped(&id)
            );
            self.links += &link(&id, title, "");
        }
    }
}

fn link(id: &str, title: &str, below: &str) -> String {
    format!(
        "<li><a href=\"#{}\">{}</a>{below}</li>\n",
        escaped(id),
        escaped(title)
    )
}

/// With links to all sections. `lead`: the HTML below the title.
pub fn page(title: &str, lead: &str, sections: &[PageSection]) -> String {
    let (mut all_links, mut bodies) = (String::new(), String::new());
    for PageSection {
        id,
        title,
        body,
        links,
    } in sections
    {
        let links = if links.is_empty() {
            String::new()
        } else {
            format!("\n<ul>\n{links}</ul>")
        };
        all_links += &link(id, title, &links);
        bodies += &format!(
            "<section id=\"{}\">\n<h2>{}</h2>\n{body}</section>\n",
            escaped(id),
            escaped(title)
        );
    }
    format!(
        include_str!("page.html"),
        title = escaped(title),
        style = include_str!("page.css"),
        links = all_links,
        lead = lead,
        bodies = bodies,
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("BATCHLAB_COMMIT"),
        date = date(clock::unix_seconds()),
        script = include_str!("page.js"),
    )
}

pub fn escaped(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Of texts. A click on a heading sorts the lines.
pub fn table(headings: &[impl AsRef<str>], lines: &[Vec<String>]) -> String {
    let headings: Vec<String> = headings
        .iter()
        .map(|heading| escaped(heading.as_ref()))
        .collect();
    html_table("", &headings, &all_escaped(lines))
}

/// As [`table`], of HTML.
pub fn html_table(class: &str, headings: &[String], lines: &[Vec<String>]) -> String {
    let heading = |heading: &String| {
        format!("<th scope=\"col\"><button type=\"button\">{heading}</button></th>")
    };
    let cell =
        |cell: &String| match cell.starts_with(|c: char| c.is_ascii_digit() || "+-±".contains(c)) {
            true => format!("<td class=\"number\">{cell}</td>"),
            false => format!("<td>{cell}</td>"),
        };
    let line =
        |line: &Vec<String>| format!("<tr>{}</tr>\n", line.iter().map(cell).collect::<String>());
    format!(
        "<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
        headings.iter().map(heading).collect::<String>(),
        lines.iter().map(line).collect::<String>()
    )
}

/// The table of a summary below the meaning of its marks, and below more notes.
pub fn summary(rows: &[SummaryRow], more: &[String]) -> String {
    let ResultTable {
        headings: [names, units],
        lines,
        notes: marks,
    } = ResultTable::of(rows);
    let heading = |(name, unit): (&String, &String)| {
        format!("{}<small>{}</small>", escaped(name), escaped(unit))
    };
    let headings: Vec<String> = names.iter().zip(&units).map(heading).collect();
    let short = lines.iter().flatten().any(|cell| cell.starts_with("n<"));
    let short =
        short.then(|| "n<1000: too few requests for this quantile, which needs 1000".to_string());
    notes(&[marks, short.into_iter().collect(), more.to_vec()].concat())
        + &html_table("", &headings, &all_escaped(&lines))
}

fn all_escaped(lines: &[Vec<String>]) -> Vec<Vec<String>> {
    lines
        .iter()
        .map(|line| line.iter().map(|cell| escaped(cell)).collect())
        .collect()
}

/// With captions, which may be empty.
pub fn figures<'a>(canvases: impl IntoIterator<Item = (&'a str, &'a Canvas)>) -> String {
    let figure = |(caption, canvas): (&str, _)| {
        let below = escaped(caption);
        let below = if below.is_empty() {
            below
        } else {
            format!("<figcaption>{below}</figcaption>\n")
        };
        format!("<figure>\n{}{below}</figure>\n", svg::svg(canvas, caption))
    };
    let figures: String = canvases.into_iter().map(figure).collect();
    if figures.is_empty() {
        figures
    } else {
        format!("<div class=\"figures\">\n{figures}</div>\n")
    }
}

/// Names with texts, without the empty ones.
pub fn facts(facts: &[(&str, String)]) -> String {
    let fact = |(name, text): &(&str, String)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(text))
    };
    let facts: String = facts
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(fact)
        .collect();
    format!("<dl>\n{facts}</dl>\n")
}

/// Texts that a reader must not miss.
pub fn notes(notes: &[String]) -> String {
    let notes: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>\n", escaped(note)))
        .collect();
    if notes.is_empty() {
        notes
    } else {
        format!("<ul class=\"notes\">\n{notes}</ul>\n")
    }
}

pub fn folded(title: &str, html: &str) -> String {
    format!(
        "<details><summary>{}</summary>\n{html}</details>\n",
        escaped(title)
    )
}

/// Of seconds since the start of 1970: `2026-11-22 17:10 UTC`.
pub fn date(unix_s: u64) -> String {
    // Howard Hinnant's days_from_civil, reversed: years begin in March, so that leap days end them.
    let days = unix_s / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        unix_s / 3600 % 24,
        unix_s / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_leap_days() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(unix_s), text);
        }
    }

    #[test]
    fn labels_cannot_become_html() {
        let label = "<script>alert(1)</script> \"'&";
        let body = [
            table(&[label], &[vec![label.into()]]),
            facts(&[(label, label.into())]),
            notes(&[label.into()]),
        ];
        let mut section = PageSection::new(label, label);
        section.add("p", label, &body.concat());
        let page = page(label, "", &[section]);
        assert_eq!(
            page.matches("alert(1)").count(),
            page.matches("&lt;script&gt;alert(1)&lt;/script&gt; &quot;&#39;&amp;")
                .count()
        );
        assert_eq!(page.matches("<script").count(), 1, "its own");
    }
}
