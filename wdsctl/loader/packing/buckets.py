"""Batches samples of similar length or shape without user code: builds a `batch_group_criterion` from options."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wdsctl.core.errors import SampleFailed, UsageError, require_int
from wdsctl.loader.packing.merging import field_values
from wdsctl.loader.runtime.identity import qualified_name
from wdsctl.loader.samples import BASE_FIELDS

ABOVE_LAST_EDGE = "above"  # the bucket of samples above the last edge

#: (number of a source, name of a column) -> the column's values by row.
ColumnLookup = Callable[[int, str], Any]
BucketGroup = tuple[float | str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Options for batching samples by bucket: up to the first edge, up to the second, ..., and above the last.

    `of`: "length", the first dimension of the sample's first tensor or array that has one dimension, or else the length
    of its first list, string or bytes; "aspect_ratio", width by height of its first image (C, H, W); the name of a
    column of the catalog; or a function of the sample that returns a number, or (width, height) for their ratio.
    `edges` ascend. The size of a batch is `sizes[edge]`, and `sizes["above"]`; or `max_tokens // edge`, at least 1,
    with batches of one above the last edge; or, for edges that `sizes` lacks and with neither, the dataset's
    batch_size. Raises UsageError for anything else.
    """

    of: str | Callable[[Any], Any] = "length"
    edges: Sequence[float]
    sizes: Mapping[Any, int] | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        edges = tuple(self.edges)
        object.__setattr__(self, "edges", edges)
        if not edges or not all(map(_is_positive, edges)):
            raise UsageError(
                f"bucket edges are {list(edges)}, expected numbers above 0",
                hint="pass at least one number, and only numbers above 0",
            )
        if any(low >= high for low, high in pairwise(edges)):
            raise UsageError(
                f"bucket edges must ascend, found {list(edges)}",
                hint="sort the edges in ascending order, and remove duplicates",
            )
        if not self.of or not (isinstance(self.of, str) or callable(self.of)):
            raise UsageError(
                f"Buckets: of={self.of!r} is not supported",
                hint="pass 'length', 'aspect_ratio', a column's name or a function",
            )
        if self.sizes is not None and self.max_tokens is not None:
            raise UsageError("sizes and max_tokens exclude each other", hint="pass only one of them")
        if self.max_tokens is not None and require_int("max_tokens", self.max_tokens) < 1:
            raise UsageError(f"max_tokens is {self.max_tokens}, expected 1 or more", hint="give 1 or more")
        for edge, size in (self.sizes or {}).items():
            if edge not in (*edges, ABOVE_LAST_EDGE):
                raise UsageError(
                    f"sizes has an entry for {edge!r}, which is not an edge", hint=f"edges are {list(edges)}"
                )
            if require_int("a size", size) < 1:
                raise UsageError(
                    f"the batch size of bucket {edge!r} is {size}, expected 1 or more", hint="give 1 or more"
                )

    @property
    def edges_without_size(self) -> list[Any]:
        """The buckets whose batches have the dataset's batch_size."""
        return [edge for edge in (*self.edges, ABOVE_LAST_EDGE) if self._batch_size(edge) is None]

    @property
    def column(self) -> str | None:
        """The column that the buckets use, if they use one."""
        return self.of if isinstance(self.of, str) and self.of not in SAMPLE_MEASURES else None

    def criterion(self, column_lookup: ColumnLookup | None = None) -> Callable[[Any], BucketGroup]:
        """A `batch_group_criterion`: (bucket, batch size) of a sample. `column_lookup`: returns a column's values."""
        measure = self._measure(column_lookup)
        table = {edge: self._batch_size(edge) for edge in (*self.edges, ABOVE_LAST_EDGE)}

        def batch_group_criterion(sample: Any) -> BucketGroup:
            at = bisect_left(self.edges, measure(sample))
            bucket = self.edges[at] if at < len(self.edges) else ABOVE_LAST_EDGE
            return bucket, table[bucket]

        return batch_group_criterion

    def config(self) -> dict[str, Any]:
        """The options as JSON for the recipe's tier of the fingerprint. A function is given by name."""
        of = self.of if isinstance(self.of, str) else qualified_name(self.of)
        sizes = None if self.sizes is None else {str(edge): size for edge, size in self.sizes.items()}
        return {"of": of, "edges": list(self.edges), "sizes": sizes, "max_tokens": self.max_tokens}

    def _batch_size(self, edge: Any) -> int | None:
        if self.max_tokens is not None:
            return 1 if edge == ABOVE_LAST_EDGE else max(1, int(self.max_tokens // edge))
        return None if self.sizes is None else self.sizes.get(edge)

    def _measure(self, column_lookup: ColumnLookup | None) -> Callable[[Any], float]:
        if isinstance(self.of, str):
            return SAMPLE_MEASURES[self.of] if self.of in SAMPLE_MEASURES else _column_measure(self.of, column_lookup)
        function = self.of

        def measured(sample: Any) -> float:
            value = function(sample)
            return _width_by_height(value) if isinstance(value, (tuple, list)) else value

        return measured


def sample_length(sample: Any) -> int:
    """The length of a sample: see `Buckets`. Raises SampleFailed if it has none."""
    fields = _own_fields(sample)
    for field in fields:
        shape = _array_shape(field)
        if len(shape) == 1:
            return int(shape[0])
    for field in fields:
        if isinstance(field, (list, str, bytes)):
            return len(field)
    raise SampleFailed("no field of the sample has a length", hint="pass a function as `of`")


def aspect_ratio(sample: Any) -> float:
    """The ratio of width to height of a sample's first image, a tensor or array (C, H, W). Raises SampleFailed without
    one."""
    for field in _own_fields(sample):
        shape = _array_shape(field)
        if len(shape) == 3:
            return _width_by_height((shape[2], shape[1]))
    raise SampleFailed(
        "the sample has no image of three dimensions", hint="pass a function that returns (width, height) as `of`"
    )


SAMPLE_MEASURES: dict[str, Callable[[Any], float]] = {"length": sample_length, "aspect_ratio": aspect_ratio}


def _column_measure(name: str, column_lookup: ColumnLookup | None) -> Callable[[Any], float]:
    if column_lookup is None:
        raise UsageError(
            f"Buckets: of={name!r} is a column, but columns are not available here",
            hint="pass a function of the sample",
        )
    found = column_lookup

    def measured(sample: Any) -> float:
        base = sample if isinstance(sample, dict) else {n: getattr(sample, n, None) for n in BASE_FIELDS}
        restore_key, sources = base.get("__restore_key__"), base.get("__sources__")
        if not restore_key or not sources or not isinstance(restore_key[0], int):
            raise SampleFailed(
                f"the column {name!r} has no value for the sample: its __restore_key__ or __sources__ is missing",
                hint="keep both fields in hooks (derive_from), or pass a function as `of`",
            )
        return int(found(restore_key[0], name)[sources[0].index])

    return measured


def _array_shape(field: Any) -> Sequence[int]:
    found: Sequence[int] = getattr(field, "shape", ())
    return found


def _is_positive(edge: Any) -> bool:
    return isinstance(edge, (int, float)) and edge > 0


def _width_by_height(size: Sequence[float]) -> float:
    width, height = size
    if not height:
        raise SampleFailed(
            "an image without height has no aspect ratio",
            hint="exclude such samples: raise SkipSample for them in encode_sample",
        )
    return float(width) / float(height)


def _own_fields(sample: Any) -> list[Any]:
    fields = field_values(sample)
    return [field for name, field in fields.items() if name not in BASE_FIELDS] if fields else [sample]
