"""`get`: read one part, or all parts of a sample, by key. Takes one catalog search and one ranged read per part.

Also finds samples by key and selects samples by split and view, for other commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.catalog.values import PartLocation, SampleLocation, SplitMembers
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.polylithic import REFERENCES_PART
from wdsctl.core.dataset.shard_names import is_tar_name
from wdsctl.core.directories import resolve_parent
from wdsctl.core.errors import DatasetError, InputError, StorageDown, StorageError, UsageError, translate_os_errors
from wdsctl.core.files import write_pieces
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.offsets.probe import Probe
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.naming import dotless_key, possible_keys
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage
from wdsctl.core.tar_header import TAR_BLOCK_BYTES, parse_header
from wdsctl.core.text import escape_unprintable, pluralize

if TYPE_CHECKING:
    from wdsctl.core.catalog.samples import StoredSamples


MAX_LISTED_CANDIDATES = 20  # in an error message
GET_CHUNK_BYTES = 64 << 20  # bytes per read: most parts in one read, and large videos in bounded memory
_MAX_OCTAL_SIZE = 8**11  # bytes: headers have room for eleven octal digits
_MAX_KEYS_SEARCHED = 5_000_000  # limit for a search for similar keys without an index


def find_samples(dataset: OpenDataset, key: str) -> list[SampleLocation]:
    """Find all samples with this key, as spelled in the shards or in the raw files.

    If samples have no rows in the catalog, searches the keys of the offsets file.
    """
    find = dataset.browser.find if dataset.browser.has_rows else _open_stored_samples(dataset).find
    return find(key) or (find(dotless_key(key)) if dotless_key(key) != key else [])


def find_sample(
    dataset: OpenDataset,
    key: str,
    *,
    shard: str | None = None,
    position: int | None = None,
    part: str | None = None,
    members: SplitMembers | None = None,
    suggests: bool = True,
) -> SampleLocation:
    """Find the one sample with this key in `shard`, at `position`, with `part`, and in `members`.

    `shard`: a path in the dataset, or the end of one. Raises InputError WDS004 if no sample matches, UsageError
    WDS005 if several do. `suggests`: look for similar keys, which may read all keys, if no sample has this key.
    """
    all_matches = find_samples(dataset, key)
    if not all_matches:
        raise _no_sample_error(dataset, key, suggests=suggests)
    matches = [each for each in all_matches if members is None or members.has(each.id)]
    if not matches:
        raise InputError(
            f"the sample {key!r} is not in the view",
            where=dataset.location.display_path,
            hint="pass the dataset without @VIEW",
            code="WDS004",
        )
    selected = [
        each
        for each in matches
        if (shard is None or each.shard == shard or each.shard.endswith(f"/{shard}"))
        and position in (None, each.position)
    ]
    if part is not None:
        selected = [each for each in selected if each.part(part)] or selected
    if len(selected) == 1:
        return selected[0]
    if not selected:
        conditions = [f"shard {escape_unprintable(shard)}"] if shard else []
        conditions += [f"position {position:,}"] if position is not None else []
        raise InputError(
            f"sample {key!r} is not at this place; found in {_format_candidates(matches)}",
            where=", ".join(conditions),
            hint="pass one of these shards with --shard, or omit --shard and --position",
            code="WDS004",
        )
    is_repeated_in_shard = len({each.shard for each in selected}) < len(selected)
    raise UsageError(
        f"{len(selected)} samples have the key {key!r}: in {_format_candidates(selected)}",
        where=dataset.location.display_path,
        hint="choose one with --shard PATH"
        + (", and with --position N within a shard" if is_repeated_in_shard else ""),
        code="WDS005",
    )


def split_members(dataset: OpenDataset, split: str) -> SplitMembers:
    """Read the samples of a split. Raises InputError WDS211 if there is no such split."""
    members = dataset.browser.members(split)
    if members is None:
        names = ", ".join(dataset.catalog.split_names())
        command = shell_command_at(dataset.location, "split", "train=8,val=1,test=1")
        raise InputError(
            f"the dataset has no split {split!r}; it has {names or 'none yet'}",
            where=dataset.location.display_path,
            hint="choose one of these splits" if names else f"create splits: {command}",
            code="WDS211",
        )
    return members


def select_members(dataset: OpenDataset, split: str | None = None) -> SplitMembers | None:
    """Select the samples of the dataset's view, of a split, or those in both; None for all samples.

    Raises InputError WDS211 and WDS330, and CatalogError WDS331 if shards of the view have changed.
    """
    if not dataset.view:
        return None if split is None else split_members(dataset, split)
    from wdsctl.core.views.selections import intersect_selections, read_view_samples, select_split

    selection = read_view_samples(dataset, dataset.view)
    if split is not None:
        split_members(dataset, split)
        selection = intersect_selections(selection, select_split(dataset, split))
    return SplitMembers({shard: split_shard.bits for shard, split_shard in selection.items()})


def find_key_and_part(dataset: OpenDataset, key: str) -> tuple[str, str] | None:
    """Return (key, part) if `key` is the file name of an existing part, such as `a/7.seg.png`."""
    if dataset.browser.is_media_folder:
        return None
    return next((pair for pair in possible_keys(key) if find_samples(dataset, pair[0])), None)


def choose_part(location: DatasetLocation, sample: SampleLocation, name: str | None) -> PartLocation:
    """Return the part with this name, or the only part. Raises InputError WDS004, UsageError WDS005."""
    names = list(dict.fromkeys(part.name for part in sample.parts))
    if name is None and len(names) == 1:
        return sample.parts[-1]
    listed = ", ".join(map(escape_unprintable, names)) or "none"
    if name is None:
        raise UsageError(
            f"the sample has {pluralize(len(names), 'part')}: {listed}",
            where=f"{location.display_path}, sample {escape_unprintable(sample.key)}",
            hint="choose a part with --part NAME, or write all parts into a folder: -o FOLDER/",
            code="WDS005",
        )
    part = sample.part(name.removeprefix("."))
    if part is None:
        raise InputError(
            f"the sample has no part {name!r}; it has {listed}",
            where=f"{location.display_path}, sample {escape_unprintable(sample.key)}",
            hint="pass the extension after the key to --part, such as jpg or seg.png"
            if REFERENCES_PART not in names
            else f"read the part {REFERENCES_PART}, which names the media of this sample in another dataset",
            code="WDS004",
        )
    return part


def _no_sample_error(dataset: OpenDataset, key: str, *, suggests: bool) -> InputError:
    browser = dataset.browser
    neighbours: list[str] = []
    if not suggests:
        pass
    elif browser.has_rows:
        neighbours = browser.neighbours(key)
    elif len(stored := _open_stored_samples(dataset)) <= _MAX_KEYS_SEARCHED:
        neighbours = stored.neighbours(key)
    kind = "file" if browser.is_media_folder else "sample"
    in_folders = [f"{folder}/{key}" for folder in {each.rpartition("/")[0]: None for each in neighbours} if folder]
    named_alike = [each for each in in_folders if find_samples(dataset, each)]
    similar = ""
    if named_alike:
        similar = f", but {' and '.join(map(repr, named_alike))}"
    elif neighbours:
        similar = f"; its neighbours in the order of keys: {' and '.join(map(escape_unprintable, neighbours))}"
    return InputError(
        f"the dataset has no {kind} {key!r}{similar}",
        where=dataset.location.display_path,
        hint=f"list them: {shell_command_at(dataset.location, 'ls', '--samples')}",
        code="WDS004",
    )


def _open_stored_samples(dataset: OpenDataset) -> StoredSamples:
    from wdsctl.core.catalog.samples import open_cached_samples  # imports numpy, which nothing else here needs

    return open_cached_samples(dataset.location, dataset.catalog.generation)


def _format_candidates(samples: Sequence[SampleLocation]) -> str:
    names = [
        f"{escape_unprintable(each.shard)} (position {each.position:,})" for each in samples[:MAX_LISTED_CANDIDATES]
    ]
    more = [f"{len(samples) - MAX_LISTED_CANDIDATES:,} more"] if len(samples) > MAX_LISTED_CANDIDATES else []
    return ", ".join([*names, *more])


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedPart:
    """The location of a part, and the file that `get` wrote it to, if any."""

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
    parts: tuple[RetrievedPart, ...]
    dry_run: bool = False


class GetTarget(NamedTuple):
    """A sample, its requested parts, and the location of its dataset."""

    location: DatasetLocation
    sample: SampleLocation
    parts: tuple[PartLocation, ...]

    @property
    def shard_path(self) -> str:
        return os.path.join(self.location.root, self.sample.shard)

    def report(self, outputs: Sequence[str | None] = (), *, dry_run: bool = False) -> GetReport:
        file = DatasetLocation(self.location.root, self.location.meta, self.sample.shard).display_path
        return GetReport(
            root=self.location.display_path,
            key=self.sample.key,
            id=self.sample.id,
            shard=self.sample.shard,
            position=self.sample.position,
            file=file,
            parts=tuple(
                RetrievedPart(part=part.name, offset=part.offset, size_bytes=part.size, output=output)
                for part, output in zip(self.parts, outputs or [None] * len(self.parts), strict=True)
            ),
            dry_run=dry_run,
        )


def find_target(
    root: str,
    key: str,
    *,
    part: str | None = None,
    shard: str | None = None,
    position: int | None = None,
    all_parts: bool = False,
    catalog: str | None = None,
) -> GetTarget:
    """Find the sample with this key, and its part `part`, its only part, or `all_parts`. Reads no shard.

    `shard` (a path, or the end of one) and `position` choose among samples with the same key. If no sample has `key`,
    it may be a file name such as `000042.jpg`. Raises InputError WDS004, UsageError WDS005, and the errors of
    catalogs.
    """
    with open_finder(root, catalog) as finder:
        return finder.find(key, part=part, shard=shard, position=position, all_parts=all_parts)


class TargetFinder(NamedTuple):
    """An open dataset, to find samples by key. `members`: those of the view; None for all samples."""

    dataset: OpenDataset
    members: SplitMembers | None

    def find(
        self,
        key: str,
        *,
        part: str | None = None,
        shard: str | None = None,
        position: int | None = None,
        all_parts: bool = False,
        suggests: bool = True,
    ) -> GetTarget:
        """As `find_target`; `suggests` as for `find_sample`."""
        dataset = self.dataset
        if part is None and not find_samples(dataset, key):
            key, part = find_key_and_part(dataset, key) or (key, None)
        sample = find_sample(
            dataset,
            key,
            shard=shard,
            position=position,
            part=part,
            members=self.members,
            suggests=suggests,
        )
        parts = tuple({each.name: each for each in sample.parts}.values())
        chosen = parts if all_parts and part is None else (choose_part(dataset.location, sample, part),)
        return GetTarget(dataset.location, sample, chosen)


@contextmanager
def open_finder(root: str, catalog: str | None = None) -> Iterator[TargetFinder]:
    """Open the catalog of `ROOT` or `ROOT@VIEW`. Raises the errors of catalogs and views."""
    with open_indexed(root, catalog, takes_view=True) as dataset:
        yield TargetFinder(dataset, select_members(dataset))


def read_part(target: GetTarget, storage: Storage | None = None) -> Iterator[bytes]:
    """Yield the first part in chunks of at most 64 MiB. Raises StorageError WDS403 if the shard has changed.

    `storage`: one that is open; None opens one for this read.
    """
    with _open_storage(target, storage) as opened:
        yield from _read_chunks(opened, target, target.parts[0])


def write_target(
    target: GetTarget,
    output: str,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    storage: Storage | None = None,
) -> GetReport:
    """Write the part to the file `output`, or every part into the folder `output` as KEY.PART, atomically.

    `storage`: as for `read_part`. Raises UsageError if a file exists and `overwrite` is False, DatasetError if a key
    would lead out of the folder.
    """
    is_folder = output.endswith(os.sep) or os.path.isdir(output)
    is_media_file = (
        target.sample.key == target.sample.shard
    )  # the sample is a file of a media folder: its key has the extension
    names = [target.sample.key if is_media_file else f"{target.sample.key}.{part.name}" for part in target.parts]
    outputs = [_path_in_folder(output, name) for name in names] if is_folder else [output]
    for path in outputs:
        if os.path.lexists(path) and not overwrite and not _is_special(path):
            raise UsageError("output file exists", where=path, hint="choose another path, or pass --yes to replace it")
    if not dry_run:
        with _open_storage(target, storage) as opened:
            for part, path in zip(target.parts, outputs, strict=True):
                chunks = _read_chunks(opened, target, part)
                if _is_special(path):
                    with translate_os_errors(path), open(path, "wb") as file:
                        file.writelines(chunks)
                else:
                    write_pieces(resolve_parent(path), chunks)
    return target.report(outputs, dry_run=dry_run)


def _path_in_folder(folder: str, name: str) -> str:
    """Return the path of `name` in a folder. Raises DatasetError if a key from the data leads out of it."""
    if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise DatasetError(
            f"the key {name!r} would lead out of the output folder",
            where=folder,
            hint="write to a named file: --part NAME -o FILE",
        )
    return os.path.join(folder, name)


def _is_special(path: str) -> bool:
    """Whether a path is a device or a pipe, which `get` must not replace."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _read_chunks(storage: Storage, target: GetTarget, part: PartLocation) -> Iterator[bytes]:
    """Yield the bytes of a part. In a tar, reads the header before the part, too, and checks it."""
    sample = target.sample
    has_header = is_tar_name(sample.shard)
    if has_header and part.offset < TAR_BLOCK_BYTES:
        raise _changed_shard_error(target, part)
    head_bytes = TAR_BLOCK_BYTES if has_header else 0
    for start in range(0, max(part.size, int(has_header)), GET_CHUNK_BYTES):
        size = head_bytes + min(GET_CHUNK_BYTES, part.size - start)
        [chunk] = storage.read_many([FileRange(target.shard_path, part.offset + start - head_bytes, size)])
        if head_bytes:
            _check_header(target, part, chunk[:head_bytes])
        yield chunk[head_bytes:]
        head_bytes = 0  # only the first chunk begins with the header


def _check_header(target: GetTarget, part: PartLocation, block: bytes) -> None:
    """Raise StorageError WDS403 if the 512 bytes before a part are not its header.

    Tars are padded, so a shard often has the same size after it was written again.
    """
    probe = Probe(part.offset - TAR_BLOCK_BYTES, f"{target.sample.key}.{part.name}".encode("utf-8", "surrogatepass"))
    # The size of a large part, and rarely of others, is in a pax header; its own header then has 0 or a part of it.
    if not probe.fits(block) or (part.size < _MAX_OCTAL_SIZE and parse_header(block).size not in (part.size, 0)):
        raise _changed_shard_error(target, part)


def _changed_shard_error(target: GetTarget, part: PartLocation) -> StorageError:
    return StorageError(
        f"the shard differs from the indexed one: no {escape_unprintable(f'{target.sample.key}.{part.name}')} of "
        f"{pluralize(part.size, 'byte')} at byte {part.offset - TAR_BLOCK_BYTES:,}",
        where=target.shard_path,
        hint="restore the shard; if the change is intended, run `wdsctl index DATASET`",
        code="WDS403",
    )


@contextmanager
def _open_storage(target: GetTarget, shared: Storage | None) -> Iterator[Storage]:
    """Open the storage of a shard, or use `shared`. Reads fail if the shard's size is not the one in the catalog.

    Raises InputError WDS306 if the shard is missing.
    """
    sizes = {target.shard_path: target.sample.shard_size}
    with closing(storage_for(target.location.root, sizes)) if shared is None else nullcontext(shared) as storage:
        try:
            yield storage
        except (StorageError, InputError) as error:
            if isinstance(error, StorageDown) or storage.exists(target.shard_path):
                raise
            forget = shell_command_at(target.location, "index", "--missing", "drop")
            raise InputError(
                f"the shard with sample {target.sample.key!r} is missing: {escape_unprintable(target.sample.shard)}",
                where=target.location.display_path,
                hint=f"restore the file, or remove the shard from the catalog: {forget}",
                code="WDS306",
            ) from error
