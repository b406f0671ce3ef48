//! Meshes and shardings as plain-text drawings for a terminal.

use std::ops::Range;

use crate::{AbstractMesh, AxisName, Mesh, NamedSharding, ShardingError};

/// A cell lists at most so many devices.
const MAX_IDS_PER_CELL: usize = 8;

/// A table of boxes with a label at each row and column.
struct Grid {
    row_labels: Vec<String>,
    column_labels: Vec<String>,
    // One vector per row, as long as there are columns.
    cells: Vec<Vec<String>>,
}

/// Draws a mesh as grids of device ids: the last two axes of more than one device go down and across, and
/// there is one grid for each position along the others. Every line ends with a newline.
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
    let axes: Vec<_> = mesh.shape().axes().iter().filter(|(_, size)| *size > 1).cloned().collect();
    let (outer, down, across) = match axes.as_slice() {
        [] => (&[][..], None, None),
        [across] => (&[][..], None, Some(across)),
        [outer @ .., down, across] => (outer, Some(down), Some(across)),
    };
    let outer = AbstractMesh::new(outer.iter().cloned()).expect("axes of a mesh make a mesh");
    let (row_labels, column_labels) = (position_labels(down), position_labels(across));

    let axis_text = |axis: &(AxisName, usize)| {
        let arrow = match Some(axis) {
            axis if axis == down => " ↓",
            axis if axis == across => " →",
            _ => "",
        };
        format!("{}={}{arrow}", axis.0, axis.1)
    };
    let mut text = mesh.shape().axes().iter().map(axis_text).collect::<Vec<_>>().join(", ") + "\n";
    for (grid_idx, ids) in mesh.device_ids().chunks(row_labels.len() * column_labels.len()).enumerate() {
        if outer.size() > 1 {
            text += &format!("{}\n", position_text(&outer, grid_idx));
        }
        let rows = ids.chunks(column_labels.len());
        let cells = rows.map(|row| row.iter().map(usize::to_string).collect()).collect();
        text += &Grid { row_labels: row_labels.clone(), column_labels: column_labels.clone(), cells }.draw();
    }
    text
}

/// Draws which devices hold which part of an array of this global shape: rows of the grid are tiles of dim 0,
/// columns tiles of dim 1, both labelled with their index ranges. A cell with several devices is held by
/// each of them. Of a rank above 2 only these two dims are drawn, and a line says so.
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
) -> Result<String, ShardingError> {
    sharding.check_mesh(mesh)?;
    let stored = sharding.shard_shape(shape)?;
    let mut text = format!("{sharding}: shape {shape:?}, each device stores {stored:?}\n");
    if shape.len() > 2 {
        text += &format!(
            "only dims 0 and 1 of {} are drawn; the devices in one cell may differ in the others\n",
            shape.len()
        );
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
    let cells = holders.iter().map(|row| row.iter().map(|ids| ids_text(ids)).collect()).collect();
    Ok(text + &Grid { row_labels, column_labels, cells }.draw())
}

/// `0`, `1`, … along an axis, or one empty label where there is no axis.
fn position_labels(axis: Option<&(AxisName, usize)>) -> Vec<String> {
    axis.map_or(vec![String::new()], |(_, size)| (0..*size).map(|position| position.to_string()).collect())
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
    if ids.len() > MAX_IDS_PER_CELL { format!("{listed}, … ({} devices)", ids.len()) } else { listed }
}

impl Grid {
    fn draw(&self) -> String {
        let margin = max_width(&self.row_labels);
        let widths: Vec<_> = (0..self.column_labels.len())
            .map(|column| {
                let cells = self.cells.iter().map(|row| &row[column]);
                max_width(cells.chain([&self.column_labels[column]]))
            })
            .collect();
        let rule = |left: &str, middle: &str, right: &str| {
            let bars: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
            line(&" ".repeat(margin), &format!("{left}{}{right}", bars.join(middle)))
        };
        let padded = |texts: &[String], separator: &str| {
            let texts: Vec<_> =
                texts.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
            texts.join(separator)
        };
        let mut text = String::new();
        if self.column_labels.iter().any(|label| !label.is_empty()) {
            text += &line(&" ".repeat(margin), &format!("  {}", padded(&self.column_labels, "   ")));
        }
        text += &rule("┌", "┬", "┐");
        for (row_idx, row) in self.cells.iter().enumerate() {
            if row_idx > 0 {
                text += &rule("├", "┼", "┤");
            }
            let label = format!("{:<margin$}", self.row_labels[row_idx]);
            text += &line(&label, &format!("│ {} │", padded(row, " │ ")));
        }
        text + &rule("└", "┴", "┘")
    }
}

/// A line behind its margin, without blanks at its end.
fn line(margin: &str, content: &str) -> String {
    let gap = if margin.is_empty() { "" } else { " " };
    format!("{}\n", format!("{margin}{gap}{content}").trim_end())
}

fn max_width<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
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
        expect.assert_eq(&draw_sharding(&mesh, &sharding, shape).unwrap());
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
        .assert_eq(&draw_sharding(&mesh, &sharding, &[4]).unwrap());
    }
}
