"""Clips cut from videos in shards by both `AVDecoder` classes, and a decode of the whole video for scale."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import DATA, PEERS_PYTHON, REPOSITORY, WDSCTL_PYTHON
from benchmarks.results import Row

SHORT, LONG = "5 clips of 2 s of 100 short videos", "5 clips of 2 s of a video of ten minutes"
_LONG_SHARD = DATA / "long-film" / "shard-000000.tar"


def clip_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Needs the corpus `clips`."""
    short = tuple(str(DATA / "clips" / f"shard-{shard:06d}.tar") for shard in range(2))
    for title, shards, options in ((SHORT, short, ("--sound",)), (LONG, (str(_LONG_SHARD),), ())):
        contenders = [_contender(name, shards, options) for name in ("wdsctl", "energon", "whole")]
        yield compete(title, [each for each in contenders if is_selected(each.name)], rounds=rounds)


def _contender(library: str, shards: tuple[str, ...], options: tuple[str, ...]) -> Contender:
    python = WDSCTL_PYTHON if library == "wdsctl" else PEERS_PYTHON
    names = {"wdsctl": "wdsctl AVDecoder", "energon": "energon AVDecoder", "whole": "pyav, all of it"}
    return Contender(
        name=names[library],
        command=(str(python), "-m", "benchmarks.contenders.clips", library, *shards, *options),
        before=partial(_make_long_video, library),
        after=answer,
    )


def _make_long_video(_: str) -> None:
    if not _LONG_SHARD.exists():
        command = [str(PEERS_PYTHON), "-m", "benchmarks.long_video", str(_LONG_SHARD)]
        subprocess.run(command, check=True, cwd=REPOSITORY)
