"""Assign samples to the output datasets of `convert --apart`: by split, key prefix, or a field of a JSON part."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.importers.protocol import DetailedSource, SampleListing, Source
from wdsctl.core.json_text import read_json

MAX_OUTPUT_DATASETS = 10_000
_MAX_FOLDER_NAME_BYTES = 200


class SampleGrouper:
    """Assigns samples to groups, numbered in the order of their first occurrence.

    `by`: `split`, `key-prefix`, or `json:FIELD` (`json:meta.source` for a field of the part `json`,
    `json:label@cls.json` for one of another part). `split_names`: the names of the splits of each source.
    `default_set_only`: ignore the splits of other sets; if no source has splits, all samples are in `train`.
    """

    def __init__(self, by: str, split_names: Sequence[Sequence[str]] = (), *, default_set_only: bool = False) -> None:
        kind, _, rest = by.partition(":")
        if kind not in ("split", "key-prefix", "json") or (kind == "json") != bool(rest):
            raise UsageError(f"--apart: expected split, key-prefix or json:FIELD, found {by!r}", hint="`--apart split`")
        self._kind = kind
        field, _, part = rest.partition("@")
        self._part = part or "json"
        self._steps = tuple(field.split(".")) if field else ()
        if default_set_only:
            split_names = [[name if "/" not in name else "" for name in names] for names in split_names]
        self._split_names = split_names
        self._group_without_splits = "train" if default_set_only and not any(map(any, split_names)) else None
        self._numbers: dict[str, int] = {}

    @property
    def folder_names(self) -> list[str]:
        """The folders of the groups, by number."""
        return list(self._numbers)

    def group_number(self, source: Source, source_index: int, sample: SampleListing) -> int | None:
        """The number of a sample's group; None if it has none. Grouping by `json:` reads the part.

        Raises UsageError beyond 10,000 groups, and what reading raises; DatasetError WDS144 or WDS145 if the part is
        not JSON.
        """
        value = self._group_value(source, source_index, sample)
        if value is None or value == "":
            return None
        name = folder_name(value)
        if name not in self._numbers:
            if len(self._numbers) == MAX_OUTPUT_DATASETS:
                raise UsageError(
                    f"--apart: the samples have more than {MAX_OUTPUT_DATASETS:,} groups",
                    where="--apart",
                    hint="choose a field with fewer values",
                )
            self._numbers[name] = len(self._numbers)
        return self._numbers[name]

    def _group_value(self, source: Source, source_index: int, sample: SampleListing) -> str | None:
        if self._kind == "key-prefix":
            prefix, slash, _ = sample.key.partition("/")
            return prefix if slash else None
        if self._kind == "split":
            names = self._split_names[source_index] if source_index < len(self._split_names) else ()
            # Splits of the default set come first; names of other sets have a slash.
            found = [name for b, name in enumerate(names) if name and sample.splits >> b & 1]
            return min(found, key=lambda name: "/" in name) if found else self._group_without_splits
        return self._json_value(source, sample.sample_index)

    def _json_value(self, source: Source, sample_index: int) -> str | None:
        if isinstance(source, DetailedSource):
            parts = source.read_selected(sample_index, lambda name: name == self._part)
        else:
            parts = tuple(part for part in source.read(sample_index) if part.name == self._part)
        value: Any = self._parse(parts[0].data) if parts else None
        for step in self._steps:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if isinstance(value, str | int | float) else None

    def _parse(self, data: bytes) -> Any:
        try:
            return read_json(data)
        except ValueError as error:
            raise DatasetError(
                f"cannot read the group from the part {self._part}, which is not valid JSON: {error}",
                hint="correct the part, or divide the samples by another value",
                code="WDS145" if isinstance(error, UnicodeDecodeError) else "WDS144",
            ) from error


def folder_name(value: str) -> str:
    """The folder of a group: its value, with %XX for special characters."""
    name = quote(value, safe=" +=,@()[]{}!~'", errors="backslashreplace")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) <= _MAX_FOLDER_NAME_BYTES:
        return name
    return f"{name[:_MAX_FOLDER_NAME_BYTES]}-{blake2b(name.encode(), digest_size=4).hexdigest()}"
