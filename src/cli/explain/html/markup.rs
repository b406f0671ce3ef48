//! Pieces of HTML in which whatever comes from a program is text.

use std::fmt::{Display, Write};

/// Text between tags or in an attribute: names of foreign programs may hold anything. What no document may hold, such
/// as a null character, is shown as a box.
pub(super) fn escape(text: impl Display) -> String {
    let mut escaped = String::new();
    for character in text.to_string().chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(character),
            other if other.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A picture that is a document of its own, so that the styles in it touch nothing else.
pub(super) fn svg_image(svg: &str, alt: &str) -> String {
    let mut data = String::new();
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b' '
            | b'='
            | b'/'
            | b':'
            | b'.'
            | b','
            | b'-'
            | b';' => {
                data.push(char::from(byte));
            }
            _ => write!(data, "%{byte:02X}").expect("a string takes all that is written to it"),
        }
    }
    format!("<img src=\"data:image/svg+xml,{data}\" alt=\"{}\">", escape(alt))
}

/// A table that the page's script can sort.
pub(super) struct Table {
    caption: &'static str,
    columns: &'static [Column],
    rows: String,
    count: usize,
}

/// A column, by its heading.
pub(super) enum Column {
    /// Of text.
    Text(&'static str),
    /// Of numbers, which stand at the right.
    Number(&'static str),
}

/// What stands in a cell.
pub(super) enum Cell {
    /// A text.
    Text(String),
    /// A name of a program.
    Name(String),
    /// A number with the text for it.
    Number { value: f64, text: String },
    /// A word in a coloured box of this class, and the order in which such words stand.
    Badge { class: &'static str, word: String, order: usize },
}

impl Table {
    pub(super) fn new(caption: &'static str, columns: &'static [Column]) -> Table {
        Table { caption, columns, rows: String::new(), count: 0 }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows += "<tr>";
        cells.into_iter().for_each(|cell| self.rows += &cell.html());
        self.rows += "</tr>\n";
        self.count += 1;
    }

    /// The table; nothing where it has no rows.
    pub(super) fn html(&self) -> String {
        if self.count == 0 {
            return String::new();
        }
        let heading = |column: &Column| match column {
            Column::Text(heading) => format!("<th scope=\"col\">{}</th>", escape(heading)),
            Column::Number(heading) => format!("<th scope=\"col\" class=\"n\">{}</th>", escape(heading)),
        };
        let headings: String = self.columns.iter().map(heading).collect();
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{caption}\"><table>\n\
             <caption>{caption}</caption>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
            self.rows,
            caption = escape(self.caption),
        )
    }
}

impl Cell {
    fn html(&self) -> String {
        match self {
            Cell::Text(text) => format!("<td{}>{}</td>", class("", text), escape(text)),
            Cell::Name(name) => format!("<td{}>{}</td>", class("c", name), escape(name)),
            Cell::Number { value, text } => {
                format!("<td class=\"n\" data-v=\"{value}\">{}</td>", escape(text))
            }
            Cell::Badge { class, word, order } => {
                format!("<td data-v=\"{order}\"><span class=\"badge {class}\">{}</span></td>", escape(word))
            }
        }
    }
}

/// The class of a cell; long texts are broken into lines.
fn class(class: &str, text: &str) -> String {
    const LONG: usize = 120;
    let long = if text.chars().count() > LONG { " long" } else { "" };
    match format!("{class}{long}").trim() {
        "" => String::new(),
        classes => format!(" class=\"{classes}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_markup() {
        let hostile = "<script>alert(\"1\")</script>&'\u{0}";
        let expected = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\u{fffd}";
        assert_eq!(escape(hostile), expected);
        let image = svg_image("<svg>\"#%</svg>", hostile);
        assert_eq!(
            image,
            format!("<img src=\"data:image/svg+xml,%3Csvg%3E%22%23%25%3C/svg%3E\" alt=\"{expected}\">")
        );
    }
}
