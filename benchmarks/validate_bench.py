"""Structural validation of the photographs, against reading them: bytes in the page cache, one process each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.answers import answer
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import DATA, WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA = ("photos",)
_CATALOG = DATA / "wdsctl" / "structure"
TITLE = "structure of 20,000 photographs"
NAMES = {"indexed": "wdsctl validate", "scanned": "wdsctl validate, not indexed", "read": "reading all of it"}


def validate_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    contenders = [_contender(what, name) for what, name in NAMES.items()]
    yield compete(TITLE, [each for each in contenders if is_selected(each.name)], rounds=rounds)


def _contender(what: str, name: str) -> Contender:
    command = (
        str(WDSCTL_PYTHON),
        "-m",
        "benchmarks.contenders.structure",
        what,
        *map(str, (DATA / "photos", _CATALOG)),
    )
    return Contender(name=name, command=command, after=answer)
