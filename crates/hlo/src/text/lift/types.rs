//! Types.

use shardwright_tensor::{DType, TensorType};

use super::problem::ProgramProblem;
use crate::ValueType;

/// What is more has no use, and lets whatever goes through dims one inside the other run out of stack.
const MOST_DIMS: usize = 128;

/// The type that a text names: an array if it is one that can be passed and had, else what was written.
pub(super) fn value_type(text: &str) -> Result<ValueType, ProgramProblem> {
    let wrong = |reason: String| ProgramProblem::Type { ty: clip(text), reason };
    let Some(inner) = text.strip_prefix("tensor<").and_then(|rest| rest.strip_suffix('>')) else {
        return Ok(ValueType::Other(text.into()));
    };
    let (mut dims, mut rest, mut is_dynamic) = (Vec::new(), inner.trim_start(), false);
    while let Some((dim, after)) = rest.split_once('x') {
        match dim.trim() {
            "?" | "*" => is_dynamic = true,
            digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let dim: usize =
                    digits.parse().map_err(|_| wrong(format!("no array has a dim of {digits}")))?;
                dims.push(dim);
            }
            _ => break,
        }
        rest = after;
        if dims.len() > MOST_DIMS {
            return Err(wrong(format!("it has more than {MOST_DIMS} dims")));
        }
    }
    if is_dynamic {
        return match rest.contains("bounds<") {
            true => Ok(ValueType::Other(text.into())),
            false => Err(wrong(
                "its size is known at run time only; trace the program with sizes that are known".into(),
            )),
        };
    }
    match DType::ALL.into_iter().find(|dtype| dtype.stablehlo_name() == rest.trim_end()) {
        Some(dtype) => {
            let ty = TensorType::new(dtype, dims).map_err(|error| wrong(error.to_string()))?;
            Ok(ValueType::Tensor(ty))
        }
        None => Ok(ValueType::Other(text.into())),
    }
}

/// Types in a row, in MLIR's spelling: in parentheses, unless it is one.
pub(super) fn list(types: &[ValueType]) -> String {
    let texts: Vec<String> = types.iter().map(crate::print::mlir_type).collect();
    if let [only] = &texts[..] { only.clone() } else { format!("({})", texts.join(", ")) }
}

/// As much of a text as a message has room for.
pub(super) fn clip(text: &str) -> String {
    const ROOM: usize = 120;
    let mut clipped: String = text.chars().take(ROOM).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn arrays_and_other_types() {
        let texts = [
            "tensor<2x3xf32>",
            "tensor<i1>",
            "tensor<0xbf16>",
            "tensor<4xcomplex<f32>>",
            "tensor<4xf8E4M3FN>",
            "tensor<4xi4>",
            "tensor<4xf32, #stablehlo.type_extensions<bounds = [4]>>",
            "tensor<?xf32, #stablehlo.bounds<8>>",
            "!stablehlo.token",
            "tuple<tensor<f32>, tensor<i1>>",
            "tensor<?x3xf32>",
            "tensor<*xf32>",
            "tensor<4611686018427387904x4611686018427387904xf32>",
            "tensor<99999999999999999999999xf32>",
        ];
        let show = |text: &str| match value_type(text) {
            Ok(ValueType::Tensor(ty)) => format!("{ty}\n"),
            Ok(ValueType::Other(ty)) => format!("other: {ty}\n"),
            Err(error) => format!("error: {error}\n"),
        };
        let shown: String = texts.into_iter().map(show).collect();
        expect![[r#"
            f32[2,3]
            pred[]
            bf16[0]
            other: tensor<4xcomplex<f32>>
            other: tensor<4xf8E4M3FN>
            other: tensor<4xi4>
            other: tensor<4xf32, #stablehlo.type_extensions<bounds = [4]>>
            other: tensor<?xf32, #stablehlo.bounds<8>>
            other: !stablehlo.token
            other: tuple<tensor<f32>, tensor<i1>>
            error: tensor<?x3xf32>: its size is known at run time only; trace the program with sizes that are known
            error: tensor<*xf32>: its size is known at run time only; trace the program with sizes that are known
            error: tensor<4611686018427387904x4611686018427387904xf32>: shape [4611686018427387904, 4611686018427387904] has more elements than can be addressed
            error: tensor<99999999999999999999999xf32>: no array has a dim of 99999999999999999999999
        "#]].assert_eq(&shown);
        assert!(value_type(&format!("tensor<{}f32>", "1x".repeat(100_000))).is_err());
    }
}
