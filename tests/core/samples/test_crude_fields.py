"""Parts of crude samples that fill one role under several names are one field."""

from __future__ import annotations

import pytest

from wdsctl.core.dataset.config import parse_config
from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.crude_fields import complete_crude_fields, crude_sample_fields, find_crude_fields
from wdsctl.core.samples.field_map import parse_field_map


@pytest.mark.parametrize(
    ("layouts", "fields"),
    [
        ([("input.jpg", "json"), ("input.png", "json")], {"input": "input.jpg,input.png"}),
        ([("jpg", "json"), ("png", "json")], {"image": "jpg,png"}),
        (
            [("json",), ("pages.0.jpg", "json"), ("pages.0.jpg", "pages.1.png", "json")],
            {"pages": "pages.*.jpg,pages.*.png"},
        ),
        ([("view_1.jpg",), ("view_1.jpg", "view_2.jpg")], {"view": "view_*.jpg"}),
        ([("0.jpg", "0.json"), ("0.jpg", "1.png", "1.json")], {"images": "*.jpg,*.png"}),
        ([("0.jpg", "cover.jpg"), ("0.jpg", "1.jpg", "cover.jpg")], {}),
        ([("input.jpg", "input.png"), ("input.jpg",)], {}),  # both in one sample
        ([("input.jpg",), ("input.wav",)], {}),  # media of two kinds
        ([("left.0.jpg", "left.1.jpg")], {}),  # all samples have the same parts, which are batched by name
        ([("input.jpg", "input"), ("input.png", "input")], {}),  # the name is taken
        ([("pages.0.jpg",), ("pages.0.jpg", "pages.1.jpg", "pages.cover.jpg")], {}),  # the pattern takes another part
        ([("__a.jpg",), ("__a.png",)], {}),
        ([], {}),
    ],
)
def test_parts_of_one_role_are_one_field(layouts: list[tuple[str, ...]], fields: dict[str, str]) -> None:
    assert find_crude_fields(layouts) == fields


@pytest.mark.parametrize(
    ("layouts", "field_map", "proposed"),
    [
        ([("jpg", "d.npy"), ("jpg",)], {}, ({"d.npy": "d.npy"}, ("d.npy",))),
        ([("jpg", "d.npy"), ("jpg",)], {"depth": "d.npy"}, ({"depth": "d.npy"}, ("depth",))),
        ([("a.jpg", "rear.webp"), ("a.jpg",)], {}, ({"rear": "rear.*"}, ())),
        ([("json", "jpg"), ("json",)], {}, ({"images": "*jpg"}, ())),
        ([("cls", "lat.pt"), ("in.png",), ("in.jpg",)], {}, ({"in": "in.*", "cls": "cls", "lat": "lat.*"}, ("cls",))),
        ([("a.jpg", "a.json"), ("a.json",)], {}, ({}, ())),  # the pattern takes another part
        ([("a.jpg", "a"), ("a",)], {}, ({}, ())),  # the name is taken
    ],
)
def test_field_map_completes_samples(
    layouts: list[tuple[str, ...]], field_map: dict[str, str], proposed: tuple[dict[str, str], tuple[str, ...]]
) -> None:
    assert complete_crude_fields(layouts, field_map) == proposed


def test_crude_sample_keeps_parts_that_no_field_takes_and_empty_lists() -> None:
    paths = parse_field_map({"input": "input.jpg,input.png", "pages": "pages.*.jpg"})

    assert crude_sample_fields(("json", "input.png"), paths) == {
        "json": ("json",),
        "input": ("input.png",),
        "pages": (),
    }
    assert crude_sample_fields(("pages.10.jpg", "pages.9.jpg"), paths) == {"pages": ("pages.9.jpg", "pages.10.jpg")}


def test_field_of_crude_sample_is_whole_part_with_usable_name() -> None:
    for line, words in (("input: json[a]", "is a whole part"), ("__key__: jpg", "cannot have the name")):
        with pytest.raises(DatasetError, match=words) as raised:
            parse_config(f"sample_type: CrudeSample\nfield_map:\n  {line}\n")
        assert raised.value.code == "WDS220"
