"""Numbers of the samples of a dataset, for packing and balancing: by row of its offsets file, mapped and shared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wdsctl.core.columns import find_column, open_column
from wdsctl.core.place import Place
from wdsctl.core.shard_index import IndexedShard, Ints


def column_of(place: Place, generation: int, name: str, *, shards: Sequence[IndexedShard] | None = None) -> Ints:
    """(samples,): the numbers of column `name` as `generation` of the dataset has them; `block.rows[i]` is an index.

    `shards` are those of the offsets file that the rows are of. The array is read-only, and does not go to another
    process by value without being copied: workers open it themselves. Raises InputError WDS310 where there is no such
    column, CatalogError WDS314 where it is out of date, WDS311 where it is damaged. Cost: the header.
    """
    return open_column(place, name, generation, shards=shards)


def digests_of(place: Place, generation: int, names: Iterable[str]) -> dict[str, str]:
    """What names the numbers of these columns: a plan that packs by them is another plan where they are others.

    Raises what `column_of` raises. Cost: the headers.
    """
    return {name: find_column(place, name, generation).facts.digest for name in names}
