"""Makes the adapters and curves of this folder with torch and peft: `python make.py` beside tests/data/oracle.

Each case is a folder with an adapter as PEFT saves it before training, made for oracle/models/base, and an entry of
curves.json: losses and gradient norms of a few steps of AdamW on oracle/tokens.npy, in f32.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
BASE = HERE.parent / "oracle" / "models" / "base"
STEPS, LEARNING_RATE, MAX_NORM = 8, 5e-3, 1.0

CASES = {
    "projections": dict(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"]),
    "patterns": dict(
        r=4,
        lora_alpha=6,
        target_modules=r".*\.(o_proj|up_proj|down_proj)",
        exclude_modules=["layers.0.self_attn.o_proj"],
        use_rslora=True,
        rank_pattern={"down_proj": 2, "up_proj": 3},
        alpha_pattern={r"layers\.1\.mlp\.up_proj": 3},
        modules_to_save=["lm_head", "input_layernorm"],
        init_lora_weights=False,
    ),
    "all": dict(r=2, lora_alpha=2, target_modules="all-linear", init_lora_weights="gaussian"),
}


def batches():
    return torch.from_numpy(np.load(HERE.parent / "oracle" / "tokens.npy")).long()[:STEPS]


def curve(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, weight_decay=0.0)
    losses, norms = [], []
    for batch in batches():
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, MAX_NORM).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return dict(loss=losses, grad_norm=norms)


def make(name, settings):
    torch.manual_seed(7)
    base = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings))
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = folder / "adapter_config.json"
    members = json.loads(config.read_text())
    # Which sets have no order, and a folder that is another one elsewhere.
    for field in ("target_modules", "exclude_modules"):
        if isinstance(members[field], list):
            members[field].sort()
    members["base_model_name_or_path"] = "base"
    config.write_text(json.dumps(members, indent=2, sort_keys=True) + "\n")
    trained, total = model.get_nb_trainable_parameters()
    return dict(trained=trained, total=total, **curve(model))


if __name__ == "__main__":
    torch.set_num_threads(1)
    curves = {name: make(name, settings) for name, settings in CASES.items()}
    text = json.dumps(dict(learning_rate=LEARNING_RATE, max_norm=MAX_NORM, cases=curves), indent=1)
    (HERE / "curves.json").write_text(text + "\n")
