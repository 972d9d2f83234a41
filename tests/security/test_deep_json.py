"""JSON that is too deep, or has numbers too long, is a ValueError wherever it is read: `read_json` reads all of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import sources
from tests.build import a_folder, an_image
from tests.core.formats import read_errors
from wdsctl.core.json_text import read_json

#: Modules that read only JSON that this process has written, or that must parse numbers in another way.
ALLOWED = {
    "core/json_text.py",  # defines read_json
    "core/samples/field_path.py",  # reads a quoted name
    "core/checkpoint/digests.py",  # reads what it has just written
    "loader/distributed.py",  # reads what other ranks of the job have written
    "core/convert/destination.py",  # reads what it has just written
    "loader/run/lane_turns.py",  # the same
    "core/convert/exporters/litdata.py",  # calculates with no number
    "core/importers/references.py",  # the same
    "core/samples/preview.py",  # the same; reads short texts only
}


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 200_000, b"[" * 200_000, "9" * 10_000, b"-" + b"9" * 101, ("8" * 101).encode("utf-16")],
)
def test_read_json_raises_value_error_for_too_deep_or_long_input(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"nested too deep|more than 100 digits"):
        read_json(text)


def test_long_texts_of_digits_and_short_numbers_are_read() -> None:
    assert read_json(f'["{"9" * 200}", {"9" * 100}, 0.{"1" * 200}]')[:2] == ["9" * 200, int("9" * 100)]


def test_labels_with_numbers_beyond_floats_fail_their_sample_alone(tmp_path: Path) -> None:
    shape = '{"label": "a", "shape_type": "rectangle", "points": [[0, 0], [%s, 1]]}'
    text = '{"version": "5", "imagePath": "%s.jpg", "shapes": [%s], "imageWidth": 9, "imageHeight": 9}'
    labels = {f"{i}.json": (text % (i, shape % number)).encode() for i, number in enumerate(("1", "1" + "0" * 400))}
    root = a_folder(tmp_path, {**labels, "0.jpg": an_image("JPEG"), "1.jpg": an_image("JPEG")})
    assert {at: error.code for at, error in read_errors(root).items()} == {1: "WDS232"}


def test_all_json_is_read_by_read_json() -> None:
    found = {
        module
        for module in sources.modules_with("json.load")
        for node in ast.walk(sources.tree(module))
        if isinstance(node, ast.Attribute) and sources.dotted_name(node) in ("json.load", "json.loads")
    }
    assert found == ALLOWED
