"""The door that code comes through which data names: registered by the user's program, Energon's that is ours, or
imported with leave. Nothing else in the loader imports by a name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wdsctl.core.column_function import find_python
from wdsctl.core.column_spec import Spec
from wdsctl.core.errors import UsageError
from wdsctl.core.module_origin import explicit_path, is_within, of_data, origin_of, without_implicit_folder
from wdsctl.core.sample_types import known_type
from wdsctl.loader.registry import registered
from wdsctl.loader.samples.types import TYPES

_REGISTER = {"joiner": "register_joiner", "sample_type": "register_sample_type"}


@dataclass(frozen=True, slots=True)
class NamedCode:
    """`text`: `module:name`. `key`: what names it, at `where`. `data`: folders that no module may come from."""

    text: str
    key: Literal["joiner", "sample_type"]
    where: str
    data: Sequence[str] = ()


def code_of(named: NamedCode, *, trust_code: bool) -> Any:
    """What the name stands for. Raises UsageError WDS270 where it may not be imported, WDS271 where it would come from
    the data, WDS312 where it is not there."""
    module, _, name = named.text.partition(":")
    known = registered(named.text)
    if known is not None:
        return known
    ours = known_type(module, name)
    if ours:
        return TYPES[ours]
    entries = explicit_path()
    origin = origin_of(module, entries)
    if not trust_code:
        raise refused(named, origin)
    if origin and is_within(origin, named.data):
        raise of_data(f"{named.key}: {named.text}", origin, named.where, f"move it out of there, or {_own(named)}")
    if origin is None:
        _check_not_here(named, module)
    with without_implicit_folder():
        return find_python(Spec(named.text, "python", module, tuple(name.split("."))))


def _check_not_here(named: NamedCode, module: str) -> None:
    """Say where a module is that is not looked for there."""
    here = origin_of(module, [os.getcwd()])
    if here:
        raise UsageError(
            f"there is no module {module!r}, but in the current folder ({here}), where nothing that data names is "
            "looked for",
            where=named.where,
            hint=f"{_own(named)}; or put the folder on PYTHONPATH",
            code="WDS312",
        )


def refused(named: NamedCode, origin: str | None) -> UsageError:
    module = named.text.partition(":")[0]
    found = f"it would come from {origin or 'Python itself'}"
    found = f"there is no module {module!r} here" if origin is None else found
    return UsageError(
        f"{named.key}: {named.text} is code, and what data names runs only with your leave; {found}",
        where=named.where,
        hint=f"{_own(named)}; or, if you trust what is there, give trust_code=True",
        code="WDS270",
    )


def _own(named: NamedCode) -> str:
    given = f'wdsctl.loader.{_REGISTER[named.key]}(..., name="{named.text}")'
    return f"register it in your own program: {given}"
