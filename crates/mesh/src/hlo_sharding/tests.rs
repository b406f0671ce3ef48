use super::*;
use crate::AbstractMesh;
use expect_test::{Expect, expect};

/// Prints shardings over a mesh, with partitions and with device ids.
fn check_printed(mesh: &str, specs: &[&str], expect: Expect) {
    let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
    let mut text = String::new();
    for spec in specs {
        let sharding = mesh.sharding(spec.parse().unwrap()).unwrap();
        let on_devices = sharding.hlo_device_sharding(&mesh).unwrap();
        text += &format!("{spec}\n  {}\n  {on_devices}\n", sharding.hlo_sharding());
    }
    expect.assert_eq(&text);
}

/// Reads shardings, prints them, and says what they are read as.
fn check_read(texts: &[&str], expect: Expect) {
    let show = |text: &&str| match text.parse::<HloSharding>() {
        Ok(sharding) => {
            assert_eq!(sharding.to_string().parse(), Ok(sharding.clone()));
            match sharding {
                HloSharding::Tiled(tiles) => {
                    let (sizes, subgroups) = (tiles.tiles(), tiles.subgroups());
                    format!(
                        "{{{tiles}}}: {sizes:?} {subgroups:?} {:?}\n",
                        tiles.devices().collect::<Vec<_>>()
                    )
                }
                other => format!("{other}\n"),
            }
        }
        Err(error) => format!("error: {error}\n"),
    };
    expect.assert_eq(&texts.iter().map(show).collect::<String>());
}

#[test]
fn axes_become_tiles() {
    check_printed(
        "data=2, model=4",
        &["(data, model)", "(model, data)", "(data, -)", "(model, -)"],
        expect![[r#"
            (data, model)
              {devices=[2,4]<=[8]}
              {devices=[2,4]0,1,2,3,4,5,6,7}
            (model, data)
              {devices=[4,2]<=[2,4]T(1,0)}
              {devices=[4,2]0,4,1,5,2,6,3,7}
            (data, -)
              {devices=[2,1,4]<=[8] last_tile_dim_replicate}
              {devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}
            (model, -)
              {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
              {devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}
        "#]],
    );
}

#[test]
fn size_one_axes_leave_no_mark() {
    check_printed(
        "fsdp=8, tensor=1",
        &["(-, fsdp)", "(tensor, fsdp)", "(tensor, -)"],
        expect![[r#"
            (-, fsdp)
              {devices=[1,8]<=[8]}
              {devices=[1,8]0,1,2,3,4,5,6,7}
            (tensor, fsdp)
              {devices=[1,8]<=[8]}
              {devices=[1,8]0,1,2,3,4,5,6,7}
            (tensor, -)
              {replicated}
              {replicated}
        "#]],
    );
    check_printed(
        "x=1, y=1",
        &["(x, y)", "()"],
        expect![[r#"
            (x, y)
              {replicated}
              {replicated}
            ()
              {replicated}
              {replicated}
        "#]],
    );
}

#[test]
fn several_axes_split_one_dim_in_the_order_named() {
    check_printed(
        "data=2, fsdp=4, tensor=1",
        &["(-, fsdp)", "((data,fsdp), -)", "((fsdp,data), -)", "((tensor,data,fsdp), -)"],
        expect![[r#"
            (-, fsdp)
              {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
              {devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}
            ((data,fsdp), -)
              {devices=[8,1]<=[8]}
              {devices=[8,1]0,1,2,3,4,5,6,7}
            ((fsdp,data), -)
              {devices=[8,1]<=[2,4]T(1,0)}
              {devices=[8,1]0,4,1,5,2,6,3,7}
            ((tensor,data,fsdp), -)
              {devices=[8,1]<=[8]}
              {devices=[8,1]0,1,2,3,4,5,6,7}
        "#]],
    );
}

#[test]
fn neighbouring_axes_are_counted_as_one() {
    check_printed(
        "a=2, b=3, c=5",
        &["(c, (a,b))", "((b,c), a)", "(b, -)", "(c, b)"],
        expect![[r#"
            (c, (a,b))
              {devices=[5,6]<=[6,5]T(1,0)}
              {devices=[5,6]0,5,10,15,20,25,1,6,11,16,21,26,2,7,12,17,22,27,3,8,13,18,23,28,4,9,14,19,24,29}
            ((b,c), a)
              {devices=[15,2]<=[2,15]T(1,0)}
              {devices=[15,2]0,15,1,16,2,17,3,18,4,19,5,20,6,21,7,22,8,23,9,24,10,25,11,26,12,27,13,28,14,29}
            (b, -)
              {devices=[3,1,10]<=[2,3,5]T(1,0,2) last_tile_dim_replicate}
              {devices=[3,1,10]0,1,2,3,4,15,16,17,18,19,5,6,7,8,9,20,21,22,23,24,10,11,12,13,14,25,26,27,28,29 last_tile_dim_replicate}
            (c, b)
              {devices=[5,3,2]<=[2,3,5]T(2,1,0) last_tile_dim_replicate}
              {devices=[5,3,2]0,15,5,20,10,25,1,16,6,21,11,26,2,17,7,22,12,27,3,18,8,23,13,28,4,19,9,24,14,29 last_tile_dim_replicate}
        "#]],
    );
}

#[test]
fn device_lists_honour_the_device_order() {
    let mesh = Mesh::new(AbstractMesh::parse("a=2, b=4").unwrap(), (0..8).rev().collect()).unwrap();
    let sharding = mesh.sharding("(b, -)".parse().unwrap()).unwrap();
    expect!["{devices=[4,1,2]7,3,6,2,5,1,4,0 last_tile_dim_replicate}"]
        .assert_eq(&sharding.hlo_device_sharding(&mesh).unwrap().to_string());
}

#[test]
fn thousands_of_devices_are_no_effort() {
    let mesh = Mesh::iota(AbstractMesh::parse("data=16, fsdp=64, tensor=4").unwrap());
    let sharding = mesh.sharding("((tensor,fsdp), -)".parse().unwrap()).unwrap();
    expect!["{devices=[256,1,16]<=[16,64,4]T(2,1,0) last_tile_dim_replicate}"]
        .assert_eq(&sharding.hlo_sharding().to_string());
    assert_eq!(sharding.hlo_device_sharding(&mesh).unwrap().to_string().matches(',').count(), 2 + 4095);
    assert_eq!(sharding.shards(&[8192, 8192]).unwrap().len(), 4096);
    let listed = sharding.hlo_device_sharding(&mesh).unwrap();
    assert_eq!(listed.to_string().parse::<HloSharding>().unwrap().to_named(mesh.shape(), 2), Ok(sharding));
}

#[test]
fn shardings_are_read() {
    check_read(
        &[
            "{replicated}",
            " { maximal device=3 } ",
            "{maximal_mesh[device_id=5]}",
            "{manual}",
            "{unreduced}",
            "{unknown}",
            "{devices=[2,2]<=[4]}",
            "{devices=[2,2]0,1,2,3}",
            "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
            "{devices=[1,2,2]<=[4] last_tile_dims={replicated}}",
            "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}",
            "{devices=[2]<=[2,1]T(1,0) last_tile_dims={}}",
            "{mesh['x'=2,'y'=2], replicated}",
            "{mesh['x'=2,'y'=2], manual}",
            "{mesh[], replicated}",
            "{mesh['x'=2,'y'=2], [{'y'}, {}]}",
            "{mesh[x=2,y=8], [{y:(2)2, x, ?}, {?}], replicated={y:(1)2}, unreduced={y:(4)2}}",
            "{mesh['x'=2,'y'=2], device_ids=(0,2,1,3), [{'x'}], manual={'y'}}",
            "{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}]}",
            "{mesh['x'=2,'y'=2], device_ids=([4]), [{'x'}]}",
            "{mesh['x'=2,'y'=2], device_ids=(0,1,2,3), [{'x'}]}",
            "{mesh['x'=2097152,'y'=2097152], [{'x'}]}",
            "{mesh['x'=1], [{'x'}]}",
            "{devices=[2]<=[2] metadata={op_name=\"a{\\\"}\" source_line=3}}",
            "{replicated metadata={{op_name=\"a\"}, {op_name=\"b\"}}}",
            "{mesh['x'=2], [{'x'}], metadata={op_name=\"a\"}}",
        ],
        expect![[r#"
            {replicated}
            {maximal device=3}
            {maximal device=5}
            {manual}
            {unreduced}
            {unknown}
            {devices=[2,2]<=[4]}: [2, 2] [] [0, 1, 2, 3]
            {devices=[2,2]0,1,2,3}: [2, 2] [] [0, 1, 2, 3]
            {devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}: [1, 2] [(Replicated, 2)] [0, 2, 1, 3]
            {devices=[1,2,2]<=[4] last_tile_dim_replicate}: [1, 2] [(Replicated, 2)] [0, 1, 2, 3]
            {devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}: [1, 1] [(Manual, 2), (Replicated, 2)] [0, 1, 2, 3]
            {devices=[2]<=[2]}: [2] [] [0, 1]
            {replicated}
            {manual}
            {replicated}
            {mesh['x'=2,'y'=2], [{'y'}, {}]}
            {mesh['x'=2,'y'=8], [{'y':(2)2, 'x', ?}, {?}], replicated={'y':(1)2}, unreduced={'y':(4)2}}
            {mesh['x'=2,'y'=2], device_ids=(0,2,1,3), [{'x'}], manual={'y'}}
            {mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}]}
            {mesh['x'=2,'y'=2], [{'x'}]}
            {mesh['x'=2,'y'=2], [{'x'}]}
            {mesh['x'=2097152,'y'=2097152], [{'x'}]}
            {mesh['x'=1], [{'x'}]}
            {devices=[2]<=[2]}: [2] [] [0, 1]
            {replicated}
            error: hlo sharding "{mesh['x'=2], [{'x'}], metadata={op_name=\"a\"}}": expected replicated=, unreduced= or manual=, each once at byte 23, found 'm'
        "#]],
    );
}

#[test]
fn bad_shardings_say_where() {
    check_read(
        &[
            "",
            "replicated",
            "{replicated",
            "{replicated} x",
            "{}",
            "{sharded}",
            "{maximal}",
            "{maximal device=-1}",
            "{devices=[2,2]}",
            "{devices=[2,2]<=}",
            "{devices=[2,2]<=[4]T(1)}",
            "{devices=[2,2]<=[8]}",
            "{devices=[2,2]0,1,2}",
            "{devices=[2,2]0,1,2,2}",
            "{devices=[0,2]<=[0]}",
            "{devices=[]<=[2] last_tile_dim_replicate}",
            "{devices=[2]<=[2] last_tile_dims={many}}",
            "{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
            "{devices=[4294967296,4294967296]<=[4294967296,4294967296]}",
            "{mesh['x'=2]}",
            "{mesh['x'=2], [{'y'}]}",
            "{mesh['x'=2], [{'0'}]}",
            "{mesh['x'=2], [{\"x\"}]}",
            "{mesh['x'=2], [{'x'}, {'x'}]}",
            "{mesh['x'=1], [{'x'}, {'x'}]}",
            "{mesh['x'=1], [{'x'}], replicated={'x'}}",
            "{replicated metadata={op_name=\"a}}",
            "{replicated metadata={}",
            "{mesh['x'=2,'y'=2097152], device_ids=([2,2097152]T(1,0)), [{'x'}]}",
            "{mesh['x'=4], [{'x':(1)4}], replicated={'x':(2)2}}",
            "{mesh['x'=12], [{'x':(1)2}], replicated={'x':(3)2}}",
            "{mesh['x'=2], [{'x':(3)2}]}",
            "{mesh['x'=2], device_ids=(0,0), [{'x'}]}",
            "{mesh['x'=2], device_ids=(0,1,2), [{'x'}]}",
            "{mesh['<axis>'=2], replicated}",
        ],
        expect![[r#"
            error: hlo sharding "": expected '{' at byte 0, found the end
            error: hlo sharding "replicated": expected '{' at byte 0, found 'r'
            error: hlo sharding "{replicated": expected '}' at byte 11, found the end
            error: hlo sharding "{replicated} x": expected the end at byte 13, found 'x'
            error: hlo sharding "{}": expected replicated, maximal, manual, unreduced, unknown, devices= or mesh[ at byte 1, found '}'
            error: hlo sharding "{sharded}": expected replicated, maximal, manual, unreduced, unknown, devices= or mesh[ at byte 1, found 's'
            error: hlo sharding "{maximal}": expected device at byte 8, found '}'
            error: hlo sharding "{maximal device=-1}": expected a number at byte 16, found '-'
            error: hlo sharding "{devices=[2,2]}": expected a number at byte 14, found '}'
            error: hlo sharding "{devices=[2,2]<=}": expected '[' at byte 16, found '}'
            error: T(1) does not name each of the 1 dims before it once
            error: the tiles or groups take 4 devices, but 8 are listed or counted
            error: the tiles or groups take 4 devices, but 3 are listed or counted
            error: device 2 is listed twice
            error: sizes [0]: a size is at least 1
            error: hlo sharding "{devices=[]<=[2] last_tile_dim_replicate}": expected as many sizes as there are subgroups at byte 40, found '}'
            error: hlo sharding "{devices=[2]<=[2] last_tile_dims={many}}": expected replicated, manual or unreduced at byte 34, found 'm'
            error: hlo sharding "…=[2] last_tile_dims={manual, replicated}}": expected as many sizes as there are subgroups at byte 53, found '}'
            error: the text speaks of more than 18446744073709551615 devices
            error: hlo sharding "{mesh['x'=2]}": expected ',' at byte 12, found '}'
            error: axis y is not in mesh x=2
            error: axis 0 is not in mesh x=2
            error: hlo sharding "{mesh['x'=2], [{\"x\"}]}": expected the name of an axis at byte 16, found '"'
            error: axis x is used twice, in parts that overlap or do not fit side by side
            error: axis x is used twice, in parts that overlap or do not fit side by side
            error: axis x is used twice, in parts that overlap or do not fit side by side
            error: hlo sharding "{replicated metadata={op_name=\"a}}": expected a closing quote at byte 34, found the end
            error: hlo sharding "{replicated metadata={}": expected '}' at byte 23, found the end
            error: the text speaks of more than 1048576 devices
            error: axis x is used twice, in parts that overlap or do not fit side by side
            error: axis x is used twice, in parts that overlap or do not fit side by side
            error: "x":(3)2 is no sub-axis: (m)k needs m at least 1, k at least 2, and an axis size that m·k divides
            error: device id 0 is at mesh position 0 and again at 1
            error: device ids given: 3, but mesh x=2 takes 2
            error: axis name "<axis>" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
        "#]],
    );
}

#[test]
fn tuples_have_one_sharding_for_each_part() {
    let read = |text: &str| match HloSharding::parse_tuple(text) {
        Ok(parts) => parts.iter().map(HloSharding::to_string).collect::<Vec<_>>().join(" ") + "\n",
        Err(error) => format!("error: {error}\n"),
    };
    let texts = [
        "{{replicated}, {devices=[2]<=[2]}}",
        "{{mesh['x'=2], [{}, {'x'}]}, {maximal device=1}}",
        "{}",
        "{manual}",
        "{{replicated}, replicated}",
        "{{{replicated}}}",
    ];
    expect![[r#"
        {replicated} {devices=[2]<=[2]}
        {mesh['x'=2], [{}, {'x'}]} {maximal device=1}

        {manual}
        error: hlo sharding "{{replicated}, replicated}": expected '{' at byte 15, found 'r'
        error: hlo sharding "{{{replicated}}}": expected replicated, maximal, manual, unreduced, unknown, devices= or mesh[ at byte 2, found '{'
    "#]].assert_eq(&texts.map(read).concat());
}
