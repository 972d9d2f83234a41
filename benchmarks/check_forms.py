"""Reads an MDS folder with Mosaic Streaming itself, to show that it takes what `wdsctl convert --to mds` writes.

`benchmarks/.venv-peers/bin/python -m benchmarks.check_forms FOLDER` prints every sample, an image as its size.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.make_fixtures import without_torchvision


def main(folder: str) -> None:
    """Print a line of JSON a sample."""
    without_torchvision()
    from streaming.base.format import reader_from_json

    for shard in json.loads((Path(folder) / "index.json").read_bytes())["shards"]:
        reader = reader_from_json(folder, None, shard)
        for row in range(reader.samples):
            print(json.dumps({name: _plain(value) for name, value in reader[row].items()}))


def _plain(value: Any) -> Any:
    return list(value.size) if hasattr(value, "size") and not isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main(sys.argv[1])
