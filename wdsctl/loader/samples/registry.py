"""Joiners, sample types and factories that the user's program registered, which blend files and dataset.yaml may name.

Workers in a new interpreter receive them pickled.
"""

from __future__ import annotations

import dataclasses
import pickle
from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.samples.types import is_custom_type
from wdsctl.loader.samples.base import Sample

J = TypeVar("J", bound=Callable[..., Any])
T = TypeVar("T", bound=type[Sample])


class SampleFactory(ABC):
    """A class that dataset.yaml may name instead of a sample type: it has the type, and may build samples itself."""

    __sample_type__: ClassVar[Any]

    @classmethod
    def own_loader(cls, path: str, decoder: Any, **options: Any) -> Callable[[dict[str, Any]], Any] | None:  # noqa: ARG003
        """A function from undecoded parts and base fields to a sample; None if the loader builds samples as usual.

        `decoder`: the task encoder's. `options`: `field_map`, or `sample_loader` and `part_filter`.
        """
        return None


_registered: dict[str, Any] = {}
_received: dict[str, bytes | str] = {}  # pickles from the parent process that are not loaded yet, or why there is none


def register_joiner(joiner: J, name: str = "") -> J:
    """Let blend files name a joiner (a function or class) without `trust_code`. Returns it, so it is also a decorator.

    `name`: the name in blend files, `module:name`; by default its own. A later registration replaces an earlier one.
    Raises UsageError if it is not callable or the name has another form.
    """
    if not callable(joiner):
        raise UsageError(f"{joiner!r:.60} is not a joiner", hint="register a function of samples, or a class")
    _register(joiner, name)
    return joiner


def register_sample_type(kind: T, name: str = "") -> T:
    """Let dataset.yaml name a sample type, and blend files use it as a joiner. Otherwise as `register_joiner`."""
    check_sample_class(kind, name or repr(kind))
    _register(kind, name)
    return kind


def register_factory(factory: type[SampleFactory]) -> None:
    """Let dataset.yaml name a factory. Raises UsageError WDS220 unless its `__sample_type__` is a sample type."""
    check_sample_class(factory.__sample_type__, f"__sample_type__ of {factory.__name__}")
    _register(factory, "")


def check_sample_class(kind: Any, name: str) -> None:
    """Raise UsageError WDS220 unless `kind` is a sample type."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and issubclass(kind, Sample)):
        hint = "derive a class from Sample and decorate it with @edataclass"
        raise UsageError(f"{name} is not a sample type", hint=hint, code="WDS220")


def find_registered(name: str) -> Any:
    """The object with this name, or None. Raises LoaderError WDS531 if it could not be sent to this worker."""
    if name not in _registered and name in _received:
        pickled = _received.pop(name)
        if isinstance(pickled, str):
            raise _not_sent_error(name, pickled)
        try:
            _registered[name] = pickle.loads(pickled)  # noqa: S301 - from the parent process
        except Exception as error:  # the user's own modules run here
            raise _not_sent_error(name, f"{type(error).__name__}: {error}") from error
    return _registered.get(name)


def pickle_registered() -> dict[str, bytes | str]:
    """All registered objects for another interpreter: pickles, or the reason why one cannot be pickled."""

    def pickle_or_reason(value: Any) -> bytes | str:
        try:
            return pickle.dumps(value, protocol=5)
        except Exception as error:  # noqa: BLE001 - user code; the error is raised where the object is needed
            return f"{type(error).__name__}: {error}"

    return {**_received, **{name: pickle_or_reason(each) for name, each in _registered.items()}}


def receive_registered(pickles: Mapping[str, bytes | str]) -> None:
    """Accept the objects of the parent process. Those that this process registers take precedence."""
    _received.update(pickles)


def _register(value: Any, name: str) -> None:
    name = name or f"{value.__module__}:{getattr(value, '__qualname__', type(value).__qualname__)}"
    if not is_custom_type(name):
        hint = 'pass a name of the form module:name, such as name="mine:joined"'
        raise UsageError(f"{name!r} is not of the form module:name", hint=hint)
    _registered[name] = value


def _not_sent_error(name: str, reason: str) -> LoaderError:
    return LoaderError(
        f"cannot send {name} to a worker in a new interpreter: {reason}",
        hint='define it at the top level of a module, or pass start_method="fork"',
        code="WDS531",
    )
