"""A sample or a batch as another type, field by field, by name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batch import Batch
from wdsctl.loader.batching import generic_batch
from wdsctl.loader.columns import fields_of, is_structure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wdsctl.loader.decoding import BatchMemory


def converted(value: Any, target: type[Any] | None) -> Any:
    """The value as a dataclass, a NamedTuple or a dict; itself where it is that already, or `target` is None.

    A dict gets all fields, the others those they have. Raises LoaderError where a field without a default is not there.
    """
    if target is None or isinstance(value, target):
        return value
    if not is_structure(value):
        raise LoaderError(
            f"a {type(value).__name__} has no fields that a {target.__name__} could take",
            hint="return a dataclass, a named tuple or a dict from the hook before",
        )
    fields = fields_of(value)
    if issubclass(target, dict):
        return target(fields)
    taken = {name: fields[name] for name in _fields(target) if name in fields}
    absent = [name for name, is_required in _fields(target).items() if is_required and name not in taken]
    if absent:
        raise LoaderError(
            f"{target.__name__} has a field '{absent[0]}' and {type(value).__name__} has none",
            where=f"field '{absent[0]}'",
            hint=f"the fields there are: {', '.join(fields)}",
        )
    return target(**taken)


def batched_as(samples: Sequence[Any], target: type[Any] | None, memories: Sequence[BatchMemory] = ()) -> Any:
    """The default batch as this type; a type that has a `from_samples` makes it itself."""
    if target is None or not hasattr(target, "from_samples"):
        return converted(generic_batch(samples, memories=memories), target)
    if getattr(target.from_samples, "__func__", None) is Batch.from_samples.__func__:  # type: ignore[attr-defined]
        return target.from_samples(samples, memories=memories)
    return target.from_samples(samples)


def _fields(target: type[Any]) -> dict[str, bool]:
    """The names that the constructor takes, and whether it must have them."""
    if dataclasses.is_dataclass(target):
        missing = dataclasses.MISSING
        given = [field for field in dataclasses.fields(target) if field.init]
        return {field.name: field.default is missing and field.default_factory is missing for field in given}
    if issubclass(target, tuple) and hasattr(target, "_fields"):
        named: Any = target
        return {name: name not in named._field_defaults for name in named._fields}
    raise LoaderError(
        f"{target.__name__} is no type that samples can be converted to", hint="a dataclass, a NamedTuple or dict"
    )
