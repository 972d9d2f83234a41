"""LLaVA-style JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import faults, held, refused
from wdsctl.core import importers

TALK = [{"from": "human", "value": "<image>\nWhat? é"}, {"from": "gpt", "value": "That."}]


def test_records_become_samples_with_their_image_and_conversations(tmp_path: Path) -> None:
    records = [{"id": "a/1", "image": "coco/1.jpg", "conversations": TALK}, {"id": 2, "conversations": TALK}]
    root = a_folder(tmp_path, {"t.json": json.dumps(records).encode(), "images/coco/1.jpg": b"one"})

    found = held(f"{root}/t.json")

    assert importers.best_importer(f"{root}/t.json")[0].name == "llava"
    assert found["a/1"]["jpg"] == b"one"
    assert json.loads(found["a/1"]["json"]) == {"id": "a/1", "conversations": TALK}
    assert list(found["2"]) == ["json"]


def test_missing_images_and_odd_items_are_faults(tmp_path: Path) -> None:
    data = (
        b'[{"id":"a","image":"1.jpg"},\n 3 , {"id":"b","image":"2.jpg"}, {"id":"\xff"}, {"id":"c","image":"../x.jpg"}]'
    )
    root = a_folder(tmp_path, {"t.json": data, "1.jpg": b"one"})

    assert {place: error.code for place, error in faults(f"{root}/t.json").items()} == {
        1: "WDS121", 2: "WDS231", 3: "WDS124", 4: "WDS230",
    }  # fmt: skip


@pytest.mark.parametrize("data", [b'[{"id":"a"},{"id":', b'[{"id":"a"} {"id":"b"}]', b'[{"id":"a"},', b"[}", b"["])
def test_a_list_that_is_cut_or_broken_is_refused_at_its_byte(tmp_path: Path, data: bytes) -> None:
    root = a_folder(tmp_path, {"t.json": data})

    error = refused(f"{root}/t.json", form="llava")

    assert error.code == "WDS233"
    assert "(byte " in error.where


def test_an_empty_list_has_no_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": b" [ ] "})

    assert held(f"{root}/t.json") == {}
