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

/// How a drawing marks which cells hold the same block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DrawStyle {
    /// Not at all: text without control sequences, for a file or any terminal.
    #[default]
    Plain,
    /// With a background colour for each block, by ANSI sequences for 256 colours. Blocks far from each other may
    /// share a colour.
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
/// there is one grid for each position along the others. Every line ends with a newline. Of long axes and of many
/// grids only some are drawn.
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
pub fn draw_mesh(mesh: &Mesh) -> String {
    terminal_text(&mesh_drawing(mesh), DrawStyle::Plain)
}

/// The drawing of [`draw_mesh`] as an SVG document, readable on light and dark pages.
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
    let grid = |(grid_idx, ids): (usize, &[usize])| Grid {
        title: (outer.size() > 1).then(|| position_text(&outer, grid_idx)),
        ..Grid::new(
            [n_rows, n_columns],
            |row| label(down, row),
            |column| label(across, column),
            |row, column| Cell { text: ids[row * n_columns + column].to_string(), color: None },
        )
    };
    let grids = mesh.device_ids().chunks(n_rows * n_columns).enumerate().take(MAX_GRIDS).map(grid).collect();
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
    let mut row_labels = vec![String::new(); n_rows];
    let mut column_labels = vec![String::new(); n_columns];
    let mut holders = vec![vec![Vec::new(); n_columns]; n_rows];
    for (partition, &device_id) in mesh.device_ids().iter().enumerate() {
        let ranges = sharding.shard_ranges(partition, shape);
        let [row, column] = first_two(sharding.tile_indices(partition), 0);
        row_labels[row] = range_label(ranges.first());
        column_labels[column] = range_label(ranges.get(1));
        holders[row][column].push(device_id);
    }
    let grid = Grid::new(
        [n_rows, n_columns],
        |row| row_labels[row].clone(),
        |column| column_labels[column].clone(),
        // 5 rows down is as good as 5 columns across, and neither 1 nor 4 nor 6 repeats a colour.
        |row, column| Cell { text: ids_text(&holders[row][column]), color: Some(5 * row + column) },
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

fn ids_text(ids: &[usize]) -> String {
    let listed: Vec<_> = ids.iter().take(MAX_IDS_PER_CELL).map(usize::to_string).collect();
    let listed = listed.join(", ");
    if ids.len() > MAX_IDS_PER_CELL { format!("{listed}, {DOTS} ({} devices)", ids.len()) } else { listed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check_mesh(mesh: &str, expect: Expect) {
        expect.assert_eq(&draw_mesh(&Mesh::iota(AbstractMesh::parse(mesh).unwrap())));
    }

    fn check_sharding(mesh: &str, spec: &str, shape: &[usize], expect: Expect) {
        let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
        let sharding = mesh.sharding(spec.parse().unwrap()).unwrap();
        expect.assert_eq(&draw_sharding(&mesh, &sharding, shape, DrawStyle::Plain).unwrap());
    }

    #[test]
    fn meshes_are_grids_of_devices() {
        check_mesh(
            "fsdp=4",
            expect![[r#"
                fsdp=4 →
                  0   1   2   3
                ┌───┬───┬───┬───┐
                │ 0 │ 1 │ 2 │ 3 │
                └───┴───┴───┴───┘
            "#]],
        );
        check_mesh(
            "data=2, fsdp=4",
            expect![[r#"
                data=2 ↓, fsdp=4 →
                    0   1   2   3
                  ┌───┬───┬───┬───┐
                0 │ 0 │ 1 │ 2 │ 3 │
                  ├───┼───┼───┼───┤
                1 │ 4 │ 5 │ 6 │ 7 │
                  └───┴───┴───┴───┘
            "#]],
        );
        check_mesh(
            "slice=2, data=2, fsdp=2, tensor=1",
            expect![[r#"
                slice=2, data=2 ↓, fsdp=2 →, tensor=1
                slice=0
                    0   1
                  ┌───┬───┐
                0 │ 0 │ 1 │
                  ├───┼───┤
                1 │ 2 │ 3 │
                  └───┴───┘
                slice=1
                    0   1
                  ┌───┬───┐
                0 │ 4 │ 5 │
                  ├───┼───┤
                1 │ 6 │ 7 │
                  └───┴───┘
            "#]],
        );
        check_mesh(
            "fsdp=1",
            expect![[r#"
                fsdp=1
                ┌───┐
                │ 0 │
                └───┘
            "#]],
        );
    }

    #[test]
    fn matrices_show_who_holds_what() {
        check_sharding(
            "data=2, model=4",
            "(data, model)",
            &[16, 128],
            expect![[r#"
                (data, model) on data=2, model=4: shape [16, 128], each device stores [8, 32]
                        0..32   32..64   64..96   96..128
                      ┌───────┬────────┬────────┬─────────┐
                0..8  │ 0     │ 1      │ 2      │ 3       │
                      ├───────┼────────┼────────┼─────────┤
                8..16 │ 4     │ 5      │ 6      │ 7       │
                      └───────┴────────┴────────┴─────────┘
            "#]],
        );
        check_sharding(
            "data=2, fsdp=2",
            "(fsdp, -)",
            &[5, 8],
            expect![[r#"
                (fsdp, -) on data=2, fsdp=2: shape [5, 8], each device stores [3, 8]
                       0..8
                     ┌──────┐
                0..3 │ 0, 2 │
                     ├──────┤
                3..5 │ 1, 3 │
                     └──────┘
            "#]],
        );
    }

    #[test]
    fn vectors_and_scalars_have_one_column() {
        check_sharding(
            "fsdp=4",
            "(fsdp)",
            &[5],
            expect![[r#"
                (fsdp) on fsdp=4: shape [5], each device stores [2]
                      ┌───┐
                0..2  │ 0 │
                      ├───┤
                2..4  │ 1 │
                      ├───┤
                4..5  │ 2 │
                      ├───┤
                empty │ 3 │
                      └───┘
            "#]],
        );
        check_sharding(
            "fsdp=4",
            "()",
            &[],
            expect![[r#"
                () on fsdp=4: shape [], each device stores []
                ┌────────────┐
                │ 0, 1, 2, 3 │
                └────────────┘
            "#]],
        );
    }

    #[test]
    fn long_lists_are_cut_and_high_ranks_say_so() {
        check_sharding(
            "data=16, fsdp=2",
            "(-, fsdp, -)",
            &[4, 4, 4],
            expect![[r#"
                (-, fsdp, -) on data=16, fsdp=2: shape [4, 4, 4], each device stores [4, 2, 4]
                only dims 0 and 1 of 3 are drawn; the devices in one cell may differ in the others
                       0..2                                        2..4
                     ┌───────────────────────────────────────────┬───────────────────────────────────────────┐
                0..4 │ 0, 2, 4, 6, 8, 10, 12, 14, … (16 devices) │ 1, 3, 5, 7, 9, 11, 13, 15, … (16 devices) │
                     └───────────────────────────────────────────┴───────────────────────────────────────────┘
            "#]],
        );
    }

    #[test]
    fn the_device_order_shows() {
        let mesh = Mesh::new(AbstractMesh::parse("a=2, b=2").unwrap(), vec![3, 2, 1, 0]).unwrap();
        let sharding = mesh.sharding("((b,a))".parse().unwrap()).unwrap();
        expect![[r#"
            ((b,a)) on a=2, b=2: shape [4], each device stores [1]
                 ┌───┐
            0..1 │ 3 │
                 ├───┤
            1..2 │ 1 │
                 ├───┤
            2..3 │ 2 │
                 ├───┤
            3..4 │ 0 │
                 └───┘
        "#]]
        .assert_eq(&draw_sharding(&mesh, &sharding, &[4], DrawStyle::Plain).unwrap());
    }

    #[test]
    fn colours_tell_blocks_apart() {
        let mesh = Mesh::iota(AbstractMesh::parse("data=2, fsdp=2").unwrap());
        let sharding = mesh.sharding("(fsdp, data)".parse().unwrap()).unwrap();
        let text = draw_sharding(&mesh, &sharding, &[4, 4], DrawStyle::Ansi).unwrap();
        expect![[r#"
            (fsdp, data) on data=2, fsdp=2: shape [4, 4], each device stores [2, 2]
                   0..2   2..4
                 ┌──────┬──────┐
            0..2 │ESC[38;5;16;48;5;117m 0    ESC[0m│ESC[38;5;16;48;5;222m 2    ESC[0m│
                 ├──────┼──────┤
            2..4 │ESC[38;5;16;48;5;229m 1    ESC[0m│ESC[38;5;16;48;5;159m 3    ESC[0m│
                 └──────┴──────┘
        "#]]
        .assert_eq(&text.replace('\u{1b}', "ESC"));
    }

    #[test]
    fn of_many_devices_some_are_drawn() {
        let mesh = Mesh::iota(AbstractMesh::parse("slice=16, data=64, fsdp=4").unwrap());
        let text = draw_mesh(&mesh);
        let lines: Vec<_> = text.lines().collect();
        let ends = [&lines[..9], &lines[63..72], &lines[lines.len() - 4..]].map(|lines| lines.join("\n"));
        expect![[r#"
            slice=16, data=64 ↓, fsdp=4 →
            slice=0
                 0     1     2     3
               ┌─────┬─────┬─────┬─────┐
            0  │ 0   │ 1   │ 2   │ 3   │
               ├─────┼─────┼─────┼─────┤
            1  │ 4   │ 5   │ 6   │ 7   │
               ├─────┼─────┼─────┼─────┤
            2  │ 8   │ 9   │ 10  │ 11  │
            ---
               ├─────┼─────┼─────┼─────┤
            …  │ …   │ …   │ …   │ …   │
               ├─────┼─────┼─────┼─────┤
            63 │ 252 │ 253 │ 254 │ 255 │
               └─────┴─────┴─────┴─────┘
            slice=1
                 0     1     2     3
               ┌─────┬─────┬─────┬─────┐
            0  │ 256 │ 257 │ 258 │ 259 │
            ---
               ├──────┼──────┼──────┼──────┤
            63 │ 2044 │ 2045 │ 2046 │ 2047 │
               └──────┴──────┴──────┴──────┘
            … and 8 more grids"#]]
        .assert_eq(&ends.join("\n---\n"));

        let sharding = mesh.sharding("((slice,data), fsdp)".parse().unwrap()).unwrap();
        let text = draw_sharding(&mesh, &sharding, &[1024, 8], DrawStyle::Plain).unwrap();
        let lines: Vec<_> = text.lines().collect();
        expect![[r#"
            29..30     │ 116  │ 117  │ 118  │ 119  │
                       ├──────┼──────┼──────┼──────┤
            …          │ …    │ …    │ …    │ …    │
                       ├──────┼──────┼──────┼──────┤
            1023..1024 │ 4092 │ 4093 │ 4094 │ 4095 │
                       └──────┴──────┴──────┴──────┘"#]]
        .assert_eq(&lines[lines.len() - 6..].join("\n"));
        let svg = svg_sharding(&mesh, &sharding, &[1024, 8]).unwrap();
        assert_eq!(svg.matches("<rect").count(), 1 + 32 * 4);
        assert!(svg_mesh(&mesh).contains("… and 8 more grids"));
    }

    #[test]
    fn svg_has_a_box_for_each_cell() {
        let mesh = Mesh::iota(AbstractMesh::parse("data=2, fsdp=2").unwrap());
        let sharding = mesh.sharding("(fsdp, -)".parse().unwrap()).unwrap();
        expect![[r##"
            <svg xmlns="http://www.w3.org/2000/svg" width="568" height="126" viewBox="0 0 568 126" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">
            <title>(fsdp, -) on data=2, fsdp=2: shape [5, 8], each device stores [3, 8]</title>
            <style>.page{fill:#ffffff}text{fill:#1f2328}.cell{stroke:#57606a;stroke-width:1}.id{fill:#1f2328;text-anchor:middle}.column{text-anchor:middle}.row{text-anchor:end}@media (prefers-color-scheme: dark){.page{fill:#0d1117}text{fill:#e6edf3}.id{fill:#1f2328}}</style>
            <rect class="page" width="100%" height="100%"/>
            <text class="line" x="12" y="26">(fsdp, -) on data=2, fsdp=2: shape [5, 8], each device stores [3, 8]</text>
            <text class="column" x="78" y="46">0..8</text>
            <rect class="cell" x="50" y="52" width="56" height="28" fill="#9cd3ff"/>
            <text class="id" x="78" y="70">0, 2</text>
            <rect class="cell" x="50" y="80" width="56" height="28" fill="#fff3a1"/>
            <text class="id" x="78" y="98">1, 3</text>
            <text class="row" x="44" y="70">0..3</text>
            <text class="row" x="44" y="98">3..5</text>
            </svg>
        "##]].assert_eq(&svg_sharding(&mesh, &sharding, &[5, 8]).unwrap());
    }
}
