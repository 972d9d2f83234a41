"""The same samples dealt to 1, 10, 100 and 1,000 prepared datasets: `python -m benchmarks.many_sources [SOURCES ...]`.

64,000 tiny samples (see tiny.py) under `$DATA/sources/N/`: dataset i of N has samples i * 64,000 / N and on, in one
shard. In the same way 16,000 photographs (see photos.py) under `$DATA/sources-photos/N/`. About a minute a kind, most
of it for preparing the thousand.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.corpora import ensure_corpus
from benchmarks.photos import write_photo_shard
from benchmarks.places import DATA
from benchmarks.tiny import write_tiny_shard

SAMPLES = 64_000
PHOTOS = 16_000
COUNTS = (1, 10, 100, 1000)
_WHOLE_SECONDS = 1_700_000_000

#: Writes a shard: to where, from which sample on, how many, and when they were changed last.
Write = Callable[[Path, int, int, int], None]


def ensure_photo_sources(count: int) -> list[Path]:
    """The roots of so many prepared datasets of photographs, built unless they stand complete."""
    raw = ensure_corpus("photos-raw")
    return ensure_sources(count, DATA / "sources-photos", PHOTOS, partial(write_photo_shard, raw))


def ensure_sources(
    count: int, folder: Path = DATA / "sources", samples: int = SAMPLES, write: Write = write_tiny_shard
) -> list[Path]:
    """The same of samples that `write` writes: tiny ones, unless it is given."""
    home, marker = folder / str(count), folder / f"{count}.complete"
    roots = [home / f"{number:04d}" for number in range(count)]
    if not marker.exists():
        shutil.rmtree(home, ignore_errors=True)
        for number, root in enumerate(roots):
            _prepared(root, number * (samples // count), samples // count, write)
        marker.touch()
    return roots


def _prepared(root: Path, first: int, samples: int, write: Write) -> None:
    from wdsctl.core.index.request import IndexRequest
    from wdsctl.core.prepare.prepare import prepare
    from wdsctl.core.prepare.request import PrepareRequest

    root.mkdir(parents=True)
    write(root / "shard-000000.tar", first, samples, _WHOLE_SECONDS)
    options = PrepareRequest(
        sample_type="CaptioningSample", field_map={"image": "jpg", "caption": "txt"}, index=IndexRequest(workers=1)
    )
    prepare(str(root), None, options)


if __name__ == "__main__":
    for given in [int(word) for word in sys.argv[1:]] or COUNTS:
        print(f"{len(ensure_sources(given))} sources of tiny samples are complete", file=sys.stderr)
        print(f"{len(ensure_photo_sources(given))} sources of photographs are complete", file=sys.stderr)
