"""What transformers computes for tiny models of each family: makes cases.json and expected.safetensors beside this file.

    pip install torch transformers safetensors numpy
    python make.py

Made with the versions that cases.json names, in f32 on CPU, with eager attention.

Weights are not stored: `weights` below gives those of a parameter from its name, and tests/models.rs does the same.
"""

import json
import pathlib

import numpy as np
import safetensors.numpy
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
BATCH, POSITIONS, VOCABULARY = 8, 12, 16
# Logits are kept of so many examples; the loss and its gradients are of all.
ROWS = 3

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

# What each model says beside its sizes; rotary settings in the older spelling and in the newer one.
CASES = {
    "llama": {},
    "llama_tied": {"tie_word_embeddings": True, "pad_token_id": 3},
    "llama_biases": {"attention_bias": True, "mlp_bias": True},
    "llama_head_dim": {"head_dim": 6, "num_key_value_heads": None},
    "llama_gelu": {"hidden_act": "gelu"},
    "llama_gelu_tanh": {"hidden_act": "gelu_pytorch_tanh"},
    "llama_gelu_new": {"hidden_act": "gelu_new"},
    "llama_gelu_fast": {"hidden_act": "gelu_fast"},
    "llama_relu": {"hidden_act": "relu"},
    "rope_theta": {"rope_theta": 500.0, "rms_norm_eps": 0.05},
    "rope_linear": {"rope_scaling": {"type": "linear", "factor": 2.5}},
    "rope_dynamic": {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "rope_dynamic_beyond": {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 8},
    "rope_llama3": {"rope_theta": 500.0, "rope_scaling": LLAMA3},
    "rope_yarn": {"rope_scaling": YARN},
    "rope_yarn_bare": {"rope_scaling": {"type": "yarn", "factor": 2.0}},
    "rope_yarn_factors": {
        "rope_theta": 100.0,
        "rope_scaling": {**YARN, "attention_factor": 0.75, "beta_fast": 2.0, "beta_slow": 0.3, "truncate": False},
    },
    "rope_yarn_mscale": {"rope_parameters": {**YARN, "rope_theta": 50.0, "mscale": 1.5, "mscale_all_dim": 0.5}},
    "mistral": {"model_type": "mistral", "sliding_window": 5, "head_dim": 8},
    "mistral_full": {"model_type": "mistral", "sliding_window": None, "num_attention_heads": 3, "num_key_value_heads": 1,
                     "head_dim": 6},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True, "sliding_window": 4},
    "qwen2_sliding": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "qwen3": {"model_type": "qwen3", "head_dim": 8},
    "qwen3_biases": {
        "model_type": "qwen3",
        "head_dim": 8,
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "gemma": {"model_type": "gemma", "head_dim": 8, "hidden_act": "gelu"},
    "gemma_untied": {"model_type": "gemma", "head_dim": 8, "tie_word_embeddings": False, "attention_bias": True,
                     "pad_token_id": None},
    "gemma2": {"model_type": "gemma2", "hidden_size": 24, "head_dim": 8, "query_pre_attn_scalar": 24, "sliding_window": 5,
               "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    "gemma2_uncapped": {"model_type": "gemma2", "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5,
                        "attn_logit_softcapping": None, "final_logit_softcapping": None,
                        "layer_types": ["full_attention", "sliding_attention"], "hidden_activation": "relu"},
    "gemma3": {"model_type": "gemma3_text", "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5,
               "sliding_window_pattern": 2, "final_logit_softcapping": 4.0, "rope_theta": 300.0,
               "rope_local_base_freq": 20.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
}

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"]

# Gradients are kept of parameters whose names end so.
GRADIENTS = (
    "embed_tokens.weight", "layers.0.self_attn.q_proj.weight", "layers.1.mlp.gate_proj.weight", "norm.weight", ".bias",
)


def mixed(x):
    """Bits of 32-bit numbers, stirred."""
    x = x.astype(np.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def hash_of(name):
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return value


def weights(name, shape, is_offset):
    """Evenly distributed in -1/2..1/2, for biases and norms in -1/4..1/4; around 1 for norms that do not add it."""
    index = np.arange(np.prod(shape), dtype=np.uint64) + hash_of(name)
    unit = (mixed(index % 2**32) >> np.uint32(12)).astype(np.float64) / 2**20 - 0.5
    if "norm" in name:
        unit = unit / 2 + (0.0 if is_offset else 1.0)
    elif name.endswith(".bias"):
        unit = unit / 2
    return torch.tensor(unit.astype(np.float32)).reshape(shape)


def init_of(parameter):
    """What a fresh parameter holds."""
    p = parameter.detach()
    if bool((p == 0).all()):
        return "zeros"
    if bool((p == 1).all()):
        return "ones"
    rows = [row for row in range(p.shape[0]) if p.dim() == 2 and bool((p[row] == 0).all())]
    return f"normal, row {rows[0]} zero" if rows else "normal"


def make(name, changes, tokens, arrays):
    written = {"model_type": "llama", **SIZES, **changes}
    config = AutoConfig.for_model(**json.loads(json.dumps(written)))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    model.eval()
    parameters = [[n, list(p.shape), init_of(p)] for n, p in model.named_parameters()]
    is_offset = "gemma" in written["model_type"]
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.copy_(weights(parameter_name, tuple(parameter.shape), is_offset))

    logits = model(input_ids=tokens, use_cache=False).logits
    targets = tokens[:, 1:].reshape(-1)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), targets)
    loss.backward()
    arrays[f"{name}/logits"] = logits[:ROWS].detach().numpy()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith(GRADIENTS):
            arrays[f"{name}/{parameter_name}"] = parameter.grad.numpy()

    rotary = model.model.rotary_emb
    buffers = {n: b.tolist() for n, b in rotary.named_buffers() if n.endswith("inv_freq") and "original" not in n}
    saved = {k: v for k, v in config.to_dict().items() if k != "transformers_version"}
    layers = {type(model.model.layers[0]).__name__, type(model.model.layers[0].self_attn).__name__,
              type(model.model.layers[0].mlp).__name__, type(model.model.norm).__name__}
    classes = sorted(layers | {type(model).__name__, type(model.model).__name__,
                               type(model.model.embed_tokens).__name__})
    return {"written": written, "saved": saved, "parameters": parameters, "classes": classes,
            "inverse_frequencies": buffers, "loss": float(loss.detach())}


def main():
    torch.manual_seed(0)
    np.seterr(over="ignore")
    drawn = mixed(np.arange(BATCH * POSITIONS, dtype=np.uint64) + 12345) % VOCABULARY
    tokens = torch.tensor(drawn.astype(np.int64)).reshape(BATCH, POSITIONS)
    arrays = {"tokens": tokens.numpy().astype(np.int32)}
    cases = {name: make(name, changes, tokens, arrays) for name, changes in CASES.items()}
    defaults = {family: AutoConfig.for_model(family).to_dict() for family in FAMILIES}
    for saved in defaults.values():
        saved.pop("transformers_version", None)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    text = json.dumps({"versions": versions, "cases": cases, "defaults": defaults}, separators=(",", ":"))
    (HERE / "cases.json").write_text(text + "\n")
    safetensors.numpy.save_file(arrays, HERE / "expected.safetensors")


main()
