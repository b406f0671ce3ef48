//! Constants: `dense<…>` in all its spellings.

use shardwright_tensor::{DType, HostArray, TensorType};

use super::attribute::hex;
use crate::Op;

/// The op of a constant of type `ty`, given what stands between `dense<` and `>`.
///
/// One element at every index is a [`Op::Splat`], however it was spelt: a type names more elements than any memory
/// holds with a few digits.
pub(super) fn dense(body: &str, ty: &TensorType) -> Result<Op, String> {
    let body = body.trim();
    let count = ty.shape.element_count();
    let bytes = if body.starts_with('"') { blob(body, ty.dtype, count)? } else { elements(body, ty)? };
    if count == 0 {
        return Ok(Op::Constant(HostArray::zeros(ty.clone())));
    }
    let size = ty.dtype.size();
    let mut each = bytes.chunks_exact(size);
    let first = each.next();
    let splat = first.filter(|first| count > 1 && each.all(|element| element == *first));
    if let Some(element) = splat {
        let element =
            HostArray::from_bytes(TensorType::scalar(ty.dtype), element).map_err(|e| e.to_string())?;
        return Ok(Op::Splat { element, shape: ty.shape.clone() });
    }
    HostArray::from_bytes(ty.clone(), &bytes).map(Op::Constant).map_err(|e| e.to_string())
}

/// The bytes of `"0x…"`: those of all elements, or of one that stands for all. Truth values are in bytes, or in bits in
/// older texts; one byte for a few of them that could be either is refused.
fn blob(body: &str, dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    let digits = body.trim_matches('"').strip_prefix("0x").unwrap_or_default().as_bytes();
    let byte = |pair: &[u8]| Some(hex(*pair.first()?)? << 4 | hex(*pair.get(1)?)?);
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty()).ok_or("its bytes are not pairs of hex digits")?;
    let expected = count.saturating_mul(dtype.size());
    match (bytes.len(), dtype) {
        (1, DType::Pred) if (2..=8).contains(&count) && !matches!(bytes[0], 0 | 0xFF) => {
            Err("it has one byte for several truth values; write them out".to_owned())
        }
        (n, DType::Pred) if n == expected || n == 1 => Ok(bytes.iter().map(|&b| u8::from(b != 0)).collect()),
        (n, DType::Pred) if n == count.div_ceil(8) => {
            Ok((0..count).map(|i| bytes[i / 8] >> (i % 8) & 1).collect())
        }
        (n, _) if n == expected || n == dtype.size() => Ok(bytes),
        (n, _) => Err(format!("it has {n} bytes, and should have {expected}")),
    }
}

/// The bytes of elements in nested lists, or of one that stands for all.
fn elements(body: &str, ty: &TensorType) -> Result<Vec<u8>, String> {
    let (dims, dtype) = (ty.dims(), ty.dtype);
    let mut bytes = Vec::new();
    if !body.starts_with('[') {
        if body.is_empty() && ty.shape.element_count() == 0 {
            return Ok(bytes);
        }
        element(body, dtype, &mut bytes)?;
        return Ok(bytes);
    }
    // How many items each list around has so far.
    let mut counts: Vec<usize> = Vec::new();
    let mut rest = body;
    while let Some(first) = rest.chars().next() {
        match first {
            '[' if counts.len() < dims.len() => counts.push(0),
            ']' if counts.last() == Some(&dims[counts.len() - 1]) => {
                counts.pop();
                if let Some(outer) = counts.last_mut() {
                    *outer += 1;
                }
            }
            '[' | ']' => return Err(format!("its lists are not those of the shape {}", ty.shape)),
            ',' => {}
            c if c.is_whitespace() => {}
            _ => {
                let end = rest.find([',', ']', '[']).unwrap_or(rest.len());
                if counts.len() != dims.len() {
                    return Err(format!("its lists are not those of the shape {}", ty.shape));
                }
                element(rest[..end].trim(), dtype, &mut bytes)?;
                counts[dims.len() - 1] += 1;
                rest = &rest[end..];
                continue;
            }
        }
        rest = &rest[first.len_utf8()..];
    }
    let expected = ty.byte_count();
    if !counts.is_empty() || (bytes.len() != expected && !(expected == 0 && bytes.is_empty())) {
        return Err(format!("its lists are not those of the shape {}", ty.shape));
    }
    Ok(bytes)
}

/// Appends the bytes of one element.
fn element(text: &str, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || format!("`{}` is no {dtype}", text.chars().take(40).collect::<String>());
    let width = 8 * dtype.size();
    if dtype == DType::Pred && matches!(text, "true" | "false") {
        out.push(u8::from(text == "true"));
        return Ok(());
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let hex = digits.strip_prefix("0x");
    if dtype.is_float() {
        let bits = match hex {
            Some(hex) if !negative => u64::from_str_radix(hex, 16).ok(),
            Some(_) => None,
            None => decimal(text, dtype),
        };
        let bits = bits.filter(|bits| width == 64 || bits >> width == 0).ok_or_else(wrong)?;
        out.extend(&bits.to_le_bytes()[..dtype.size()]);
        return Ok(());
    }
    let magnitude = match hex {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    let value = magnitude.map(|m| if negative { -i128::from(m) } else { i128::from(m) }).ok_or_else(wrong)?;
    let width = if dtype == DType::Pred { 1 } else { width };
    // Integers whose type says nothing of a sign are written with one or without.
    let is_signed = matches!(dtype, DType::S8 | DType::S16 | DType::S32 | DType::S64);
    let lowest = if is_signed { -(1i128 << (width - 1)) } else { 0 };
    if value < lowest || value >= 1i128 << width {
        return Err(wrong());
    }
    out.extend(&value.to_le_bytes()[..dtype.size()]);
    Ok(())
}

/// The bits of a decimal number, rounded as MLIR does: to `f64` first.
fn decimal(text: &str, dtype: DType) -> Option<u64> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    let value: f64 = text.parse().ok().filter(|_| is_number)?;
    let value = HostArray::scalar(value).cast(dtype);
    Some(value.bytes().iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(dtype: DType, dims: &[usize], texts: &[&str], expect: Expect) {
        let ty = TensorType::new(dtype, dims).unwrap();
        let show = |text: &&str| match dense(text, &ty) {
            Ok(Op::Splat { element, .. }) => format!("{text}  all {:?}\n", element.to_f64()[0]),
            Ok(Op::Constant(value)) => format!("{text}  {:?}\n", value.to_f64()),
            Ok(op) => format!("{text}  {}\n", op.name()),
            Err(error) => format!("{text}  error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    #[test]
    fn lists_splats_and_blobs() {
        check(
            DType::S32,
            &[2, 2],
            &[
                "7",
                "[[1, 2], [3, -4]]",
                "[[5,5],[5,5]]",
                r#""0x01000000020000000300000004000000""#,
                r#""0x07000000""#,
                "[[1, 2], [3]]",
                "[1, 2, 3, 4]",
                "[[1, 2], [3, 4]",
                "[[1, 2], [3, 4], [5, 6]]",
                "[[[1, 2], [3, 4]]]",
                r#""0x0100""#,
                r#""0x010""#,
                "",
                "1.5",
                "99999999999",
            ],
            expect![[r#"
                7  all 7.0
                [[1, 2], [3, -4]]  [1.0, 2.0, 3.0, -4.0]
                [[5,5],[5,5]]  all 5.0
                "0x01000000020000000300000004000000"  [1.0, 2.0, 3.0, 4.0]
                "0x07000000"  all 7.0
                [[1, 2], [3]]  error: its lists are not those of the shape [2,2]
                [1, 2, 3, 4]  error: its lists are not those of the shape [2,2]
                [[1, 2], [3, 4]  error: its lists are not those of the shape [2,2]
                [[1, 2], [3, 4], [5, 6]]  error: its lists are not those of the shape [2,2]
                [[[1, 2], [3, 4]]]  error: its lists are not those of the shape [2,2]
                "0x0100"  error: it has 2 bytes, and should have 16
                "0x010"  error: its bytes are not pairs of hex digits
                  error: `` is no s32
                1.5  error: `1.5` is no s32
                99999999999  error: `99999999999` is no s32
            "#]],
        );
    }

    #[test]
    fn scalars_of_each_kind() {
        let f32s = [
            "1.000000e+00",
            "-1.5",
            "0x7F800000",
            "0xFF800000",
            "1.0e39",
            "-0x7F800000",
            "0x1FFFFFFFF",
            "inf",
            "nan",
        ];
        check(
            DType::F32,
            &[],
            &f32s,
            expect![[r#"
            1.000000e+00  [1.0]
            -1.5  [-1.5]
            0x7F800000  [inf]
            0xFF800000  [-inf]
            1.0e39  [inf]
            -0x7F800000  error: `-0x7F800000` is no f32
            0x1FFFFFFFF  error: `0x1FFFFFFFF` is no f32
            inf  error: `inf` is no f32
            nan  error: `nan` is no f32
        "#]],
        );
        check(
            DType::Bf16,
            &[],
            &["1.5", "0x3FC0", "0x13FC0"],
            expect![[r#"
            1.5  [1.5]
            0x3FC0  [1.5]
            0x13FC0  error: `0x13FC0` is no bf16
        "#]],
        );
        check(
            DType::S8,
            &[],
            &["-128", "255", "0xFF", "256", "-129"],
            expect![[r#"
            -128  [-128.0]
            255  [-1.0]
            0xFF  [-1.0]
            256  error: `256` is no s8
            -129  error: `-129` is no s8
        "#]],
        );
        check(
            DType::U64,
            &[],
            &["18446744073709551615", "-1"],
            expect![[r#"
            18446744073709551615  [1.8446744073709552e19]
            -1  error: `-1` is no u64
        "#]],
        );
        check(
            DType::Pred,
            &[],
            &["true", "false", "1", "2"],
            expect![[r#"
            true  [1.0]
            false  [0.0]
            1  [1.0]
            2  error: `2` is no pred
        "#]],
        );
    }

    #[test]
    fn truth_values_come_in_bytes_or_bits() {
        check(
            DType::Pred,
            &[9],
            &[r#""0x010000010000010000""#, r#""0x4900""#, r#""0x01""#, "true"],
            expect![[r#"
            "0x010000010000010000"  [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
            "0x4900"  [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
            "0x01"  all 1.0
            true  all 1.0
        "#]],
        );
        check(
            DType::Pred,
            &[3],
            &[r#""0x01""#, r#""0xFF""#, r#""0x00""#, r#""0x010001""#, r#""0x0100""#],
            expect![[r#"
                "0x01"  error: it has one byte for several truth values; write them out
                "0xFF"  all 1.0
                "0x00"  all 0.0
                "0x010001"  [1.0, 0.0, 1.0]
                "0x0100"  error: it has 2 bytes, and should have 3
            "#]],
        );
    }

    #[test]
    fn nothing_and_very_much() {
        check(
            DType::F32,
            &[2, 0],
            &["", "[]", "[[], []]", "[[1.0], []]"],
            expect![[r#"
              []
            []  error: its lists are not those of the shape [2,0]
            [[], []]  []
            [[1.0], []]  error: its lists are not those of the shape [2,0]
        "#]],
        );
        check(
            DType::F32,
            &[1 << 30, 1 << 20],
            &["0.0", "[0.0]"],
            expect![[r#"
            0.0  all 0.0
            [0.0]  error: its lists are not those of the shape [1073741824,1048576]
        "#]],
        );
    }
}
