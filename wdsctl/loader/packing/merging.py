"""What a pack is where nobody overrides `pack_selected_samples`: its samples end to end, and where each one begins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.packing.cutting import fields_of
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample

CU_LENGTHS = "cu_lengths"
VALUES = "values"  # the field that bare tensors become


class Measured(list[Any]):
    """The samples of a pack, with the lengths that they were planned with by the first budget."""

    lengths: Sequence[int] | None = None


def merge(values: Sequence[Any], lengths: Sequence[int] | None = None) -> CrudeSample:
    """Samples as one: the default `pack_selected_samples`.

    Fields that are tensors with the sample's length as their first dimension are joined along it. All other fields
    become lists, an entry a sample. `cu_lengths`, int32 (samples + 1,), says where each sample begins and the last one
    ends, as attention over packed sequences wants it. `__key__` are the keys joined by ",", `__restore_key__` a tuple
    of the restore keys, `__sources__` all sources, and `__subflavors__` the labels on which all samples agree. Bare
    tensors become the field `values`. `lengths` are those of `Measured` where they are not given, or else the first
    dimensions of the first field that is a tensor.

    Raises LoaderError (WDS506) where the samples have other fields than the first, or no tensor of their length.
    """
    if not values:
        raise LoaderError("a pack of no samples", hint="give at least one sample", code="WDS506")
    rows = [{VALUES: value} if isinstance(value, torch.Tensor) else fields_of(value) for value in values]
    names = [name for name in rows[0] if name not in BASE_FIELDS]
    for value, row in zip(values, rows, strict=True):
        if row.keys() != rows[0].keys() or not names:
            raise _unlike(type(value).__name__, rows[0].keys() ^ row.keys())
    known = lengths if lengths is not None else getattr(values, "lengths", None)
    sizes = list(known) if known is not None else _sizes(rows, names)
    columns = {name: [row[name] for row in rows] for name in names}
    joined = {name: torch.cat(column) for name, column in columns.items() if _are_rows(column, sizes)}
    if not joined:
        raise LoaderError(
            f"no field of the samples of a pack is a tensor of their lengths, which are {_shown(sizes)}",
            where=f"samples {_shown([row.get('__key__', '?') for row in rows])}",
            hint="make such tensors in encode_sample, or override pack_selected_samples",
            code="WDS506",
        )
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return CrudeSample({**_base(rows), **columns, **joined, CU_LENGTHS: torch.from_numpy(ends.astype(np.int32))})


def _sizes(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[int]:
    for name in names:
        if all(isinstance(row[name], torch.Tensor) and row[name].ndim for row in rows):
            return [len(row[name]) for row in rows]
    return [-1] * len(rows)


def _are_rows(column: Sequence[Any], sizes: Sequence[int]) -> bool:
    """Whether these are tensors of the sizes that can be joined."""
    if not all(isinstance(value, torch.Tensor) and value.ndim for value in column):
        return False
    first = column[0]
    return all(
        len(value) == size and value.shape[1:] == first.shape[1:] and value.dtype == first.dtype
        for value, size in zip(column, sizes, strict=True)
    )


def _base(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The base fields of a pack, of samples that have them."""
    if any("__key__" not in row for row in rows):
        return {}
    subflavors = [row.get("__subflavors__") or {} for row in rows]
    shared = {
        name: label
        for name, label in subflavors[0].items()
        if all(name in other and other[name] == label for other in subflavors[1:])
    }
    return {
        "__key__": ",".join(str(row["__key__"]) for row in rows),
        "__restore_key__": tuple(row.get("__restore_key__", ()) for row in rows),
        "__subflavors__": shared,
        "__sources__": tuple(chain.from_iterable(row.get("__sources__") or () for row in rows)) or None,
    }


def _unlike(kind: str, names: set[str]) -> LoaderError:
    what = f"fields {_shown(sorted(names))}, which others of the pack have not" if names else f"no fields: {kind}"
    return LoaderError(
        f"samples cannot be packed: there is one with {what}",
        hint="make them alike in encode_sample, or override pack_selected_samples",
        code="WDS506",
    )


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:3])) + (f" and {len(values) - 3} more" if len(values) > 3 else "")
