"""Raw folders, and the shards that are written from them."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from typing import Any

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.write import FolderReport, write_folder

FEW = PrepareRequest(shard_samples=4)


def a_folder(root: Path, samples: int, *, first: int = 0, size: int = 300) -> Path:
    """Writes samples of two parts, whose bytes are determined by their names."""
    for i in range(first, first + samples):
        folder = root / f"{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        for part in ("jpg", "txt"):
            (folder / f"{i:05d}.{part}").write_bytes(random.Random(f"{i}.{part}").randbytes(size + i % 700))
    return root


def write(source: Path, dest: Path, options: PrepareRequest = FEW, **more: Any) -> FolderReport:
    with Ledger.open(str(dest / ".wdsctl" / "ledger.sqlite")) as ledger:
        return write_folder(str(source), str(dest), options, ledger=ledger, **more)


def shards(dest: Path) -> dict[str, bytes]:
    return {str(path.relative_to(dest)): path.read_bytes() for path in sorted(dest.rglob("*.tar"))}


def others(dest: Path) -> list[str]:
    """Names of files that are neither shards nor files of wdsctl."""
    files = [path for path in dest.rglob("*") if path.is_file() and ".wdsctl" not in path.parts]
    return [path.name for path in files if path.suffix != ".tar"]


def members(dest: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(dest.rglob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                assert member.name not in found
                found[member.name] = file.read()
    return found


def files(source: Path) -> dict[str, bytes]:
    return {str(path.relative_to(source)): path.read_bytes() for path in source.rglob("*") if path.is_file()}
