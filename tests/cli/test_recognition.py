from __future__ import annotations

from dataclasses import replace

from tests.cli.reports import DETECTION
from wdsctl.cli.recognition import preview_rows, unused_rows
from wdsctl.core.importers.protocol import FieldUse

FIELDS = [FieldUse("file", "jpg"), FieldUse("caption", "json[caption]"), FieldUse("label", "json[label]")]


def test_unused_rows_names_stored_fields_that_are_not_read() -> None:
    detection = replace(
        DETECTION, sample_type="CaptioningSample", field_map={"image": "jpg", "caption": "json[caption]"}
    )
    assert unused_rows(detection, FIELDS) == [("", "stored, not read by CaptioningSample: label")]
    assert unused_rows(detection, FIELDS[:2]) == []


def test_unused_rows_is_empty_if_a_field_takes_the_whole_json() -> None:
    detection = replace(DETECTION, sample_type="ConversationSample", field_map={"messages": "json"})
    assert unused_rows(detection, [FieldUse("instruction", "json[instruction]")]) == []


def test_unused_rows_is_empty_without_field_map() -> None:
    assert unused_rows(replace(DETECTION, sample_type="CrudeSample", field_map={}), FIELDS) == []


def test_preview_rows_name_type_that_differs_in_whole_dataset() -> None:
    whole = replace(DETECTION, field_map={"image": "jpg,webp", "caption": "json[caption]"})
    text = (
        "the preview of some samples was CaptioningSample: image=jpg, caption=json[caption]; the whole dataset decides"
    )
    assert preview_rows(DETECTION, whole) == [("", text)]
    assert preview_rows(DETECTION, DETECTION) == []
