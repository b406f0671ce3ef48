"""Exports the programs of this folder from JAX: python export.py, with jax and safetensors installed.

For each program its StableHLO text, NAME.mlir, and NAME.safetensors with what it was given (input.000, input.001, …)
and gave (output.000, …) on a CPU."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from safetensors.numpy import save_file


def normal(key, *shape):
    return np.asarray(jax.random.normal(jax.random.key(key), shape), np.float32) * 0.1


def sgd(loss):
    def step(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def mlp():
    """A train step with Adam; its text has locations, and its arguments names."""
    params = {"w1": normal(1, 8, 32), "b1": np.zeros(32, np.float32), "w2": normal(2, 32, 4)}
    zeros = jax.tree.map(np.zeros_like, params)

    def loss(p, x, y):
        logits = jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 4), -1))

    def step(state, x, y):
        p, m, v, t = state
        value, g = jax.value_and_grad(loss)(p, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        update = lambda p, m, v: p - 1e-2 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return (jax.tree.map(update, p, m, v), m, v, t), value

    return step, ((params, zeros, zeros, np.float32(0)), normal(3, 16, 8), np.arange(16, dtype=np.int32) % 4), (0,)


def conv():
    """A train step of a convolutional net: windows reduced, selected and scattered."""
    params = {"c1": normal(10, 3, 3, 3, 8), "c2": normal(11, 3, 3, 8, 8), "w": normal(12, 8 * 4, 4)}
    dims = ("NHWC", "HWIO", "NHWC")

    def loss(p, x, y):
        h = jax.nn.gelu(lax.conv_general_dilated(x, p["c1"], (1, 1), "SAME", dimension_numbers=dims))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = jax.nn.relu(lax.conv_general_dilated(h, p["c2"], (2, 2), "SAME", dimension_numbers=dims))
        logits = h.reshape(h.shape[0], -1) @ p["w"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], -1))

    return sgd(loss), (params, normal(13, 8, 8, 8, 3), np.arange(8, dtype=np.int32) % 4), (0,)


def decode():
    """Attention over a cache, one token at a time: dynamic slices, top-k, a sort."""
    width, length, batch = 16, 8, 4
    params = {name: normal(20 + i, width, width) for i, name in enumerate(["wq", "wk", "wv", "wo"])}

    def step(p, cache, x, pos):
        q, k, v = x @ p["wq"], x @ p["wk"], x @ p["wv"]
        cache = lax.dynamic_update_slice(cache, jnp.stack([k, v])[:, :, None], (0, 0, pos, 0))
        keys, values = cache[0], cache[1]
        a = jnp.where(jnp.arange(length) <= pos, jnp.einsum("bd,bsd->bs", q, keys) / 4.0, -1e9)
        o = jnp.einsum("bs,bsd->bd", jax.nn.softmax(a), values)
        window = lax.dynamic_slice(values, (0, jnp.maximum(pos - 2, 0), 0), (batch, 2, width))
        top, index = lax.top_k((o + window.mean(1)) @ p["wo"], 4)
        return cache, top, index, jnp.sort(top, axis=-1)

    return step, (params, normal(24, 2, batch, length, width), normal(25, batch, width), np.int32(5)), (1,)


def control():
    """A train step with a gradient of its own, a loop, a branch and random bits."""

    @jax.custom_vjp
    def clipped(x):
        return jnp.tanh(x)

    clipped.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (jnp.clip(g, -0.01, 0.01),))
    params = {"w": normal(30, 32, 32), "v": normal(31, 32, 8)}

    def loss(p, x, key):
        h = clipped(x @ p["w"])

        def body(c):
            i, h = c
            branch = lax.cond(i > 3, lambda h: h - 1, lambda h: h * 2, h)
            return i + 1, jnp.where(i % 2 == 0, h * 0.5 + 1, branch)

        _, s = lax.while_loop(lambda c: (c[0] < 6) & (jnp.sum(c[1]) < 1e6), body, (0, lax.stop_gradient(h)))
        noise = jax.random.normal(jax.random.wrap_key_data(key), h.shape) * 0.01
        return jnp.mean(((h + s + noise) @ p["v"]) ** 2)

    return sgd(loss), (params, normal(32, 16, 32), np.array([0, 42], np.uint32)), (0,)


def layers():
    """A train step that scans over as many layers as they are wide, and computes each again in backward."""
    params = {"w": normal(50, 16, 16, 16), "scale": 1 + normal(51, 16, 16), "head": normal(52, 16, 8)}

    @jax.checkpoint
    def layer(h, p):
        return h + jnp.tanh((h * p["scale"]) @ p["w"]), None

    def loss(p, x):
        h, _ = lax.scan(layer, x, {"w": p["w"], "scale": p["scale"]})
        return jnp.mean((h @ p["head"]) ** 2)

    return sgd(loss), (params, normal(53, 8, 16)), (0,)


def sharded(shardy):
    """A product whose shardings are stated, in Shardy's form or in HLO's."""
    jax.config.update("jax_use_shardy_partitioner", shardy)
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "fsdp"))
    on = lambda *spec: NamedSharding(mesh, P(*spec))

    def f(p, x):
        y = lax.with_sharding_constraint(x @ p["w"], on(("data", "fsdp"), None))
        y = lax.with_sharding_constraint(jnp.sin(y), on(P.UNCONSTRAINED, None))
        return p["w"] + 1, jnp.sum(y, axis=0)

    jitted = jax.jit(f, in_shardings=({"w": on("fsdp")}, on("data")), out_shardings=(on("fsdp"), None), donate_argnums=0)
    return jitted, ({"w": normal(40, 8, 8)}, normal(41, 8, 8)), None


PROGRAMS = {
    "mlp": mlp,
    "conv": conv,
    "decode": decode,
    "control": control,
    "layers": layers,
    "shardy": lambda: sharded(True),
    "gspmd": lambda: sharded(False),
}

for name, make in PROGRAMS.items():
    f, args, donated = make()
    jitted = f if donated is None else jax.jit(f, donate_argnums=donated)
    with_locations = name in ["mlp", "shardy"]
    with open(f"{name}.mlir", "w") as file:
        file.write(jitted.lower(*args).as_text(debug_info=with_locations).replace(os.getcwd() + "/", ""))
    arrays = {f"input.{i:03}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(args))}
    outputs = jax.tree.leaves(jitted(*jax.tree.map(jnp.asarray, args)))
    arrays |= {f"output.{i:03}": np.ascontiguousarray(np.asarray(a)) for i, a in enumerate(outputs)}
    save_file(arrays, f"{name}.safetensors")
