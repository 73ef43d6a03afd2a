//! Pages: one HTML file with tables that sort and figures that show values. It loads nothing else.

mod html;
mod svg;

use crate::base::clock;
use crate::lab::plot::canvas::Canvas;
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::table::ResultTable;
use html::escape_cells;
use html::lines_within;
pub use html::{escape, facts, fold, html_table, notes};

/// A section of a page.
#[derive(Clone, Debug)]
pub struct PageSection {
    id: String,
    title: String,
    /// The content in HTML, like all texts that are not [escaped](html::escape).
    body: String,
    /// The links to the parts of the body.
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

    /// Adds an article with a heading, unless its HTML is empty.
    pub fn add(&mut self, name: &str, title: &str, html: &str) {
        if html.is_empty() {
            return;
        }
        let id = format!("{}-{name}", self.id);
        self.body += &format!(
            "<article id=\"{}\">\n<h3>{}</h3>\n{html}</article>\n",
            escape(&id),
            escape(title)
        );
        self.links += &link(&id, title, "");
    }
}

/// A link to a part of the page. `below` is the HTML of the links below it.
fn link(id: &str, title: &str, below: &str) -> String {
    format!(
        "<li><a href=\"#{}\">{}</a>{below}</li>\n",
        escape(id),
        escape(title)
    )
}

/// A page with links to all sections. `lead` is the HTML below the title.
pub fn page(title: &str, lead: &str, sections: &[PageSection]) -> String {
    let mut all_links = String::new();
    let mut bodies = String::new();
    for section in sections {
        let below = if section.links.is_empty() {
            String::new()
        } else {
            format!("\n<ul>\n{}</ul>", section.links)
        };
        all_links += &link(&section.id, &section.title, &below);
        bodies += &format!(
            "<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n",
            escape(&section.id),
            escape(&section.title),
            section.body
        );
    }
    format!(
        include_str!("page.html"),
        title = escape(title),
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

/// The table of a summary below the meaning of its marks, and below more notes. Of a table that takes more than these
/// bytes, the first lines are shown.
pub fn summary(rows: &[SummaryRow], more: &[String], bytes: usize) -> String {
    let table = ResultTable::new(rows);
    let [names, units] = &table.headings;
    let mut headings = Vec::new();
    for (name, unit) in names.iter().zip(units) {
        headings.push(format!("{}<small>{}</small>", escape(name), escape(unit)));
    }
    let mut all_notes = table.notes;
    if table
        .lines
        .iter()
        .flatten()
        .any(|cell| cell.starts_with("n<"))
    {
        all_notes.push("n<1000: too few requests for this quantile, which needs 1000".into());
    }
    all_notes.extend_from_slice(more);
    let lines = escape_cells(&table.lines);
    let shown = lines_within(&lines, bytes);
    all_notes.extend(note_on_lines(shown, lines.len(), "summary.csv"));
    notes(&all_notes) + &html_table("", &headings, &lines[..shown])
}

/// A table of texts. If it takes more than these bytes, the first lines are shown, below a note that names the file with
/// all of them.
pub fn table(
    headings: &[impl AsRef<str>],
    lines: &[Vec<String>],
    bytes: usize,
    file: &str,
) -> String {
    let lines = escape_cells(lines);
    let headings: Vec<String> = headings
        .iter()
        .map(|heading| escape(heading.as_ref()))
        .collect();
    let shown = lines_within(&lines, bytes);
    let note: Vec<String> = note_on_lines(shown, lines.len(), file)
        .into_iter()
        .collect();
    notes(&note) + &html_table("", &headings, &lines[..shown])
}

/// The note on a table that does not show all lines.
fn note_on_lines(shown: usize, all: usize, file: &str) -> Option<String> {
    if shown == all {
        return None;
    }
    Some(format!(
        "the first {shown} of {all} rows, for the size of the page; {file} has all"
    ))
}

/// A figure with its caption, which may be empty.
pub fn figure(caption: &str, canvas: &Canvas) -> String {
    let svg = svg::svg(canvas, caption);
    let below = if caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>\n", escape(caption))
    };
    format!("<figure>\n{svg}{below}</figure>\n")
}

/// Several figures beside each other, or an empty text without any.
pub fn figures(all: &[String]) -> String {
    if all.is_empty() {
        return String::new();
    }
    format!("<div class=\"figures\">\n{}</div>\n", all.concat())
}

/// The date of a number of seconds since the start of 1970, such as `2026-11-22 17:10 UTC`.
pub fn date(unix_s: u64) -> String {
    // This is Howard Hinnant's days_from_civil, reversed: years begin in March, so that leap days end them.
    let days = unix_s / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
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
    fn a_table_of_a_size_keeps_its_first_lines() {
        let mut lines = Vec::new();
        for number in 0..100 {
            lines.push(vec![number.to_string(), "a & b".repeat(number % 7)]);
        }
        let of_size = |bytes| table(&["n", "text"], &lines, bytes, "all.csv");
        let whole = of_size(usize::MAX);
        assert_eq!(of_size(whole.len()), whole);
        let head = of_size(0).len();
        for bytes in (0..whole.len()).step_by(97) {
            let html = of_size(bytes);
            assert!(html.len() <= bytes + head + 2, "{bytes}: {}", html.len());
            let rows = html.matches("<tr>").count() - 1;
            let note = format!("the first {rows} of 100 rows");
            assert!(rows == 100 || html.contains(&note), "{html}");
        }
    }

    #[test]
    fn labels_cannot_become_html() {
        let label = "<script>alert(1)</script> \"'&";
        let body = [
            table(&[label], &[vec![label.into()]], usize::MAX, label),
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
