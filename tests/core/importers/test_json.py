"""JSON: a list of objects, or an object with one."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import faults, held, refused
from wdsctl.core import importers
from wdsctl.core.errors import InputError
from wdsctl.core.importers.json import IMPORTER

FILES = {"a/1.jpg": b"one", "a/2.jpg": b"two!"}
ITEMS = [{"image": "a/1.jpg", "n": {"deep": [1, None]}}, {"image": "a/2.jpg", "text": "\u00e9"}]
SAMPLES = {
    "a/1": {"jpg": b"one", "json": b'{"n":{"deep":[1,null]}}'},
    "a/2": {"jpg": b"two!", "json": '{"text":"\u00e9"}'.encode()},
}


@pytest.mark.parametrize(
    "value",
    [
        ITEMS,
        {"data": ITEMS},
        {"info": {"version": 1}, "annotations": ITEMS, "licenses": ["MIT"]},
        {"info": {"n": [1, 2]}, "data": {"meta": {}, "items": ITEMS}},
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_list_is_found_wherever_it_is(tmp_path: Path, value: Any, mark: bytes) -> None:
    root = a_folder(tmp_path, {**FILES, "t.json": mark + json.dumps(value).encode()})

    assert importers.best_importer(f"{root}/t.json")[0].name == "json"
    assert held(f"{root}/t.json") == SAMPLES
    assert held(root) == SAMPLES


def test_a_folder_of_lists_alone_is_a_table(tmp_path: Path) -> None:
    rows = json.dumps([{"instruction": "a", "output": "b"}, {"instruction": "c", "output": "d"}]).encode()

    root = a_folder(tmp_path / "table", {"alpaca.json": rows, "README.md": b"about"})
    assert importers.best_importer(root)[0].name == "json"
    assert [json.loads(parts["json"])["output"] for parts in held(root).values()] == ["b", "d"]

    others = a_folder(tmp_path / "other", {"index.json": rows, "data.bin": b"x"})
    assert importers.best_importer(others)[0].name == "folder"


def test_members_beside_the_list_are_described_as_in_no_sample(tmp_path: Path) -> None:
    value = {"info": {"version": 1}, "data": {"year": 2, "items": ITEMS}}
    root = a_folder(tmp_path, {**FILES, "t.json": json.dumps(value).encode()})

    with IMPORTER.open(f"{root}/t.json", {}) as source:
        uses = {use.name: use.becomes for use in source.describe().field_uses}  # type: ignore[attr-defined]

    assert uses == {
        "image": "jpg",
        "n": "json[n]",
        "text": "json[text]",
        "info": "",
        "info.version": "",
        "data.year": "",
    }


def test_several_lists_are_refused_with_a_command_for_each(tmp_path: Path) -> None:
    value = {"train": ITEMS[:1], "other": {"val": ITEMS[1:]}}
    root = a_folder(tmp_path, {**FILES, "t.json": json.dumps(value).encode()})

    with IMPORTER.open(f"{root}/t.json", {}) as source, pytest.raises(InputError) as error:
        source.describe()  # type: ignore[attr-defined]

    assert error.value.code == "WDS244"
    assert f"`wdsctl convert {root}/t.json DEST -O rows=train`" in error.value.hint
    assert list(held(f"{root}/t.json", {"rows": "train"})) == ["a/1"]
    assert list(held(f"{root}/t.json", {"rows": "other.val"})) == ["a/2"]
    assert "other.val" in refused(f"{root}/t.json", {"rows": "val"}).hint


def test_bad_items_are_faults_and_others_keep_their_places(tmp_path: Path) -> None:
    data = b'{"data": [{"a":1}, {"a":"\xff"}, 3, {"a":4}]}'
    root = a_folder(tmp_path, {"t.json": data})

    assert {place: error.code for place, error in faults(f"{root}/t.json").items()} == {1: "WDS124", 2: "WDS121"}


@pytest.mark.parametrize("data", [b'[{"a":1},{"a":', b'{"data":[{"a":1}', b'{"data":[{"a":1} {"a":2}]}'])
def test_a_file_that_is_cut_or_broken_is_refused(tmp_path: Path, data: bytes) -> None:
    root = a_folder(tmp_path, {"t.json": data})

    assert refused(f"{root}/t.json", form="json").code == "WDS233"


@pytest.mark.parametrize("data", [b'{"a": 1}', b'{"a": [1, 2]}', b'"text"', b'{"a": []}'])
def test_a_file_without_a_list_of_objects_is_refused(tmp_path: Path, data: bytes) -> None:
    root = a_folder(tmp_path, {"t.json": data})

    error = refused(f"{root}/t.json", form="json")
    assert (error.code, error.message) == ("WDS233", "the file has no list of objects")


def test_a_mapping_of_files_is_refused_with_the_command_that_makes_a_list_of_it(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": b'{"a.jpg": "a cat", "b.jpg": "a dog"}'})

    error = refused(f"{root}/t.json", form="json")
    assert error.code == "WDS233"
    assert "jq 'to_entries | map({file: .key, text: .value})'" in error.hint


def test_utf_16_is_refused_with_the_command(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": json.dumps(ITEMS).encode("utf-16")})

    error = refused(f"{root}/t.json", form="json")
    assert error.code == "WDS120"
    assert "iconv -f UTF-16" in error.hint


def test_a_json_file_of_lines_is_read_as_lines(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": b'{"a": 1}\n{"a": 2}\n'})

    assert importers.best_importer(f"{root}/t.json")[0].name == "jsonl"
    assert [parts["json"] for parts in held(f"{root}/t.json").values()] == [b'{"a":1}', b'{"a":2}']


def test_any_item_can_be_read_first(tmp_path: Path) -> None:
    items = [{"n": i, "pad": "x" * (i % 50)} for i in range(1000)]
    root = a_folder(tmp_path, {"t.json": json.dumps({"data": items}).encode()})

    for place in (999, 0, 500):
        with IMPORTER.open(f"{root}/t.json", {}) as source:
            assert json.loads(source.read(place)[0].data)["n"] == place


def test_memory_does_not_grow_with_the_items(tmp_path: Path) -> None:
    def peak(items: int) -> int:
        path = tmp_path / f"{items}.json"
        with path.open("w") as file:
            file.write('{"data": [{"n": 0}')
            file.writelines(f', {{"n": {i}, "pad": "{"x" * 500}"}}' for i in range(1, items))
            file.write("]}")
        with IMPORTER.open(str(path), {}) as source:
            tracemalloc.start()
            assert sum(1 for _ in source.entries()) == items
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return most

    assert peak(40_000) < peak(10_000) + 300_000
