"""Runs conversions and reads the datasets that they write."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

from tests.build import some_shards
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.location import locate
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

Members = list[tuple[str, bytes]]


def convert_to(dest: Path, *sources: str | Path, **options: Any) -> ConvertReport:
    return convert([str(source) for source in sources], str(dest), ConvertRequest(**options))


def members(root: Path) -> Members:
    """All files in all tars, in order."""
    found: Members = []
    for path in sorted(root.rglob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                found.append((member.name, file.read()))
    return found


def content(root: Path) -> dict[str, bytes]:
    found = members(root)
    assert len(dict(found)) == len(found)
    return dict(found)


def keys(root: Path) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name, _ in members(root)))


def files(root: Path) -> dict[str, bytes]:
    """All files except those of .wdsctl."""
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(p.relative_to(root)): p.read_bytes() for p in paths if ".wdsctl" not in p.parts}


def splits(root: Path) -> dict[str, int]:
    with Catalog.open(locate(str(root)).catalog_path) as catalog:
        return {split.name: split.samples for split in catalog.splits()}


def a_prepared_dataset(root: Path, count: int = 4, each: int = 10) -> str:
    source = some_shards(root, count, each)
    prepare(source, None, PrepareRequest(split={"train": 8, "val": 2}, split_by="sample", accept_type=True))
    return source
