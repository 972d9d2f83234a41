from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.cli.reports import DETECTION
from wdsctl.cli.recognition import batch_rows, preview_rows
from wdsctl.core.importers.protocol import FieldUse

FIELDS = [FieldUse("file", "jpg"), FieldUse("caption", "json[caption]"), FieldUse("label", "json[label]")]


def rows_of(sample_type: str, field_map: dict[str, str], **facts: Any) -> list[str]:
    detection = replace(DETECTION, kinds={"jpg": "image/jpeg", "json": "json/object"}, **facts)
    return [str(text) for _, text in batch_rows(sample_type, field_map, detection, FIELDS)]


def test_batch_rows_name_what_is_stored_and_no_field_reads() -> None:
    field_map = {"image": "jpg", "caption": "json[caption]"}
    shown, unread = rows_of("CaptioningSample", field_map, json_keys={"json": ("caption", "score")})
    assert shown == "CaptioningSample: image=jpg, caption=json[caption]"
    assert unread == "not in the batch: json[score], json[label] (stored; --field-map adds fields)"
    assert len(rows_of("CaptioningSample", {**field_map, "x": "json"})) == 1


def test_arrays_and_their_number_are_named() -> None:
    rows = rows_of("TextSample", {"text": "json[caption]"}, json_keys={"json": ("caption", *map(str, range(9)))})
    assert rows[1].startswith("not in the batch: jpg, json[0], ")
    assert " and 3 more (stored;" in rows[1]


def test_crude_samples_give_everything() -> None:
    assert rows_of("CrudeSample", {}) == ["CrudeSample: all parts"]


def test_preview_rows_name_type_that_differs_in_whole_dataset() -> None:
    whole = replace(DETECTION, field_map={"image": "jpg,webp", "caption": "json[caption]"})
    text = (
        "the preview of some samples was CaptioningSample: image=jpg, caption=json[caption]; the whole dataset decides"
    )
    assert preview_rows(DETECTION, whole) == [("", text)]
    assert preview_rows(DETECTION, DETECTION) == []


def test_batch_rows_name_list_of_which_one_text_is_read() -> None:
    keys = {"json": ("title", "paragraphs")}
    rows = rows_of("TextSample", {"text": "json[paragraphs][0][context]"}, json_keys=keys)
    assert "json[title], json[paragraphs] but its first context" in rows[1]
    whole = {"text": "json[paragraphs][0][context]", "x": "json[paragraphs]"}
    assert "paragraphs" not in rows_of("TextSample", whole, json_keys=keys)[1]
