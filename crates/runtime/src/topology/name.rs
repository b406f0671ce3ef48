//! Names of topologies: which generation of chip, and how many along each axis.

use std::fmt;
use std::str::FromStr;

/// A generation of TPU chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Generation {
    /// TPU v2.
    V2,
    /// TPU v3.
    V3,
    /// TPU v4.
    V4,
    /// TPU v5e, also called v5 lite.
    V5e,
    /// TPU v5p, also called v5.
    V5p,
    /// TPU v6e, also called v6 lite.
    V6e,
    /// TPU7x.
    Tpu7x,
}

/// One slice's name, such as `v5e:4x4`: its generation and its chips along x, y and z.
///
/// It is read in any case, with or without `TPU` in front and with `:`, `=`, `_` or `-` in the middle, and printed in
/// one spelling: names that mean the same are equal.
///
/// ```
/// use shardwright_runtime::topology::TopologyName;
///
/// let name: TopologyName = "TPU v5 lite_4x8".parse()?;
/// assert_eq!(name.to_string(), "v5e:4x8");
/// assert_eq!(name.chips(), 32);
/// # Ok::<(), shardwright_runtime::topology::TopologyNameError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopologyName {
    generation: Generation,
    // Each at least 1.
    layout: [u32; 3],
    twisted: bool,
}

/// Text that names no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyNameError {
    /// No generation is named.
    #[error(
        "topology {given:?} names no generation of chip, expected one of {KNOWN} and a shape, such as v5e:4x4"
    )]
    NoGeneration {
        /// The text.
        given: String,
    },
    /// The generation is not known.
    #[error("topology {given:?}: unknown generation {generation:?}{}; known are {KNOWN}", did_you_mean(*nearest))]
    UnknownGeneration {
        /// The text.
        given: String,
        /// The part that should be a generation.
        generation: String,
        /// The generation that it is most like.
        nearest: Option<Generation>,
    },
    /// There is one number in place of a shape, and several shapes have as many chips.
    #[error(
        "topology {given:?} has a number in place of a shape, and what a number counts differs; \
         {}",
        shapes(*generation, *chips, candidates)
    )]
    Count {
        /// The text.
        given: String,
        /// The generation.
        generation: Generation,
        /// The chips that the number most likely means.
        chips: u32,
        /// Shapes of that many chips.
        candidates: Vec<TopologyName>,
    },
    /// The shape is none, or one that the generation cannot have.
    #[error("topology {given:?}: {layout:?} is no shape of {generation}: expected {}", generation.expected())]
    Layout {
        /// The text.
        given: String,
        /// The generation.
        generation: Generation,
        /// The part that should be a shape.
        layout: String,
    },
}

const KNOWN: &str = "v2, v3, v4, v5e, v5p, v6e, tpu7x";

impl Generation {
    const ALL: [Generation; 7] = [
        Generation::V2,
        Generation::V3,
        Generation::V4,
        Generation::V5e,
        Generation::V5p,
        Generation::V6e,
        Generation::Tpu7x,
    ];

    /// The name that is printed, and the others that are read.
    fn spellings(self) -> &'static [&'static str] {
        match self {
            Generation::V2 => &["v2"],
            Generation::V3 => &["v3"],
            Generation::V4 => &["v4"],
            Generation::V5e => &["v5e", "v5 lite", "v5lite", "v5litepod"],
            Generation::V5p => &["v5p", "v5"],
            Generation::V6e => &["v6e", "v6 lite", "v6lite"],
            Generation::Tpu7x => &["tpu7x", "v7x"],
        }
    }

    /// How many dims the torus of a slice has: 2 or 3.
    pub fn torus_dims(self) -> usize {
        match self {
            Generation::V2 | Generation::V3 | Generation::V5e | Generation::V6e => 2,
            Generation::V4 | Generation::V5p | Generation::Tpu7x => 3,
        }
    }

    /// The chips of a whole pod, the longest dim last. No slice is larger.
    fn pod(self) -> [u32; 3] {
        match self {
            Generation::V2 | Generation::V5e | Generation::V6e => [1, 16, 16],
            Generation::V3 => [1, 32, 32],
            Generation::V4 => [16, 16, 16],
            Generation::V5p => [16, 20, 28],
            Generation::Tpu7x => [16, 24, 24],
        }
    }

    /// The configuration in which the chips are run, where it is not the plugin's default: the two cores of a v4
    /// chip work as one device.
    pub fn chip_config(self) -> Option<&'static str> {
        (self == Generation::V4).then_some("megacore")
    }

    /// The generation that is written like this, in lower case.
    fn read(text: &str) -> Option<Generation> {
        let short = text.strip_prefix("tpu").map_or(text, str::trim_start);
        let is_spelled = |generation: &Generation| {
            let spellings = generation.spellings();
            spellings.contains(&short) || spellings.contains(&text.trim())
        };
        Generation::ALL.into_iter().find(is_spelled)
    }

    /// The generation most like what was written, unless none is like it.
    fn nearest(text: &str) -> Option<Generation> {
        let likeness = |generation: &Generation| {
            let spellings = generation.spellings().iter().map(|spelling| spelling.replace(' ', ""));
            spellings.map(|spelling| strsim::jaro_winkler(text, &spelling)).fold(0.0, f64::max)
        };
        let all = Generation::ALL.into_iter().filter(|generation| likeness(generation) > 0.8);
        all.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
    }

    fn expected(self) -> &'static str {
        match self.torus_dims() {
            2 => "the chips along x and y, each at least 1, such as 4x4",
            _ => "the chips along x, y and z, each at least 1, such as 4x4x4",
        }
    }
}

impl TopologyName {
    /// The generation of the chips.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The chips along x, y and z.
    pub fn layout(&self) -> [u32; 3] {
        self.layout
    }

    /// How many chips there are.
    pub fn chips(&self) -> u64 {
        self.layout.into_iter().fold(1, |product, size| product.saturating_mul(u64::from(size)))
    }

    /// Along which of x, y and z the torus of such a slice closes in a data centre. In two dims: where a dim is that
    /// of the whole pod. In three: in all of them where all are multiples of 4, as cubes of 64 chips are what is
    /// wired together.
    pub fn wrap(&self) -> [bool; 3] {
        match self.generation.torus_dims() {
            2 => self.layout.map(|size| size == self.generation.pod()[2]),
            _ => [self.twisted || self.layout.iter().all(|size| size.is_multiple_of(4)); 3],
        }
    }

    /// The shapes of this many chips that slices have, the most compact ones first. None has more than a pod.
    fn of_chips(generation: Generation, chips: u32) -> Vec<TopologyName> {
        let is_size = |size: &u32| (*size <= 2 || size.is_multiple_of(4)) && chips.is_multiple_of(*size);
        let sizes: Vec<u32> = (1..=chips.min(1 << 12)).filter(is_size).collect();
        let mut layouts = Vec::new();
        for &x in &sizes {
            for &y in sizes.iter().filter(|&&y| y >= x && (chips / x).is_multiple_of(y)) {
                match (generation.torus_dims(), chips / x / y) {
                    (2, 1) => layouts.push([x, y, 1]),
                    (3, z) if z >= y && sizes.contains(&z) => layouts.push([x, y, z]),
                    // The least that there is: the chips of one host.
                    (3, 1) if y <= 2 => layouts.push([x, y, 1]),
                    _ => {}
                }
            }
        }
        layouts.retain(|layout| {
            let mut sorted = *layout;
            sorted.sort_unstable();
            sorted.iter().zip(generation.pod()).all(|(size, most)| *size <= most)
        });
        layouts.sort_by_key(|layout| layout.iter().sum::<u32>());
        // A row of chips only where nothing wider has as many, and likewise what is not made of cubes.
        for is_better in [(|size| size > 1) as fn(u32) -> bool, |size| size.is_multiple_of(4)] {
            if layouts.iter().any(|layout| is_better(layout[0])) {
                layouts.retain(|layout| is_better(layout[0]));
            }
        }
        layouts.truncate(4);
        layouts.into_iter().map(|layout| TopologyName { generation, layout, twisted: false }).collect()
    }
}

impl FromStr for TopologyName {
    type Err = TopologyNameError;

    fn from_str(text: &str) -> Result<Self, TopologyNameError> {
        let given = || text.to_owned();
        let lower_case = text.to_lowercase();
        let (named, twist) = split_twist(lower_case.trim());
        let parts = named.split_once([':', '=']).or_else(|| named.rsplit_once(['_', '-']));
        // A generation alone lacks its shape.
        let parts = parts.or_else(|| Generation::read(named).map(|_| (named, "")));
        let Some((generation, layout)) = parts else {
            return Err(TopologyNameError::NoGeneration { given: given() });
        };
        let Some(generation) = Generation::read(generation) else {
            let nearest = Generation::nearest(generation);
            let generation = generation.to_owned();
            return Err(TopologyNameError::UnknownGeneration { given: given(), generation, nearest });
        };
        if let Some(count) = number(layout) {
            let chips = chips_of(generation, named, count);
            let candidates = TopologyName::of_chips(generation, chips);
            return Err(TopologyNameError::Count { given: given(), generation, chips, candidates });
        }
        let twisted = twist && generation.torus_dims() == 3;
        match read_layout(layout) {
            Some(layout) if (generation.torus_dims() == 3 || layout[2] == 1) && twisted == twist => {
                Ok(TopologyName { generation, layout, twisted })
            }
            _ => Err(TopologyNameError::Layout { given: given(), generation, layout: layout.to_owned() }),
        }
    }
}

/// A name without what it says about twisting, and whether it is twisted.
fn split_twist(text: &str) -> (&str, bool) {
    match text.strip_suffix("_twisted") {
        Some(text) => (text, true),
        None => (text.strip_suffix("_untwisted").unwrap_or(text), false),
    }
}

/// The chips that a count in a name most likely means: names with a dash count cores where chips have two.
fn chips_of(generation: Generation, named: &str, count: u32) -> u32 {
    match generation {
        Generation::V5e | Generation::V6e => count,
        _ if named.contains('-') => count / 2,
        _ => count,
    }
}

/// A number without a sign.
fn number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Two or three positive sizes.
fn read_layout(text: &str) -> Option<[u32; 3]> {
    let size = |text| number(text).filter(|size| *size > 0);
    let sizes: Vec<u32> = text.split('x').map(size).collect::<Option<_>>()?;
    match sizes[..] {
        [x, y] => Some([x, y, 1]),
        [x, y, z] => Some([x, y, z]),
        _ => None,
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spellings()[0])
    }
}

impl fmt::Display for TopologyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.layout;
        write!(f, "{}:{x}x{y}", self.generation)?;
        if self.generation.torus_dims() == 3 {
            write!(f, "x{z}")?;
        }
        f.write_str(if self.twisted { "_twisted" } else { "" })
    }
}

fn did_you_mean(nearest: Option<Generation>) -> String {
    nearest.map(|generation| format!(": did you mean {generation}?")).unwrap_or_default()
}

/// What to write instead of a number of chips.
fn shapes(generation: Generation, chips: u32, candidates: &[TopologyName]) -> String {
    let pod: u32 = generation.pod().iter().product();
    if chips > pod {
        return format!("{chips} chips are more than a pod of {generation} has, which is {pod}");
    }
    if candidates.is_empty() {
        return format!("write {}", generation.expected());
    }
    let shapes: Vec<_> = candidates.iter().map(|name| format!("{name} ({} chips)", name.chips())).collect();
    format!("write a shape, such as {}", shapes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(texts: &[&str], expect: Expect) {
        let line = |text: &&str| match text.parse::<TopologyName>() {
            Ok(name) => {
                format!("{text}: {name}, {} chips, wrap {:?}\n", name.chips(), name.wrap().map(u8::from))
            }
            Err(error) => format!("{error}\n"),
        };
        expect.assert_eq(&texts.iter().map(line).collect::<String>());
    }

    #[test]
    fn names_that_mean_the_same_are_equal() {
        check(
            &[
                "v5e:4x4",
                "V5E=4x4",
                "TPU v5 lite_4x4",
                "v5lite:4x4",
                "v5:4x4x4",
                "v5p:4x4",
                "TPU7x:2x2x1",
                "tpu v4:4x4x8_twisted",
                "v4:4x4x8_untwisted",
                "v6e-16x8",
                "V4:4X4X8_TWISTED",
                "Tpu V5 Lite_4X8",
            ],
            expect![[r#"
                v5e:4x4: v5e:4x4, 16 chips, wrap [0, 0, 0]
                V5E=4x4: v5e:4x4, 16 chips, wrap [0, 0, 0]
                TPU v5 lite_4x4: v5e:4x4, 16 chips, wrap [0, 0, 0]
                v5lite:4x4: v5e:4x4, 16 chips, wrap [0, 0, 0]
                v5:4x4x4: v5p:4x4x4, 64 chips, wrap [1, 1, 1]
                v5p:4x4: v5p:4x4x1, 16 chips, wrap [0, 0, 0]
                TPU7x:2x2x1: tpu7x:2x2x1, 4 chips, wrap [0, 0, 0]
                tpu v4:4x4x8_twisted: v4:4x4x8_twisted, 128 chips, wrap [1, 1, 1]
                v4:4x4x8_untwisted: v4:4x4x8, 128 chips, wrap [1, 1, 1]
                v6e-16x8: v6e:16x8, 128 chips, wrap [1, 0, 0]
                V4:4X4X8_TWISTED: v4:4x4x8_twisted, 128 chips, wrap [1, 1, 1]
                Tpu V5 Lite_4X8: v5e:4x8, 32 chips, wrap [0, 0, 0]
            "#]],
        );
    }

    #[test]
    fn what_is_no_name_is_told_what_would_be_one() {
        check(
            &[
                "",
                "2x4",
                "v5e",
                "v9z:2x2",
                "v5litepod-8",
                "v7x-2048",
                "v6p:2x2",
                "v5e-8",
                "v5e:16",
                "v5p-2048",
                "v4:7",
                "v2-0",
                "v5e-512",
                "v5e-256",
                "v4-4096",
                "v7x:4294967295",
            ],
            expect![[r#"
                topology "" names no generation of chip, expected one of v2, v3, v4, v5e, v5p, v6e, tpu7x and a shape, such as v5e:4x4
                topology "2x4" names no generation of chip, expected one of v2, v3, v4, v5e, v5p, v6e, tpu7x and a shape, such as v5e:4x4
                topology "v5e": "" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v9z:2x2": unknown generation "v9z"; known are v2, v3, v4, v5e, v5p, v6e, tpu7x
                topology "v5litepod-8" has a number in place of a shape, and what a number counts differs; write a shape, such as v5e:2x4 (8 chips)
                topology "v7x-2048" has a number in place of a shape, and what a number counts differs; write a shape, such as tpu7x:8x8x16 (1024 chips), tpu7x:4x16x16 (1024 chips)
                topology "v6p:2x2": unknown generation "v6p": did you mean v6e?; known are v2, v3, v4, v5e, v5p, v6e, tpu7x
                topology "v5e-8" has a number in place of a shape, and what a number counts differs; write a shape, such as v5e:2x4 (8 chips)
                topology "v5e:16" has a number in place of a shape, and what a number counts differs; write a shape, such as v5e:4x4 (16 chips)
                topology "v5p-2048" has a number in place of a shape, and what a number counts differs; write a shape, such as v5p:8x8x16 (1024 chips), v5p:4x16x16 (1024 chips)
                topology "v4:7" has a number in place of a shape, and what a number counts differs; write the chips along x, y and z, each at least 1, such as 4x4x4
                topology "v2-0" has a number in place of a shape, and what a number counts differs; write the chips along x and y, each at least 1, such as 4x4
                topology "v5e-512" has a number in place of a shape, and what a number counts differs; 512 chips are more than a pod of v5e has, which is 256
                topology "v5e-256" has a number in place of a shape, and what a number counts differs; write a shape, such as v5e:16x16 (256 chips)
                topology "v4-4096" has a number in place of a shape, and what a number counts differs; write a shape, such as v4:8x16x16 (2048 chips)
                topology "v7x:4294967295" has a number in place of a shape, and what a number counts differs; 4294967295 chips are more than a pod of tpu7x has, which is 9216
            "#]],
        );
        check(
            &[
                "v5e:0x4",
                "v5e:2x2x2",
                "v5e:2x2x2x2",
                "v5p:axb",
                "v5e:",
                "v5e:4x4_twisted",
                "v5p:4x4294967296x1",
                "v5e:2x-2",
                "v5e:+4x4",
                "v5e-+16",
                "v5e:4x4 ",
            ],
            expect![[r#"
                topology "v5e:0x4": "0x4" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5e:2x2x2": "2x2x2" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5e:2x2x2x2": "2x2x2x2" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5p:axb": "axb" is no shape of v5p: expected the chips along x, y and z, each at least 1, such as 4x4x4
                topology "v5e:": "" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5e:4x4_twisted": "4x4" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5p:4x4294967296x1": "4x4294967296x1" is no shape of v5p: expected the chips along x, y and z, each at least 1, such as 4x4x4
                topology "v5e:2x-2": "2x-2" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5e:+4x4": "+4x4" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                topology "v5e-+16": "+16" is no shape of v5e: expected the chips along x and y, each at least 1, such as 4x4
                v5e:4x4 : v5e:4x4, 16 chips, wrap [0, 0, 0]
            "#]],
        );
    }
}
