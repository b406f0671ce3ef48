"""One row of the table of `check.sh`: a verdict, and how far outputs are from what they should be.

    python compare.py PROGRAM FORM FOLDER EXPECTED.npz

FOLDER holds explain.json, run.json and outputs.npz. Differences are parts of the largest element of an output. Needs
NumPy.
"""

import json
import sys

import numpy as np

TOLERANCE = 1e-4


def apart(found, expected):
    """The largest difference, as a part of the largest element; infinite where either has something that is no number."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.inf
    if not found.size or np.array_equal(found, expected):
        return 0.0
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
    largest = np.abs(expected.astype(np.float64)).max()
    relative = difference / largest if largest else np.inf
    return relative if np.isfinite(relative) else np.inf


def main(program, form, folder, expected):
    with open(f"{folder}/explain.json") as file:
        verdict = json.load(file)["verdict"]["grade"]
    with open(f"{folder}/run.json") as file:
        to_one = max(output["difference"]["relative"] for output in json.load(file)["outputs"])
    found, expected = np.load(f"{folder}/outputs.npz"), np.load(expected)
    # Names are the program's in the one and positions in the other; the order is the same.
    if len(found.files) != len(expected.files):
        sys.exit(f"{program}.{form}: {len(found.files)} outputs, expected {len(expected.files)}")
    to_jax = max(apart(found[f], expected[e]) for f, e in zip(found.files, sorted(expected.files)))
    print(f"| {program} | {form} | {verdict.replace('_', ' ')} | {to_one:.1e} | {to_jax:.1e} |")
    return int(to_jax > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
