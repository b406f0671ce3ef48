//! On programs that JAX exported: `mlp` and `decode` by `benchmarks/foreign/export.py`, for one device, and `sharded` by
//! a few lines like it, over the mesh `data=2,fsdp=4` for either partitioner. And on small ones that are made here.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use proptest::sample::Index;
use shardwright_mesh::{AbstractMesh, NamedSharding, PartitionSpec};

use super::read::{computation, instruction, module};
use super::wire::{Fields, Writer};
use super::*;
use crate::{OutputInfo, StatedSharding};

const MLP: &[u8] = include_bytes!("../../tests/data/mlp.hlo.pb");
const DECODE: &[u8] = include_bytes!("../../tests/data/decode.hlo.pb");
const GSPMD: &[u8] = include_bytes!("../../tests/data/sharded_gspmd.hlo.pb");
const SHARDY: &[u8] = include_bytes!("../../tests/data/sharded_shardy.hlo.pb");

/// Numbers of fields that matter here and are written nowhere else.
const ENTRY_ID: u64 = 6;
const PROGRAM_SHAPE: u64 = 4;
const COMPUTATION_ID: u64 = 5;
const PARAMETER_NUMBER: u64 = 9;
const METADATA: u64 = 7;
const CALLED: u64 = 38;

/// An instruction that gives `shape` and uses the instructions with these ids.
fn op(id: u64, name: &str, opcode: &str, shape: &[u8], operands: &[u64]) -> Writer {
    let mut op = Writer::default();
    op.bytes(instruction::NAME, name.as_bytes()).bytes(instruction::OPCODE, opcode.as_bytes());
    op.bytes(instruction::SHAPE, shape).number(instruction::ID, id);
    op.numbers(instruction::OPERANDS, operands.iter().copied());
    op
}

fn parameter(id: u64, name: &str, shape: &[u8], number: u64) -> Vec<u8> {
    op(id, name, "parameter", shape, &[]).number(PARAMETER_NUMBER, number).finish()
}

/// `f32` of these dims.
fn f32(dims: &[u64]) -> Vec<u8> {
    Writer::default().number(2, 11).numbers(3, dims.iter().copied()).finish()
}

fn tuple(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut tuple = Writer::default();
    tuple.number(2, 13);
    for part in parts {
        tuple.bytes(4, part);
    }
    tuple.finish()
}

fn body(name: &str, id: u64, root: u64, instructions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Writer::default();
    body.bytes(1, name.as_bytes());
    for op in instructions {
        body.bytes(computation::INSTRUCTIONS, op);
    }
    body.number(COMPUTATION_ID, id).number(computation::ROOT, root).finish()
}

/// A module whose entry has the id 1.
fn program(computations: &[Vec<u8>], parameters: &[Vec<u8>], result: &[u8]) -> Vec<u8> {
    let mut shape = Writer::default();
    for parameter in parameters {
        shape.bytes(1, parameter);
    }
    let shape = shape.bytes(2, result).finish();
    let mut program = Writer::default();
    program.bytes(module::NAME, b"small");
    for body in computations {
        program.bytes(module::COMPUTATIONS, body);
    }
    program.number(ENTRY_ID, 1).bytes(PROGRAM_SHAPE, &shape).finish()
}

/// 8 numbers, handed on.
fn program_of_one(parameter: Vec<u8>, root: u64) -> Vec<u8> {
    program(&[body("main", 1, root, &[parameter])], &[f32(&[8])], &f32(&[8]))
}

/// `x + x` of 8 numbers, made of these instructions.
fn double(instructions: &[Vec<u8>]) -> Vec<u8> {
    program(&[body("main", 1, 2, instructions)], &[f32(&[8])], &f32(&[8]))
}

#[track_caller]
fn check_error(bytes: &[u8], expected: Expect) {
    expected.assert_eq(&HloProgram::read(bytes).unwrap_err().to_string());
}

fn describe(signature: &Signature) -> String {
    let stated = |stated: &Option<StatedSharding>| match stated {
        None => String::new(),
        Some(StatedSharding::Hlo(sharding)) => format!(" {sharding}"),
        Some(StatedSharding::Sdy { mesh, sharding }) => format!(" {sharding} over {mesh}"),
    };
    let mut lines = vec![signature.name.clone()];
    lines.extend(signature.arguments.iter().map(|a| {
        let donated = if a.donated { " donated" } else { "" };
        format!("  {}: {}{donated}{}", a.name, a.ty, stated(&a.stated))
    }));
    lines.extend(signature.outputs.iter().map(|o| {
        let donor = o.donor.map(|donor| format!(" of #{donor}")).unwrap_or_default();
        format!("  -> {}: {}{donor}{}", o.name, o.ty, stated(&o.stated))
    }));
    lines.join("\n")
}

#[track_caller]
fn check_signature(bytes: &[u8], expected: Expect) {
    expected.assert_eq(&describe(HloProgram::read(bytes).unwrap().signature()));
}

/// Where everything lies when the first dim that divides is split over the last axis.
struct Split {
    mesh: AbstractMesh,
    arguments: Vec<NamedSharding>,
    outputs: Vec<NamedSharding>,
}

impl Split {
    fn of(program: &HloProgram, mesh: &str) -> Split {
        let mesh = AbstractMesh::parse(mesh).unwrap();
        let (axis, size) = mesh.axes().last().unwrap().clone();
        let split = |ty: &TensorType| {
            let dim = ty.dims().iter().position(|dim| dim.is_multiple_of(size));
            let whole = PartitionSpec::replicated(ty.rank());
            let spec = dim.map_or(whole, |dim| PartitionSpec::split(ty.rank(), dim, axis.clone()));
            NamedSharding::new(&mesh, spec).unwrap()
        };
        let signature = program.signature();
        let arguments = signature.arguments.iter().map(|a| split(&a.ty)).collect();
        let outputs = signature.outputs.iter().map(|o| split(&o.ty)).collect();
        Split { mesh, arguments, outputs }
    }

    fn annotate(
        &self,
        program: &HloProgram,
        constraints: &[(HloInstructionId, NamedSharding)],
    ) -> Result<Vec<u8>, AnnotateError> {
        let Split { mesh, arguments, outputs } = self;
        program.annotate(&HloAnnotations { mesh, arguments, outputs, constraints })
    }
}

/// The message without these fields of its instructions.
fn without_fields(bytes: &[u8], fields: &[u64]) -> Vec<u8> {
    let without = |content: &[u8]| {
        let kept = Fields::of(content).map(Result::unwrap).filter(|field| !fields.contains(&field.number));
        kept.fold(Writer::default(), |mut writer, field| {
            writer.field(&field);
            writer
        })
    };
    let in_body = |_, content: &[u8]| Ok(Some(without(content).finish()));
    let in_module =
        |_, content: &[u8]| wire::with_items(content, computation::INSTRUCTIONS, in_body).map(Some);
    wire::with_items(bytes, module::COMPUTATIONS, in_module).unwrap()
}

#[test]
fn the_signature_has_the_names_types_and_donations_of_the_framework() {
    check_signature(
        DECODE,
        expect![[r#"
            jit_step
              p['wk']: f32[64,64]
              p['wo']: f32[64,64]
              p['wq']: f32[64,64]
              p['wv']: f32[64,64]
              cache: f32[2,8,16,64]
              x: f32[8,64]
              position: s32[]
              -> cache: f32[2,8,16,64] of #4
              -> out1: f32[8,4]
              -> out2: s32[8,4]
              -> out3: f32[8,4]"#]],
    );
    check_signature(
        GSPMD,
        expect![[r#"
        jit_f
          w: f32[16,16] {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
          x: f32[8,16] {devices=[2,1,4]<=[8] last_tile_dim_replicate}
          -> w: f32[16,16] of #0 {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
          -> out1: f32[8,16] {replicated}"#]],
    );
    check_signature(
        SHARDY,
        expect![[r#"
        jit_f
          w: f32[16,16] <@mesh, [{}, {"fsdp"}]> over data=2, fsdp=4
          x: f32[8,16] <@mesh, [{"data"}, {}]> over data=2, fsdp=4
          -> w: f32[16,16] of #0 <@mesh, [{}, {"fsdp"}]> over data=2, fsdp=4
          -> out1: f32[8,16]"#]],
    );
}

#[test]
fn a_program_may_be_wrapped_as_xla_dumps_it_and_stays_so() {
    let wrapped = Writer::default().bytes(1, DECODE).number(2, 7).finish();
    let program = HloProgram::read(&wrapped).unwrap();
    assert_eq!((program.module(), program.bytes()), (DECODE, &wrapped[..]));
    let split = Split::of(&program, "fsdp=8");
    let inner = split.annotate(&HloProgram::read(DECODE).unwrap(), &[]).unwrap();
    let expected = Writer::default().bytes(1, &inner).number(2, 7).finish();
    assert_eq!(split.annotate(&program, &[]).unwrap(), expected);
}

#[test]
fn arguments_that_a_framework_calls_alike_have_the_names_of_their_instructions() {
    let same = |id, name, number| {
        let mut parameter = op(id, name, "parameter", &f32(&[8]), &[]);
        parameter.number(PARAMETER_NUMBER, number);
        parameter.bytes(METADATA, &Writer::default().bytes(2, b"xla__device_data").finish()).finish()
    };
    let instructions = [
        same(1, "p0.1", 0),
        same(3, "p1.2", 1),
        same(4, "", 2),
        op(2, "s", "add", &f32(&[8]), &[1, 3]).finish(),
    ];
    let bytes = program(&[body("main", 1, 2, &instructions)], &vec![f32(&[8]); 3], &f32(&[8]));
    check_signature(
        &bytes,
        expect![[r#"
        small
          p0.1: f32[8]
          p1.2: f32[8]
          #2: f32[8]
          -> out0: f32[8]"#]],
    );
}

#[test]
fn what_would_abort_or_confuse_a_compiler_names_the_instruction() {
    let (x, sum) = (parameter(1, "x", &f32(&[8]), 0), op(2, "sum", "add", &f32(&[8]), &[1, 1]).finish());
    assert!(HloProgram::read(&double(&[x.clone(), sum.clone()])).is_ok());
    check_error(
        &double(&[sum.clone(), x.clone()]),
        expect![
            "computation main: instruction sum uses the instruction with the id 1, which is not defined before it in its computation"
        ],
    );
    check_error(
        &double(&[x.clone(), op(2, "sum", "add", &f32(&[8]), &[1, 2]).finish()]),
        expect![
            "computation main: instruction sum uses the instruction with the id 2, which is not defined before it in its computation"
        ],
    );
    check_error(
        &double(&[x.clone(), sum.clone(), sum.clone()]),
        expect!["computation main: instructions sum and sum have the same id, 2"],
    );
    // Compilers tell instructions apart by the lower half of their ids.
    let high = op(1 << 32 | 1, "high", "negate", &f32(&[8]), &[1]).finish();
    check_error(
        &double(&[x.clone(), high, sum.clone()]),
        expect!["computation main: instructions x and high have the same id, 4294967297"],
    );
    check_error(
        &double(from_ref(&x)),
        expect!["computation main: its root has the id 2, and it has no such instruction"],
    );
    check_error(
        &double(&[parameter(1, "x", &f32(&[8]), 1), sum.clone()]),
        expect![
            "computation main: its 1 parameters are to be numbered from 0, each once; x has the number 1"
        ],
    );
    let called = op(2, "sum", "call", &f32(&[8]), &[1]).numbers(CALLED, [1]).finish();
    check_error(
        &double(&[x.clone(), called]),
        expect![
            "computation main: instruction sum calls the computation with the id 1, which is not defined before its own"
        ],
    );
    check_error(
        &double(&[x.clone(), op(2, "sum", "", &f32(&[8]), &[1]).finish()]),
        expect![
            "instruction 1 of computation 0 of the module cannot be read: its field 2 is not the name of an operation"
        ],
    );
    check_error(
        &double(&[x.clone(), vec![0x0a, 9]]),
        expect![
            "instruction 1 of computation 0 of the module cannot be read: it has 2 bytes, and the field that begins at byte 0 goes beyond them"
        ],
    );

    let main = body("main", 1, 2, &[x.clone(), sum.clone()]);
    check_error(
        &program(&[main.clone(), main.clone()], &[f32(&[8])], &f32(&[8])),
        expect!["computations main and main have the same id, 1"],
    );
    check_error(
        &program(&[body("other", 4, 2, &[x, sum])], &[f32(&[8])], &f32(&[8])),
        expect![[r#"the entry computation is "" with the id 1, and the module has no such computation"#]],
    );
    check_error(
        &program(from_ref(&main), &[f32(&[4])], &f32(&[8])),
        expect!["the module says that argument 0 is f32[4], and it is f32[8]"],
    );
    check_error(
        &program(from_ref(&main), &[f32(&[8])], &f32(&[4])),
        expect!["the module says that its result is f32[4], and it is f32[8]"],
    );
    check_error(
        &program(&[main], &[], &f32(&[8])),
        expect!["the module says that the number of its arguments is 0, and it is 1"],
    );
}

#[test]
fn shapes_that_cannot_be_are_errors() {
    let of = |shape: &[u8]| {
        let instructions = [parameter(1, "x", shape, 0), op(2, "sum", "add", shape, &[1, 1]).finish()];
        program(&[body("main", 1, 2, &instructions)], &[shape.to_vec()], shape)
    };
    check_error(
        &of(&f32(&[1 << 62, 4])),
        expect![
            "computation main: instruction x: dims [4611686018427387904, 4] make more elements than can be addressed"
        ],
    );
    check_error(
        &of(&f32(&[0, 1 << 62, 1 << 62])),
        expect![
            "computation main: instruction x: dims [0, 4611686018427387904, 4611686018427387904] make more elements than can be addressed"
        ],
    );
    check_error(
        &of(&f32(&[i64::MIN as u64])),
        expect![
            "computation main: instruction x: dim 0 has the size -9223372036854775808; dims have to be of a fixed size of at least 0"
        ],
    );
    check_error(
        &of(&Writer::default().number(2, 15).numbers(3, [8]).finish()),
        expect![
            "argument x is c64[8]; expected an array of fixed size, of pred, s8 to s64, u8 to u64, f16, bf16, f32 or f64"
        ],
    );
    let dynamic = Writer::default().number(2, 11).numbers(3, [8, 4]).numbers(6, [0, 1]).finish();
    check_error(
        &of(&dynamic),
        expect![
            "argument x is f32[<=8,4]; expected an array of fixed size, of pred, s8 to s64, u8 to u64, f16, bf16, f32 or f64"
        ],
    );
    check_error(
        &of(&tuple(&[f32(&[8]), f32(&[4])])),
        expect![
            "argument x is the tuple (f32[8], f32[4]), which cannot be sharded part by part; export the program with one parameter for each array"
        ],
    );
    check_error(
        &of(&[]),
        expect![
            "argument x is type 0[]; expected an array of fixed size, of pred, s8 to s64, u8 to u64, f16, bf16, f32 or f64"
        ],
    );

    let mut nested = f32(&[8]);
    while nested.len() < 4_000 {
        nested = tuple(&[nested]);
    }
    check_error(
        &of(&nested),
        expect!["computation main: instruction x: tuples are nested more than 32 deep"],
    );
}

#[test]
fn stated_shardings_that_make_no_sense_are_errors() {
    let with = |sharding: &[u8]| {
        let mut x = op(1, "x", "parameter", &f32(&[8]), &[]);
        let x = x.bytes(instruction::SHARDING, sharding).finish();
        double(&[x, op(2, "sum", "add", &f32(&[8]), &[1, 1]).finish()])
    };
    check_error(
        &with(&[8, 9]),
        expect![
            "the sharding that the module states for argument x: not a sharding that is known here: its type has the number 9"
        ],
    );
    let two = Writer::default().number(1, 2).bytes(5, &[]).bytes(5, &[]).finish();
    check_error(
        &with(&two),
        expect!["the sharding that the module states for argument x: there are 2 shardings for 1 arrays"],
    );
    let mut other = SHARDY.to_vec();
    let at = other.windows(6).position(|window| window == b"<@mesh").unwrap();
    other[at + 2] = b'n';
    check_error(
        &other,
        expect![
            "the sharding that the module states for argument w: it is over the mesh @nesh, and the module has @mesh"
        ],
    );
}

#[test]
fn outputs_share_the_sharding_that_stands_for_all_of_them() {
    const OUTPUTS: usize = 20_000;
    const DEVICES: u64 = 100_000;
    let outputs = tuple(&vec![f32(&[8]); OUTPUTS]);
    let every_device = (0..DEVICES).map(|device| device ^ 1);
    let sharding = Writer::default().number(1, 3).numbers(3, [DEVICES]).numbers(4, every_device).finish();
    let mut root = op(2, "t", "tuple", &outputs, &[1; OUTPUTS]);
    let root = root.bytes(instruction::SHARDING, &sharding).finish();
    let instructions = [parameter(1, "x", &f32(&[8]), 0), root];
    let bytes = program(&[body("main", 1, 2, &instructions)], &[f32(&[8])], &outputs);
    let program = HloProgram::read(&bytes).unwrap();
    let stated = |output: &OutputInfo| match output.stated.clone() {
        Some(StatedSharding::Hlo(sharding)) => sharding,
        other => panic!("{other:?}"),
    };
    let outputs = &program.signature().outputs;
    assert!(outputs.iter().all(|output| Arc::ptr_eq(&stated(output), &stated(&outputs[0]))));
}

#[test]
fn donations_that_cannot_be_are_errors() {
    let with = |entry: &[u8]| {
        let aliases = Writer::default().bytes(1, entry).finish();
        let sum = op(2, "sum", "add", &f32(&[8]), &[1, 1]).finish();
        let mut bytes = double(&[parameter(1, "x", &f32(&[8]), 0), sum]);
        bytes.extend(Writer::default().bytes(module::ALIASES, &aliases).finish());
        bytes
    };
    check_signature(
        &with(&[]),
        expect![[r#"
        small
          x: f32[8]
          -> x: f32[8] of #0"#]],
    );
    check_error(
        &with(&Writer::default().number(2, 1).finish()),
        expect!["output 0 cannot take over the memory of argument 1: there are 1 arguments and 1 outputs"],
    );
    check_error(
        &with(&Writer::default().numbers(1, [0]).finish()),
        expect![
            "output 0 cannot take over the memory of argument 0: one of them is said to be a part of an array"
        ],
    );
}

#[test]
fn memory_that_is_given_up_goes_to_outputs_of_its_type_in_order() {
    let [a, b, c] = [f32(&[8]), f32(&[8]), f32(&[4])];
    let parameters = [parameter(1, "a", &a, 0), parameter(2, "b", &b, 1), parameter(3, "c", &c, 2)];
    let outputs = tuple(&[f32(&[8]), f32(&[8]), f32(&[4]), f32(&[4])]);
    let root = op(4, "t", "tuple", &outputs, &[2, 1, 3, 3]).finish();
    let instructions = [&parameters[..], &[root]].concat();
    let mut bytes = program(&[body("main", 1, 4, &instructions)], &[a, b, c], &outputs);
    let mut donors = Writer::default();
    for number in 0..3 {
        donors.bytes(1, &Writer::default().number(1, number).finish());
    }
    bytes.extend(Writer::default().bytes(module::DONORS, &donors.finish()).finish());
    // There are two outputs that could take over the memory of c, and it stays open which.
    check_signature(
        &bytes,
        expect![[r#"
        small
          a: f32[8]
          b: f32[8]
          c: f32[4] donated
          -> a: f32[8] of #0
          -> b: f32[8] of #1
          -> out2: f32[4]
          -> out3: f32[4]"#]],
    );

    let mut program = HloProgram::read(&bytes).unwrap();
    assert_eq!(program.donate(1, 2).unwrap_err().to_string(), "the one is f32[8], the other f32[4]");
    assert_eq!(program.donate(0, 1).unwrap_err().to_string(), "one of them is a part of another such pair");
    assert_eq!(program.donate(9, 0).unwrap_err().to_string(), "there are 3 arguments and 4 outputs");
    program.donate(3, 2).unwrap();
    let annotated = Split::of(&program, "fsdp=1").annotate(&program, &[]).unwrap();
    let annotated = HloProgram::read(&annotated).unwrap();
    assert_eq!(annotated.signature(), program.signature());
    let read = Module::read(annotated.module()).unwrap();
    assert_eq!(read.donors, &[] as &[u8], "what is paired is not to be given up a second time");
}

#[test]
fn a_loss_needs_parameters_and_no_moments() {
    let add = |id, name, operands| op(id, name, "add", &f32(&[8]), operands).finish();
    let results = tuple(&[f32(&[8]), f32(&[8]), f32(&[8])]);
    let instructions = [
        parameter(2, "w", &f32(&[8]), 0),
        parameter(3, "moment", &f32(&[8]), 1),
        parameter(4, "x", &f32(&[8]), 2),
        add(5, "loss", &[2, 4]),
        add(6, "new_moment", &[3, 5]),
        add(7, "new_w", &[2, 6]),
        op(8, "results", "tuple", &results, &[7, 6, 5]).finish(),
    ];
    let arguments = [f32(&[8]), f32(&[8]), f32(&[8])];
    let bytes = program(&[body("main", 1, 8, &instructions)], &arguments, &results);
    let mut program = HloProgram::read(&bytes).unwrap();
    assert_eq!(program.needed_by_results(), [true, true, true]);
    program.donate(0, 0).unwrap();
    program.donate(1, 1).unwrap();
    assert_eq!(program.needed_by_results(), [true, false, true]);
}

#[test]
fn annotated_programs_have_their_shardings_and_everything_else_as_it_was() {
    for bytes in [MLP, DECODE] {
        let program = HloProgram::read(bytes).unwrap();
        let split = Split::of(&program, "data=2,fsdp=4");
        let annotated = split.annotate(&program, &[]).unwrap();
        assert_ne!(annotated, bytes);
        assert_eq!(without_fields(&annotated, &[instruction::SHARDING]), bytes);

        let read = HloProgram::read(&annotated).unwrap();
        let named = |stated: &Option<StatedSharding>, rank| match stated {
            Some(StatedSharding::Hlo(sharding)) => sharding.to_named(&split.mesh, rank).unwrap(),
            other => panic!("{other:?}"),
        };
        for (argument, sharding) in read.signature().arguments.iter().zip(&split.arguments) {
            assert_eq!(named(&argument.stated, argument.ty.rank()), *sharding);
        }
        for (output, sharding) in read.signature().outputs.iter().zip(&split.outputs) {
            assert_eq!(named(&output.stated, output.ty.rank()), *sharding);
        }
        let names = |program: &HloProgram| {
            let signature = program.signature();
            signature.arguments.iter().map(|a| (a.name.clone(), a.ty.clone())).collect::<Vec<_>>()
        };
        assert_eq!(names(&read), names(&program));
        assert_eq!(split.annotate(&read, &[]).unwrap(), annotated, "a second time nothing is left to write");
        assert_eq!(Split::of(&program, "fsdp=1").annotate(&program, &[]).unwrap(), bytes);
    }
}

#[test]
fn a_program_for_shardy_is_annotated_for_shardy() {
    let program = HloProgram::read(SHARDY).unwrap();
    assert_eq!(program.partitioner(), Partitioner::Shardy);
    let split = Split::of(&program, "data=2,fsdp=4");
    let dot = program.instructions().into_iter().find(|i| i.opcode == "dot").unwrap();
    let whole = NamedSharding::replicated(&split.mesh, 2);
    let annotated = split.annotate(&program, &[(dot.id, whole)]).unwrap();
    check_signature(
        &annotated,
        expect![[r#"
        jit_f
          w: f32[16,16] <@mesh, [{"fsdp"}, {}]> over data=2, fsdp=4
          x: f32[8,16] <@mesh, [{"fsdp"}, {}]> over data=2, fsdp=4
          -> w: f32[16,16] of #0 <@mesh, [{"fsdp"}, {}]> over data=2, fsdp=4
          -> out1: f32[8,16] <@mesh, [{"fsdp"}, {}]> over data=2, fsdp=4"#]],
    );
    let read = HloProgram::read(&annotated).unwrap();
    // One pins the second output, which the framework left open, and one the dot.
    let names = |program: &HloProgram| {
        program.instructions().into_iter().map(|i| i.name).collect::<BTreeSet<String>>()
    };
    let added: Vec<String> = names(&read).difference(&names(&program)).cloned().collect();
    expect!["pinned.1.16 pinned.1.17"].assert_eq(&added.join(" "));
    assert_eq!(split.annotate(&read, &[]).unwrap(), annotated, "a second time nothing is left to write");

    let other = Split::of(&program, "data=4,fsdp=2").annotate(&program, &[]).unwrap_err();
    expect![[r#"the module is written for the mesh <["data"=2, "fsdp"=4]>, and the shardings are over <["data"=4, "fsdp"=2]>"#]].assert_eq(&other.to_string());
}

#[test]
fn a_program_whose_result_is_an_array_is_pinned_at_its_root() {
    let sum = op(2, "sum", "add", &f32(&[8]), &[1, 1]).finish();
    let split = |bytes: &[u8]| {
        let program = HloProgram::read(bytes).unwrap();
        Split::of(&program, "fsdp=4").annotate(&program, &[]).unwrap()
    };
    check_signature(
        &split(&double(&[parameter(1, "x", &f32(&[8]), 0), sum])),
        expect![[r#"
        small
          x: f32[8] {devices=[4]<=[4]}
          -> out0: f32[8] {devices=[4]<=[4]}"#]],
    );
    // An argument that is handed on, which may lie elsewhere at the end.
    let x = parameter(2, "x", &f32(&[8]), 0);
    let program = HloProgram::read(&double(&[x])).unwrap();
    let mut other = Split::of(&program, "fsdp=4");
    other.outputs = vec![NamedSharding::replicated(&other.mesh, 1)];
    check_signature(
        &other.annotate(&program, &[]).unwrap(),
        expect![[r#"
        small
          x: f32[8] {devices=[4]<=[4]}
          -> out0: f32[8] {replicated}"#]],
    );
}

#[test]
fn shardings_that_do_not_fit_are_errors() {
    let program = HloProgram::read(DECODE).unwrap();
    let split = Split::of(&program, "fsdp=8");
    let found = |opcode: &str| program.instructions().into_iter().find(|i| i.opcode == opcode).unwrap();
    let error = |constraint: HloInstructionId, rank| {
        let sharding = NamedSharding::replicated(&split.mesh, rank);
        split.annotate(&program, &[(constraint, sharding)]).unwrap_err().to_string()
    };
    expect!["dot_general.7 cannot be pinned to (-, -, -): spec (-, -, -) is for rank 3, but shape [8, 64] has rank 2; a spec has one entry per dim, - where it is not split"].assert_eq(&error(found("dot").id, 3));
    let cache = program.instructions().into_iter().find(|i| i.name.starts_with("cache")).unwrap();
    expect!["cache.1 cannot be pinned to (-, -, -, -): arguments and outputs have shardings of their own"]
        .assert_eq(&error(cache.id, 4));
    expect!["instruction 0 of computation 99 cannot be pinned to (-): the module has no such instruction"]
        .assert_eq(&error(HloInstructionId { computation: 99, instruction: 0 }, 1));
    let few = HloAnnotations {
        mesh: &split.mesh,
        arguments: &split.arguments[1..],
        outputs: &split.outputs,
        constraints: &[],
    };
    expect!["the module has 7 arguments, and 6 shardings were given for them"]
        .assert_eq(&program.annotate(&few).unwrap_err().to_string());

    // Another instruction cannot have an id of its own.
    let last = u64::from(u32::MAX);
    let x = parameter(last, "x", &f32(&[8]), 0);
    let full = HloProgram::read(&program_of_one(x, last)).unwrap();
    let whole = NamedSharding::replicated(&split.mesh, 1);
    let split_whole = Split { outputs: vec![whole], ..Split::of(&full, "fsdp=8") };
    expect!["computation main has no id left for another instruction"]
        .assert_eq(&split_whole.annotate(&full, &[]).unwrap_err().to_string());

    let compiled = [DECODE, &Writer::default().bytes(12, &[]).finish()].concat();
    let compiled = HloProgram::read(&compiled).unwrap();
    expect!["the module is what a compiler made of another one; annotate that one"]
        .assert_eq(&split.annotate(&compiled, &[]).unwrap_err().to_string());
}

/// What may happen to a file.
#[derive(Clone, Debug)]
enum Damage {
    Change(Index, u8),
    Remove(Index),
    Insert(Index, Vec<u8>),
    CutOff(Index),
}

impl Damage {
    fn to(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let n_bytes = bytes.len();
        match self {
            Damage::Change(at, value) => bytes[at.index(n_bytes)] = *value,
            Damage::Remove(at) => drop(bytes.remove(at.index(n_bytes))),
            Damage::Insert(at, added) => {
                let at = at.index(n_bytes);
                bytes.splice(at..at, added.iter().copied());
            }
            Damage::CutOff(at) => bytes.truncate(at.index(n_bytes)),
        }
    }
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        8 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Change(at, value)),
        2 => any::<Index>().prop_map(Damage::Remove),
        2 => (any::<Index>(), prop::collection::vec(any::<u8>(), 1..12))
            .prop_map(|(at, added)| Damage::Insert(at, added)),
        1 => any::<Index>().prop_map(Damage::CutOff),
    ];
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_the_reader_panic_or_the_writer_make_what_is_no_program(
        which in 0..3usize,
        damages in damage(),
    ) {
        let mut bytes = [DECODE, GSPMD, SHARDY][which].to_vec();
        damages.iter().for_each(|damage| damage.to(&mut bytes));
        if let Ok(program) = HloProgram::read(&bytes) {
            let split = Split::of(&program, "data=2,fsdp=4");
            if let Ok(annotated) = split.annotate(&program, &[]) {
                HloProgram::read(&annotated).unwrap();
            }
        }
    }

    #[test]
    fn fields_that_nobody_knows_stay(
        number in 1000..9000u64,
        content in prop::collection::vec(any::<u8>(), 0..20),
        which in 0..3usize,
    ) {
        let unknown = Writer::default().bytes(number, &content).finish();
        let add = |content: &[u8]| Ok(Some([content, &unknown].concat()));
        let in_body = |_, content: &[u8]| add(content);
        let in_module = |_, content: &[u8]| {
            add(&wire::with_items(content, computation::INSTRUCTIONS, in_body)?)
        };
        let original = [DECODE, GSPMD, SHARDY][which];
        let with = wire::with_items(original, module::COMPUTATIONS, in_module).unwrap();
        let program = HloProgram::read(&with).unwrap();
        let split = Split::of(&program, "data=2,fsdp=4");
        let annotated = split.annotate(&program, &[]).unwrap();
        let count = |bytes: &[u8]| bytes.windows(unknown.len()).filter(|window| *window == unknown).count();
        prop_assert_eq!(count(&annotated), count(&with));
    }
}
