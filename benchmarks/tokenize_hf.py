"""Times the way from a text file to blocks of token ids in Hugging Face's libraries.

    python tokenize_hf.py corpus FOLDER                  writes corpus.txt and tokenizer.json, from what is installed
    python tokenize_hf.py map FOLDER [PROCESSES]         tokenizes and groups as the causal-LM script does

`map` prints one line of JSON. It needs the packages datasets and transformers; the corpus is text of this Python's
packages, so compare ratios over one corpus and not figures of two machines.
"""

import json
import os
import pathlib
import resource
import sys
import sysconfig
import tempfile
import time

BYTES = 50_000_000
BLOCK_SIZE = 256
VOCAB_SIZE = 32_000


def corpus(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    lines, size = [], 0
    for path in sorted(packages.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        # No blank lines and no generated tables.
        kept = [line + "\n" for line in text.split("\n") if line.strip() and len(line) < 2000]
        lines += kept
        size += sum(len(line.encode()) for line in kept)
        if size >= BYTES:
            break
    text = "".join(lines).encode()
    while len(text) < BYTES:
        text += text
    text = text[:BYTES].decode(errors="ignore")
    (folder / "corpus.txt").write_text(text, encoding="utf-8")

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text[: BYTES // 4].splitlines(keepends=True), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))


def group(rows):
    joined = [token for row in rows["input_ids"] for token in row]
    full = len(joined) // BLOCK_SIZE * BLOCK_SIZE
    blocks = [joined[i : i + BLOCK_SIZE] for i in range(0, full, BLOCK_SIZE)]
    return {"input_ids": blocks, "labels": [list(block) for block in blocks]}


def map_corpus(folder, processes):
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if processes > 1 else "true"
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        files = {"train": str(folder / "corpus.txt")}
        rows = datasets.load_dataset("text", data_files=files, keep_linebreaks=True, cache_dir=cache)["train"]
        several = processes if processes > 1 else None
        ids = rows.map(lambda row: tokenizer(row["text"]), batched=True, num_proc=several, remove_columns=["text"])
        ids = ids.select_columns(["input_ids"])
        blocks = ids.map(group, batched=True, num_proc=several)
        seconds = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    line = {
        "mode": f"datasets.map, {processes} processes",
        "seconds": seconds,
        "cpu_seconds": sum(u.ru_utime + u.ru_stime for u in used),
        "megabytes_per_second": BYTES / 1e6 / seconds,
        "blocks": len(blocks),
    }
    print(json.dumps(line))


def main():
    mode, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder)
    if mode == "corpus":
        corpus(folder)
    else:
        map_corpus(folder, int(rest[0]) if rest else 2)


if __name__ == "__main__":
    main()
