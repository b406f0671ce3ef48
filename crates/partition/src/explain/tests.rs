use expect_test::{Expect, expect};
use shardwright_hlo::ArgumentKind;
use shardwright_hlo::compiled::{CollectiveKind, CompiledProgram};
use shardwright_mesh::{AbstractMesh, NamedSharding};
use shardwright_tensor::{DType, TensorType};

use super::*;
use crate::Strategy;

/// A program of `tests/data`, and what is known of it.
struct Case {
    program: CompiledProgram,
    subject: Subject,
    memory: Option<CompiledMemory>,
}

impl Case {
    /// Two parameters, `down` and `up`, that the program updates in place, and a batch `x`. Each is a shape and a
    /// spec.
    fn new(bytes: &[u8], mesh: &str, arguments: [(&[usize], &str); 3], memory: Option<[u64; 4]>) -> Case {
        let mesh = AbstractMesh::parse(mesh).unwrap();
        let kinds = [ArgumentKind::Parameter, ArgumentKind::Parameter, ArgumentKind::Batch];
        let argument =
            |((name, kind), (dims, spec)): ((&str, ArgumentKind), (&[usize], &str))| SubjectArgument {
                name: name.into(),
                ty: TensorType::new(DType::F32, dims).unwrap(),
                kind,
                sharding: NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap(),
                gathers_again: None,
                turns: Turns::ONCE,
            };
        let arguments: Vec<SubjectArgument> =
            ["down", "up", "x"].into_iter().zip(kinds).zip(arguments).map(argument).collect();
        let output = |(name, updates): (&str, Option<usize>)| SubjectOutput {
            name: name.into(),
            ty: updates.map_or(TensorType::scalar(DType::F32), |argument| arguments[argument].ty.clone()),
            updates,
        };
        let compiler = |[arguments, outputs, aliased, temporaries]: [u64; 4]| CompiledMemory {
            arguments,
            outputs,
            aliased,
            temporaries,
            peak: None,
        };
        Case {
            program: CompiledProgram::parse("hlo", bytes).unwrap(),
            subject: Subject {
                outputs: [("down", Some(0)), ("up", Some(1)), ("loss", None)].map(output).to_vec(),
                arguments,
                units: Vec::new(),
                fsdp: Some(Fsdp { axes: vec!["fsdp".into()], strategy: Strategy::FullShard }),
                mesh,
            },
            memory: memory.map(compiler),
        }
    }

    fn scan_on_cpu() -> Case {
        let bytes = include_bytes!("../../tests/data/scan.cpu.hlo.pb");
        let arguments: [(&[usize], &str); 3] =
            [(&[4, 64, 32], "(-, fsdp, -)"), (&[4, 32, 64], "(-, fsdp, -)"), (&[64, 32], "(fsdp, -)")];
        Case::new(bytes, "fsdp=8", arguments, Some([9216, 8220, 8192, 46536]))
    }

    fn scan_on_tpu() -> Case {
        let bytes = include_bytes!("../../tests/data/scan.v5e.hlo.pb");
        let arguments: [(&[usize], &str); 3] = [
            (&[4, 4096, 1024], "(-, fsdp, -)"),
            (&[4, 1024, 4096], "(-, fsdp, -)"),
            (&[128, 512, 1024], "(fsdp, -, -)"),
        ];
        Case::new(bytes, "fsdp=16", arguments, None)
    }

    fn rings_on_tpu() -> Case {
        let bytes = include_bytes!("../../tests/data/rings.v5e.hlo.pb");
        let arguments: [(&[usize], &str); 3] =
            [(&[2048, 512], "(fsdp, -)"), (&[512, 2048], "(fsdp, -)"), (&[256, 512, 512], "(fsdp, -, -)")];
        Case::new(bytes, "fsdp=16", arguments, None)
    }

    fn small_batch() -> Case {
        let bytes = include_bytes!("../../tests/data/small_batch.cpu.hlo.pb");
        let arguments: [(&[usize], &str); 3] =
            [(&[1024, 256], "(fsdp, -)"), (&[256, 1024], "(-, fsdp)"), (&[8, 256], "(fsdp, -)")];
        Case::new(bytes, "fsdp=8", arguments, Some([263168, 262172, 262144, 163840]))
    }

    fn by_hand() -> Case {
        let bytes = include_bytes!("../../tests/data/by_hand.cpu.hlo.pb");
        let arguments: [(&[usize], &str); 3] =
            [(&[64, 32], "(fsdp, -)"), (&[32, 64], "(-, fsdp)"), (&[64, 32], "((data, fsdp), -)")];
        Case::new(bytes, "data=2, fsdp=4", arguments, Some([5120, 4124, 4096, 26640]))
    }

    fn explain(&self) -> Explanation {
        Explanation::new(&self.program, &self.subject, self.memory)
    }
}

#[track_caller]
fn check(case: &Case, expect: Expect) {
    let explanation = case.explain();
    let parameters = explanation.parameters.iter();
    let parameters: Vec<String> = parameters.map(|p| format!("{}: {}\n", p.name, p.verdict)).collect();
    expect.assert_eq(&format!("{explanation}\n{}", parameters.concat()));
}

#[test]
fn what_a_loop_gathers_is_counted_each_time() {
    check(
        &Case::scan_on_cpu(),
        expect![[r#"
            jit_step on fsdp=8 (8 devices)
            FSDP: 2 of 2 split parameters are gathered, at a price: 2 gradients are summed whole by all-reduces and then cut, which sends twice what reduce-scatters would
            next: write the gathers and scatters by hand (for train steps, lowering explicit)

            Traffic in one run, per device
              for             over   planned       bytes        sent   actual       bytes        sent
              weights         fsdp        4×   128.0 KiB   112.0 KiB      16×   128.0 KiB   112.0 KiB
              gradients       fsdp        2×    64.0 KiB    56.0 KiB       8×    64.0 KiB   112.0 KiB
              a few numbers   fsdp                                         1×         4 B         6 B
              gradients: 4× all-reduce in place of reduce-scatter, gradient of down: 32.0 KiB
              gradients: 4× all-reduce in place of reduce-scatter, gradient of up: 32.0 KiB

            Collectives
                           of                           type           over   pass        runs      bytes       sent
              all-gather   up                           f32[1,32,64]   fsdp   forward       4×   32.0 KiB   28.0 KiB
              all-gather   down                         f32[1,64,32]   fsdp   forward       4×   32.0 KiB   28.0 KiB
              all-reduce   jit(step)/jvp()/reduce_sum   f32[]          fsdp   forward       1×        4 B        6 B
              all-gather   down                         f32[64,32]     fsdp   recompute     4×   32.0 KiB   28.0 KiB
              all-gather   up                           f32[32,64]     fsdp   recompute     4×   32.0 KiB   28.0 KiB
              all-reduce   gradient of down             f32[32,64]     fsdp   backward      4×   32.0 KiB   56.0 KiB
              all-reduce   gradient of up               f32[64,32]     fsdp   backward      4×   32.0 KiB   56.0 KiB

            Memory per device: 54.5 KiB by the compiler's figures, 55.0 KiB estimated (ratio 1.01)
              at the peak      bytes
              parameters     8.0 KiB
              batch          1.0 KiB
              gradients     40.0 KiB
              activations    2.0 KiB
              other          4.0 KiB

            down: gathered once in forward, once in backward; gradient summed whole by an all-reduce, then cut
            up: gathered once in forward, once in backward; gradient summed whole by an all-reduce, then cut
        "#]],
    );
}

#[test]
fn loops_without_stated_counts_and_collectives_in_fusions_are_understood() {
    check(
        &Case::scan_on_tpu(),
        expect![[r#"
            jit_step on fsdp=16 (16 devices)
            FSDP: 2 of 2 split parameters are gathered, at a price: 2 gradients are summed whole by all-reduces and then cut, which sends twice what reduce-scatters would
            next: write the gathers and scatters by hand (for train steps, lowering explicit)

            Traffic in one run, per device
              for             over   planned       bytes        sent   actual       bytes        sent
              weights         fsdp        4×   256.0 MiB   240.0 MiB      16×   128.0 MiB   120.0 MiB
              gradients       fsdp        2×   128.0 MiB   120.0 MiB       8×    64.0 MiB   120.0 MiB
              a few numbers   fsdp                                         1×         4 B         6 B
              weights: 8× all-gather of down in bf16, counted as f32: 64.0 MiB
              weights: 8× all-gather of up in bf16, counted as f32: 64.0 MiB
              gradients: 4× all-reduce in place of reduce-scatter, gradient of down: 32.0 MiB
              gradients: 4× all-reduce in place of reduce-scatter, gradient of up: 32.0 MiB

            Collectives
                                   of                           type                over   pass       runs      bytes       sent
              all-gather           up                           bf16[1,1024,4096]   fsdp   forward      4×   32.0 MiB   30.0 MiB
              all-gather           down                         bf16[1,4096,1024]   fsdp   forward      4×   32.0 MiB   30.0 MiB
              all-reduce           jit(step)/jvp()/reduce_sum   f32[]               fsdp   forward      1×        4 B        6 B
              all-gather           up                           bf16[1024,4096]     fsdp   backward     4×   32.0 MiB   30.0 MiB
              all-gather (async)   down                         bf16[4096,1024]     fsdp   backward     4×   32.0 MiB   30.0 MiB
              all-reduce           gradient of down             bf16[4096,1024]     fsdp   backward     4×   32.0 MiB   60.0 MiB
              all-reduce           gradient of up               bf16[1024,4096]     fsdp   backward     4×   32.0 MiB   60.0 MiB

            Memory per device: 52.0 MiB estimated
              at the peak           bytes
              parameters          8.0 MiB
              batch               8.0 MiB
              gathered weights    4.0 MiB
              gradients               4 B
              activations        32.0 MiB
              outputs                 4 B

            down: gathered once in forward, once in backward; gradient summed whole by an all-reduce, then cut
            up: gathered once in forward, once in backward; gradient summed whole by an all-reduce, then cut
        "#]],
    );
}

#[test]
fn loops_that_send_to_neighbours_are_told_as_such() {
    check(
        &Case::rings_on_tpu(),
        expect![[r#"
            jit_step on fsdp=16 (16 devices)
            FSDP: 2 of 2 split parameters are gathered, at a price: 2 gradients are summed in loops that send to neighbours
            next: write the gathers and scatters by hand (for train steps, lowering explicit), or keep the compiler from making loops, with its flag xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000

            Traffic in one run, per device
              for             over   planned     bytes      sent   actual     bytes      sent
              weights         fsdp        2×   8.0 MiB   7.5 MiB      18×   4.1 MiB   4.0 MiB
              gradients       fsdp        2×   8.0 MiB   7.5 MiB      34×   4.2 MiB   4.2 MiB
              a few numbers   fsdp                                     1×       4 B       6 B
              weights: 17× collective-permute in place of all-gather, up: 2.1 MiB
              weights: 1× all-gather of down in bf16, counted as f32: 2.0 MiB
              gradients: 17× collective-permute in place of reduce-scatter, gradient of down: 2.1 MiB
              gradients: 17× collective-permute in place of reduce-scatter, gradient of up: 2.1 MiB

            Collectives
                                           of                           type              over   pass       runs     bytes      sent
              collective-permute (async)   up                           bf16[1,32,2048]   fsdp   forward     17×   2.1 MiB   2.1 MiB
              all-gather (async)           down                         bf16[2048,512]    fsdp   forward      1×   2.0 MiB   1.9 MiB
              collective-permute (async)   gradient of down             bf16[128,512]     fsdp   backward    17×   2.1 MiB   2.1 MiB
              collective-permute (async)   gradient of up               bf16[32,2048]     fsdp   backward    17×   2.1 MiB   2.1 MiB
              all-reduce                   jit(step)/jvp()/reduce_sum   f32[]             fsdp   forward      1×       4 B       6 B

            Memory per device: 48.8 MiB estimated
              at the peak       bytes
              parameters    512.0 KiB
              batch           8.0 MiB
              gradients     256.0 KiB
              activations    40.0 MiB
              other               4 B

            down: gathered once; gradient summed by a loop that sends to neighbours
            up: gathered once, not by an all-gather; gradient summed by a loop that sends to neighbours
        "#]],
    );
}

#[test]
fn activations_in_place_of_weights_are_no_fsdp() {
    check(
        &Case::small_batch(),
        expect![[r#"
            jit_step on fsdp=8 (8 devices)
            not FSDP: 2 of 2 split parameters are never gathered, and 8.0 KiB of activations travel
            next: write the gathers and scatters by hand (for train steps, lowering explicit), or pin weights whole where they are used, or make the batch of each device larger

            Traffic in one run, per device
              for           over   planned     bytes      sent   actual     bytes       sent
              weights       fsdp        2×   2.0 MiB   1.8 MiB       0×       0 B        0 B
              gradients     fsdp        2×   2.0 MiB   1.8 MiB       0×       0 B        0 B
              batch         fsdp                                     1×   8.0 KiB    7.0 KiB
              activations   fsdp                                     1×   8.0 KiB   14.0 KiB
              batch: 1× all-gather, x: 8.0 KiB
              activations: 1× all-reduce, jit(step)/jvp()/dot_general: 8.0 KiB

            Collectives
                           of                            type         over   pass      runs     bytes       sent
              all-gather   x                             f32[8,256]   fsdp   forward     1×   8.0 KiB    7.0 KiB
              all-reduce   jit(step)/jvp()/dot_general   f32[8,256]   fsdp   forward     1×   8.0 KiB   14.0 KiB

            Memory per device: 417.0 KiB by the compiler's figures, 545.0 KiB estimated (ratio 1.31)
              at the peak            bytes
              parameters         256.0 KiB
              batch                1.0 KiB
              gathered weights   128.0 KiB
              gradients          128.0 KiB
              activations         32.0 KiB

            down: never gathered: what is computed from it travels instead
            up: never gathered: what is computed from it travels instead
        "#]],
    );
}

#[test]
fn gathers_and_scatters_by_hand_are_as_planned() {
    check(
        &Case::by_hand(),
        expect![[r#"
            jit_body on data=2, fsdp=4 (8 devices)
            FSDP: each of 2 split parameters is gathered, and its gradient reduced, as planned

            Traffic in one run, per device
              for             over         planned      bytes       sent   actual      bytes       sent
              weights         fsdp              2×   16.0 KiB   12.0 KiB       2×   16.0 KiB   12.0 KiB
              gradients       data              2×    4.0 KiB    4.0 KiB       2×    4.0 KiB    4.0 KiB
              gradients       fsdp              2×   16.0 KiB   12.0 KiB       2×   16.0 KiB   12.0 KiB
              a few numbers   data, fsdp                                       1×        4 B        6 B

            Collectives
                               of                         type         over         pass       runs     bytes      sent
              all-gather       down                       f32[64,32]   fsdp         forward      1×   8.0 KiB   6.0 KiB
              all-gather       up                         f32[32,64]   fsdp         forward      1×   8.0 KiB   6.0 KiB
              all-reduce       jit(body)/shard_map/psum   f32[]        data, fsdp                1×       4 B       6 B
              reduce-scatter   gradient of down           f32[16,32]   fsdp         backward     1×   8.0 KiB   6.0 KiB
              reduce-scatter   gradient of up             f32[32,16]   fsdp         backward     1×   8.0 KiB   6.0 KiB
              all-reduce       gradient of down           f32[16,32]   data         backward     1×   2.0 KiB   2.0 KiB
              all-reduce       gradient of up             f32[32,16]   data         backward     1×   2.0 KiB   2.0 KiB

            Memory per device: 31.0 KiB by the compiler's figures, 26.0 KiB estimated (ratio 0.84)
              at the peak          bytes
              parameters         4.0 KiB
              batch              1.0 KiB
              gathered weights   8.0 KiB
              gradients          8.0 KiB
              activations        5.0 KiB

            down: gathered once; gradient reduce-scattered
            up: gathered once; gradient reduce-scattered
        "#]],
    );
}

#[test]
fn joined_collectives_tell_of_each_array() {
    let explanation = Case::by_hand().explain();
    let joined = explanation.collectives.iter().find(|collective| collective.pieces.len() > 1).unwrap();
    let causes: Vec<&Cause> = joined.pieces.iter().map(|piece| &piece.cause).collect();
    assert_eq!(causes, [&Cause::GradientOf("down".into()), &Cause::GradientOf("up".into())]);
    assert_eq!(joined.axes.as_deref(), Some(&["data".to_owned()][..]));
}

#[test]
fn a_program_without_a_plan_has_causes_and_no_verdict() {
    let case = Case::scan_on_cpu();
    let subject = Subject { fsdp: None, ..case.subject.clone() };
    let explanation = Explanation::new(&case.program, &subject, None);
    assert_eq!(explanation.verdict.grade, Grade::NotSharded);
    assert!(explanation.traffic.iter().all(|row| row.predicted.is_none() && row.differences.is_empty()));
    assert!(explanation.traffic.iter().any(|row| row.purpose == Purpose::Weight && row.actual.arrays == 16));
    assert_eq!(explanation.memory.ratio, None);
}

#[test]
fn gradients_are_known_by_their_type_where_nothing_says_whose_they_are() {
    let mut case = Case::by_hand();
    case.subject.outputs.iter_mut().for_each(|output| output.updates = None);
    let explanation = case.explain();
    assert!(!explanation.traffic.iter().any(|row| row.purpose == Purpose::Activation), "{explanation}");
    let scattered = explanation.collectives.iter().find(|c| c.kind == CollectiveKind::ReduceScatter).unwrap();
    assert_eq!(scattered.pieces[0].purpose, Purpose::Gradient);
    assert_eq!(scattered.pieces[0].cause, Cause::Output("down".into()));
}

#[test]
fn a_subject_that_is_of_another_program_is_no_trouble() {
    let case = Case::scan_on_cpu();
    let mut subject = case.subject.clone();
    subject.arguments.clear();
    let odd = SubjectOutput { updates: Some(99), ..subject.outputs[0].clone() };
    subject.outputs.push(odd);
    let explanation = Explanation::new(&case.program, &subject, None);
    assert!(explanation.parameters.is_empty());
    let other_mesh = Subject { mesh: AbstractMesh::parse("fsdp=2").unwrap(), ..case.subject };
    let explanation = Explanation::new(&case.program, &other_mesh, None);
    assert!(explanation.collectives.iter().all(|collective| collective.axes.is_none()));
    assert_eq!(explanation.notes, ["6 collectives run over groups that are no whole axes of the mesh"]);
}

#[test]
fn memory_is_near_what_the_compiler_says_and_its_series_is_bounded() {
    for case in [Case::scan_on_cpu(), Case::small_batch(), Case::by_hand()] {
        let memory = case.explain().memory;
        let ratio = memory.ratio.unwrap();
        assert!((0.8..1.4).contains(&ratio), "{ratio}");
        assert!(memory.series.len() <= 512);
        let total = |bytes: &[u64; MemoryClass::ALL.len()]| bytes.iter().sum::<u64>();
        let highest = memory.series.iter().max_by_key(|point| total(&point.bytes)).unwrap();
        assert_eq!(total(&highest.bytes), memory.estimated_peak);
        assert_eq!(memory.at_peak.iter().map(|class| class.bytes).sum::<u64>(), memory.estimated_peak);
    }
}

#[test]
fn damaged_programs_are_errors_or_explained() {
    let files: [&[u8]; 3] = [
        include_bytes!("../../tests/data/scan.cpu.hlo.pb"),
        include_bytes!("../../tests/data/small_batch.cpu.hlo.pb"),
        include_bytes!("../../tests/data/by_hand.cpu.hlo.pb"),
    ];
    let subject = Case::scan_on_cpu().subject;
    let (mut state, mut explained) = (1u64, 0);
    let mut random = |below: usize| {
        // A linear congruential generator, of which the high bits are random enough.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for round in 0..600 {
        let mut bytes = files[round % files.len()].to_vec();
        for _ in 0..=random(3) {
            let place = random(bytes.len());
            bytes[place] = random(256) as u8;
        }
        if round % 7 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        if let Ok(program) = CompiledProgram::parse("hlo", &bytes) {
            explained += usize::from(!Explanation::new(&program, &subject, None).to_string().is_empty());
        }
    }
    assert!(explained > 50, "{explained} of 600 damaged programs could be read");
}

#[test]
fn names_cannot_command_a_terminal() {
    let mut explanation = Case::by_hand().explain();
    explanation.program = "\u{1b}[2Jstep\n".into();
    explanation.collectives[0].pieces[0].cause = Cause::Op("\u{7}x".repeat(1000));
    let text = explanation.to_string();
    assert!(text.starts_with("\u{fffd}[2Jstep\u{fffd} on"), "{text}");
    assert!(!text.contains('\u{7}') && text.len() < 10_000, "{text}");
}

#[test]
fn json_has_stable_names() {
    let mut explanation = Case::by_hand().explain();
    explanation.collectives.truncate(1);
    explanation.parameters.truncate(1);
    explanation.memory.series.truncate(1);
    let json = serde_json::to_string_pretty(&explanation).unwrap();
    expect![[r#"
        {
          "program": "jit_body",
          "mesh": "data=2, fsdp=4",
          "devices": 8,
          "verdict": {
            "grade": "as_planned",
            "summary": "FSDP: each of 2 split parameters is gathered, and its gradient reduced, as planned",
            "next_step": null
          },
          "traffic": [
            {
              "purpose": "weight",
              "axes": [
                "fsdp"
              ],
              "predicted": {
                "arrays": 2,
                "array_bytes": 16384,
                "sent_bytes": 12288
              },
              "actual": {
                "arrays": 2,
                "array_bytes": 16384,
                "sent_bytes": 12288
              },
              "differences": []
            },
            {
              "purpose": "gradient",
              "axes": [
                "data"
              ],
              "predicted": {
                "arrays": 2,
                "array_bytes": 4096,
                "sent_bytes": 4096
              },
              "actual": {
                "arrays": 2,
                "array_bytes": 4096,
                "sent_bytes": 4096
              },
              "differences": []
            },
            {
              "purpose": "gradient",
              "axes": [
                "fsdp"
              ],
              "predicted": {
                "arrays": 2,
                "array_bytes": 16384,
                "sent_bytes": 12288
              },
              "actual": {
                "arrays": 2,
                "array_bytes": 16384,
                "sent_bytes": 12288
              },
              "differences": []
            },
            {
              "purpose": "scalar",
              "axes": [
                "data",
                "fsdp"
              ],
              "predicted": null,
              "actual": {
                "arrays": 1,
                "array_bytes": 4,
                "sent_bytes": 6
              },
              "differences": []
            }
          ],
          "units": [],
          "parameters": [
            {
              "argument": 0,
              "name": "down",
              "type": "f32[64,32]",
              "spec": "(fsdp, -)",
              "bytes_per_device": 2048,
              "unit": null,
              "forward_gathers": 1,
              "backward_gathers": 0,
              "reduced": "reduce_scatter",
              "verdict": {
                "grade": "as_planned",
                "summary": "gathered once; gradient reduce-scattered",
                "next_step": null
              }
            }
          ],
          "collectives": [
            {
              "name": "all_gather.7",
              "kind": "all-gather",
              "runs": {
                "count": 1,
                "is_unknown": false,
                "is_conditional": false
              },
              "position": 4,
              "is_async": false,
              "axes": [
                "fsdp"
              ],
              "groups": "{{0,1,2,3},{4,5,6,7}}",
              "group_size": 4,
              "array_bytes": 8192,
              "result_bytes": 8192,
              "sent_bytes": 6144,
              "pieces": [
                {
                  "type": "f32[64,32]",
                  "array_bytes": 8192,
                  "purpose": "weight",
                  "pass": "forward",
                  "cause": {
                    "of": "argument",
                    "name": "down"
                  },
                  "op_name": "jit(body)/shard_map/jvp()/all_gather",
                  "source": "model.py:22"
                }
              ]
            }
          ],
          "steps": 29,
          "memory": {
            "compiler": {
              "arguments": 5120,
              "outputs": 4124,
              "aliased": 4096,
              "temporaries": 26640,
              "peak": null
            },
            "estimated_peak": 26628,
            "ratio": 0.8376745941864855,
            "peak_position": 14,
            "at_peak": [
              {
                "class": "parameters",
                "bytes": 4096
              },
              {
                "class": "optimizer_state",
                "bytes": 0
              },
              {
                "class": "batch",
                "bytes": 1024
              },
              {
                "class": "other_arguments",
                "bytes": 0
              },
              {
                "class": "gathered_weights",
                "bytes": 8192
              },
              {
                "class": "gradients",
                "bytes": 8192
              },
              {
                "class": "activations",
                "bytes": 5124
              },
              {
                "class": "outputs",
                "bytes": 0
              },
              {
                "class": "other",
                "bytes": 0
              }
            ],
            "series": [
              {
                "position": 0,
                "bytes": [
                  4096,
                  0,
                  1024,
                  0,
                  0,
                  0,
                  0,
                  0,
                  0
                ]
              }
            ],
            "method": "arguments by their shards; everything else from the first to the last step that uses it, in the compiler's order, results in place of what they replace where that is known; layouts, scratch space and holes between buffers are not counted"
          },
          "notes": []
        }"#]].assert_eq(&json);
}

#[test]
fn two_programs_are_compared_by_what_travels() {
    let (left, right) = (Case::scan_on_cpu().explain(), Case::small_batch().explain());
    let comparison = Comparison::new(("pinned", &left), ("open", &right));
    expect![[r#"
        pinned: FSDP: 2 of 2 split parameters are gathered, at a price: 2 gradients are summed whole by all-reduces and then cut, which sends twice what reduce-scatters would
        open: not FSDP: 2 of 2 split parameters are never gathered, and 8.0 KiB of activations travel

        Traffic in one run, per device
          for                          over   pinned       bytes        sent   open      bytes       sent
          weights         all-gather   fsdp      16×   128.0 KiB   112.0 KiB      –
          gradients       all-reduce   fsdp       8×    64.0 KiB   112.0 KiB      –
          batch           all-gather   fsdp        –                             1×    8.0 KiB    7.0 KiB
          activations     all-reduce   fsdp        –                             1×    8.0 KiB   14.0 KiB
          a few numbers   all-reduce   fsdp       1×         4 B         6 B      –
          all                          –         25×   192.0 KiB   224.0 KiB     2×   16.0 KiB   21.0 KiB

        What differs
          of                                         over   pinned      bytes       sent   open     bytes       sent
          down                          all-gather   fsdp       8×   64.0 KiB   56.0 KiB      –
          up                            all-gather   fsdp       8×   64.0 KiB   56.0 KiB      –
          gradient of down              all-reduce   fsdp       4×   32.0 KiB   56.0 KiB      –
          gradient of up                all-reduce   fsdp       4×   32.0 KiB   56.0 KiB      –
          jit(step)/jvp()/dot_general   all-reduce   fsdp        –                           1×   8.0 KiB   14.0 KiB
          x                             all-gather   fsdp        –                           1×   8.0 KiB    7.0 KiB

        Peak memory per device: pinned 54.5 KiB, open 417.0 KiB
    "#]].assert_eq(&comparison.to_string());
}

#[test]
fn names_of_calls_are_no_part_of_a_source() {
    for (name, source) in [
        ("call.1/model.norm/backward", "model.norm/backward"),
        ("call/call.22/a/b", "a/b"),
        ("callee/a", "callee/a"),
        ("call.x/a", "call.x/a"),
        ("call.1", "call.1"),
        ("", ""),
    ] {
        assert_eq!(super::cause::without_calls(name), source);
    }
}
