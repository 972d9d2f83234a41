"""What views cost: opening one of ten million samples, and making one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.large_catalog import ensure_large
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view

CORPORA: tuple[str, ...] = ()
SAMPLES = 10_000_000
OPEN_TITLE = "opening ten million samples"
CREATE_TITLE = "making a view of ten million samples"
WHOLE = "the split train"
#: Views by the name of their contender. One bit a sample either way: what fits lies in every shard.
VIEWS = {"a view of half of it": "50%", "a view of 1 % of it": "1%"}
EXPRESSIONS = {
    "by the sample": "sample_size > 20000",
    "by the part": "ext = 'jpg' and size > 20000",
    "by the split": "split = 'val'",
}


def view_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    if not is_selected("wdsctl"):
        return
    root = str(ensure_large(SAMPLES))
    for share in VIEWS.values():
        create_view(root, _name(share), ViewDefinition(sample=share), replace=True)
    opened = [
        Contender(name=name, command=_script(root, "--open", _name(share)), after=answer)
        for name, share in VIEWS.items()
    ]
    yield compete(
        OPEN_TITLE, [*opened, Contender(name=WHOLE, command=_script(root, "--open"), after=answer)], rounds=rounds
    )
    creations = [
        Contender(name=name, command=_script(root, "--create", text), after=answer)
        for name, text in EXPRESSIONS.items()
    ]
    yield compete(CREATE_TITLE, creations, rounds=1)


def _name(share: str) -> str:
    return f"share-{share.rstrip('%')}"


def _script(root: str, *more: str) -> tuple[str, ...]:
    return (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.views", "--root", root, *more)
