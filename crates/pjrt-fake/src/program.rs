//! The language of programs: what there is to say, and what it does to the compiler.

use std::ptr;

use shardwright_pjrt_sys as sys;

use crate::failure::Failure;

/// Element type and dims of an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Type {
    pub(crate) element: sys::PJRT_Buffer_Type,
    pub(crate) dims: Vec<i64>,
}

/// An element type: its name, its number in PJRT and in XLA, and its size in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DType(&'static str, sys::PJRT_Buffer_Type, u8, usize);

const DTYPES: [DType; 13] = [
    DType("pred", sys::PJRT_Buffer_Type_PRED, 1, 1),
    DType("s8", sys::PJRT_Buffer_Type_S8, 2, 1),
    DType("s16", sys::PJRT_Buffer_Type_S16, 3, 2),
    DType("s32", sys::PJRT_Buffer_Type_S32, 4, 4),
    DType("s64", sys::PJRT_Buffer_Type_S64, 5, 8),
    DType("u8", sys::PJRT_Buffer_Type_U8, 6, 1),
    DType("u16", sys::PJRT_Buffer_Type_U16, 7, 2),
    DType("u32", sys::PJRT_Buffer_Type_U32, 8, 4),
    DType("u64", sys::PJRT_Buffer_Type_U64, 9, 8),
    DType("f16", sys::PJRT_Buffer_Type_F16, 10, 2),
    DType("f32", sys::PJRT_Buffer_Type_F32, 11, 4),
    DType("f64", sys::PJRT_Buffer_Type_F64, 12, 8),
    DType("bf16", sys::PJRT_Buffer_Type_BF16, 16, 2),
];

impl DType {
    pub(crate) fn xla_number(self) -> u8 {
        self.2
    }
}

impl Type {
    /// The type with this element type and these dims, of which there must be a size.
    pub(crate) fn new(element: sys::PJRT_Buffer_Type, dims: &[i64]) -> Result<Type, Failure> {
        match DTYPES.iter().any(|dtype| dtype.1 == element) {
            true => Ok(Type { element, dims: dims.to_vec() }),
            false => Err(Failure::unimplemented(format!("element type {element}"))),
        }
    }

    /// As in `f32[2,3]`.
    fn parse(text: &str) -> Result<Type, Failure> {
        let parsed = || {
            let (dtype, dims) = text.strip_suffix(']')?.split_once('[')?;
            let dtype = DTYPES.iter().find(|known| known.0 == dtype)?;
            let dims = dims.split(',').filter(|dim| !dim.is_empty());
            Some(Type { element: dtype.1, dims: dims.map(str::parse).collect::<Result<_, _>>().ok()? })
        };
        parsed().ok_or_else(|| Failure::invalid(format!("{text:?} is no type such as f32[2,3]")))
    }

    pub(crate) fn dtype(&self) -> DType {
        *DTYPES.iter().find(|dtype| dtype.1 == self.element).expect("types are made of known ones")
    }

    /// Size in bytes, up to what anybody needs for a test.
    pub(crate) fn size(&self) -> Result<usize, Failure> {
        const MOST: usize = 1 << 30;
        let add = |size: usize, &dim: &i64| size.checked_mul(usize::try_from(dim).ok()?);
        let size = self.dims.iter().try_fold(self.dtype().3, add).filter(|size| *size <= MOST);
        let too_large =
            || Failure::new(sys::PJRT_Error_Code_RESOURCE_EXHAUSTED, format!("{self:?} is too large"));
        size.ok_or_else(too_large)
    }
}

/// What a program does when it runs.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    AddF32,
    AddS32,
    SumF32,
    SumS32,
    Identity,
    Nothing,
    Fail(Failure),
    NullOutput,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) text: String,
    pub(crate) op: Op,
    /// Whether the first parameter may be given up.
    pub(crate) donates: bool,
    pub(crate) parameters: Vec<Type>,
    pub(crate) outputs: Vec<Type>,
}

/// Reads a program; `None` where the compiler is to give null. Some programs never let this come back.
pub(crate) fn parse(code: &str) -> Result<Option<Program>, Failure> {
    let in_comment = code.lines().find_map(|line| line.trim().strip_prefix("// fake: "));
    let text = in_comment.unwrap_or(code).trim();
    let (donates, statement) = match text.strip_prefix("donate ") {
        Some(statement) => (true, statement),
        None => (false, text),
    };
    let (word, rest) = statement.split_once(' ').unwrap_or((statement, ""));
    let scalar = || vec![Type { element: sys::PJRT_Buffer_Type_F32, dims: Vec::new() }];
    let (op, parameters, outputs) = match word {
        "add" => {
            let (ty, op) = arithmetic(rest, Op::AddF32, Op::AddS32)?;
            (op, vec![ty.clone(), ty.clone()], vec![ty])
        }
        "identity" => {
            let types: Vec<Type> = rest.split_whitespace().map(Type::parse).collect::<Result<_, _>>()?;
            (Op::Identity, types.clone(), types)
        }
        "sum" => {
            let (ty, op) = arithmetic(rest, Op::SumF32, Op::SumS32)?;
            let sum = Type { element: ty.element, dims: Vec::new() };
            (op, vec![ty], vec![sum])
        }
        "nothing" => (Op::Nothing, Vec::new(), Vec::new()),
        "run-fail" => (Op::Fail(failure(rest)?), Vec::new(), scalar()),
        "null-output" => (Op::NullOutput, Vec::new(), scalar()),
        "fail" => return Err(failure(rest)?),
        "null" => return Ok(None),
        "abort" => panic!("{rest}"),
        "exit" => std::process::exit(number(rest)?),
        "segfault" => segfault(),
        "hang" => loop {
            std::thread::park();
        },
        "allocate" => {
            // Written to, so that the system really gives it.
            drop(std::hint::black_box(vec![1u8; number(rest)?]));
            (Op::Nothing, Vec::new(), Vec::new())
        }
        _ => return Err(Failure::invalid(format!("{text:?} is no program"))),
    };
    Ok(Some(Program { text: text.to_owned(), op, donates, parameters, outputs }))
}

/// A type that there is arithmetic for, and the op for it.
fn arithmetic(text: &str, f32: Op, s32: Op) -> Result<(Type, Op), Failure> {
    let ty = Type::parse(text)?;
    match ty.element {
        sys::PJRT_Buffer_Type_F32 => Ok((ty, f32)),
        sys::PJRT_Buffer_Type_S32 => Ok((ty, s32)),
        _ => Err(Failure::unimplemented(format!("arithmetic in {text}"))),
    }
}

fn failure(text: &str) -> Result<Failure, Failure> {
    let (code, message) = text.split_once(' ').unwrap_or((text, ""));
    Ok(Failure::new(number(code)?, message))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, Failure> {
    text.parse().map_err(|_| Failure::invalid(format!("{text:?} is no number that is possible here")))
}

fn segfault() -> ! {
    // SAFETY: there is none. The first page of memory is never mapped, so the process ends here, as was asked for.
    unsafe { ptr::without_provenance_mut::<u64>(8).write_volatile(0) };
    unreachable!("the first page is mapped")
}
