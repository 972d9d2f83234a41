"""What the size of a plan costs: a million samples against a thousand million, without their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import OURS_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
ARMS = (1, 100)
SIZES = (10**9, 10**6)


def plans_rows(wanted: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not wanted("wdsctl"):
        return
    for arms in ARMS:
        yield compete(title(arms), [_contender(samples, arms) for samples in SIZES], rounds=rounds)


def title(arms: int) -> str:
    return "plans of one dataset" if arms == 1 else f"plans of a blend of {arms}"


def name(samples: int) -> str:
    return f"{samples:,} samples"


def _contender(samples: int, arms: int) -> Contender:
    script = (str(OURS_PYTHON), "-m", "benchmarks.contenders.plans")
    command = (*script, "--samples", str(samples), "--arms", str(arms))
    return Contender(name=name(samples), command=command, after=answer)
