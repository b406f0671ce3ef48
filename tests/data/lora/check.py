"""Loads the adapter in a folder with peft: `python check.py FOLDER`. Its base is the model that adapter_config.json names.

Fails if PEFT misses a key or does not expect one; prints the loss of some tokens without and with the adapter.
"""

import json
import sys
from pathlib import Path

import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM

folder = Path(sys.argv[1])
config = json.loads((folder / "adapter_config.json").read_text())
base = AutoModelForCausalLM.from_pretrained(config["base_model_name_or_path"], dtype=torch.float32)
tokens = torch.arange(3, 35).unsqueeze(0)
with torch.no_grad():
    before = base(input_ids=tokens, labels=tokens).loss.item()
    model = PeftModel.from_pretrained(base, folder)
    result = model.load_adapter(folder, "again")
    after = model(input_ids=tokens, labels=tokens).loss.item()
missing = [key for key in result.missing_keys if "lora_" in key or "modules_to_save.again" in key]
assert not missing and not result.unexpected_keys, (missing, result.unexpected_keys)
with safe_open(folder / "adapter_model.safetensors", "pt") as weights:
    print(f"{len(list(weights.keys()))} arrays, none missing, none unexpected")
print(f"loss {before:.6f} without, {after:.6f} with the adapter")
