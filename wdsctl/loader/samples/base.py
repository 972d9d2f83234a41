"""What every sample has, and the three ways to make one sample from others."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples.edataclass import edataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from wdsctl.loader.samples.source_info import SourceInfo

#: The fields that say which sample this is and where it came from, in the order of the dataclass.
BASE_FIELDS = ("__key__", "__restore_key__", "__subflavors__", "__sources__")


@edataclass
class Sample:
    """The base of all sample types. Derive your own with `@edataclass` and add its fields.

    `__restore_key__` finds the sample again, `__subflavors__` are the labels its dataset was given, `__sources__` says
    where its bytes came from, a source for each dataset that gave some.
    """

    __key__: str
    __restore_key__: tuple[Any, ...] = ()
    __subflavors__: dict[str, Any] | None = None
    __sources__: tuple[SourceInfo, ...] | None = None

    @classmethod
    def derive_from(cls, base_sample: Sample | Mapping[str, Any], **fields: Any) -> Self:
        """A new sample with these fields that keeps the base fields (key, sources, ...) of another."""
        return cls(**{**base_values(base_sample), **fields})

    @classmethod
    def extend(cls, src: Sample, **new: Any) -> Self:
        """All fields of `src` and the new ones. `cls` must be a subclass of the type of `src`; raises UsageError."""
        if not issubclass(cls, type(src)):
            raise UsageError(
                f"{cls.__name__} does not extend {type(src).__name__}",
                hint=f"derive it from {type(src).__name__}, or use derive_from to keep the base fields only",
            )
        return cls(**{**_init_values(src), **new})

    @classmethod
    def from_joined(cls, *samples: Sample | Mapping[str, Any] | None, **named: Any) -> Self:
        """One sample of several: base fields of the first, sources of all, and of fields in several the last wins.

        None stands for a sample that found no partner, and the parts of crude ones are their fields. Override it to
        join by name. Raises UsageError.
        """
        if named or not samples or samples[0] is None:
            raise UsageError(
                f"{cls.__name__} cannot be joined from this: the first sample is the primary, and all go by position",
                hint="override from_joined in your sample type to join samples by name",
            )
        present = [sample for sample in samples if sample is not None]
        values = {name: value for sample in present for name, value in _init_values(sample).items()}
        sources = tuple(source for sample in present for source in base_values(sample).get("__sources__") or ())
        return cls(**{**values, **base_values(present[0]), "__sources__": sources or None})


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a sample cannot be made without it."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def base_values(sample: Sample | Mapping[str, Any]) -> dict[str, Any]:
    """The base fields of a sample, or of a crude one."""
    if isinstance(sample, Sample):
        return {name: getattr(sample, name) for name in BASE_FIELDS}
    return {name: sample[name] for name in BASE_FIELDS if name in sample}


def _init_values(sample: Sample | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(sample, Sample):
        return dict(sample)
    return {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample) if field.init}
