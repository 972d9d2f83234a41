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


_WALL = Column("elapsed, s", "wall_seconds", decimals=2)
_CPU = Column("CPU, s", "cpu_seconds", decimals=2)
_LARGEST = Column("memory of the largest process, MB", "peak_bytes", 1e6, 0)
_TREE = Column("memory of all processes, MB", "tree_peak_bytes", 1e6, 0)

#: The columns of a subject's tables; the first one is what the ratios are taken of.
COLUMNS = {
    "prepare": (
        _WALL,
        _CPU,
        _LARGEST,
        _TREE,
        Column("catalog, bytes per sample", "catalog_bytes_a_sample"),
        Column("all new files, bytes per sample", "made_bytes_a_sample"),
    ),
    "folder": (_WALL, _CPU, _LARGEST, _TREE),
    "loader": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("first batch, s", "first_batch_seconds", decimals=3),
        Column("CPU of all processes, us per sample", "cpu_seconds_a_sample", 1e-6, 1),
        _LARGEST,
        _TREE,
    ),
    "in_place": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("first batch, s", "first_batch_seconds", decimals=3),
        Column("CPU of all processes, us per sample", "cpu_seconds_a_sample", 1e-6, 1),
        _WALL,
        _LARGEST,
    ),
    "stores": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("first batch, round trips", "first_batch_trips", decimals=0),
        Column("first batch, s", "first_batch_seconds", decimals=2),
        Column("GETs a thousand samples", "gets_a_thousand"),
        Column("bytes fetched per byte used", "fetched_bytes_per_byte_used", decimals=2),
        Column("CPU of all processes, us a sample", "cpu_seconds_a_sample", 1e-6, 0),
        Column("CPU of the store, s", "store_cpu_seconds", decimals=2),
        _LARGEST,
    ),
    "start": (
        Column("first batch, ms", "first_batch_seconds", 0.001, 2),
        _WALL,
        Column("state, bytes", "state_bytes", decimals=0),
        Column("saving the state, ms", "state_seconds", 0.001, 3),
    ),
    "sources": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("start to first batch, s", "start_seconds", decimals=3),
        Column("descriptors", "descriptors", decimals=0),
        Column("memory held after a pass, MB", "held_bytes", 1e6),
        _TREE,
    ),
    "plans": (
        Column("start, ms", "start_seconds", 0.001, 2),
        Column("first window, ms", "window_begin_seconds", 0.001, 3),
        Column("window after half a pass, ms", "window_middle_seconds", 0.001, 3),
        Column("window after 1,000 passes, ms", "window_far_seconds", 0.001, 3),
        Column("memory held, MB", "held_bytes", 1e6),
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
        Column("share of its budget", "budget_share", decimals=2),
        Column("saving the state, ms", "state_seconds", 0.001, 3),
        Column("first batch, cold start, ms", "cold_seconds", 0.001, 1),
        Column("first batch, resumed at 1 %, ms", "resumed_1_seconds", 0.001, 1),
        Column("resumed at 50 %, ms", "resumed_50_seconds", 0.001, 1),
        Column("resumed at 99 %, ms", "resumed_99_seconds", 0.001, 1),
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
        Column("one pass, s", "pass_seconds", decimals=3),
        _CPU,
        _LARGEST,
    ),
    "view": (
        Column("opening the view, ms", "view_seconds", 0.001, 1),
        Column("opening everything for training, ms", "open_seconds", 0.001, 1),
        Column("creating the view, s", "create_seconds", decimals=1),
        _LARGEST,
    ),
    "verbs": (
        Column("GB/s", "gigabytes_per_second", decimals=2, is_rate=True),
        Column("MB/s", "megabytes_per_second", decimals=0, is_rate=True),
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("elapsed, s", "wall_seconds", decimals=3),
        _CPU,
        _LARGEST,
        _TREE,
    ),
    "publish": (
        Column("samples/s", "samples_per_second", decimals=0, is_rate=True),
        Column("MB/s", "megabytes_per_second", decimals=0, is_rate=True),
        _WALL,
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

This page compares wdsctl with other tools, with the commands that measured each figure. `make bench` builds the
environment of the other tools and the test data, measures, and writes this page. `$DATA` is the folder of the test
data.

All figures of a table come from one run on one machine. Each tool runs in a separate process. A first run is not timed,
so the page cache is warm. Then all tools run once in each round, and the table has the medians of the rounds. The last
column compares the first row with each other row: `2.00 times` means twice as good. The comparison uses the first
column with a figure in every row. On another machine, absolute numbers will differ; ratios differ less. The
[notes](#notes) explain missed targets.
"""

_START = """\
Help: the time of the whole process. First batch: one million samples, in batches of 32 raw samples. The clock runs from
the call with its arguments to the batch, in a process that has imported all modules. The resumed loader continues from
a state that was saved after two passes.
"""

_PREPARE = """\
The time from bare shards to a dataset that is ready for training, as whole processes. Before each run, the files of the
previous run are deleted; this time does not count. After each run, the benchmark checks the number of samples in the
catalog.

`tiny` has one million samples of two parts (a jpg of 40 to 63 bytes, a txt of 20 to 43 bytes) with keys of 9
characters, in 100 plain ustar shards. `tiny-webdataset` has 200,000 of these samples as webdataset's writer stores
them, with a PAX header before every member.
"""

_MEDIA = """\
Facts: the time to read the properties of images and videos into the catalog of a dataset; indexing the dataset is not
timed. The images are the 20,000 photographs of the section Loading. The videos are H.264 and AAC in MP4, 320x240, 10 s,
in shards of 50. Energon decodes every image, and the audio of every video. wdsctl reads headers, and the first frame of
a video for its rotation. After each run, the benchmark checks the number of media with facts, and their widths.

Clips: the `AVDecoder` of each library cuts clips, evenly spaced over each video; clips of short videos include the
audio. The column "cutting" does not include imports. Energon receives the bytes of a video, as in its loader. wdsctl
receives a handle of the video's range in the shard. "pyav, all of it" decodes every frame of every video, and converts
none.
"""

_FOLDER = """\
The time to write 60,000 files (20,000 samples of jpg, json and txt, 15 KB each) into shards of 1,000 samples. The
comparison is a script that uses webdataset's ShardWriter; the same script with `wdsctl.Writer` shows what the writer
costs in a Python program. wdsctl also creates a catalog; ShardWriter does not. After each run, the benchmark compares
the size of every member with the files.
"""

_LOADER = """\
The data has 20,000 samples: a 256x256 JPEG of 15 KB made from real photographs, and a caption. Loaders shuffle and
return batches of 32.

- Raw: a batch consists of lists of bytes. The benchmark then reads every byte, which costs 1 us per sample from the CPU
  cache and 3 us from memory.
- Decoded: a batch is one uint8 tensor (32, 3, 256, 256).

Before the clock starts, each loader goes through the data once, and must return every sample once with the same
checksum. The time to the first batch does not include imports. If a loader ends its pass and starts again, this time
does not count.
"""

_STORES = """\
The data is the 20,000 photographs and captions of the loader's rows, decoded. It comes from a store on the same machine
that speaks S3 and HTTP (`benchmarks/slow_store.py`). The store waits 20 ms before each answer. In rows with "1 % late",
it waits 2 s before one answer in a hundred. The kernel sends the files, so the store uses little of the two cores.

Each loader reads 20,000 samples with an empty cache. Rates do not include the first batch. webdataset reads through
`curl`, Mosaic Streaming and LitData through boto3; the last two keep copies on the disk. Fetched bytes include bytes
that a loader reads ahead for later samples.

Round trips to the first batch: each request takes 2 s, and the store counts the requests that wait for the answer of
another one. wdsctl's catalog is on this machine, but wdsctl asks for its pointer first. Before the clock starts, each
loader goes through the data once, and must return every sample once.
"""

_PACKING = """\
The benchmark packs one million lognormal lengths (median 403 tokens, cut at the capacity of 8,192). It plans windows of
16,384 lengths, and carries the leftovers of a window into the next one. With two budgets, a pack also has at most 16
images, and "left empty" refers to the fuller budget. "The example's greedy" is the selection in the guide of Energon:
it sorts by length and fills packs from the shortest on. After each run, the benchmark checks that every sample is in
one pack, and that no pack exceeds its capacity.
"""

_TRANSPORT = """\
Two worker processes send finished batches to one consumer, which reads every byte. Raw: 64 bytes objects of 16 KB.
Decoded: one uint8 tensor (32, 3, 256, 256). The consumer compares the first batches with the originals.

- The bare ring has slots of one size in shared memory. It cannot transfer results of other shapes or replace workers,
  and a batch is valid only until the consumer takes the next one.
- The pipe is a `multiprocessing` pipe, which sends pickles.
"""

_UPLOADS = """\
The data is 5,000 pictures of 120 KB with captions, 0.6 GB. The destination is an S3 server of ours, in a process on the
same two cores, which limits its link to a speed. `wdsctl prepare` lists the raw files, builds shards, sends them, and
publishes the catalog. `s3fs.put` sends the finished tars of 64 MiB. After each run, the benchmark checks that the
objects have the sizes of the tars on the disk.
"""

_SHARDS = """\
Each shard has 5 KB and 4 samples. An array job is its plan, its two tasks one after the other, and its merge.
[Scale](scale.md) extrapolates these figures.
"""

_SOURCES = """\
Each loader draws from 1, 10, 100 and 1,000 datasets of one shard, blended with equal weights, in batches of 32, without
workers. Together, the datasets have 64,000 tiny samples (two parts of about 40 bytes). Reading them costs almost
nothing, so the table shows the cost of a source.

- Raw: parts as bytes.
- Hook: an `encode_sample` that makes a small tensor.
- Decoded: 16,000 of the photographs instead of the tiny samples, as in a real training.

Before the clock starts, each loader draws as many samples as one pass has, and every dataset must have its share within
2 draws per lane. "Descriptors" and "memory held" are the increase over the same process with one dataset.
"""

_PLANS = """\
The benchmark computes orders, blends and lanes as a training does, without reading samples: 1,000 references at a time
on one of 8 lanes, with slices of 16 and windows of 1,000. It checks positions and shares.
"""

_VALIDATE = """\
The level `structure` of `wdsctl validate` checks the shards of the 20,000 photographs: every header, and the resulting
names, keys and parts. The comparison only reads the same files, in pieces of 128 KiB, as `cat` does. Both run in one
process, on one core, from the page cache, after all modules are loaded.
"""

_VIEW = """\
The catalog has ten million samples of two parts in 1,000 shards, split by sample; the samples themselves do not exist.
Opening: the time from the root and the name of a view to the selection that a training draws from, in a process that
has imported all modules. Making: the time to create a view by an expression over columns of samples, of parts, or of
splits.
"""

_VERBS = """\
These commands run as whole processes, from the page cache.

- Get: `wdsctl get` returns the text of one sample by its key. It needs one search in the catalog (without sample rows,
  in the keys of the offsets file) and one read. The result must equal the bytes that tarfile reads.
- Lines: `wdsctl index` builds the catalog of one million JSON objects from the bare files, without parsing lines. An
  object has an image path and a caption (250 to 450 characters), or a conversation of four turns (350 to 550 characters
  each). The catalog has counts, and the offsets file that training and `get` read. It stores sample rows only if
  requested; otherwise, queries build them.
- Memory: `wdsctl index` builds the catalog of tiny samples in shards of 10,000. The figure covers the whole process
  tree.
- Other shards: `wdsctl convert` writes the photographs (0.4 GB) into shards of 700 samples instead of 1,000, with a
  catalog. The comparison is `cp` of the same bytes. After each run, the benchmark counts the samples.
"""

_IN_PLACE = """\
The photographs as MDS shards and as LitData chunks, written by the native libraries with their defaults, uncompressed.
Both readers read the same files from the page cache, shuffled, and give lists of bytes. Before the timed rounds, each
reads one whole pass, whose bytes must be those of the files. Indexing is the whole command `wdsctl index` without a
catalog, with one process.
"""

_INSTALL = """\
The time of `python -m venv` and `pip install -c constraints.txt`, in the environment of the repository. An untimed run
fills pip's cache. torch is the build for CPUs; the build for CUDA, which pip installs from PyPI, is several times as
large. After each run, the benchmark runs `wdsctl --version`. The size of the environment is that of its files on disk,
including pip.
"""

_STATES = """\
The data is the 64,000 tiny samples of the section Many sources. The budget of a state is 1 KB, plus 256 bytes per lane,
16 per source and 8 per waiting position. Times are medians of 9 openings. Each resumed loader must continue with
exactly the next batch. The target for resuming is the time of a cold start. If a hook packs, the target also includes
the time to read the samples of its buffer and its groups again.
"""

_PUBLISH = """\
Both tools read the same tars of photographs (0.4 GB) from the page cache, and write image, JSON, caption and key into
chunks of 64 MB. LitData's `optimize` reads the tars with tarfile, one tar per call, and stores the values of the JSON
as fields of their own; `convert` checks the JSON and stores its text. After each run, the benchmark counts the samples
in index.json. Unlike `optimize`, `convert` first plans all chunks, so that a killed run continues, and syncs every
file. `export` writes its files from the catalog, and opens no shard.
"""

#: Title and text of each subject, in the order of the page.
SUBJECTS = {
    "prepare": ("Preparing a dataset", _PREPARE),
    "folder": ("A folder to shards", _FOLDER),
    "loader": ("Loading", _LOADER),
    "in_place": ("Other formats in place", _IN_PLACE),
    "sources": ("Many sources", _SOURCES),
    "plans": ("Large plans", _PLANS),
    "start": ("Starting", _START),
    "install": ("Installing", _INSTALL),
    "states": ("States", _STATES),
    "media": ("Media facts", _MEDIA),
    "packing": ("Packing", _PACKING),
    "validate": ("Validating", _VALIDATE),
    "view": ("Views", _VIEW),
    "verbs": ("Everyday commands", _VERBS),
    "stores": ("From a store", _STORES),
    "publish": ("Publishing", _PUBLISH),
    "uploads": ("Uploads", _UPLOADS),
    "shards": ("Many shards", _SHARDS),
    "transport": ("From workers to the training process", _TRANSPORT),
}

NOTES = """\
## Notes

- Energon, webdataset, MosaicML Streaming and LitData decode JPEG with Pillow in these benchmarks. LitData itself uses
  torchvision's decoder, whose wheel on PyPI needs a CUDA build of torch. wdsctl and the bare loop use simplejpeg.
- torch runs with one thread in all tools, as in the workers of its DataLoader.
- MosaicML Streaming and LitData read the test data in their own formats, with image and caption only, as bytes.
- Without workers, LitData returns views of its mapped chunks; all other loaders return separate bytes.
- The bare loop is a yardstick, not a loader: it maps every shard, has the offsets in one array, and uses a numpy
  permutation as its order. With workers, it passes batches through a bare ring of shared memory.
- CPU time of whole commands includes all descendant processes, even if they outlive their parents. CPU time of a loader
  covers the process and its workers while the clock runs, without the start.
- Each section was measured with the code of the commit that added its figures to benchmarks/results/latest.json.
- Without workers, wdsctl decodes with as many threads as there are CPUs, at most 4, and the other loaders with one
  thread. With `decode_threads=1`, wdsctl also decodes with one thread; libjpeg-turbo then takes 90 % of the time, see
  [decision 1](decisions/0001-simplejpeg.md).
- The kernel reports the memory of the largest process at its end. Memory of the whole tree is the proportional set
  size, sampled ten times per second in the untimed run.

Reasons for missed targets. Times in microseconds and milliseconds come from the machine of 24 November:

- **Raw without workers:** the remaining cost is the copy out of the page cache: 4 to 5 us for 18 KB in one call. The
  memory of that machine limits its speed. Energon is faster there than it was when the target was set. Three
  alternating runs against LitData gave 1.04, 0.84 and 1.02 times: both are equally fast within the noise.
- **Views** (`wdsctl_views`): reading every byte costs more than building the batch.
- **Raw with workers:** every byte is copied twice, out of the page cache and into the user's own bytes. Two workers and
  the consumer share two cores, of which they use 1.8. A batch takes 0.37 ms of CPU time in a worker, including 0.19 ms
  for the kernel's copies. It takes 0.28 ms in the consumer, including 0.1 ms for the benchmark's own reading. The bare
  ring copies out of maps, which takes half of this time. But its process is killed if a mapped shard is truncated.
- **Raw, from 1,000 sources:** with one source, one call reads neighbouring samples, and they become a batch in bulk.
  With 1,000 sources, every sample is chosen and read separately, from another shard than the one before. With a hook of
  40 us per sample, this cost matters less. With 10 sources, the loader is as fast as with one. With 1,000 sources, the
  CPU caches no longer hold the data that a draw needs: component, block and shard. We tried blocks four times as large,
  references as arrays of words instead of lists, and sources with slots, without effect beyond the noise. Limits of
  memory differ between machines and days: the same code reached 0.81 to 0.88 times the rate of one source on one day,
  and 0.66 to 0.73 on another.
- **Packed and grouped:** a resumed loader reads waiting samples again, which are not neighbours. At 99 %, they come
  from windows of two epochs in each of the hundred sources, and one of these windows is computed only for them.
- **Clips of a video of ten minutes:** a run cuts for 0.2 s, and single runs on this machine differ by half. Seven more
  alternating runs gave a median of 2.2 times; another machine had 2.32.
- **Lines of 400 bytes:** this limit is absolute, and the machine of 28 November takes 1.4 to 2.5 times as long as that
  of 24 November, which had 0.77 GB/s and 0.88 GB/s. Five alternating runs in one of its better hours gave 0.63 GB/s for
  both rows, and the same for the package before its folders were rearranged.
- **A store with late answers, 2 workers:** on this machine the same loader differs by 45 % between rounds, also from a
  disk. Without workers, the figure is 1.03; another machine had 0.95 for both.
"""
