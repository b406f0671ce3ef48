#!/bin/sh
# Programs of JAX, sharded over eight devices and run: what `explain` says of each, and how far its outputs are from those
# of one device and from JAX's own.
#
#     benchmarks/foreign/check.sh [FOLDER]
#
# Exports the programs into FOLDER unless they are there [default: target/foreign]. PYTHON is a Python with jax and numpy
# [default: python3], SHARDWRIGHT the command [default: a release build]. Prints the rows of a table; the exit code is 1
# where a program fails, or its outputs differ by more than a ten-thousandth of their largest element.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-$root/target/foreign}
python=${PYTHON:-python3}
if [ -z "${SHARDWRIGHT:-}" ]; then
    cargo build --quiet --release --manifest-path "$root/Cargo.toml" --bin shardwright
    SHARDWRIGHT=${CARGO_TARGET_DIR:-$root/target}/release/shardwright
fi
mkdir -p "$folder"
# The last file that is exported.
[ -e "$folder/custom.outputs.npz" ] || "$python" "$here/export.py" "$folder" >&2

failed=0
printf '| program | form | verdict | to one device | to JAX |\n| --- | --- | --- | --- | --- |\n'
for program in mlp llama llama_scan conv decode custom; do
    for form in mlir hlo.pb; do
        file=$folder/$program.$form
        work=$folder/$program.$form.work
        mkdir -p "$work"
        "$SHARDWRIGHT" explain "$file" --mesh fsdp=8 --json --quiet >"$work/explain.json" &&
            "$SHARDWRIGHT" run "$file" --mesh fsdp=8 --input "$folder/$program.inputs.npz" \
                --output "$work/outputs.npz" --compare_single --tolerance 1e-4 --json --quiet >"$work/run.json" &&
            "$python" "$here/compare.py" "$program" "$form" "$work" "$folder/$program.outputs.npz" || failed=1
    done
done
exit $failed
