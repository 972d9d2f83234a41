"""The corpora in the form each loader wants, made once: prepared roots, MDS, LitData chunks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from benchmarks.places import DATA, PEERS_PYTHON, REPOSITORY, peer, wdsctl_script
from benchmarks.roots import linked_root

_RAW = DATA / "photos-raw"
_FIELD_MAP = '{"image":"jpg","caption":"txt"}'


def loader_data(contender: str, corpus: str) -> Path:
    """The folder to give to `--data`."""
    if contender in ("webdataset", "bare"):
        return DATA / corpus
    if contender == "files":
        return _RAW
    if contender in _IN_PLACE:
        return _in_place(contender, corpus)
    if contender.startswith("wdsctl"):
        return _wdsctl(corpus)
    return _once(contender, corpus)


@cache
def _wdsctl(corpus: str) -> Path:
    """Prepared again in every run, because the code that writes it may have changed."""
    root = linked_root("loader-wdsctl", corpus)
    kind = ("--sample-type", "CaptioningSample", "--field-map", "image=jpg,caption=txt")
    _run(
        wdsctl_script("wdsctl"),
        "prepare",
        str(root),
        "--split",
        "1,0,0",
        *kind,
        "--workers",
        "2",
        "--no-input",
        "--quiet",
    )
    return root


#: Ours -> the native reader whose files it reads in place.
_IN_PLACE = {"wdsctl_mds": "mosaic", "wdsctl_litdata": "litdata"}


@cache
def _in_place(contender: str, corpus: str) -> Path:
    """The files of the native reader, as hard links, with a catalog of ours beside them."""
    native = _once(_IN_PLACE[contender], corpus)
    root = DATA / f"loader-{contender}" / corpus
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for file in native.iterdir():
        if file.is_file():
            os.link(file, root / file.name)
    kind = ("--sample-type", "CaptioningSample", "--field-map", "image=jpg.jpg,caption=txt.bin")
    _run(wdsctl_script("wdsctl"), "prepare", str(root), "--split", "1,0,0", *kind, "--no-input", "--quiet")
    return root


def _once(contender: str, corpus: str) -> Path:
    folder = DATA / f"loader-{contender}" / corpus
    marker = folder.parent / f"{corpus}.complete"
    if not marker.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _CONVERSIONS[contender](corpus, folder)
        marker.touch()
    return folder


def _energon(corpus: str, folder: Path) -> None:
    linked_root(folder.parent.name, corpus)
    options = ("--non-interactive", "--force-overwrite", "--split-ratio", "1,0,0", "--num-workers", "2")
    kind = ("--sample-type", "CaptioningSample", "--field-map", _FIELD_MAP)
    _run(peer("energon"), "prepare", str(folder), *options, *kind)


def _convert(module: str, _: str, folder: Path) -> None:
    _run(str(PEERS_PYTHON), "-m", f"benchmarks.contenders.{module}", str(_RAW), str(folder))


_CONVERSIONS: dict[str, Callable[[str, Path], None]] = {
    "energon": _energon,
    "mosaic": partial(_convert, "convert_mosaic"),
    "litdata": partial(_convert, "convert_litdata"),
}


def _run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
