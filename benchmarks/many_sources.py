"""The same samples dealt to 1, 10, 100 and 1,000 prepared datasets: `python -m benchmarks.many_sources [SOURCES ...]`.

64,000 tiny samples (see tiny.py) under `$DATA/sources/N/`: dataset i of N has samples i * 64,000 / N and on, in one
shard. About a minute for all of them, most of it for preparing the thousand.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks.places import DATA
from benchmarks.tiny import write_tiny_shard

SAMPLES = 64_000
COUNTS = (1, 10, 100, 1000)
_WHOLE_SECONDS = 1_700_000_000


def ensure_sources(count: int, folder: Path = DATA / "sources", samples: int = SAMPLES) -> list[Path]:
    """The roots of so many prepared datasets, built unless they stand complete."""
    home, marker = folder / str(count), folder / f"{count}.complete"
    roots = [home / f"{number:04d}" for number in range(count)]
    if not marker.exists():
        shutil.rmtree(home, ignore_errors=True)
        for number, root in enumerate(roots):
            _prepared(root, number * (samples // count), samples // count)
        marker.touch()
    return roots


def _prepared(root: Path, first: int, samples: int) -> None:
    from wdsctl.core.verbs.prepare import PrepareOptions, prepare

    root.mkdir(parents=True)
    write_tiny_shard(root / "shard-000000.tar", first, samples, _WHOLE_SECONDS)
    options = PrepareOptions(sample_type="CaptioningSample", field_map={"image": "jpg", "caption": "txt"}, workers=1)
    prepare(str(root), None, options)


if __name__ == "__main__":
    for given in [int(word) for word in sys.argv[1:]] or COUNTS:
        print(f"{len(ensure_sources(given))} sources are complete", file=sys.stderr)
