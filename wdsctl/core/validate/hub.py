"""What the viewer of the Hugging Face Hub would refuse: `validate --for hub`.

Without features in its card, the Hub takes those of the first five samples of a split's first shard, which must have
the same parts. It assigns whole shards to splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wdsctl.core.catalog.splits import SplitShards
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.errors import Finding
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.text import join_with_and

_COMPARED_SAMPLES = 5


def hub_findings(offsets: Offsets, rows: Sequence[ShardRow], splits: SplitShards) -> Iterator[Finding]:
    """Findings from catalog and offsets alone. `splits`: of the default set; empty if the dataset has none."""
    filled = sorted((row for row in rows if row.samples), key=lambda row: row.path)
    divided = [row.path for row in filled if sum(row.id in shards for shards in splits.values()) > 1]
    if divided:
        message = (
            "the shard has samples in several splits, but a split on the Hub is a list of whole shards; "
            "`wdsctl convert DATASET DEST --naming hub` writes shards by split"
        )
        yield Finding(code="WDS256", severity="error", message=message, shard=divided[0], count=len(divided))
    numbers = {shard.id: i for i, shard in enumerate(offsets.shards)}
    for name, row in _first_shards(filled, splits).items():
        if row.id in numbers:
            yield from _compare_first_samples(offsets, numbers[row.id], row, name)


def _first_shards(rows: Sequence[ShardRow], splits: SplitShards) -> Mapping[str, ShardRow]:
    """The first shard of each split by path. `rows`: sorted."""
    if not splits:
        return {"": rows[0]} if rows else {}
    first = {name: next((row for row in rows if row.id in shards), None) for name, shards in splits.items()}
    return {name: row for name, row in first.items() if row is not None}


def _compare_first_samples(offsets: Offsets, i: int, row: ShardRow, split: str) -> Iterator[Finding]:
    start = int(offsets.shard_row[i])
    of_first: frozenset[str] | None = None
    for sample in range(start, start + min(_COMPARED_SAMPLES, row.samples)):
        parts = frozenset(name for name, _, _ in offsets.parts(sample))
        if of_first is None:
            of_first = parts
        elif parts != of_first:
            where = f"of the split {split}" if split else "of the dataset"
            message = (
                f"the first samples {where} have different parts, {join_with_and(sorted(of_first))} in the first and "
                f"{join_with_and(sorted(parts))} here; the Hub infers features only from equal ones"
            )
            yield Finding(code="WDS166", severity="error", message=message, shard=row.path, key=offsets.key(sample))
            return
