"""Writes the Parquet files of this folder, with pyarrow: `python make.py`."""

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
ROWS = [f"row {i}: " + "é" * (i % 5) + "\n" for i in range(100)]


def write(name, columns, **options):
    pq.write_table(pa.table(columns), HERE / name, store_schema=False, **options)


# Dictionaries, several pages and groups of rows; another column of text comes first.
table = {"title": [f"title {i % 3}" for i in range(100)], "id": list(range(100)), "text": ROWS}
write("snappy.parquet", table, compression="snappy", row_group_size=30, data_page_size=64)
# No column is called `text`; pages of the second version, differences of lengths.
write(
    "second_version.parquet",
    {"id": list(range(100)), "tags": [["a"]] * 100, "content": ROWS},
    compression="gzip",
    version="2.6",
    data_page_version="2.0",
    use_dictionary=False,
    column_encoding={"content": "DELTA_LENGTH_BYTE_ARRAY"},
)
write("null.parquet", {"text": ["a", "b", None, "d"]}, compression="none")
write("zstd.parquet", {"text": ["a"]}, compression="zstd")
write("numbers.parquet", {"id": [1], "text": [1.5]}, compression="none")
write("without_text.parquet", {"id": [1], "words": [["a", "b"]]}, compression="none")
write("latin1.parquet", {"text": pa.array([b"a", b"b\xe9"], pa.binary())}, compression="none")
