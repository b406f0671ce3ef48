//! The text forms of meshes, specs, shardings and replica groups: what is read prints, and is then read as the same.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use shardwright_mesh::{AbstractMesh, HloSharding, Mesh, PartitionSpec, ReplicaGroups, SdySharding};

fuzz_target!(|text: &str| {
    let _ = AbstractMesh::parse(text);
    if let Ok(mesh) = Mesh::from_sdy_text(text) {
        assert_eq!(Mesh::from_sdy_text(&mesh.sdy_text()).as_ref(), Ok(&mesh));
    }
    round_trip::<PartitionSpec>(text);
    round_trip::<HloSharding>(text);
    round_trip::<SdySharding>(text);
    round_trip::<ReplicaGroups>(text);
});

fn round_trip<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().expect("what was printed is read"), value);
    }
}
