//! HLO protos: what is read can be annotated, and is then read with the shardings that it was given.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright_hlo::HloProgram;
use shardwright_hlo::proto::HloAnnotations;
use shardwright_mesh::{AbstractMesh, NamedSharding};

fuzz_target!(|bytes: &[u8]| {
    let Ok(program) = HloProgram::read(bytes) else { return };
    let mesh = AbstractMesh::parse("data=2,fsdp=4").expect("this is a mesh");
    let signature = program.signature();
    let whole = |rank| NamedSharding::replicated(&mesh, rank);
    let arguments: Vec<_> = signature.arguments.iter().map(|a| whole(a.ty.rank())).collect();
    let outputs: Vec<_> = signature.outputs.iter().map(|o| whole(o.ty.rank())).collect();
    let constraints: Vec<_> =
        program.instructions().into_iter().take(3).map(|i| (i.id, whole(i.ty.rank()))).collect();
    for constraints in [&constraints[..], &[]] {
        let annotations =
            HloAnnotations { mesh: &mesh, arguments: &arguments, outputs: &outputs, constraints };
        let Ok(annotated) = program.annotate(&annotations) else { continue };
        let read = HloProgram::read(&annotated).expect("an annotated program is one");
        assert_eq!(read.signature().arguments.len(), arguments.len());
        assert!(read.signature().outputs.iter().all(|output| output.stated.is_some()));
    }
});
