"""A root of its own for each contender, its shards hard links to the corpus: one page cache, no stranger's files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.places import DATA

_ENDS = (".tar", ".jsonl")


def linked_root(contender: str, corpus: str, *, shards: int | None = None, name: str = "", data: Path = DATA) -> Path:
    """`$DATA/CONTENDER/CORPUS` with the corpus's shards in it and nothing else. Costs a few milliseconds.

    `shards`: the first so many alone; the root then goes by another `name` than the corpus.
    """
    root = data / contender / (name or corpus)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for shard in sorted(path for path in (data / corpus).iterdir() if path.suffix in _ENDS)[:shards]:
        os.link(shard, root / shard.name)
    return root
