"""What it costs JAX to start the program of the benchmark `dispatch`, and ours beside it.

python benchmarks/dispatch.py DEVICES         times JAX and prints one line of JSON
python benchmarks/dispatch.py DEVICES ROUNDS  lets JAX and ours take turns, each in a new process, and prints medians
"""

import json
import os
import statistics
import subprocess
import sys
import time

ARRAYS, DIMS = 50, (64, 8)
WARM_UP, CALLS, BURST = 50, 1200, 100
OURS = ["cargo", "bench", "--quiet", "-p", "shardwright-pjrt", "--bench", "dispatch", "--"]
KINDS = ["returned", "done", "back_to_back"]


def summary(seconds):
    return {"median_us": round(statistics.median(seconds) * 1e6, 1), "min_us": round(min(seconds) * 1e6, 1)}


def measure(call, wait):
    """Microseconds per call: until it returns, until it is done, and when many are under way."""
    for _ in range(WARM_UP):
        call()
    wait()
    times = {kind: [] for kind in KINDS}
    for index in range(CALLS):
        start = time.perf_counter()
        call()
        times["returned"].append(time.perf_counter() - start)
        wait()
        times["done"].append(time.perf_counter() - start)
        if index % BURST == 0:
            start = time.perf_counter()
            for _ in range(BURST):
                call()
            wait()
            times["back_to_back"].append((time.perf_counter() - start) / BURST)
    return {kind: summary(seconds) for kind, seconds in times.items()}


def time_jax(devices):
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import jax
    import jax.numpy as jnp

    mesh = jax.make_mesh((devices,), ("fsdp",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("fsdp"))
    state = [jax.device_put(jnp.zeros(DIMS), sharding) for _ in range(ARRAYS)]
    step = jax.jit(
        lambda state: [p * 0.999 + 0.001 for p in state], donate_argnums=0, out_shardings=[sharding] * ARRAYS
    )

    def call():
        nonlocal state
        state = step(state)

    return {"devices": devices, "jax": measure(call, lambda: jax.block_until_ready(state))}


def take_turns(devices, rounds):
    runs = []
    for _ in range(rounds):
        for command in (OURS + [str(devices)], [sys.executable, __file__, str(devices)]):
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            runs.append(json.loads(output.splitlines()[-1]))
    names = [name for run in runs[:2] for name in run if name != "devices"]
    for name in names:
        of_one = [run[name] for run in runs if name in run]
        medians = {kind: round(statistics.median(run[kind]["median_us"] for run in of_one), 1) for kind in KINDS}
        least = {kind: min(run[kind]["min_us"] for run in of_one) for kind in KINDS}
        print(json.dumps({"devices": devices, "name": name, "median_us": medians, "min_us": least}))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        take_turns(int(sys.argv[1]), int(sys.argv[2]))
    else:
        print(json.dumps(time_jax(int(sys.argv[1]))))
