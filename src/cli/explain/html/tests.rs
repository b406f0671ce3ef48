use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AbstractMesh;
use shardwright_partition::explain::{
    Cause, ClassBytes, Comparison, CompiledMemory, ExplainedCollective, Grade, MemoryClass, MemoryPoint,
    MemoryReport, ParameterReport, Pass, Piece, Purpose, Reduced, Runs, Traffic, UnitReport, Verdict, Volume,
};

use super::*;

const HOSTILE: &str = "</title><script>alert('1')</script>\" onload=\"alert(2)";
/// Parameters of a layer, and their bytes on each device.
const PARAMETERS: [(&str, u64); 4] = [
    ("self_attn.q_proj", 1 << 20),
    ("self_attn.o_proj", 1 << 20),
    ("mlp.up_proj", 3 << 20),
    ("norm", 1 << 10),
];

fn verdict(grade: Grade, summary: &str) -> Verdict {
    Verdict {
        grade,
        summary: summary.to_owned(),
        next_step: (grade == Grade::Lost).then(|| "split more".to_owned()),
    }
}

fn collective(
    position: u64,
    kind: CollectiveKind,
    bytes: u64,
    cause: Cause,
    pass: Pass,
) -> ExplainedCollective {
    let purpose = if pass == Pass::Update { Purpose::Gradient } else { Purpose::Weight };
    let (array_bytes, ty, op_name, source) = (8 * bytes, "f32[1024,1024]".to_owned(), "dot".to_owned(), None);
    ExplainedCollective {
        name: format!("all-gather.{position}"),
        kind,
        runs: Runs { count: 1, is_unknown: false, is_conditional: false },
        position,
        is_async: false,
        axes: Some(vec!["fsdp".to_owned()]),
        groups: Some("[1,8]<=[8]".to_owned()),
        group_size: Some(8),
        array_bytes,
        result_bytes: array_bytes,
        sent_bytes: 7 * bytes,
        pieces: vec![Piece { ty, array_bytes, purpose, pass: Some(pass), cause, op_name, source }],
    }
}

/// What could be said of a decoder, whose program has this name.
fn decoder(program: &str, layers: usize) -> Explanation {
    let names: Vec<(String, u64)> = (0..layers)
        .flat_map(|layer| {
            PARAMETERS.map(|(name, bytes)| (format!("model.layers.{layer}.{name}.weight"), bytes))
        })
        .collect();
    let mut collectives = Vec::new();
    for (name, bytes) in &names {
        let cause = Cause::Argument(name.clone());
        collectives.push(collective(0, CollectiveKind::AllGather, *bytes, cause, Pass::Forward));
    }
    for (name, bytes) in names.iter().rev() {
        let cause = Cause::Argument(name.clone());
        collectives.push(collective(0, CollectiveKind::AllGather, *bytes, cause, Pass::Backward));
        let cause = Cause::GradientOf(name.clone());
        collectives.push(collective(0, CollectiveKind::ReduceScatter, *bytes, cause, Pass::Update));
    }
    let cause = Cause::Op("loss".to_owned());
    let mut norm = collective(0, CollectiveKind::AllReduce, 4, cause, Pass::Update);
    norm.axes = Some(vec!["data".to_owned(), "fsdp".to_owned()]);
    collectives.push(norm);
    for (place, collective) in collectives.iter_mut().enumerate() {
        collective.position = 10 * place as u64;
    }
    let steps = 10 * collectives.len() as u64;
    let parameter = |(argument, (name, bytes)): (usize, &(String, u64))| ParameterReport {
        argument,
        name: name.clone(),
        ty: "f32[1024,1024]".to_owned(),
        spec: "(fsdp, -)".to_owned(),
        bytes_per_device: *bytes,
        unit: Some("model.layers.0".to_owned()),
        forward_gathers: 1,
        backward_gathers: 1,
        reduced: Reduced::ReduceScatter,
        verdict: verdict(Grade::AsPlanned, "gathered in both passes, and its gradient scattered"),
    };
    let unit = |layer| UnitReport {
        path: format!("model.layers.{layer}"),
        class: "LlamaDecoderLayer".to_owned(),
        parameters: (3, 4),
        parameter_bytes: 40 << 20,
        gathered_bytes: (40 << 20, 40 << 20),
        reduced_bytes: 40 << 20,
        activation_bytes: 0,
        verdict: verdict(Grade::AsPlanned, "as FSDP should be"),
    };
    let traffic = |purpose, actual: Volume, predicted: Option<Volume>, difference: &str| Traffic {
        purpose,
        axes: Some(vec!["fsdp".to_owned()]),
        predicted,
        actual,
        differences: vec![difference.to_owned()],
    };
    let volume = Volume { arrays: 2 * names.len() as u64, array_bytes: 1 << 30, sent_bytes: 900 << 20 };
    Explanation {
        program: program.to_owned(),
        mesh: AbstractMesh::parse("data=2,fsdp=4").unwrap(),
        devices: 8,
        verdict: verdict(Grade::Costly, "FSDP, but one gradient is summed whole and then cut"),
        traffic: vec![
            traffic(Purpose::Weight, volume, Some(volume), ""),
            traffic(Purpose::Gradient, volume, Some(volume), "embed_tokens is summed whole"),
        ],
        units: (0..layers).map(unit).collect(),
        parameters: names.iter().enumerate().map(parameter).collect(),
        collectives,
        steps,
        memory: memory(steps),
        notes: vec!["the axes of one collective are not known".to_owned()],
    }
}

fn memory(steps: u64) -> MemoryReport {
    const POINTS: u64 = 512;
    let point = |place: u64| {
        let up = place.min(POINTS - place) << 20;
        MemoryPoint {
            position: place * steps / POINTS,
            bytes: [80 << 20, 160 << 20, 1 << 20, 0, 20 << 20, place << 19, up, 0, 4 << 20],
        }
    };
    let at_peak = MemoryClass::ALL
        .iter()
        .zip(point(POINTS / 2).bytes)
        .map(|(&class, bytes)| ClassBytes { class, bytes });
    MemoryReport {
        compiler: Some(CompiledMemory {
            arguments: 241 << 20,
            outputs: 241 << 20,
            aliased: 240 << 20,
            temporaries: 400 << 20,
            peak: None,
        }),
        estimated_peak: 649 << 20,
        ratio: Some(1.01),
        peak_position: steps / 2,
        at_peak: at_peak.collect(),
        series: (0..POINTS).map(point).collect(),
        method: "buffers by the lives of values in the order of the program".to_owned(),
    }
}

fn page_of(explanation: &Explanation) -> String {
    page_of_explained(&Explained::One(explanation))
}

fn page_of_explained(explained: &Explained<'_>) -> String {
    let mesh = Mesh::new(AbstractMesh::parse("data=2,fsdp=4").unwrap(), (0..8).collect::<Vec<_>>()).unwrap();
    let opening = ["plugin    cpu, PJRT API 0.115".to_owned(), "platform  cpu, 8 devices".to_owned()];
    page(explained, &Surroundings { mesh: &mesh, opening: &opening })
}

#[test]
fn names_of_a_hostile_program_are_text() {
    let mut explanation = decoder(HOSTILE, 1);
    explanation.verdict = verdict(Grade::Lost, HOSTILE);
    explanation.notes = vec![HOSTILE.to_owned()];
    explanation.units[0].path = HOSTILE.to_owned();
    explanation.parameters[0].name = HOSTILE.to_owned();
    explanation.traffic[0].differences = vec![HOSTILE.to_owned()];
    let first = &mut explanation.collectives[0];
    first.pieces[0].cause = Cause::Op(HOSTILE.to_owned());
    first.axes = Some(vec![HOSTILE.to_owned()]);
    let page = page_of(&explanation);
    assert_eq!(page.matches("<script").count(), 1, "the page's own");
    assert!(!page.contains("onload=\""));
    assert!(page.matches("&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)").count() >= 9);
}

#[test]
fn a_page_needs_nothing_beside_itself() {
    let page = page_of(&decoder("step", 2));
    for word in ["http:", "https:", "@import", "url(", "<link", "src=\"/"] {
        // Namespaces of drawings are names, and nothing is fetched from there.
        let text = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn a_page_of_a_hundred_layers_is_small() {
    let page = page_of(&decoder("step", 100));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn a_program_without_collectives_has_a_page() {
    let mut explanation = decoder("copy", 0);
    explanation.collectives.clear();
    explanation.memory.series.clear();
    let page = page_of(&explanation);
    assert!(page.contains("no data moves between devices"));
    assert!(!page.contains("NaN"), "{page}");
}

#[test]
fn numbers_beyond_all_memory_do_no_harm() {
    let mut explanation = decoder("huge", 1);
    for collective in &mut explanation.collectives {
        (collective.sent_bytes, collective.runs.count) = (u64::MAX, u64::MAX);
    }
    for point in &mut explanation.memory.series {
        point.bytes = [u64::MAX; MemoryClass::ALL.len()];
    }
    explanation.memory.peak_position = u64::MAX;
    let page = page_of(&explanation);
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn two_lowerings_stand_side_by_side() {
    let (annotate, mut explicit) = (decoder("step", 2), decoder("step", 2));
    explicit.verdict = verdict(Grade::AsPlanned, "as planned <b>");
    for collective in &mut explicit.collectives {
        if collective.pieces[0].cause == Cause::GradientOf("model.layers.1.norm.weight".into()) {
            collective.kind = CollectiveKind::AllReduce;
        }
    }
    let comparison = Comparison::new(("annotate", &annotate), ("explicit", &explicit));
    let both = Explained::Both { comparison: &comparison, annotate: &annotate, explicit: &explicit };
    let page = page_of_explained(&both);
    let section = page.split("<h2>").find(|section| section.starts_with("Two lowerings")).unwrap();
    assert!(section.contains("as planned &lt;b&gt;"), "{section}");
    let rows = |cause: &str| section.matches(cause).count();
    // Two reduce-scatters in one program; one, and an all-reduce, in the other.
    assert_eq!(rows("gradient of model.layers.*.norm.weight"), 2, "{section}");
    assert_eq!(rows("gradient of model.layers.*.mlp.up_proj.weight"), 0, "{section}");
}
