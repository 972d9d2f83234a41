"""Reads the content of a dataset through its catalog and offsets file, for tests of `index`."""

from __future__ import annotations

import os
from pathlib import Path

from tests.build import samples
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.offsets.read import Offsets


def offsets(root: str) -> Offsets:
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        return Offsets(place.offsets_path(int(catalog.facts()["generation"])))


def contents(root: str) -> list[tuple[str, list[tuple[str, bytes]]]]:
    """Every sample of the offsets file, with its parts read from the shards."""
    found = []
    columns = offsets(root)
    for row in range(columns.samples):
        data = Path(root, columns.shards[columns.shard_of(row)].path).read_bytes()
        found.append((columns.key(row), [(name, data[at : at + size]) for name, at, size in columns.parts(row)]))
    return found


def expected(first: int, count: int) -> list[tuple[str, list[tuple[str, bytes]]]]:
    files = samples(first, count)
    return [(f"{i:06d}", [(part, files[f"{i:06d}.{part}"]) for part in ("jpg", "txt")]) for i in range(first, count)]


def leftovers(root: str) -> list[str]:
    names = os.listdir(Path(root, ".wdsctl"))
    return [name for name in names if not name.startswith(("catalog.sqlite", "ledger.sqlite", "offsets-", "dataset"))]
