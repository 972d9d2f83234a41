"""Reads `.nv-meta`, the folder that Energon's `prepare` writes beside shards: sample type, splits and sample counts.

Its index is not read (docs/decisions/0024-a-catalog-is-made-on-first-use.md says why). For a JSONL file Energon writes
only an index: its samples are crude and have no splits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.dataset.config import DatasetConfig, parse_config
from wdsctl.core.dataset.location import ENERGON_INFO_FILES, ENERGON_META_FOLDER, DatasetLocation
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.energon.split_yaml import SplitYaml, parse_split_yaml
from wdsctl.core.errors import DatasetError
from wdsctl.core.file_limits import check_whole_size
from wdsctl.core.safe_open import check_beneath
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.urls import is_signed, is_url, redact_secrets
from wdsctl.core.yaml_files.document import parse_yaml

SPLIT_FILES = ("split.yaml", "split.json")
DATASET_FILE = "dataset.yaml"
JSONL_INDEX_SUFFIX = ".idx"  # appended to the full name of a JSONL file


def meta_file_candidates(location: DatasetLocation, name: str) -> list[str]:
    """The possible paths of a dataset's metadata file: beside dataset.yaml, or in Energon's folder."""
    folders = (
        [location.meta] if is_url(location.root) else [location.meta, os.path.join(location.root, ENERGON_META_FOLDER)]
    )
    return [os.path.join(folder, name) for folder in folders]


def find_meta_file(location: DatasetLocation, name: str) -> str:
    """The first candidate that exists, or else the first one.

    Raises PermissionDenied WDS409 for a name that leads out of the folder: it may come from a blend file.
    """
    paths = meta_file_candidates(location, name)
    found = next((path for path in paths if os.path.isfile(path)), paths[0])
    check_beneath(found, os.path.dirname(meta_file_candidates(location, "x")[paths.index(found)]))
    return found


class EnergonMeta:
    """The metadata of one dataset at a path or URL, read on access. `single_file`: as in `DatasetLocation`."""

    def __init__(self, root: str, storage: Storage, single_file: str = "") -> None:
        self._storage = storage
        self._folder = f"{root}/{ENERGON_META_FOLDER}"
        self._single_file = single_file
        # The signature of a URL is that of one file, not of files beside it.
        self._has_neighbours = not is_signed(root)
        has_index = is_jsonl_name(single_file) and self._has_neighbours
        self._jsonl_index_path = f"{root}/{single_file}{JSONL_INDEX_SUFFIX}" if has_index else ""

    def is_prepared(self) -> bool:
        """Whether Energon has indexed the shards. Its other files also exist in folders of media."""
        if self._jsonl_index_path:
            return self._storage.exists(self._jsonl_index_path)
        return not self._single_file and self._first(ENERGON_INFO_FILES) is not None

    def has_split(self) -> bool:
        """Whether there is a split.yaml."""
        return not self._single_file and self._first(SPLIT_FILES) is not None

    def config(self) -> DatasetConfig | None:
        """dataset.yaml; None if there is none. Raises DatasetError WDS220."""
        if self._jsonl_index_path:
            return DatasetConfig(split=SplitRule({"train": 1.0})) if self.is_prepared() else None
        path = self._first((DATASET_FILE,))
        return None if path is None else parse_config(self._text(path), redact_secrets(path))

    def split(self, name: str = "") -> SplitYaml | None:
        """The splits of this file, by default split.yaml; None if there is none. Raises DatasetError WDS217."""
        files = (name,) if name else SPLIT_FILES
        path = None if self._single_file else self._first(files)  # for all shards, not for one
        return None if path is None else parse_split_yaml(self._text(path), redact_secrets(path))

    def counts(self) -> dict[str, int] | None:
        """Samples by shard, as Energon counted them. Raises DatasetError WDS129 if the file has no counts."""
        path = None if self._single_file else self._first(ENERGON_INFO_FILES)
        if path is None:
            return None
        try:
            data = parse_yaml(self._text(path), redact_secrets(path)).data
        except DatasetError as error:
            raise _counts_error(error.message, error.where) from error
        counts = data.get("shard_counts") if isinstance(data, dict) else None
        if not isinstance(counts, dict) or not all(type(count) is int for count in counts.values()):
            raise _counts_error("it has no `shard_counts`", redact_secrets(path))
        return {str(name): count for name, count in counts.items()}

    def _first(self, names: tuple[str, ...]) -> str | None:
        paths = (f"{self._folder}/{name}" for name in names if self._has_neighbours)
        return next((path for path in paths if self._storage.exists(path)), None)

    def _text(self, path: str) -> str:
        size = self._storage.size(path)
        check_whole_size(size, path)
        data = self._storage.read(path, 0, size)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DatasetError(
                f"not UTF-8: {error.reason} at byte {error.start}",
                where=redact_secrets(path),
                hint="save the file as UTF-8",
            ) from error


@contextmanager
def energon_meta(root: str, single_file: str = "") -> Iterator[EnergonMeta]:
    """Open the metadata of a root, a path or URL, or of the `single_file` in it."""
    with closing(storage_for(root)) as storage:
        yield EnergonMeta(root, storage, single_file)


def _counts_error(message: str, where: str) -> DatasetError:
    return DatasetError(
        f"cannot read Energon's sample counts: {message}",
        where=where,
        hint="run `energon prepare` to write the file again; or move the file away to skip the comparison of counts",
        code="WDS129",
    )
