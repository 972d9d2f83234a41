"""The words and the columns of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    head: str
    figure: str
    #: What the figure is divided by to be shown in the unit of the head.
    unit: float = 1.0
    decimals: int = 1
    #: More is better.
    is_rate: bool = False

    def cell(self, figures: Mapping[str, float]) -> str:
        value = figures.get(self.figure)
        return "" if value is None else f"{value / self.unit:,.{self.decimals}f}"


_WALL = Column("wall, s", "wall_seconds", decimals=2)
_CPU = Column("CPU, s", "cpu_seconds", decimals=2)
_LARGEST = Column("largest process, MB", "peak_bytes", 1e6, 0)
_TREE = Column("whole tree, MB", "tree_peak_bytes", 1e6, 0)

#: The columns of a subject's tables; the first one is what the ratios are taken of.
COLUMNS = {
    "prepare": (
        _WALL,
        _CPU,
        _LARGEST,
        _TREE,
        Column("catalog, bytes a sample", "catalog_bytes_a_sample"),
        Column("all files made, bytes a sample", "made_bytes_a_sample"),
    ),
    "folder": (_WALL, _CPU, _LARGEST, _TREE),
    "loader": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("first batch, s", "first_batch_seconds", decimals=3),
        _LARGEST,
        _TREE,
    ),
    "start": (
        Column("first batch, ms", "first_batch_seconds", 0.001, 2),
        _WALL,
        Column("state, bytes", "state_bytes", decimals=0),
        Column("saving it, ms", "state_seconds", 0.001, 3),
    ),
}

INTRODUCTION = """\
# Benchmarks

<!-- Written by `make bench` from benchmarks/results/latest.json. Edit benchmarks/wording.py, not this page. -->

Every figure is a ratio taken in one run on one machine: each contender in a process of its own, one untimed run first
(so the page cache is warm), then rounds in which everybody runs once, and the medians of these. Absolute numbers belong
to this machine; the ratios travel better. `make bench` builds the peers' environment and the corpora, measures, and
writes this page. `$DATA` is the folder of the corpora.
"""

_START = """\
Whole processes for the help. For the first batch: a million samples, batches of 32 raw samples; from the arguments to
the batch in a process that has imported everything; resumed from a state that was saved two passes into the stream.
"""

_PREPARE = """\
`tiny`: one million samples of two parts (a jpg of 40 to 63 bytes, a txt of 20 to 43) with 9-character keys, in 100
plain ustar shards. `tiny-webdataset`: 200,000 of them as webdataset's own writer lays them out, with a PAX header
before every member. Whole processes, from the bare shards to a dataset ready for training; what an earlier run made is
deleted off the clock. Afterwards the number of samples in the catalog is checked.
"""

_FOLDER = """\
60,000 files (20,000 samples of jpg, json and txt, 15 KB each) to shards of 1000 samples, against a script that does it
the usual way, with webdataset's ShardWriter. wdsctl also leaves a catalog behind; the script does not. Afterwards the
size of every member is checked against the files.
"""

_LOADER = """\
20,000 samples: a 256x256 JPEG of 15 KB made from real photographs, and a caption. Batches of 32, shuffled. Raw: lists
of bytes, of which every byte is then read, which costs 1 us a sample from the cache and 3 us from memory. Decoded: one
uint8 tensor (32, 3, 256, 256) a batch. Before the clock starts, each contender goes through the data once, and must
have seen every sample once with the same checksum. The first batch is timed from after the imports. Where a loader
ends its pass and is started again, that time is not counted.
"""

#: Title and text of each subject, in the order of the page.
SUBJECTS = {
    "prepare": ("Preparing a dataset", _PREPARE),
    "folder": ("A folder to shards", _FOLDER),
    "loader": ("Loading", _LOADER),
    "start": ("Starting", _START),
}

NOTES = """\
## Notes

- Energon, webdataset, MosaicML Streaming and LitData decode JPEG with Pillow here: LitData's own decoder is that of
  torchvision, whose wheel on PyPI needs a CUDA build of torch. wdsctl and the bare loop use simplejpeg.
- torch runs with one thread in every contender, as it does in the workers of its own DataLoader.
- MosaicML Streaming and LitData read the corpus converted to their own formats, image and caption only, as bytes.
- LitData without workers hands out views of its mapped chunks; everybody else hands out bytes of their own.
- The bare loop is a yardstick, not a loader: every shard mapped, offsets in one array, the order a numpy permutation.
- The CPU seconds of wdsctl's rows leave out its worker processes, which are children of a fork server that the kernel
  does not add up with the command; wall seconds and memory include them.
- Which code: the prepare and start rows were taken on commit 978797f; the loader rows while the changes of 89953fa were
  being written in the same tree, so that they belong to no commit and are to be taken again.
- Where a target says short. Raw: what is left is the copy out of the page cache (4 to 5 us for 18 KB by one call), on
  this machine's memory; Energon is faster here than it was when the target was set. Views: reading every byte costs
  more than making the batch does. Decoded: 0.9 of the time is libjpeg-turbo's, on one core; see docs/decisions/0001.
- Memory of the largest process is what the kernel reports at its end. That of the whole tree is the proportional set
  size, sampled ten times a second in the untimed run.
"""
