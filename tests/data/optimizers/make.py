"""Makes the files beside this one: updates of optimizers, and learning rates of schedules, as PyTorch and transformers
have them. Run with torch, transformers and safetensors installed:

    python make.py
"""

import json

import torch
from safetensors.torch import save_file
from transformers import get_scheduler
from transformers.optimization import Adafactor

STEPS = 4
# Sizes that do not divide, more devices than rows, and what is factored by its last two dims.
SHAPES = {"matrix": (13, 6), "few": (3, 10), "vector": (5,), "cube": (3, 5, 7), "square": (2, 2), "pair": (2,)}
# Gradients whose updates can be worked out by hand, at the first steps.
KNOWN = {"square": [[[1, 2], [3, 4]], [[4, 3], [2, 1]]], "pair": [[3, 4]]}


class Lion(torch.optim.Optimizer):
    """Lion as its paper has it; PyTorch has none."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(beta1 * m + (1 - beta1) * p.grad), alpha=-group["lr"])
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def adafactor(parameters, **options):
    return Adafactor(parameters, lr=0.1, relative_step=False, **{"scale_parameter": False, **options})


OPTIMIZERS = {
    "adafactor": adafactor,
    "adafactor_all": lambda p: adafactor(p, weight_decay=0.1, beta1=0.9, scale_parameter=True, clip_threshold=0.5),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, momentum=0.9, dampening=0.3),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, momentum=0.9, nesterov=True),
    "lion": lambda p: Lion(p, lr=0.1, betas=(0.9, 0.99), weight_decay=0.1),
}

SCHEDULES = {
    "linear": ("linear", 4, {}),
    "constant": ("constant", 0, {}),
    "constant_with_warmup": ("constant_with_warmup", 4, {}),
    "cosine": ("cosine", 4, {}),
    "cosine_waves": ("cosine", 0, {"num_cycles": 1.5}),
    "cosine_with_restarts": ("cosine_with_restarts", 4, {"num_cycles": 3}),
    "polynomial": ("polynomial", 4, {"power": 2.0, "lr_end": 0.1}),
    "inverse_sqrt": ("inverse_sqrt", 4, {}),
    "inverse_sqrt_timescale": ("inverse_sqrt", 4, {"timescale": 9}),
    "cosine_with_min_lr": ("cosine_with_min_lr", 4, {"min_lr_rate": 0.2}),
    "warmup_stable_decay": ("warmup_stable_decay", 4, {"num_decay_steps": 6}),
    "warmup_stable_decay_all": (
        "warmup_stable_decay",
        4,
        {
            "num_decay_steps": 6,
            "num_stable_steps": 5,
            "warmup_type": "cosine",
            "decay_type": "1-sqrt",
            "min_lr_ratio": 0.1,
        },
    ),
    "warmup_stable_decay_waves": (
        "warmup_stable_decay",
        4,
        {"num_decay_steps": 6, "warmup_type": "1-sqrt", "decay_type": "cosine", "num_cycles": 1.0},
    ),
}


def numbers(array):
    return [float(f"{number:.9g}") for number in array.detach().flatten().tolist()]


def updates(make, weights, gradients):
    parameters = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    optimizer = make(list(parameters.values()))
    steps = []
    for step in range(STEPS):
        for name, parameter in parameters.items():
            parameter.grad = gradients[name][step].clone()
        optimizer.step()
        steps.append({name: numbers(parameter) for name, parameter in parameters.items()})
    return steps


def rates(kind, warmup, options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_scheduler(kind, optimizer, warmup, 20, options)
    found = []
    for _ in range(22):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return found


generator = torch.Generator().manual_seed(0)
weights = {name: torch.randn(shape, generator=generator) * 0.5 for name, shape in SHAPES.items()}
gradients = {}
for name, shape in SHAPES.items():
    drawn = [torch.randn(shape, generator=generator) for _ in range(STEPS)]
    for step, known in enumerate(KNOWN.get(name, [])):
        drawn[step] = torch.tensor(known, dtype=torch.float32)
    gradients[name] = drawn
# A row that has no gradient for a while.
for step in range(2):
    gradients["matrix"][step][4] = 0
save_file(weights, "model.safetensors")
with open("updates.json", "w") as file:
    steps = {name: updates(make, weights, gradients) for name, make in OPTIMIZERS.items()}
    given = {name: [numbers(gradient) for gradient in drawn] for name, drawn in gradients.items()}
    json.dump({"shapes": SHAPES, "gradients": given, "updates": steps}, file)
    file.write("\n")
with open("schedules.json", "w") as file:
    json.dump({name: rates(*schedule) for name, schedule in SCHEDULES.items()}, file, indent=1)
    file.write("\n")
