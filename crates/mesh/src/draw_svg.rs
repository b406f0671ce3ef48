//! Drawings as SVG documents that need nothing beside them.

use std::fmt::Write;

use crate::draw::{Drawing, Grid};

/// Light fills, for dark letters; neighbours in the list differ well.
const FILLS: [&str; 12] = [
    "#9cd3ff", "#ffd98a", "#a8edb8", "#ffb3cf", "#d3b8ff", "#fff3a1", "#9df0ea", "#ffc3a0", "#b5d3a7",
    "#c6cdf5", "#f3d6b0", "#d8f2c0",
];
/// What a cell without a colour of its own is filled with.
const NO_COLOR: &str = "#e7ecf1";

// In pixels. A character of a monospaced font is about 0.6 of its size wide; a little more is safe.
const FONT_SIZE: usize = 13;
const CHAR_WIDTH: usize = 8;
const LINE_HEIGHT: usize = 20;
const CELL_HEIGHT: usize = 28;
const MARGIN: usize = 12;

/// Letters and lines; the page behind is drawn too, since what is around the picture may be dark or light.
const STYLE: &str = "\
.page{fill:#ffffff}text{fill:#1f2328}.cell{stroke:#57606a;stroke-width:1}.id{fill:#1f2328;text-anchor:middle}\
.column{text-anchor:middle}.row{text-anchor:end}\
@media (prefers-color-scheme: dark){.page{fill:#0d1117}text{fill:#e6edf3}.id{fill:#1f2328}}";

/// A document under construction: its elements, and how far they reach.
#[derive(Default)]
struct Canvas {
    elements: String,
    right: usize,
    bottom: usize,
}

/// The drawing as an SVG document.
pub(crate) fn svg_text(drawing: &Drawing) -> String {
    let mut canvas = Canvas { bottom: MARGIN, ..Canvas::default() };
    for line in &drawing.heading {
        canvas.line(line);
    }
    for grid in &drawing.grids {
        if let Some(title) = &grid.title {
            canvas.line(title);
        }
        canvas.grid(grid);
    }
    if let Some(footer) = &drawing.footer {
        canvas.line(footer);
    }
    let (width, height) = (canvas.right + MARGIN, canvas.bottom + MARGIN);
    let title = escape(drawing.heading.first().map_or("", String::as_str));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" \
         font-size=\"{FONT_SIZE}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
        canvas.elements
    )
}

impl Canvas {
    /// A line of text below all else.
    fn line(&mut self, line: &str) {
        self.bottom += LINE_HEIGHT;
        self.right = self.right.max(MARGIN + text_width(line));
        self.text("line", MARGIN, self.bottom - LINE_HEIGHT / 3, line);
    }

    fn text(&mut self, class: &str, x: usize, baseline: usize, text: &str) {
        if !text.is_empty() {
            let text = escape(text);
            self.write(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{baseline}\">{text}</text>"));
        }
    }

    fn write(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.elements, "{element}").expect("a string takes all that is written to it");
    }

    /// A grid below all else.
    fn grid(&mut self, grid: &Grid) {
        let margin = grid.row_labels.iter().map(|label| text_width(label)).max().unwrap_or(0);
        let gap = if margin > 0 { MARGIN / 2 } else { 0 };
        let left = MARGIN + margin + gap;
        let has_labels = grid.column_labels.iter().any(|label| !label.is_empty());
        let top = self.bottom + if has_labels { LINE_HEIGHT } else { MARGIN / 2 };
        let baseline = |row: usize| top + row * CELL_HEIGHT + CELL_HEIGHT * 2 / 3;
        let mut x = left;
        for (column, label) in grid.column_labels.iter().enumerate() {
            let texts = grid.cells.iter().map(|row| &row[column].text).chain([label]);
            let width = texts.map(|text| text_width(text)).max().unwrap_or(0) + 2 * MARGIN;
            self.text("column", x + width / 2, top - LINE_HEIGHT / 3, label);
            for (row, cells) in grid.cells.iter().enumerate() {
                let (cell, y) = (&cells[column], top + row * CELL_HEIGHT);
                let fill = cell.color.map_or(NO_COLOR, |color| FILLS[color % FILLS.len()]);
                self.write(format_args!(
                    "<rect class=\"cell\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL_HEIGHT}\" \
                     fill=\"{fill}\"/>"
                ));
                self.text("id", x + width / 2, baseline(row), &cell.text);
            }
            x += width;
        }
        for (row, label) in grid.row_labels.iter().enumerate() {
            self.text("row", left - gap, baseline(row), label);
        }
        self.right = self.right.max(x);
        self.bottom = top + grid.cells.len() * CELL_HEIGHT + MARGIN / 2;
    }
}

fn text_width(text: &str) -> usize {
    text.chars().count() * CHAR_WIDTH
}

/// Text as it has to be written between tags.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
