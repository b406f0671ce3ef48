//! To and from the `xla` crate: a computation as a program to shard, its literals as host arrays. With the feature `xla`.
//!
//! That crate links the C++ library of XLA, which no registry has: its build script looks for it in the folder that
//! `XLA_EXTENSION_DIR` names, and wants libclang besides. Everything else here is built without either, so the feature
//! is off unless asked for.
//!
//! ```no_run
//! use shardwright::mesh::NamedSharding;
//! use shardwright::partition::ShardedHlo;
//! use shardwright::runtime::{Runtime, RuntimeOptions};
//!
//! let builder = xla::XlaBuilder::new("double");
//! let x = builder.parameter(0, xla::ElementType::F32, &[8], "x")?;
//! let computation = (x.clone() + x)?.build()?;
//!
//! let program = shardwright::xla::program(&computation)?;
//! let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8))?;
//! let mesh = runtime.mesh("fsdp=8")?;
//! let split = NamedSharding::new(mesh.shape(), "(fsdp)".parse()?)?;
//! let sharded = ShardedHlo::new(&program, mesh.shape(), vec![split.clone()], vec![split], &[])?;
//! let executable = runtime.compile_hlo(&sharded, &mesh)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use shardwright_hlo::HloProgram;
use shardwright_hlo::proto::HloError;
use shardwright_tensor::{DType, HostArray, ShapeError, TensorError, TensorType};
use thiserror::Error;
use xla::{ElementType, HloModuleProto, Literal, XlaComputation};

/// What the `xla` crate has and cannot be taken over, or the other way.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XlaError {
    /// That crate refuses.
    #[error(transparent)]
    Xla(#[from] xla::Error),
    /// Its computation is none that can be sharded.
    #[error(transparent)]
    Program(#[from] HloError),
    /// Its literal has elements of which there are no host arrays.
    #[error(
        "a literal of {found:?} has no host array; expected pred, s8 to s64, u8 to u64, f16, bf16, f32 or f64"
    )]
    Element {
        /// Its elements.
        found: ElementType,
    },
    /// Its literal has dims that cannot be.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Its literal has other data than its shape says.
    #[error(transparent)]
    Data(#[from] TensorError),
}

/// A computation as a program that can be sharded.
///
/// # Errors
/// When it takes tuples, or takes or gives what is no array of fixed size of a known type.
pub fn program(computation: &XlaComputation) -> Result<HloProgram, XlaError> {
    Ok(HloProgram::read(&computation.proto().to_bytes()?)?)
}

/// A program as a computation.
///
/// # Errors
/// When the `xla` crate cannot read it.
pub fn computation(program: &HloProgram) -> Result<XlaComputation, XlaError> {
    let proto = HloModuleProto::parse_proto(program.module(), true)?;
    Ok(XlaComputation::from_proto(&proto))
}

/// A copy of a literal, whose elements have to be in row-major order, as those are that the `xla` crate makes.
///
/// # Errors
/// When it is a tuple, or its elements are of another type than host arrays have.
pub fn host_array(literal: &Literal) -> Result<HostArray, XlaError> {
    let shape = literal.array_shape()?;
    let found = shape.element_type();
    let (_, dtype) =
        ELEMENTS.into_iter().find(|(element, _)| *element == found).ok_or(XlaError::Element { found })?;
    // Literals have no negative dims.
    let dims: Vec<usize> = shape.dims().iter().filter_map(|&dim| dim.try_into().ok()).collect();
    let mut array = HostArray::zeros(TensorType::new(dtype, dims)?);
    literal.copy_untyped_to(array.bytes_mut())?;
    Ok(array)
}

/// A copy of a host array.
///
/// # Errors
/// When the `xla` crate refuses.
pub fn literal(array: &HostArray) -> Result<Literal, XlaError> {
    let element = ELEMENTS.into_iter().find(|(_, dtype)| *dtype == array.dtype());
    let (element, _) = element.expect("the table has all dtypes");
    Ok(Literal::create_from_shape_and_untyped_data(element, array.dims(), array.bytes())?)
}

const ELEMENTS: [(ElementType, DType); DType::ALL.len()] = [
    (ElementType::Pred, DType::Pred),
    (ElementType::S8, DType::S8),
    (ElementType::S16, DType::S16),
    (ElementType::S32, DType::S32),
    (ElementType::S64, DType::S64),
    (ElementType::U8, DType::U8),
    (ElementType::U16, DType::U16),
    (ElementType::U32, DType::U32),
    (ElementType::U64, DType::U64),
    (ElementType::F16, DType::F16),
    (ElementType::Bf16, DType::Bf16),
    (ElementType::F32, DType::F32),
    (ElementType::F64, DType::F64),
];
