"""photos as MDS: `python -m benchmarks.contenders.convert_mosaic RAW DESTINATION`. Image and caption as bytes."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.contenders.mosaic_package import MDSWriter


def main(raw: Path, destination: Path) -> None:
    with MDSWriter(out=str(destination), columns={"jpg": "bytes", "txt": "bytes"}) as writer:
        for image in sorted(raw.glob("*.jpg")):
            writer.write({"jpg": image.read_bytes(), "txt": image.with_suffix(".txt").read_bytes()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
