"""What an installation costs: seconds and megabytes of a fresh environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
TITLE = "a fresh environment"
#: The last commit whose base package had torch.
BEFORE = "a798522"


def install_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    yield compete(
        TITLE,
        [
            Contender(name="wdsctl", command=_script(), after=answer),
            Contender(name="wdsctl[loader]", command=_script("--extra", "loader"), after=answer),
            Contender(name="wdsctl when its base had torch", command=_script("--commit", BEFORE), after=answer),
        ],
        rounds=rounds,
    )


def _script(*more: str) -> tuple[str, ...]:
    return (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.install", *more)
