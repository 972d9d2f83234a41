"""photos as LitData chunks: `python -m benchmarks.contenders.convert_litdata RAW DESTINATION`. Bytes, as for MDS."""

from __future__ import annotations

import sys
from pathlib import Path

from litdata import optimize


def sample(image: str) -> dict[str, bytes]:
    return {"jpg": Path(image).read_bytes(), "txt": Path(image).with_suffix(".txt").read_bytes()}


def main(raw: Path, destination: Path) -> None:
    images = sorted(map(str, raw.glob("*.jpg")))
    optimize(fn=sample, inputs=images, output_dir=str(destination), chunk_bytes="64MB", num_workers=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
