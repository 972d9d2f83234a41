"""A dataset of so many samples without a byte of them: catalog, offsets and splits, as `index` would leave them.

`ensure_large(samples)` builds `$DATA/large/SAMPLES/` once: shards of 10,000 samples with a jpg and a txt. Ten million
take about two minutes and 1.2 GB.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from benchmarks.places import DATA
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.read import ShardColumns
from wdsctl.core.offsets.write import OffsetsWriter
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import change_catalog
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule

A_SHARD = 10_000
_JPG, _TXT = 40_000, 300  # bytes, at most
_BLOCK = 512


def ensure_large(samples: int, folder: Path = DATA / "large") -> Path:
    """The root of such a dataset, built unless it stands complete."""
    root, marker = folder / str(samples), folder / f"{samples}.complete"
    if not marker.exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        _build(locate(str(root)), samples)
        split_dataset(str(root), SplitRequest(rule=SplitRule({"train": 98, "val": 2}, by="sample")))
        marker.touch()
    return root


def _build(place: DatasetLocation, samples: int) -> None:
    Path(place.meta).mkdir()
    writer = OffsetsWriter(place.meta)
    try:
        with OpenDataset(place) as dataset, lock_dataset(place), change_catalog(dataset) as draft:
            draft.generation = 1
            for first in range(0, samples, A_SHARD):
                scan = a_scan(first, min(A_SHARD, samples - first))
                file = ShardFile(f"shard-{first // A_SHARD:06d}.tar", int(scan.offsets[-1] + scan.sizes[-1]), 1)
                number = draft.next_shard_ids(1)[0]
                draft.add_shard(number, file, scan)
                rows = ShardColumns(
                    keys=scan.keys,
                    key_sizes=scan.key_sizes,
                    counts=scan.counts,
                    part_names=draft.part_numbers(scan)[scan.part_names],
                    part_offsets=scan.part_offsets,
                    part_sizes=scan.part_sizes,
                )
                writer.add(ShardEntry(number, file.path, file.size, scan.samples, scan.layout_hash()), rows)
            writer.finish(place.offsets_path(1), 1, draft.extensions)
    finally:
        writer.close()


def a_scan(first: int, samples: int) -> ShardScan:
    """What the scan of such a shard says. Sizes are drawn evenly, from the number of its first sample."""
    draw = np.random.default_rng(first)
    sizes = np.stack([draw.integers(1, most, samples) for most in (_JPG, _TXT)], axis=1)
    spans = _BLOCK + sizes + -sizes % _BLOCK
    ends = np.cumsum(spans.ravel())
    starts = (ends - spans.ravel()).reshape(sizes.shape)
    return ShardScan(
        status="ok",
        keys="".join(f"{number:09d}" for number in range(first, first + samples)).encode(),
        key_sizes=np.full(samples, 9, np.uint32),
        offsets=starts[:, 0],
        sizes=spans.sum(axis=1),
        counts=np.full(samples, 2, np.uint32),
        extensions=("jpg", "txt"),
        part_names=np.tile(np.array([0, 1], np.uint32), samples),
        part_offsets=(starts + _BLOCK).ravel(),
        part_sizes=sizes.ravel(),
        findings=(),
    )
