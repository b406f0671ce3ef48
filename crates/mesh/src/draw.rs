//! Drawings of meshes and shardings: what stands where. [`crate::draw_text`] writes one for a terminal,
//! [`crate::draw_svg`] for a page.

use std::ops::Range;

use crate::draw_svg::svg_text;
use crate::draw_text::terminal_text;
use crate::{AbstractMesh, AxisName, Mesh, NamedSharding, ShardingError};

/// A cell lists at most so many devices.
const MAX_IDS_PER_CELL: usize = 8;
/// A grid has at most so many rows, and as many columns; of more, the first ones and the last are drawn.
const MAX_LINES: usize = 32;
/// Of a mesh of more than two axes at most so many grids are drawn.
const MAX_GRIDS: usize = 8;
/// What stands for all that is not drawn.
const DOTS: &str = "…";

/// How a drawing tells its cells apart: devices of a mesh, or blocks of an array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DrawStyle {
    /// Not at all: text without control sequences, for a file or any terminal.
    #[default]
    Plain,
    /// With a background colour for each, by ANSI sequences for 256 colours. Those far from each other may share
    /// one.
    Ansi,
}

/// Grids under some lines of text.
pub(crate) struct Drawing {
    pub(crate) heading: Vec<String>,
    pub(crate) grids: Vec<Grid>,
    /// Said below the grids where some were left out.
    pub(crate) footer: Option<String>,
}

/// A table of boxes with a label at each row and column. Labels may be empty.
pub(crate) struct Grid {
    pub(crate) title: Option<String>,
    pub(crate) row_labels: Vec<String>,
    pub(crate) column_labels: Vec<String>,
    // One vector per row, as long as there are columns.
    pub(crate) cells: Vec<Vec<Cell>>,
}

pub(crate) struct Cell {
    pub(crate) text: String,
    /// Which of a few colours it has, so that neighbours differ.
    pub(crate) color: Option<usize>,
}

/// Draws a mesh as grids of device ids: the last two axes of more than one device go down and across, and
/// there is one grid for each position along the others. In colour neighbours differ. Every line ends with a
/// newline. Of long axes and of many grids only some are drawn.
///
/// ```text
/// data=2 ↓, fsdp=4 →
///     0   1   2   3
///   ┌───┬───┬───┬───┐
/// 0 │ 0 │ 1 │ 2 │ 3 │
///   ├───┼───┼───┼───┤
/// 1 │ 4 │ 5 │ 6 │ 7 │
///   └───┴───┴───┴───┘
/// ```
pub fn draw_mesh(mesh: &Mesh, style: DrawStyle) -> String {
    terminal_text(&mesh_drawing(mesh), style)
}

/// The drawing of [`draw_mesh`] as an SVG document, in colour, readable on light and dark pages.
pub fn svg_mesh(mesh: &Mesh) -> String {
    svg_text(&mesh_drawing(mesh))
}

/// Draws which devices hold which part of an array of this global shape: rows of the grid are tiles of dim 0,
/// columns tiles of dim 1, both labelled with their index ranges. A cell with several devices is held by
/// each of them. Of a rank above 2 only these two dims are drawn, and a line says so; of many tiles only some.
///
/// ```text
/// (fsdp, -) on data=2, fsdp=2: shape [5, 8], each device stores [3, 8]
///        0..8
///      ┌──────┐
/// 0..3 │ 0, 2 │
///      ├──────┤
/// 3..5 │ 1, 3 │
///      └──────┘
/// ```
///
/// # Errors
///
/// The sharding is over another mesh, or for another rank.
pub fn draw_sharding(
    mesh: &Mesh,
    sharding: &NamedSharding,
    shape: &[usize],
    style: DrawStyle,
) -> Result<String, ShardingError> {
    Ok(terminal_text(&sharding_drawing(mesh, sharding, shape)?, style))
}

/// The drawing of [`draw_sharding`] as an SVG document, in colour, readable on light and dark pages.
///
/// # Errors
///
/// The sharding is over another mesh, or for another rank.
pub fn svg_sharding(mesh: &Mesh, sharding: &NamedSharding, shape: &[usize]) -> Result<String, ShardingError> {
    Ok(svg_text(&sharding_drawing(mesh, sharding, shape)?))
}

fn mesh_drawing(mesh: &Mesh) -> Drawing {
    let axes: Vec<_> = mesh.shape().axes().iter().filter(|(_, size)| *size > 1).cloned().collect();
    let (outer, down, across) = match axes.as_slice() {
        [] => (&[][..], None, None),
        [across] => (&[][..], None, Some(across)),
        [outer @ .., down, across] => (outer, Some(down), Some(across)),
    };
    let axis_text = |axis: &(AxisName, usize)| {
        let arrow = match Some(axis) {
            axis if axis == down => " ↓",
            axis if axis == across => " →",
            _ => "",
        };
        format!("{}={}{arrow}", axis.0, axis.1)
    };
    let heading = mesh.shape().axes().iter().map(axis_text).collect::<Vec<_>>().join(", ");

    let outer = AbstractMesh::new(outer.iter().cloned()).expect("axes of a mesh make a mesh");
    let [n_rows, n_columns] = [down, across].map(|axis| axis.map_or(1, |(_, size)| *size));
    let label = |axis: Option<_>, position: usize| axis.map_or(String::new(), |_| position.to_string());
    let grid = |grid_idx: usize| Grid {
        title: (outer.size() > 1).then(|| position_text(&outer, grid_idx)),
        ..Grid::new(
            [n_rows, n_columns],
            |row| label(down, row),
            |column| label(across, column),
            |row, column| {
                let position = (grid_idx * n_rows + row) * n_columns + column;
                Cell { text: mesh.device_id(position).to_string(), color: Some(color(row, column)) }
            },
        )
    };
    let grids = (0..outer.size().min(MAX_GRIDS)).map(grid).collect();
    let left_out = outer.size().saturating_sub(MAX_GRIDS);
    let footer = (left_out > 0).then(|| format!("{DOTS} and {left_out} more grids"));
    Drawing { heading: vec![heading], grids, footer }
}

fn sharding_drawing(
    mesh: &Mesh,
    sharding: &NamedSharding,
    shape: &[usize],
) -> Result<Drawing, ShardingError> {
    sharding.check_mesh(mesh)?;
    let stored = sharding.shard_shape(shape)?;
    let mut heading = vec![format!("{sharding}: shape {shape:?}, each device stores {stored:?}")];
    if shape.len() > 2 {
        let rank = shape.len();
        heading.push(format!(
            "only dims 0 and 1 of {rank} are drawn; the devices in one cell may differ in the others"
        ));
    }
    // An array of fewer than two dims is drawn as if it had more, each of one tile.
    let first_two =
        |values: Vec<usize>, default| [0, 1].map(|dim| values.get(dim).copied().unwrap_or(default));
    let [n_rows, n_columns] = first_two(sharding.shards_per_dim(), 1);
    // All partitions, those of the first cell first.
    let order = sharding.device_order(2);
    let per_cell = order.len() / n_rows / n_columns;
    let first_of = |row: usize, column: usize| (row * n_columns + column) * per_cell;
    let label = |row, column, dim| {
        range_label(sharding.shard_ranges(order.device(first_of(row, column)), shape).get(dim))
    };
    let grid = Grid::new(
        [n_rows, n_columns],
        |row| label(row, 0, 0),
        |column| label(0, column, 1),
        |row, column| {
            let places = first_of(row, column)..first_of(row, column) + per_cell;
            let ids = places.map(|place| mesh.device_id(order.device(place)));
            Cell { text: ids_text(ids), color: Some(color(row, column)) }
        },
    );
    Ok(Drawing { heading, grids: vec![grid], footer: None })
}

impl Grid {
    /// A grid of so many rows and columns, less those in the middle if there are many.
    fn new(
        [n_rows, n_columns]: [usize; 2],
        row_label: impl Fn(usize) -> String,
        column_label: impl Fn(usize) -> String,
        cell: impl Fn(usize, usize) -> Cell,
    ) -> Self {
        let (rows, columns) = (drawn(n_rows), drawn(n_columns));
        let dots = || Cell { text: DOTS.into(), color: None };
        let label_or_dots = |label: Option<String>| label.unwrap_or_else(|| DOTS.into());
        let row_cells = |row: &Option<usize>| {
            let cell = |column: &Option<usize>| row.zip(*column).map_or_else(dots, |(r, c)| cell(r, c));
            columns.iter().map(cell).collect()
        };
        Self {
            title: None,
            row_labels: rows.iter().map(|row| label_or_dots(row.map(&row_label))).collect(),
            column_labels: columns.iter().map(|column| label_or_dots(column.map(&column_label))).collect(),
            cells: rows.iter().map(row_cells).collect(),
        }
    }
}

/// Which of so many lines are drawn; `None` is where some are left out.
fn drawn(n_lines: usize) -> Vec<Option<usize>> {
    match n_lines {
        ..=MAX_LINES => (0..n_lines).map(Some).collect(),
        _ => (0..MAX_LINES - 2).map(Some).chain([None, Some(n_lines - 1)]).collect(),
    }
}

/// A position in a mesh: `data=0, fsdp=3`.
fn position_text(mesh: &AbstractMesh, partition: usize) -> String {
    let names = mesh.axis_names().enumerate();
    let parts = names.map(|(idx, name)| format!("{name}={}", mesh.coordinate(partition, idx)));
    parts.collect::<Vec<_>>().join(", ")
}

fn range_label(range: Option<&Range<usize>>) -> String {
    match range {
        None => String::new(),
        Some(range) if range.is_empty() => "empty".into(),
        Some(range) => format!("{range:?}"),
    }
}

fn ids_text(ids: impl ExactSizeIterator<Item = usize>) -> String {
    let n_ids = ids.len();
    let listed: Vec<_> = ids.take(MAX_IDS_PER_CELL).map(|id| id.to_string()).collect();
    let listed = listed.join(", ");
    if n_ids > MAX_IDS_PER_CELL { format!("{listed}, {DOTS} ({n_ids} devices)") } else { listed }
}

/// 5 rows down is as good as 5 columns across, and neither 1 nor 4 nor 6 repeats a colour.
fn color(row: usize, column: usize) -> usize {
    5_usize.wrapping_mul(row).wrapping_add(column)
}

#[cfg(test)]
mod tests;
