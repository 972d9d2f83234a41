"""`get`: the bytes of one part, or of a whole sample, by its key. One search in the catalog and one ranged read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import PartPlace, Placed
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import DatasetError, InputError, StorageDown, StorageError, UsageError
from wdsctl.core.files import write_whole
from wdsctl.core.folders import resolved
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place
from wdsctl.core.printable import one_line
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.verbs.locate_sample import choose_part, chosen_of, find_all, find_one, name_of_part, open_root

PIECE = 64 << 20  # bytes read at a time: all of most parts, and a bounded share of a film


@dataclass(frozen=True, slots=True, kw_only=True)
class GotPart:
    """Where a part is, and where it was written to, if it was."""

    part: str
    offset: int  # in the shard
    size_bytes: int
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReport:
    root: str
    key: str
    id: int
    shard: str
    position: int  # in the shard, from 0
    file: str  # the shard's path or URL, for other tools
    parts: tuple[GotPart, ...]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was found: the sample, the parts asked for, and where the dataset is."""

    place: Place
    sample: Placed
    parts: tuple[PartPlace, ...]

    @property
    def file(self) -> str:
        return os.path.join(self.place.root, self.sample.shard)

    def report(self, outputs: Sequence[str | None] = (), *, dry_run: bool = False) -> GetReport:
        shown = Place(self.place.root, self.place.meta, self.sample.shard).shown
        written = outputs or [None] * len(self.parts)
        return GetReport(
            root=self.place.shown,
            key=self.sample.key,
            id=self.sample.id,
            shard=self.sample.shard,
            position=self.sample.position,
            file=shown,
            parts=tuple(
                GotPart(part=part.name, offset=part.offset, size_bytes=part.size, output=output)
                for part, output in zip(self.parts, written, strict=True)
            ),
            dry_run=dry_run,
        )


def find(
    root: str,
    key: str,
    *,
    part: str | None = None,
    shard: str | None = None,
    position: int | None = None,
    all_parts: bool = False,
    catalog: str | None = None,
) -> Wanted:
    """The sample of this key, and its part `part`, its only one, or `all_parts`. Nothing of the data is read.

    `shard` (its path, or the end of it) and `position` choose where a key repeats. A key may be the name of a file,
    `000042.jpg`, where no sample is called so. Raises InputError WDS004, UsageError WDS005, and what a catalog raises.
    """
    place, view = open_root(root, catalog)
    with Browser(place.catalog) as browser:
        members = chosen_of(place, browser, view)
        named = None if part is not None or find_all(place, browser, key) else name_of_part(place, browser, key)
        if named is not None:
            key, part = named
        sample = find_one(place, browser, key, shard=shard, position=position, part=part, members=members)
    parts = tuple({each.name: each for each in sample.parts}.values())
    return Wanted(place, sample, parts if all_parts and part is None else (choose_part(place, sample, part),))


def read(wanted: Wanted) -> Iterator[bytes]:
    """The bytes of the first part, at most 64 MiB at a time. Raises StorageError WDS403 where the shard has changed."""
    with _opened(wanted) as storage:
        yield from _pieces(storage, wanted, wanted.parts[0])


def write(wanted: Wanted, output: str, *, overwrite: bool = False, dry_run: bool = False) -> GetReport:
    """Write the part to the file `output`, or every part into it as KEY.PART where it is a folder. Whole or not at all.

    Raises UsageError where a file is there already and `overwrite` is not given, DatasetError where a key would lead
    out of the folder.
    """
    is_folder = output.endswith(os.sep) or os.path.isdir(output)
    names = [_inside(output, f"{wanted.sample.key}{_ending(wanted, part)}") for part in wanted.parts]
    outputs = names if is_folder else [output]
    for path in outputs:
        if os.path.lexists(path) and not overwrite and not _is_special(path):
            raise UsageError("the file is there already", where=path, hint="--yes replaces it")
    if not dry_run:
        with _opened(wanted) as storage:
            for part, path in zip(wanted.parts, outputs, strict=True):
                _write_one(path, partial(_copy, storage, wanted, part))
    return wanted.report(outputs, dry_run=dry_run)


def _ending(wanted: Wanted, part: PartPlace) -> str:
    """A file of a folder of media has its ending in its key."""
    return "" if wanted.sample.key == wanted.sample.shard else f".{part.name}"


def _inside(folder: str, name: str) -> str:
    """The path of `name` in the folder. Keys come from anywhere: none may lead out of it."""
    if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise DatasetError(
            f"the key {name!r} would lead out of the folder",
            where=folder,
            hint="name a file to write to: --part NAME -o FILE",
        )
    return os.path.join(folder, name)


def _is_special(path: str) -> bool:
    """A device or a pipe: it is written to, and nothing may take its place."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _write_one(path: str, write: Callable[[BinaryIO], None]) -> None:
    if not _is_special(path):
        write_whole(resolved(path), write)
        return
    with translated(path), open(path, "wb") as file:
        write(file)


def _copy(storage: Storage, wanted: Wanted, part: PartPlace, file: BinaryIO) -> None:
    file.writelines(_pieces(storage, wanted, part))


def _pieces(storage: Storage, wanted: Wanted, part: PartPlace) -> Iterator[bytes]:
    for at in range(0, part.size, PIECE):
        yield storage.read_many([Range(wanted.file, part.offset + at, min(PIECE, part.size - at))])[0]


@contextmanager
def _opened(wanted: Wanted) -> Iterator[Storage]:
    """A shard of another size than the catalog says was replaced: it raises instead of giving other bytes.

    Raises InputError WDS306 where the shard is gone.
    """
    with closing(storage_for(wanted.place.root, {wanted.file: wanted.sample.shard_size})) as storage:
        try:
            yield storage
        except (StorageError, InputError) as error:
            if isinstance(error, StorageDown) or storage.exists(wanted.file):
                raise
            raise _vanished(wanted) from error


def _vanished(wanted: Wanted) -> InputError:
    return InputError(
        f"the shard that has the sample {wanted.sample.key!r} has vanished: {one_line(wanted.sample.shard)}",
        where=wanted.place.shown,
        hint=f"bring it back, or forget it: {command_at(wanted.place, 'index', '--missing', 'drop')}",
        code="WDS306",
    )
