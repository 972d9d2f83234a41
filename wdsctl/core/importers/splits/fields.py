"""Find a field of the samples that names their splits, such as `split` with the values `train` and `val`.

The splits of JSONL follow it. In other shards, the values lie between the media: reading them takes a read for each
sample, so that `prepare` only warns (WDS259).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from wdsctl.core.dataset.location import DatasetLocation, shell_command, shell_command_at
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.files import PROBED_ROWS
from wdsctl.core.importers.common.row_splits import SPLIT_FIELDS, find_split_field
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.split_rules.names import split_of_value
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange
from wdsctl.core.text import pluralize

_MAX_VALUE_BYTES = 1 << 20  # larger parts are not read


def split_rule_from_values(dataset: OpenDataset) -> SplitRule | None:
    """The rule by a field of JSONL that names splits; None without one, and for all other datasets."""
    offsets = Offsets(dataset.location.offsets_path(dataset.catalog.generation))
    is_applied = any(is_jsonl_name(shard.path) for shard in offsets.shards[:1])
    value, _ = _find_split_value(dataset.location, offsets) if is_applied else ("", set())
    return SplitRule({}, by_value=value) if value else None


def split_field_findings(dataset: OpenDataset, dest: str = "") -> tuple[Finding, ...]:
    """The finding WDS259 if a field of the first samples names splits. All samples of the dataset are for training.

    None if these are all samples and the field says so of each.

    `dest`: the dataset that the samples are converted to, if any.
    """
    offsets = Offsets(dataset.location.offsets_path(dataset.catalog.generation))
    value, named = _find_split_value(dataset.location, offsets)
    if not value or (named == {"train"} and offsets.samples <= PROBED_ROWS):
        return ()
    options = "--by-value", value
    command = shell_command("split", dest, *options) if dest else shell_command_at(dataset.location, "split", *options)
    return (
        Finding(
            code="WDS259",
            severity="warning",
            message=f"{value} names splits, but all {pluralize(offsets.samples, 'sample')} are for training. To make "
            f"these splits, run {command}, which reads the value of each sample",
        ),
    )


def _find_split_value(location: DatasetLocation, offsets: Offsets) -> tuple[str, set[str]]:
    """The value of the first samples that names splits, such as `json:split`, and these splits; both empty if none."""
    rows: list[dict[str, Any]] = []
    values: dict[str, str] = {}
    for parts in _first_parts(location, offsets):
        fields: dict[str, Any] = {}
        for name, data in parts:
            found = _object_fields(data) if name == "json" else {_field_of_part(name): data.decode("utf-8", "replace")}
            fields = found | fields
            for field in found:
                values.setdefault(field, f"json:{field}" if name == "json" else f"part:{name}")
        rows.append(fields)
    field = find_split_field("", {}, rows, has_file_splits=False)
    if not field:
        return "", set()
    return values[field], {split_of_value(str(row.get(field) or "")) for row in rows}


def _first_parts(location: DatasetLocation, offsets: Offsets) -> Iterator[list[tuple[str, bytes]]]:
    """For each of the first samples, the parts that may name its split. A shard may be missing."""
    ends = offsets.shard_row.tolist()
    with closing(storage_for(location.root)) as storage:
        for shard, first, end in zip(offsets.shards, ends, ends[1:], strict=False):
            path = os.path.join(location.root, shard.path)
            if first >= PROBED_ROWS or not storage.exists(path):
                continue
            parts = [
                [part for part in offsets.parts(row) if _may_name_split(part[0]) and part[2] <= _MAX_VALUE_BYTES]
                for row in range(first, min(end, PROBED_ROWS))
            ]
            ranges = [FileRange(path, at, size) for each in parts for _, at, size in each]
            data = iter(storage.read_many(ranges))
            yield from ([(name, bytes(next(data))) for name, _, _ in each] for each in parts)


def _may_name_split(part: str) -> bool:
    return part == "json" or _field_of_part(part).lower() in SPLIT_FIELDS


def _field_of_part(part: str) -> str:
    return part.removesuffix(".txt")


def _object_fields(data: bytes) -> dict[str, Any]:
    """The fields of an object that may name its split; none for other JSON, and for what is no JSON."""
    try:
        value = read_json(data.decode("utf-8-sig"))
    except ValueError:
        return {}
    return {name: value[name] for name in value if name.lower() in SPLIT_FIELDS} if isinstance(value, dict) else {}
