use std::collections::HashMap;

use expect_test::expect;
use shardwright_mesh::ReplicaGroups;

use super::proto::{
    Axis, AxisPart, AxisRef, Computation, DeviceList, Instruction, IotaGroups, Literal, Mesh, MeshGroups,
    Module, ReplicaGroup, Schedule, ScheduledComputation, Sequence, Shape, SourceTarget,
};
use super::*;

const F32: i32 = 11;
const BF16: i32 = 16;

/// An instruction that takes nothing.
fn instruction(opcode: &str, shape: Shape) -> Instruction {
    Instruction { opcode: opcode.into(), shape: Some(shape), ..Instruction::default() }
}

/// A module of computations, the last of which is the program. Instructions are numbered over all computations, and
/// the last of each is its root.
fn module(computations: Vec<(&str, Vec<Instruction>)>) -> Module {
    let mut next = 0;
    let mut number = |mut instruction: Instruction| {
        next += 1;
        instruction.id = next;
        instruction
    };
    let computations: Vec<Computation> = computations
        .into_iter()
        .zip(1..)
        .map(|((name, instructions), id)| {
            let instructions: Vec<Instruction> = instructions.into_iter().map(&mut number).collect();
            let root = instructions.last().map_or(0, |instruction| instruction.id);
            Computation { name: name.into(), instructions, id, root }
        })
        .collect();
    let entry = computations.last().map_or(0, |computation| computation.id);
    Module { name: "m".into(), entry, computations, ..Module::default() }
}

fn parse(module: &Module) -> Result<CompiledProgram, CompiledError> {
    CompiledProgram::parse("hlo", &module.encode_to_vec())
}

fn program(instructions: Vec<(&str, Shape)>) -> CompiledProgram {
    let of_four = |(opcode, shape)| Instruction {
        replica_groups: vec![ReplicaGroup { replica_ids: vec![0, 1, 2, 3] }],
        ..instruction(opcode, shape)
    };
    parse(&module(vec![("main", instructions.into_iter().map(of_four).collect())])).unwrap()
}

/// A program that is a fusion, of this name, of one instruction.
fn fused(computation: &str, inner: Instruction) -> CompiledProgram {
    let fusion = Instruction { called: vec![1], ..instruction("fusion", Shape::array(F32, &[1])) };
    parse(&module(vec![(computation, vec![inner]), ("main", vec![fusion])])).unwrap()
}

#[test]
fn collectives_are_counted_with_their_bytes() {
    let pair = Shape::tuple(vec![Shape::array(BF16, &[2, 8]), Shape::array(BF16, &[8, 8])]);
    let program = program(vec![
        ("all-gather", Shape::array(F32, &[8, 4])),
        ("dot", Shape::array(F32, &[8, 4])),
        ("all-gather-start", pair),
        ("all-gather-done", Shape::array(BF16, &[8, 8])),
        ("all-reduce", Shape::tuple(vec![Shape::array(F32, &[]), Shape::array(F32, &[3])])),
        ("all-reduce-start", Shape::tuple(vec![Shape::array(F32, &[2]), Shape::array(F32, &[3])])),
    ]);
    assert_eq!(program.total(CollectiveKind::AllGather), (2, 128 + 128));
    assert_eq!(program.total(CollectiveKind::AllReduce), (2, 16 + 20));
    assert_eq!(program.total(CollectiveKind::ReduceScatter), (0, 0));
    assert_eq!(program.collectives[0].group_size(), Some(4));
}

#[test]
fn groups_are_read_however_they_are_written() {
    let groups = |instruction: Instruction| {
        let instruction = Instruction { opcode: "all-gather".into(), ..instruction };
        let program = parse(&module(vec![("main", vec![instruction])])).unwrap();
        program.collectives[0].groups.as_ref().map(ReplicaGroups::to_string)
    };
    let group = |ids: &[i64]| ReplicaGroup { replica_ids: ids.to_vec() };
    let iota = |devices_per_group| IotaGroups {
        count: 4,
        devices_per_group,
        reshape_dims: vec![8, 2],
        transpose: vec![1, 0],
    };
    let axis = |name: &str, size| Axis { name: name.into(), size };
    let mesh = |device_ids| Mesh { axes: vec![axis("axis_0", 8), axis("axis_1", 2)], device_ids };
    let over = |mesh, index, part| MeshGroups { mesh: Some(mesh), axes: vec![AxisRef { index, part }] };
    let with_mesh = |groups| Instruction { mesh_groups: Some(groups), ..Instruction::default() };
    let part = AxisPart { pre_size: 2, size: 2 };
    let list = DeviceList { replica_groups: vec![group(&[1, 0])], iota: None };
    let cases = [
        Instruction { replica_groups: vec![group(&[0, 2]), group(&[1, 3])], ..Instruction::default() },
        Instruction { device_list: Some(list), ..Instruction::default() },
        Instruction { iota_groups: Some(iota(4)), ..Instruction::default() },
        with_mesh(over(mesh(vec![]), 0, None)),
        with_mesh(over(mesh((0..16).rev().collect()), 0, Some(part))),
        Instruction::default(),
        Instruction { iota_groups: Some(iota(5)), ..Instruction::default() },
        with_mesh(over(mesh(vec![]), 2, None)),
        with_mesh(over(mesh(vec![-1]), 0, None)),
        with_mesh(over(Mesh { axes: vec![axis("x", i64::MAX)], device_ids: vec![] }, 0, None)),
    ];
    assert_eq!(
        cases.map(groups).each_ref().map(Option::as_deref),
        [
            Some("{{0,2},{1,3}}"),
            Some("{{1,0}}"),
            Some("[4,4]<=[8,2]T(1,0)"),
            Some("mesh['axis_0'=8,'axis_1'=2] {'axis_0'}"),
            Some(
                "mesh['axis_0'=8,'axis_1'=2], device_ids=(15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0) \
                 {'axis_0':(2)2}"
            ),
            None,
            None,
            None,
            None,
            None,
        ]
    );
}

#[test]
fn an_all_reduce_that_is_cut_at_once_is_a_reduce_scatter() {
    let gradient = || Instruction {
        replica_groups: vec![ReplicaGroup { replica_ids: vec![0, 1, 2, 3] }],
        ..instruction("all-reduce", Shape::array(F32, &[64, 4]))
    };
    let cut = fused("all-reduce-scatter.3", gradient());
    assert_eq!(cut.total(CollectiveKind::ReduceScatter), (1, 64 * 4 * 4 / 4));
    assert_eq!(cut.total(CollectiveKind::AllReduce), (0, 0));
    assert_eq!(fused("fused_computation", gradient()).total(CollectiveKind::ReduceScatter), (0, 0));
    let over_unknown_groups =
        fused("all-reduce-scatter", instruction("all-reduce", Shape::array(F32, &[64])));
    assert_eq!(over_unknown_groups.total(CollectiveKind::ReduceScatter), (1, 64 * 4));
}

#[test]
fn elements_of_every_width_are_counted_in_bits() {
    // s4, f8e4m3fn, s2 and f4e2m1fn: five elements of each.
    for (element_type, bytes) in [(21, 3), (20, 5), (26, 2), (32, 3), (30, 1), (33, 5), (18, 80)] {
        let program = program(vec![
            ("collective-broadcast", Shape::array(element_type, &[5])),
            ("ragged-all-to-all", Shape::tuple(vec![Shape::array(element_type, &[5]); 2])),
        ]);
        assert_eq!(program.total(CollectiveKind::CollectiveBroadcast), (1, bytes), "{element_type}");
        assert_eq!(program.total(CollectiveKind::RaggedAllToAll), (1, 2 * bytes), "{element_type}");
    }
    let unknown =
        Instruction { name: "gather.1".into(), ..instruction("all-gather", Shape::array(99, &[5])) };
    let error = parse(&module(vec![("main", vec![unknown])])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the optimized program cannot be read: all-gather gather.1 is of elements of the unknown type number 99"
    );
}

#[test]
fn what_cannot_be_counted_is_the_most_there_is() {
    let huge = || ("all-gather", Shape::array(F32, &[i64::MAX, i64::MAX]));
    let program = program(vec![huge(), huge(), ("all-gather", Shape::array(F32, &[i64::MAX / 8]))]);
    assert_eq!(program.total(CollectiveKind::AllGather), (3, u64::MAX));
}

#[test]
fn other_bytes_and_formats_are_errors() {
    let error = CompiledProgram::parse("hlo", b"HloModule m").unwrap_err().to_string();
    assert!(error.starts_with("the optimized program cannot be read"), "{error}");
    assert!(CompiledProgram::parse("mlir", b"").is_err());
}

impl Shape {
    fn array(element_type: i32, dimensions: &[i64]) -> Shape {
        Shape { element_type, dimensions: dimensions.to_vec(), ..Shape::default() }
    }

    fn tuple(tuple_shapes: Vec<Shape>) -> Shape {
        Shape { element_type: 13, tuple_shapes, ..Shape::default() }
    }
}

/// A module from lines, each with a computation's name and `{`, a `}`, or an instruction:
/// `name = shape opcode(operands) key=value…`. The last computation is the program, and the last instruction of each
/// its root.
fn module_of(text: &str) -> Module {
    let mut module = Module { name: "m".into(), ..Module::default() };
    let mut ids: HashMap<&str, i64> = HashMap::new();
    for (line, next) in text.lines().map(str::trim).filter(|line| !line.is_empty()).zip(1..) {
        if let Some(name) = line.strip_suffix(" {") {
            ids.insert(name, next);
            module.entry = next;
            module.computations.push(Computation { name: name.into(), id: next, ..Computation::default() });
        } else if line != "}" {
            let (name, rest) = line.split_once(" = ").unwrap();
            ids.insert(name, next);
            let computation = module.computations.last_mut().unwrap();
            computation.root = next;
            computation.instructions.push(Instruction {
                id: next,
                name: name.into(),
                ..instruction_of(rest, &ids)
            });
        }
    }
    module
}

fn instruction_of(text: &str, ids: &HashMap<&str, i64>) -> Instruction {
    let (shape, text) = text.split_once(' ').unwrap();
    let (opcode, text) = text.split_once('(').unwrap();
    let (operands, attributes) = text.split_once(')').unwrap();
    let id = |name: &str| ids.get(name).copied().unwrap_or_else(|| name.parse().unwrap());
    let mut instruction =
        Instruction { shape: Some(shape_of(shape)), opcode: opcode.into(), ..Instruction::default() };
    instruction.operands = operands.split(',').filter(|name| !name.is_empty()).map(id).collect();
    for attribute in attributes.split_whitespace() {
        let (key, value) = attribute.split_once('=').unwrap();
        match key {
            "parameter" => instruction.parameter = value.parse().unwrap(),
            "index" => instruction.tuple_index = value.parse().unwrap(),
            "value" => {
                instruction.literal =
                    Some(Literal { s32: vec![value.parse().unwrap()], ..Literal::default() })
            }
            "direction" => instruction.comparison = value.into(),
            "calls" => instruction.called = value.split(',').map(id).collect(),
            "config" => instruction.backend_config = value.into(),
            "channel" => instruction.channel = value.parse().unwrap(),
            "target" => instruction.custom_call_target = value.into(),
            _ => panic!("{key}"),
        }
    }
    instruction
}

/// `f32[2,3]`, `s32[]`, `pred[]`, or a tuple of them: `(s32[];f32[2])`.
fn shape_of(text: &str) -> Shape {
    if let Some(parts) = text.strip_prefix('(') {
        return Shape::tuple(parts.trim_end_matches(')').split(';').map(shape_of).collect());
    }
    let (element_type, dims) = text.trim_end_matches(']').split_once('[').unwrap();
    let element_type = match element_type {
        "f32" => F32,
        "s32" => 4,
        "pred" => 1,
        "bf16" => BF16,
        _ => panic!("{text}"),
    };
    let dims: Vec<i64> = dims.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().unwrap()).collect();
    Shape::array(element_type, &dims)
}

/// A loop that counts a part of its tuple and gathers each turn; the texts are the numbers that it begins at, grows by
/// and is compared with, how it is compared, and what the compiler wrote beside it.
fn counting(first: i32, step: i32, limit: i32, direction: &str, config: &str) -> String {
    format!(
        "compare {{
           a = s32[] parameter()
           b = s32[] parameter() parameter=1
           less = pred[] compare(a,b) direction={direction}
         }}
         condition {{
           state = (s32[];s32[]) parameter()
           now = s32[] get-tuple-element(state) index=0
           limit = s32[] constant() value={limit}
           again = pred[] fusion(now,limit) calls=compare
         }}
         body {{
           before = (s32[];s32[]) parameter()
           i = s32[] get-tuple-element(before) index=0
           copied = s32[] copy(i)
           step = s32[] get-tuple-element(before) index=1
           next = s32[] add(copied,step)
           gathered = f32[64] all-gather(i)
           after = (s32[];s32[]) tuple(next,step)
         }}
         main {{
           zero = s32[] constant() value={first}
           one = s32[] constant() value={step}
           start = (s32[];s32[]) tuple(zero,one)
           loop = (s32[];s32[]) while(start) calls=body,condition {config}
         }}"
    )
}

#[track_caller]
fn check_runs(text: &str, expected: Runs) {
    let program = parse(&module_of(text)).unwrap();
    let runs: Vec<Runs> = program.collectives.iter().map(|c| c.runs).collect();
    assert_eq!(runs, [expected], "{text}");
}

fn times(count: u64) -> Runs {
    Runs { count, ..Runs::ONCE }
}

#[test]
fn loops_that_count_run_as_often_as_they_count() {
    for (first, step, limit, direction, turns) in [
        (0, 1, 4, "LT", 4),
        (0, 3, 10, "LT", 4),
        (0, 1, 4, "LE", 5),
        (8, -2, 0, "GT", 4),
        (8, -1, 0, "GE", 9),
        (1, 2, 9, "NE", 4),
        (i32::MIN, 1, i32::MAX, "LT", u64::from(u32::MAX)),
    ] {
        check_runs(&counting(first, step, limit, direction, ""), times(turns));
    }
    // A loop without turns: nothing in it runs.
    assert_eq!(parse(&module_of(&counting(4, 1, 4, "LT", ""))).unwrap().collectives, []);
}

#[test]
fn what_the_compiler_says_of_a_loop_comes_first() {
    let config = r#"config={"known_trip_count":{"n":"7"},"known_init_step":{"init":"0","step":"1"}}"#;
    check_runs(&counting(0, 1, 4, "LT", config), times(7));
    check_runs(&counting(0, 1, 4, "LT", r#"config={"known_trip_count":{}}"#), times(4));
}

#[test]
fn a_loop_whose_turns_are_not_known_counts_once_and_says_so() {
    let unknown = Runs { is_unknown: true, ..Runs::ONCE };
    for (first, step, limit, direction) in
        [(0, 0, 4, "LT"), (0, -1, 4, "LT"), (0, 2, 5, "NE"), (0, 1, 4, "EQ")]
    {
        check_runs(&counting(first, step, limit, direction, ""), unknown);
    }
    let by_data =
        counting(0, 1, 4, "LT", "").replace("zero = s32[] constant() value=0", "zero = s32[] parameter()");
    check_runs(&by_data, unknown);
}

#[test]
fn loops_in_loops_multiply_and_branches_may_run() {
    let inner = counting(0, 1, 4, "LT", "").replace("main {", "inner {\n x = s32[] parameter()");
    let outer =
        |calls: &str| format!("{inner}\n main {{ {calls} }}").replace("{ ", "{\n").replace(" }", "\n}");
    let twice =
        "a = s32[] constant() value=1\n b = s32[] call(a) calls=inner\n c = s32[] call(b) calls=inner";
    check_runs(&outer(twice), times(8));
    let branch = "a = s32[] constant() value=1\n b = s32[] conditional(a,a) calls=inner";
    check_runs(&outer(branch), Runs { is_conditional: true, ..times(4) });
    let nested = inner.replace("gathered = f32[64] all-gather(i)", "g = f32[64] all-gather(i)");
    let loops = format!(
        "{nested}\n {}",
        counting(0, 1, 3, "LT", "")
            .replace("compare {", "compare2 {")
            .replace("calls=compare", "calls=compare2")
            .replace("condition", "condition2")
            .replace("body", "body2")
            .replace("gathered = f32[64] all-gather(i)", "called = s32[] call(i) calls=inner")
    );
    check_runs(&loops, times(12));
}

#[test]
fn steps_follow_the_calls() {
    let program = parse(&module_of(&counting(0, 1, 4, "LT", ""))).unwrap();
    let mut named: Vec<(u64, &str)> = program
        .computations
        .iter()
        .flat_map(|computation| &computation.instructions)
        .map(|instruction| (instruction.step, instruction.name.as_str()))
        .collect();
    named.sort_unstable();
    let lines: Vec<String> = named.iter().map(|(step, name)| format!("{step} {name}")).collect();
    expect![[r#"
        0 zero
        1 one
        2 start
        3 loop
        4 state
        5 now
        6 limit
        7 a
        7 again
        7 b
        7 less
        8 before
        9 i
        10 copied
        11 step
        12 next
        13 gathered
        14 after"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(program.steps, 15);
}

#[test]
fn schedules_order_instructions() {
    let mut module = module_of(
        "main {
           a = f32[8] parameter()
           first = f32[64] all-gather(a)
           second = f32[64] all-reduce(a)
           both = (f32[64];f32[64]) tuple(first,second)
         }",
    );
    let mut scheduled = |ids: &[i64]| {
        let sequence = Sequence { instructions: ids.to_vec() };
        let sequences = vec![ScheduledComputation { computation: 1, sequence: Some(sequence) }];
        module.schedule = Some(Schedule { sequences });
        let names =
            |program: CompiledProgram| program.collectives.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        parse(&module).map(names).map_err(|error| error.to_string())
    };
    assert_eq!(scheduled(&[2, 4, 3, 5]).unwrap(), ["second", "first"]);
    let refused = "the optimized program cannot be read: ";
    assert_eq!(
        scheduled(&[3, 2, 4, 5]).unwrap_err(),
        format!("{refused}first uses instruction 2, which does not come before it in main")
    );
    assert_eq!(
        scheduled(&[2, 4, 5]).unwrap_err(),
        format!("{refused}main has 4 instructions, and its schedule has 3")
    );
    assert_eq!(
        scheduled(&[2, 4, 3, 9]).unwrap_err(),
        format!("{refused}main has no instruction 9, and its schedule does")
    );
    assert!(scheduled(&[2, 2, 3, 5]).is_err());
    assert!(scheduled(&[2, 4, 3, 3]).is_err());
}

#[test]
fn programs_that_do_not_hold_together_are_errors() {
    let error = |module: &Module| parse(module).unwrap_err().to_string();
    let refused = "the optimized program cannot be read: ";
    let mut recursive = module_of("f {\n a = f32[] parameter()\n b = f32[] call(a) calls=f\n}");
    assert_eq!(error(&recursive), format!("{refused}computation f calls itself"));
    recursive.entry = 77;
    assert_eq!(error(&recursive), format!("{refused}it has no computation 77, its entry"));
    let forward = module_of("main {\n a = f32[] add(3,3)\n b = f32[] parameter()\n}");
    assert_eq!(
        error(&forward),
        format!("{refused}a uses instruction 3, which does not come before it in main")
    );
    let nowhere = module_of("main {\n a = f32[] call() calls=9\n}");
    assert_eq!(error(&nowhere), format!("{refused}a calls computation 9, which is not there"));
    let mut twice = module_of("main {\n a = f32[] parameter()\n b = f32[] parameter()\n}");
    twice.computations[0].instructions[0].id = 3;
    assert_eq!(error(&twice), format!("{refused}main has two instructions with the id 3"));
    let mut rootless = module_of("main {\n a = f32[] parameter()\n}");
    rootless.computations[0].root = 9;
    assert_eq!(error(&rootless), format!("{refused}main has no instruction that is its result"));
}

#[test]
fn calls_of_calls_are_counted_without_going_through_each() {
    // 2^200 runs.
    let mut text = "f0 {\n a0 = f32[8] parameter()\n g = f32[8] all-reduce(a0)\n}\n".to_owned();
    for n in 1..=200 {
        let inner = n - 1;
        text += &format!(
            "f{n} {{\n a{n} = f32[8] parameter()\n b{n} = f32[8] call(a{n}) calls=f{inner}\n \
             c{n} = f32[8] call(b{n}) calls=f{inner}\n}}\n"
        );
    }
    check_runs(&text, times(u64::MAX));
}

#[test]
fn sums_of_sums_are_given_up() {
    let mut body = "s0 = s32[] get-tuple-element(before) index=0\n".to_owned();
    for n in 1..60 {
        body += &format!("s{n} = s32[] add(s{0},s{0})\n", n - 1);
    }
    let text = counting(0, 1, 4, "LT", "")
        .replace("next = s32[] add(copied,step)", &format!("{body} next = s32[] add(s59,s59)"));
    check_runs(&text, Runs { is_unknown: true, ..Runs::ONCE });
}

#[test]
fn a_collective_that_fusions_do_beside_other_work_is_one() {
    let program = parse(&module_of(
        "start {
           x = bf16[8] parameter()
           g1 = bf16[64] all-gather(x) channel=3
           begun = (bf16[8];bf16[64]) custom-call(g1) target=AsyncCollectiveStart
         }
         async_collective_fusion.1 {
           y = bf16[8] parameter()
           g2 = bf16[64] all-gather(y) channel=3
         }
         done {
           z = bf16[8] parameter()
           g3 = bf16[64] all-gather(z) channel=3
           end = bf16[64] custom-call(g3) target=AsyncCollectiveDone
         }
         plain {
           w = bf16[8] parameter()
           g4 = bf16[64] all-gather(w) channel=3
         }
         main {
           p = bf16[8] parameter()
           a = (bf16[8];bf16[64]) fusion(p) calls=start
           b = bf16[64] fusion(p) calls=async_collective_fusion.1
           c = bf16[64] fusion(p) calls=done
           d = bf16[64] fusion(p) calls=plain
         }",
    ))
    .unwrap();
    let found: Vec<(&str, bool)> =
        program.collectives.iter().map(|c| (c.name.as_str(), c.is_async)).collect();
    assert_eq!(found, [("g1", true), ("g4", false)]);
}

#[test]
fn each_array_of_a_joined_collective_is_told() {
    let program = parse(&module_of(
        "main {
           a = f32[8] parameter()
           b = bf16[2,4] parameter() parameter=1
           sum = (f32[8];bf16[2,4]) all-reduce(a,b)
         }",
    ))
    .unwrap();
    let pieces: Vec<String> = program.collectives[0]
        .pieces
        .iter()
        .map(|piece| format!("{}: {}, {} bytes", piece.operand, piece.array, piece.result_bytes))
        .collect();
    assert_eq!(pieces, ["0: f32[8], 32 bytes", "1: bf16[2,4], 16 bytes"]);
}

#[test]
fn pairs_that_send_are_groups() {
    let pairs = |pairs: &[(i64, i64)]| {
        let source_target_pairs =
            pairs.iter().map(|&(source, target)| SourceTarget { source, target }).collect();
        let permute =
            Instruction { source_target_pairs, ..instruction("collective-permute", Shape::array(F32, &[1])) };
        let program = parse(&module(vec![("main", vec![permute])])).unwrap();
        program.collectives[0].groups.as_ref().map(ReplicaGroups::groups)
    };
    assert_eq!(pairs(&[(0, 1), (1, 0), (2, 3), (3, 2)]), Some(vec![vec![0, 1], vec![2, 3]]));
    assert_eq!(pairs(&[(0, 2), (2, 0), (1, 3), (3, 1)]), Some(vec![vec![0, 2], vec![1, 3]]));
    assert_eq!(pairs(&[]), None);
    assert_eq!(pairs(&[(-1, 0)]), None);
    assert_eq!(pairs(&[(0, i64::MAX)]), None);
}

#[test]
fn what_travels_is_counted_by_the_ring() {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter};
    let sent = [AllGather, ReduceScatter, AllReduce, AllToAll, CollectivePermute];
    assert_eq!(sent.map(|kind| kind.sent_bytes(800, 8)), [700, 700, 1400, 700, 800]);
    assert_eq!(sent.map(|kind| kind.sent_bytes(800, 1)), [0; 5]);
    assert_eq!(AllReduce.sent_bytes(u64::MAX, 8), u64::MAX);
    assert_eq!((AllGather.array_bytes(1, 8), ReduceScatter.array_bytes(8, 1)), (8, 8));
}

#[test]
fn collectives_of_one_name_have_groups_of_their_own() {
    let gather = |ids: &[i64]| Instruction {
        name: "gather".into(),
        replica_groups: vec![ReplicaGroup { replica_ids: ids.to_vec() }],
        ..instruction("all-gather", Shape::array(F32, &[8]))
    };
    let program = parse(&module(vec![("main", vec![gather(&[0, 1]), gather(&[0, 1, 2])])])).unwrap();
    let sizes: Vec<Option<usize>> = program.collectives.iter().map(Collective::group_size).collect();
    assert_eq!(sizes, [Some(2), Some(3)]);
}
