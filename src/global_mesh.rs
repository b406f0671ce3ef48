//! One mesh for the whole process.

use std::sync::{PoisonError, RwLock};

use crate::mesh::Mesh;

static GLOBAL_MESH: RwLock<Option<Mesh>> = RwLock::new(None);

/// The process has no mesh, and something was to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no mesh was given and no global mesh is set; pass a mesh, or call set_global_mesh first")]
pub struct NoGlobalMesh;

/// Makes `mesh` the mesh of the process, or leaves the process without one, and returns the one before it.
///
/// This is a convenience for programs that come from PyTorch/XLA's FSDPv2, where the mesh is global. Nothing in
/// the crates below reads it: they are passed a mesh. The last call wins; arrays and programs keep the mesh that
/// they were made with. Whether the devices are there is said where the mesh is first used.
///
/// ```
/// use shardwright::mesh::{AbstractMesh, Mesh};
/// use shardwright::{global_mesh, require_global_mesh, set_global_mesh};
///
/// assert_eq!(global_mesh(), None);
/// let mesh = Mesh::iota(AbstractMesh::parse_for("fsdp=-1, tensor=1", 8)?);
/// set_global_mesh(Some(mesh.clone()));
/// assert_eq!(require_global_mesh()?.shape().to_string(), "fsdp=8, tensor=1");
/// assert_eq!(set_global_mesh(None), Some(mesh));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn set_global_mesh(mesh: Option<Mesh>) -> Option<Mesh> {
    std::mem::replace(&mut GLOBAL_MESH.write().unwrap_or_else(PoisonError::into_inner), mesh)
}

/// The mesh of the process, if it was set.
///
/// ```
/// use shardwright::mesh::{AbstractMesh, Mesh};
/// use shardwright::{global_mesh, set_global_mesh};
///
/// set_global_mesh(Some(Mesh::iota(AbstractMesh::parse("data=2, fsdp=4")?)));
/// let devices = global_mesh().map_or(1, |mesh| mesh.shape().size());
/// assert_eq!(devices, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "get_global_mesh")]
pub fn global_mesh() -> Option<Mesh> {
    GLOBAL_MESH.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The mesh of the process, for whoever needs one and was passed none.
///
/// ```
/// use shardwright::mesh::Mesh;
/// use shardwright::require_global_mesh;
/// use shardwright::runtime::Runtime;
/// use shardwright::train::{Accelerator, AcceleratorConfig};
///
/// fn accelerator<'a>(runtime: &Runtime, mesh: Option<Mesh>) -> Result<Accelerator<'a>, Box<dyn std::error::Error>> {
///     let mesh = mesh.map_or_else(require_global_mesh, Ok)?;
///     Ok(Accelerator::new(runtime, &mesh, AcceleratorConfig::default())?)
/// }
///
/// assert_eq!(
///     require_global_mesh().unwrap_err().to_string(),
///     "no mesh was given and no global mesh is set; pass a mesh, or call set_global_mesh first"
/// );
/// ```
///
/// # Errors
///
/// It was not set, or unset since.
pub fn require_global_mesh() -> Result<Mesh, NoGlobalMesh> {
    global_mesh().ok_or(NoGlobalMesh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::AbstractMesh;

    // One test, because there is one mesh.
    #[test]
    fn the_last_mesh_wins() {
        let mesh = |text| Mesh::iota(AbstractMesh::parse(text).unwrap());
        assert_eq!(require_global_mesh(), Err(NoGlobalMesh));
        assert_eq!(set_global_mesh(Some(mesh("fsdp=4"))), None);
        assert_eq!(set_global_mesh(Some(mesh("fsdp=8"))), Some(mesh("fsdp=4")));
        let elsewhere = std::thread::spawn(require_global_mesh);
        assert_eq!(elsewhere.join().unwrap(), Ok(mesh("fsdp=8")));
        assert_eq!(set_global_mesh(None), Some(mesh("fsdp=8")));
        assert_eq!(global_mesh(), None);
    }
}
