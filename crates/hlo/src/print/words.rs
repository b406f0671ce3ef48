//! How values, types, names and lists are spelt.

use std::fmt::{self, Write};

use shardwright_tensor::{DType, HostArray, TensorType};

use crate::ValueType;

/// A type in MLIR's spelling.
pub(super) struct AnyType<'a>(pub(super) &'a ValueType);

impl fmt::Display for AnyType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValueType::Tensor(ty) => Type(ty).fmt(f),
            ValueType::Other(ty) => f.write_str(ty),
        }
    }
}

/// `tensor<2x3xf32>`.
pub(super) struct Type<'a>(pub(super) &'a TensorType);

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        self.0.dims().iter().try_for_each(|dim| write!(f, "{dim}x"))?;
        write!(f, "{}>", self.0.dtype.stablehlo_name())
    }
}

/// `dense<1.5>` when all elements are equal, else their bytes: `dense<"0x0000C03F…">`.
pub(super) struct Dense<'a>(pub(super) &'a HostArray);

impl fmt::Display for Dense<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, bytes) = (self.0.dtype(), self.0.bytes());
        let mut elements = bytes.chunks_exact(dtype.size());
        let Some(first) = elements.next() else { return f.write_str("dense<>") };
        if elements.all(|element| element == first) {
            return write!(f, "dense<{}>", Element(dtype, first));
        }
        if dtype == DType::Pred {
            // Some readers take the bytes of truth values for bits, others for one each.
            return self.pred_list(f);
        }
        f.write_str("dense<\"0x")?;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
        f.write_str("\">")
    }
}

impl Dense<'_> {
    fn pred_list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list(f: &mut fmt::Formatter<'_>, dims: &[usize], bytes: &[u8]) -> fmt::Result {
            let Some((&n, inner)) = dims.split_first() else {
                return write!(f, "{}", bytes[0] != 0);
            };
            f.write_str("[")?;
            for (i, part) in bytes.chunks_exact(bytes.len() / n).enumerate() {
                f.write_str(if i == 0 { "" } else { ", " })?;
                list(f, inner, part)?;
            }
            f.write_str("]")
        }
        f.write_str("dense<")?;
        list(f, self.0.dims(), self.0.bytes())?;
        f.write_str(">")
    }
}

/// One element: decimal when that reads back as the same value, else its bits in hex.
pub(super) struct Element<'a>(pub(super) DType, pub(super) &'a [u8]);

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element(dtype, bytes) = *self;
        let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        let value = match dtype {
            DType::Pred => return write!(f, "{}", bits != 0),
            DType::S8 => return write!(f, "{}", bits as i8),
            DType::S16 => return write!(f, "{}", bits as i16),
            DType::S32 => return write!(f, "{}", bits as i32),
            DType::S64 => return write!(f, "{}", bits as i64),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => return write!(f, "{bits}"),
            DType::F32 => format!("{:e}", f32::from_bits(bits as u32)),
            DType::F64 => format!("{:e}", f64::from_bits(bits)),
            DType::F16 | DType::Bf16 => return write!(f, "0x{bits:04X}"),
        };
        match value.split_once('e') {
            Some((mantissa, exponent)) => {
                let point = if mantissa.contains('.') { "" } else { ".0" };
                write!(f, "{mantissa}{point}e{exponent}")
            }
            // Infinities and NaNs have no decimal form.
            None => write!(f, "0x{bits:0width$X}", width = dtype.size() * 2),
        }
    }
}

/// A quoted string with MLIR's escapes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\{byte:02X}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A symbol name: bare where that is allowed, else quoted.
pub(super) struct Symbol<'a>(pub(super) &'a str);

impl fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |c: char| c.is_ascii_alphanumeric() || "_$.".contains(c);
        let bare =
            self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && self.0.chars().all(word);
        if bare { f.write_str(self.0) } else { write!(f, "{}", Quoted(self.0)) }
    }
}

/// ` {a, b}` of those that are present; nothing when none is.
pub(super) struct Attributes<'a>(pub(super) &'a [Option<String>]);

impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut present = self.0.iter().flatten().peekable();
        if present.peek().is_none() {
            return Ok(());
        }
        write!(f, " {{{}}}", Separated(present))
    }
}

/// Items with `, ` between them.
pub(super) struct Separated<I>(pub(super) I);

impl<I: Iterator<Item: fmt::Display> + Clone> fmt::Display for Separated<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.clone().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    #[track_caller]
    fn check_constant(value: HostArray, expect: Expect) {
        expect.assert_eq(&Dense(&value).to_string());
    }

    #[test]
    fn constants() {
        check_constant(HostArray::scalar(1f32), expect!["dense<1.0e0>"]);
        check_constant(HostArray::from_slice(&[3], &[1e-6f32; 3]).unwrap(), expect!["dense<1.0e-6>"]);
        check_constant(HostArray::scalar(f32::NEG_INFINITY), expect!["dense<0xFF800000>"]);
        check_constant(HostArray::scalar(-7i32), expect!["dense<-7>"]);
        check_constant(HostArray::scalar(u32::MAX), expect!["dense<4294967295>"]);
        check_constant(
            HostArray::from_slice(&[2], &[1u16, 258]).unwrap(),
            expect![[r#"dense<"0x01000201">"#]],
        );
        let truth = HostArray::from_bytes(TensorType::new(DType::Pred, [2, 2]).unwrap(), &[1, 0, 0, 0]);
        check_constant(truth.unwrap(), expect!["dense<[[true, false], [false, false]]>"]);
        check_constant(HostArray::zeros(f32(&[0, 2])), expect!["dense<>"]);
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(Symbol("train_step").to_string(), "train_step");
        assert_eq!(Symbol("1 \"x\"\n").to_string(), "\"1 \\\"x\\\"\\0A\"");
    }
}
