"""A folder to shards from Python: `python -m benchmarks.contenders.writer RAW DESTINATION`.

`wdsctl.Writer`, paths as values, a thousand samples a shard. Unlike the script of ShardWriter, it ends with a catalog.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from wdsctl import Writer

_SAMPLES_A_SHARD = 1000


def main(raw: Path, destination: Path) -> None:
    with Writer(destination, sample_type="CrudeSample", shard_samples=_SAMPLES_A_SHARD, workers=1) as writer:
        for key, files in groupby(sorted(raw.iterdir()), key=lambda path: path.stem):
            writer.write({"key": key, **{path.suffix[1:]: path for path in files}})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
