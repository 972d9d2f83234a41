"""Sample types by the names that dataset.yaml uses: the built-in ones, and those of the user, `module:Class`."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from wdsctl.core.column_function import find_python
from wdsctl.core.column_spec import Spec
from wdsctl.core.errors import UsageError
from wdsctl.core.sample_types import SAMPLE_TYPES, Field
from wdsctl.loader.samples.base import BASE_FIELDS, Sample, is_required
from wdsctl.loader.samples.types import TYPES


@cache
def sample_type_of(name: str) -> type[Sample]:
    """The class. The module of one's own is imported from where Python finds its packages. Raises UsageError WDS220
    where there is no such class, or it is no sample type."""
    if name in TYPES:
        return TYPES[name]
    module, _, rest = name.partition(":")
    try:
        found: Any = find_python(Spec(name, "python", module, tuple(rest.split("."))))
    except UsageError as error:
        words = f"sample_type: {error.message}"
        raise UsageError(words, hint=error.hint, where=error.where, code="WDS220") from error
    if not (isinstance(found, type) and dataclasses.is_dataclass(found) and issubclass(found, Sample)):
        hint = "a sample type is a class with @edataclass that derives from Sample"
        raise UsageError(f"{name} is no sample type", hint=hint, code="WDS220")
    return found


@cache
def fields_of(name: str) -> tuple[Field, ...]:
    """The fields of a sample type but for the base fields. Those that a built-in type has too hold the same there."""
    if name in SAMPLE_TYPES:
        return SAMPLE_TYPES[name]
    cls = sample_type_of(name)
    above = (SAMPLE_TYPES.get(each.__name__, ()) for each in cls.__mro__ if TYPES.get(each.__name__) is each)
    known = {field.name: field.kind for fields in above for field in fields}
    own = [field for field in dataclasses.fields(cls) if field.name not in BASE_FIELDS and field.init]
    return tuple(Field(each.name, known.get(each.name, "any"), required=is_required(each)) for each in own)
