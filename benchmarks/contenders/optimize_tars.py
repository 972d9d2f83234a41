"""Tars as LitData chunks: `python -m benchmarks.contenders.optimize_tars TARS DESTINATION`, the fields of `convert`."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from litdata import optimize
from litdata.types import Jpeg

_FIELDS: dict[str, Callable[[bytes], Any]] = {
    "jpg": lambda data: Jpeg(bytes=data),
    "json": json.loads,
    "txt": bytes.decode,
}


def samples(path: str) -> Iterator[dict[str, Any]]:
    """The samples of a tar, whose members `KEY.jpg`, `KEY.json` and `KEY.txt` follow each other."""
    with tarfile.open(path) as tar:
        for key, members in groupby(tar, lambda member: member.name.partition(".")[0]):
            fields = {}
            for member in members:
                name = member.name.partition(".")[2]
                file = tar.extractfile(member)
                fields[name] = _FIELDS[name](file.read() if file else b"")
            yield {**fields, "__key__": key}


def main(folder: Path, destination: Path) -> None:
    tars = sorted(map(str, folder.glob("*.tar")))
    optimize(fn=samples, inputs=tars, output_dir=str(destination), chunk_bytes="64MB", num_workers=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
