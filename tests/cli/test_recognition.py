from __future__ import annotations

from dataclasses import replace

from tests.cli.reports import DETECTION
from wdsctl.cli.recognition import unused_rows
from wdsctl.core.importers.protocol import FieldUse

FIELDS = [FieldUse("file", "jpg"), FieldUse("caption", "json[caption]"), FieldUse("label", "json[label]")]


def test_unused_rows_names_stored_fields_that_are_not_read() -> None:
    detection = replace(
        DETECTION, sample_type="CaptioningSample", field_map={"image": "jpg", "caption": "json[caption]"}
    )
    assert unused_rows(detection, FIELDS) == [("", "stored, not read by CaptioningSample: label")]
    assert unused_rows(detection, FIELDS[:2]) == []


def test_unused_rows_is_empty_without_field_map() -> None:
    assert unused_rows(replace(DETECTION, sample_type="CrudeSample", field_map={}), FIELDS) == []
