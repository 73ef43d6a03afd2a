//! Pieces of HTML.

use crate::base::error::printable;

/// A text in HTML.
pub fn escape(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// A table of HTML. A click on a heading sorts the lines.
pub fn html_table(class: &str, headings: &[String], lines: &[Vec<String>]) -> String {
    let mut head = String::new();
    for heading in headings {
        head += &format!("<th scope=\"col\"><button type=\"button\">{heading}</button></th>");
    }
    let mut body = String::new();
    for line in lines {
        let cells: String = line.iter().map(|cell| html_cell(cell)).collect();
        body += &format!("<tr>{cells}</tr>\n");
    }
    format!(
        "<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

/// The number of lines from the first on whose rows take at most this many bytes in a table of HTML.
pub fn lines_within(lines: &[Vec<String>], bytes: usize) -> usize {
    let mut left = bytes;
    for (place, line) in lines.iter().enumerate() {
        let mut row = ROW_BYTES;
        for cell in line {
            row += html_cell(cell).len();
        }
        match left.checked_sub(row) {
            Some(rest) => left = rest,
            None => return place,
        }
    }
    lines.len()
}

/// The bytes of a row of a table without its cells.
const ROW_BYTES: usize = "<tr></tr>\n".len();

/// A cell of a table. Numbers are aligned on the right.
fn html_cell(cell: &str) -> String {
    let is_number = cell.starts_with(|c: char| c.is_ascii_digit() || "+-±".contains(c));
    if is_number {
        format!("<td class=\"number\">{cell}</td>")
    } else {
        format!("<td>{cell}</td>")
    }
}

/// The cells of a table of texts, in HTML.
pub fn escape_cells(lines: &[Vec<String>]) -> Vec<Vec<String>> {
    lines
        .iter()
        .map(|line| line.iter().map(|cell| escape(cell)).collect())
        .collect()
}

/// A list of names with texts. Names whose texts are empty are left out.
pub fn facts(facts: &[(&str, String)]) -> String {
    let mut items = String::new();
    for (name, text) in facts {
        if !text.is_empty() {
            items += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(text));
        }
    }
    format!("<dl>\n{items}</dl>\n")
}

/// A list of texts that a reader must not miss.
pub fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut items = String::new();
    for note in notes {
        items += &format!("<li>{}</li>\n", escape(note));
    }
    format!("<ul class=\"notes\">\n{items}</ul>\n")
}

/// HTML that a click on its title shows.
pub fn fold(title: &str, html: &str) -> String {
    format!(
        "<details><summary>{}</summary>\n{html}</details>\n",
        escape(title)
    )
}
