"""Preparing a million tiny samples: wdsctl against `energon prepare`, from bare shards to ready for training.

And for datasets that wdsctl has indexed: `wdsctl export --to energon`, after which Energon is ready.
"""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.corpora import TINY_SAMPLES, TINY_WEBDATASET_SAMPLES
from benchmarks.measure import ContenderError, Cost
from benchmarks.places import DATA, peer, wdsctl_script
from benchmarks.results import Row
from benchmarks.roots import linked_root

CORPORA = ("tiny", "tiny-webdataset")
#: (title, corpus, samples, workers)
_ROWS = (
    ("prepare tiny, 2 workers", "tiny", TINY_SAMPLES, 2),
    ("prepare tiny, 1 worker", "tiny", TINY_SAMPLES, 1),
    ("prepare tiny-webdataset, 2 workers", "tiny-webdataset", TINY_WEBDATASET_SAMPLES, 2),
)
_FIELD_MAP = '{"image":"jpg","caption":"txt"}'


def prepare_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """One row a corpus and number of workers; only the contenders whose name is wanted."""
    for title, corpus, samples, workers in _ROWS:
        contenders = [make(corpus, samples, workers) for make in (_index, _prepare, _energon)]
        yield compete(title, [each for each in contenders if is_selected(each.name)], rounds=rounds)
    contenders = [_export("tiny", TINY_SAMPLES), _energon("tiny", TINY_SAMPLES, 1)]
    yield compete("Energon's metadata of tiny", [each for each in contenders if is_selected(each.name)], rounds=rounds)


def _index(corpus: str, samples: int, workers: int) -> Contender:
    root = DATA / "wdsctl" / corpus
    command = (wdsctl_script("wdsctl"), "index", str(root), "--workers", str(workers), "--rebuild", "--quiet")
    return _wdsctl("wdsctl index", command, corpus, samples)


def _prepare(corpus: str, samples: int, workers: int) -> Contender:
    root = DATA / "wdsctl" / corpus
    options = ("--split", "8,1,1", "--workers", str(workers), "--no-input", "--quiet")
    return _wdsctl("wdsctl prepare", (wdsctl_script("wdsctl"), "prepare", str(root), *options), corpus, samples)


def _wdsctl(name: str, command: tuple[str, ...], corpus: str, samples: int) -> Contender:
    catalog = DATA / "wdsctl" / corpus / ".wdsctl" / "catalog.sqlite"
    return Contender(
        name=name,
        command=command,
        before=partial(_fresh, "wdsctl", corpus),
        after=partial(_index_figures, catalog, "sample", samples),
    )


def _energon(corpus: str, samples: int, workers: int) -> Contender:
    root = DATA / "energon" / corpus
    options = ("--non-interactive", "--force-overwrite", "--split-ratio", "8,1,1", "--num-workers", str(workers))
    kind = ("--sample-type", "CaptioningSample", "--field-map", _FIELD_MAP)
    return Contender(
        name="energon prepare",
        command=(peer("energon"), "prepare", str(root), *options, *kind),
        before=partial(_fresh, "energon", corpus),
        after=partial(_index_figures, root / ".nv-meta" / "index.sqlite", "samples", samples),
    )


def _export(corpus: str, samples: int) -> Contender:
    root = DATA / "wdsctl" / corpus
    return Contender(
        name="wdsctl export",
        command=(wdsctl_script("wdsctl"), "export", str(root), "--to", "energon", "--quiet"),
        before=partial(_indexed, corpus),
        after=partial(_index_figures, root / ".nv-meta" / "index.sqlite", "samples", samples),
    )


def _indexed(corpus: str) -> None:
    _fresh("wdsctl", corpus)
    options = ("--split", "8,1,1", "--by", "shard", "--no-input", "--quiet")
    subprocess.run([wdsctl_script("wdsctl"), "prepare", str(DATA / "wdsctl" / corpus), *options], check=True)


def _fresh(contender: str, corpus: str) -> None:
    linked_root(contender, corpus)


def _index_figures(database: Path, table: str, samples: int, _: Cost) -> dict[str, float]:
    """Bytes a sample of the database and of all files that were made, after a look that it holds every sample."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as connection:
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    if found != samples:
        raise ContenderError(f"{database.name} holds {found} samples of {samples}")
    root = database.parent.parent
    written = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and path.suffix != ".tar")
    return {"catalog_bytes_a_sample": database.stat().st_size / samples, "made_bytes_a_sample": written / samples}
