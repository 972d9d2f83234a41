"""Smoke test of an installation: prepare, inspect and validate a folder, then draw the first batch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

SAMPLES = 12

FIRST_BATCH = """
import sys
from wdsctl.loader import get_savable_loader, get_train_dataset
loader = get_savable_loader(get_train_dataset(sys.argv[1], batch_size=4))
batch = next(iter(loader))
assert len(batch.__key__) == 4 and all(text.startswith("text ") for text in batch.text), batch
assert loader.save_state_rank()
"""


class SmokeFailed(Exception):  # noqa: N818 - names what happened
    """A command of the smoke test failed."""


def smoke(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Path:
    """Prepare, inspect and validate a dataset, run doctor, and return the dataset. Raises SmokeFailed."""
    (folder / "raw").mkdir(parents=True)
    for i in range(SAMPLES):
        (folder / "raw" / f"{i:03}.txt").write_text(f"text {i}")
    shards = folder / "shards"
    run((*command, "prepare", str(folder / "raw"), str(shards), "--shard-samples", "4", "--no-input"), env)
    found = json.loads(run((*command, "inspect", str(shards), "--json"), env))
    if found["samples"] != SAMPLES:
        raise SmokeFailed(f"{found['samples']} samples of {SAMPLES} were prepared")
    run((*command, "validate", str(shards), "--level", "content"), env)
    run((*command, "doctor", str(shards)), env)
    return shards


def first_batch(python: str, shards: Path, env: Mapping[str, str]) -> None:
    """Draw a batch and save the state. Raises SmokeFailed."""
    run((python, "-c", FIRST_BATCH, str(shards)), env)


def run(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Run a command and return its stdout. Raises SmokeFailed if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, env=dict(env), timeout=300, check=False)
    if result.returncode != 0:
        raise SmokeFailed(f"{' '.join(command[:3])} ended with {result.returncode}: {result.stderr.strip()[-1500:]}")
    return result.stdout
