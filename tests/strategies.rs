mod support;
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::*;
use shardwright_train::{StepConfig, TrainStep};
use support::*;

#[test]
fn show() {
    let name = std::env::var("M").unwrap_or("base".into());
    let mesh = std::env::var("MESH").unwrap_or("fsdp=4,tensor=2".into());
    let model = oracle_model(&name);
    let rules = |text: &str| TensorPlan {
        rules: text
            .split(';')
            .map(|r| {
                let (m, s) = r.split_once('=').unwrap();
                TensorRule { modules: m.parse().unwrap(), split: TensorSplit::from_word(s).unwrap() }
            })
            .collect(),
    };
    let options = PlanOptions { tensor: std::env::var("TP").ok().map(|t| rules(&t)), ..Default::default() };
    let config = StepConfig { remat: std::env::var("R").is_ok(), ..oracle_step(&model, options) };
    let shape = AbstractMesh::parse(&mesh).unwrap();
    let step = TrainStep::compile(&runtime(8), &Mesh::iota(shape.clone()), &model, &config).unwrap();
    println!("{}", step.plan());
    for c in &step.executable().compiled().unwrap().unwrap().collectives {
        let axes = c.groups.as_ref().map(|g| format!("{:?}", g.axes_of(&shape)));
        println!("{:?} {} {:?} {}", c.kind, c.bytes, axes, c.op_name);
    }
    println!("{}", CollectiveSummary::new(&step.executable().compiled().unwrap().unwrap()));
}
