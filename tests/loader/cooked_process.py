"""Run by a test in a separate process: resumes a packing training with media from a store, and a cache pool.

`python -m tests.loader.cooked_process BLEND FOLDER WORKERS`. FOLDER has states.json; prints digests, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.loader.cooks import packing
from tests.loader.running import digests
from wdsctl.loader import FileStoreCachePool


def main(blend: str, folder: str, workers: str) -> None:
    results = []
    for state in json.loads((Path(folder) / "states.json").read_text(encoding="utf-8")):
        pool = FileStoreCachePool(Path(folder) / "other cache")
        with packing(json.loads(blend), pool=pool, num_workers=int(workers)) as loader:
            loader.load_state_dict(state)
            results.append(digests(loader, 3))
        pool.close()
    print(json.dumps(results))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(*sys.argv[1:])
