"""The first samples of a dataset as the loader would give them: the value of each field in one line, undecoded."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import DatasetError
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.samples.field_path import parse_field_path
from wdsctl.core.samples.fields import extract_field, find_parts, is_collecting
from wdsctl.core.samples.preview import PREVIEW_HEAD_BYTES, preview_part, preview_text
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES, FieldKind
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage

_EXAMPLES = 3
_MAX_JSON_BYTES = 1 << 20


class ExampleSample(NamedTuple):
    """A sample as the loader would give it. `fields`: (name of the field, its value in one line)."""

    key: str
    fields: tuple[tuple[str, str], ...]


def read_examples(
    location: DatasetLocation, generation: int, sample_type: str, field_map: Mapping[str, str]
) -> tuple[ExampleSample, ...]:
    """The first three samples; crude samples with all their parts. Raises what reading them raises.

    Cost: reads the heads of their parts, and JSON up to 1 MiB.
    """
    kinds = {field.name: field.kind for field in SAMPLE_TYPES.get(sample_type, ())}
    found = []
    with closing(storage_for(location.root)) as storage:
        offsets = Offsets(location.offsets_path(generation))
        for row in range(min(_EXAMPLES, offsets.samples)):
            shard = os.path.join(location.root, offsets.shards[offsets.shard_of(row)].path)
            parts = {name: _open_part(storage, shard, offset, size) for name, offset, size in offsets.parts(row)}
            mapped = {access.part for text in field_map.values() for access in parse_field_path(text).alternatives}
            others = [name for name in parts if name not in mapped] if sample_type == CRUDE else ()
            paths = dict(field_map) | {name: json.dumps(name) for name in others}
            lines = [(name, _describe_field(text, kinds.get(name, "any"), parts)) for name, text in paths.items()]
            found.append(ExampleSample(offsets.key(row), tuple(lines)))
    return tuple(found)


def _open_part(storage: Storage, shard: str, offset: int, size: int) -> ByteRangeFile:
    head = storage.read(shard, offset, min(size, PREVIEW_HEAD_BYTES))
    return ByteRangeFile(lambda start, count: storage.read(shard, offset + start, count), size, head=head)


def _describe_field(text: str, kind: FieldKind, parts: Mapping[str, ByteRangeFile]) -> str:
    path = parse_field_path(text)
    names = find_parts(path, parts, kind)
    if is_collecting(path, kind):
        return f"{len(names)}: {'; '.join(preview_part(parts[name], name).line for name in names)}" if names else "none"
    whole = [access.part for access in path.alternatives if access.part in names]
    if not whole:
        return "none"
    if not any(access.steps for access in path.alternatives if access.part == whole[0]):
        return preview_part(parts[whole[0]], whole[0]).line
    try:
        value = extract_field(path, {name: _read_json(parts[name]) for name in whole}, kind=kind)
    except DatasetError:
        return "none"
    return preview_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _read_json(part: ByteRangeFile) -> bytes:
    part.seek(0)
    return part.read(min(part.size, _MAX_JSON_BYTES)) or b""
