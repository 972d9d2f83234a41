"""How large states are, what saving one costs, and how soon a resumed training goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import REPOSITORY, WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
TITLE = "states of 8 lanes, and resuming from them"
#: (name, shape, sources)
SHAPES = (
    ("plain", "plain", 1),
    ("blend of 100", "blend", 100),
    ("blend of 1,000", "blend", 1000),
    ("blend of 100, packed and grouped", "packed", 100),
)


def states_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    subprocess.run([str(WDSCTL_PYTHON), "-m", "benchmarks.many_sources"], check=True, cwd=REPOSITORY)
    yield compete(TITLE, [_contender(*shape) for shape in SHAPES], rounds=rounds)


def _contender(name: str, shape: str, sources: int) -> Contender:
    script = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.states")
    return Contender(name=name, command=(*script, "--shape", shape, "--sources", str(sources)), after=answer)
