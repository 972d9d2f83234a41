"""One field of several samples: tensors become one tensor, and everything else a list."""

from __future__ import annotations

import dataclasses
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.stacking import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wdsctl.loader.decoding import BatchMemory


#: What most fields hold: looked at no further.
LISTED = frozenset({bytes, str, int, float, bool, type(None), list, memoryview})


def column(values: Sequence[Any], *, field: str = "", memories: Sequence[BatchMemory] = ()) -> Any:
    """The values of one field as a batch has them.

    Tensors are stacked (see `stacked`). Dicts, dataclasses and named tuples that hold tensors stay what they are, with
    each of their fields batched. All else is a list: numbers, strings, arrays, lists of tensors, dicts of JSON.
    Raises LoaderError (WDS506), which names the field, where tensors stand beside other things or do not stack.
    """
    kinds = set(map(type, values))
    if kinds <= LISTED:
        return list(values)
    tensors = {kind for kind in kinds if issubclass(kind, torch.Tensor)}
    if tensors and tensors != kinds:
        odd = next(kind for kind in kinds if kind not in tensors)
        raise LoaderError(
            f"field '{field}' is a tensor in some samples and {_named(odd)} in others",
            where=f"field '{field}'",
            hint="make it a tensor in all samples in encode_sample, or override batch",
            code="WDS506",
        )
    if tensors:
        return stacked(values, field=field, memories=memories)
    if len(kinds) == 1 and is_structure(values[0]) and any(map(_holds_tensors, values)):
        return structure(values, field=field, memories=memories)
    return list(values)


def gather(samples: Sequence[Any], name: str) -> list[Any]:
    """The values of one field, of those samples that have it."""
    is_dict = isinstance(samples[0], dict)
    try:
        return list(map(itemgetter(name) if is_dict else attrgetter(name), samples))
    except KeyError:
        return [sample[name] for sample in samples if name in sample]
    except AttributeError:
        return [getattr(sample, name) for sample in samples if hasattr(sample, name)]


def structure(values: Sequence[Any], *, field: str = "", memories: Sequence[BatchMemory] = ()) -> Any:
    """Dicts, dataclasses or named tuples of one type as one of that type, with every field a column."""
    rows = [fields_of(value) for value in values]
    names = rows[0].keys()
    for row in rows:
        if row.keys() != names:
            raise missing(next(iter(row.keys() ^ names)), within=field)
    prefix = f"{field}." if field else ""
    columns = {name: column([row[name] for row in rows], field=prefix + name, memories=memories) for name in names}
    return type(values[0])(**columns) if not isinstance(values[0], dict) else columns


def is_structure(value: Any) -> bool:
    return isinstance(value, dict) or dataclasses.is_dataclass(value) or is_named_tuple(value)


def is_named_tuple(value: Any) -> TypeGuard[Any]:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a structure by name. The dict is the value itself where that is one."""
    if isinstance(value, dict):
        return value
    if is_named_tuple(value):
        return dict(zip(value._fields, value, strict=True))
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def missing(name: str, *, within: str = "") -> LoaderError:
    place = f"{within}.{name}" if within else name
    return LoaderError(
        f"'{place}' is in some samples of the batch and not in others",
        where=f"field '{place}'",
        hint="complete it in encode_sample, or override batch",
        code="WDS506",
    )


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    return is_structure(value) and any(map(_holds_tensors, fields_of(value).values()))


def _named(kind: type) -> str:
    return "None" if kind is type(None) else f"of type {kind.__name__}"
