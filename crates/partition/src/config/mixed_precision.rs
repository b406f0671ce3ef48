//! The key `mixed_precision_policy`.

use serde_json::{Map, Value, json};
use shardwright_tensor::DType;

/// The dtypes that a file asks for; `None` is that of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixedPrecision {
    /// What layers compute in, and gathered weights are.
    pub param: Option<DType>,
    /// What gradients are summed over devices in.
    pub reduce: Option<DType>,
    /// What a model's outputs and buffers would be in; they are f32 whatever is asked for.
    pub(super) output: Option<DType>,
}

const DTYPES: [(&str, DType); 4] =
    [("bfloat16", DType::Bf16), ("bf16", DType::Bf16), ("float32", DType::F32), ("fp32", DType::F32)];

impl MixedPrecision {
    /// Reads one dtype for everything, a list of those of parameters, reductions and buffers, or an object of them.
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) if text.trim().eq_ignore_ascii_case("no") => Some(Self::default()),
            Value::String(_) => {
                let all = Some(dtype(value)?);
                Some(Self { param: all, reduce: all, output: None })
            }
            Value::Array(items) if items.len() <= 3 => {
                let mut dtypes = [None; 3];
                for (place, item) in dtypes.iter_mut().zip(items) {
                    *place = optional(item)?;
                }
                let [param, reduce, output] = dtypes;
                Some(Self { param, reduce, output })
            }
            Value::Object(map) => Self::of_object(map),
            _ => None,
        }
    }

    /// What is read, in words.
    pub(super) fn wanted() -> &'static str {
        "bf16, fp32 or no, or an object of param_dtype, reduce_dtype and buffer_dtype or output_dtype, each bfloat16 or float32"
    }

    fn of_object(map: &Map<String, Value>) -> Option<Self> {
        let mut policy = Self::default();
        for (key, value) in map {
            match key.as_str() {
                "param_dtype" => policy.param = optional(value)?,
                "reduce_dtype" => policy.reduce = optional(value)?,
                "buffer_dtype" | "output_dtype" => policy.output = optional(value)?,
                // Layers compute in the dtype of parameters, so their inputs are of it.
                "cast_forward_inputs" | "cast_root_forward_inputs" => drop(value.as_bool()?),
                _ => return None,
            }
        }
        Some(policy)
    }

    /// The object that is read as this.
    pub(super) fn to_json(self) -> Value {
        let name = |dtype: Option<DType>| {
            dtype.map(|dtype| if dtype == DType::Bf16 { "bfloat16" } else { "float32" })
        };
        let entries = [("param_dtype", self.param), ("reduce_dtype", self.reduce)];
        let given =
            entries.into_iter().filter_map(|(key, dtype)| Some((key.to_owned(), json!(name(dtype)?))));
        Value::Object(given.collect())
    }
}

fn optional(value: &Value) -> Option<Option<DType>> {
    match value {
        Value::Null => Some(None),
        _ => dtype(value).map(Some),
    }
}

fn dtype(value: &Value) -> Option<DType> {
    let text = value.as_str()?.trim().to_ascii_lowercase();
    let name = text.strip_prefix("torch.").unwrap_or(&text);
    DTYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}
