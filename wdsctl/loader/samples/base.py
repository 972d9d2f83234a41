"""`Sample`, the base class of sample types, `CrudeSample` for datasets without a type, and `edataclass`, the decorator
of sample and batch classes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self, dataclass_transform

    from wdsctl.loader.samples.build import SourceInfo
else:

    def dataclass_transform(**_: object) -> object:
        """For type checkers only; the standard library has it from Python 3.11 on."""
        return lambda decorator: decorator


T = TypeVar("T")


#: Attribute of a class whose constructor only sets its fields, so that `build` may bypass it.
PLAIN_INIT_ATTRIBUTE = "__init_sets_the_fields_only__"


@dataclass_transform(kw_only_default=True)
def edataclass(cls: type[T]) -> type[T]:
    """`@dataclass(kw_only=True, slots=True)`: half the memory of a plain dataclass, and misspelt fields are errors."""
    is_plain = (
        "__init__" not in vars(cls)
        and cls.__new__ is object.__new__
        and cls.__setattr__ is object.__setattr__
        and not hasattr(cls, "__post_init__")
    )
    # Samples and batches have a repr with shapes; that of a dataclass would print pixels.
    has_short_repr = any("_repr_html_" in vars(base) for base in cls.__mro__[1:])
    decorated = dataclass(kw_only=True, slots=True, repr=not has_short_repr)(cls)
    setattr(decorated, PLAIN_INIT_ATTRIBUTE, is_plain)
    return decorated


#: The fields that identify a sample and its origin, in the order of the dataclass.
BASE_FIELDS = ("__key__", "__restore_key__", "__subflavors__", "__sources__")


@edataclass
class Sample:
    """The base class of sample types. Derive your own with `@edataclass` and add fields.

    `__restore_key__` identifies the sample in the loader, `__subflavors__` are the labels of its dataset, `__sources__`
    say which shards its bytes came from, one per dataset.
    """

    __key__: str
    __restore_key__: tuple[Any, ...] = ()
    __subflavors__: dict[str, Any] | None = None
    __sources__: tuple[SourceInfo, ...] | None = None

    def __repr__(self) -> str:
        """A few lines for a sample of any size: fields with shapes, dtypes and the start of texts."""
        from wdsctl.loader.samples.display import fields_text

        return fields_text(self)

    def _repr_html_(self) -> str:
        from wdsctl.loader.samples.display import sample_html

        return sample_html(self)

    @classmethod
    def derive_from(cls, base_sample: Sample | Mapping[str, Any], **fields: Any) -> Self:
        """A new sample with these fields and the base fields (key, sources, ...) of `base_sample`."""
        return cls(**{**base_values(base_sample), **fields})

    @classmethod
    def extend(cls, src: Sample, **new: Any) -> Self:
        """A new sample with the fields of `src` and `new`. Raises UsageError unless `cls` derives from its type."""
        if not issubclass(cls, type(src)):
            raise UsageError(
                f"{cls.__name__} does not extend {type(src).__name__}",
                hint=f"derive it from {type(src).__name__}, or use derive_from to keep the base fields only",
            )
        return cls(**{**_init_values(src), **new})

    @classmethod
    def from_joined(cls, *samples: Sample | Mapping[str, Any] | None, **named: Any) -> Self:
        """Join samples into one: base fields of the first, sources of all; of equal field names the last one wins.

        None stands for a member without a partner; the fields of crude samples are their parts. Fields that are None
        and that this type lacks are left out. Override it to join by name. Raises UsageError without a first sample,
        and for samples by name.
        """
        if named or not samples or samples[0] is None:
            raise UsageError(
                f"{cls.__name__}.from_joined takes samples by position; the first sample is the primary and must "
                "not be None",
                hint="override from_joined in your sample type to join samples by name",
            )
        present = [sample for sample in samples if sample is not None]
        own = {field.name for field in dataclasses.fields(cls)}
        values = {
            name: value
            for sample in present
            for name, value in _init_values(sample).items()
            if name in own or value is not None
        }
        sources = tuple(source for sample in present for source in base_values(sample).get("__sources__") or ())
        return cls(**{**values, **base_values(present[0]), "__sources__": sources or None})


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether the field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def base_values(sample: Sample | Mapping[str, Any]) -> dict[str, Any]:
    """The base fields of a sample or crude sample."""
    if isinstance(sample, Sample):
        return {name: getattr(sample, name) for name in BASE_FIELDS}
    return {name: sample[name] for name in BASE_FIELDS if name in sample}


def _init_values(sample: Sample | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(sample, Sample):
        return dict(sample)
    return {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample) if field.init}


class CrudeSample(dict[str, Any]):
    """A sample without a type: a dict of its parts by name (`jpg`, `seg.png`) and of the base fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        from wdsctl.loader.samples.display import fields_text

        return fields_text(self)

    def _repr_html_(self) -> str:
        from wdsctl.loader.samples.display import sample_html

        return sample_html(self)
