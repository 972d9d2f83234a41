"""Where a sample's bytes came from. Made for every sample, read for few: the names are looked up when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Origin(Protocol):
    """A dataset that can name what lies at a place in it. One object for all of its samples."""

    @property
    def dataset_path(self) -> str: ...

    def shard_name(self, index: int) -> str: ...

    def file_names(self, index: int) -> tuple[str, ...]: ...

    def byte_range(self, index: int) -> tuple[int, int]: ...


class SourceInfo:
    """`dataset_path`, the sample's `index` in it, its `shard_name`, the `file_names` of its parts, and the `byte_range`
    of them in the shard: (first byte, how many), from the first part to the last; None where it is not known.

    Equal and hashed by the first four. Pickles by value: a copy in another process needs no dataset.
    """

    __slots__ = ("_origin", "index")

    def __init__(
        self,
        *,
        dataset_path: str,
        index: int,
        shard_name: str,
        file_names: tuple[str, ...],
        byte_range: tuple[int, int] | None = None,
    ) -> None:
        self.index = index
        self._origin: Origin | _Known = _Known(dataset_path, shard_name, tuple(file_names), byte_range)

    @property
    def dataset_path(self) -> str:
        return self._origin.dataset_path

    @property
    def shard_name(self) -> str:
        return self._origin.shard_name(self.index)

    @property
    def file_names(self) -> tuple[str, ...]:
        return self._origin.file_names(self.index)

    @property
    def byte_range(self) -> tuple[int, int] | None:
        return self._origin.byte_range(self.index)

    def __eq__(self, other: object) -> bool:
        return _facts(self) == _facts(other) if isinstance(other, SourceInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(_facts(self))

    def __repr__(self) -> str:
        path, index, shard, files = _facts(self)
        return f"SourceInfo(dataset_path={path!r}, index={index}, shard_name={shard!r}, file_names={files!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (*_facts(self), self.byte_range)


class _Lazy(SourceInfo):
    """The same with a constructor that only keeps what it is given."""

    __slots__ = ()

    def __init__(self, origin: Origin, index: int) -> None:
        self._origin = origin
        self.index = index


class _Known:
    """An origin of one sample whose names are known already."""

    __slots__ = ("_byte_range", "_file_names", "_shard_name", "dataset_path")

    def __init__(
        self, dataset_path: str, shard_name: str, file_names: tuple[str, ...], byte_range: tuple[int, int] | None
    ) -> None:
        self._byte_range = byte_range
        self.dataset_path = dataset_path
        self._shard_name = shard_name
        self._file_names = file_names

    def shard_name(self, index: int) -> str:  # noqa: ARG002 - there is only the one
        return self._shard_name

    def file_names(self, index: int) -> tuple[str, ...]:  # noqa: ARG002 - there is only the one
        return self._file_names

    def byte_range(self, index: int) -> tuple[int, int] | None:  # noqa: ARG002 - there is only the one
        return self._byte_range


#: The source of the sample at an index of an origin, which asks the origin for the names when they are read.
source_at: Callable[[Origin, int], SourceInfo] = _Lazy


def numbered(info: SourceInfo) -> tuple[int, int] | None:
    """The number of the source that an info asks for its names, and its index there; None where it knows them."""
    number = getattr(info._origin, "number", None)  # noqa: SLF001 - of this module's own class
    return None if number is None else (number, info.index)


def _facts(info: SourceInfo) -> tuple[str, int, str, tuple[str, ...]]:
    return info.dataset_path, info.index, info.shard_name, info.file_names


def _rebuild(
    dataset_path: str,
    index: int,
    shard_name: str,
    file_names: tuple[str, ...],
    byte_range: tuple[int, int] | None = None,
) -> SourceInfo:
    return SourceInfo(
        dataset_path=dataset_path, index=index, shard_name=shard_name, file_names=file_names, byte_range=byte_range
    )
