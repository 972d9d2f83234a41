"""The one decorator of samples and batches: a dataclass with slots whose fields are given by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """For type checkers only; the standard library has it from Python 3.11 on."""
        return lambda decorator: decorator


T = TypeVar("T")


#: In the namespace of a class whose constructor does nothing but set its fields, so that it may be gone around.
PLAIN = "__init_sets_the_fields_only__"


@dataclass_transform(kw_only_default=True)
def edataclass(cls: type[T]) -> type[T]:
    """`@dataclass(kw_only=True, slots=True)`: half the memory of a plain one, and a misspelt field is an error."""
    is_plain = (
        "__init__" not in vars(cls)
        and cls.__new__ is object.__new__
        and cls.__setattr__ is object.__setattr__
        and not hasattr(cls, "__post_init__")
    )
    made = dataclass(kw_only=True, slots=True)(cls)
    setattr(made, PLAIN, is_plain)
    return made
