"""Batches of samples that are alike in length or shape, without code: a batch_group_criterion that is made to order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.packing.cutting import fields_of
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.worker_config import whole

ABOVE = "above"  # the bucket of what is larger than the last edge

#: Column of a source by its number and the column's name, by row.
Columns = Callable[[int, str], Any]
Group = tuple[float | str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Samples are batched with others of their bucket: up to the first edge, up to the second, ..., and above the last.

    `of`: "length", the first dimension of the sample's first tensor or array that has one dimension, or else the length
    of its first list, string or bytes; "aspect_ratio", width by height of its first image (C, H, W); the name of a
    column of the catalog; or a function of the sample that gives a number, or (width, height) for their ratio.
    `edges` ascend. How large a batch is: `sizes[edge]`, and `sizes["above"]`; or `max_tokens // edge`, at least 1, with
    batches of one above the last edge; or, for edges that `sizes` lacks and with neither, the dataset's batch_size.
    Raises UsageError for anything else.
    """

    of: str | Callable[[Any], Any] = "length"
    edges: Sequence[float]
    sizes: Mapping[Any, int] | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        edges = tuple(self.edges)
        object.__setattr__(self, "edges", edges)
        if not edges or not all(map(_is_positive, edges)):
            raise UsageError(f"the edges of buckets are {list(edges)}", hint="give numbers above 0, at least one")
        if any(low >= high for low, high in pairwise(edges)):
            raise UsageError(f"the edges of buckets do not ascend: {list(edges)}", hint="sort them")
        if not self.of or not (isinstance(self.of, str) or callable(self.of)):
            raise UsageError(
                f"buckets are of {self.of!r}", hint="give 'length', 'aspect_ratio', a column's name or a function"
            )
        if self.sizes is not None and self.max_tokens is not None:
            raise UsageError("buckets have sizes and max_tokens", hint="give one of them")
        if self.max_tokens is not None and whole("max_tokens", self.max_tokens) < 1:
            raise UsageError(f"max_tokens is {self.max_tokens}", hint="give 1 or more")
        for edge, size in (self.sizes or {}).items():
            if edge not in (*edges, ABOVE):
                raise UsageError(f"there is a size for {edge!r}, which is no edge", hint=f"edges are {list(edges)}")
            if whole("a size", size) < 1:
                raise UsageError(f"the size of bucket {edge!r} is {size}", hint="give 1 or more")

    @property
    def unsized(self) -> list[Any]:
        """The buckets whose batches are as large as the dataset's batch_size says."""
        return [edge for edge in (*self.edges, ABOVE) if self._size(edge) is None]

    @property
    def column(self) -> str | None:
        """The column that the buckets are of, if they are of one."""
        return self.of if isinstance(self.of, str) and self.of not in NATURAL else None

    def criterion(self, columns: Columns | None = None) -> Callable[[Any], Group]:
        """A `batch_group_criterion`: (bucket, batch size) of a sample. `columns`: where a column's values are found."""
        measure = self._measure(columns)
        table = {edge: self._size(edge) for edge in (*self.edges, ABOVE)}

        def batch_group_criterion(sample: Any) -> Group:
            at = bisect_left(self.edges, measure(sample))
            bucket = self.edges[at] if at < len(self.edges) else ABOVE
            return bucket, table[bucket]

        return batch_group_criterion

    def config(self) -> dict[str, Any]:
        """JSON for the recipe's tier of the fingerprint. A function goes by name."""
        of = self.of if isinstance(self.of, str) else f"{self.of.__module__}.{self.of.__qualname__}"
        sizes = None if self.sizes is None else {str(edge): size for edge, size in self.sizes.items()}
        return {"of": of, "edges": list(self.edges), "sizes": sizes, "max_tokens": self.max_tokens}

    def _size(self, edge: Any) -> int | None:
        if self.max_tokens is not None:
            return 1 if edge == ABOVE else max(1, int(self.max_tokens // edge))
        return None if self.sizes is None else self.sizes.get(edge)

    def _measure(self, columns: Columns | None) -> Callable[[Any], float]:
        if isinstance(self.of, str):
            return NATURAL[self.of] if self.of in NATURAL else _of_column(self.of, columns)
        function = self.of

        def measured(sample: Any) -> float:
            made = function(sample)
            return _ratio(made) if isinstance(made, (tuple, list)) else made

        return measured


def natural_length(sample: Any) -> int:
    """The length of a sample: see `Buckets`. Raises SampleFailed where it has none."""
    fields = _own(sample)
    for field in fields:
        shape = _shape(field)
        if len(shape) == 1:
            return int(shape[0])
    for field in fields:
        if isinstance(field, (list, str, bytes)):
            return len(field)
    raise SampleFailed("the sample has no field with a length", hint="give a function as `of`")


def aspect_ratio(sample: Any) -> float:
    """Width by height of the first image of a sample, a tensor or array (C, H, W). Raises SampleFailed without one."""
    for field in _own(sample):
        shape = _shape(field)
        if len(shape) == 3:
            return _ratio((shape[2], shape[1]))
    raise SampleFailed(
        "the sample has no image of three dimensions", hint="give a function as `of` that returns (width, height)"
    )


NATURAL: dict[str, Callable[[Any], float]] = {"length": natural_length, "aspect_ratio": aspect_ratio}


def _of_column(name: str, columns: Columns | None) -> Callable[[Any], float]:
    if columns is None:
        raise UsageError(
            f"buckets of the column {name!r}, and there are no columns here", hint="give a function of the sample"
        )
    found = columns

    def measured(sample: Any) -> float:
        base = sample if isinstance(sample, dict) else {n: getattr(sample, n, None) for n in BASE_FIELDS}
        restore_key, sources = base.get("__restore_key__"), base.get("__sources__")
        if not restore_key or not sources or not isinstance(restore_key[0], int):
            raise SampleFailed(
                f"the sample does not say where it comes from, so that its {name!r} cannot be found",
                hint="keep __restore_key__ and __sources__ in hooks (derive_from), or give a function",
            )
        return int(found(restore_key[0], name)[sources[0].index])

    return measured


def _shape(field: Any) -> Sequence[int]:
    found: Sequence[int] = getattr(field, "shape", ())
    return found


def _is_positive(edge: Any) -> bool:
    return isinstance(edge, (int, float)) and edge > 0


def _ratio(size: Sequence[float]) -> float:
    width, height = size
    if not height:
        raise SampleFailed("an image without height has no aspect ratio", hint="leave such samples out")
    return float(width) / float(height)


def _own(sample: Any) -> list[Any]:
    fields = fields_of(sample)
    return [field for name, field in fields.items() if name not in BASE_FIELDS] if fields else [sample]
