"""The daily verbs as whole processes: a sample by its key, lines indexed, memory of index, shards written again."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.corpora import LINES, PHOTO_SAMPLES
from benchmarks.measure import ContenderError, Cost
from benchmarks.places import DATA, REPOSITORY, wdsctl_script
from benchmarks.results import Row
from benchmarks.roots import linked_root

#: Those of 5 million samples and of lines take some 13 GB.
CORPORA = ("tiny", "tiny-5m", "photos", "captions", "conversations", "captions-8", "conversations-8")
HOME = "verbs"  # the folder of the roots, in that of the corpora

GET_TITLE = "get by key, of a million samples"
GET_NAMES = {"wdsctl get": (), "wdsctl get, without rows of samples": ("--no-sample-rows",)}
GETS = 20  # rounds: one takes a fifth of a second
_SHARD, _KEY = "shard-000051.tar", "000512345"

#: Rows by the corpus.
LINES_TITLES = {
    "captions": "a million lines of 400 bytes, one file",
    "conversations": "a million lines of 2 KB, one file",
    "captions-8": "a million lines of 400 bytes, 8 files and 2 workers",
    "conversations-8": "a million lines of 2 KB, 8 files and 2 workers",
}
LINES_NAMES = {"wdsctl index": (), "wdsctl index, with rows of samples": ("--sample-rows",)}

MEMORY_TITLE = "memory of index, 2 workers"
_A_SHARD = 10_000
SIZES = (100_000, 1_000_000, 5_000_000)

CONVERT_TITLE = "20,000 photographs in other shards"


def verbs_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    gets = [_get(name, options) for name, options in GET_NAMES.items()]
    yield compete(GET_TITLE, gets, rounds=max(GETS, rounds))
    for corpus, title in LINES_TITLES.items():
        yield compete(title, [_lines(corpus, name, more) for name, more in LINES_NAMES.items()], rounds=rounds)
    # For these, the page shows the memory of the untimed run.
    yield compete(MEMORY_TITLE, [_memory(samples) for samples in SIZES], rounds=1)
    yield compete(CONVERT_TITLE, [_convert(2), _convert(1), _copy()], rounds=rounds)


def size_name(samples: int) -> str:
    return f"{samples:,} samples"


def _get(name: str, options: tuple[str, ...]) -> Contender:
    root = linked_root(HOME, "tiny", name="get-without-rows" if options else "get")
    subprocess.run((*_index(root), *options), check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    return Contender(name=name, command=(wdsctl_script("wdsctl"), "get", str(root), _KEY, "--part", "txt"), after=_got)


def _got(cost: Cost) -> dict[str, float]:
    if cost.output != _text():
        raise ContenderError(f"{_KEY}.txt is {cost.output!r}, not {_text()!r}")
    return {}


@cache
def _text() -> str:
    """What tarfile finds in the sample."""
    with tarfile.open(DATA / "tiny" / _SHARD) as tar:
        file = tar.extractfile(f"{_KEY}.txt")
        return file.read().decode() if file else ""


def _lines(corpus: str, name: str, options: tuple[str, ...]) -> Contender:
    root = DATA / HOME / corpus
    size = sum(path.stat().st_size for path in (DATA / corpus).glob("*.jsonl"))
    return Contender(
        name=name,
        command=(*_index(root), *options),
        before=partial(_fresh, corpus),
        after=partial(_line_figures, root, size, bool(options)),
    )


def _line_figures(root: Path, size: int, has_rows: bool, cost: Cost) -> dict[str, float]:
    check_indexed(root, LINES, has_rows=has_rows)
    return {"gigabytes_per_second": size / 1e9 / cost.wall_seconds}


def _memory(samples: int) -> Contender:
    name = f"tiny-{samples}"
    return Contender(
        name=size_name(samples),
        command=_index(DATA / HOME / name),
        before=partial(_fresh, "tiny-5m", shards=samples // _A_SHARD, name=name),
        after=partial(_rate, DATA / HOME / name, samples),
    )


def _rate(root: Path, samples: int, cost: Cost) -> dict[str, float]:
    check_indexed(root, samples, has_rows=True)
    return {"samples_per_second": samples / cost.wall_seconds}


def _fresh(corpus: str, *, shards: int | None = None, name: str = "") -> None:
    linked_root(HOME, corpus, shards=shards, name=name)


def _index(root: Path) -> tuple[str, ...]:
    return (wdsctl_script("wdsctl"), "index", str(root), "--workers", "2", "--no-input", "--quiet")


def _convert(workers: int) -> Contender:
    name = f"wdsctl convert, {workers} worker{'s' if workers > 1 else ''}"
    destination = DATA / HOME / f"converted-{workers}"
    options = ("--shard-samples", "700", "--workers", str(workers), "--no-input", "--quiet")
    command = (wdsctl_script("wdsctl"), "convert", str(DATA / "photos"), str(destination), *options)
    return _writer(name, command, destination)


def _copy() -> Contender:
    destination = DATA / HOME / "copied"
    return _writer("cp", ("cp", "-r", str(DATA / "photos"), str(destination)), destination)


def _writer(name: str, command: tuple[str, ...], destination: Path) -> Contender:
    return Contender(
        name=name,
        command=command,
        before=partial(shutil.rmtree, destination, ignore_errors=True),
        after=partial(_written, destination),
    )


def _written(destination: Path, cost: Cost) -> dict[str, float]:
    """Bytes of the source a second, after a look that about so many were written, and every sample by `convert`."""
    size = sum(path.stat().st_size for path in (DATA / "photos").glob("*.tar"))
    found = sum(path.stat().st_size for path in destination.rglob("*.tar"))
    if abs(found - size) > size // 50:
        raise ContenderError(f"{destination.name} holds {found:,} bytes of {size:,}")
    if (destination / ".wdsctl").exists():
        check_indexed(destination, PHOTO_SAMPLES, has_rows=True)
    return {"megabytes_per_second": size / 1e6 / cost.wall_seconds}


def check_indexed(root: Path, samples: int, *, has_rows: bool) -> None:
    """Raises ContenderError unless the catalog counts so many samples, and has so many rows of them, or none."""
    database = root / ".wdsctl" / "catalog.sqlite"
    with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as connection:
        (counted,) = connection.execute("SELECT sum(samples) FROM shard WHERE removed IS NULL").fetchone()
        (rows,) = connection.execute("SELECT count(*) FROM sample").fetchone()
    if (counted, rows) != (samples, samples if has_rows else 0):
        raise ContenderError(f"{root.name}: {counted} samples of {samples}, and {rows} rows of them")
