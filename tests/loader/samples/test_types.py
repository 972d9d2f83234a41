from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from wdsctl import loader
from wdsctl.core.samples.types import COMPOSED_TYPES, CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES
from wdsctl.loader.samples import BASE_FIELDS, SAMPLE_CLASSES, Sample
from wdsctl.loader.samples.base import is_required
from wdsctl.loader.samples.compose import compose_function
from wdsctl.loader.samples.types import CaptioningSample


def own_fields(kind: type[Sample]) -> list[dataclasses.Field[object]]:
    return [field for field in dataclasses.fields(kind) if field.name not in BASE_FIELDS]


def test_sample_classes_match_types_of_core() -> None:
    assert list(SAMPLE_CLASSES) == list(SAMPLE_TYPES)
    assert hasattr(loader, CRUDE)
    assert {name for name, kind in SAMPLE_CLASSES.items() if compose_function(kind)} == set(COMPOSED_TYPES)


@pytest.mark.parametrize("name", SAMPLE_TYPES)
def test_sample_class_fields_match_fields_of_core(name: str) -> None:
    fields = own_fields(SAMPLE_CLASSES[name])

    assert [field.name for field in fields] == [field.name for field in SAMPLE_TYPES[name]]
    for field, known in zip(fields, SAMPLE_TYPES[name], strict=True):
        if known.required:
            assert is_required(field)
        elif known.kind in MEDIA_LIST_KINDS:
            assert field.default_factory is list
        else:
            assert field.default is None


@pytest.mark.parametrize("name", SAMPLE_TYPES)
def test_every_sample_type_is_exported_has_slots_and_pickles(name: str) -> None:
    kind: type[Sample] = getattr(loader, name)
    values: dict[str, Any] = {field.name: field.name for field in own_fields(kind)}
    sample = kind(__key__="a/1", **values)

    assert kind is SAMPLE_CLASSES[name]
    assert not hasattr(sample, "__dict__")
    assert pickle.loads(pickle.dumps(sample)) == sample  # noqa: S301 - our own


def test_sample_constructor_rejects_positional_fields() -> None:
    positional: Any = CaptioningSample

    with pytest.raises(TypeError, match="positional"):
        positional("a/1", b"", "a cat")
