"""Publishing a dataset: LitData chunks beside LitData's own `optimize`, and the metadata for wids and the Hub.

Both read the same tars, and write the same fields in chunks of 64 MB.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.corpora import PHOTO_SAMPLES
from benchmarks.measure import ContenderError, Cost
from benchmarks.places import DATA, PEERS_PYTHON, wdsctl_script
from benchmarks.results import Row
from benchmarks.roots import linked_root

CORPORA = ("photos",)
_HOME = "publish"
LITDATA_TITLE = "20,000 photographs as LitData chunks, 2 workers"
EXPORT_TITLE = "metadata of 20,000 photographs"
_CHUNK_SIZE = "64MB"


def publish_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    contenders = [_convert(), _optimize()]
    yield compete(LITDATA_TITLE, [each for each in contenders if is_selected(each.name)], rounds=rounds)
    exports = [_export("wids", "index.json"), _export("hub", "README.md")]
    yield compete(EXPORT_TITLE, [each for each in exports if is_selected(each.name)], rounds=rounds)


def _convert() -> Contender:
    destination = DATA / _HOME / "wdsctl"
    options = ("--to", "litdata", "--shard-size", _CHUNK_SIZE, "--shard-samples", "1000000", "--workers", "2")
    root = _indexed("convert")
    command = (wdsctl_script("wdsctl"), "convert", str(root), str(destination), *options, "--no-input", "--quiet")
    return _chunk_writer("wdsctl convert", command, destination)


def _optimize() -> Contender:
    destination = DATA / _HOME / "litdata"
    command = (str(PEERS_PYTHON), "-m", "benchmarks.contenders.optimize_tars", str(DATA / "photos"), str(destination))
    return _chunk_writer("litdata optimize", command, destination)


def _chunk_writer(name: str, command: tuple[str, ...], destination: Path) -> Contender:
    return Contender(
        name=name,
        command=command,
        before=partial(shutil.rmtree, destination, ignore_errors=True),
        after=partial(_check_chunks, destination),
    )


def _check_chunks(destination: Path, cost: Cost) -> dict[str, float]:
    """Samples a second, after a look that the index lists all of them in chunks that exist."""
    chunks = json.loads((destination / "index.json").read_bytes())["chunks"]
    counted = sum(chunk["chunk_size"] for chunk in chunks)
    size = sum((destination / chunk["filename"]).stat().st_size for chunk in chunks)
    if counted != PHOTO_SAMPLES:
        raise ContenderError(f"{destination.name} lists {counted:,} samples of {PHOTO_SAMPLES:,}")
    return {"samples_per_second": counted / cost.wall_seconds, "megabytes_per_second": size / 1e6 / cost.wall_seconds}


def _export(target: str, file: str) -> Contender:
    root = _indexed(target)
    return Contender(
        name=f"wdsctl export --to {target}",
        command=(wdsctl_script("wdsctl"), "export", str(root), "--to", target, "--quiet"),
        before=partial((root / file).unlink, missing_ok=True),
        after=partial(_check_exported, root / file),
    )


def _check_exported(file: Path, _cost: Cost) -> dict[str, float]:
    if not file.is_file():
        raise ContenderError(f"{file.name} is missing")
    return {}


def _indexed(name: str) -> Path:
    """The photographs with a catalog and splits of whole shards."""
    root = linked_root(_HOME, "photos", name=f"root-{name}")
    options = ("--split", "8,1,1", "--by", "shard", "--no-input", "--quiet")
    subprocess.run([wdsctl_script("wdsctl"), "prepare", str(root), *options], check=True)
    return root
