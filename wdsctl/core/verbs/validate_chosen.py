"""Which shards `validate --shards` means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wdsctl.core.braces import expanded, has_braces
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.errors import UsageError
from wdsctl.core.selected_shards import regex_of
from wdsctl.core.units import ShardFile


def chosen_shards(shards: Sequence[ShardFile], rows: Sequence[ShardRow], patterns: Sequence[str]) -> list[ShardFile]:
    """The shards whose path one of the patterns matches. Raises UsageError where one of them matches none."""
    if not patterns:
        return list(shards)
    chosen: set[str] = set()
    paths = [*(shard.path for shard in shards), *(row.path for row in rows)]
    for text in patterns:
        matching = set(_matching(text, paths))
        if not matching:
            raise UsageError(
                f"--shards {text}: no shard of the {len(shards):,} matches",
                hint="a path below ROOT, a glob such as 'train/*.tar', a brace range, or re:REGEX of the whole path",
            )
        chosen |= matching
    return [shard for shard in shards if shard.path in chosen]


def _matching(text: str, paths: Sequence[str]) -> list[str]:
    if text.startswith("re:"):
        try:
            pattern = re.compile(text.removeprefix("re:"))
        except re.error as error:
            raise UsageError(
                f"--shards {text}: {error}", hint="write a regular expression, as Python has them"
            ) from error
        return [path for path in paths if pattern.fullmatch(path)]
    globs = [re.compile(regex_of(each), re.DOTALL) for each in _globs(text.removeprefix("glob:"))]
    return [path for path in paths if any(glob.fullmatch(path) for glob in globs)]


def _globs(text: str) -> list[str]:
    return expanded(text) if has_braces(text) else [text]
