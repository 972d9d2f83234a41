"""Sample types by the names that dataset.yaml uses: the built-in ones, and those of the user, `module:Class`."""

from __future__ import annotations

import dataclasses

from wdsctl.core.sample_types import SAMPLE_TYPES, Field
from wdsctl.loader.samples.base import BASE_FIELDS, Sample, is_required
from wdsctl.loader.samples.types import TYPES

_admitted: dict[str, type[Sample]] = {}


def admit(name: str, kind: type[Sample]) -> None:
    """Let a name stand for a class from here on: somebody has looked whether it may."""
    _admitted[name] = kind


def sample_type_of(name: str) -> type[Sample]:
    """The class, of one's own where it was let in. Nothing is imported."""
    return TYPES.get(name) or _admitted[name]


def fields_of(name: str) -> tuple[Field, ...]:
    """The fields of a sample type but for the base fields. Those that a built-in type has too hold the same there."""
    if name in SAMPLE_TYPES:
        return SAMPLE_TYPES[name]
    kind = sample_type_of(name)
    above = (SAMPLE_TYPES.get(each.__name__, ()) for each in kind.__mro__ if TYPES.get(each.__name__) is each)
    known = {field.name: field.kind for fields in above for field in fields}
    own = [field for field in dataclasses.fields(kind) if field.name not in BASE_FIELDS and field.init]
    return tuple(Field(each.name, known.get(each.name, "any"), required=is_required(each)) for each in own)
