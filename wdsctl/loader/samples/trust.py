"""Code that data names: registered by the user's program, our classes by Energon's names, or imported with
`trust_code`. Nothing else in the loader imports by name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wdsctl.core.columns.spec import ColumnSpec, import_callable
from wdsctl.core.errors import UsageError
from wdsctl.core.import_guard import (
    dataset_import_error,
    explicit_path,
    find_module_origin,
    is_within,
    without_implicit_folder,
)
from wdsctl.core.samples.types import builtin_sample_type
from wdsctl.loader.samples.registry import find_registered
from wdsctl.loader.samples.types import SAMPLE_CLASSES

_REGISTER_FUNCTIONS = {"joiner": "register_joiner", "sample_type": "register_sample_type"}


@dataclass(frozen=True, slots=True)
class NamedCode:
    """`text`: `module:name`. `option`: the key that names it, at `where`. `data_folders`: barred as origins."""

    text: str
    option: Literal["joiner", "sample_type"]
    where: str
    data_folders: Sequence[str] = ()


def load_named_code(named: NamedCode, *, trust_code: bool) -> Any:
    """The object of that name. Raises UsageError: WDS270 without `trust_code`, WDS271 for a module in the data's
    folders, WDS312 if there is no such module or name."""
    module, _, name = named.text.partition(":")
    registered = find_registered(named.text)
    if registered is not None:
        return registered
    builtin = builtin_sample_type(module, name)
    if builtin:
        return SAMPLE_CLASSES[builtin]
    entries = explicit_path()
    origin = find_module_origin(module, entries)
    if not trust_code:
        raise untrusted_code_error(named, origin)
    if origin and is_within(origin, named.data_folders):
        raise dataset_import_error(
            f"{named.option}: {named.text}",
            origin,
            named.where,
            f"move the code to another module, or {_register_hint(named)}",
        )
    if origin is None:
        _check_current_folder(named, module)
    with without_implicit_folder():
        return import_callable(ColumnSpec(named.text, "python", module, tuple(name.split("."))))


def _check_current_folder(named: NamedCode, module: str) -> None:
    """Raise UsageError for a module that exists only in the current folder, which is not searched."""
    origin = find_module_origin(module, [os.getcwd()])
    if origin:
        raise UsageError(
            f"module {module!r} is only in the current folder ({origin}), which is not searched for code that data "
            "names",
            where=named.where,
            hint=f"{_register_hint(named)}; or add the folder to PYTHONPATH",
            code="WDS312",
        )


def untrusted_code_error(named: NamedCode, origin: str | None) -> UsageError:
    module = named.text.partition(":")[0]
    location = f"no module {module!r} was found" if origin is None else f"it is in {origin or 'Python itself'}"
    return UsageError(
        f"{named.option}: {named.text} is code that data names, which wdsctl only runs with trust_code; {location}",
        where=named.where,
        hint=f"{_register_hint(named)}; or, if you trust that code, pass trust_code=True",
        code="WDS270",
    )


def _register_hint(named: NamedCode) -> str:
    return f'register it in your program: wdsctl.loader.{_REGISTER_FUNCTIONS[named.option]}(..., name="{named.text}")'
