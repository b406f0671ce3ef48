//! Drawings as text for a terminal.

use crate::draw::{Cell, DrawStyle, Drawing, Grid};

/// Light backgrounds among the 256 colours, for black letters; neighbours in the list differ well.
const BACKGROUNDS: [u8; 12] = [117, 222, 157, 218, 183, 229, 159, 216, 151, 189, 223, 194];

/// The drawing, each line with a newline at its end.
pub(crate) fn terminal_text(drawing: &Drawing, style: DrawStyle) -> String {
    let mut text = String::new();
    let mut line = |line: &str| text += &format!("{line}\n");
    drawing.heading.iter().for_each(|heading| line(heading));
    for grid in &drawing.grids {
        grid.title.iter().for_each(|title| line(title));
        grid_lines(grid, style).iter().for_each(|grid_line| line(grid_line));
    }
    drawing.footer.iter().for_each(|footer| line(footer));
    text
}

fn grid_lines(grid: &Grid, style: DrawStyle) -> Vec<String> {
    let margin = max_width(&grid.row_labels);
    let widths: Vec<_> = (0..grid.column_labels.len())
        .map(|column| {
            let cells = grid.cells.iter().map(|row| &row[column].text);
            max_width(cells.chain([&grid.column_labels[column]]))
        })
        .collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let bars: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        line("", margin, &format!("{left}{}{right}", bars.join(middle)))
    };
    let mut lines = Vec::new();
    if grid.column_labels.iter().any(|label| !label.is_empty()) {
        let labels = grid.column_labels.iter().zip(&widths);
        let labels: Vec<_> = labels.map(|(label, width)| format!("{label:<width$}")).collect();
        lines.push(line("", margin, &format!("  {}", labels.join("   "))));
    }
    lines.push(rule("┌", "┬", "┐"));
    for (row_idx, (row, label)) in grid.cells.iter().zip(&grid.row_labels).enumerate() {
        if row_idx > 0 {
            lines.push(rule("├", "┼", "┤"));
        }
        let cells: Vec<_> =
            row.iter().zip(&widths).map(|(cell, width)| cell_text(cell, *width, style)).collect();
        lines.push(line(label, margin, &format!("│{}│", cells.join("│"))));
    }
    lines.push(rule("└", "┴", "┘"));
    lines
}

fn cell_text(cell: &Cell, width: usize, style: DrawStyle) -> String {
    let text = format!(" {:<width$} ", cell.text);
    match (style, cell.color) {
        (DrawStyle::Ansi, Some(color)) => {
            let background = BACKGROUNDS[color % BACKGROUNDS.len()];
            format!("\u{1b}[38;5;16;48;5;{background}m{text}\u{1b}[0m")
        }
        _ => text,
    }
}

/// A line behind its label, without blanks at its end.
fn line(label: &str, margin: usize, content: &str) -> String {
    let gap = if margin == 0 { "" } else { " " };
    format!("{label:<margin$}{gap}{content}").trim_end().into()
}

fn max_width<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
}
