"""Builds the corpora, byte for byte the same every time: `python -m benchmarks.corpora NAME ...`.

    tiny             1,000,000 samples of 2 tiny parts, 100 shards of 10,000, plain ustar         2.1 GB
    tiny-webdataset  200,000 of them as webdataset's own writer lays them out (PAX headers)       0.8 GB
    photos           20,000 samples (jpg 256x256, txt, json), 20 shards of 1000                   0.4 GB
    photos-raw       the same as 60,000 files in one folder
    clips            1000 videos (mp4 320x240, 10 s, with sound), 20 shards of 50                 0.1 GB
    tiny-5m          5,000,000 samples: those of tiny, as hard links, and 400 shards more         8.2 GB
    captions         1,000,000 lines of JSON of some 400 bytes, in one file                       0.4 GB
    conversations    1,000,000 of some 2 KB, in one file                                          2.0 GB
    captions-8       the lines of captions in 8 files                                             0.4 GB
    conversations-8  the lines of conversations in 8 files                                        2.0 GB

Runs in the peers' environment, which has numpy, Pillow and the photographs.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.places import DATA

TINY_SAMPLES = 1_000_000
TINY_WEBDATASET_SAMPLES = 200_000
PHOTO_SAMPLES = 20_000
CLIPS = 1000
LINES = 1_000_000
MANY_TINY_SAMPLES = 5_000_000
_TINY_SHARD = 10_000
#: The clock of every member. The fraction is what makes tarfile write PAX headers.
_WHOLE_SECONDS = 1_700_000_000
_FRACTION = 0.1234567


def ensure_corpus(name: str) -> Path:
    """The corpus's folder, built unless it stands complete."""
    folder, marker = DATA / name, DATA / f"{name}.complete"
    if not marker.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _BUILDERS[name](folder)
        marker.touch()
    return folder


def _tiny(folder: Path) -> None:
    _tiny_shards(folder, TINY_SAMPLES, _WHOLE_SECONDS)


def _tiny_webdataset(folder: Path) -> None:
    _tiny_shards(folder, TINY_WEBDATASET_SAMPLES, _WHOLE_SECONDS + _FRACTION)


def _tiny_shards(folder: Path, samples: int, mtime: float, *, begin: int = 0) -> None:
    from benchmarks.tiny import write_tiny_shard

    for first in range(begin, samples, _TINY_SHARD):
        write_tiny_shard(folder / f"shard-{first // _TINY_SHARD:06d}.tar", first, _TINY_SHARD, mtime)


def _many_tiny(folder: Path) -> None:
    for shard in ensure_corpus("tiny").glob("*.tar"):
        os.link(shard, folder / shard.name)
    _tiny_shards(folder, MANY_TINY_SAMPLES, _WHOLE_SECONDS, begin=TINY_SAMPLES)


def _lines(folder: Path, *, kind: str, files: int) -> None:
    from benchmarks.lines import caption, conversation, write_lines

    text = {"captions": caption, "conversations": conversation}[kind]
    for number in range(files):
        write_lines(folder / f"{kind}-{number}.jsonl", number * (LINES // files), LINES // files, text)


def _photos_raw(folder: Path) -> None:
    from benchmarks.photos import write_photos

    write_photos(folder, PHOTO_SAMPLES)


def _photos(folder: Path) -> None:
    from benchmarks.photos import shard_photos

    shard_photos(ensure_corpus("photos-raw"), folder, samples=PHOTO_SAMPLES, mtime=_WHOLE_SECONDS)


def _clips(folder: Path) -> None:
    from benchmarks.clips import write_clips

    write_clips(folder, CLIPS, mtime=_WHOLE_SECONDS)


_BUILDERS: dict[str, Callable[[Path], None]] = {
    "tiny": _tiny,
    "tiny-webdataset": _tiny_webdataset,
    "photos-raw": _photos_raw,
    "photos": _photos,
    "clips": _clips,
    "tiny-5m": _many_tiny,
    "captions": partial(_lines, kind="captions", files=1),
    "conversations": partial(_lines, kind="conversations", files=1),
    "captions-8": partial(_lines, kind="captions", files=8),
    "conversations-8": partial(_lines, kind="conversations", files=8),
}

if __name__ == "__main__":
    for corpus in sys.argv[1:] or _BUILDERS:
        print(f"{corpus}: {ensure_corpus(corpus).name} is complete", file=sys.stderr)
