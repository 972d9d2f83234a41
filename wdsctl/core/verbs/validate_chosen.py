"""Which shards `validate --shards` means, of the dataset or of what is in quarantine."""

from __future__ import annotations

from collections.abc import Sequence

from wdsctl.core.bounded_match import whole_path
from wdsctl.core.braces import expanded, has_braces
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.errors import UsageError
from wdsctl.core.selected_shards import regex_of
from wdsctl.core.units import ShardFile

IN_QUARANTINE = "in quarantine"


def chosen_shards(shards: Sequence[ShardFile], rows: Sequence[ShardRow], patterns: Sequence[str]) -> list[ShardFile]:
    """The shards whose path one of the patterns matches. Raises UsageError where one of them matches none."""
    if not patterns:
        return list(shards)
    paths = [*(shard.path for shard in shards), *(row.path for row in rows)]
    chosen = matched(paths, patterns, f"of the {len(shards):,}")
    return [shard for shard in shards if shard.path in chosen]


def matched(paths: Sequence[str], patterns: Sequence[str], among: str) -> set[str]:
    """The paths that one of the patterns matches. Raises UsageError where a pattern matches none; `among`: of which."""
    chosen: set[str] = set()
    for text in patterns:
        found = matching(text, paths)
        if not found:
            raise UsageError(
                f"--shards {text}: no shard {among} matches",
                hint="a path below ROOT, a glob such as 'train/*.tar', a brace range, or re:REGEX of the whole path",
            )
        chosen.update(found)
    return chosen


def matching(text: str, paths: Sequence[str]) -> list[str]:
    """The paths that one pattern matches. Raises UsageError where it is no regular expression."""
    if text.startswith("re:"):
        import regex

        try:
            matches = whole_path(text.removeprefix("re:"), text)
        except regex.error as error:
            raise UsageError(
                f"--shards {text}: {error}", hint="write a regular expression, as Python has them"
            ) from error
        return [path for path in paths if matches(path)]
    globs = [whole_path(regex_of(each), text) for each in _globs(text.removeprefix("glob:"))]
    return [path for path in paths if any(glob(path) for glob in globs)]


def _globs(text: str) -> list[str]:
    return expanded(text) if has_braces(text) else [text]
