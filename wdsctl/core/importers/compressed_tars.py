"""Read compressed tars as streams, from the first member to the last; random access is not possible."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import Any, cast

from wdsctl.core.dataset.shard_names import ANY_TAR_SUFFIXES, COMPRESSED_TAR_SUFFIXES
from wdsctl.core.errors import DatasetError, Finding, InputError, StorageError, UsageError, translate_os_errors
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, held_limit, scale_limit
from wdsctl.core.importers.common.arrow import import_arrow_module
from wdsctl.core.importers.common.compressed import DAMAGE_ERRORS, detect_file_compression, open_decompressed
from wdsctl.core.importers.common.split_paths import find_path_splits, path_split_findings
from wdsctl.core.importers.common.values import parse_choice_option
from wdsctl.core.importers.protocol import (
    FilePart,
    FormatMatch,
    Options,
    Part,
    SampleListing,
    SourceDescription,
    SourceEntry,
)
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import check_beneath, is_beneath
from wdsctl.core.samples.key_rules import MIN_DISSENTING_SHARE, SampleLayout, choose_key_rule, describe_rule_outcome
from wdsctl.core.samples.naming import (
    FIRST_DOT,
    KEY_RULES,
    KNOWN_EXTENSION,
    KeyRuleName,
    dotless_key,
    parse_key_rule,
    split_name_by_rule,
)
from wdsctl.core.shards.tar_members import MAX_EXTENDED_HEADER_BYTES
from wdsctl.core.storage import source_files
from wdsctl.core.tar_header import (
    TAR_BLOCK_BYTES,
    BadTarHeader,
    parse_header,
)
from wdsctl.core.text import printable_path

_PROBED_TARS = 8  # tars whose contents are checked for a compression that their names do not show
_DAMAGE_ERRORS = (tarfile.TarError, *DAMAGE_ERRORS)
_MAX_SAMPLE_BYTES = 4 << 30  # limit for a sample in memory: a few KiB of gzip may decompress to any size
_HEADER_TYPES = (
    *tarfile.GNU_TYPES,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)  # `tarfile` reads the data of these members as a whole
_SAMPLE_NUMBER_BITS = 28  # the low bits of a sample index: the sample's number in its file

TarSample = tuple[str, list[tuple[str, int, bytes]]]


class CompressedTarSource:
    """Compressed tars as a source. A sample index combines the number of a file and of a sample in it.

    Reading in order decompresses a file once; reading an earlier sample decompresses it again from the start.
    `rule`: where keys end; None for the first dot, which listing checks against the names. `splits`: the split of each
    file, empty for none; empty if no file is in a split. `problems`: findings about damaged files, from the last
    listing. `findings`: about the splits.
    """

    def __init__(
        self,
        root: str,
        files: list[str],
        rule: KeyRuleName | None = None,
        splits: Sequence[str] = (),
        findings: Sequence[Finding] = (),
    ) -> None:
        self._root = root
        self._files = files
        self._splits = splits
        self._findings = tuple(findings)
        self._requested_rule = rule
        self._rule: KeyRuleName = rule or FIRST_DOT
        self._open: tuple[int, int, Iterator[TarSample]] | None = None
        self.problems: list[Finding] = []

    def __enter__(self) -> CompressedTarSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open = None

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, self._splits)))

    def describe(self) -> SourceDescription:
        return SourceDescription(findings=self._findings)

    def digest(self) -> bytes:
        digest = blake2b(self._rule.encode(), digest_size=16)
        for name in self._files:
            path = os.path.join(self._root, name)
            with translate_os_errors(path, "read"):
                facts = source_files.stat_file(path)
            digest.update(f"{name}\0{facts.size}\0{facts.version}\0".encode("utf-8", "surrogateescape"))
        return digest.digest()

    def entries(self) -> Iterator[SourceEntry]:
        for known in self.list_samples():
            yield SourceEntry(known.key, sum(size for _, size in known.parts))

    def list_samples(self) -> Iterator[SampleListing]:
        """The samples of all files. Cost: decompresses everything once.

        Lists a damaged file up to the damage, and adds a finding to `problems`. After the last sample, raises
        DatasetError WDS245 if the names suggest that several samples were merged into one.
        """
        self.problems = []
        layouts: dict[tuple[str, ...], tuple[int, str]] = {}
        bits = {name: 1 << i for i, name in enumerate(self.split_names)}
        for number, name in enumerate(self._files):
            split = bits.get(self._splits[number], 0) if self._splits else 0
            try:
                skipped = _SkippedMembers(printable_path(name))
                samples = _read_samples(os.path.join(self._root, name), self._rule, skipped.add, with_data=False)
                for i, (key, parts) in enumerate(samples):
                    sizes = tuple(sorted((part, size) for part, size, _ in parts))
                    names = tuple([part for part, _ in sizes])
                    count, first = layouts.get(names, (0, key))
                    layouts[names] = count + 1, first
                    yield SampleListing(number << _SAMPLE_NUMBER_BITS | i, key, sizes, split)
                self.problems += skipped.findings()
            except _DAMAGE_ERRORS as error:
                message = f"it is truncated or damaged: {' '.join(str(error).split()) or 'cut off'}"
                self.problems.append(
                    Finding(code="WDS102", severity="error", message=message, shard=printable_path(name))
                )

        if self._requested_rule is None:
            _check_keys(self._root, [SampleLayout(names, count, key) for names, (count, key) in layouts.items()])

    def read(self, sample_index: int) -> tuple[Part, ...]:
        return tuple(part for part in self.read_selected(sample_index, lambda _name: True) if isinstance(part, Part))

    def read_selected(self, sample_index: int, is_selected: Callable[[str], bool]) -> tuple[Part | FilePart, ...]:
        number, i = sample_index >> _SAMPLE_NUMBER_BITS, sample_index & (1 << _SAMPLE_NUMBER_BITS) - 1
        path = os.path.join(self._root, self._files[number])
        at, samples = 0, None
        if self._open is not None and self._open[0] == number and self._open[1] <= i:
            _, at, samples = self._open
        try:
            if samples is None:
                samples = _read_samples(path, self._rule, with_data=True)
            _, parts = next(islice(samples, i - at, None))
        except _DAMAGE_ERRORS as error:
            self._open = None
            raise StorageError(
                f"cannot unpack it: {error}", where=path, hint="copy the tar again from its origin"
            ) from error
        except StopIteration as error:
            raise StorageError(
                "the tar has become shorter since wdsctl listed it", where=path, hint="run the same command again"
            ) from error
        self._open = number, i + 1, samples
        if sum(size for _, size, _ in parts) > (limit := _sample_limit(path)):
            raise DatasetError(
                f"a sample has more than {limit >> 20:,} MiB unpacked, out of proportion to the size of the tar",
                hint=f"unpack the tar first: parts of plain tars may have any size; or {RAISE_LIMITS_HINT}",
                where=path,
                code="WDS233",
            )
        return tuple(Part(name, data) for name, _, data in sorted(parts) if is_selected(name))

    def prefetch(self, sample_indexes: list[int]) -> None:
        """Do nothing: streams are read in sequence."""


def _sample_limit(path: str) -> int:
    return min(scale_limit(_MAX_SAMPLE_BYTES), held_limit(source_files.stat_file(path).size))


def _check_keys(root: str, layouts: list[SampleLayout]) -> None:
    found = choose_key_rule(layouts)
    if found.odd_share >= MIN_DISSENTING_SHARE:
        raise DatasetError(
            f"cannot decide where the keys of these members end: {found.reason}; {KNOWN_EXTENSION} would give "
            f"{describe_rule_outcome(layouts, KNOWN_EXTENSION)}",
            where=root,
            hint=f"pass `-O key-until={KNOWN_EXTENSION}` for these samples, or `-O key-until={FIRST_DOT}` for one "
            "sample",
            code="WDS245",
        )


class _SkippedMembers:
    """Counts the members of a tar that are in no sample, as the scan of plain tars does. Folders do not count."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._members: dict[str, tuple[int, str]] = {}  # code -> count, first name

    def add(self, member: tarfile.TarInfo) -> None:
        if not member.isdir():
            is_part = not member.isreg() and split_name_by_rule(member.name, FIRST_DOT) is not None
            code = "WDS112" if member.isreg() else "WDS118" if is_part else "WDS111"
            count, first = self._members.get(code, (0, member.name))
            self._members[code] = count + 1, first

    def findings(self) -> Iterator[Finding]:
        for code, (count, first) in self._members.items():
            what = {
                "WDS112": "members whose names have no key",
                "WDS118": "parts that are links or other special files (skipped)",
                "WDS111": "members that are not regular files",
            }[code]
            yield Finding(
                code=code,
                severity="warning" if code == "WDS118" else "note",
                message=f"{what}, such as {printable_path(first)}",
                shard=self._shard,
                count=count,
            )


def _read_samples(
    path: str, rule: KeyRuleName, skip: Callable[[tarfile.TarInfo], None] | None = None, *, with_data: bool
) -> Iterator[TarSample]:
    """Yield (key, [(part, size, data)]): neighbouring members with the same key are one sample.

    A repeated part begins a new sample. Skips links, folders and devices, with a call of `skip` for each. Writes
    nothing to disk. Without `with_data`, and beyond what `held_limit` allows for a sample, `data` is empty.
    """
    limit = _sample_limit(path)
    key, parts, names, held = "", list[tuple[str, int, bytes]](), set[str](), 0
    with (
        open_decompressed(path) as stream,
        tarfile.open(fileobj=stream, mode="r|", errorlevel=1, tarinfo=_BoundedTarInfo) as archive,
    ):
        for member in archive:
            cast("Any", archive).members = []  # `tarfile` keeps every member in memory otherwise
            named = split_name_by_rule(member.name, rule) if member.isreg() else None
            if named is None:
                if skip is not None:
                    skip(member)
                continue
            named = dotless_key(named[0]), named[1]
            if named[0] != key or named[1] in names:
                if parts:
                    yield key, parts
                key, parts, names, held = named[0], [], set(), 0
            held += member.size
            names.add(named[1])
            file = archive.extractfile(member) if with_data and held <= limit else None
            parts.append((named[1], member.size, file.read(member.size) if file is not None else b""))
        if parts:
            yield key, parts


class _BoundedTarInfo(tarfile.TarInfo):
    """A member that limits the size of its extended header (long name, pax), so that the header fits into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _HEADER_TYPES and self.type != tarfile.GNUTYPE_SPARSE and self.size > MAX_EXTENDED_HEADER_BYTES:
            raise tarfile.ReadError(f"a header claims {self.size:,} bytes")
        return cast("Any", super())._proc_member(archive)  # noqa: SLF001 - all paths in tarfile read such data here

    def _proc_gnusparse_10(self, member: Any, _pax_headers: Any, archive: Any) -> None:
        """Read the map before the data of a sparse file, lines of numbers, with a limit that `tarfile` lacks."""
        data, lines, needed = bytearray(), 0, 1
        while lines < needed:
            block = archive.fileobj.read(TAR_BLOCK_BYTES)
            data += block
            lines += block.count(b"\n")
            if not block or len(data) > MAX_EXTENDED_HEADER_BYTES:
                raise tarfile.ReadError("the map of a sparse file is damaged, or too long")
            if lines and needed == 1:
                needed += 2 * int(data[: data.index(b"\n")])
        _, *numbers = map(int, data.split(b"\n", needed)[:needed])
        member.offset_data = archive.fileobj.tell()
        member.sparse = list(zip(numbers[::2], numbers[1::2], strict=True))


def _is_compressed_tar(path: str) -> bool:
    """Whether a file is a compressed tar, by its content. Cost: decompresses the first block."""
    try:
        if not detect_file_compression(path):
            return False
        with open_decompressed(path) as stream:
            block = stream.read(TAR_BLOCK_BYTES)
        if len(block) == TAR_BLOCK_BYTES:
            parse_header(block)
    except (*_DAMAGE_ERRORS, BadTarHeader, UsageError):
        return False
    return len(block) == TAR_BLOCK_BYTES


class CompressedTarImporter:
    """Option: `-O key-until=last-dot|known-extension`, for keys that contain dots.

    `convert` passes the internal option `files`, a JSON list of the files to read below the folder.
    """

    name = "packed"
    about = "tars compressed with gzip, bzip2, xz, zstd or lz4, and plain tars beside them"

    def recognise(self, path: str) -> FormatMatch | None:
        """Match file names, and the content of the first 8 tars.

        Scores below a catalog: `convert` reads the compressed tars of an indexed dataset next to its shards.
        """
        files = _list_tars(path)
        packed = [name for name in files if name.lower().endswith(COMPRESSED_TAR_SUFFIXES)]
        if not packed and source_files.is_file(path):
            packed = [name for name in files if _is_compressed_tar(path)]
        if not packed:
            looked_at = [name for name in files[:_PROBED_TARS] if is_beneath(os.path.join(path, name), (path,))]
            packed = [name for name in looked_at if _is_compressed_tar(os.path.join(path, name))]
        return FormatMatch(0.97, f"it has compressed tars, such as {packed[0]}") if packed else None

    def open(self, path: str, options: Options) -> CompressedTarSource:
        """Raises InputError WDS003 if there are no tars, UsageError for an option, WDS236 if pyarrow is missing."""
        unknown = sorted(set(options) - {"files", "key-until"})
        if unknown:
            raise UsageError(f"compressed tars have no option {unknown[0]!r}", hint="use key-until, their only option")
        rule = (
            parse_key_rule(parse_choice_option(self.name, options, "key-until", KEY_RULES))
            if "key-until" in options
            else None
        )
        # The plain tars beside those that `convert` passes have the splits of their catalog.
        files = read_json(options["files"]) if "files" in options else _list_tars(path)
        by_path = [] if "files" in options else find_path_splits(files)
        if not files:
            raise InputError("no tars found", where=path, hint="check the path", code="WDS003")
        if any(name.lower().endswith((".zst", ".lz4")) for name in files):
            import_arrow_module("pyarrow", "zstd and lz4 compression")
        root = path if source_files.is_folder(path) else os.path.dirname(path)
        for name in files if source_files.is_folder(path) else ():
            check_beneath(os.path.join(path, name), path)
        findings = [] if "files" in options else path_split_findings(by_path, files, root)
        return CompressedTarSource(root, files, rule, [each.split for each in by_path], findings)


def _list_tars(path: str) -> list[str]:
    """Paths of the tars below a folder, compressed or not, sorted; for a tar file, its own name."""
    if source_files.is_file(path):
        is_one = path.lower().endswith(ANY_TAR_SUFFIXES) or _is_compressed_tar(path)
        return [os.path.basename(path)] if is_one else []
    found: list[str] = []
    with suppress(OSError):
        for folder, folders, names in source_files.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = os.path.relpath(folder, path)
            tars = [name for name in names if name.lower().endswith(ANY_TAR_SUFFIXES) and not name.startswith(".")]
            found += [name if below == "." else f"{below}/{name}" for name in tars]
    return sorted(found)


IMPORTER = CompressedTarImporter()
