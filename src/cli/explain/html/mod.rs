//! An explanation as one page of HTML that needs nothing beside itself.
//!
//! Everything can be read without the script, which sorts tables, and without colours, which words stand beside. All
//! text is escaped in `markup`, since names come from programs of anybody.

mod compare;
mod markup;
mod memory;
mod tables;
mod timeline;
mod words;

#[cfg(test)]
mod tests;

use shardwright_mesh::{Mesh, svg_mesh};
use shardwright_partition::Bytes;
use shardwright_partition::explain::{Explanation, Verdict};

use super::Explained;
use markup::{Cell, escape, svg_image};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the page tells beside the explanation.
pub(super) struct Surroundings<'a> {
    /// The devices that the program was compiled for.
    pub(super) mesh: &'a Mesh,
    /// Lines about the plugin and the platform.
    pub(super) opening: &'a [String],
}

/// The page of an explanation. Of two lowerings, it has what they have not in common, and the rest of the explicit one.
pub(super) fn page(explained: &Explained<'_>, surroundings: &Surroundings<'_>) -> String {
    let (explanation, compared) = match explained {
        Explained::One(explanation) => (*explanation, String::new()),
        Explained::Both { comparison, explicit, .. } => (*explicit, compare::lowerings(comparison)),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}{}{compared}{}</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        header(explanation, surroundings),
        verdict(&explanation.verdict),
        sections(explanation),
        title = escape(format!("{}: what the compiler made of it", explanation.program)),
    )
}

fn header(explanation: &Explanation, surroundings: &Surroundings<'_>) -> String {
    let mesh = explanation.mesh.to_string();
    let opening: String = surroundings.opening.iter().map(|line| format!("{}\n", escape(line))).collect();
    format!(
        "<header>\n<h1>{}</h1>\n<p class=\"small\">What the compiler made of it, by shardwright {}.</p>\n\
         <pre>{opening}mesh      {}</pre>\n<figure class=\"mesh\">{}</figure>\n</header>\n",
        escape(&explanation.program),
        env!("CARGO_PKG_VERSION"),
        escape(&mesh),
        svg_image(&svg_mesh(surroundings.mesh), &format!("the devices of the mesh {mesh}, by their ids")),
    )
}

fn sections(explanation: &Explanation) -> String {
    let sections = [
        ("Traffic", tables::traffic(explanation)),
        ("Collectives over the program", timeline::timeline(explanation)),
        ("Memory of a device", memory::memory(explanation)),
        ("Units", tables::units(explanation)),
        ("Parameters", tables::parameters(explanation)),
        ("Collectives", tables::collectives(explanation)),
        ("Not known", notes(explanation)),
    ];
    sections.map(|(title, content)| section(title, &content)).concat()
}

/// A section, if there is something in it.
fn section(title: &str, content: &str) -> String {
    match content {
        "" => String::new(),
        content => format!("<section>\n<h2>{title}</h2>\n{content}</section>\n"),
    }
}

fn verdict(verdict: &Verdict) -> String {
    let Verdict { grade, summary, next_step } = verdict;
    let class = words::grade_class(*grade);
    let next = next_step.as_ref();
    let next = next.map(|next| format!("<p><b>Next:</b> {}</p>\n", escape(next))).unwrap_or_default();
    format!(
        "<section class=\"verdict {class}\">\n<p><span class=\"badge {class}\">{grade}</span> {}</p>\n{next}</section>\n",
        escape(summary)
    )
}

fn notes(explanation: &Explanation) -> String {
    if explanation.notes.is_empty() {
        return String::new();
    }
    let notes: String = explanation.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    format!("<ul>\n{notes}</ul>\n")
}

/// An amount of bytes, as a cell.
fn bytes(bytes: u64) -> Cell {
    Cell::Number { value: bytes as f64, text: Bytes(bytes).to_string() }
}
