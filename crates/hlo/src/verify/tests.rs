use expect_test::{Expect, expect};
use shardwright_tensor::DType;

use super::*;
use crate::{Binary, FunctionId, Unary, UnitId};

fn f32(dims: &[usize]) -> TensorType {
    TensorType::new(DType::F32, dims).unwrap()
}

/// `y = x + w`, with a parameter, a state of it and a donated output.
fn sound() -> Module {
    let mut m = Module::new("m");
    let w = m.add_argument_of_kind("w", f32(&[2]), ArgumentKind::Parameter);
    m.add_argument_of_kind("m.w", f32(&[2]), ArgumentKind::State { parameter: 0, without: None });
    let x = m.add_argument("x", f32(&[2]));
    let y = m.push(Op::Binary(Binary::Add), &[x, w]).unwrap();
    m.add_donated_output("y", y[0], 0);
    m
}

#[track_caller]
fn check(change: impl FnOnce(&mut Module), expect: Expect) {
    let mut module = sound();
    change(&mut module);
    expect.assert_eq(&verify(module).map_or_else(|e| e.to_string(), |_| "sound".into()));
}

#[test]
fn sound_modules_pass() {
    check(|_| (), expect!["sound"]);
}

#[test]
fn values_are_defined_once_before_use() {
    check(
        |m| m.instructions[0].operands[0] = ValueId(3),
        expect![[r#"
            module m has 1 problem
              instruction 0 (add) uses %3, which is not defined before it"#]],
    );
    check(
        |m| m.instructions[0].results[0] = ValueId(2),
        expect![[r#"
            module m has 2 problems
              instruction 0 (add) defines %2, which is defined already
              output y uses %3, which is not defined before it"#]],
    );
    check(
        |m| m.instructions[0].results[0] = ValueId(9),
        expect![[r#"
            module m has 2 problems
              instruction 0 (add) defines %9, which is not in the table of values
              output y uses %3, which is not defined before it"#]],
    );
}

#[test]
fn recorded_types_are_the_inferred_ones() {
    check(
        |m| m.values[3] = f32(&[3]).into(),
        expect![[r#"
            module m has 2 problems
              instruction 0 (add): results are [f32[2]], recorded as [f32[3]]
              output y cannot take over the memory of argument 0: their types differ"#]],
    );
    check(
        |m| m.instructions[0].op = Op::Unary(Unary::Sqrt),
        expect![[r#"
            module m has 1 problem
              instruction 0 (sqrt): sqrt takes 1 operands, got 2"#]],
    );
}

#[test]
fn states_and_gradients_belong_to_parameters() {
    check(
        |m| m.arguments[1].kind = ArgumentKind::State { parameter: 2, without: None },
        expect![[r#"
            module m has 1 problem
              state m.w names argument 2, which is not a parameter"#]],
    );
    check(
        |m| m.values[1] = f32(&[3]).into(),
        expect![[r#"
            module m has 1 problem
              state m.w has shape f32[3], its parameter w is f32[2]"#]],
    );
    check(
        |m| {
            let g = m.push(Op::Boundary(Role::Gradient { parameter: 7 }), &[ValueId(3)]).unwrap();
            m.add_output("g", g[0]);
        },
        expect![[r#"
            module m has 1 problem
              instruction 1 (boundary) names argument 7, which is not a parameter"#]],
    );
    check(
        |m| {
            let g = m.push(Op::Boundary(Role::RowGradient { parameter: 0 }), &[ValueId(3)]).unwrap();
            m.add_output("g", g[0]);
        },
        expect![[r#"
            module m has 1 problem
              instruction 1 (boundary) has shape f32[2], its parameter w is f32[2] and it is without dim 0"#]],
    );
}

#[test]
fn outputs_and_names_are_sound() {
    check(
        |m| m.add_donated_output("y", ValueId(3), 0),
        expect![[r#"
            module m has 2 problems
              output y cannot take over the memory of argument 0: another output does
              two outputs are named y"#]],
    );
    check(
        |m| m.outputs[0].donor = Some(5),
        expect![[r#"
            module m has 1 problem
              output y cannot take over the memory of argument 5: there is no such argument"#]],
    );
}

#[test]
fn units_nest() {
    let unit = |range, parent: Option<u32>| Unit {
        path: "layer".into(),
        class: "Layer".into(),
        parent: parent.map(UnitId),
        instructions: range,
    };
    check(
        |m| m.units = vec![unit(0..1, None), unit(0..2, None), unit(0..1, Some(4))],
        expect![[r#"
            module m has 2 problems
              unit layer: its range of instructions does not lie inside the program
              unit layer: its range of instructions does not lie inside its parent"#]],
    );
}

fn region(arguments: &[ValueId], instructions: Vec<Instruction>, results: &[ValueId]) -> Region {
    Region { arguments: arguments.to_vec(), instructions, results: results.to_vec() }
}

/// Adds a loop over the sum, whose body doubles it, and gives the loop back.
fn with_loop(m: &mut Module) -> &mut Instruction {
    let ty = || ValueType::from(f32(&[2]));
    let [a, b, doubled] = [ty(), ty(), ty()].map(|ty| m.new_value(ty));
    let go_on = m.new_value(TensorType::scalar(DType::Pred).into());
    let instruction = |op, operands: &[ValueId], result| Instruction {
        op,
        operands: operands.to_vec(),
        results: vec![result],
        regions: Vec::new(),
        location: crate::Location { source: Some(crate::SourceId(0)), ..Default::default() },
    };
    m.sources = vec!["(\"f\")".into()];
    let no = shardwright_tensor::HostArray::zeros(TensorType::scalar(DType::Pred));
    let condition = region(&[a], vec![instruction(Op::Constant(no), &[], go_on)], &[go_on]);
    let body = region(&[b], vec![instruction(Op::Binary(Binary::Add), &[b, b], doubled)], &[doubled]);
    m.push_with_regions(Op::While, &[ValueId(3)], vec![condition, body], Default::default()).unwrap();
    &mut m.instructions[1]
}

#[test]
fn values_are_visible_in_their_own_region_and_inside_it() {
    check(|m| _ = with_loop(m), expect!["sound"]);
    check(|m| with_loop(m).regions[1].instructions[0].operands[0] = ValueId(0), expect!["sound"]);
    check(
        |m| with_loop(m).regions[1].instructions[0].operands[0] = ValueId(4),
        expect![[r#"
        module m has 1 problem
          instruction 0 (add) of region 1 of instruction 1 (while) at ("f") uses %4, which is not defined before it"#]],
    );
    check(
        |m| {
            with_loop(m);
            m.outputs[0].value = ValueId(6);
        },
        expect![[r#"
            module m has 1 problem
              output y uses %6, which is not defined before it"#]],
    );
    check(
        |m| with_loop(m).regions[1].results[0] = ValueId(99),
        expect![[r#"
        module m has 1 problem
          the block of region 1 of instruction 1 (while) uses %99, which is not defined before it"#]],
    );
}

#[test]
fn regions_give_what_their_op_needs() {
    check(
        |m| with_loop(m).regions[0].results[0] = ValueId(4),
        expect![[r#"
        module m has 1 problem
          instruction 1 (while): while: what the condition gives has types [f32[2]], and must have [pred[]]"#]],
    );
    check(
        |m| with_loop(m).regions[1].results.clear(),
        expect![[r#"
        module m has 1 problem
          instruction 1 (while): while: what the body gives has types [], and must have [f32[2]]"#]],
    );
    check(
        |m| drop(with_loop(m).regions.pop()),
        expect![[r#"
        module m has 1 problem
          instruction 1 (while): while has two regions, got 1"#]],
    );
    check(
        |m| with_loop(m).op = Op::Case,
        expect![[r#"
        module m has 1 problem
          instruction 1 (case): case: its operand has types [f32[2]], and must have [s32[]]"#]],
    );
    check(
        |m| {
            let instruction = with_loop(m);
            instruction.regions.push(Region::default());
            instruction.op = Op::Unary(Unary::Sqrt);
        },
        expect![[r#"
            module m has 1 problem
              instruction 1 (sqrt): sqrt has no regions, got 3"#]],
    );
}

#[test]
fn functions_are_called_as_they_are() {
    fn call(m: &mut Module, id: u32) -> Vec<Instruction> {
        let results = vec![m.new_value(f32(&[2]).into())];
        let (op, operands) = (Op::Call(FunctionId(id)), vec![ValueId(0)]);
        vec![Instruction { op, operands, results, regions: Vec::new(), location: Default::default() }]
    }
    fn function(m: &mut Module, name: &str, calls: u32) {
        let argument = m.new_value(f32(&[2]).into());
        let mut instructions = call(m, calls);
        instructions[0].operands = vec![argument];
        let results = instructions[0].results.clone();
        let body = Region { arguments: vec![argument], instructions, results };
        m.functions.push(Function { name: name.into(), body, attributes: String::new() });
    }
    let identity = |m: &mut Module, ty| {
        let argument = m.new_value(ty);
        let body = region(&[argument], Vec::new(), &[argument]);
        m.functions.push(Function { name: "g".into(), body, attributes: String::new() });
    };
    check(
        |m| {
            function(m, "f", 1);
            identity(m, f32(&[2]).into());
        },
        expect!["sound"],
    );
    check(
        |m| {
            function(m, "g", 1);
            identity(m, f32(&[3]).into());
        },
        expect![[r#"
            module m has 2 problems
              instruction 0 (call) of @g: call: what @g is given has types [f32[2]], and must have [f32[3]]
              two functions are named g"#]],
    );
    check(
        |m| function(m, "main", 7),
        expect![[r#"
        module m has 2 problems
          instruction 0 (call) of @main: call: the module has no function 7
          two functions are named main"#]],
    );
    check(
        |m| {
            function(m, "f", 1);
            function(m, "g", 0);
        },
        expect![[r#"
            module m has 1 problem
              @f calls itself, which no compiler makes a program of"#]],
    );
    check(
        |m| {
            identity(m, f32(&[2]).into());
            m.functions[0].body.results[0] = ValueId(0);
        },
        expect![[r#"
            module m has 1 problem
              the block of @g uses %0, which is not defined before it"#]],
    );
}

#[test]
fn what_is_passed_is_an_array() {
    check(
        |m| m.values[2] = ValueType::Other("!stablehlo.token".into()),
        expect![[r#"
        module m has 2 problems
          argument x is a !stablehlo.token, and programs take and give arrays
          instruction 0 (add): add takes arrays, got !stablehlo.token"#]],
    );
}

#[test]
fn no_depth_runs_out_of_stack() {
    let nested = |depth: usize| {
        let mut m = sound();
        let mut inner = Region::default();
        for _ in 0..depth {
            let instruction = Instruction {
                op: Op::Other(Box::new(crate::OtherOp {
                    name: "x.y".into(),
                    properties: String::new(),
                    attributes: String::new(),
                    results: Vec::new(),
                })),
                operands: Vec::new(),
                results: Vec::new(),
                regions: vec![inner],
                location: Default::default(),
            };
            inner = Region { instructions: vec![instruction], ..Region::default() };
        }
        m.instructions.extend(inner.instructions);
        m
    };
    assert!(verify(nested(DEEPEST)).is_ok());
    let error = verify(nested(DEEPEST + 1)).unwrap_err().to_string();
    assert!(error.ends_with("has regions, and lies in 64 others already"), "{error}");
}
