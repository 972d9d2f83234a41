"""The datasets that a blend file names: how many samples a split of each has, and how many tokens these are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import Members
from wdsctl.core.catalog.quick import refuse_media_folder
from wdsctl.core.errors import InputError
from wdsctl.core.place import Place
from wdsctl.core.verbs.locate_sample import chosen_of, open_root

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOKENS = "tokens"  # the column that weights in tokens go by


@dataclass(frozen=True, slots=True)
class Found:
    """The samples [first, first + samples) of one split of a dataset."""

    place: Place
    generation: int
    members: Members
    samples: int
    first: int = 0

    def part(self, start: int, stop: int) -> Found:
        return replace(self, first=self.first + start, samples=stop - start)

    def tokens(self) -> int:
        """Of these samples, by the column `tokens`. Raises InputError WDS310, CatalogError WDS311 and WDS314."""
        from wdsctl.core.columns import open_column
        from wdsctl.core.offsets import Offsets

        offsets = Offsets(self.place.offsets(self.generation))
        lengths = open_column(self.place, TOKENS, self.generation, shards=offsets.shards)
        total, before = 0, 0
        for i, shard in enumerate(offsets.shards):
            if shard.id not in self.members.shards:
                continue
            first = int(offsets.shard_row[i])
            chosen = _chosen(lengths[first : first + shard.samples], self.members.shards[shard.id])
            low, high = max(self.first - before, 0), max(self.first + self.samples - before, 0)
            total += int(chosen[low:high].sum())
            before += len(chosen)
        return total


class Sources:
    """Datasets by path and split, each looked at once."""

    def __init__(self, catalog: str | None) -> None:
        self._catalog = catalog
        self._found: dict[tuple[str, str, str], Found] = {}

    def find(self, path: str, split: str, split_config: str = "") -> Found:
        """`split_config`: the file that the split is in, where it is not in the catalog.

        Raises what a missing dataset, catalog or split raises: InputError, CatalogError, PermissionDenied; DatasetError
        WDS217 where the file is wrong.
        """
        name = (path, split, split_config)
        if name not in self._found:
            self._found[name] = self._open(*name)
        return self._found[name]

    def _open(self, path: str, split: str, split_config: str) -> Found:
        place, view = open_root(path, self._catalog)
        refuse_media_folder(place.catalog)
        with Browser(place.catalog) as browser:
            members = _of_file(place, view, split, split_config) if split_config else None
            members = members or chosen_of(place, browser, view, split)
            generation = browser.generation
            samples = 0 if members is None else members.count(browser.shard_samples())
        if members is None or not samples:
            hint = "`wdsctl inspect DATASET` shows what each split has"
            raise InputError(f"the split {split!r} has no samples", where=place.shown, hint=hint, code="WDS211")
        return Found(place, generation, members, samples)


def _of_file(place: Place, view: str, split: str, name: str) -> Members:
    from wdsctl.core.selections import intersected, selected
    from wdsctl.core.split_file import split_file, split_of_file

    _, parts = split_of_file(place, split_file(place, name), split)
    found = {part.shard: part for part in parts}
    if view:
        found = intersected(found, selected(place, view))
    return Members({shard: part.bits for shard, part in found.items()})


def _chosen(values: NDArray[np.int64], bits: bytes | None) -> NDArray[np.int64]:
    import numpy as np

    if bits is None:
        return values
    return values[np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(values)].astype(np.bool_)]
