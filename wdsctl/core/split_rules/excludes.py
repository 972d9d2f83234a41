"""What no split contains, as options name it, and as the catalog and dataset.yaml store it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Excludes:
    """What no split contains: shards by pattern, samples as SHARD/KEY, keys, key files, and codes of findings."""

    shards: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def merged_with(self, more: Excludes) -> Excludes:
        """Return the entries of both, without duplicates."""
        both = {
            each.name: tuple(dict.fromkeys((*getattr(self, each.name), *getattr(more, each.name))))
            for each in fields(self)
        }
        return Excludes(**both)


def excludes_to_plain(excludes: Excludes) -> dict[str, list[str]]:
    """Return the non-empty excludes, as lists."""
    return {name: list(entries) for name, entries in asdict(excludes).items() if entries}


def excludes_from_plain(plain: Mapping[str, Iterable[str]]) -> Excludes:
    """Build excludes from the output of `excludes_to_plain`. Raises TypeError for other values."""
    return Excludes(**{name: tuple(entries) for name, entries in plain.items()})
