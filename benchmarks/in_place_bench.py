"""Shards of other formats in place: reading and indexing them, beside the native readers over the same files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.loader_bench import contender, verify
from benchmarks.loader_data import loader_data
from benchmarks.measure import ContenderError, Cost
from benchmarks.places import wdsctl_script
from benchmarks.results import Row
from benchmarks.targets import IN_PLACE_RIVALS
from wdsctl.core.catalog.read import Catalog

CORPORA = ("photos-raw",)
WORKERS = (0, 2)
INDEX_TITLE = "indexing 0.3 GB in shards of 64 MB"
SAMPLES = 20_000
_SECONDS = 5.0


def in_place_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    for title, names in IN_PLACE_RIVALS.items():
        for workers in WORKERS:
            running = [name for name in names if is_selected(name)]
            verify(running, "raw", workers)
            contenders = [contender(name, "photos", "raw", workers, _SECONDS) for name in running]
            yield compete(f"{title}, raw, {workers} worker{'' if workers == 1 else 's'}", contenders, rounds=rounds)
    scans = [_index(title, names[0]) for title, names in IN_PLACE_RIVALS.items() if is_selected(names[0])]
    if scans:
        yield compete(INDEX_TITLE, scans, rounds=rounds)


def _index(title: str, name: str) -> Contender:
    root = loader_data(name, "photos")

    def check(_: Cost) -> dict[str, float]:
        with Catalog.open(str(root / ".wdsctl" / "catalog.sqlite")) as catalog:
            samples = sum(row.samples for row in catalog.shards())
        if samples != SAMPLES:
            raise ContenderError(f"{title}: {samples:,} samples in the catalog, not {SAMPLES:,}")
        return {}

    return Contender(
        name=title,
        command=(wdsctl_script("wdsctl"), "index", str(root), "--workers", "1", "--quiet"),
        before=lambda: shutil.rmtree(root / ".wdsctl", ignore_errors=True),
        after=check,
    )
