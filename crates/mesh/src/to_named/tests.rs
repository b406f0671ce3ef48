use super::*;
use expect_test::{Expect, expect};

/// Finds the specs of HLO shardings of matrices.
fn check(mesh: &str, texts: &[&str], expect: Expect) {
    let mesh = AbstractMesh::parse(mesh).unwrap();
    let show = |text: &&str| match text.parse::<HloSharding>().unwrap().to_named(&mesh, 2) {
        Ok(named) => format!("{text}\n  {}\n", named.spec()),
        Err(error) => format!("{text}\n  error: {error}\n"),
    };
    expect.assert_eq(&texts.iter().map(show).collect::<String>());
}

#[test]
fn tiles_tell_their_axes() {
    check(
        "data=2, fsdp=4, tensor=1",
        &[
            "{replicated}",
            "{devices=[2,4]<=[8]}",
            "{devices=[4,2]<=[2,4]T(1,0)}",
            "{devices=[8,1]<=[8]}",
            "{devices=[8,1]<=[2,4]T(1,0)}",
            "{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}",
            "{devices=[1,4,2]4,0,1,5,6,2,3,7 last_tile_dim_replicate}",
            "{devices=[1,1,8]<=[8] last_tile_dim_replicate}",
        ],
        expect![[r#"
            {replicated}
              (-, -)
            {devices=[2,4]<=[8]}
              (data, fsdp)
            {devices=[4,2]<=[2,4]T(1,0)}
              (fsdp, data)
            {devices=[8,1]<=[8]}
              ((data,fsdp), -)
            {devices=[8,1]<=[2,4]T(1,0)}
              ((fsdp,data), -)
            {devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}
              (-, fsdp)
            {devices=[1,4,2]4,0,1,5,6,2,3,7 last_tile_dim_replicate}
              (-, fsdp)
            {devices=[1,1,8]<=[8] last_tile_dim_replicate}
              (-, -)
        "#]],
    );
}

#[test]
fn the_compilers_own_meshes_are_seen_through() {
    check(
        "data=2, fsdp=4, tensor=2",
        &[
            "{mesh['data'=2,'fsdp'=4,'tensor'=2], [{'tensor', 'data'}, {'fsdp'}]}",
            "{mesh['axis_0'=8,'axis_1'=2], [{'axis_0'}, {'axis_1'}]}",
            "{mesh['axis_0'=16], [{}, {'axis_0':(2)4}]}",
            "{mesh['a'=4,'b'=4], [{'b':(1)2}, {}], replicated={'a'}}",
            "{mesh['a'=2,'b'=8], device_ids=([8,2]T(1,0)), [{'a'}, {'b'}]}",
        ],
        expect![[r#"
            {mesh['data'=2,'fsdp'=4,'tensor'=2], [{'tensor', 'data'}, {'fsdp'}]}
              ((tensor,data), fsdp)
            {mesh['axis_0'=8,'axis_1'=2], [{'axis_0'}, {'axis_1'}]}
              ((data,fsdp), tensor)
            {mesh['axis_0'=16], [{}, {'axis_0':(2)4}]}
              (-, fsdp)
            {mesh['a'=4,'b'=4], [{'b':(1)2}, {}], replicated={'a'}}
              error: no axes of mesh data=2, fsdp=4, tensor=2 cut dim 0 into the 2 tiles of {mesh['a'=4,'b'=4], [{'b':(1)2}, {}], replicated={'a'}}
            {mesh['a'=2,'b'=8], device_ids=([8,2]T(1,0)), [{'a'}, {'b'}]}
              (tensor, (data,fsdp))
        "#]],
    );
}

#[test]
fn what_no_axes_give_is_an_error() {
    check(
        "data=2, fsdp=4",
        &[
            "{maximal device=0}",
            "{manual}",
            "{unknown}",
            "{unreduced}",
            "{devices=[8]<=[8]}",
            "{devices=[2,2]<=[4]}",
            "{devices=[4,2]<=[8]}",
            "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
            "{devices=[2,4]7,6,5,4,3,2,1,0}",
            "{devices=[2,4]0,1,2,3,4,5,7,6}",
            "{devices=[2,4]0,1,2,3,4,5,6,100}",
            "{devices=[1,1,8]0,1,2,3,4,5,6,8 last_tile_dim_replicate}",
            "{devices=[2,1,4]<=[8] last_tile_dims={manual}}",
            "{mesh['fsdp'=8], [{'fsdp':(1)2, ?}, {}]}",
            "{mesh['data'=2,'fsdp'=4], [{'data'}, {}], unreduced={'fsdp'}}",
        ],
        expect![[r#"
            {maximal device=0}
              error: not representable: the sharding {maximal device=0} is on one device
            {manual}
              error: not representable: the sharding {manual} is manual
            {unknown}
              error: not representable: the sharding {unknown} is left to the compiler
            {unreduced}
              error: not representable: the sharding {unreduced} is unreduced
            {devices=[8]<=[8]}
              error: the sharding {devices=[8]<=[8]} is for rank 1, not 2
            {devices=[2,2]<=[4]}
              error: the text is about 4 devices, but mesh data=2, fsdp=4 has 8
            {devices=[4,2]<=[8]}
              error: no axes of mesh data=2, fsdp=4 cut dim 1 into the 2 tiles of {devices=[4,2]<=[8]}
            {devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}
              error: no axes of mesh data=2, fsdp=4 cut dim 0 into the 2 tiles of {devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}
            {devices=[2,4]7,6,5,4,3,2,1,0}
              error: no axes of mesh data=2, fsdp=4 cut dim 1 into the 4 tiles of {devices=[2,4]7,6,5,4,3,2,1,0}
            {devices=[2,4]0,1,2,3,4,5,7,6}
              error: no axes of mesh data=2, fsdp=4 put the tiles of {devices=[2,4]0,1,2,3,4,5,7,6} on these devices
            {devices=[2,4]0,1,2,3,4,5,6,100}
              error: no axes of mesh data=2, fsdp=4 put the tiles of {devices=[2,4]0,1,2,3,4,5,6,100} on these devices
            {devices=[1,1,8]0,1,2,3,4,5,6,8 last_tile_dim_replicate}
              error: no axes of mesh data=2, fsdp=4 put the tiles of {devices=[1,1,8]0,1,2,3,4,5,6,8 last_tile_dim_replicate} on these devices
            {devices=[2,1,4]<=[8] last_tile_dims={manual}}
              error: not representable: the sharding {devices=[2,1,4]<=[8] last_tile_dims={manual}} is partly manual
            {mesh['fsdp'=8], [{'fsdp':(1)2, ?}, {}]}
              error: not representable: dim 0 is open, so the compiler may split it further
            {mesh['data'=2,'fsdp'=4], [{'data'}, {}], unreduced={'fsdp'}}
              error: not representable: the sharding {mesh['data'=2,'fsdp'=4], [{'data'}, {}], unreduced={'fsdp'}} is partly unreduced
        "#]],
    );
}

#[test]
fn one_device_has_everything() {
    check(
        "fsdp=1",
        &["{maximal device=0}", "{replicated}", "{devices=[1,1]<=[1]}"],
        expect![[r#"
        {maximal device=0}
          (-, -)
        {replicated}
          (-, -)
        {devices=[1,1]<=[1]}
          (-, -)
    "#]],
    );
}
