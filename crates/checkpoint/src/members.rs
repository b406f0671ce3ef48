use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The members of a JSON object in the order of the text, where a repeated key is still repeated.
///
/// A map type would keep one of the two values and hide the fault.
pub(crate) struct Members<V>(pub(crate) Vec<(String, V)>);

/// A value whose reading may depend on the key it stands behind.
pub(crate) trait Member<'de>: Sized {
    fn read<A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error>;
}

impl<'de> Member<'de> for String {
    fn read<A: MapAccess<'de>>(_key: &str, map: &mut A) -> Result<String, A::Error> {
        map.next_value()
    }
}

impl<V> Members<V> {
    /// The first key, in the order of names, that stands here twice.
    pub(crate) fn repeated(&self) -> Option<&str> {
        let mut keys: Vec<&str> = self.0.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

impl<'de, V: Member<'de>> Deserialize<'de> for Members<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<V>(PhantomData<V>);

impl<'de, V: Member<'de>> Visitor<'de> for MembersVisitor<V> {
    type Value = Members<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<V>, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = V::read(&key, &mut map).map_err(|e| A::Error::custom(format_args!("{key}: {e}")))?;
            members.push((key, value));
        }
        Ok(Members(members))
    }
}
