"""Finds the function that a column is made by, and names what it is made of, so that it is known when it changes."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from hashlib import blake2b
from types import ModuleType
from typing import Any

from wdsctl.core.column_spec import Chars, InJson, Sample, Spec
from wdsctl.core.errors import UsageError
from wdsctl.core.fields import did_you_mean

#: The attribute by which a function says which parts it needs: `tokens.parts = ("txt",)`. The others are not read.
PARTS = "parts"


@dataclass(frozen=True, slots=True)
class Function:
    call: Callable[[Sample], Any]
    parts: frozenset[str] | None  # that it is given; None for all


@contextmanager
def importable(folder: str) -> Iterator[None]:
    """Within the block, modules are looked for in `folder` first, as `python -m` does. Worker processes follow."""
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


def find_function(spec: Spec) -> Function:
    """Raises UsageError WDS312 where there is no such module or function, with the name that was perhaps meant."""
    if spec.kind == "chars":
        return Function(Chars(spec.first), frozenset({spec.first}))
    if spec.kind == "json":
        return Function(InJson(spec.first, spec.rest), frozenset({spec.first}))
    found = find_python(spec)
    return Function(found, _declared(spec, found))


def find_python(spec: Spec) -> Callable[..., Any]:
    """The function or class that `module:name` names, imported. Raises UsageError WDS312."""
    found: Any = _module(spec)
    for i, name in enumerate(spec.rest):
        if not hasattr(found, name):
            owner = ".".join((spec.first, *spec.rest[:i]))
            near = did_you_mean(name, dir(found))
            raise _no_function(spec, f"{owner} has no {name!r}", near or "give the name of a function in that module")
        found = getattr(found, name)
    if not callable(found):
        raise _no_function(
            spec, f"{spec.text} is {type(found).__name__}, not a function", "give a function of a sample"
        )
    call: Callable[..., Any] = found
    return call


def source_of(spec: Spec) -> str:
    """Names what a function is made of: the files of its module, and of the module that defines it. 16 hex digits.

    Empty where that cannot be looked at (compiled modules), and for those that need no code. What the function calls
    in other modules, and files that it reads, are not seen.
    """
    if spec.is_built_in:
        return ""
    digest, paths = blake2b(digest_size=8), _files(spec)
    for path in paths:
        with open(path, "rb") as file:
            digest.update(file.read() + b"\0")
    return digest.hexdigest() if paths else ""


def _files(spec: Spec) -> list[str]:
    found = find_function(spec).call
    plain = inspect.unwrap(found)
    defined = sys.modules.get(getattr(plain, "__module__", None) or type(plain).__module__)
    modules = [sys.modules.get(spec.first), defined]
    paths = [getattr(module, "__file__", None) for module in modules if isinstance(module, ModuleType)]
    return list(dict.fromkeys(path for path in paths if path and path.endswith(".py") and os.path.isfile(path)))


def _module(spec: Spec) -> ModuleType:
    try:
        # Data goes to stdout, and nothing else: modules that say something as they are imported say it beside it.
        with redirect_stdout(sys.stderr):
            return importlib.import_module(spec.first)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if spec.first != missing and not spec.first.startswith(f"{missing}."):
            raise _broken(spec, error) from error
        above = missing.rpartition(".")[0]
        near = did_you_mean(missing.rpartition(".")[2], _modules(above))
        hint = near or "modules are looked for where Python finds its packages; of --column, also in this folder"
        raise _no_function(spec, f"there is no module {missing!r}", hint) from error
    except Exception as error:  # somebody's module: whatever it raises is why there is no function
        raise _broken(spec, error) from error


def _modules(above: str) -> list[str]:
    """The names of the modules in a package, or of all that can be imported."""
    paths = getattr(sys.modules.get(above), "__path__", None) if above else None
    return [module.name for module in pkgutil.iter_modules(paths)] if paths or not above else []


def _declared(spec: Spec, function: Any) -> frozenset[str] | None:
    parts = getattr(function, PARTS, None)
    if parts is None:
        return None
    names = [parts] if isinstance(parts, str) else list(parts) if isinstance(parts, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        hint = f'such as `{spec.rest[-1]}.{PARTS} = ("txt",)`'
        raise _no_function(spec, f"the function's `{PARTS}` are no names of parts: {parts!r}", hint)
    return frozenset(names)


def _broken(spec: Spec, error: Exception) -> UsageError:
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = f'`python -c "import {spec.first}"` shows the whole error'
    return _no_function(spec, f"the module {spec.first!r} cannot be imported: {said}", hint)


def _no_function(spec: Spec, message: str, hint: str) -> UsageError:
    return UsageError(message, where=spec.text, hint=hint, code="WDS312")
