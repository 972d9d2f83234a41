"""Shell completion of names in the dataset on the command line. Standard library only.

A shell inserts a completion unquoted, and zsh evaluates it: a key `k$(touch x)` would run. So names with a character
that means something to a shell, or that begin like an option, are not offered.
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
    from wdsctl.core.opened.handle import OpenDataset


Completer = Callable[[typer.Context, str], list[str]]

MAX_COMPLETIONS = 100
_SHELL_SAFE = re.compile(r"[\w./:,+@](?:[\w./:,+@%=-])*")


def add_completers(parameters: Iterable[inspect.Parameter]) -> None:
    """Add a completer to each parameter of a command that `COMPLETERS` names."""
    for parameter in parameters:
        complete = COMPLETERS.get(parameter.name)
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if complete is not None and isinstance(info, ParameterInfo) and info.autocompletion is None:
                info.autocompletion = complete


def complete_splits(context: typer.Context, incomplete: str) -> list[str]:
    return _dataset_names(context, incomplete, lambda dataset: iter(dataset.catalog.split_names()))


def complete_sets(context: typer.Context, incomplete: str) -> list[str]:
    def list_sets(dataset: OpenDataset) -> Iterator[str]:
        return iter(dict.fromkeys(name.rpartition("/")[0] for name in dataset.catalog.split_names() if "/" in name))

    return _dataset_names(context, incomplete, list_sets)


def complete_parts(context: typer.Context, incomplete: str) -> list[str]:
    return _dataset_names(context, incomplete, lambda dataset: iter(dataset.browser.part_names()))


def complete_shards(context: typer.Context, incomplete: str) -> list[str]:
    def list_shards(dataset: OpenDataset) -> Iterator[str]:
        return (shard.path for shard in dataset.browser.shards(incomplete))

    return _dataset_names(context, incomplete, list_shards)


def complete_keys(context: typer.Context, incomplete: str) -> list[str]:
    return _dataset_names(context, incomplete, lambda dataset: _keys(dataset, incomplete))


def complete_views(context: typer.Context, incomplete: str) -> list[str]:
    """Names of views, for `wdsctl view` only: in other commands these parameters are files."""
    if " view " not in context.command_path:
        return []
    return _dataset_names(context, incomplete, lambda dataset: (view.name for view in dataset.ledger.views()))


def complete_codes(incomplete: str) -> list[str]:
    from wdsctl.core.codes import load_codes

    return [code for code in load_codes() if code.startswith(incomplete.upper())]


def complete_levels(incomplete: str) -> list[str]:
    """Levels for the last entry of a list with commas."""
    from wdsctl.core.validate.request import ALL_LEVELS_OPTION, LEVELS

    before, comma, last = incomplete.rpartition(",")
    listed = before.split(",")
    return [
        f"{before}{comma}{name}"
        for name in (*LEVELS, ALL_LEVELS_OPTION)
        if name.startswith(last) and name not in listed
    ]


def _keys(dataset: OpenDataset, prefix: str) -> Iterator[str]:
    if dataset.browser.has_rows:
        return (key for _, key in dataset.browser.keys(prefix))
    from wdsctl.core.catalog.samples import StoredSamples  # imports numpy, which catalogs with sample rows do not need

    return StoredSamples(dataset.location, dataset.catalog.generation).keys(prefix)


def _dataset_names(
    context: typer.Context, incomplete: str, list_names: Callable[[OpenDataset], Iterator[str]]
) -> list[str]:
    """Names in the dataset that is on the command line; none on any error, which a shell could not show."""
    from wdsctl.core.errors import WdsctlError
    from wdsctl.core.opened.opening import open_dataset

    # While an option lacks its value, Typer has not yet assigned the arguments before it.
    root = context.params.get("root") or next(iter(context.args), "")
    if not isinstance(root, str) or not root:
        return []
    try:
        with open_dataset(root, context.params.get("catalog"), takes_view=True) as dataset:
            offered = (name for name in list_names(dataset) if _is_offered(name, incomplete))
            return list(islice(offered, MAX_COMPLETIONS))
    except WdsctlError:
        return []


def _is_offered(name: str, incomplete: str) -> bool:
    return name.startswith(incomplete) and _SHELL_SAFE.fullmatch(name) is not None


COMPLETERS: dict[str, Completer | Callable[[str], list[str]]] = {
    "code": complete_codes,
    "exclude_code": complete_codes,
    "first": complete_views,
    "key": complete_keys,
    "level": complete_levels,
    "name": complete_views,
    "names": complete_views,
    "split_set": complete_sets,
    "part": complete_parts,
    "second": complete_views,
    "shard": complete_shards,
    "split": complete_splits,
}
