//! NumPy's format for one array: a line that is a Python dictionary, then the elements.

use std::fmt::Write as _;

use thiserror::Error;

use crate::{DType, HostArray, ShapeError, TensorError, TensorType};

/// What the elements of a `.npy` file are and where they begin.
///
/// ```
/// use shardwright_tensor::{HostArray, NpyHeader};
///
/// let array = HostArray::from_slice(&[2, 3], &[1f32, 2., 3., 4., 5., 6.])?;
/// let file = [&NpyHeader::write(array.ty())[..], array.bytes()].concat();
///
/// let header = NpyHeader::parse(&file)?;
/// assert_eq!(header.ty(), array.ty());
/// assert_eq!(header.array(&file[header.len()..])?, array);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// NumPy has no bfloat16. Where a package adds it, files call its elements `V2`, two bytes of anything; so `V2` is read
/// as [`DType::Bf16`], and bfloat16 is written as `V2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    ty: TensorType,
    len: usize,
    is_column_major: bool,
    is_big_endian: bool,
}

/// Why bytes are no `.npy` file, or none that can be read here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NpyError {
    /// Something else.
    #[error("this is no .npy file: it does not begin with \\x93NUMPY")]
    NotNpy,
    /// A version that did not exist when this was written.
    #[error("version {version} of the .npy format is unknown; known are 1, 2 and 3")]
    Version {
        /// Its major number.
        version: u8,
    },
    /// The file ends in its header, or the header is longer than any that describes one array.
    #[error("the .npy file ends in its header, which takes {needed} bytes, at byte {found}")]
    Truncated {
        /// How many bytes the header takes.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// The dictionary is not one.
    #[error("the header of the .npy file is not valid: expected {expected} at {rest:?}")]
    Header {
        /// What should stand there.
        expected: &'static str,
        /// What does.
        rest: String,
    },
    /// Elements that programs here have no counterpart of.
    #[error("elements of type {descr} are not supported; supported are {}", supported())]
    Dtype {
        /// The type in NumPy's spelling.
        descr: String,
    },
    /// A shape beyond any memory.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Elements that are fewer or more than the shape says.
    #[error(transparent)]
    Data(#[from] TensorError),
}

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy begins the elements at multiples of this.
const ALIGNMENT: usize = 64;
/// How much of a wrong header is shown.
const SHOWN: usize = 40;

/// Each dtype in NumPy's spelling without the byte order.
const DTYPES: [(&str, DType); 13] = [
    ("b1", DType::Pred),
    ("i1", DType::S8),
    ("i2", DType::S16),
    ("i4", DType::S32),
    ("i8", DType::S64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("V2", DType::Bf16),
    ("f4", DType::F32),
    ("f8", DType::F64),
];

impl NpyHeader {
    /// The bytes of a file that its header lies within.
    pub const MOST_BYTES: usize = 1 << 17;

    /// Reads the header from the beginning of a file: all of it, or its first [`NpyHeader::MOST_BYTES`].
    ///
    /// # Errors
    /// When that is not the beginning of a `.npy` file of a supported type.
    pub fn parse(start: &[u8]) -> Result<NpyHeader, NpyError> {
        let rest = start.strip_prefix(MAGIC).ok_or(NpyError::NotNpy)?;
        let version = rest.first().copied().unwrap_or(0);
        let truncated = |needed| NpyError::Truncated { needed, found: start.len() };
        let prefix = match version {
            1 => 10,
            2 | 3 => 12,
            _ => return Err(NpyError::Version { version }),
        };
        let size = start.get(8..prefix).ok_or(truncated(prefix))?;
        let size = size.iter().rev().fold(0, |n: usize, &byte| n << 8 | usize::from(byte));
        let len = prefix.saturating_add(size);
        let text = start.get(prefix..len).ok_or(truncated(len))?;
        let Dictionary { descr, is_column_major, shape } = dictionary(&String::from_utf8_lossy(text))?;
        let (is_big_endian, dtype) = element_type(&descr)?;
        Ok(NpyHeader { ty: TensorType::new(dtype, shape)?, len, is_column_major, is_big_endian })
    }

    /// The bytes before the elements of an array of this type, which follow as [`HostArray::bytes`] has them.
    pub fn write(ty: &TensorType) -> Vec<u8> {
        let (name, _) = DTYPES.iter().find(|(_, dtype)| *dtype == ty.dtype).expect("each dtype has its row");
        let order = if ty.dtype.size() == 1 { '|' } else { '<' };
        let mut text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': (");
        for dim in ty.dims() {
            let _ = write!(text, "{dim}, ");
        }
        text += "), }";
        // Version 2 has more room for the length.
        let fits = text.len() + ALIGNMENT <= usize::from(u16::MAX);
        let (version, size_bytes) = if fits { (1, 2) } else { (2, 4) };
        let prefix = MAGIC.len() + 2 + size_bytes;
        let len = (prefix + text.len() + 1).next_multiple_of(ALIGNMENT) - prefix;
        let size = &len.to_le_bytes()[..size_bytes];
        let padding = " ".repeat(len - text.len() - 1);
        [MAGIC, &[version, 0], size, text.as_bytes(), padding.as_bytes(), b"\n"].concat()
    }

    /// Dtype and shape of the array.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// How many bytes lie before the elements.
    #[expect(clippy::len_without_is_empty, reason = "no header is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The array with these elements, the bytes that follow the header.
    ///
    /// # Errors
    /// When they are not as many as the type takes.
    pub fn array(&self, data: &[u8]) -> Result<HostArray, NpyError> {
        let mut array = match self.is_column_major && self.ty.rank() > 1 {
            true => self.rows_of_columns(data)?,
            false => HostArray::from_bytes(self.ty.clone(), data)?,
        };
        if self.is_big_endian {
            array.bytes_mut().chunks_exact_mut(self.ty.dtype.size()).for_each(<[u8]>::reverse);
        }
        if self.ty.dtype == DType::Pred {
            // Any byte but 0 is true to NumPy, and plugins take 1 only.
            array.bytes_mut().iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(array)
    }

    fn rows_of_columns(&self, data: &[u8]) -> Result<HostArray, NpyError> {
        let (size, dims) = (self.ty.dtype.size(), self.ty.dims());
        // For its check of the length.
        let mut array = HostArray::from_bytes(self.ty.clone(), data)?;
        let strides: Vec<usize> =
            dims.iter().scan(size, |next, &dim| Some(std::mem::replace(next, *next * dim))).collect();
        let mut index = vec![0; dims.len()];
        for target in array.bytes_mut().chunks_exact_mut(size) {
            let offset: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
            target.copy_from_slice(&data[offset..offset + size]);
            for (i, &dim) in index.iter_mut().zip(dims).rev() {
                *i = (*i + 1) % dim;
                if *i > 0 {
                    break;
                }
            }
        }
        Ok(array)
    }
}

fn supported() -> String {
    let names: Vec<&str> = DTYPES.iter().map(|(name, _)| *name).collect();
    format!("{} (V2 as bfloat16)", names.join(", "))
}

/// Whether the most significant byte comes first, and the dtype.
fn element_type(descr: &str) -> Result<(bool, DType), NpyError> {
    let (order, name) = match descr.strip_prefix(['<', '>', '|', '=']) {
        Some(name) => (&descr[..1], name),
        None => ("<", descr),
    };
    let found = DTYPES.iter().find(|(known, _)| *known == name);
    let (_, dtype) = found.ok_or_else(|| NpyError::Dtype { descr: descr.to_owned() })?;
    Ok((order == ">", *dtype))
}

struct Dictionary {
    descr: String,
    is_column_major: bool,
    shape: Vec<usize>,
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, whose keys may stand in any order.
fn dictionary(text: &str) -> Result<Dictionary, NpyError> {
    let mut rest = Rest(text);
    let (mut descr, mut order, mut shape) = (None, None, None);
    rest.expect("{", "{")?;
    while !rest.takes("}") {
        match rest.string("the key of an entry, or }")? {
            "descr" => descr = Some(rest.after_colon()?.description()?),
            "fortran_order" => order = Some(rest.after_colon()?.truth()?),
            "shape" => shape = Some(rest.after_colon()?.shape()?),
            _ => return Err(rest.wrong("no keys but descr, fortran_order and shape before")),
        }
        if !rest.takes(",") {
            rest.expect("}", ", or }")?;
            break;
        }
    }
    match (descr, order, shape) {
        (Some(descr), Some(is_column_major), Some(shape)) => Ok(Dictionary { descr, is_column_major, shape }),
        _ => Err(rest.wrong("the keys descr, fortran_order and shape before the end")),
    }
}

/// What is left of a header.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), NpyError> {
        if self.takes(token) { Ok(()) } else { Err(self.wrong(expected)) }
    }

    fn after_colon(&mut self) -> Result<&mut Self, NpyError> {
        self.expect(":", ": behind a key").map(|()| self)
    }

    fn string(&mut self, expected: &'static str) -> Result<&'a str, NpyError> {
        let text = self.0.trim_start();
        let quoted = text.strip_prefix(['\'', '"']).and_then(|inner| inner.split_once(&text[..1]));
        let (inner, rest) = quoted.ok_or_else(|| self.wrong(expected))?;
        self.0 = rest;
        Ok(inner)
    }

    /// An element type; that of a record, which is a list, as it is written.
    fn description(&mut self) -> Result<String, NpyError> {
        match self.0.trim_start().strip_prefix('[') {
            Some(_) => Err(NpyError::Dtype { descr: record(self.0.trim_start()) }),
            None => self.string("an element type").map(str::to_owned),
        }
    }

    fn truth(&mut self) -> Result<bool, NpyError> {
        if self.takes("True") {
            return Ok(true);
        }
        self.expect("False", "True or False").map(|()| false)
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut dims = Vec::new();
        self.expect("(", "a shape in parentheses")?;
        while !self.takes(")") {
            let text = self.0.trim_start();
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let dim = text[..digits].parse().map_err(|_| self.wrong("a size, or )"))?;
            dims.push(dim);
            self.0 = &text[digits..];
            // As Python 2 wrote large numbers.
            self.takes("L");
            if !self.takes(",") {
                self.expect(")", ", or ) behind a size")?;
                break;
            }
        }
        Ok(dims)
    }

    fn wrong(&self, expected: &'static str) -> NpyError {
        NpyError::Header { expected, rest: self.0.trim().chars().take(SHOWN).collect() }
    }
}

/// The type of a record at the beginning of a text, up to the bracket that closes it, as far as is shown.
fn record(text: &str) -> String {
    let mut open = 0;
    let is_inside = |character: &char| {
        let was_open = open > 0 || *character == '[';
        match character {
            '[' => open += 1,
            ']' => open -= 1,
            _ => {}
        }
        was_open
    };
    text.chars().take_while(is_inside).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this dictionary and these elements.
    fn file(dictionary: &str, data: &[u8]) -> Vec<u8> {
        let size = u16::try_from(dictionary.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0], &size, dictionary.as_bytes(), data].concat()
    }

    fn read(bytes: &[u8]) -> Result<HostArray, NpyError> {
        let header = NpyHeader::parse(bytes)?;
        header.array(&bytes[header.len()..])
    }

    #[test]
    fn what_is_written_is_read_again() {
        for dtype in DType::ALL {
            for dims in [vec![], vec![3], vec![2, 0, 5], vec![2, 3]] {
                let ty = TensorType::new(dtype, dims).unwrap();
                let bytes: Vec<u8> = (0..ty.byte_count()).map(|i| (i % 2) as u8).collect();
                let array = HostArray::from_bytes(ty, &bytes).unwrap();
                let header = NpyHeader::write(array.ty());
                assert_eq!(header.len() % ALIGNMENT, 0);
                assert_eq!(read(&[&header[..], array.bytes()].concat()), Ok(array));
            }
        }
    }

    #[test]
    fn a_header_of_many_dims_is_read_again() {
        let mut dims = vec![1; 30_000];
        dims[7] = 3;
        let array = HostArray::from_slice(&dims, &[1f32, 2., 3.]).unwrap();
        let header = NpyHeader::write(array.ty());
        assert!(header.len() > usize::from(u16::MAX) && header.len() <= NpyHeader::MOST_BYTES);
        assert_eq!(read(&[&header[..], array.bytes()].concat()), Ok(array));
    }

    #[test]
    fn other_orders_of_bytes_and_elements_are_put_right() {
        let big = file("{'shape': (2,), 'fortran_order': False, 'descr': '>i2'}", &[1, 2, 3, 4]);
        assert_eq!(read(&big).unwrap(), HostArray::from_slice(&[2], &[0x102i16, 0x304]).unwrap());
        let columns =
            file("{'descr': '|u1', 'fortran_order': True, 'shape': (2L, 3L), }", &[0, 3, 1, 4, 2, 5]);
        assert_eq!(read(&columns).unwrap(), HostArray::from_slice(&[2, 3], &[0u8, 1, 2, 3, 4, 5]).unwrap());
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        let array =
            read(&file("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", &[0, 7, 1])).unwrap();
        assert_eq!(array.bytes(), [0, 1, 1]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(read(bytes).unwrap_err().to_string(), expected);
        let dictionary = |text| file(text, &[]);
        check(b"PK\x03\x04", "this is no .npy file: it does not begin with \\x93NUMPY");
        check(b"\x93NUMPY\x09\x00", "version 9 of the .npy format is unknown; known are 1, 2 and 3");
        check(
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
            "the .npy file ends in its header, which takes 4294967307 bytes, at byte 13",
        );
        check(
            &dictionary("{'descr': '<c8', 'fortran_order': False, 'shape': ()}"),
            "elements of type <c8 are not supported; supported are \
             b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, V2, f4, f8 (V2 as bfloat16)",
        );
        check(
            &dictionary("{'descr': [('a', [('b', '<f4')])], 'fortran_order': False, 'shape': ()}"),
            "elements of type [('a', [('b', '<f4')])] are not supported; supported are \
             b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, V2, f4, f8 (V2 as bfloat16)",
        );
        check(
            &dictionary("{'descr': '<f4', 'shape': (2, -1)}"),
            "the header of the .npy file is not valid: expected a size, or ) at \"-1)}\"",
        );
        check(
            &dictionary("{'descr': '<f4'}"),
            "the header of the .npy file is not valid: expected the keys descr, fortran_order and shape before the \
             end at \"\"",
        );
        check(
            &dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
            "shape [4294967296, 4294967296] has more elements than can be addressed",
        );
        check(
            &dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
            "f32[2] needs 8 bytes, got 0",
        );
    }

    #[test]
    fn no_beginning_of_a_file_makes_it_panic() {
        let whole = file("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }\n", &[0; 8]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} bytes");
        }
        for place in 0..whole.len() {
            for byte in [0, b'\'', b'}', 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                let _ = read(&changed);
            }
        }
    }
}
