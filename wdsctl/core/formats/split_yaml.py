"""Energon's `split.yaml`: which shards are in which split, by name with brace ranges, and what is left out.

    split_parts: {train: ["parts/data-{0..7}.tar"], val: [parts/data-8.tar]}
    exclude: [parts/data-3.tar, "parts/data-4.tar/{000001..000009}"]

It knows whole shards, and single samples to be left out, as SHARD/KEY. JSON of the same form is read, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wdsctl.core import yaml_nodes
from wdsctl.core.braces import expanded
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.line_files import is_lines
from wdsctl.core.os_errors import translated
from wdsctl.core.split_rules import Excludes, SplitRule, check_split_name
from wdsctl.core.yaml_sections import called

CODE = "WDS217"

_GLOB = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class SplitYaml:
    """What such a file says. `document` knows the lines."""

    rule: SplitRule
    excludes: Excludes
    document: yaml_nodes.Document


def read_split_yaml(path: str) -> tuple[SplitRule, Excludes]:
    """The rule and the excludes of such a file. Raises InputError where there is none, DatasetError WDS217."""
    read = load_split_yaml(path)
    return read.rule, read.excludes


def load_split_yaml(path: str) -> SplitYaml:
    """The same with the lines. Raises what `read_split_yaml` raises."""
    if not os.path.isfile(path):
        raise InputError("there is no such file", where=path, hint="name a split.yaml of Energon")
    try:
        with translated(path, "read"), open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise _wrong(f"no UTF-8: {error.reason} at byte {error.start}", path) from error
    return parse_split_yaml(text, path)


def parse_split_yaml(text: str, path: str) -> SplitYaml:
    """The same for a text; `path` is only named in errors. Raises DatasetError WDS217."""
    try:
        document = yaml_nodes.parse(text, path)
    except DatasetError as error:
        raise DatasetError(error.message, hint=error.hint, where=error.where, code=CODE) from error
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("split_parts"), dict):
        raise _wrong("there is no `split_parts:` with a list of shards for each split", path)
    odd = next((key for key in data if key not in ("split_parts", "exclude")), None)
    if odd is not None:
        raise _wrong(f"there is no key {odd!r}", document.where(odd))
    patterns = {}
    for name, entries in data["split_parts"].items():
        where = document.where("split_parts", name)
        with _at(where):
            check_split_name(str(name))
            patterns[str(name)] = tuple(dict.fromkeys(map(_pattern, _texts(entries, str(name), where))))
    if not patterns:
        raise _wrong("split_parts names no split", document.where("split_parts"))
    left_out = _texts(data.get("exclude"), "exclude", document.where("exclude"))
    with _at(document.where("exclude")):
        shards = tuple(_pattern(each) for each in left_out if _is_shard(each))
        samples = tuple(name for each in left_out if not _is_shard(each) for name in _checked(each))
    return SplitYaml(SplitRule({}, patterns=patterns), Excludes(shards=shards, samples=samples), document)


def split_yaml(splits: Mapping[str, Sequence[str]], shards: Sequence[str], samples: Sequence[str]) -> str:
    """The text of such a file: shards of each split, and shards and samples (SHARD/KEY) that are left out.

    Raises DatasetError WDS217 for a name that would be expanded into others.
    """
    for name in (*(path for paths in splits.values() for path in paths), *shards, *samples):
        if "{" in name or "}" in name:
            raise _unsayable(f"{name!r} has braces, which split.yaml expands")
    document: dict[str, Any] = {"split_parts": {name: collapsed(paths) for name, paths in splits.items()}}
    document["exclude"] = [*collapsed(shards), *samples]
    return yaml_nodes.dump(document)


def collapsed(names: Iterable[str]) -> list[str]:
    """Names in their order, those that count up by one in one place as a brace range."""
    made: list[str] = []
    run: list[str] = []
    for name in names:
        if run and _follows(run, name) is None:
            made.append(_range(run))
            run = []
        run.append(name)
    return [*made, _range(run)] if run else made


def unsayable_parts(count: int, first: str) -> DatasetError:
    """The error of shards that are divided between splits."""
    return _unsayable(f"{count:,} shards are in more than one split, such as {first}, and split.yaml knows whole ones")


def unsayable_key(name: str) -> DatasetError:
    """The error of a sample that cannot be left out alone."""
    return _unsayable(f"{name} is there twice, and only one of the two is excluded")


def _follows(run: Sequence[str], name: str) -> tuple[int, int] | None:
    """The place of the number by which a name goes on from a run; None where it does not."""
    places = _counting(run[-1], name)
    if places is None or len(run) == 1:
        return places
    return places if _counting(run[-2], run[-1]) == places else None


def _counting(name: str, after: str) -> tuple[int, int] | None:
    if len(name) != len(after):
        return None
    for match in _NUMBER.finditer(name):
        start, stop = match.span()
        other = after[start:stop]
        is_next = other.isdecimal() and other.isascii() and int(other) == int(match[0]) + 1
        if is_next and name[:start] == after[:start] and name[stop:] == after[stop:]:
            return start, stop
    return None


def _range(run: Sequence[str]) -> str:
    if len(run) == 1:
        return run[0]
    start, stop = _counting(run[0], run[1]) or (0, 0)
    return f"{run[0][:start]}{{{run[0][start:stop]}..{run[-1][start:stop]}}}{run[0][stop:]}"


def _pattern(path: str) -> str:
    """A path of split.yaml as a pattern of ours: there, a star is a star. Raises UsageError for too many names."""
    _checked(path)
    if path.startswith(("re:", "glob:")) or _GLOB.search(path):
        return "re:" + "|".join(map(re.escape, expanded(path)))
    return path


def _checked(name: str) -> tuple[str]:
    """The name, if its braces can be expanded. Raises UsageError."""
    expanded(name)
    return (name,)


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Say where in the file it is that something cannot be understood."""
    try:
        yield
    except UsageError as error:
        raise DatasetError(error.message, hint=error.hint, where=where, code=CODE) from error


def _is_shard(entry: str) -> bool:
    return entry.lower().endswith((".tar", ".tgz", ".tar.gz")) or is_lines(entry)


def _texts(value: Any, name: str, where: str) -> list[str]:
    listed = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise _wrong(f"{name}: expected a list of shards, found {called(value)}", where)
    return listed


def _wrong(message: str, where: str) -> DatasetError:
    return DatasetError(
        message, hint="it is split_parts: {train: [a-{0..7}.tar], val: [a-8.tar]}", where=where, code=CODE
    )


def _unsayable(message: str) -> DatasetError:
    return DatasetError(
        f"this split cannot be said in a split.yaml: {message}", hint="divide by whole shards: `--by shard`", code=CODE
    )
