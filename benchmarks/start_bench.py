"""How soon things begin: the command line's help, and a training's first batch, begun and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.loader_data import loader_data
from benchmarks.measure import Cost
from benchmarks.places import WDSCTL_PYTHON, wdsctl_script
from benchmarks.results import Row

CORPORA = ("tiny",)
#: Two passes into a million samples.
_FAR = 60_000


def start_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    helps = [
        Contender(name="wdsctl --help", command=(wdsctl_script("wdsctl"), "--help"), after=_nothing_more),
        Contender(
            name="import typer, rich", command=(str(WDSCTL_PYTHON), "-c", "import typer, rich"), after=_nothing_more
        ),
    ]
    yield compete("help", helps, rounds=4 * rounds)
    data = str(loader_data("wdsctl", "tiny"))
    script = partial(_script, data)
    yield compete(
        "first batch of a million samples, begun and resumed",
        [
            Contender(name="resumed after 60,000 batches", command=script("--batches", str(_FAR)), after=answer),
            Contender(name="begun", command=script(), after=answer),
        ],
        rounds=rounds,
    )


def _script(data: str, *more: str) -> tuple[str, ...]:
    return (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.resume", "--data", data, *more)


def _nothing_more(_: Cost) -> dict[str, float]:
    return {}
