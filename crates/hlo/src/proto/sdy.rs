//! Shardy's attributes as HLO carries them: meshes on the module, shardings on instructions, and a call behind each
//! result whose sharding is pinned.

use std::collections::BTreeMap;

use shardwright_mesh::{Mesh, SdySharding};

use super::error::StatedProblem;
use super::read::{Module, attribute};

/// The key under which a module has its meshes: `{mesh = #sdy.mesh<["fsdp"=8]>}`.
pub(super) const MESHES: &str = "xla.sdy.meshes";
/// The key under which a parameter has its sharding, and any other instruction that of each of its results.
pub(super) const SHARDING: &str = "xla.sdy.sharding";
/// What a call has as its target that pins the sharding of a result.
pub(super) const RESULT: &str = "xla.sdy.FuncResultSharding";
/// The beginning of the targets that only Shardy knows.
const TARGETS: &str = "xla.sdy.";

/// Whether the module is written for Shardy, so that the other partitioner refuses it.
pub(super) fn is_used(module: &Module<'_>) -> bool {
    let mut instructions = module.computations.iter().flat_map(|computation| &computation.instructions);
    attribute(module.attributes, MESHES).is_ok_and(|meshes| meshes.is_some())
        || instructions.any(|instruction| instruction.target.starts_with(TARGETS))
}

/// The meshes of a module and their names, if it is written for Shardy.
pub(super) fn meshes(module: &Module<'_>) -> Result<Option<BTreeMap<String, Mesh>>, StatedProblem> {
    if !is_used(module) {
        return Ok(None);
    }
    let text = attribute(module.attributes, MESHES)?.unwrap_or_default();
    parse_meshes(text.trim()).map(Some)
}

fn parse_meshes(text: &str) -> Result<BTreeMap<String, Mesh>, StatedProblem> {
    let mut rest = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let mut meshes = BTreeMap::new();
    while let Some((name, behind)) = rest.split_once('=') {
        // A mesh ends at the first `>` that is in no axis's name.
        let mut is_quoted = false;
        let end = behind.find(|c| {
            is_quoted ^= c == '"';
            c == '>' && !is_quoted
        });
        let (mesh, next) = behind.split_at(end.map_or(behind.len(), |end| end + 1));
        meshes.insert(name.trim().trim_matches('"').to_owned(), Mesh::from_sdy_text(mesh.trim())?);
        rest = next.trim_start().trim_start_matches(',');
    }
    match rest.trim() {
        "" => Ok(meshes),
        // What has no name is no entry, and the mesh's reader says what it should be.
        rest => Err(Mesh::from_sdy_text(rest).err().map_or(StatedProblem::Unnamed, StatedProblem::Text)),
    }
}

/// The sharding of an instruction that has one result, in `#sdy.sharding_per_value<[<@mesh, [{}]>]>`.
pub(super) fn only_value(text: &str) -> Result<SdySharding, StatedProblem> {
    let list = text.trim().strip_prefix("#sdy.sharding_per_value<[").and_then(|text| text.strip_suffix("]>"));
    Ok(list.unwrap_or(text).trim().parse()?)
}

/// What [`only_value`] reads.
pub(super) fn per_value(sharding: &str) -> String {
    format!("#sdy.sharding_per_value<[{sharding}]>")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn meshes_are_read_by_name() {
        let check = |text, expected: Expect| {
            let meshes = match parse_meshes(text) {
                Ok(meshes) => {
                    let text = |(name, mesh): (&String, &Mesh)| format!("{name}: {}", mesh.sdy_text());
                    meshes.iter().map(text).collect::<Vec<_>>().join("; ")
                }
                Err(error) => error.to_string(),
            };
            expected.assert_eq(&meshes);
        };
        check("{}", expect![""]);
        check(
            r##"{"my mesh" = #sdy.mesh<["a"=2, "b"=4]>, other = #sdy.mesh<[], device_ids=[3]>}"##,
            expect![[r#"my mesh: <["a"=2, "b"=4]>; other: <[], device_ids=[3]>"#]],
        );
        check(
            r##"{mesh = #sdy.mesh<["a"=2, "b""##,
            expect![[r##"sdy mesh "#sdy.mesh<[\"a\"=2, \"b\"": expected '=' at byte 21, found the end"##]],
        );
        check("{mesh}", expect![[r#"sdy mesh "mesh": expected '<' at byte 0, found 'm'"#]]);
        check("{#sdy.mesh<[]>}", expect!["a mesh has no name"]);
    }
}
