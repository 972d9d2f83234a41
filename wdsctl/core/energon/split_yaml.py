"""Energon's `split.yaml`: the shards of each split, by name or brace range, and what is excluded.

    split_parts: {train: ["parts/data-{0..7}.tar"], val: [parts/data-8.tar]}
    exclude: [parts/data-3.tar, "parts/data-4.tar/{000001..000009}"]

It assigns whole shards, and can exclude single samples as SHARD/KEY. The same document as JSON is read, too. `exclude`
may be repeated, since people append it to the file that `prepare` wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wdsctl.core.dataset.shard_names import expand_braces, is_jsonl_name
from wdsctl.core.errors import DatasetError, InputError, UsageError, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.safe_open import open_named
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.names import check_split_name
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.yaml_files.document import YamlDocument, describe_value, dump_yaml, parse_yaml

SPLIT_YAML_CODE = "WDS217"

_GLOB = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class SplitYaml:
    """The content of a split.yaml. `document` has the lines."""

    rule: SplitRule
    excludes: Excludes
    document: YamlDocument


def read_split_yaml(path: str) -> tuple[SplitRule, Excludes]:
    """The rule and the excludes of a split.yaml. Raises InputError if it does not exist, DatasetError WDS217."""
    read = load_split_yaml(path)
    return read.rule, read.excludes


def load_split_yaml(path: str) -> SplitYaml:
    """A split.yaml with its lines. Raises like `read_split_yaml`."""
    if not os.path.isfile(path):
        raise InputError("the split file does not exist", where=path, hint="pass the path of a split.yaml of Energon")
    try:
        with translate_os_errors(path, "read"), open_named(path) as file:
            text = read_whole(file, path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid_file_error(f"not UTF-8: {error.reason} at byte {error.start}", path) from error
    return parse_split_yaml(text, path)


def parse_split_yaml(text: str, path: str) -> SplitYaml:
    """Parse the text of a split.yaml; `path` is for errors. Raises DatasetError WDS217."""
    try:
        document = parse_yaml(text, path, joined_lists=("exclude",))
    except DatasetError as error:
        raise DatasetError(error.message, hint=error.hint, where=error.where, code=SPLIT_YAML_CODE) from error
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("split_parts"), dict):
        raise _invalid_file_error("missing `split_parts:` with a list of shards for each split", path)
    odd = next((key for key in data if key not in ("split_parts", "exclude")), None)
    if odd is not None:
        raise _invalid_file_error(f"unknown key {odd!r}", document.where(odd))
    patterns = {}
    for name, entries in data["split_parts"].items():
        where = document.where("split_parts", name)
        with _located_errors(where):
            check_split_name(str(name))
            patterns[str(name)] = tuple(dict.fromkeys(map(_pattern, _parse_names(entries, str(name), where))))
    if not patterns:
        raise _invalid_file_error("split_parts has no splits", document.where("split_parts"))
    excluded = _parse_names(data.get("exclude"), "exclude", document.where("exclude"))
    with _located_errors(document.where("exclude")):
        shards = tuple(_pattern(each) for each in excluded if _is_shard(each))
        samples = tuple(name for each in excluded if not _is_shard(each) for name in _check_braces(each))
    return SplitYaml(SplitRule({}, patterns=patterns), Excludes(shards=shards, samples=samples), document)


def format_split_yaml(splits: Mapping[str, Sequence[str]], shards: Sequence[str], samples: Sequence[str]) -> str:
    """The text of a split.yaml with the shards of each split, and excluded shards and samples (SHARD/KEY).

    Raises DatasetError WDS217 for names with braces, which would be expanded.
    """
    for name in (*(path for paths in splits.values() for path in paths), *shards, *samples):
        if "{" in name or "}" in name:
            raise _not_expressible_error(f"{name!r} has braces, which split.yaml expands")
    document: dict[str, Any] = {"split_parts": {name: collapse_ranges(paths) for name, paths in splits.items()}}
    document["exclude"] = [*collapse_ranges(shards), *samples]
    return dump_yaml(document)


def collapse_ranges(names: Iterable[str]) -> list[str]:
    """Names in their order, with runs of names that differ in one counting number as brace ranges."""
    ranges: list[str] = []
    run: list[str] = []
    for name in names:
        if run and _range_span(run, name) is None:
            ranges.append(_range(run))
            run = []
        run.append(name)
    return [*ranges, _range(run)] if run else ranges


def divided_shards_error(count: int, first: str) -> DatasetError:
    """The error of shards with samples in several splits."""
    return _not_expressible_error(
        f"{count:,} shards are in more than one split, such as {first}; split.yaml assigns whole shards"
    )


def repeated_key_error(name: str) -> DatasetError:
    """The error of a sample that shares its key with one that is not excluded."""
    return _not_expressible_error(f"two samples have the key {name}, but only one of them is excluded")


def _range_span(names: Sequence[str], name: str) -> tuple[int, int] | None:
    """The span of the number in which a name continues a run; None if it does not."""
    span = _increment_span(names[-1], name)
    if span is None or len(names) == 1:
        return span
    return span if _increment_span(names[-2], names[-1]) == span else None


def _increment_span(name: str, next_name: str) -> tuple[int, int] | None:
    if len(name) != len(next_name):
        return None
    for match in _NUMBER.finditer(name):
        start, stop = match.span()
        other = next_name[start:stop]
        is_next = other.isdecimal() and other.isascii() and int(other) == int(match[0]) + 1
        if is_next and name[:start] == next_name[:start] and name[stop:] == next_name[stop:]:
            return start, stop
    return None


def _range(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    start, stop = _increment_span(names[0], names[1]) or (0, 0)
    return f"{names[0][:start]}{{{names[0][start:stop]}..{names[-1][start:stop]}}}{names[0][stop:]}"


def _pattern(path: str) -> str:
    """A path of split.yaml as a shard pattern, without wildcards. Raises UsageError for too many names."""
    _check_braces(path)
    if path.startswith(("re:", "glob:")) or _GLOB.search(path):
        return "re:" + "|".join(map(re.escape, expand_braces(path)))
    return path


def names_of_literal_pattern(pattern: str) -> list[str]:
    """The names in a pattern `re:...` that `SplitYaml` has for names with wildcards, which Energon takes literally."""
    escaped = re.findall(r"(?:\\.|[^|\\])+", pattern.removeprefix("re:"))
    return [re.sub(r"\\(.)", r"\1", name) for name in escaped]


def _check_braces(name: str) -> tuple[str]:
    """The name. Raises UsageError if its braces cannot be expanded."""
    expand_braces(name)
    return (name,)


@contextmanager
def _located_errors(where: str) -> Iterator[None]:
    """Add the location in the file to errors of the block."""
    try:
        yield
    except UsageError as error:
        raise DatasetError(error.message, hint=error.hint, where=where, code=SPLIT_YAML_CODE) from error


def _is_shard(entry: str) -> bool:
    return entry.lower().endswith((".tar", ".tgz", ".tar.gz")) or is_jsonl_name(entry)


def _parse_names(value: Any, name: str, where: str) -> list[str]:
    listed = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise _invalid_file_error(f"{name}: expected a list of shards, found {describe_value(value)}", where)
    return listed


def _invalid_file_error(message: str, where: str) -> DatasetError:
    return DatasetError(
        message,
        hint="write a list for each split, for example split_parts: {train: [a-{0..7}.tar], val: [a-8.tar]}",
        where=where,
        code=SPLIT_YAML_CODE,
    )


def _not_expressible_error(message: str) -> DatasetError:
    return DatasetError(
        f"split.yaml cannot express this split: {message}",
        hint="split by whole shards: `--by shard`",
        code=SPLIT_YAML_CODE,
    )
