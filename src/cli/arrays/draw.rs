//! Arguments that are drawn where no file has them.
//!
//! An element is a function of the seed, the argument's name and the element's index, so it depends on no mesh, and on
//! no other argument.

use std::fmt;

use shardwright_hlo::{ArgumentInfo, ArgumentKind};
use shardwright_partition::glob;
use shardwright_tensor::{DType, HostArray, bf16, f16};

/// How arguments are drawn.
#[derive(Clone, Debug)]
pub(in super::super) struct Draw {
    pub(in super::super) seed: u64,
    /// The last one that is meant for an argument counts.
    pub(in super::super) ranges: Vec<Range>,
}

/// `[NAME=]LOW..HIGH` of `--range`.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Range {
    /// The arguments that it is for, with `*` for any characters; without, all integers.
    pattern: Option<String>,
    low: f64,
    high: f64,
}

impl Range {
    /// Reads a range as it is written on the command line.
    pub(in super::super) fn parse(text: &str) -> Result<Range, String> {
        let wrong = || format!("expected LOW..HIGH or NAME=LOW..HIGH with LOW below HIGH, found {text:?}");
        let (pattern, bounds) = match text.rsplit_once('=') {
            Some((pattern, bounds)) => (Some(pattern.to_owned()), bounds),
            None => (None, text),
        };
        let (low, high) = bounds.split_once("..").ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let (low, high) = number(low).zip(number(high)).ok_or_else(wrong)?;
        if low < high { Ok(Range { pattern, low, high }) } else { Err(wrong()) }
    }

    /// The pattern, where it fits none of the arguments.
    pub(in super::super) fn idle_pattern(&self, arguments: &[ArgumentInfo]) -> Option<&str> {
        let pattern = self.pattern.as_deref()?;
        (!arguments.iter().any(|argument| glob(pattern, &argument.name))).then_some(pattern)
    }

    fn is_for(&self, argument: &ArgumentInfo) -> bool {
        match &self.pattern {
            Some(pattern) => glob(pattern, &argument.name),
            None => argument.ty.dtype.is_integer(),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.pattern.as_ref().map(|pattern| format!("{pattern}=")).unwrap_or_default();
        write!(f, "{pattern}{}", span(self.low, self.high))
    }
}

/// A range as it is written, large numbers with an exponent.
fn span(low: f64, high: f64) -> String {
    let number = |value: f64| if value.abs() < 1e16 { value.to_string() } else { format!("{value:e}") };
    format!("{}..{}", number(low), number(high))
}

impl Draw {
    /// Draws an argument: uniform in its range, of which the upper end is left out.
    pub(in super::super) fn array(&self, argument: &ArgumentInfo) -> HostArray {
        let (low, high) = self.range(argument);
        let key = mix(self.seed ^ mix(fnv1a(&argument.name)));
        let unit = |place: usize| {
            let bits = mix(key.wrapping_add((place as u64).wrapping_mul(GOLDEN)));
            (bits >> 11) as f64 / (1u64 << 53) as f64
        };
        let float = |place| low + unit(place) * (high - low);
        let whole = |place| (low.ceil() + (unit(place) * (high - low.ceil())).floor()).clamp(low, high);
        let mut array = HostArray::zeros(argument.ty.clone());
        macro_rules! fill {
            ($ty:ty, $value:expr) => {{
                let elements = array.as_mut_slice::<$ty>().expect("the dtype is that of the elements");
                elements.iter_mut().enumerate().for_each(|(place, element)| *element = $value(place));
            }};
        }
        match argument.ty.dtype {
            DType::Pred => {
                let bytes = array.bytes_mut().iter_mut().enumerate();
                bytes.for_each(|(place, byte)| *byte = u8::from(unit(place) < 0.5));
            }
            DType::S8 => fill!(i8, |place| whole(place) as i8),
            DType::S16 => fill!(i16, |place| whole(place) as i16),
            DType::S32 => fill!(i32, |place| whole(place) as i32),
            DType::S64 => fill!(i64, |place| whole(place) as i64),
            DType::U8 => fill!(u8, |place| whole(place) as u8),
            DType::U16 => fill!(u16, |place| whole(place) as u16),
            DType::U32 => fill!(u32, |place| whole(place) as u32),
            DType::U64 => fill!(u64, |place| whole(place) as u64),
            DType::F16 => fill!(f16, |place| f16::from_f64(float(place))),
            DType::Bf16 => fill!(bf16, |place| bf16::from_f64(float(place))),
            DType::F32 => fill!(f32, |place| float(place) as f32),
            DType::F64 => fill!(f64, float),
        }
        array
    }

    /// Whether the range given for an argument has elements of its type.
    ///
    /// # Errors
    /// What is wrong, and with which argument.
    pub(in super::super) fn check(&self, argument: &ArgumentInfo) -> Result<(), String> {
        let (Some(range), Some((least, end))) = (self.given(argument), bounds(argument.ty.dtype)) else {
            return Ok(());
        };
        let (name, dtype) = (&argument.name, argument.ty.dtype);
        if range.low < least || range.high > end {
            return Err(format!(
                "--range {range}: argument {name} is {dtype}, whose ranges lie within {}; \
                 --range '{name}=LOW..HIGH' gives it its own",
                span(least, end)
            ));
        }
        if dtype.is_integer() && range.low.ceil() >= range.high {
            return Err(format!(
                "--range {range}: argument {name} is {dtype}, and no integer lies in that range"
            ));
        }
        Ok(())
    }

    /// The range that was given for an argument.
    fn given(&self, argument: &ArgumentInfo) -> Option<&Range> {
        self.ranges.iter().rev().find(|range| range.is_for(argument))
    }

    /// Integers are mostly ids and positions, which small ones are valid for; what an optimizer keeps may be squares,
    /// which are not negative.
    fn range(&self, argument: &ArgumentInfo) -> (f64, f64) {
        match (self.given(argument), argument.kind) {
            (Some(range), _) => (range.low, range.high),
            (None, _) if argument.ty.dtype.is_integer() => (0.0, 8.0),
            (None, ArgumentKind::State { .. }) => (0.0, 0.1),
            (None, _) => (-0.1, 0.1),
        }
    }
}

/// What the ends of a range for a dtype may be, whose upper one is left out; nothing for truth values, which have no
/// range. The width of a range of doubles is a double too.
fn bounds(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::Pred => return None,
        DType::S8 => (-128.0, 128.0),
        DType::S16 => (-32768.0, 32768.0),
        DType::S32 => (-2147483648.0, 2147483648.0),
        DType::S64 => (-9223372036854775808.0, 9223372036854775808.0),
        DType::U8 => (0.0, 256.0),
        DType::U16 => (0.0, 65536.0),
        DType::U32 => (0.0, 4294967296.0),
        DType::U64 => (0.0, 18446744073709551616.0),
        DType::F16 => (f64::from(f16::MIN), f64::from(f16::MAX)),
        DType::Bf16 => (f64::from(bf16::MIN), f64::from(bf16::MAX)),
        DType::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        DType::F64 => (f64::MIN / 2.0, f64::MAX / 2.0),
    })
}

/// The step of the counter, 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection whose outputs look random on any sequence of inputs: the finalizer of SplitMix64 (Steele, Lea and Flood,
/// *Fast Splittable Pseudorandom Number Generators*, 2014).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A number for a name.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use shardwright_tensor::TensorType;

    use super::super::summary::Summary;
    use super::*;

    fn argument(name: &str, dtype: DType, kind: ArgumentKind) -> ArgumentInfo {
        let ty = TensorType::new(dtype, [4096]).unwrap();
        ArgumentInfo { name: name.to_owned(), ty, kind, donated: false, stated: None }
    }

    #[track_caller]
    fn check(ranges: &[&str], argument: &ArgumentInfo, low: f64, high: f64) {
        let ranges = ranges.iter().map(|text| Range::parse(text).unwrap()).collect();
        let Summary { min, max, mean, nan } = Summary::of(&Draw { seed: 1, ranges }.array(argument));
        let width = high - low;
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 0.03 * width;
        assert!(
            near(min, low) && near(max, high) && near(mean, (low + high) / 2.0),
            "{min:?} {max:?} {mean:?}"
        );
        assert_eq!(nan, 0);
    }

    #[test]
    fn elements_fill_their_range() {
        let other = ArgumentKind::Other;
        check(&[], &argument("x", DType::F32, other), -0.1, 0.1);
        check(&[], &argument("x", DType::F32, ArgumentKind::State { parameter: 0, without: None }), 0.0, 0.1);
        check(&[], &argument("ids", DType::S32, other), 0.0, 7.0);
        check(&["0..256"], &argument("ids", DType::U8, other), 0.0, 255.0);
        check(&["-100..101"], &argument("ids", DType::S16, other), -100.0, 100.0);
        check(&["0..256"], &argument("x", DType::F64, other), -0.1, 0.1);
        check(&["0..9", "*d*=0..5"], &argument("ids", DType::S64, other), 0.0, 4.0);
        check(&["x=-2..3"], &argument("x", DType::F32, other), -2.0, 3.0);
        check(&[], &argument("mask", DType::Pred, other), 0.0, 1.0);
    }

    #[test]
    fn seeds_and_names_tell_arrays_apart() {
        let draw = |seed, name| {
            let draw = Draw { seed, ranges: Vec::new() };
            draw.array(&argument(name, DType::F32, ArgumentKind::Other))
        };
        assert_eq!(draw(0, "a"), draw(0, "a"));
        assert_ne!(draw(0, "a"), draw(0, "b"));
        assert_ne!(draw(0, "a"), draw(1, "a"));
    }

    #[test]
    fn ranges_without_elements_of_the_type_are_refused() {
        let check = |dtype, range: &str, expected: Result<(), &str>| {
            let draw = Draw { seed: 0, ranges: vec![Range::parse(range).unwrap()] };
            let found = draw.check(&argument("x", dtype, ArgumentKind::Other));
            assert_eq!(found, expected.map_err(str::to_owned));
        };
        check(DType::U8, "0..256", Ok(()));
        check(
            DType::U8,
            "0..257",
            Err(
                "--range 0..257: argument x is u8, whose ranges lie within 0..256; --range 'x=LOW..HIGH' gives it its own",
            ),
        );
        check(
            DType::F16,
            "x=0..1e30",
            Err(
                "--range x=0..1e30: argument x is f16, whose ranges lie within -65504..65504; --range 'x=LOW..HIGH' \
                 gives it its own",
            ),
        );
        check(
            DType::S32,
            "0.1..0.9",
            Err("--range 0.1..0.9: argument x is s32, and no integer lies in that range"),
        );
        check(DType::Pred, "*=0.1..1e300", Ok(()));
        check(
            DType::F64,
            "*=-1e308..1e308",
            Err("--range *=-1e308..1e308: argument x is f64, whose ranges lie within \
                 -8.988465674311579e307..8.988465674311579e307; --range 'x=LOW..HIGH' gives it its own"),
        );
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for text in ["", "1", "1..", "2..1", "1..1", "a=..", "0..inf", "x=nan..1"] {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }
}
