use super::*;
use expect_test::{Expect, expect};

fn check_mesh(mesh: &str, expect: Expect) {
    expect.assert_eq(&draw_mesh(&Mesh::iota(AbstractMesh::parse(mesh).unwrap()), DrawStyle::Plain));
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
fn devices_of_a_mesh_have_colours_of_their_own() {
    let mesh = Mesh::iota(AbstractMesh::parse("x=2, y=2").unwrap());
    let text = draw_mesh(&mesh, DrawStyle::Ansi);
    expect![[r#"
        x=2 ↓, y=2 →
            0   1
          ┌───┬───┐
        0 │ESC[38;5;16;48;5;117m 0 ESC[0m│ESC[38;5;16;48;5;222m 1 ESC[0m│
          ├───┼───┤
        1 │ESC[38;5;16;48;5;229m 2 ESC[0m│ESC[38;5;16;48;5;159m 3 ESC[0m│
          └───┴───┘
    "#]]
    .assert_eq(&text.replace('\u{1b}', "ESC"));
}

#[test]
fn of_many_devices_some_are_drawn() {
    let mesh = Mesh::iota(AbstractMesh::parse("slice=16, data=64, fsdp=4").unwrap());
    let text = draw_mesh(&mesh, DrawStyle::Plain);
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
