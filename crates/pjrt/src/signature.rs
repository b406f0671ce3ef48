//! Parameters, read from the compiled program.
//!
//! PJRT tells the types of a program's results but not those of its parameters, while the CPU plugin takes
//! integers for floats without a word. The optimized program knows: what it declares is what each device gets.

use prost::Message;
use shardwright_tensor::{DType, TensorType};

use crate::OptimizedProgram;
use crate::error::{Error, ErrorKind};
use crate::types;

/// What a program takes on each device.
pub(crate) struct Parameter {
    pub(crate) ty: TensorType,
    /// Whether it is to lie in the device's default memory; other memories have numbers of XLA's, and no names.
    pub(crate) in_default_memory: bool,
}

/// The parameters of a program.
pub(crate) fn parameters(program: &OptimizedProgram) -> Result<Vec<Parameter>, Error> {
    let error = |message: String| Error::new(ErrorKind::Unsupported, "optimized program", message);
    let module = match program.format.as_str() {
        "hlo_with_config" => {
            proto::ModuleWithConfig::decode(program.code.as_slice()).map(|program| program.hlo_module)
        }
        "hlo" => proto::Module::decode(program.code.as_slice()).map(Some),
        format => {
            return Err(error(format!("it is in the format {format}, so its parameters are not known")));
        }
    };
    let module = module.map_err(|e| error(e.to_string()))?;
    let signature = module.and_then(|module| module.host_program_shape);
    let signature = signature.ok_or_else(|| error("it states no parameters".to_owned()))?;
    let parameters = signature.parameters.iter().enumerate().map(|(index, shape)| {
        let what = format!("parameter {index}");
        let dtype = dtype(shape.element_type).ok_or_else(|| {
            let message = format!("its element type, number {} of XLA, has no dtype", shape.element_type);
            Error::new(ErrorKind::Unsupported, what.as_str(), message)
        })?;
        let in_default_memory = shape.layout.as_ref().is_none_or(|layout| layout.memory_space == 0);
        Ok(Parameter { ty: types::tensor_type(&what, dtype, &shape.dimensions)?, in_default_memory })
    });
    parameters.collect()
}

/// The dtype with this number in XLA's `PrimitiveType`.
fn dtype(number: i32) -> Option<DType> {
    Some(match number {
        1 => DType::Pred,
        2 => DType::S8,
        3 => DType::S16,
        4 => DType::S32,
        5 => DType::S64,
        6 => DType::U8,
        7 => DType::U16,
        8 => DType::U32,
        9 => DType::U64,
        10 => DType::F16,
        11 => DType::F32,
        12 => DType::F64,
        16 => DType::Bf16,
        _ => return None,
    })
}

/// The few fields that are needed of XLA's `hlo.proto` and `xla_data.proto`; decoding skips the others.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ModuleWithConfig {
        #[prost(message, optional, tag = "1")]
        pub(super) hlo_module: Option<Module>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Module {
        #[prost(message, optional, tag = "4")]
        pub(super) host_program_shape: Option<ProgramShape>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ProgramShape {
        #[prost(message, repeated, tag = "1")]
        pub(super) parameters: Vec<Shape>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Shape {
        #[prost(int32, tag = "2")]
        pub(super) element_type: i32,
        #[prost(int64, repeated, tag = "3")]
        pub(super) dimensions: Vec<i64>,
        #[prost(message, optional, tag = "5")]
        pub(super) layout: Option<Layout>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Layout {
        #[prost(int64, tag = "8")]
        pub(super) memory_space: i64,
    }
}
