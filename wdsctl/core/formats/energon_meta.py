"""`.nv-meta`, the folder that Energon's `prepare` leaves beside shards: what the samples are, how they are split, and
how many it counted. Its index is not read (docs/decisions/0024-a-catalog-is-made-on-first-use.md says why).

Beside a file of lines it leaves an index and nothing else: to Energon such samples are crude, and divided by nobody.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core import yaml_nodes
from wdsctl.core.beneath import check_beneath
from wdsctl.core.dataset_yaml import DatasetConfig, parse
from wdsctl.core.errors import DatasetError
from wdsctl.core.formats.split_yaml import SplitYaml, parse_split_yaml
from wdsctl.core.line_files import is_lines
from wdsctl.core.place import ENERGON_META, Place
from wdsctl.core.split_rules import SplitRule
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import is_url, shown

INFO = (".info.json", ".info.yaml")
SPLIT = ("split.yaml", "split.json")
DATASET = "dataset.yaml"
LINES_INDEX = ".idx"  # behind the whole name of a file of lines


def beside(place: Place, name: str) -> list[str]:
    """Where a file of this name may be that belongs to a dataset: beside our dataset.yaml, or in Energon's folder."""
    folders = [place.meta] if is_url(place.root) else [place.meta, os.path.join(place.root, ENERGON_META)]
    return [os.path.join(folder, name) for folder in folders]


def found_beside(place: Place, name: str) -> str:
    """The first of these that is there, or else the first. Raises PermissionDenied WDS409 for a name that leads
    elsewhere: a blend file may have it.
    """
    paths = beside(place, name)
    found = next((path for path in paths if os.path.isfile(path)), paths[0])
    check_beneath(found, os.path.dirname(beside(place, "x")[paths.index(found)]))
    return found


class EnergonMeta:
    """The files of one dataset, at a path or a URL, each read when it is asked for. `only`: as in `Place`."""

    def __init__(self, root: str, storage: Storage, only: str = "") -> None:
        self._storage = storage
        self._folder = f"{root}/{ENERGON_META}"
        self._only = only
        self._lines_index = f"{root}/{only}{LINES_INDEX}" if is_lines(only) else ""

    def is_prepared(self) -> bool:
        """Whether Energon has indexed the shards: its other files may be of a folder of media."""
        if self._lines_index:
            return self._storage.exists(self._lines_index)
        return not self._only and self._first(INFO) is not None

    def is_divided(self) -> bool:
        """Whether there is a split.yaml."""
        return not self._only and self._first(SPLIT) is not None

    def config(self) -> DatasetConfig | None:
        """What dataset.yaml says; None where there is none. Raises DatasetError WDS220."""
        if self._lines_index:
            return DatasetConfig(split=SplitRule({"train": 1.0})) if self.is_prepared() else None
        path = self._first((DATASET,))
        return None if path is None else parse(self._text(path), shown(path))

    def split(self) -> SplitYaml | None:
        """What split.yaml says; None where there is none. Raises DatasetError WDS217."""
        path = None if self._only else self._first(SPLIT)  # of all the shards, and not of one
        return None if path is None else parse_split_yaml(self._text(path), shown(path))

    def counts(self) -> dict[str, int] | None:
        """Samples by shard, as Energon counted them. Raises DatasetError WDS129 where the file says something else."""
        path = None if self._only else self._first(INFO)
        if path is None:
            return None
        try:
            data = yaml_nodes.parse(self._text(path), shown(path)).data
        except DatasetError as error:
            raise _uncounted(error.message, error.where) from error
        counts = data.get("shard_counts") if isinstance(data, dict) else None
        if not isinstance(counts, dict) or not all(type(count) is int for count in counts.values()):
            raise _uncounted("there are no `shard_counts` in it", shown(path))
        return {str(name): count for name, count in counts.items()}

    def _first(self, names: tuple[str, ...]) -> str | None:
        paths = (f"{self._folder}/{name}" for name in names)
        return next((path for path in paths if self._storage.exists(path)), None)

    def _text(self, path: str) -> str:
        data = self._storage.read(path, 0, self._storage.size(path))
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DatasetError(
                f"not UTF-8: {error.reason} at byte {error.start}", where=shown(path), hint="save it as UTF-8"
            ) from error


@contextmanager
def energon_meta(root: str, only: str = "") -> Iterator[EnergonMeta]:
    """The files beside the shards of `root`, a path or a URL, or beside the `only` file in it."""
    with closing(storage_for(root)) as storage:
        yield EnergonMeta(root, storage, only)


def _uncounted(message: str, where: str) -> DatasetError:
    return DatasetError(
        f"Energon's counts of samples cannot be read: {message}",
        where=where,
        hint="`energon prepare` writes the file; without it, nothing is compared",
        code="WDS129",
    )
