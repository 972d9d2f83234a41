"""Datasets of video pieces with groups and labels for tests of splits, and the split of every sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.build import a_dataset, some_shards, split_by_ratios
from tests.core.catalog.readers import read_current_generation
from tests.core.dumps import catalog_of, query
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.split.report import SplitReport
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule

SHARD_SAMPLES = 10  # samples of a shard
VIDEO_SAMPLES = 4  # samples of a video: some videos span two shards
LABELS = ("cat", "dog", "eel")
BALANCED = SplitRule({"train": 3, "val": 1}, group_by="json:film.id", stratify="json:label")


def video_shards(first: int, count: int) -> dict[str, dict[str, bytes]]:
    """Shards by name, starting with number `first`."""
    return {f"shard-{i:03d}.tar": _members(i * SHARD_SAMPLES) for i in range(first, first + count)}


def a_split_dataset(root: Path) -> str:
    """Six plain shards, divided by shard."""
    path = some_shards(root, 6)
    index(path)
    split_by_ratios(path, {"train": 2, "val": 1})
    return path


def a_video_dataset(root: Path, count: int = 20, *, first: int = 0) -> str:
    """An indexed dataset of video pieces."""
    path = a_dataset(root, video_shards(first, count))
    index(path)
    return path


def video_of(key: str) -> str:
    return key.split("/", maxsplit=1)[0]


def split_by_rule(root: str, rule: SplitRule | None, **options: Any) -> SplitReport:
    """Divides by this rule; samples may move between splits."""
    options.setdefault("allow_split_changes", True)
    dry_run = options.pop("dry_run", False)
    return split_dataset(root, SplitRequest(rule=rule, **options), dry_run=dry_run)


def splits_by_video(splits: dict[str, str]) -> dict[str, set[str]]:
    """The splits that contain each video."""
    splits_by_video: dict[str, set[str]] = {}
    for sample, name in splits.items():
        splits_by_video.setdefault(video_of(sample.split("/", 1)[1]), set()).add(name)
    return splits_by_video


def splits_of(root: str, of_set: str = "") -> dict[str, str]:
    """Maps SHARD/KEY to the split of the set that contains the sample. Fails if two splits contain it."""
    place = locate(root)
    offsets = Offsets(place.offsets_path(read_current_generation(place.catalog_path)))
    at = {shard.id: i for i, shard in enumerate(offsets.shards)}
    found: dict[str, str] = {}
    rows = query(
        catalog_of(root), "SELECT name, shard, bits FROM split_shard JOIN split ON split.id = split_shard.split"
    )
    for name, shard, bits in rows:
        prefix, _, short = name.rpartition("/")
        if prefix != of_set:
            continue
        entry = offsets.shards[at[shard]]
        for i in range(entry.samples):
            if bits is None or bits[i // 8] >> i % 8 & 1:
                sample = f"{entry.path}/{offsets.key(int(offsets.shard_row[at[shard]]) + i)}"
                assert sample not in found, "in two splits"
                found[sample] = short
    return found


def _members(first: int) -> dict[str, bytes]:
    members = {}
    for number in range(first, first + SHARD_SAMPLES):
        key = f"film{number // VIDEO_SAMPLES:03d}/{number:05d}"
        members[f"{key}.jpg"] = f"picture {number}".encode().ljust(24, b".")
        facts = {"film": {"id": number // VIDEO_SAMPLES}, "label": LABELS[number % 3] if number % 5 else "rare"}
        members[f"{key}.json"] = json.dumps(facts).encode()
        members[f"{key}.cls"] = str(number % 4).encode()
    return members
