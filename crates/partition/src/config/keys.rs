//! The table of known keys. Reading, the nearest name of an unknown key and the help text share it.

use super::strategy::Strategy;
use super::value::{Kind, Setting};

/// One known key.
pub(super) struct KeySpec {
    /// The name without the prefix `fsdp_`.
    pub(super) name: &'static str,
    /// Other names for the same key.
    pub(super) aliases: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) role: Role,
    /// What the key does, for the help text.
    about: &'static str,
}

/// What follows from a key being given.
pub(super) enum Role {
    /// It is part of the meaning, which `meaning` works out.
    Means,
    /// Only this value can be met; another one is an error that says what works.
    Only { value: bool, works: &'static str },
    /// This is what happens always; another value is noted.
    Always { value: Setting, why: &'static str },
    /// It is accepted and noted.
    Hint(&'static str),
}

pub(super) const ACTIVATION_CHECKPOINTING: &str = "activation_checkpointing";
pub(super) const AUTO_WRAP_POLICY: &str = "auto_wrap_policy";
pub(super) const CLASSES: &str = "transformer_layer_cls_to_wrap";
pub(super) const IGNORED_MODULES: &str = "ignored_modules";
pub(super) const KEEP_GATHERED_MODULES: &str = "keep_gathered_modules";
pub(super) const MIN_NUM_PARAMS: &str = "min_num_params";
pub(super) const MIXED_PRECISION_POLICY: &str = "mixed_precision_policy";
pub(super) const RESHARD_AFTER_FORWARD: &str = "reshard_after_forward";
pub(super) const SHARDING_STRATEGY: &str = "sharding_strategy";
pub(super) const STATE_DICT_TYPE: &str = "state_dict_type";
pub(super) const TENSOR_PLAN: &str = "tensor_plan";
pub(super) const XLA: &str = "xla";
pub(super) const XLA_FSDP_GRAD_CKPT: &str = "xla_fsdp_grad_ckpt";
pub(super) const XLA_FSDP_V2: &str = "xla_fsdp_v2";

pub(super) const TRANSFORMER_WRAP: &str = "TRANSFORMER_BASED_WRAP";
pub(super) const SIZE_WRAP: &str = "SIZE_BASED_WRAP";
pub(super) const NO_WRAP: &str = "NO_WRAP";

/// How the variables that stand for keys begin.
const VARIABLE_PREFIX: &str = "FSDP_";

const SCHEDULING: &str =
    "the compiler decides when weights are gathered, and the numbers do not depend on it";
pub(super) const SAVING: &str = "the model is saved whole";
const V1_ONLY: &str = "only FSDP v1 reads it";

/// Every key a configuration may have, in the order of the help text.
pub(super) static KEYS: &[KeySpec] = &[
    key(
        XLA,
        &[],
        Kind::Flag,
        Role::Only { value: true, works: "set it to true, or leave it out" },
        "run on XLA; taken as true when missing",
    ),
    key(
        XLA_FSDP_V2,
        &[],
        Kind::Flag,
        Role::Only { value: true, works: "set it to true, or leave it out: FSDP v1 does not exist here" },
        "FSDP as shardings of one program; taken as true when missing",
    ),
    key(
        XLA_FSDP_GRAD_CKPT,
        &[],
        Kind::Flag,
        Role::Means,
        "recompute each wrapped unit in backward; default false",
    ),
    key(
        ACTIVATION_CHECKPOINTING,
        &[],
        Kind::Flag,
        Role::Means,
        "the same as xla_fsdp_grad_ckpt; one of them is enough, and both are the same as one",
    ),
    key(
        CLASSES,
        &["transformer_cls_names_to_wrap", "transformer_cls_to_wrap"],
        Kind::Classes,
        Role::Means,
        "each layer of these classes is a unit; default the model's own classes; an empty list is no units",
    ),
    key(
        MIN_NUM_PARAMS,
        &[],
        Kind::Count,
        Role::Means,
        "a module with so many unwrapped parameters is a unit; default 0, or 100000000 with SIZE_BASED_WRAP",
    ),
    key(
        AUTO_WRAP_POLICY,
        &[],
        Kind::Choice(&[TRANSFORMER_WRAP, SIZE_WRAP, NO_WRAP]),
        Role::Means,
        "which of classes and size counts; when missing, the one that is given",
    ),
    key(
        SHARDING_STRATEGY,
        &[],
        Kind::Numbered(Strategy::WORDS),
        Role::Means,
        "what is sharded; default what --fsdp names, else full_shard",
    ),
    key(
        RESHARD_AFTER_FORWARD,
        &[],
        Kind::FlagOrChoice(Strategy::WORDS),
        Role::Means,
        "true frees gathered weights after forward (full_shard), false keeps them (shard_grad_op)",
    ),
    key(
        STATE_DICT_TYPE,
        &[],
        Kind::Numbered(&["FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"]),
        Role::Means,
        "the form of checkpoints; default FULL_STATE_DICT, and no effect yet: the model is saved whole",
    ),
    key(
        "cpu_offload",
        &["offload_params"],
        Kind::Flag,
        Role::Only {
            value: false,
            works: "set it to false, or leave it out: parameters stay on the devices",
        },
        "keep parameters in host memory",
    ),
    key(
        MIXED_PRECISION_POLICY,
        &[],
        Kind::MixedPrecision,
        Role::Means,
        "dtypes of computation and reduction; default those of the run",
    ),
    key(
        IGNORED_MODULES,
        &[],
        Kind::Patterns,
        Role::Means,
        "modules whose parameters are whole on every device, such as lm_head or layers.*.mlp; they are trained alike",
    ),
    key(
        KEEP_GATHERED_MODULES,
        &[],
        Kind::Patterns,
        Role::Means,
        "units that keep gathered weights until backward where others free them; default the last unit",
    ),
    key(
        TENSOR_PLAN,
        &["tp_plan"],
        Kind::TensorPlan,
        Role::Means,
        "how modules are split over the mesh axis tensor; the first that fits counts; default the model's own plan",
    ),
    key(
        "version",
        &[],
        Kind::Choice(&["1", "2"]),
        Role::Always {
            value: Setting::Choice("2"),
            why: "parameters are sharded one by one, as in version 2, and never made flat",
        },
        "the generation of FSDP",
    ),
    key(
        "use_orig_params",
        &[],
        Kind::Flag,
        Role::Always { value: Setting::Flag(true), why: "parameters always keep their names and shapes" },
        "keep the original parameters",
    ),
    key(
        "sync_module_states",
        &[],
        Kind::Flag,
        Role::Always {
            value: Setting::Flag(true),
            why: "replicas start from the same weights by construction",
        },
        "give all devices the same initial weights",
    ),
    key(
        "cpu_ram_efficient_loading",
        &[],
        Kind::Flag,
        Role::Hint("weights are always read slice by slice"),
        "load weights on one process only",
    ),
    key("forward_prefetch", &[], Kind::Flag, Role::Hint(SCHEDULING), "gather the next unit early in forward"),
    key(
        "backward_prefetch",
        &["backward_prefetch_policy"],
        Kind::Numbered(&["BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"]),
        Role::Hint(SCHEDULING),
        "gather the next unit early in backward",
    ),
    key("limit_all_gathers", &[], Kind::Flag, Role::Hint(SCHEDULING), "bound the gathers in flight"),
    key("state_dict_config", &[], Kind::Any, Role::Hint(SAVING), "how model state is saved"),
    key("optim_state_dict_config", &[], Kind::Any, Role::Hint(SAVING), "how optimizer state is saved"),
    key(
        "xla_fsdp_settings",
        &[],
        Kind::Object(V1_KEYS),
        Role::Means,
        "settings of FSDP v1; they are checked and have no effect",
    ),
];

/// The keys inside `xla_fsdp_settings`.
static V1_KEYS: &[KeySpec] = &[
    v1_dtype("compute_dtype"),
    v1_dtype("buffer_dtype"),
    v1("reshard_after_forward"),
    v1("flatten_parameters"),
    v1("execute_sharding_on_init"),
    v1("optimization_barrier_in_forward"),
    v1("optimization_barrier_in_backward"),
    v1("sync_on_finalization"),
    v1("disable_reshard_on_root"),
    v1("fp32_reduce_scatter"),
    v1("sharding_groups"),
    v1("sharding_rank"),
    v1("sharding_world_size"),
    v1("shard_param_on_dim_0"),
    v1("pin_layout_in_collective_ops"),
    v1("reduce_scatter_bucket_size_mb"),
    v1("coalesce_all_gather_ops"),
    v1("auto_wrap_policy"),
    v1("auto_wrapper_callable"),
    v1("param_init_fn"),
];

/// The row of `table` for a key as written, with or without the prefix.
pub(super) fn find(table: &'static [KeySpec], written: &str) -> Option<&'static KeySpec> {
    let plain = without_prefix(written);
    table.iter().find(|spec| spec.names().any(|name| name == plain))
}

/// The known key that looks most like this one, if any looks like it at all.
pub(super) fn nearest(table: &'static [KeySpec], written: &str) -> Option<&'static str> {
    const MIN_LIKENESS: f64 = 0.8;
    let plain = without_prefix(written).to_ascii_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(name, &plain);
    table
        .iter()
        .flat_map(KeySpec::names)
        .map(|name| (likeness(name), name))
        .filter(|&(likeness, _)| likeness >= MIN_LIKENESS)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// The names of the variables that stand for keys: those of Accelerate's launcher, which knows nothing of XLA.
pub(super) fn variables() -> impl Iterator<Item = String> {
    let names = KEYS.iter().flat_map(KeySpec::names).filter(|name| !name.starts_with(XLA));
    names.map(|name| format!("{VARIABLE_PREFIX}{}", name.to_ascii_uppercase()))
}

/// The row for a variable.
pub(super) fn of_variable(variable: &str) -> Option<&'static KeySpec> {
    find(KEYS, &variable.strip_prefix(VARIABLE_PREFIX)?.to_ascii_lowercase())
}

/// The table as text, one paragraph for each key.
pub(super) fn help() -> String {
    KEYS.iter().map(KeySpec::help).collect()
}

impl KeySpec {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    fn help(&self) -> String {
        let names: Vec<_> = self.names().collect();
        let role = match &self.role {
            Role::Means => String::new(),
            Role::Only { value, .. } => format!("; must be {value}"),
            Role::Always { why, .. } | Role::Hint(why) => format!("; no effect: {why}"),
        };
        format!("{}: {}\n    {}{role}\n", names.join(", "), self.kind.wanted(), self.about)
    }
}

fn without_prefix(key: &str) -> &str {
    key.strip_prefix("fsdp_").unwrap_or(key)
}

const fn key(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    role: Role,
    about: &'static str,
) -> KeySpec {
    KeySpec { name, aliases, kind, role, about }
}

const fn v1(name: &'static str) -> KeySpec {
    key(name, &[], Kind::Any, Role::Hint(V1_ONLY), "")
}

const fn v1_dtype(name: &'static str) -> KeySpec {
    const DTYPES: &[&str] = &["float32", "float16", "bfloat16", "float64"];
    key(name, &[], Kind::Choice(DTYPES), Role::Hint(V1_ONLY), "")
}
