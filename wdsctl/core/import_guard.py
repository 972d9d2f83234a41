"""Find the file that an import would run, and refuse imports that data names or shadows.

Files in a dataset folder, a blend file, a catalog or a checkpoint are data
(docs/decisions/0029-one-rule-of-trust.md). Interpreters that wdsctl starts import nothing from the current folder,
which may be a dataset.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.file_limits import read_whole
from wdsctl.core.safe_open import open_named

_implicit_entries = {""}  # entries of `sys.path` for the current folder that Python added by itself


def find_module_origin(module: str, entries: Sequence[str]) -> str | None:
    """Return the file that importing a module from these entries of `sys.path` would run.

    Returns "" for a module without a file, such as a built-in one, and None if no such module exists. Imports
    nothing, unlike `importlib.util.find_spec`, which imports parent packages.
    """
    importlib.invalidate_caches()
    name, inside, origin = "", None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        known = sys.modules.get(name)
        if known is not None:
            inside, origin = getattr(known, "__path__", None), getattr(known, "__file__", None) or ""
            continue
        if inside is None and name != part:
            return None  # the parent is not a package
        spec = _find_spec(name, inside, entries)
        if spec is None:
            return None
        inside, origin = spec.submodule_search_locations, (spec.origin or "") if spec.has_location else ""
    return origin


def _find_spec(name: str, inside: Any, entries: Sequence[str]) -> ModuleSpec | None:
    for finder in sys.meta_path:
        places = entries if inside is None else inside
        spec = _find_spec_in(name, places) if finder is PathFinder else finder.find_spec(name, inside)
        if spec is not None:
            return spec
    return None


def _find_spec_in(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """Find a module like PathFinder, but without looking up a namespace package's parent in `sys.modules`."""
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


def missing_name_reason(module: str, name: str) -> str:
    """Why `from module import name` would fail, as far as its file tells; "" if nothing speaks against it.

    Imports nothing: reads the names that the file defines.
    """
    origin = find_module_origin(module, explicit_path())
    if origin is None:
        return f"no module {module!r} was found"
    if not origin.endswith(".py"):
        return ""
    try:
        with open_named(origin) as file:
            tree = ast.parse(read_whole(file, origin))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, StorageError) as error:
        return f"cannot read the module {origin}: {error}"
    defined: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            defined.update(alias.asname or alias.name for alias in node.names)
    is_open = "*" in defined or "__getattr__" in defined
    return "" if is_open or name.partition(".")[0] in defined else f"the module {origin} has no {name}"


def explicit_path() -> list[str]:
    """Return `sys.path` without the current folder, if Python added that folder at a prompt or for `python -c`."""
    return [entry for entry in sys.path if entry not in _implicit_entries]


def find_implicit_folder(child_sys_path: Sequence[str]) -> str:
    """Return the entry that replaces the current folder in a `sys.path` from multiprocessing.

    Returns "" if there is none.
    """
    return next(
        (new for old, new in zip(sys.path, child_sys_path, strict=False) if not old and new not in sys.path), ""
    )


def add_implicit_folder(folder: str) -> None:
    """Treat this entry of `sys.path` as implicit, as the parent process does."""
    _implicit_entries.add(folder)


@contextmanager
def without_implicit_folder() -> Iterator[None]:
    """Restrict imports within the block to `explicit_path`."""
    left_out = [(i, entry) for i, entry in enumerate(sys.path) if entry in _implicit_entries]
    sys.path[:] = explicit_path()
    try:
        yield
    finally:
        for place, entry in left_out:
            sys.path.insert(place, entry)


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is in, or is, one of these folders, by its absolute or its resolved path."""
    names = {os.path.abspath(path), os.path.realpath(path)}
    real = {os.path.realpath(folder) for folder in folders} | {os.path.abspath(folder) for folder in folders}
    return any(name == folder or name.startswith(os.path.join(folder, "")) for name in names for folder in real)


def dataset_import_error(text: str, origin: str, where: str, hint: str) -> UsageError:
    """Build the error for an import from a dataset's folder.

    `text`: the code to import; `origin`: the file that would run; `where`: what names the code.
    """
    return UsageError(
        f"{text} would be imported from the dataset's folder ({origin}), whose files are data",
        where=where,
        hint=hint,
        code="WDS271",
    )


_SAFE_PATH_VARIABLE = "PYTHONSAFEPATH"


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Keep interpreters that start within the block from importing modules from the current folder.

    multiprocessing starts its servers with `python -c`, which searches the current folder first: a file
    `multiprocessing.py` beside the shards would run. Python 3.10 has no option against it; there the block runs in
    another folder, and servers change back to the original one by themselves.
    """
    if sys.version_info < (3, 11):
        before = os.getcwd()
        os.chdir(os.path.dirname(os.__file__))
        try:
            yield
        finally:
            os.chdir(before)
        return
    previous = os.environ.get(_SAFE_PATH_VARIABLE)
    os.environ[_SAFE_PATH_VARIABLE] = "1"
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_SAFE_PATH_VARIABLE]
        else:
            os.environ[_SAFE_PATH_VARIABLE] = previous
