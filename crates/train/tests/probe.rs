mod support;
use shardwright_model::ModelConfig;
use shardwright_partition::*;
use shardwright_train::*;
#[test]
fn probe() {
    let n: usize = std::env::var("N").unwrap().parse().unwrap();
    let rt = support::runtime(n);
    let mesh = rt.mesh("fsdp=-1").unwrap();
    let cfg =
        std::env::var("CFG").unwrap_or(support::data("oracle/models/base/config.json").display().to_string());
    let model = ModelConfig::parse(&std::fs::read_to_string(cfg).unwrap(), "c").unwrap();
    let modules: Vec<ModelModule> = shardwright_model::modules(&model)
        .into_iter()
        .map(|m| ModelModule { path: m.path, class: m.class.into(), parameters: 0 })
        .collect();
    let wrap = WrapPolicy::resolve(&WrapConfig::ModelDefault, &modules, &["LlamaDecoderLayer"]).unwrap();
    let block: usize = std::env::var("BLOCK").unwrap_or("64".into()).parse().unwrap();
    let sc = StepConfig {
        global_batch_size: 8,
        block_size: block,
        optimizer: AdamWConfig::default(),
        max_grad_norm: Some(1.0),
        loss_denominator: LossDenominator::Targets,
        wrap,
        remat: std::env::var("REMAT").is_ok(),
        plan: PlanOptions::default(),
    };
    let t = std::time::Instant::now();
    let module = sc.module(&model).unwrap();
    println!("trace {:?} instrs {}", t.elapsed(), module.instructions.len());
    let t = std::time::Instant::now();
    let step = TrainStep::compile(&rt, &mesh, &model, &sc).unwrap();
    println!("compile {:?}", t.elapsed());
    println!("{}", CollectiveSummary::new(&step.program().compiled().unwrap().unwrap()));
    println!("{:?}", step.program().memory_stats().unwrap());
    let t = std::time::Instant::now();
    let mut st = TrainState::new(&rt, &step, WeightSource::Random { seed: 1 }).unwrap();
    println!("init {:?}", t.elapsed());
    let ids: Vec<i32> = (0..8 * block).map(|i| ((i * 7919) % 500) as i32).collect();
    let b = shardwright_tensor::HostArray::from_slice(&[8, block], &ids).unwrap();
    let mut times = vec![];
    for _ in 0..30 {
        let t = std::time::Instant::now();
        let (s, m) = step.run(&rt, st, &b, &b, 1e-3).unwrap();
        st = s;
        m.read().unwrap();
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("step ms median {:.1} min {:.1}", times[times.len() / 2], times[0]);
}
