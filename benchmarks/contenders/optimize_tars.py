"""Tars as LitData chunks: `python -m benchmarks.contenders.optimize_tars TARS DESTINATION`, the fields of `convert`."""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from litdata import optimize
from litdata.types import Jpeg


def samples(path: str) -> Iterator[dict[str, Any]]:
    """The samples of a tar, whose members `KEY.jpg` and `KEY.txt` follow each other."""
    parts: dict[str, bytes] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            key, _, name = member.name.partition(".")
            file = tar.extractfile(member)
            parts[name] = file.read() if file else b""
            if len(parts) == 2:
                yield {"jpg": Jpeg(bytes=parts["jpg"]), "txt": parts["txt"].decode(), "__key__": key}
                parts = {}


def main(folder: Path, destination: Path) -> None:
    tars = sorted(map(str, folder.glob("*.tar")))
    optimize(fn=samples, inputs=tars, output_dir=str(destination), chunk_bytes="64MB", num_workers=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
