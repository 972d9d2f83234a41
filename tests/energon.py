"""Datasets as Energon's `prepare` writes them: shards, and its metadata in `.nv-meta`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.build import a_dataset, samples

CAPTIONING = """sample_type:
  __module__: megatron.energon
  __class__: CaptioningSample
field_map:
  image: jpg
  caption: txt
subflavors: {source: web}
"""
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
SPLIT = """split_parts:
  train: ["parts/data-{0..2}.tar"]
  val: [parts/data-3.tar]
  test: []
exclude:
- parts/data-1.tar
- "parts/data-0.tar/{000001..000002}"
"""
#: The keys of these splits, with five shards of four samples.
TRAIN = ["000000", "000003", "000008", "000009", "000010", "000011"]
VAL = ["000012", "000013", "000014", "000015"]


def an_energon_dataset(
    root: Path,
    *,
    shards: int = 5,
    split: str | None = SPLIT,
    dataset: str | None = CAPTIONING,
    counts: Mapping[str, int] | None = None,
) -> str:
    """A dataset of shards `parts/data-N.tar` of four samples; the last shard is in no split."""
    names = [f"parts/data-{i}.tar" for i in range(shards)]
    a_dataset(root, {name: samples(4 * i, 4) for i, name in enumerate(names)})
    info = {"energon_version": "7.4.1", "shard_counts": dict.fromkeys(names, 4) if counts is None else counts}
    meta = root / ".nv-meta"
    meta.mkdir()
    (meta / ".info.json").write_text(json.dumps(info, indent=2))
    if split is not None:
        (meta / "split.yaml").write_text(split)
    if dataset is not None:
        (meta / "dataset.yaml").write_text(dataset)
    return str(root)


def an_energon_jsonl(path: Path, count: int = 6) -> str:
    """A JSONL file with the index that Energon's `prepare` writes next to it: the start of each line, and the end."""
    lines = [json.dumps({"text": f"line {i}"}).encode() + b"\n" for i in range(count)]
    path.write_bytes(b"".join(lines))
    ends = np.cumsum([0, *map(len, lines)], dtype="<u8")
    path.with_name(f"{path.name}.idx").write_bytes(ends.tobytes())
    return str(path)
