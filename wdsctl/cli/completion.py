"""What a shell offers for an option or argument: names that the dataset before it has. Standard library only.

A shell puts what is offered onto the command line as it is, and zsh evaluates it: a key `k$(touch x)` would run. What
has a letter in it that any shell gives a meaning, or begins like an option, is not offered.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import typer
from typer.models import ParameterInfo

if TYPE_CHECKING:
    from wdsctl.core.catalog.browse import Browser
    from wdsctl.core.place import Place

Complete = Callable[[typer.Context, str], list[str]]

MOST = 100  # names that are offered
_CALM = re.compile(r"[\w./:,+@](?:[\w./:,+@%=-])*")


def offer(parameters: Iterable[inspect.Parameter]) -> None:
    """Let the parameters of a command that have a name of COMPLETED be completed."""
    for parameter in parameters:
        complete = COMPLETED.get(parameter.name)
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if complete is not None and isinstance(info, ParameterInfo) and info.autocompletion is None:
                info.autocompletion = complete


def splits(context: typer.Context, incomplete: str) -> list[str]:
    return _of_dataset(context, incomplete, lambda _place, browser: iter(browser.splits()))


def sets(context: typer.Context, incomplete: str) -> list[str]:
    def named(_place: Place, browser: Browser) -> Iterator[str]:
        return iter(dict.fromkeys(name.rpartition("/")[0] for name in browser.splits() if "/" in name))

    return _of_dataset(context, incomplete, named)


def parts(context: typer.Context, incomplete: str) -> list[str]:
    return _of_dataset(context, incomplete, lambda _place, browser: iter(browser.part_names()))


def shards(context: typer.Context, incomplete: str) -> list[str]:
    return _of_dataset(context, incomplete, lambda _, browser: (line.path for line in browser.shards(incomplete)))


def keys(context: typer.Context, incomplete: str) -> list[str]:
    return _of_dataset(context, incomplete, lambda place, browser: _keys(place, browser, incomplete))


def views(context: typer.Context, incomplete: str) -> list[str]:
    """Of `wdsctl view` alone: elsewhere these parameters are files."""
    from wdsctl.core.catalog.view_reader import stored_views

    if " view " not in context.command_path:
        return []
    return _of_dataset(context, incomplete, lambda place, _: (view.name for view in stored_views(place.ledger)))


def codes(incomplete: str) -> list[str]:
    from wdsctl.core.codes import CODES

    return [code for code in CODES if code.startswith(incomplete.upper())]


def levels(incomplete: str) -> list[str]:
    """Of the last one in a list with commas."""
    from wdsctl.core.checks.levels import ALL, LEVELS

    before, comma, last = incomplete.rpartition(",")
    said = before.split(",")
    return [f"{before}{comma}{name}" for name in (*LEVELS, ALL) if name.startswith(last) and name not in said]


def _keys(place: Place, browser: Browser, prefix: str) -> Iterator[str]:
    if browser.has_rows:
        return (key for _, key in browser.keys(prefix))
    from wdsctl.core.stored_samples import StoredSamples  # imports numpy, which rows do not need

    return StoredSamples(place, browser.generation).keys(prefix)


def _of_dataset(context: typer.Context, incomplete: str, names: Callable[[Place, Browser], Iterator[str]]) -> list[str]:
    """Names of the dataset that the command line has so far. Of an error a shell has no place to tell."""
    from wdsctl.core.catalog.browse import Browser
    from wdsctl.core.errors import WdsctlError
    from wdsctl.core.root_name import located

    # Behind an option that still lacks its value, Typer has not given the words before it to their arguments.
    root = context.params.get("root") or next(iter(context.args), "")
    if not isinstance(root, str) or not root:
        return []
    try:
        place, _ = located(root, context.params.get("catalog"))
        with Browser(place.catalog) as browser:
            return list(islice((name for name in names(place, browser) if _is_offered(name, incomplete)), MOST))
    except WdsctlError:
        return []


def _is_offered(name: str, incomplete: str) -> bool:
    return name.startswith(incomplete) and _CALM.fullmatch(name) is not None


COMPLETED: dict[str, Complete | Callable[[str], list[str]]] = {
    "code": codes,
    "exclude_code": codes,
    "first": views,
    "key": keys,
    "level": levels,
    "name": views,
    "names": views,
    "of_set": sets,
    "part": parts,
    "second": views,
    "shard": shards,
    "split": splits,
}
