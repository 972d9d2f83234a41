"""What the size of a plan costs: a million samples against a thousand million, without their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
COMPONENTS = (1, 100)
SIZES = (10**9, 10**6)


def plans_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    for components in COMPONENTS:
        yield compete(title(components), [_contender(samples, components) for samples in SIZES], rounds=rounds)


def title(components: int) -> str:
    return "plans of one dataset" if components == 1 else f"plans of a blend of {components}"


def name(samples: int) -> str:
    return f"{samples:,} samples"


def _contender(samples: int, components: int) -> Contender:
    script = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.plans")
    command = (*script, "--samples", str(samples), "--components", str(components))
    return Contender(name=name(samples), command=command, after=answer)
