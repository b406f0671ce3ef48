"""Exports programs from JAX: what another framework's users bring to `shardwright shard`, `explain` and `run`.

    python export.py FOLDER [NAME...]

writes for each program NAME

    NAME.mlir          StableHLO text, as `lowered.as_text()` gives it
    NAME.debug.mlir    the same with locations, and so with the arguments' names
    NAME.bc            a portable artifact, where the program can be one
    NAME.hlo.pb        an HloModuleProto
    NAME.inputs.npz    its arguments, called by their positions: 000, 001, ...
    NAME.outputs.npz   what JAX computes from these on one device

Needs `pip install jax numpy`; nothing else here does.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo

# Programs are serialized for a StableHLO that has all their ops and that each pinned plugin knows.
ARTIFACT_VERSION = "1.8.0"


def normal(seed, *shape):
    return np.asarray(jax.random.normal(jax.random.key(seed), shape), np.float32) * 0.1


def sgd(loss):
    """A train step: gradients of `loss`, and one step down them."""

    def step(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def mlp():
    """Two layers, cross-entropy, Adam: parameters and two moments, all donated."""
    params = {
        "w1": normal(1, 32, 128),
        "b1": np.zeros(128, np.float32),
        "w2": normal(2, 128, 16),
        "b2": np.zeros(16, np.float32),
    }
    zeros = jax.tree.map(np.zeros_like, params)

    def loss(p, x, y):
        h = jax.nn.relu(x @ p["w1"] + p["b1"])
        logits = h @ p["w2"] + p["b2"]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 16), -1))

    def step(state, x, y):
        p, m, v, t = state
        value, g = jax.value_and_grad(loss)(p, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)

        def update(p, m, v):
            return p - 1e-2 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

        return (jax.tree.map(update, p, m, v), m, v, t), value

    state = (params, zeros, zeros, np.float32(0))
    return step, (state, normal(3, 16, 32), np.arange(16, dtype=np.int32)), (0,)


HIDDEN, INNER, HEADS, VOCABULARY, TOKENS, BATCH, LAYERS = 64, 128, 4, 64, 16, 8, 2


def llama_weights():
    seeds = iter(range(100, 200))

    def layer():
        return {
            "ln1": np.ones(HIDDEN, np.float32),
            "wq": normal(next(seeds), HIDDEN, HIDDEN),
            "wk": normal(next(seeds), HIDDEN, HIDDEN),
            "wv": normal(next(seeds), HIDDEN, HIDDEN),
            "wo": normal(next(seeds), HIDDEN, HIDDEN),
            "ln2": np.ones(HIDDEN, np.float32),
            "gate": normal(next(seeds), HIDDEN, INNER),
            "up": normal(next(seeds), HIDDEN, INNER),
            "down": normal(next(seeds), INNER, HIDDEN),
        }

    return {
        "embed": normal(99, VOCABULARY, HIDDEN),
        "layers": [layer() for _ in range(LAYERS)],
        "norm": np.ones(HIDDEN, np.float32),
        "head": normal(98, HIDDEN, VOCABULARY),
    }


def rms_norm(x, w):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w


def rotate(x):
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def decoder_layer(x, p):
    batch, tokens, hidden = x.shape
    h = rms_norm(x, p["ln1"])
    q, k, v = [(h @ p[w]).reshape(batch, tokens, HEADS, hidden // HEADS) for w in ("wq", "wk", "wv")]
    scores = jnp.einsum("bqhd,bkhd->bhqk", rotate(q), rotate(k)) / np.sqrt(hidden // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, tokens, hidden)
    x = x + mixed @ p["wo"]
    h = rms_norm(x, p["ln2"])
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


def llama_loss(p, ids, scanned):
    x = p["embed"][ids]
    if scanned:
        body = jax.checkpoint(lambda x, w: (decoder_layer(x, w), None))
        x, _ = lax.scan(body, x, p["layers"])
    else:
        for w in p["layers"]:
            x = decoder_layer(x, w)
    logp = jax.nn.log_softmax((rms_norm(x, p["norm"]) @ p["head"])[:, :-1])
    return -jnp.mean(jnp.take_along_axis(logp, ids[:, 1:, None], -1))


def token_ids():
    return (np.arange(BATCH * TOKENS).reshape(BATCH, TOKENS) * 7 % VOCABULARY).astype(np.int32)


def llama():
    """A train step of a small decoder, layer after layer."""
    return sgd(lambda p, ids: llama_loss(p, ids, False)), (llama_weights(), token_ids()), (0,)


def llama_scan():
    """The same as a loop over stacked layers, each computed again in the backward pass."""
    weights = llama_weights()
    weights["layers"] = jax.tree.map(lambda *a: np.stack(a), *weights["layers"])
    return sgd(lambda p, ids: llama_loss(p, ids, True)), (weights, token_ids()), (0,)


def conv():
    """A train step of a convolutional net with pooling."""
    params = {"c1": normal(10, 3, 3, 3, 16), "c2": normal(11, 3, 3, 16, 32), "w": normal(12, 32 * 4, 16)}
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(p, x, y):
        h = jax.nn.gelu(lax.conv_general_dilated(x, p["c1"], (1, 1), "SAME", dimension_numbers=layout))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = jax.nn.relu(lax.conv_general_dilated(h, p["c2"], (2, 2), "SAME", dimension_numbers=layout))
        logits = h.reshape(h.shape[0], -1) @ p["w"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], -1))

    return sgd(loss), (params, normal(13, 8, 8, 8, 3), (np.arange(8) % 16).astype(np.int32)), (0,)


def decode():
    """One token of attention over a cache: dynamic slices and updates, a sort, the four best."""
    params = {
        "wq": normal(20, HIDDEN, HIDDEN),
        "wk": normal(21, HIDDEN, HIDDEN),
        "wv": normal(22, HIDDEN, HIDDEN),
        "wo": normal(23, HIDDEN, VOCABULARY),
    }

    def step(p, cache, x, position):
        q, k, v = x @ p["wq"], x @ p["wk"], x @ p["wv"]
        cache = lax.dynamic_update_slice(cache, jnp.stack([k, v])[:, :, None], (0, 0, position, 0))
        keys, values = cache
        scores = jnp.einsum("bd,bsd->bs", q, keys) / 8.0
        scores = jnp.where(jnp.arange(TOKENS) <= position, scores, -1e9)
        mixed = jnp.einsum("bs,bsd->bd", jax.nn.softmax(scores), values)
        recent = lax.dynamic_slice(values, (0, jnp.maximum(position - 2, 0), 0), (BATCH, 2, HIDDEN))
        best, index = lax.top_k((mixed + recent.mean(1)) @ p["wo"], 4)
        return cache, best, index, jnp.sort(best, axis=-1)

    cache = np.zeros((2, BATCH, TOKENS, HIDDEN), np.float32)
    return step, (params, cache, normal(24, BATCH, HIDDEN), np.int32(5)), (1,)


def custom():
    """A train step with a gradient of its own, a loop that ends by its values, a branch and random bits."""

    @jax.custom_vjp
    def squashed(x):
        return jnp.tanh(x)

    squashed.defvjp(lambda x: (jnp.tanh(x), x), lambda _, g: (jnp.clip(g, -0.01, 0.01),))
    params = {"w": normal(30, 64, 64), "v": normal(31, 64, 8)}

    def loss(p, x, key):
        h = squashed(x @ p["w"])

        def body(carry):
            i, h = carry
            other = lax.cond(i > 3, lambda h: h - 1, lambda h: h * 2, h)
            return i + 1, jnp.where(i % 2 == 0, h * 0.5 + 1, other)

        def goes_on(carry):
            return (carry[0] < 6) & (jnp.sum(carry[1]) < 1e6)

        _, looped = lax.while_loop(goes_on, body, (0, lax.stop_gradient(h)))
        noise = jax.random.normal(jax.random.wrap_key_data(key), h.shape) * 0.01
        return jnp.mean(((h + looped + noise) @ p["v"]) ** 2)

    return sgd(loss), (params, normal(32, 16, 64), np.array([0, 42], np.uint32)), (0,)


PROGRAMS = {f.__name__: f for f in (mlp, llama, llama_scan, conv, decode, custom)}


def export(folder, name):
    function, arguments, donated = PROGRAMS[name]()
    lowered = jax.jit(function, donate_argnums=donated).lower(*arguments)
    path = os.path.join(folder, name)

    def write(suffix, content):
        with open(path + suffix, "wb") as file:
            file.write(content)

    def arrays(suffix, tree):
        flat = {f"{i:03}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(tree))}
        np.savez(path + suffix, **flat)

    write(".mlir", lowered.as_text().encode())
    write(".debug.mlir", lowered.as_text(debug_info=True).encode())
    write(".hlo.pb", lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    try:
        write(".bc", stablehlo.serialize_portable_artifact_str(lowered.as_text(), ARTIFACT_VERSION))
    except ValueError as error:  # ops of other dialects, such as chlo, have no portable form
        print(f"{name}: no portable artifact: {error}")
    arrays(".inputs.npz", arguments)
    arrays(".outputs.npz", jax.jit(function)(*arguments))
    print(f"{name}: {len(jax.tree.leaves(arguments))} arguments")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for program in sys.argv[2:] or PROGRAMS:
        export(sys.argv[1], program)
