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
        Column("CPU of all processes, us a sample", "cpu_seconds_a_sample", 1e-6, 1),
        _LARGEST,
        _TREE,
    ),
    "start": (
        Column("first batch, ms", "first_batch_seconds", 0.001, 2),
        _WALL,
        Column("state, bytes", "state_bytes", decimals=0),
        Column("saving it, ms", "state_seconds", 0.001, 3),
    ),
    "sources": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("start to first batch, s", "start_seconds", decimals=3),
        Column("descriptors", "descriptors", decimals=0),
        Column("held after a pass, MB", "held_bytes", 1e6),
        _TREE,
    ),
    "plans": (
        Column("start, ms", "start_seconds", 0.001, 2),
        Column("a window at the beginning, ms", "window_begin_seconds", 0.001, 3),
        Column("half way, ms", "window_middle_seconds", 0.001, 3),
        Column("a thousand passes on, ms", "window_far_seconds", 0.001, 3),
        Column("held, MB", "held_bytes", 1e6),
        _TREE,
    ),
    "install": (
        _WALL,
        Column("environment, MB", "environment_bytes", 1e6, 0),
        Column("packages", "packages", decimals=0),
        _CPU,
    ),
    "states": (
        Column("state, bytes", "state_bytes", decimals=0),
        Column("of its budget", "budget_share", decimals=2),
        Column("saving it, ms", "state_seconds", 0.001, 3),
        Column("first batch, cold, ms", "cold_seconds", 0.001, 1),
        Column("resumed at 1 %, ms", "resumed_1_seconds", 0.001, 1),
        Column("at 50 %, ms", "resumed_50_seconds", 0.001, 1),
        Column("at 99 %, ms", "resumed_99_seconds", 0.001, 1),
    ),
    "packing": (
        Column("left empty, %", "empty_percent", decimals=3),
        Column("planning, s", "plan_seconds", decimals=2),
        Column("packs", "packs", decimals=0),
        _LARGEST,
    ),
    "media": (_WALL, Column("cutting, s", "extract_seconds", decimals=2), _CPU, _LARGEST, _TREE),
    "validate": (
        Column("GB/s", "gigabytes_per_second", decimals=2, is_rate=True),
        Column("all of it, s", "pass_seconds", decimals=3),
        _CPU,
        _LARGEST,
    ),
    "view": (
        Column("the view alone, ms", "view_seconds", 0.001, 1),
        Column("all that a training opens, ms", "open_seconds", 0.001, 1),
        Column("making it, s", "create_seconds", decimals=1),
        _LARGEST,
    ),
    "verbs": (
        Column("GB/s", "gigabytes_per_second", decimals=2, is_rate=True),
        Column("MB/s", "megabytes_per_second", decimals=0, is_rate=True),
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("wall, s", "wall_seconds", decimals=3),
        _CPU,
        _LARGEST,
        _TREE,
    ),
    "uploads": (
        Column("MB/s", "megabytes_per_second", decimals=1, is_rate=True),
        Column("CPU of the client, s", "client_cpu_seconds", decimals=2),
        Column("largest process of the client, MB", "client_peak_bytes", 1e6, 0),
    ),
    "shards": (
        Column("wall, s", "steps_seconds", decimals=1),
        Column("CPU, ms a shard", "cpu_seconds_a_shard", 0.001, 2),
        Column("CPU of the merge, ms a shard", "merge_cpu_seconds_a_shard", 0.001, 2),
        Column("share of the merge, %", "merge_cpu_share", 0.01, 0),
        Column("plan, MB", "plan_peak_bytes", 1e6, 0),
        Column("merge, MB", "merge_peak_bytes", 1e6, 0),
        Column("largest process, MB", "steps_peak_bytes", 1e6, 0),
    ),
    "transport": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        _CPU,
        _TREE,
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

_MEDIA = """\
What images and videos are, read into the catalog of a dataset that was indexed before, off the clock. Images: the
20,000 photographs of the loader's rows. Videos: H.264 and AAC in MP4, 320x240, 10 s, in shards of 50. Energon decodes
every image, and the sound of every video; wdsctl reads headers, and of a video the first frame for its rotation.
Afterwards the number of media with facts, and their widths, are checked.

Clips are cut by the `AVDecoder` of both, evenly over each video, of the short ones with their sound; "cutting" is
without imports. Energon is given the bytes of a video, as its loader does it, wdsctl a handle of its range in the
shard. "pyav, all of it" decodes every frame of every video, and converts none.
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

_PACKING = """\
A million lognormal lengths (a median of 403 tokens, cut at the capacity of 8,192), planned in windows of 16,384, with
what a window leaves over carried into the next one. With two budgets a pack has at most 16 images as well, and what is
left empty is that of the fuller budget. The example's greedy is the selection in the guide of Energon: sorted by
length, packs filled from the shortest on. Afterwards every sample is in one pack, and no pack over its capacity.
"""

_TRANSPORT = """\
Batches that are ready, from two worker processes to one consumer that reads every byte. Raw: 64 bytes objects of 16 KB.
Decoded: one uint8 tensor (32, 3, 256, 256). The bare ring has slots of one size in a shared map and nothing on it: no
results of other shapes, no replacement of workers, and a batch is the consumer's only until it takes the next. The pipe
is that of multiprocessing, with pickles. The first batches are compared with what was sent.
"""

_UPLOADS = """\
5,000 pictures of 120 KB with captions, 0.6 GB, to an S3 server of ours in its own process on the same two cores.
`wdsctl prepare` lists the raw files, builds shards, sends them, and publishes the catalog; `s3fs.put` sends the
finished tars of 64 MiB. The server limits its link to a speed. The objects have the sizes of the tars on the
disk.
"""

_SHARDS = """\
Shards of 5 KB with 4 samples. An array job is its plan, its two tasks one after the other, and its merge.
[Scale](scale.md) extrapolates.
"""

_SOURCES = """\
64,000 tiny samples (two parts of some 40 bytes) from 1, 10, 100 and 1,000 datasets of one shard, blended with equal
weights; batches of 32, no workers. Raw: parts as bytes. Hook: an `encode_sample` that makes a small tensor. Reading
costs next to nothing here, so that what a source costs is not hidden by it. Decoded: 16,000 of the photographs in place
of the tiny samples, as a training would have them. Before the clock starts, a pass' worth of samples is drawn, and
every dataset must have given its share within 2 picks a lane. Descriptors and bytes held are beyond those of the same
process with one of the datasets.
"""

_PLANS = """\
Plans without a byte of samples: orders, blend and lanes, walked as a training walks them, 1,000 references at a time on
one of 8 lanes; slices of 16, windows of 1,000. Positions and shares are checked.
"""

_VALIDATE = """\
The level `structure` of `wdsctl validate` over the shards of the 20,000 photographs: every header, the names, keys and
parts that they make. Against reading the same files as `cat` does, in pieces of 128 KiB that are thrown away. Both in
one process, on one core, from the page cache, once the modules are loaded.
"""

_VIEW = """\
A catalog of ten million samples of two parts in 1,000 shards, split by sample; there are no bytes of samples. Opened
from the root and a view's name to the selection that a training draws from, in a process that has imported everything.
Made by an expression over the sample's own columns, over those of its parts, and over the splits.
"""

_VERBS = """\
What is done by hand all day, as whole processes, from the page cache. Getting one sample's text by its key: one search
in the catalog, or where it has no rows of samples, in the keys of the offsets file; and one read. What comes must be
what tarfile finds.

Lines: a million objects of JSON, each with an image's path and a caption (250 to 450 characters), or a conversation of
four turns (350 to 550 each), from the bare files to the catalog; no line is parsed. What is made is counts, and the
offsets file that trainings and `get` read; rows of samples are kept where they are asked for, else made for a query.

Memory: tiny samples in shards of 10,000, from the bare shards to the catalog, over the whole tree of processes. Other
shards: the 0.4 GB of the photographs, 700 samples a shard in place of 1,000, with a catalog; against `cp` of the same
bytes. Afterwards the samples are counted.
"""

_INSTALL = """\
`python -m venv`, then `pip install -c constraints.txt` of the repository, with what pip downloaded in its cache: an
untimed run fills it. torch is the build for CPUs; the one for CUDA, which pip takes from PyPI, is several times as
large. Afterwards `wdsctl --version` runs there. The environment's size is what its files take on the disk, with pip.
"""

_STATES = """\
The 64,000 tiny samples again. The budget of a state: 1 KB, 256 bytes a lane, 16 a source, 8 a pending position. Medians
of 9 openings; each resumed loader must go on with the very next batch. Allowed to a resumption is the cold start; where
a hook packs, the time as well that the samples of its buffer and its groups take, which are made again.
"""

#: Title and text of each subject, in the order of the page.
SUBJECTS = {
    "prepare": ("Preparing a dataset", _PREPARE),
    "folder": ("A folder to shards", _FOLDER),
    "loader": ("Loading", _LOADER),
    "sources": ("Many sources", _SOURCES),
    "plans": ("Large plans", _PLANS),
    "start": ("Starting", _START),
    "install": ("Installing", _INSTALL),
    "states": ("States", _STATES),
    "media": ("Facts of media", _MEDIA),
    "packing": ("Packing", _PACKING),
    "validate": ("Validating", _VALIDATE),
    "view": ("Views", _VIEW),
    "verbs": ("The daily verbs", _VERBS),
    "uploads": ("Uploads", _UPLOADS),
    "shards": ("Many shards", _SHARDS),
    "transport": ("From workers to the training", _TRANSPORT),
}

NOTES = """\
## Notes

- Energon, webdataset, MosaicML Streaming and LitData decode JPEG with Pillow here: LitData's own decoder is that of
  torchvision, whose wheel on PyPI needs a CUDA build of torch. wdsctl and the bare loop use simplejpeg.
- torch runs with one thread in every contender, as it does in the workers of its own DataLoader.
- MosaicML Streaming and LitData read the corpus converted to their own formats, image and caption only, as bytes.
- LitData without workers hands out views of its mapped chunks; everybody else hands out bytes of their own.
- The bare loop is a yardstick, not a loader: every shard mapped, offsets in one array, the order a numpy permutation.
- CPU seconds of whole commands are those of every process that descends from them, also of those that outlive their
  parents. A loader's CPU a sample is that of the process and its workers while the clock runs, without the start.
- With workers, the bare loop hands batches over in a bare ring of shared memory.
- Which code: every subject's rows were taken on the code of the commit that brought them into
  benchmarks/results/latest.json.
- Where a target says short:
  - Raw without workers: what is left is the copy out of the page cache (4 to 5 us for 18 KB by one call), which this
    machine's memory bounds; and Energon is faster here than it was when the target was set. Against LitData, three runs
    in turns by the commands above gave 1.04, 0.84 and 1.02 times: the two are alike, and noise decides.
  - Views: reading every byte costs more than making the batch does.
  - Raw with workers: every byte is copied twice, out of the page cache and into the user's own bytes, and two workers
    and the consumer share two cores, of which they use 1.8: 0.37 ms of CPU a batch in a worker, of which the kernel's
    copies are 0.19, and 0.28 in the consumer, of which 0.1 are the contest's own reading. The bare ring copies out of
    maps, which is half of that, and kills a process whose shard is cut short under it.
  - Raw, from 1,000 sources: of one source, neighbours are read by one call and become a batch in bulk; of a thousand,
    every sample is chosen by itself and read by itself, from another shard than the one before. Beside a hook of 40 us
    a sample the same cost weighs less; of ten sources it is as fast as of one, and of a thousand the caches no longer
    hold what a pick touches: its arm, its block, its shard. Blocks four times as large, references as arrays of words
    in the place of lists, and sources with slots changed nothing beyond the noise. What is bound by
    memory differs from machine to machine: the same code had 0.81 to 0.88 times one source on one day, and 0.66 to
    0.73 on another, when one source was a quarter faster and a thousand as fast as before.
  - Packed and grouped: what waits in groups is made again from samples that lie apart; at 99 % from windows of two
    epochs in each of the hundred sources, of which one is worked out for nothing else.
- Decoded without workers, wdsctl decodes with as many threads as there are CPUs, at most 4, and the peers with one:
  `decode_threads=1` gives the comparison of one thread with one. With one, 0.9 of the time is libjpeg-turbo's; see
  docs/decisions/0001.
- Memory of the largest process is what the kernel reports at its end. That of the whole tree is the proportional set
  size, sampled ten times a second in the untimed run.
"""
