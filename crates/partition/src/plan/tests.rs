use expect_test::{Expect, expect};
use shardwright_hlo::{Module, Op, ValueId};
use shardwright_mesh::{PhysicalDevice, PhysicalTopology, TorusPosition};
use shardwright_tensor::{DType, HostArray};

use super::*;

fn module(parameters: &[(&str, &[usize])], batch: usize) -> Module {
    let f32 = |dims: &[usize]| TensorType::new(DType::F32, dims).unwrap();
    let mut m = Module::new("step");
    for (name, dims) in parameters {
        m.add_argument_of_kind(*name, f32(dims), ArgumentKind::Parameter);
    }
    for (parameter, (name, dims)) in parameters.iter().enumerate() {
        let kind = ArgumentKind::State { parameter, without: None };
        m.add_argument_of_kind(format!("exp_avg.{name}"), f32(dims), kind);
    }
    let ids = TensorType::new(DType::S32, [batch, 16]).unwrap();
    m.add_argument_of_kind("input_ids", ids, ArgumentKind::Batch);
    m
}

fn plan(
    parameters: &[(&str, &[usize])],
    mesh: &str,
    options: PlanOptions,
) -> Result<ShardingPlan, PlanError> {
    ShardingPlan::new(&module(parameters, 8), &AbstractMesh::parse(mesh).unwrap(), &options)
}

#[track_caller]
fn check_specs(mesh: &str, rule: DimRule, expect: Expect) {
    let shapes: [&[usize]; 7] = [&[64, 128], &[128, 64], &[64, 64], &[1, 64], &[8, 12, 20], &[10], &[]];
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let parameters: Vec<(&str, &[usize])> = names.into_iter().zip(shapes).collect();
    let plan = plan(&parameters, mesh, PlanOptions { dim_rule: rule, ..Default::default() }).unwrap();
    let line = |a: &PlannedArgument| format!("{} {} +{}", a.ty.shape, a.sharding.spec(), a.padding_bytes);
    let lines: Vec<String> = plan.arguments()[..7].iter().map(line).collect();
    expect.assert_eq(&lines.join("\n"));
}

#[test]
fn the_largest_dim_that_divides_is_split() {
    check_specs(
        "fsdp=8",
        DimRule::LargestDivisible,
        expect![[r#"
            [64,128] (-, fsdp) +0
            [128,64] (fsdp, -) +0
            [64,64] (fsdp, -) +0
            [1,64] (-, fsdp) +0
            [8,12,20] (fsdp, -, -) +0
            [10] (fsdp) +24
            [] () +0"#]],
    );
    check_specs(
        "fsdp=8",
        DimRule::StrictLargest,
        expect![[r#"
            [64,128] (-, fsdp) +0
            [128,64] (fsdp, -) +0
            [64,64] (fsdp, -) +0
            [1,64] (-, fsdp) +0
            [8,12,20] (-, -, fsdp) +1536
            [10] (fsdp) +24
            [] () +0"#]],
    );
    check_specs(
        "data=2, fsdp=4",
        DimRule::Dim0,
        expect![[r#"
            [64,128] (fsdp, -) +0
            [128,64] (fsdp, -) +0
            [64,64] (fsdp, -) +0
            [1,64] (-, -) +0
            [8,12,20] (fsdp, -, -) +0
            [10] (fsdp) +8
            [] () +0"#]],
    );
}

#[test]
fn states_follow_their_parameters_and_batches_the_data_axes() {
    let plan = plan(&[("w", &[8, 16])], "data=2, fsdp=2, tensor=2", PlanOptions::default()).unwrap();
    let specs: Vec<String> = plan.arguments().iter().map(|a| a.sharding.spec().to_string()).collect();
    assert_eq!(specs, ["(-, fsdp)", "(-, fsdp)", "((data,fsdp), -)"]);
    assert_eq!(plan.split_parameters(), (1, 1));
    assert_eq!(plan.state_bytes(), (2 * 512, 512));
}

#[test]
fn small_and_ignored_parameters_and_no_shard_stay_whole() {
    let specs = |options| {
        let plan = plan(&[("w", &[8, 16]), ("norm", &[8])], "fsdp=4", options).unwrap();
        let parameters = plan.arguments()[..2].iter();
        parameters.map(|a| a.sharding.spec().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(specs(PlanOptions { min_shard_bytes: 33, ..Default::default() }), "(-, fsdp) (-)");
    assert_eq!(specs(PlanOptions { strategy: Strategy::NoShard, ..Default::default() }), "(-, -) (-)");
    let ignored = vec!["w".parse().unwrap()];
    assert_eq!(specs(PlanOptions { ignored, ..Default::default() }), "(-, -) (fsdp)");
}

#[test]
fn meshes_that_do_not_fit_are_errors() {
    let error = |mesh, options| plan(&[("w", &[8])], mesh, options).unwrap_err().to_string();
    expect![[
        "the mesh (data=4, model=2) has no axis fsdp to split parameters over; name one of its axes fsdp, or \
         choose another axis for them"
    ]]
    .assert_eq(&error("data=4, model=2", PlanOptions::default()));
    expect!["input_ids: a batch of 8 does not divide over 3 data shards (mesh fsdp=3)"]
        .assert_eq(&error("fsdp=3", PlanOptions::default()));
    let hybrid = PlanOptions { strategy: Strategy::HybridShard, ..Default::default() };
    assert!(error("fsdp=4", hybrid.clone()).starts_with("hybrid_shard replicates parameters over"));
    assert!(plan(&[("w", &[8])], "data=2, fsdp=4", hybrid).is_ok());
}

#[test]
fn the_table_lists_parameters() {
    let plan = plan(&[("w", &[8, 16]), ("norm", &[10])], "fsdp=4", PlanOptions::default()).unwrap();
    expect![[r#"
        parameter  shape      spec       bytes/device  padding
        w          f32[8,16]  (-, fsdp)           128
        norm       f32[10]    (fsdp)               12        8
        mesh fsdp=4: 2 of 2 parameters split over fsdp; parameters and optimizer state 1104 bytes, 280 on each device"#]]
    .assert_eq(&plan.to_string());
}

#[test]
fn a_state_of_nothing_is_whole() {
    let mut m = module(&[("w", &[8])], 8);
    m.arguments[1].kind = ArgumentKind::State { parameter: 9, without: None };
    let plan =
        ShardingPlan::new(&m, &AbstractMesh::parse("fsdp=8").unwrap(), &PlanOptions::default()).unwrap();
    assert_eq!(plan.arguments()[1].sharding.spec().to_string(), "(-)");
    assert_eq!(plan.arguments()[1].decision, Decision::Whole);
}

/// A plan for a slice of 4x4 devices, over the axes of its torus.
fn placed(mesh: &str, tensor: Option<TensorPlan>) -> ShardingPlan {
    let device = |id| {
        let position = Some(TorusPosition { coords: [id % 4, id / 4, 0], core: 0 });
        PhysicalDevice { id, process: 0, slice: 0, position }
    };
    let topology = PhysicalTopology::new((0..16).map(device), [false; 3]).unwrap();
    let placement = Placement::new(&AbstractMesh::parse(mesh).unwrap(), &topology).unwrap();
    let mut m = module(&[("w", &[32, 16])], 16);
    let w = m.arguments[0].value;
    m.add_donated_output("w", w, 0);
    let options = PlanOptions { tensor, ..PlanOptions::default() };
    ShardingPlan::new(&m, placement.mesh().shape(), &options).unwrap().placed(&placement).unwrap()
}

#[test]
fn a_placed_plan_says_the_same_over_the_axes_of_a_torus() {
    let plan = placed("fsdp=16", None);
    let stored = "((fsdp.x,fsdp.y), -)";
    assert_eq!(plan.arguments()[0].sharding.spec().to_string(), stored);
    assert_eq!(plan.outputs()[0].sharding.spec().to_string(), stored);
    assert_eq!(plan.gathered(0).spec().to_string(), "(-, -)");
    assert_eq!(plan.batch_sharding(2).spec().to_string(), "((fsdp.x,fsdp.y), -)");
    assert_eq!(plan.split_parameters(), (1, 1));
}

#[test]
fn what_a_tensor_axis_splits_stays_split_over_the_axes_of_a_torus() {
    let split = crate::TensorRule { modules: "w".parse().unwrap(), split: crate::TensorSplit::Colwise };
    let plan = placed("fsdp=2, tensor=8", Some(TensorPlan { rules: vec![split] }));
    expect!["fsdp.y=2, tensor.x=4, tensor.y=2"].assert_eq(&plan.mesh().to_string());
    expect!["((tensor.x,tensor.y), -)"].assert_eq(&plan.gathered(0).spec().to_string());
    expect!["(fsdp.y, -)"].assert_eq(&plan.batch_sharding(2).spec().to_string());
    let output = plan.module_output("w", &[16, 32]).unwrap();
    expect!["(fsdp.y, (tensor.x,tensor.y))"].assert_eq(&output.spec().to_string());
    assert_eq!(plan.tensor_parameters(), 1);
}

#[test]
fn what_a_loop_takes_row_by_row_is_split_on_another_dim() {
    let shapes: [(&str, &[usize]); 4] =
        [("w", &[16, 4, 8]), ("norm", &[16, 4]), ("scale", &[16]), ("x", &[16, 8])];
    let mut m = module(&shapes, 8);
    for (parameter, (_, dims)) in shapes.iter().enumerate().take(3) {
        let value = m.arguments[parameter].value;
        let zero = m.push(Op::Constant(HostArray::scalar(0i32)), &[]).unwrap()[0];
        let starts = std::iter::repeat_n(zero, dims.len());
        let operands: Vec<ValueId> = std::iter::once(value).chain(starts).collect();
        let sizes = std::iter::once(1).chain(dims[1..].iter().copied()).collect();
        m.push(Op::DynamicSlice { sizes }, &operands).unwrap();
    }
    let plan =
        ShardingPlan::new(&m, &AbstractMesh::parse("fsdp=8").unwrap(), &PlanOptions::default()).unwrap();
    let line = |a: &PlannedArgument| format!("{} {} {:?}", a.name, a.sharding.spec(), a.decision);
    let lines: Vec<String> = plan.arguments()[..8].iter().map(line).collect();
    expect![[r#"
        w (-, -, fsdp) FsdpPast { sliced: 0 }
        norm (-, fsdp) FsdpPast { sliced: 0 }
        scale (-) FsdpPast { sliced: 0 }
        x (fsdp, -) Fsdp
        exp_avg.w (-, -, fsdp) Follows(0)
        exp_avg.norm (-, fsdp) Follows(1)
        exp_avg.scale (-) Follows(2)
        exp_avg.x (fsdp, -) Follows(3)"#]]
    .assert_eq(&lines.join("\n"));
}
