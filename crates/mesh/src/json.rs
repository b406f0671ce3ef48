//! Meshes, specs and shardings in JSON, and in other formats of serde that say what they hold.
//!
//! ```text
//! AbstractMesh    {"data": 2, "fsdp": 4}              "data=2, fsdp=4" is read too
//! PartitionSpec   [["data", "fsdp"], null]            "((data,fsdp), -)" is read too
//! Mesh            {"axes": {"data": 2, "fsdp": 2}, "device_ids": [0, 2, 1, 3]}
//! NamedSharding   {"mesh": {"data": 2, "fsdp": 4}, "spec": ["fsdp", null]}
//! ```
//!
//! `device_ids` may be missing where the devices count up. An axis may be given by its number, `[0, null]`. The
//! order of the axes in an object counts: with a library that sorts keys, write the mesh as a text. What is read has
//! been checked as the constructors check it.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::{AbstractMesh, AxisName, DimSharding, Mesh, NamedSharding, PartitionSpec};

/// A mesh with devices, as it is written.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, rename = "Mesh")]
struct RawMesh {
    axes: AbstractMesh,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device_ids: Option<Vec<usize>>,
}

/// A sharding, as it is written.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, rename = "NamedSharding")]
struct RawSharding {
    mesh: AbstractMesh,
    spec: PartitionSpec,
}

impl Serialize for AbstractMesh {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.axes().len()))?;
        for (name, size) in self.axes() {
            map.serialize_entry(name.as_str(), size)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for AbstractMesh {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Axes;

        impl<'de> Visitor<'de> for Axes {
            type Value = AbstractMesh;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mesh, as an object of axis sizes or a text like \"data=2, fsdp=4\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AbstractMesh, E> {
                AbstractMesh::parse(text).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AbstractMesh, A::Error> {
                let mut axes: Vec<(String, usize)> = Vec::new();
                while let Some(axis) = map.next_entry()? {
                    axes.push(axis);
                }
                AbstractMesh::new(axes).map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Axes)
    }
}

impl Serialize for Mesh {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let device_ids = (!self.is_iota()).then(|| self.device_ids().collect());
        RawMesh { axes: self.shape().clone(), device_ids }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Mesh {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawMesh { axes, device_ids } = RawMesh::deserialize(deserializer)?;
        Mesh::with_ids(axes, device_ids).map_err(de::Error::custom)
    }
}

impl Serialize for NamedSharding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawSharding { mesh: self.mesh().clone(), spec: self.spec().clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NamedSharding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawSharding { mesh, spec } = RawSharding::deserialize(deserializer)?;
        Self::new(&mesh, spec).map_err(de::Error::custom)
    }
}

impl Serialize for PartitionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.dims())
    }
}

impl<'de> Deserialize<'de> for PartitionSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = PartitionSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a spec, as a list with one entry for each dim or a text like \"(fsdp, -)\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PartitionSpec, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PartitionSpec, A::Error> {
                let mut entries: Vec<DimSharding> = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    entries.push(entry);
                }
                Ok(PartitionSpec::new(entries))
            }
        }

        deserializer.deserialize_any(Entries)
    }
}

/// `null`, an axis, or a list of axes.
impl Serialize for DimSharding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.axes.as_slice() {
            [] => serializer.serialize_none(),
            [axis] => serializer.serialize_str(axis.as_str()),
            axes => serializer.collect_seq(axes.iter().map(AxisName::as_str)),
        }
    }
}

impl<'de> Deserialize<'de> for DimSharding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;

        impl<'de> Visitor<'de> for Entry {
            type Value = DimSharding;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("null, an axis name, an axis number, or a list of these axes for a dim")
            }

            fn visit_unit<E>(self) -> Result<DimSharding, E> {
                Ok(DimSharding::default())
            }

            fn visit_none<E>(self) -> Result<DimSharding, E> {
                Ok(DimSharding::default())
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<DimSharding, E> {
                Ok(DimSharding { axes: vec![Axis.visit_str(name)?.0] })
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<DimSharding, E> {
                Ok(DimSharding { axes: vec![Axis.visit_u64(number)?.0] })
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<DimSharding, E> {
                Ok(DimSharding { axes: vec![Axis.visit_i64(number)?.0] })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<DimSharding, A::Error> {
                let mut axes = Vec::new();
                while let Some(WrittenAxis(axis)) = seq.next_element()? {
                    axes.push(axis);
                }
                match axes.is_empty() {
                    true => Err(de::Error::custom("[] names no axis; a dim that is not split is null")),
                    false => Ok(DimSharding { axes }),
                }
            }
        }

        deserializer.deserialize_any(Entry)
    }
}

/// An axis by name or number.
struct WrittenAxis(AxisName);

/// Reads a [`WrittenAxis`].
struct Axis;

impl<'de> Deserialize<'de> for WrittenAxis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Axis)
    }
}

impl Visitor<'_> for Axis {
    type Value = WrittenAxis;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an axis name, or an axis number from 0")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<WrittenAxis, E> {
        let axis = AxisName::from(name);
        match axis.is_valid() {
            true => Ok(WrittenAxis(axis)),
            false => Err(E::invalid_value(Unexpected::Str(name), &"the name of an axis")),
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<WrittenAxis, E> {
        let number = usize::try_from(number);
        number.map(|number| WrittenAxis(number.into())).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<WrittenAxis, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::fmt::Debug;

    fn check<T: Serialize + for<'de> Deserialize<'de> + Debug + PartialEq>(texts: &[&str], expect: Expect) {
        let show = |text: &&str| match serde_json::from_str::<T>(text) {
            Ok(value) => {
                let written = serde_json::to_string(&value).unwrap();
                assert_eq!(serde_json::from_str::<T>(&written).unwrap(), value);
                format!("{text}: {written}\n")
            }
            Err(error) => format!("{text}: error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    #[test]
    fn specs_are_lists() {
        check::<PartitionSpec>(
            &[
                "[]",
                r#"["fsdp", null]"#,
                r#"[["data", "fsdp"], null]"#,
                r#"[["fsdp"], null]"#,
                "[0, [1, \"data\"], null]",
                "\"((data,fsdp), -)\"",
            ],
            expect![[r#"
                []: []
                ["fsdp", null]: ["fsdp",null]
                [["data", "fsdp"], null]: [["data","fsdp"],null]
                [["fsdp"], null]: ["fsdp",null]
                [0, [1, "data"], null]: ["0",["1","data"],null]
                "((data,fsdp), -)": [["data","fsdp"],null]
            "#]],
        );
    }

    #[test]
    fn bad_specs_name_the_type() {
        check::<PartitionSpec>(
            &[
                "null",
                "\"fsdp\"",
                "\"(fsdp, -1)\"",
                "[true]",
                "[1.5]",
                "[-1]",
                "[[-1]]",
                "[[[\"a\"]]]",
                "[[null]]",
                "[[]]",
                "[{}]",
                "[\"a b\"]",
                "[\"\"]",
                "[\"a\"",
            ],
            expect![[r#"
                null: error: invalid type: null, expected a spec, as a list with one entry for each dim or a text like "(fsdp, -)" at line 1 column 4
                "fsdp": error: spec "fsdp" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -) at line 1 column 6
                "(fsdp, -1)": error: spec "(fsdp, -1)": the entry for dim 1 is "-1", which is not -, an axis, an axis number or (axis,axis) at line 1 column 12
                [true]: error: invalid type: boolean `true`, expected null, an axis name, an axis number, or a list of these axes for a dim at line 1 column 5
                [1.5]: error: invalid type: floating point `1.5`, expected null, an axis name, an axis number, or a list of these axes for a dim at line 1 column 4
                [-1]: error: invalid value: integer `-1`, expected an axis name, or an axis number from 0 at line 1 column 3
                [[-1]]: error: invalid value: integer `-1`, expected an axis name, or an axis number from 0 at line 1 column 4
                [[["a"]]]: error: invalid type: sequence, expected an axis name, or an axis number from 0 at line 1 column 3
                [[null]]: error: invalid type: null, expected an axis name, or an axis number from 0 at line 1 column 6
                [[]]: error: [] names no axis; a dim that is not split is null at line 1 column 3
                [{}]: error: invalid type: map, expected null, an axis name, an axis number, or a list of these axes for a dim at line 1 column 3
                ["a b"]: error: invalid value: string "a b", expected the name of an axis at line 1 column 6
                [""]: error: invalid value: string "", expected the name of an axis at line 1 column 3
                ["a": error: EOF while parsing a list at line 1 column 4
            "#]],
        );
    }

    #[test]
    fn meshes_are_objects_or_text() {
        check::<AbstractMesh>(
            &[
                r#"{"data": 2, "fsdp": 4}"#,
                r#""data=2, fsdp=4""#,
                "{}",
                r#"{"b": 2, "a": 3}"#,
                r#"{"a": 2, "a": 2}"#,
                r#"{"a": 0}"#,
                r#"{"a": -1}"#,
                r#"{"a": "2"}"#,
                r#"{"a b": 2}"#,
                r#""a""#,
                "[2]",
            ],
            expect![[r#"
                {"data": 2, "fsdp": 4}: {"data":2,"fsdp":4}
                "data=2, fsdp=4": {"data":2,"fsdp":4}
                {}: {}
                {"b": 2, "a": 3}: {"b":2,"a":3}
                {"a": 2, "a": 2}: error: axis a is listed twice at line 1 column 16
                {"a": 0}: error: axis a has size 0; a size is at least 1 at line 1 column 8
                {"a": -1}: error: invalid value: integer `-1`, expected usize at line 1 column 8
                {"a": "2"}: error: invalid type: string "2", expected usize at line 1 column 9
                {"a b": 2}: error: axis name "a b" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_' at line 1 column 10
                "a": error: "a" in mesh "a" is not axis=size; a mesh is written like data=2,fsdp=4 at line 1 column 3
                [2]: error: invalid type: sequence, expected a mesh, as an object of axis sizes or a text like "data=2, fsdp=4" at line 1 column 1
            "#]],
        );
        check::<Mesh>(
            &[
                r#"{"axes": {"x": 2, "y": 2}}"#,
                r#"{"axes": {"x": 2, "y": 2}, "device_ids": [0, 2, 1, 3]}"#,
                r#"{"axes": "x=2", "device_ids": [100000, 7]}"#,
                r#"{"axes": {"x": 2}, "device_ids": [0]}"#,
                r#"{"axes": {"x": 2}, "device_ids": [1, 1]}"#,
                r#"{"axes": {"x": 2}, "device_ids": [-1, 1]}"#,
                r#"{"axes": {"x": 2}, "devices": [0, 1]}"#,
                r#"{"axes": {"x": 1000000000000}}"#,
                r#"{"device_ids": [0, 1]}"#,
            ],
            expect![[r#"
                {"axes": {"x": 2, "y": 2}}: {"axes":{"x":2,"y":2}}
                {"axes": {"x": 2, "y": 2}, "device_ids": [0, 2, 1, 3]}: {"axes":{"x":2,"y":2},"device_ids":[0,2,1,3]}
                {"axes": "x=2", "device_ids": [100000, 7]}: {"axes":{"x":2},"device_ids":[100000,7]}
                {"axes": {"x": 2}, "device_ids": [0]}: error: device ids given: 1, but mesh x=2 takes 2
                {"axes": {"x": 2}, "device_ids": [1, 1]}: error: device id 1 is at mesh position 0 and again at 1
                {"axes": {"x": 2}, "device_ids": [-1, 1]}: error: invalid value: integer `-1`, expected usize at line 1 column 36
                {"axes": {"x": 2}, "devices": [0, 1]}: error: unknown field `devices`, expected `axes` or `device_ids` at line 1 column 28
                {"axes": {"x": 1000000000000}}: {"axes":{"x":1000000000000}}
                {"device_ids": [0, 1]}: error: missing field `axes` at line 1 column 22
            "#]],
        );
    }

    #[test]
    fn shardings_fit_their_mesh() {
        check::<NamedSharding>(
            &[
                r#"{"mesh": {"data": 2, "fsdp": 4}, "spec": [["data", "fsdp"], null]}"#,
                r#"{"mesh": {"data": 2, "fsdp": 4}, "spec": [1, null]}"#,
                r#"{"mesh": "fsdp=4", "spec": []}"#,
                r#"{"mesh": {"data": 2, "fsdp": 4}, "spec": ["mdl"]}"#,
                r#"{"mesh": {"data": 2, "fsdp": 4}, "spec": [2]}"#,
                r#"{"mesh": {"data": 2, "fsdp": 4}, "spec": ["data", "data"]}"#,
                r#"{"mesh": {"data": 2}}"#,
            ],
            expect![[r#"
                {"mesh": {"data": 2, "fsdp": 4}, "spec": [["data", "fsdp"], null]}: {"mesh":{"data":2,"fsdp":4},"spec":[["data","fsdp"],null]}
                {"mesh": {"data": 2, "fsdp": 4}, "spec": [1, null]}: {"mesh":{"data":2,"fsdp":4},"spec":["fsdp",null]}
                {"mesh": "fsdp=4", "spec": []}: {"mesh":{"fsdp":4},"spec":[]}
                {"mesh": {"data": 2, "fsdp": 4}, "spec": ["mdl"]}: error: spec (mdl) splits dim 0 over axis mdl, which mesh data=2, fsdp=4 does not have
                {"mesh": {"data": 2, "fsdp": 4}, "spec": [2]}: error: spec (2) splits dim 0 over axis 2, which mesh data=2, fsdp=4 does not have; its axes are numbered 0 to 1
                {"mesh": {"data": 2, "fsdp": 4}, "spec": ["data", "data"]}: error: spec (data, data) uses axis data for dim 0 and again for dim 1; an axis can split once
                {"mesh": {"data": 2}}: error: missing field `spec` at line 1 column 21
            "#]],
        );
    }
}
