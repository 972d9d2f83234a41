"""A dataset with columns and media facts, and readers that return both by sample key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.build import a_dataset, split_by_ratios
from tests.core.catalog.readers import read_current_generation
from tests.core.pictures import picture
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.columns.column_file import list_columns, read_column_values
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.offsets.read import Offsets

NUMBER = "tests.core.counting:number"  # the key as a number, so that each value identifies its sample
COLUMNS = {
    "n": NUMBER,
    "words": "tests.core.counting:words",  # declares its parts
    "letters": "chars:txt",
    "bytes": "size:jpg",
    "wide": "media:jpg:width",
}


def a_source(
    root: Path, count: int = 3, each: int = 4, *, first: int = 0, columns: dict[str, str] | None = None, **options: Any
) -> str:
    """Samples numbered from `first`, each with a unique jpg and txt, with media facts and two splits."""
    shards = {}
    for shard in range(count):
        numbers = range(first + shard * each, first + (shard + 1) * each)
        shards[f"s-{shard:03d}.tar"] = {
            f"{n:06d}.{part}": data
            for n in numbers
            for part, data in (("jpg", picture(16 + n, 24)), ("txt", b"word " * n))
        }
    source = a_dataset(root, shards)
    index(source, columns=COLUMNS if columns is None else columns, media=MediaRequest(selection="auto"), **options)
    split_by_ratios(source, {"train": 3, "val": 1}, by="sample")
    return source


def columns(root: str | Path) -> dict[str, dict[str, int]]:
    """The values of every current column, by sample key."""
    place = locate(str(root))
    generation = read_current_generation(place.catalog_path)
    offsets, found = Offsets(place.offsets_path(generation)), {}
    for name in (name for name, generations in list_columns(place).items() if generation in generations):
        values = read_column_values(place, name, generation, shards=offsets.shards).tolist()
        found[name] = {offsets.key(row): value for row, value in enumerate(values)}
    return found


def media(root: str | Path) -> dict[str, Any]:
    """The media facts of every part, by file name."""
    place = locate(str(root))
    offsets, found = Offsets(place.offsets_path(read_current_generation(place.catalog_path))), {}
    with Catalog.open(place.catalog_path) as catalog:
        if catalog.media_settings() is None:
            return {}
        for i, shard in enumerate(offsets.shards):
            for (row, part), facts in catalog.media_reader.shard_facts(shard.id).items():
                found[f"{offsets.key(int(offsets.shard_row[i]) + row)}.{part}"] = facts
    return found


def select_keys(found: dict[str, dict[str, int]], keys: set[str]) -> dict[str, dict[str, int]]:
    return {name: {key: values[key] for key in values if key in keys} for name, values in found.items()}


def carry_messages(report: ConvertReport) -> list[str]:
    return [found.message for found in report.findings if found.code == "WDS346"]
