"""Names of Energon without a counterpart: they can be imported, and raise UsageError with a replacement when used.

Energon's code often imports names for annotations only, so that an import must not fail.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Any, NoReturn, TypeVar, cast

from wdsctl.core.energon.names import REPLACEMENTS
from wdsctl.core.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class Replaced:
    """A name of Energon that raises UsageError when it is called, derived from, or read from.

    It can be imported, subscripted and used in annotations; nothing is an instance of it.
    """

    def __init__(self, name: str, replacement: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._replacement = replacement

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._error()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise self._error()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the protocols of copy, inspect and typing
            raise AttributeError(name)
        raise self._error()

    def __getitem__(self, _: Any) -> Replaced:
        return self

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self.__name__} of Energon, which wdsctl does not have>"

    def _error(self) -> UsageError:
        return UsageError(f"wdsctl has no {self.__name__}", hint=self._replacement)


def like_class(function: F) -> F:
    """A function under the name of a class of Energon: it can be subscripted, and nothing is an instance of it."""

    def call(_: type[Any], *arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    members = {"__new__": call, "__class_getitem__": classmethod(GenericAlias), "__doc__": function.__doc__}
    kind: Any = type(function.__name__, (), {**members, "__module__": function.__module__})
    return cast("F", kind)


def replaced(name: str) -> Replaced:
    """The stand-in for a name of `REPLACEMENTS`."""
    return Replaced(name, REPLACEMENTS[name])
