"""Compressed tars as a source: read as streams, from the first member to the last, and never at random places."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import IO, Any, cast

from wdsctl.core.beneath import check_beneath, is_beneath
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.arrow import loaded
from wdsctl.core.convert.source import Entry, Known, LargePart, Options, Part, Recognised
from wdsctl.core.errors import DatasetError, InputError, StorageError, UsageError
from wdsctl.core.findings import Finding
from wdsctl.core.json_text import read_json
from wdsctl.core.key_rules import ENOUGH, Layout, choose_rule, makes
from wdsctl.core.members import LONGEST_HEADER
from wdsctl.core.naming import FIRST_DOT, KEY_RULES, KNOWN_EXTENSION, KeyUntil, as_rule, shard_key, split_by
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import printable
from wdsctl.core.regular_file import regular
from wdsctl.core.shard_list import COMPRESSED
from wdsctl.core.tar import BLOCK, PACKED_HEAD, BadHeader, compression, parse_header
from wdsctl.core.urls import is_url

_BY_ARROW = ("zstd", "lz4")
_LOOKED_AT = 8  # tars whose contents are looked at for a compression that their names do not say
_DAMAGE = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)
_LARGEST = 4 << 30  # bytes of a sample that are unpacked into memory: a few KiB of gzip may promise any size
_HEADERS = (*tarfile.GNU_TYPES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)  # whose data is read whole
_BITS = 28  # of a place: the sample's number in its file

Sample = tuple[str, list[tuple[str, int, bytes]]]


class PackedSource:
    """A place is the number of a file and of a sample in it. Going forward costs nothing; going back begins the file
    anew. `rule`: where keys end; None: at the first
    dot, unless the names speak against it. `problems`: what was found wrong with files while they were listed.
    """

    def __init__(self, root: str, files: list[str], rule: KeyUntil | None = None) -> None:
        self._root = root
        self._files = files
        self._asked = rule
        self._rule: KeyUntil = rule or FIRST_DOT
        self._open: tuple[int, int, Iterator[Sample]] | None = None
        self.problems: list[Finding] = []

    def __enter__(self) -> PackedSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open = None

    @property
    def split_names(self) -> tuple[str, ...]:
        return ()

    def mark(self) -> bytes:
        digest = blake2b(self._rule.encode(), digest_size=16)
        for name in self._files:
            path = os.path.join(self._root, name)
            with translated(path, "read"):
                stat = os.stat(path)
            digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
        return digest.digest()

    def entries(self) -> Iterator[Entry]:
        for known in self.known():
            yield Entry(known.key, sum(size for _, size in known.parts))

    def known(self) -> Iterator[Known]:
        """Unpacks everything once. A file that is damaged ends where it is, and is a problem.

        Raises DatasetError WDS245, at the end, where the names look as if several samples had become one.
        """
        self.problems = []
        layouts: dict[tuple[str, ...], tuple[int, str]] = {}
        for number, name in enumerate(self._files):
            try:
                for i, (key, parts) in enumerate(_samples(os.path.join(self._root, name), self._rule, with_data=False)):
                    sizes = tuple(sorted((part, size) for part, size, _ in parts))
                    names = tuple([part for part, _ in sizes])
                    count, first = layouts.get(names, (0, key))
                    layouts[names] = count + 1, first
                    yield Known(number << _BITS | i, key, sizes)
            except _DAMAGE as error:
                message = f"it ends, or is damaged, in the middle: {' '.join(str(error).split()) or 'cut off'}"
                self.problems.append(Finding(code="WDS102", severity="error", message=message, shard=printable(name)))

        if self._asked is None:
            _check_keys(self._root, [Layout(names, count, key) for names, (count, key) in layouts.items()])

    def read(self, place: int) -> tuple[Part, ...]:
        return tuple(part for part in self.read_some(place, lambda _name: True) if isinstance(part, Part))

    def read_some(self, place: int, wanted: Callable[[str], bool]) -> tuple[Part | LargePart, ...]:
        number, i = place >> _BITS, place & (1 << _BITS) - 1
        path = os.path.join(self._root, self._files[number])
        at, samples = 0, None
        if self._open is not None and self._open[0] == number and self._open[1] <= i:
            _, at, samples = self._open
        try:
            if samples is None:
                samples = _samples(path, self._rule, with_data=True)
            _, parts = next(islice(samples, i - at, None))
        except _DAMAGE as error:
            self._open = None
            raise StorageError(
                f"cannot unpack it: {error}", where=path, hint="copy it again from its origin"
            ) from error
        except StopIteration as error:
            raise StorageError("it ends sooner than when it was listed", where=path, hint="run it again") from error
        self._open = number, i + 1, samples
        if sum(size for _, size, _ in parts) > _LARGEST:
            raise DatasetError(
                f"a sample has more than {_LARGEST >> 30} GiB unpacked",
                hint="unpack the tar first: parts of plain tars may have any size",
                where=path,
                code="WDS233",
            )
        return tuple(Part(name, data) for name, _, data in sorted(parts) if wanted(name))

    def will_need(self, places: list[int]) -> None:
        """Streams are read as they come."""


def _check_keys(root: str, layouts: list[Layout]) -> None:
    found = choose_rule(layouts)
    if found.odd_share >= ENOUGH:
        raise DatasetError(
            f"where the keys of these members end cannot be told: {found.reason}; by {KNOWN_EXTENSION} there would be "
            f"{makes(layouts, KNOWN_EXTENSION)}",
            where=root,
            hint=f"say it: `-O key-until={KNOWN_EXTENSION}`, or `-O key-until={FIRST_DOT}` if one sample is meant",
            code="WDS245",
        )


def _samples(path: str, rule: KeyUntil, *, with_data: bool) -> Iterator[Sample]:
    """Neighbouring members of one key. Links, folders and devices are passed over; nothing is ever unpacked to disk."""
    key, parts, names, held = "", list[tuple[str, int, bytes]](), set[str](), 0
    with (
        _unpacking(path) as stream,
        tarfile.open(fileobj=stream, mode="r|", errorlevel=1, tarinfo=_Member) as archive,
    ):
        for member in archive:
            cast("Any", archive).members = []  # or it would remember all of them
            named = split_by(member.name, rule) if member.isreg() else None
            if named is None:
                continue
            named = shard_key(named[0]), named[1]
            if named[0] != key or named[1] in names:
                if parts:
                    yield key, parts
                key, parts, names, held = named[0], [], set(), 0
            held += member.size
            names.add(named[1])
            file = archive.extractfile(member) if with_data and held <= _LARGEST else None
            parts.append((named[1], member.size, file.read() if file is not None else b""))
        if parts:
            yield key, parts


class _Member(tarfile.TarInfo):
    """A member whose long name or pax header may not take more memory than any name does."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _HEADERS and self.type != tarfile.GNUTYPE_SPARSE and self.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a header says that it has {self.size:,} bytes")
        return cast("Any", super())._proc_member(archive)  # noqa: SLF001 - where tarfile reads such data, by any door


def _unpacking(path: str) -> IO[bytes]:
    """The tar inside. These readers raise where a file ends too soon; tarfile's own take it for the end."""
    packed = _compression(path)
    if packed in _BY_ARROW:
        return cast("IO[bytes]", loaded("pyarrow", f"{packed} compression").input_stream(path, compression=packed))
    readers: dict[str, Callable[[str, str], Any]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
    return cast("IO[bytes]", readers.get(packed, open)(path, "rb"))


def _compression(path: str) -> str:
    with open(path, "rb", opener=regular) as file:
        return compression(file.read(PACKED_HEAD))


def _is_packed_tar(path: str) -> bool:
    """Whether a file is a compressed tar, whatever its name: unpacks its first block."""
    try:
        if not _compression(path):
            return False
        with _unpacking(path) as stream:
            block = stream.read(BLOCK)
        if len(block) == BLOCK:
            parse_header(block)
    except (*_DAMAGE, BadHeader, UsageError):
        return False
    return len(block) == BLOCK


class PackedImporter:
    """`-O key-until=last-dot|known-extension` for names whose keys have dots. The engine names some of the files below
    the folder by `files`, a list in JSON.
    """

    name = "packed"
    about = "compressed tars: gzip, bzip2, xz, zstd, lz4; plain ones beside them go along"

    def recognise(self, path: str) -> Recognised | None:
        """By its files' names, and by what some of its tars hold.

        Less surely than a catalog tells: `convert` then takes these beside its shards.
        """
        files = [] if is_url(path) else _listed(path)
        packed = [name for name in files if name.lower().endswith(COMPRESSED)]
        if not packed and os.path.isfile(path):
            packed = [name for name in files if _is_packed_tar(path)]
        if not packed:
            looked_at = [name for name in files[:_LOOKED_AT] if is_beneath(os.path.join(path, name), (path,))]
            packed = [name for name in looked_at if _is_packed_tar(os.path.join(path, name))]
        return Recognised(0.97, f"it holds compressed tars, such as {packed[0]}") if packed else None

    def open(self, path: str, options: Options) -> PackedSource:
        """Raises InputError where there are no tars, UsageError; WDS236 where what unpacks them is not installed."""
        unknown = sorted(set(options) - {"files", "key-until"})
        if unknown:
            raise UsageError(f"compressed tars have no option {unknown[0]!r}", hint="they have key-until")
        rule = as_rule(given.one_of(self.name, options, "key-until", KEY_RULES)) if "key-until" in options else None
        files = read_json(options["files"]) if "files" in options else _listed(path)
        if not files:
            raise InputError("there are no tars here", where=path, hint="check the path", code="WDS003")
        if any(name.lower().endswith((".zst", ".lz4")) for name in files):
            loaded("pyarrow", "zstd and lz4 compression")
        root = path if os.path.isdir(path) else os.path.dirname(path)
        for name in files if os.path.isdir(path) else ():
            check_beneath(os.path.join(path, name), path)
        return PackedSource(root, files, rule)


def _listed(path: str) -> list[str]:
    """The tars below a folder, compressed or not, by path; a file is itself."""
    if os.path.isfile(path):
        is_one = path.lower().endswith((".tar", *COMPRESSED)) or _is_packed_tar(path)
        return [os.path.basename(path)] if is_one else []
    found: list[str] = []
    with suppress(OSError):
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = os.path.relpath(folder, path)
            tars = [name for name in names if name.lower().endswith((".tar", *COMPRESSED)) and not name.startswith(".")]
            found += [name if below == "." else f"{below}/{name}" for name in tars]
    return sorted(found)


IMPORTER = PackedImporter()
