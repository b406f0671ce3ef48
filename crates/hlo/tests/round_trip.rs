//! What is printed is read back as what it was, and no text makes reading, checking or printing panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use shardwright_hlo::{
    AxisGroup, Binary, Comparison, DotDims, Function, FunctionId, GatherDims, Location, ManualComputation,
    Module, Op, OtherOp, Parsed, Positions, Precision, Reduction, Region, Role, ScatterDims, Shardings,
    SliceBounds, SourceId, Stated, StatedSharding, Unary, ValueId, ValueType, parse, print, verify,
};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_tensor::{DType, HostArray, Shape, TensorType};

/// What decides over a program: for each instruction which op, which operands, and how it goes on.
type Choice = (Index, [Index; 4], u8);

fn ty(dtype: DType, dims: &[usize]) -> TensorType {
    TensorType::new(dtype, dims).unwrap()
}

/// Ops to choose from; many do not fit the operands that they are offered, and are left out then.
fn ops() -> Vec<Op> {
    let shape = |dims: &[usize]| Shape::new(dims).unwrap();
    let mut ops: Vec<Op> = Vec::new();
    ops.extend(Unary::ALL.map(Op::Unary));
    ops.extend(Binary::ALL.map(Op::Binary));
    ops.extend(Comparison::ALL.map(Op::Compare));
    ops.extend(DType::ALL.map(Op::Convert));
    for kind in Reduction::ALL {
        ops.push(Op::Reduce { kind, dims: vec![0, 1] });
        ops.push(Op::Reduce { kind, dims: vec![1] });
        let dims = ScatterDims {
            inserted_window: vec![1],
            operand_batch: vec![0],
            indices_batch: vec![0],
            index_map: vec![1],
            index_vector: 2,
            unique_indices: true,
            ..ScatterDims::default()
        };
        ops.push(Op::Scatter { kind, dims });
    }
    for precision in Precision::ALL {
        ops.push(Op::DotGeneral(DotDims {
            lhs_batch: vec![0],
            rhs_batch: vec![0],
            lhs_contracting: vec![1],
            rhs_contracting: vec![1],
            result: DType::F32,
            precision,
        }));
    }
    ops.extend([
        Op::Constant(
            HostArray::from_slice(&[2, 3], &[1f32, -0.0, f32::NAN, f32::INFINITY, 1e-40, 7.5]).unwrap(),
        ),
        Op::Constant(HostArray::from_bytes(ty(DType::Pred, &[2, 3]), &[1, 0, 0, 1, 1, 0]).unwrap()),
        Op::Constant(HostArray::from_slice(&[2, 3], &[i32::MIN, 0, 1, 2, 3, i32::MAX]).unwrap()),
        Op::Constant(HostArray::scalar(0f32)),
        Op::Constant(HostArray::scalar(u64::MAX)),
        Op::Constant(HostArray::zeros(ty(DType::Bf16, &[0, 3]))),
        Op::Splat { element: HostArray::scalar(1.5f64).cast(DType::F16), shape: shape(&[2, 3]) },
        Op::Splat { element: HostArray::scalar(-1i8), shape: shape(&[1 << 40]) },
        Op::Iota { ty: ty(DType::S32, &[2, 3]), dim: 1 },
        Op::Select,
        Op::Clamp,
        Op::BitcastConvert(DType::S32),
        Op::BitcastConvert(DType::U8),
        Op::BroadcastInDim { shape: shape(&[2, 3]), dims: vec![] },
        Op::BroadcastInDim { shape: shape(&[3, 2]), dims: vec![1, 0] },
        Op::Reshape(shape(&[2, 3])),
        Op::Transpose(vec![1, 0]),
        Op::Slice(SliceBounds { starts: vec![0, 1], limits: vec![2, 3], strides: vec![1, 2] }),
        Op::DynamicSlice { sizes: vec![1, 3] },
        Op::DynamicUpdateSlice,
        Op::Reverse(vec![0]),
        Op::Pad { low: vec![1, -1], high: vec![0, 2], interior: vec![0, 1] },
        Op::Concatenate { dim: 0 },
        Op::Gather(GatherDims {
            collapsed: vec![1],
            operand_batch: vec![0],
            indices_batch: vec![0],
            start_index_map: vec![1],
            index_vector: 2,
            slice_sizes: vec![1, 1],
            indices_are_sorted: true,
            ..GatherDims::default()
        }),
        Op::OptimizationBarrier,
        Op::Boundary(Role::Constraint),
        Op::Call(FunctionId(0)),
        Op::While,
        Op::If,
        Op::Case,
        Op::Other(Box::new(OtherOp {
            name: "stablehlo.custom_call".into(),
            properties: r#"call_target_name = "a \"b\"", has_side_effect = true"#.into(),
            attributes: "x.y = {a = [1, 2], b}".into(),
            results: vec![ValueType::Other("tensor<4xcomplex<f32>>".into()), ty(DType::F32, &[2, 3]).into()],
        })),
    ]);
    ops
}

/// A program in the making.
struct Builder {
    module: Module,
    stated: Stated,
    /// What can be used where the next instruction stands.
    visible: Vec<ValueId>,
}

impl Builder {
    fn instructions(&mut self, choices: &mut std::slice::Iter<'_, Choice>, ops: &[Op], count: usize) {
        for _ in 0..count {
            let Some((op, operands, more)) = choices.next() else { return };
            self.instruction(op.get(ops).clone(), operands, *more, choices, ops);
        }
    }

    fn instruction(
        &mut self,
        op: Op,
        picks: &[Index; 4],
        more: u8,
        choices: &mut std::slice::Iter<'_, Choice>,
        ops: &[Op],
    ) {
        let pick = |n: usize| picks[..n].iter().map(|i| *i.get(&self.visible)).collect::<Vec<ValueId>>();
        let (operands, regions) = match op {
            Op::Case | Op::If => {
                let dtype = if op == Op::If { DType::Pred } else { DType::S32 };
                let operand = self.visible.iter().find(|&&v| self.is(v, &TensorType::scalar(dtype)));
                let Some(&operand) = operand else { return };
                let results = pick(2);
                let regions = (0..2).map(|_| self.region(&[], Some(&results), choices, ops)).collect();
                (vec![operand], regions)
            }
            Op::While => {
                let carried = pick(2);
                let preds = self.visible.iter().copied();
                let Some(pred) = preds.into_iter().find(|&v| self.is(v, &TensorType::scalar(DType::Pred)))
                else {
                    return;
                };
                let condition = self.region(&carried, Some(&[pred]), choices, ops);
                let body = self.region(&carried, None, choices, ops);
                (carried, vec![condition, body])
            }
            // Ops take what they take: the first number of operands that fits.
            _ => {
                let counts = [usize::from(more % 4), 0, 1, 2, 3, 4];
                let fits = |n: &usize| {
                    let mut copy = self.module.clone();
                    copy.push(op.clone(), &pick(*n)).is_ok_and(|results| !results.is_empty())
                };
                let Some(count) = counts.into_iter().find(fits) else { return };
                (pick(count), Vec::new())
            }
        };
        let source = more.is_multiple_of(3).then(|| self.source(more));
        let location = Location { source, ..Location::default() };
        let is_boundary = matches!(op, Op::Boundary(_));
        let results = self.module.push_with_regions(op, &operands, regions, location).unwrap();
        if is_boundary || more.is_multiple_of(5) {
            for &result in &results {
                // HLO's form is read of single results only.
                let more = if results.len() > 1 && more.is_multiple_of(7) { 1 } else { more };
                let sharding = self.sharding(result, more);
                self.stated.values.insert(result, sharding);
            }
        }
        self.visible.extend(results);
    }

    /// A region that takes what `like` are and gives `results`, or what it takes.
    fn region(
        &mut self,
        like: &[ValueId],
        results: Option<&[ValueId]>,
        choices: &mut std::slice::Iter<'_, Choice>,
        ops: &[Op],
    ) -> Region {
        let outside = std::mem::take(&mut self.module.instructions);
        let visible = self.visible.len();
        let types: Vec<ValueType> = like.iter().map(|v| self.module.values[v.index()].clone()).collect();
        let arguments: Vec<ValueId> = types.into_iter().map(|ty| self.module.new_value(ty)).collect();
        self.visible.extend(&arguments);
        self.instructions(choices, ops, 3);
        self.visible.truncate(visible);
        let instructions = std::mem::replace(&mut self.module.instructions, outside);
        let results = results.map_or_else(|| arguments.clone(), <[ValueId]>::to_vec);
        Region { arguments, instructions, results }
    }

    fn is(&self, value: ValueId, ty: &TensorType) -> bool {
        self.module.values[value.index()].tensor() == Some(ty)
    }

    fn source(&mut self, more: u8) -> SourceId {
        let text = format!("(\"f{}\"(\"a b.py\":{more}:2))", more % 4);
        let known = self.module.sources.iter().position(|source| *source == text);
        let index = known.unwrap_or_else(|| {
            self.module.sources.push(text);
            self.module.sources.len() - 1
        });
        SourceId(u32::try_from(index).unwrap())
    }

    /// Some sharding of a value, which is open, ordered, or split over a part of an axis.
    fn sharding(&self, value: ValueId, more: u8) -> StatedSharding {
        let rank = self.module.values[value.index()].tensor().map_or(0, TensorType::rank);
        if more.is_multiple_of(7) && self.module.values[value.index()].tensor().is_some() {
            return StatedSharding::Hlo(Arc::new("{replicated}".parse().unwrap()));
        }
        let dims = ["{\"x\"}", "{?}", "{\"y\":(1)2, ?}p1", "{}"];
        let dims: Vec<&str> =
            (0..rank).map(|d| if d == 0 { dims[usize::from(more % 4)] } else { "{}" }).collect();
        let name = if more.is_multiple_of(2) { "mesh" } else { "other mesh" };
        let name_text = if more.is_multiple_of(2) { "mesh" } else { "\"other mesh\"" };
        let sharding = format!("<@{name_text}, [{}]>", dims.join(", ")).parse().unwrap();
        let (_, mesh) = self.stated.meshes.iter().find(|(known, _)| known == name).unwrap();
        StatedSharding::Sdy { mesh: mesh.shape().clone(), sharding }
    }
}

/// A program of one or several functions, whose instructions are chosen; in the form that reading gives it.
fn program(choices: &[Choice], names: &[String]) -> Parsed {
    let mesh = Mesh::iota(AbstractMesh::parse("x=2, y=4").unwrap());
    let turned = Mesh::from_sdy_text(r#"<["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>"#).unwrap();
    let meshes = vec![("mesh".into(), mesh), ("other mesh".into(), turned)];
    let stated = Stated { num_partitions: 8, meshes, values: BTreeMap::new(), outputs: BTreeMap::new() };
    let mut b = Builder { module: Module::new("a program"), stated, visible: Vec::new() };
    let types = [
        ty(DType::F32, &[2, 3]),
        ty(DType::S32, &[2, 3]),
        ty(DType::Pred, &[2, 3]),
        ty(DType::F32, &[2, 1]),
        ty(DType::S32, &[2, 1, 1]),
        ty(DType::F32, &[2, 1]),
        TensorType::scalar(DType::S32),
        TensorType::scalar(DType::F32),
        TensorType::scalar(DType::Pred),
    ];
    for (index, ty) in types.iter().enumerate() {
        let value = b.module.add_argument(format!("{}{index}", names[index % names.len()]), ty.clone());
        b.module.arguments[index].attributes = if index == 1 { "a.b = \"c\"".into() } else { String::new() };
        b.visible.push(value);
    }
    b.module.attributes = "x.y = [1 : i32]".into();
    // A function to be called; its values are numbered behind those of the program.
    let callee = |module: &mut Module| {
        let arguments = vec![module.new_value(types[0].clone().into())];
        let body = Region { results: arguments.clone(), arguments, instructions: Vec::new() };
        Function { name: "f.1 \"g\"".into(), body, attributes: "no_inline".into() }
    };
    let placeholder = callee(&mut Module { values: vec![types[0].clone().into()], ..Module::new("") });
    let first = ValueId(0);
    let body = Region { arguments: vec![first], results: vec![first], instructions: Vec::new() };
    b.module.functions.push(Function { body, ..placeholder });
    b.instructions(&mut choices.iter(), &ops(), choices.len());
    b.module.functions[0] = callee(&mut b.module);
    for (index, value) in b.visible.clone().into_iter().enumerate() {
        if b.module.values[value.index()].tensor().is_none() {
            continue;
        }
        let donor = b.module.arguments.get(index).map(|_| index).filter(|index| index % 2 == 0);
        let output = b.module.outputs.len();
        match donor {
            Some(donor) => b.module.add_donated_output(format!("{}{index}", names[0]), value, donor),
            None => b.module.add_output(format!("{}{index}", names[0]), value),
        }
        if index % 3 == 0 {
            let sharding = b.sharding(value, 3);
            b.stated.outputs.insert(output, sharding);
        }
    }
    Parsed { module: verify(b.module).unwrap(), stated: b.stated, positions: Positions::default() }
}

/// A manual region over a mesh of two axes, with each collective, along one axis and along both.
fn manual_region() -> (Module, Shardings) {
    let mesh = AbstractMesh::parse("data=2,fsdp=4").unwrap();
    let on = |spec: &str| NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap();
    let along = |axes: &[&str]| AxisGroup::new(&mesh, axes.iter().map(|&axis| axis.into())).unwrap();
    let mut m = Module::new("shards");
    let x = m.add_argument("x", ty(DType::F32, &[16, 8]));
    let shard = m.new_value(ty(DType::F32, &[2, 8]).into());
    let mut value = shard;
    let mut push = |m: &mut Module, op: Op| value = m.push(op, &[value]).unwrap()[0];
    push(&mut m, Op::AllGather { dim: 0, axes: along(&["fsdp"]) });
    push(&mut m, Op::AllGather { dim: 1, axes: along(&["fsdp", "data"]) });
    push(&mut m, Op::ReduceScatter { kind: Reduction::Maximum, dim: 1, axes: along(&["data", "fsdp"]) });
    push(&mut m, Op::ReduceScatter { kind: Reduction::Add, dim: 0, axes: along(&["fsdp"]) });
    push(&mut m, Op::Reduce { kind: Reduction::Add, dims: vec![1] });
    push(&mut m, Op::AllReduce { kind: Reduction::Add, axes: along(&["data"]) });
    let instructions = std::mem::take(&mut m.instructions);
    let manual = ManualComputation {
        in_shardings: vec![on("((data,fsdp), -)")],
        out_shardings: vec![on("(fsdp)")],
        manual_axes: vec!["data".into(), "fsdp".into()],
        results: vec![ty(DType::F32, &[8])],
    };
    let region = Region { arguments: vec![shard], instructions, results: vec![value] };
    let op = Op::ManualComputation(Box::new(manual));
    let y = m.push_with_regions(op, &[x], vec![region], Location::default()).unwrap()[0];
    m.add_output("y", y);
    let nothing = (BTreeMap::new(), BTreeMap::new());
    (m, Shardings { mesh, values: nothing.0, outputs: nothing.1, stated: Stated::default() })
}

#[test]
fn manual_regions_are_read_back() {
    let (module, shardings) = manual_region();
    let module = verify(module).unwrap();
    let text = print(&module, Some(&shardings));
    let again = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.module, module, "{text}");
    assert_eq!(again.to_string(), text);
}

/// What says other things than our own regions is kept as it was written, and read back too.
#[test]
fn other_manual_regions_are_kept_as_they_are_written() {
    let (module, shardings) = manual_region();
    let text = print(&module, Some(&shardings));
    let changes = [
        // One collective joins by an op that is no reduction.
        ("stablehlo.maximum", "stablehlo.subtract", true),
        // Groups along no axes, so that it is not known along which the result varies.
        ("[[0, 4], [1, 5], [2, 6], [3, 7]]", "[[0, 5], [1, 4], [2, 6], [3, 7]]", false),
        ("handle = 1", "handle = 2", false),
        ("@mesh", "@other", false),
        (r#"["data"=2, "fsdp"=4]"#, r#"["data"=2, "fsdp"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]"#, false),
        (r#"[<@mesh, [{"fsdp"}]>]"#, r#"[<@mesh, [{"fsdp", ?}]>]"#, false),
    ];
    for (from, to, is_manual) in changes {
        assert!(text.contains(from), "{from}\n{text}");
        let changed = text.replace(from, to);
        let program = parse(&changed).unwrap_or_else(|error| panic!("{error}\n{changed}"));
        let found = matches!(program.module.instructions[0].op, Op::ManualComputation(_));
        assert_eq!(found, is_manual, "{changed}");
        let printed = program.to_string();
        assert_eq!(parse(&printed).unwrap(), program, "{printed}");
    }
}

fn choices(max: usize) -> impl Strategy<Value = Vec<Choice>> {
    proptest::collection::vec(any::<Choice>(), 0..max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_printed_is_read_back(choices in choices(40), names in proptest::collection::vec(".{0,8}", 1..4)) {
        let program = program(&choices, &names);
        let text = program.to_string();
        let again = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(&again.stated, &program.stated, "{}", text);
        prop_assert_eq!(&again.module, &program.module, "{}", text);
        prop_assert_eq!(again.to_string(), text);
    }

    /// What is damaged is an error or another program, which is printed and read back like any.
    #[test]
    fn damaged_texts_do_no_harm(
        choices in choices(12),
        damage in proptest::collection::vec((any::<Index>(), any::<Index>(), 0usize..40, any::<u8>()), 1..4),
    ) {
        let mut text = program(&choices, &["a".into()]).to_string().into_bytes();
        for (at, from, length, byte) in damage {
            let (at, from) = (at.index(text.len()), from.index(text.len()));
            match byte % 4 {
                0 => text[at] = byte,
                1 => drop(text.drain(at..(at + length).min(text.len()))),
                2 => text[at] = b"0123456789x?<>[](){}%@#,:\"-"[usize::from(byte) % 27],
                _ => {
                    let piece = text[from..(from + length).min(text.len())].to_vec();
                    text.splice(at..at, piece);
                }
            }
            if text.is_empty() {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&text);
        let Ok(program) = parse(&text) else { return Ok(()) };
        let printed = program.to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{error}\n{text}\n{printed}"));
        prop_assert_eq!(again.to_string(), printed);
    }
}
