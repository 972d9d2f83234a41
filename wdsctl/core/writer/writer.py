"""`wdsctl.Writer` and `wdsctl.from_iterable`: samples of a Python program become a prepared dataset."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from wdsctl.core.dataset.config import dump_config, load_config
from wdsctl.core.dataset.destination import check_destination
from wdsctl.core.dataset.location import locate, shell_command
from wdsctl.core.dataset.lock import check_lock_held, hold_lock
from wdsctl.core.errors import DatasetError, UsageError, WdsctlError, require_int
from wdsctl.core.files import make_folder, remove_empty_folder, write_text
from wdsctl.core.importers.common.samples import row_number_key
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.opened.nesting import check_not_in_dataset
from wdsctl.core.options import PathText, build_request, naming_parameters
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.splits import split_by_of_written
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, KEY_COLUMN, MAX_KEY_BYTES, check_shard_template, safe_key
from wdsctl.core.shards.write import check_limits
from wdsctl.core.split_rules.rule import SplitBy
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.text import pluralize, short_repr
from wdsctl.core.urls import is_url, normalize_root, redact_secrets
from wdsctl.core.writer.layout import sample_layout
from wdsctl.core.writer.rows import iter_rows
from wdsctl.core.writer.shard_file import Members, ShardFile, sample_members
from wdsctl.core.writer.state import (
    RankState,
    StoredSample,
    WriterFolder,
    check_keys_differ,
    finished_samples,
    remove_partials_of,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from wdsctl.core.prepare.prepare import PrepareReport

_SHORT_LOCK_SECONDS = 600.0  # ranks wait so long for one another; each holds the dataset's lock for a moment
_MAX_WORLD_SIZE = 10_000
_PLAIN_KEY = re.compile(r"(?!__)[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")  # most keys: valid without a closer look
_NEW = StoredSample("", 0, 0)


class Writer:
    """Write samples into shards, and prepare them as a dataset at the end of the `with` block.

        with wdsctl.Writer("shards", sample_type="CaptioningSample") as writer:
            writer.write({"key": "cat-1", "image": image, "caption": "a cat"})

    A second run of the same loop continues a killed one: finished shards stay, their samples are skipped by key, and
    the shards get the bytes of a run that was not killed. `report`: what `prepare` returned, after the block; None if
    other ranks are not done. A writer is for one thread.
    """

    def __init__(
        self,
        dest: PathText,
        *,
        sample_type: str,
        shard_samples: int = 10_000,
        shard_size: str | float = 1 << 30,
        template: str = DEFAULT_TEMPLATE,
        encode: Mapping[str, str] | None = None,
        base: PathText = ".",
        split: str | Mapping[str, float] | None = None,
        by: SplitBy = "auto",
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        workers: int | None = None,
        wait: float = 0.0,
        progress: Progress | None = None,
    ) -> None:
        """Check the options. The `with` statement opens the writer.

        `dest`: a new folder, or that of a writer to continue.
        `sample_type`: such as CaptioningSample; CrudeSample for parts by name.
        `encode`: how to store pictures, by field: jpeg:90, webp:80 or png. By default png, which is lossless.
        `base`: the folder of files that texts name.
        `rank`, `world_size`: of this process, if several write to `dest`.
        `shard_samples`, `shard_size`, `template`, `split`, `by`, `seed`, `workers`, `wait`: as for `wdsctl.prepare`.

        Raises UsageError.
        """
        self._dest = normalize_root(os.fspath(dest))
        if is_url(self._dest):
            raise UsageError(
                "a Writer cannot write to a URL",
                where=redact_secrets(self._dest),
                hint="write to a folder, then copy it: "
                + shell_command("convert", "FOLDER", redact_secrets(self._dest)),
            )
        shards = {"shard_samples": shard_samples, "shard_size": shard_size, "template": template}
        others = {"split": split, "by": by, "seed": seed, "workers": workers, "wait": wait}
        with naming_parameters(PrepareRequest):
            self._limits, self._request = (build_request(PrepareRequest, options) for options in (shards, others))
            check_limits(self._limits.shard_samples, self._limits.shard_size)
            check_shard_template(self._limits.template)
        self.rank, self.world_size = _check_rank(rank, world_size)
        self._layout = sample_layout(sample_type, encode, os.path.realpath(os.fspath(base)))
        self._settings = {
            "sample_type": sample_type,
            "shard_samples": self._limits.shard_samples,
            "shard_size": self._limits.shard_size,
            "template": self._limits.template,
            "encode": dict(encode or {}),
            "world_size": self.world_size,
        }
        self._progress = progress or SILENT_PROGRESS
        self._state = "new"  # then: open, broken, closed
        self.report: PrepareReport | None = None

    def __enter__(self) -> Self:
        """Lock the folder, and find the shards that are finished.

        Raises UsageError if the folder has other files, or a writer with other options, and CatalogError WDS304 if
        another process writes to it.
        """
        if self._state != "new":
            raise UsageError("a Writer can be used once", hint="create another Writer with the same arguments")
        check_destination([], self._dest)
        check_not_in_dataset(self._dest)
        self._is_dest_new = not os.path.exists(self._dest)
        real = os.path.realpath(self._dest)
        make_folder(real)
        location = locate(self._dest, writing=True, real_root=real)
        width = len(str(self.world_size - 1))
        folder, slash, name = self._limits.template.rpartition("/")
        templates = [f"{folder}{slash}rank{rank:0{width}d}-{name}" for rank in range(self.world_size)]
        self._folder = WriterFolder(location, tuple(templates) if self.world_size > 1 else (self._limits.template,))
        self._root = location.root_to_write
        single = self.world_size == 1
        wait, note = self._request.wait, self._progress.note
        with ExitStack() as stack:
            # Ranks begin one after the other; then each holds a lock of its own.
            begun = stack if single else stack.enter_context(ExitStack())
            begun.enter_context(hold_lock(location.lock, wait=wait if single else _SHORT_LOCK_SECONDS, note=note))
            self._is_first = self._folder.begin(self._settings)
            self._lock = self._folder.lock(self.rank)
            if not single:
                begun.close()
                stack.enter_context(hold_lock(self._lock, wait=wait, note=note))
            self._open()
            self._held = stack.pop_all()
        self._state = "open"
        return self

    def _open(self) -> None:
        names = self._folder.shard_names(self.rank)
        saved = self._folder.load(self.rank)
        self._layout.seen.update(saved.fields)
        self._part_names = set(saved.parts)
        self._finished = finished_samples(self._root, names, self._part_names)
        self._storage = LocalStorage(self._root)
        self._shards = len(names)
        self._keys: set[str] = set()
        self._numbered = 0
        self._shard: ShardFile | None = None
        self._has_begun = False  # a shard in this run
        remove_partials_of(self._shard_path())

    def _shard_path(self) -> str:
        """The path of the next shard."""
        return os.path.join(self._root, self._folder.templates[self.rank].format(index=self._shards))

    def write(self, sample: Mapping[str, Any]) -> bool:
        """Write a sample: a dict from field to value. False if a finished shard has it already.

        `key`, or `__key__`: the key of the sample; without one, its number in this run. The values of all other names
        belong to fields of the sample type, or, under names with a dot such as `meta.json`, are parts of their own.
        None is no value. Raises DatasetError WDS262 for a value that does not fit, WDS263 for a key that is invalid or
        was written before, WDS264 if a finished shard has another sample under this key; nothing is written then.
        """
        self._check_open()
        if not isinstance(sample, Mapping):
            raise UsageError(
                f"a sample is a dict from field to value, found {type(sample).__name__}",
                hint="pass a dict such as {'image': image, 'label': 3}; for tuples: "
                "({'image': image, 'label': label} for image, label in rows)",
            )
        key = self._key_of(sample)
        if key in self._keys:
            raise DatasetError(
                f"the key {short_repr(key)} was written before in this run",
                hint="give every sample another key, or none: samples are numbered then",
                code="WDS263",
            )
        stored = self._finished.get(key, _NEW)
        if stored is None:
            self._layout.note_fields(sample)
            self._meet(key)
            return False
        try:
            parts = self._layout.parts(sample)
        except WdsctlError as error:
            error.message = f"sample {short_repr(key)}: {error.message}"
            raise
        pieces, size_bytes = sample_members(key, parts)
        if stored is not _NEW:
            self._check_same(key, stored, pieces)
            self._meet(key)
            return False
        self._add(pieces, size_bytes)
        self._keys.add(key)
        self._part_names.update([part.name for part in parts])
        return True

    def skip(self, key: str) -> bool:
        """Whether a finished shard has the sample with this key: then there is no need to make its values."""
        self._check_open()
        if key not in self._finished:
            return False
        self._meet(key)
        return True

    def _meet(self, key: str) -> None:
        del self._finished[key]
        self._keys.add(key)

    def _key_of(self, sample: Mapping[str, Any]) -> str:
        key = sample.get("key", sample.get(KEY_COLUMN))
        if key is None:
            number = self._numbered * self.world_size + self.rank
            self._numbered += 1
            return row_number_key(number)
        if not isinstance(key, str):
            key = str(require_int("key", key))
        if _PLAIN_KEY.fullmatch(key) and len(key) <= MAX_KEY_BYTES:
            return key
        valid = safe_key(unicodedata.normalize("NFC", key))
        if not key or valid != key:
            raise DatasetError(
                f"invalid key {short_repr(key)}: keys have no dots in their last segment, no empty segments, no "
                f"control characters, at most {MAX_KEY_BYTES} bytes, and composed Unicode (NFC)",
                hint=f"pass {valid!r}" if valid else "pass another key, or none: samples are numbered then",
                code="WDS263",
            )
        return key

    def _check_same(self, key: str, stored: StoredSample, pieces: Members) -> None:
        """Compare a sample with that in a finished shard; of large files, only the sizes."""
        at, is_same = stored.offset, True
        for piece in pieces:
            size = piece.size if isinstance(piece, FilePart) else len(piece)
            is_same = is_same and at + size <= stored.offset + stored.size
            if is_same and isinstance(piece, bytes):
                is_same = self._storage.read(stored.path, at, size) == piece
            at += size
        if not is_same or at != stored.offset + stored.size:
            raise DatasetError(
                f"sample {short_repr(key)} has other values than in a finished shard",
                where=stored.path,
                hint="give the same samples as before to continue, or choose another DEST for the new ones",
                code="WDS264",
            )

    def _add(self, pieces: Members, size_bytes: int) -> None:
        self._state = "broken"  # stays so after an error: the shard may have half of this sample
        shard = self._shard
        is_full = shard is not None and shard.samples == self._limits.shard_samples
        if shard is not None and (is_full or shard.size_bytes + size_bytes > self._limits.shard_size):
            self._publish_shard(shard)
            shard = None
        if shard is None:
            if not self._has_begun:
                self._folder.set_unfinished()
                self._has_begun = True
                self._save()
            shard = self._shard = ShardFile(self._shard_path())
        shard.add(pieces, size_bytes)
        self._state = "open"

    def _publish_shard(self, shard: ShardFile) -> None:
        check_lock_held(self._lock)
        self._save()  # before the shard has its name: a run that skips its samples may not see their fields
        shard.publish()
        self._shards += 1
        self._shard = None

    def _save(self, *, is_done: bool = False) -> None:
        fields, parts = sorted(self._layout.seen), sorted(self._part_names)
        self._folder.save(self.rank, RankState(is_done, self._shards, tuple(fields), tuple(parts)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the last shard and prepare the dataset. After an exception, only finished shards stay.

        Raises DatasetError WDS264 if finished shards have samples that this run did not give, WDS119 if there are no
        samples, StorageError, and what `prepare` raises.
        """
        if error is not None:
            self._discard(error)
            return
        try:
            self._check_open()
            self._finish()
        except BaseException as problem:
            self._discard(problem)
            raise
        self._publish()

    def _check_open(self) -> None:
        if self._state == "broken":
            raise UsageError(
                "the writer has stopped at an earlier error, in the middle of a shard",
                where=self._dest,
                hint="let the error end the `with` block; a second run continues after the finished shards",
            )
        if self._state != "open":
            raise UsageError(
                "the writer is not open", hint="write within the block: `with wdsctl.Writer(...) as writer:`"
            )

    def _finish(self) -> None:
        if self._finished:
            raise DatasetError(
                f"finished shards have {pluralize(len(self._finished), 'sample')} that this run did not write, such as "
                f"{short_repr(next(iter(self._finished)))}",
                where=self._dest,
                hint="write all samples again (those in finished shards are skipped), or choose another DEST",
                code="WDS264",
            )
        if self._shard is not None:
            self._publish_shard(self._shard)
        if self.world_size == 1 and not self._shards:
            raise DatasetError("no sample was written", where=self._dest, hint="check the iterable", code="WDS119")
        self._save(is_done=True)
        self._close()
        self._held.close()

    def _close(self) -> None:
        self._state = "closed"
        self._layout.close()
        self._storage.close()

    def _discard(self, error: BaseException) -> None:
        """Close without the samples of the last shard, and say in the exception what stays."""
        self._close()
        if self._shard is not None:
            self._shard.discard()
        is_empty = self._is_first and self.world_size == 1 and not self._shards
        is_empty = is_empty and not os.path.exists(self._shard_path())  # interrupted after the shard got its name
        if is_empty:
            self._folder.forget()
        self._held.close()
        if is_empty:
            with suppress(OSError):  # not empty: it was there before, or somebody else writes to it
                remove_empty_folder(self._folder.location.meta)
                if self._is_dest_new:
                    remove_empty_folder(self._root)
        if hasattr(error, "add_note"):  # from Python 3.11 on
            stay = pluralize(self._shards, "finished shard")
            error.add_note(f"wdsctl.Writer: {stay} in {self._dest}; run the same loop again to continue" if self._shards
                else f"wdsctl.Writer: no shard was finished, and {self._dest} has no samples")  # fmt: skip

    def _publish(self) -> None:
        """Prepare the dataset, if all ranks are done."""
        from wdsctl.core.prepare.prepare import prepare

        location, ranks = self._folder.location, self.world_size
        wait = self._request.wait if ranks == 1 else _SHORT_LOCK_SECONDS
        with hold_lock(location.lock, wait=wait, note=self._progress.note):
            states = self._folder.check_all_written()
            if states is None:
                return
            names = [name for rank in range(ranks) for name in self._folder.shard_names(rank)]
            if not names:
                raise DatasetError(
                    "no rank has written a sample", where=self._dest, hint="check the iterable", code="WDS119"
                )
            if self._folder.is_unfinished():
                if ranks > 1:
                    check_keys_differ(self._root, names)
                self._write_config(states)
                self._folder.set_finished()
        request = replace(self._request, split_by=split_by_of_written(self._request), wait=wait)
        self.report = prepare(self._dest, None, request, progress=self._progress)

    def _write_config(self, states: Iterable[RankState]) -> None:
        """Write dataset.yaml; of an existing one, only the sample type and its fields."""
        parts: set[str] = set()
        for state in states:
            self._layout.seen.update(state.fields)
            parts.update(state.parts)
        config = self._layout.config(parts)
        path = self._folder.location.config_path
        if os.path.exists(path):
            before = load_config(path)
            config = replace(
                before, sample_type=config.sample_type, field_map=config.field_map, optional=config.optional
            )
        write_text(path, dump_config(config))


def from_iterable(rows: Any, dest: PathText, *, sample_type: str, **options: Any) -> PrepareReport | None:
    """Write all samples of an iterable with a `Writer`, and return its report. `options`: of `Writer`.

    `rows`: an iterable of dicts; a torch or Hugging Face Dataset with such items; a frame of pandas or polars, whose
    columns are the fields. With `rank` and `world_size`, each process writes every `world_size`-th row.
    Raises what `Writer` raises.
    """
    writer = Writer(dest, sample_type=sample_type, **options)
    chosen = iter_rows(rows, writer.rank, writer.world_size)
    with writer:
        for row in chosen:
            writer.write(row)
    return writer.report


def _check_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise UsageError("rank and world_size belong together", hint="pass both, or none of them for a single process")
    if rank is None or world_size is None:
        return 0, 1
    rank, world_size = require_int("rank", rank), require_int("world_size", world_size)
    if not 0 <= rank < world_size <= _MAX_WORLD_SIZE:
        raise UsageError(
            f"rank {rank} is out of range for world_size {world_size}",
            hint=f"pass ranks from 0 to world_size - 1, and a world_size of at most {_MAX_WORLD_SIZE:,}",
        )
    return rank, world_size
