"""What the number of sources costs: the same samples from 1, 10, 100 and 1,000 datasets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.many_sources import COUNTS
from benchmarks.places import REPOSITORY, WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
_SECONDS = 3.0
MODES = ("raw", "hook", "decoded")


def sources_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    subprocess.run([str(WDSCTL_PYTHON), "-m", "benchmarks.many_sources"], check=True, cwd=REPOSITORY)
    for mode in MODES:
        yield compete(title(mode), [_contender(count, mode) for count in COUNTS], rounds=rounds)


def title(mode: str) -> str:
    return f"{mode}, by the number of sources"


def name(count: int) -> str:
    return f"{count:,} source{'' if count == 1 else 's'}"


def _contender(count: int, mode: str) -> Contender:
    script = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.sources", "--sources", str(count), "--mode", mode)
    return Contender(name=name(count), command=(*script, "--seconds", f"{_SECONDS:g}"), after=answer)
