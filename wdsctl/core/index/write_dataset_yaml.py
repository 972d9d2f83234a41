"""Write dataset.yaml for `prepare`: from the user's options, and from evidence in the samples.

Detection reads the parts of a few samples from several shards, never all samples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.dataset.config import DatasetConfig, dump_config
from wdsctl.core.dataset.location import DatasetLocation, shell_command, shell_command_at
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import DatasetError, Finding, UsageError
from wdsctl.core.files import set_aside, write_text
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.samples.crude_fields import find_crude_fields
from wdsctl.core.samples.detect import Detection, infer_sample_type
from wdsctl.core.samples.evidence import TIFF_MAGICS, Evidence, PartEvidence, percent
from wdsctl.core.samples.field_map import format_field_map_text, validate_field_map
from wdsctl.core.samples.field_path import parse_field_path
from wdsctl.core.samples.fields import did_you_mean, list_first_names
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage
from wdsctl.core.text import join_with_and
from wdsctl.core.urls import redact_secrets

EVIDENCE_SHARDS = 8  # spread over the dataset
EVIDENCE_SAMPLES = 64  # of all these shards: pairs of neighbours, which often have the same class
COMMON_PART_SHARE = 0.05  # parts that at least this share of samples has are read, in further samples if needed
EVIDENCE_HEAD_BYTES = 64 << 10  # read from each part
MAX_WHOLE_BYTES = 1 << 20  # parts that look like JSON or TIFF are read as a whole up to this size


def collect_evidence(root: str, offsets: Offsets, parts: list[PartCount], storage: Storage) -> Evidence:
    """Collect evidence from the part counts of the catalog and the contents of up to 64 samples.

    For each common part that these samples lack, it reads as many more of one shard.
    """
    heads: dict[str, list[tuple[bytes, int]]] = {part.name: [] for part in parts}
    often = [part.name for part in parts if part.samples >= COMMON_PART_SHARE * offsets.samples]
    rows = rows_to_examine(root, offsets, often, storage)
    storage.will_need(
        FileRange(path, at, min(size, EVIDENCE_HEAD_BYTES)) for row, path in rows for _, at, size in offsets.parts(row)
    )
    for row, path in rows:
        for name, offset, size in offsets.parts(row):
            head = storage.read(path, offset, min(size, EVIDENCE_HEAD_BYTES))
            is_needed = head.lstrip()[:1] in (b"{", b"[") or head[:4] in TIFF_MAGICS  # its facts may be at its end
            if len(head) < size <= MAX_WHOLE_BYTES and is_needed:
                head = storage.read(path, offset, size)
            heads[name].append((head, size))
    return Evidence(
        offsets.samples,
        tuple(
            PartEvidence(
                part.name,
                part.samples,
                tuple(head for head, _ in heads[part.name]),
                tuple(size for _, size in heads[part.name]),
            )
            for part in parts
        ),
    )


def rows_to_examine(
    root: str, offsets: Offsets, common_parts: Iterable[str], storage: Storage
) -> list[tuple[int, str]]:
    """(row, path of its shard) of up to 64 samples from several shards, and of more with each of `common_parts`."""
    paths = {
        row: os.path.join(root, offsets.shards[offsets.shard_of(row)].path)
        for row in _evidence_rows(offsets, common_parts)
    }
    # A shard may be missing, with its rows kept in the catalog.
    there = {path for path in set(paths.values()) if storage.exists(path)}
    return [(row, path) for row, path in paths.items() if path in there]


def _evidence_rows(offsets: Offsets, common_parts: Iterable[str]) -> list[int]:
    filled = [i for i, shard in enumerate(offsets.shards) if shard.samples]
    shards = (
        {filled[i] for i in np.linspace(0, len(filled) - 1, EVIDENCE_SHARDS).astype(int).tolist()} if filled else set()
    )
    ranges = [(int(offsets.shard_row[shard]), int(offsets.shard_row[shard + 1])) for shard in sorted(shards)]
    count_per_shard = EVIDENCE_SAMPLES // max(1, len(shards))
    rows = {first + position for first, end in ranges for position in _spread_positions(end - first, count_per_shard)}
    if offsets.layout is not None:
        for name in common_parts:
            having = [i for i, names in enumerate(offsets.layouts) if name in names]
            if not np.isin(offsets.layout[sorted(rows)], having).any():
                rows |= _rows_with_layouts(offsets.layout, having, ranges, count_per_shard)
    return sorted(rows)


def _rows_with_layouts(
    layout: NDArray[np.uint32], layouts: list[int], ranges: Iterable[tuple[int, int]], limit: int
) -> set[int]:
    """Up to `limit` rows with one of these layouts, from the first range that has any."""
    for first, end in ranges:
        found = np.flatnonzero(np.isin(layout[first:end], layouts))
        if found.size:
            return {first + int(found[position]) for position in _spread_positions(found.size, limit)}
    return set()


def _spread_positions(count: int, limit: int) -> set[int]:
    """Up to `limit` of `count` positions, in pairs of neighbours, from the first to the last."""
    if count <= limit:
        return set(range(count))
    firsts: list[int] = np.linspace(0, count - 2, limit // 2).astype(int).tolist()
    return {position for first in firsts for position in (first, first + 1)}


@dataclass(frozen=True, slots=True)
class SampleTypeRequest:
    """The user's options for the sample type. If any is set, an existing dataset.yaml is written again."""

    sample_type: str = ""
    field_map: Mapping[str, str] = field(default_factory=dict)
    redetect: bool = False

    def __bool__(self) -> bool:
        return bool(self.sample_type or self.field_map or self.redetect)


NO_SAMPLE_TYPE_REQUEST = SampleTypeRequest()


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Turn DatasetError into UsageError: the same mistake, but in an option and not in dataset.yaml."""
    try:
        yield
    except DatasetError as error:
        raise UsageError(error.message, hint=error.hint, where=error.where, code=error.code) from error


def set_aside_broken_config(dataset: OpenDataset, request: SampleTypeRequest, progress: Progress) -> None:
    """Rename a broken dataset.yaml if the request asks for a new one; otherwise raise DatasetError WDS220.

    Called before the shards are written, so that the error does not come after hours of work.
    """
    try:
        _ = dataset.config
    except DatasetError as error:
        if not request:
            raise
        aside = set_aside(dataset.location.config_path, "broken")
        progress.note(f"dataset.yaml was invalid ({error.message}): moved it to {aside} and wrote a new one")


def write_dataset_yaml(
    dataset: OpenDataset,
    generation: int,
    request: SampleTypeRequest,
    progress: Progress,
    base: DatasetConfig | None = None,
    *,
    base_has_type: bool = False,
    must_be_sure: bool = False,
) -> tuple[Detection | None, bool]:
    """Write dataset.yaml if it does not exist or the request sets an option. Returns (detection, whether it changed).

    The detection is None if it was not needed. `base`: the other settings of a new file; the split rule comes from the
    catalog if `base` has none. `base_has_type`: `base` has the sample type, which only the request can override.
    `must_be_sure`: write nothing if the sample type depends on a detection that is not sure. The caller then
    raises `UnsureTypeError`.
    """
    base, location = base or DatasetConfig(), dataset.location
    there = dataset.has_config()
    if there and not request:
        return None, False
    parts, rule = dataset.catalog.parts(), dataset.catalog.default_split_rule()
    base = replace(base, split=base.split or rule)
    if base_has_type and not request:
        write_text(location.config_path, dump_config(base))
        return None, True
    progress.phase("detect")
    found = detect_dataset_type(dataset, generation)
    if must_be_sure and is_doubtful(found, request):
        return found, False
    before = dataset.config if there else base
    sample_type, field_map = resolve_sample_type(found, request, [part.name for part in parts])
    optional = resolve_optional(before, found, sample_type, field_map)
    config = replace(
        before, sample_type=sample_type, field_map=field_map, optional=optional, sample_loader="", part_filter=()
    )
    is_new = not there or config != before
    if is_new:
        write_text(location.config_path, dump_config(config))
    return found, is_new


def resolve_optional(
    before: DatasetConfig, found: Detection, sample_type: str, field_map: Mapping[str, str]
) -> tuple[str, ...]:
    """The optional fields of a new config: those of the config before it or of the detection, if they have this field
    map; none otherwise."""
    if before.optional and before.field_map == field_map:
        return before.optional
    is_found = (sample_type, field_map) == (found.sample_type, found.field_map)
    return found.optional if is_found else ()


def is_doubtful(detection: Detection | None, request: SampleTypeRequest) -> bool:
    """Whether the detection is not sure, and the request has neither a sample type nor a field map."""
    return detection is not None and not detection.is_sure and not (request.sample_type or request.field_map)


class UnsureTypeError(UsageError):
    """The detected sample type is not sure, and everything else is done. `report`: what `prepare` has done.

    The user has to confirm the type or name another one, with the command that was typed: it repeats what it found.
    """

    code = "WDS221"

    def __init__(self, location: DatasetLocation, detection: Detection, file: str = "dataset.yaml") -> None:
        self.detection = detection
        self.report: Any = None
        doubts = [f"is only {percent(detection.confidence)} certain"] if not detection.is_confident else []
        doubts += [f"would leave {join_with_and(detection.unread)} unused"] if detection.unread else []
        super().__init__(
            f"the samples look like {detection.sample_type}: {', '.join(detection.field_map.values())}; that "
            f"{join_with_and(doubts)}. Shards, catalog and splits are complete; only "
            f"{file} is not written",
            hint="",
            where=location.display_path,
        )
        self.set_command(partial(shell_command_at, location, "prepare"))

    def set_command(self, format_command: Callable[..., str]) -> None:
        """Set the hint. `format_command`: formats the command that was typed, with further arguments."""
        field_map = format_field_map_text(self.detection.field_map)
        take = format_command("--sample-type", self.detection.sample_type, "--field-map", field_map)
        crude = format_command("--sample-type", CRUDE)
        self.hint = f"to accept this sample type, run {take}; to get a dict of all parts, run {crude}"


def detect_dataset_type(dataset: OpenDataset, generation: int) -> Detection:
    """Detect the sample type of a dataset, with reasons and confidence. Reads a few samples (`collect_evidence`)."""
    location, parts = dataset.location, dataset.catalog.parts()
    storage = storage_for(location.root)
    try:
        offsets = Offsets(location.offsets_path(generation))
        of_lines = any(is_jsonl_name(shard.path) for shard in offsets.shards)
        found = infer_sample_type(collect_evidence(location.root, offsets, parts, storage), is_jsonl=of_lines)
        is_dict = found.sample_type == CRUDE and not of_lines
        return replace(found, field_map=find_crude_fields(offsets.layouts)) if is_dict else found
    finally:
        storage.close()


def not_utf8_findings(detection: Detection | None) -> list[Finding]:
    """A warning WDS145 for each part with text in another encoding among the samples that the detection read."""
    return [
        Finding(
            code="WDS145",
            severity="warning",
            message=f"{part}: {count:,} of the {read:,} that were read are not UTF-8, which the loader cannot read. "
            "`wdsctl validate --level content` lists all; convert them, for example with `iconv -f latin1 -t UTF-8`",
        )
        for part, (count, read) in (detection.not_utf8.items() if detection is not None else ())
    ]


def fitting_type_findings(
    dataset: OpenDataset, generation: int, config: DatasetConfig, source: str, dest: str
) -> list[Finding]:
    """A note WDS261 if dataset.yaml has crude samples, and their shards now fit a sample type for sure.

    `source`, `dest`: the arguments of `prepare`, for the command that writes this type. Cost: as `detect_dataset_type`.
    """
    if config.sample_type != CRUDE or config.sample_loader or config.part_filter or config.refs or config.sequences:
        return []
    found = detect_dataset_type(dataset, generation)
    if found.sample_type == CRUDE or not found.is_sure:
        return []
    arguments = [redact_secrets(path) for path in dict.fromkeys((source, dest))]
    catalog = () if dataset.location.has_catalog_inside else ("--catalog", dataset.location.meta)
    return [
        Finding(
            code="WDS261",
            severity="note",
            message=f"dataset.yaml has the type {CRUDE}, and the samples look like {found.sample_type}: "
            f"{format_field_map_text(found.field_map)}; to write this type, run "
            f"{shell_command('prepare', *arguments, '--redetect', *catalog)}",
        )
    ]


def resolve_sample_type(
    detection: Detection, request: SampleTypeRequest, names: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """The sample type and field map: the user's, completed by the detection if the types agree.

    Raises UsageError WDS221 if the field map is missing, UsageError if it is invalid.
    """
    sample_type = request.sample_type or detection.sample_type
    field_map = dict(request.field_map)
    # A user who asks for crude samples gets all parts under their own names.
    if not field_map and sample_type == detection.sample_type and request.sample_type != CRUDE:
        field_map = dict(detection.field_map)
    if sample_type != CRUDE and not field_map:
        raise UsageError(
            f"the samples do not look like {sample_type}: its fields need a field map",
            hint=f"pass --sample-type {sample_type} --field-map FIELD=PART,... (parts: {', '.join(names)})",
            code="WDS221",
        )
    with as_usage_errors():
        validate_field_map(sample_type, field_map, names, where="--field-map")
    for name, path in request.field_map.items():
        _check_keys_exist(name, path, detection)
    return sample_type, field_map


def _check_keys_exist(name: str, path: str, detection: Detection) -> None:
    """Raise UsageError WDS220 if a field is a key of JSON parts, and no examined object has the key."""
    alternatives = parse_field_path(path).alternatives
    missing = [
        access
        for access in alternatives
        if access.steps
        and isinstance(access.steps[0], str)
        and access.part in detection.json_keys
        and access.steps[0] not in detection.json_keys[access.part]
    ]
    if len(missing) < len(alternatives):
        return
    key, known = str(missing[0].steps[0]), detection.json_keys[missing[0].part]
    raise UsageError(
        f"{name}: no sample that was examined has the key {key!r} in {missing[0].part}",
        hint=did_you_mean(key, known) or f"the keys are {list_first_names(known)}",
        where="--field-map",
        code="WDS220",
    )
