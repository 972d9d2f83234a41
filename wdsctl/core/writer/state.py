"""What a writer leaves in `.wdsctl/writer` for the run that continues it: its options, and how far each rank has come.

The shards themselves say which samples are finished. The file `unfinished` exists until all ranks have written all
their shards, so that no command takes some of the shards for the dataset.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wdsctl.core.dataset.destination import PARTIAL_NAME, check_destination_empty
from wdsctl.core.dataset.location import LOCK_FILE, UNFINISHED_FILE, WRITER_FOLDER, DatasetLocation
from wdsctl.core.errors import DatasetError, UsageError, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.files import MALFORMED_ERRORS, make_folder, open_own, remove_file, remove_tree, write_text
from wdsctl.core.json_text import read_json
from wdsctl.core.prepare.write import walk_files
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.text import path_for_message, short_repr

_SETTINGS_FILE = "settings.json"
_VERSION = 1
_COMPARED_SAMPLES = 8  # of each finished shard, spread evenly


@dataclass(frozen=True, slots=True)
class RankState:
    """How far a rank has come. `shards`: written when it was done. `fields`, `parts`: names that its samples have."""

    is_done: bool = False
    shards: int = 0
    fields: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriterFolder:
    """The folder of a writer's state. `templates`: of the names of shards, one for each rank."""

    location: DatasetLocation
    templates: tuple[str, ...]

    @property
    def path(self) -> str:
        return os.path.join(self.location.meta, WRITER_FOLDER)

    def lock(self, rank: int) -> str:
        """The lock of a rank. A single writer holds the lock of the dataset."""
        return self._file(f"rank-{rank}.lock") if len(self.templates) > 1 else self.location.lock

    def begin(self, settings: Mapping[str, Any]) -> bool:
        """Check that a writer with these settings may write here. Returns whether it is the first one.

        The caller holds the lock of the dataset. Raises UsageError WDS264 for other settings, and UsageError if the
        folder has files of somebody else.
        """
        settings = {"version": _VERSION, **settings}
        before = self._read(_SETTINGS_FILE)
        if before is None:
            check_destination_empty(self.location.root)
            held = [
                name
                for name in os.listdir(self.location.meta)
                if name.partition(".")[0] not in (LOCK_FILE, WRITER_FOLDER)
            ]
            if held:
                raise UsageError(
                    "the destination already has a dataset that no wdsctl.Writer has written",
                    where=self.location.display_path,
                    hint="choose an empty or a new folder",
                )
            make_folder(self.path)
            self.set_unfinished()
            write_text(self._file(_SETTINGS_FILE), json.dumps(settings, indent=2) + "\n")
            return True
        for name in dict.fromkeys((*settings, *before)):
            if before.get(name) != settings.get(name):
                raise UsageError(
                    f"the writer of this dataset began with {name[:60]}="
                    f"{short_repr(before.get(name))}, now it is {short_repr(settings.get(name))}",
                    where=self.location.display_path,
                    hint="pass the same options to continue it, or choose another DEST",
                    code="WDS264",
                )
        return False

    def forget(self) -> None:
        """Remove the state of a writer that has finished no shard."""
        remove_tree(self.path)

    def set_unfinished(self) -> None:
        if not self.is_unfinished():
            write_text(self._file(UNFINISHED_FILE), "")

    def is_unfinished(self) -> bool:
        """Whether shards were written since the dataset was last complete."""
        return os.path.exists(self._file(UNFINISHED_FILE))

    def set_finished(self) -> None:
        remove_file(self._file(UNFINISHED_FILE))

    def load(self, rank: int) -> RankState:
        found = self._read(f"rank-{rank}.json")
        if found is None:
            return RankState()
        try:
            fields, parts = (tuple(map(str, found[name])) for name in ("fields", "parts"))
            return RankState(bool(found["is_done"]), int(found["shards"]), fields, parts)
        except MALFORMED_ERRORS as error:
            raise self._damaged_error(f"rank-{rank}.json") from error

    def save(self, rank: int, state: RankState) -> None:
        write_text(self._file(f"rank-{rank}.json"), json.dumps(asdict(state)) + "\n")

    def shard_names(self, rank: int) -> list[str]:
        """The finished shards of a rank, in order. Raises UsageError for tars of others, WDS264 if one is missing."""
        numbers = []
        for name in walk_files(self.location.root_to_write):
            if name.endswith(".tar"):
                owner, number = self._owner(name)
                numbers += [number] if owner == rank else []
        names = [self.templates[rank].format(index=number) for number in range(len(numbers))]
        missing = sorted(set(range(len(numbers))).difference(numbers))
        if missing:
            raise UsageError(
                f"the shard {names[missing[0]]} is missing, and later ones are there",
                where=self.location.display_path,
                hint="restore it from a copy; or choose another DEST",
                code="WDS264",
            )
        return names

    def _owner(self, name: str) -> tuple[int, int]:
        """The rank and the number of a shard, from its name."""
        for rank, template in enumerate(self.templates):
            for digits in re.findall(r"[0-9]{1,18}", name):
                if template.format(index=int(digits)) == name:
                    return rank, int(digits)
        raise UsageError(
            f"the destination already contains other shards: {path_for_message(name)}",
            where=self.location.display_path,
            hint="choose an empty or a new folder",
        )

    def check_all_written(self) -> list[RankState] | None:
        """The states of all ranks; None while some are not done. Raises what `shard_names` raises."""
        states = [self.load(rank) for rank in range(len(self.templates))]
        if not all(state.is_done for state in states):
            return None
        for rank, state in enumerate(states):
            found = len(self.shard_names(rank))
            if found < state.shards:
                raise UsageError(
                    f"rank {rank} has written {state.shards:,} shards, and {found:,} are there",
                    where=self.location.display_path,
                    hint="restore the last shards from a copy, or run this rank again",
                    code="WDS264",
                )
        return states

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with open_own(self._file(name)) as file:
                found = read_json(read_whole(file, self._file(name), 1 << 20))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._damaged_error(name) from error
        if not isinstance(found, dict):
            raise self._damaged_error(name)
        return found

    def _damaged_error(self, name: str) -> DatasetError:
        hint = "restore the file from a copy, or choose another DEST"
        return DatasetError("the state of the writer is damaged", where=self._file(name), hint=hint, code="WDS264")


def remove_partials_of(path: str) -> None:
    """Remove what killed runs left of the shard `path`, and nothing of other ranks."""
    folder, shard = os.path.split(path)
    with translate_os_errors(folder, "list"), suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(f".{shard}.") and PARTIAL_NAME.fullmatch(name):
                remove_file(os.path.join(folder, name))


@dataclass(frozen=True, slots=True)
class StoredSample:
    """Where a sample stands in a finished shard."""

    path: str
    offset: int
    size: int


def finished_samples(root: str, names: list[str], parts: set[str]) -> dict[str, StoredSample | None]:
    """The keys in these shards; those of some samples, spread over each shard, with the place of the sample.

    Adds the names of their parts to `parts`. Raises DatasetError WDS264 for a damaged shard. Cost: 1 µs a member.
    """
    found: dict[str, StoredSample | None] = {}
    for name, scan in _scans(root, names):
        path = os.path.join(root, name)
        parts.update(scan.extensions)
        keys = list(_keys(scan))
        found.update(dict.fromkeys(keys))
        for at in np.linspace(0, len(keys) - 1, min(_COMPARED_SAMPLES, len(keys))).astype(int).tolist():
            found[keys[at]] = StoredSample(path, int(scan.offsets[at]), int(scan.sizes[at]))
    return found


def check_keys_differ(root: str, names: list[str]) -> None:
    """Raise DatasetError WDS263 if two of these shards have the same key. Memory: about 100 bytes a sample."""
    met: set[str] = set()
    for name, scan in _scans(root, names):
        for key in _keys(scan):
            if key in met:
                raise DatasetError(
                    f"two ranks have written the key {short_repr(key)}",
                    where=os.path.join(root, name),
                    hint="give every rank other samples, and write to another DEST; keys may begin with the rank",
                    code="WDS263",
                )
            met.add(key)


def _scans(root: str, names: list[str]) -> Iterator[tuple[str, ShardScan]]:
    storage = LocalStorage(root)
    try:
        for name in names:
            path = os.path.join(root, name)
            size = os.stat(path).st_size
            scan = scan_tar(name, lambda at, count, path=path: storage.read(path, at, count), size)  # type: ignore[misc]
            if scan.status != "ok" or scan.error_code is not None:
                raise DatasetError(
                    "a finished shard is damaged",
                    where=path,
                    hint="restore it from a copy; or choose another DEST",
                    code="WDS264",
                )
            yield name, scan
    finally:
        storage.close()


def _keys(scan: ShardScan) -> Iterator[str]:
    at = 0
    for size in scan.key_sizes.tolist():
        yield scan.keys[at : at + size].decode()
        at += size
