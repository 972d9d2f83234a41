"""Fast construction of samples: a function per dataset that fills a sample from values in a fixed order; and
`SourceInfo`, the origin of a sample, which looks up names only when they are read.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples.base import BASE_FIELDS, PLAIN_INIT_ATTRIBUTE, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    BuildFunction = Callable[..., Any]


def make_builder(sample_type: type[Any], fields: Sequence[str]) -> BuildFunction:
    """A function `build(key, restore_key, subflavors, sources, *values)` with a value for each of `fields`, in order.

    Cost: 0.2 us per sample with two fields, a third of the constructor's, whose keyword arguments cost most. Types with
    an `__init__`, `__new__` or `__post_init__`, and types that are not an `edataclass`, go through their constructor.
    Raises UsageError if `fields` do not fit the type.
    """
    parameters = {name: f"value_{i}" for i, name in enumerate((*BASE_FIELDS, *fields))}
    scope: dict[str, Any] = {"new": object.__new__, "sample_type": sample_type}
    if issubclass(sample_type, dict):
        body = [f"sample[{name!r}] = {value}" for name, value in parameters.items()]
        return _compile_builder(list(parameters.values()), "sample_type()", body, scope)
    _check_fields(sample_type, fields)
    # `edataclass` marks a class whose constructor only sets the fields; a subclass has to be marked itself.
    is_plain = vars(sample_type).get(PLAIN_INIT_ATTRIBUTE)
    if not is_plain or not all(field.init for field in dataclasses.fields(sample_type)):
        return lambda *values: sample_type(**dict(zip(parameters, values, strict=True)))
    body = [f"sample.{name} = {value}" for name, value in parameters.items()]
    for i, field in enumerate(field for field in dataclasses.fields(sample_type) if field.name not in parameters):
        has_factory = field.default_factory is not dataclasses.MISSING
        scope[f"default_{i}"] = field.default_factory if has_factory else field.default
        body.append(f"sample.{field.name} = default_{i}{'()' if has_factory else ''}")
    return _compile_builder(list(parameters.values()), "new(sample_type)", body, scope)


def _compile_builder(parameters: Sequence[str], new: str, body: Sequence[str], scope: dict[str, Any]) -> BuildFunction:
    """A function from generated source, as dataclasses do it: a loop over the names would cost three times as much.

    The source has only identifiers and quoted strings, nothing from data.
    """
    lines = [f"def build({', '.join(parameters)}):", f" sample = {new}", *(f" {line}" for line in body)]
    exec("\n".join([*lines, " return sample"]), scope)  # noqa: S102 - see the docstring
    build: BuildFunction = scope["build"]
    return build


def _check_fields(sample_type: type[Any], fields: Sequence[str]) -> None:
    if not (dataclasses.is_dataclass(sample_type) and issubclass(sample_type, Sample)):
        raise UsageError(
            f"{sample_type.__name__} is not a sample type",
            hint="use CrudeSample, or a class that derives from Sample and is decorated with @edataclass",
        )
    known = {field.name: field for field in dataclasses.fields(sample_type) if field.init}
    unknown = [name for name in fields if name not in known]
    needed = [
        name
        for name, field in known.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    absent = [name for name in needed if name not in (*BASE_FIELDS, *fields)]
    if unknown or absent:
        raise UsageError(
            f"{sample_type.__name__} has no field {unknown[0]!r}"
            if unknown
            else f"{sample_type.__name__} needs a value for {absent[0]!r}",
            hint=f"map its fields in dataset.yaml: {', '.join(name for name in known if name not in BASE_FIELDS)}",
            code="WDS220",
        )


class SampleLocator(Protocol):
    """Looks up shard, files and bytes of a dataset's samples by index. One object per dataset."""

    @property
    def dataset_path(self) -> str: ...

    def shard_name(self, index: int) -> str: ...

    def file_names(self, index: int) -> tuple[str, ...]: ...

    def byte_range(self, index: int) -> tuple[int, int]: ...


class SourceInfo:
    """The origin of a sample: `dataset_path`, its `index` there, `shard_name`, the `file_names` of its parts, and their
    `byte_range` in the shard: (first byte, number of bytes) from the first part to the last, None if unknown.

    Compared and hashed by the first four. Pickled by value: a copy in another process needs no dataset.
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
        self._origin: SampleLocator | _KnownLocator = _KnownLocator(
            dataset_path, shard_name, tuple(file_names), byte_range
        )

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
        return _identity(self) == _identity(other) if isinstance(other, SourceInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(_identity(self))

    def __repr__(self) -> str:
        path, index, shard, files = _identity(self)
        return f"SourceInfo(dataset_path={path!r}, index={index}, shard_name={shard!r}, file_names={files!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_source_info, (*_identity(self), self.byte_range)


class _LazySourceInfo(SourceInfo):
    """A `SourceInfo` that looks everything up."""

    __slots__ = ()

    def __init__(self, origin: SampleLocator, index: int) -> None:
        self._origin = origin
        self.index = index


class _KnownLocator:
    """A locator of one sample whose facts are known."""

    __slots__ = ("_byte_range", "_file_names", "_shard_name", "dataset_path")

    def __init__(
        self, dataset_path: str, shard_name: str, file_names: tuple[str, ...], byte_range: tuple[int, int] | None
    ) -> None:
        self._byte_range = byte_range
        self.dataset_path = dataset_path
        self._shard_name = shard_name
        self._file_names = file_names

    def shard_name(self, index: int) -> str:  # noqa: ARG002 - of one sample
        return self._shard_name

    def file_names(self, index: int) -> tuple[str, ...]:  # noqa: ARG002 - of one sample
        return self._file_names

    def byte_range(self, index: int) -> tuple[int, int] | None:  # noqa: ARG002 - of one sample
        return self._byte_range


#: (locator, index) -> the origin of that sample.
lazy_source_info: Callable[[SampleLocator, int], SourceInfo] = _LazySourceInfo


def source_and_index(info: SourceInfo) -> tuple[int, int] | None:
    """(number of the source, index) of an origin that is looked up there; None if its facts are known."""
    number = getattr(info._origin, "number", None)  # noqa: SLF001 - of this module's own class
    return None if number is None else (number, info.index)


def _identity(info: SourceInfo) -> tuple[str, int, str, tuple[str, ...]]:
    return info.dataset_path, info.index, info.shard_name, info.file_names


def _rebuild_source_info(
    dataset_path: str,
    index: int,
    shard_name: str,
    file_names: tuple[str, ...],
    byte_range: tuple[int, int] | None = None,
) -> SourceInfo:
    return SourceInfo(
        dataset_path=dataset_path, index=index, shard_name=shard_name, file_names=file_names, byte_range=byte_range
    )
