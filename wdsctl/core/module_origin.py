"""Where a module would come from, and what may not be imported because data names it or lies in the way.

What is in a dataset folder, a blend file, a catalog or a checkpoint is data (docs/decisions/0029-one-rule-of-trust.md).
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.core.place import Place
from wdsctl.core.urls import is_url

_implicit = {""}  # entries of `sys.path` that are the current folder, and that nobody asked for


def origin_of(module: str, entries: Sequence[str]) -> str | None:
    """The file that importing a module from these entries of `sys.path` would run; "" where it has none, as built-in
    modules; None where there is no such module. Nothing is imported, as `importlib.util.find_spec` imports packages."""
    importlib.invalidate_caches()
    name, inside, origin = "", None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        known = sys.modules.get(name)
        if known is not None:
            inside, origin = getattr(known, "__path__", None), getattr(known, "__file__", None) or ""
            continue
        if inside is None and name != part:
            return None  # the one above is no package
        spec = _spec(name, inside, entries)
        if spec is None:
            return None
        inside, origin = spec.submodule_search_locations, (spec.origin or "") if spec.has_location else ""
    return origin


def _spec(name: str, inside: Any, entries: Sequence[str]) -> ModuleSpec | None:
    for finder in sys.meta_path:
        places = entries if inside is None else inside
        spec = _spec_in(name, places) if finder is PathFinder else finder.find_spec(name, inside)
        if spec is not None:
            return spec
    return None


def _spec_in(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """What PathFinder does, which looks for the package above in `sys.modules` where one has no `__init__.py`."""
    portions: list[str] = []
    for folder in folders:
        finder: Any = pkgutil.get_importer(folder)
        spec: ModuleSpec | None = None if finder is None else finder.find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        portions += (spec.submodule_search_locations or []) if spec is not None else []
    if not portions:
        return None
    space = ModuleSpec(name, None, is_package=True)
    space.submodule_search_locations = portions
    return space


def explicit_path() -> list[str]:
    """The entries of `sys.path` but for the current folder, where it is there because Python adds it at a prompt and
    for `python -c`."""
    return [entry for entry in sys.path if entry not in _implicit]


def implicit_folder(handed_on: Sequence[str]) -> str:
    """What stands for the current folder in the `sys.path` that multiprocessing hands on; empty where nothing does."""
    return next((new for old, new in zip(sys.path, handed_on, strict=False) if not old and new not in sys.path), "")


def also_implicit(folder: str) -> None:
    """Take this entry of `sys.path`, too, for one that nobody asked for, as in the process that began this one."""
    _implicit.add(folder)


@contextmanager
def without_implicit_folder() -> Iterator[None]:
    """Within the block, imports look at `explicit_path` alone."""
    left_out = [(i, entry) for i, entry in enumerate(sys.path) if entry in _implicit]
    sys.path[:] = explicit_path()
    try:
        yield
    finally:
        for place, entry in left_out:
            sys.path.insert(place, entry)


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Whether a path lies in one of these folders, or is one of them, by its real name or the one that is given."""
    names = {os.path.abspath(path), os.path.realpath(path)}
    real = {os.path.realpath(folder) for folder in folders} | {os.path.abspath(folder) for folder in folders}
    return any(name == folder or name.startswith(os.path.join(folder, "")) for name in names for folder in real)


def data_folders(place: Place) -> tuple[str, ...]:
    """The folders of a dataset whose files are data: its own, but for one that is a file, and that of its catalog."""
    return (place.meta,) if place.only or is_url(place.root) else (place.root, place.meta)


def of_data(text: str, origin: str, where: str, hint: str) -> UsageError:
    """`text`: the code that is named; `origin`: the file that it would come from; `where`: who names it."""
    return UsageError(
        f"{text} would be imported from the dataset's own folder ({origin}), and what lies there is data",
        where=where,
        hint=hint,
        code="WDS271",
    )
