"""Reads event files with TensorBoard's own reader, as a check of what `src/log/tensorboard.rs` writes.

    python3 read_events.py sample.tfevents

prints one line for each scalar. Needs the package `tensorboard`.
"""

import sys

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

for path in sys.argv[1:]:
    for event in LegacyEventFileLoader(path).Load():
        if event.file_version:
            print(f"{event.wall_time:.1f} version {event.file_version}")
        for value in event.summary.value:
            print(f"{event.wall_time:.1f} step {event.step} {value.tag} {value.simple_value:.6g}")
