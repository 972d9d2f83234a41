"""A folder to shards the usual way: `python -m benchmarks.contenders.shardwriter RAW DESTINATION`.

webdataset's ShardWriter, dictionaries of bytes, a thousand samples a shard.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from webdataset import ShardWriter

_SAMPLES_A_SHARD = 1000


def main(raw: Path, destination: Path) -> None:
    destination.mkdir(parents=True)
    with ShardWriter(str(destination / "shard-%06d.tar"), maxcount=_SAMPLES_A_SHARD, verbose=0) as shards:
        for key, files in groupby(sorted(raw.iterdir()), key=lambda path: path.stem):
            shards.write({"__key__": key, **{path.suffix[1:]: path.read_bytes() for path in files}})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
