"""Builders of shards and datasets, and the state of a folder, for tests at every level."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.places import place_dataset, update_copy
from wdsctl.core.index.report import IndexReport
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_members import ReadBytes
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.split.split import SplitReport, SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitBy, SplitRule

Files = Mapping[str, bytes] | Sequence[tuple[str, bytes]]
AsNobody = Callable[[Callable[[], Any]], Any]  # the fixture that calls a function as a user who owns nothing


def a_shard(files: Files, *, format: int = tarfile.USTAR_FORMAT) -> bytes:  # noqa: A002 - tarfile's own word
    """The bytes of a tar with these members, as Python's tarfile writes them. Use pairs for duplicate names."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for name, data in files.items() if isinstance(files, Mapping) else files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def an_archive(members: Iterable[tarfile.TarInfo], *, format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002
    """The bytes of a tar with these members of any type; data is zeros."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return file.getvalue()


def samples(first: int, count: int, *parts: str, size: int = 8) -> dict[str, bytes]:
    """Members of `count` samples, numbered from `first`, each with these parts (default: jpg and txt)."""
    return {
        f"{i:06d}.{part}": f"{i} {part} ".encode().ljust(size, b".")
        for i in range(first, first + count)
        for part in parts or ("jpg", "txt")
    }


def a_dataset(root: Path, shards: Mapping[str, Files | bytes]) -> str:
    """A folder with these shards: members by name, or the bytes of the file. Returns its path in the test's place."""
    a_folder(root, {name: data if isinstance(data, bytes) else a_shard(data) for name, data in shards.items()})
    return place_dataset(root)


def a_folder(root: Path, files: Mapping[str, bytes]) -> str:
    """A folder with these files."""
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(root)


def some_shards(root: Path, count: int, each: int = 5, *, first: int = 0) -> str:
    """`count` shards of `each` samples with a jpg and a txt, named `shard-000.tar`, numbered from `first`."""
    return a_dataset(root, {f"shard-{i:03d}.tar": samples(i * each, each) for i in range(first, first + count)})


def linked_shards(folder: Path) -> str:
    """A dataset in `folder` of two links to shards in `folder/blobs`, like a download cache."""
    some_shards(folder / "blobs", 2)
    (folder / "snapshot").mkdir()
    for i in range(2):
        (folder / "snapshot" / f"{i}.tar").symlink_to(f"../blobs/shard-{i:03d}.tar")
    return str(folder / "snapshot")


def rewrite_shard(path: str | Path, content: bytes | Files) -> None:
    """Replace the content of a shard and advance its mtime, as a later write would."""
    before = os.stat(path).st_mtime_ns
    Path(path).write_bytes(content if isinstance(content, bytes) else a_shard(content))
    os.utime(path, ns=(before + 1_000_000_000, before + 1_000_000_000))
    update_copy(Path(path))


def memory_reader(data: bytes) -> ReadBytes:
    """A reader of a shard in memory that is as strict as storage: a read must lie within the file."""

    def read(offset: int, size: int) -> bytes:
        if not 0 <= offset <= offset + size <= len(data):
            raise AssertionError(f"a read of {size} bytes at {offset}, in a file of {len(data)}")
        return data[offset : offset + size]

    return read


def tree(root: str | Path) -> dict[str, tuple[int, int, int]]:
    """Every file below `root` with inode, size and time: two trees are equal if nothing was written between them."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in [*names, *folders]:
            path = os.path.join(folder, name)
            stat = os.lstat(path)
            is_folder = name in folders
            found[os.path.relpath(path, root)] = (stat.st_ino, 0 if is_folder else stat.st_size, stat.st_mtime_ns)
    return found


def a_scan(data: bytes) -> ShardScan:
    """The scan of a shard in memory."""
    return scan_tar("a.tar", memory_reader(data), len(data))


def an_image(form: str, **options: object) -> bytes:
    """The bytes of a small image in one of Pillow's formats."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (48, 32), (200, 30, 60)).save(file, form, **options)
    return file.getvalue()


def split_by_ratios(
    root: str,
    ratios: Mapping[str, float],
    *,
    by: SplitBy = "auto",
    seed: int = 0,
    dry_run: bool = False,
    allow_split_changes: bool = False,
    progress: Progress = SILENT_PROGRESS,
) -> SplitReport:
    """Divide the dataset by `ratios`, as `wdsctl split ROOT RATIOS` does."""
    request = SplitRequest(rule=SplitRule(dict(ratios), by, seed), allow_split_changes=allow_split_changes)
    return split_dataset(root, request, dry_run=dry_run, progress=progress)


def codes(found: ShardScan | IndexReport) -> list[str]:
    """The codes of all findings, in order."""
    return [finding.code for finding in found.findings]


class RecordingProgress:
    """A progress that records the calls of its methods."""

    def __init__(self, *, at_advance: Callable[[], None] = lambda: None) -> None:
        self.phases: list[tuple[str, int | None, int | None]] = []
        self.notes: list[str] = []
        self.items = 0
        self.size_bytes = 0
        self._at_advance = at_advance

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.phases.append((name, items, size_bytes))

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        self.items += items
        self.size_bytes += size_bytes
        self._at_advance()

    def note(self, message: str) -> None:
        self.notes.append(message)
