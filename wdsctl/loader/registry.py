"""Code that the user's own program has registered: what a blend file or a dataset.yaml names of it may run.

Workers that begin in a fresh interpreter are sent it.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.sample_types import is_own
from wdsctl.loader.samples.base import Sample

J = TypeVar("J", bound=Callable[..., Any])
T = TypeVar("T", bound=type[Sample])

_registered: dict[str, Any] = {}
_packed: dict[str, bytes | str] = {}  # that this process was sent, and nobody has asked for


def register_joiner(joiner: J, name: str = "") -> J:
    """Let blend files name a joiner, a function or a class, without `trust_code`. Returns it: also a decorator.

    `name`: what they name it by, by default its own `module:name`. Registered again, the last one counts. Raises
    UsageError for what cannot be called, and a name of another form.
    """
    if not callable(joiner):
        raise UsageError(f"{joiner!r:.60} is no joiner", hint="register a function of samples, or a class")
    _register(joiner, name)
    return joiner


def register_sample_type(kind: T, name: str = "") -> T:
    """Let dataset.yaml name a sample type, and blend files as a joiner. Otherwise as `register_joiner`."""
    check_sample_class(kind, name or repr(kind))
    _register(kind, name)
    return kind


def check_sample_class(kind: Any, name: str) -> None:
    """Raises UsageError WDS220 for what is no sample type."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and issubclass(kind, Sample)):
        hint = "a sample type is a class with @edataclass that derives from Sample"
        raise UsageError(f"{name} is no sample type", hint=hint, code="WDS220")


def registered(name: str) -> Any:
    """What was registered by this name, or None. Raises LoaderError WDS531 where this worker could not be sent it."""
    if name not in _registered and name in _packed:
        packed = _packed.pop(name)
        if isinstance(packed, str):
            raise _lost(name, packed)
        try:
            _registered[name] = pickle.loads(packed)  # noqa: S301 - from our own parent
        except Exception as error:  # the user's own modules run here
            raise _lost(name, f"{type(error).__name__}: {error}") from error
    return _registered.get(name)


def packed() -> dict[str, bytes | str]:
    """All of it for another interpreter: pickles, and of what cannot be pickled the reason."""
    return {**_packed, **{name: _pickled(each) for name, each in _registered.items()}}


def unpack(sent: Mapping[str, bytes | str]) -> None:
    """Take over what another process has sent. What this one registers itself wins."""
    _packed.update(sent)


def _pickled(value: Any) -> bytes | str:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:  # noqa: BLE001 - the __reduce__ of anybody's objects; told where it is asked for
        return f"{type(error).__name__}: {error}"


def _register(value: Any, name: str) -> None:
    name = name or f"{value.__module__}:{getattr(value, '__qualname__', type(value).__qualname__)}"
    if not is_own(name):
        hint = 'give it one of the form module:name, such as name="mine:joined"'
        raise UsageError(f"{name!r} is no name that a file could name it by", hint=hint)
    _registered[name] = value


def _lost(name: str, why: str) -> LoaderError:
    return LoaderError(
        f"what was registered as {name} cannot be sent to a worker in a fresh interpreter: {why}",
        hint='register it at the top level of a module, or give start_method="fork"',
        code="WDS531",
    )
