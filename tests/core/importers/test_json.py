"""The importer json: a list of objects, or an object that contains one."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import describe_source, open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import DatasetError, InputError, WdsctlError
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
def test_json_finds_list_at_any_depth(tmp_path: Path, value: Any, mark: bytes) -> None:
    root = a_folder(tmp_path, {**FILES, "t.json": mark + json.dumps(value).encode()})

    assert importers.best_importer(f"{root}/t.json")[0].name == "json"
    assert read_samples(f"{root}/t.json") == SAMPLES
    assert read_samples(root) == SAMPLES


def test_folder_of_json_lists_only_is_recognised_as_json(tmp_path: Path) -> None:
    rows = json.dumps([{"instruction": "a", "output": "b"}, {"instruction": "c", "output": "d"}]).encode()

    root = a_folder(tmp_path / "table", {"alpaca.json": rows, "README.md": b"about"})
    assert importers.best_importer(root)[0].name == "json"
    assert [json.loads(parts["json"])["output"] for parts in read_samples(root).values()] == ["b", "d"]

    others = a_folder(tmp_path / "other", {"index.json": rows, "data.bin": b"x"})
    assert importers.best_importer(others)[0].name == "folder"


def test_json_describes_members_outside_list_as_unused(tmp_path: Path) -> None:
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


def test_json_refuses_several_lists_with_command_for_each(tmp_path: Path) -> None:
    value = {"train": ITEMS[:1], "other": {"val": ITEMS[1:]}}
    root = a_folder(tmp_path, {**FILES, "t.json": json.dumps(value).encode()})

    with IMPORTER.open(f"{root}/t.json", {}) as source, pytest.raises(InputError) as error:
        source.describe()  # type: ignore[attr-defined]

    assert error.value.code == "WDS244"
    assert f"`wdsctl convert {root}/t.json DEST -O rows=train`" in error.value.hint
    assert list(read_samples(f"{root}/t.json", {"rows": "train"})) == ["a/1"]
    assert list(read_samples(f"{root}/t.json", {"rows": "other.val"})) == ["a/2"]
    assert "other.val" in open_error(f"{root}/t.json", {"rows": "val"}).hint


def test_json_bad_items_are_faults_and_others_are_read(tmp_path: Path) -> None:
    data = b'{"data": [{"a":1}, {"a":"\xff"}, 3, {"a":4}]}'
    root = a_folder(tmp_path, {"t.json": data})

    assert {place: error.code for place, error in read_errors(f"{root}/t.json").items()} == {1: "WDS124", 2: "WDS121"}


@pytest.mark.parametrize("data", [b'[{"a":1},{"a":', b'{"data":[{"a":1}', b'{"data":[{"a":1} {"a":2}]}'])
def test_json_refuses_truncated_or_broken_file(tmp_path: Path, data: bytes) -> None:
    root = a_folder(tmp_path, {"t.json": data})

    assert open_error(f"{root}/t.json", form="json").code == "WDS233"


@pytest.mark.parametrize("more", [b"\n[]", b'\n[{"n": 3}]', b"]", b' {"a": 1}'])
def test_json_refuses_text_after_its_list_or_object(tmp_path: Path, more: bytes) -> None:
    for number, value in enumerate((ITEMS, {"data": ITEMS})):
        root = a_folder(tmp_path / str(number), {**FILES, "t.json": json.dumps(value).encode() + more})

        with pytest.raises(DatasetError, match="more text follows") as caught:
            convert([f"{root}/t.json"], str(tmp_path / "made"), ConvertRequest(from_format="json"))
        assert caught.value.code == "WDS233"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("data", [b'{"a": 1}', b'{"a": [1, 2]}', b'"text"', b'{"a": []}'])
def test_json_refuses_file_without_list_of_objects(tmp_path: Path, data: bytes) -> None:
    root = a_folder(tmp_path, {"t.json": data})

    error = open_error(f"{root}/t.json", form="json")
    assert (error.code, error.message) == ("WDS233", "the file has no list of objects")


def test_texts_named_without_endings_are_refused_with_command_that_writes_them_as_table(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**FILES, "t.json": '{"1": "a c\u00e4t", "2": "a dog"}'.encode()})

    error = open_error(f"{root}/t.json", form="json")
    command = error.hint.split("`")[1].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)

    texts = {key: json.loads(parts["json"])["text"] for key, parts in read_samples(f"{root}/t.jsonl").items()}
    assert sorted(texts.values()) == ["a c\u00e4t", "a dog"]
    assert f"wdsctl convert {root}/t.jsonl DEST" in error.hint


def test_texts_named_by_their_files_are_rows(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**FILES, "t.json": b'{"a/1.jpg": "a cat", "a/2.jpg": "a dog"}'})

    expected = {
        "a/1": {"jpg": b"one", "json": b'{"text":"a cat"}'},
        "a/2": {"jpg": b"two!", "json": b'{"text":"a dog"}'},
    }
    assert read_samples(f"{root}/t.json") == expected
    assert read_samples(root) == expected


@pytest.mark.parametrize("path", [(), ("data",), ("a", "b")])
def test_members_that_are_objects_are_rows_with_their_names(tmp_path: Path, path: tuple[str, ...]) -> None:
    value: Any = {f"r{i}": {"image": f"a/{1 + i % 2}.jpg", "n": i} for i in range(200)}
    for name in reversed(path):
        value = {"meta": {"version": 1}, name: value}
    root = a_folder(tmp_path, {**FILES, "t.json": json.dumps(value).encode()})

    found = read_samples(f"{root}/t.json")

    facts = [json.loads(parts["json"]) for parts in found.values()]
    assert [(each["id"], each["n"]) for each in facts] == [(f"r{i}", i) for i in range(200)]
    assert [parts["jpg"] for parts in found.values()] == [b"one", b"two!"] * 100


@pytest.mark.parametrize(
    ("row", "expected"),
    [({"id": 7}, {"id": 7}), ({"id": 8}, {"member": "7", "id": 8}), ({}, {"id": "7"})],
)
def test_name_of_a_member_is_kept_unless_the_row_has_it(
    tmp_path: Path, row: dict[str, Any], expected: dict[str, Any]
) -> None:
    value = {"7": {**row, "n": 1}, "9": {**row, "n": 2}}
    root = a_folder(tmp_path, {"t.json": json.dumps(value).encode()})

    assert json.loads(read_samples(f"{root}/t.json")["000000000"]["json"]) == {**expected, "n": 1}


@pytest.mark.parametrize(
    "value",
    [
        {"train": {"items": ITEMS, "n": 1}, "val": {"items": ITEMS, "n": 2}},
        {"about": {"name": "x", "items": ITEMS}, "other": {"name": "y", "items": ITEMS, "n": 1}},
        {name: {"items": ITEMS} for name in "abc"},
    ],
)
def test_members_that_hold_lists_of_rows_are_no_rows(tmp_path: Path, value: Any) -> None:
    root = a_folder(tmp_path, {**FILES, "t.json": json.dumps(value).encode()})

    with IMPORTER.open(f"{root}/t.json", {}) as source, pytest.raises(InputError) as error:
        source.describe()  # type: ignore[attr-defined]

    assert error.value.code == "WDS244"


@pytest.mark.parametrize("value", [ITEMS, {"data": ITEMS}, {"a": ITEMS[0], "b": ITEMS[0]}])
@pytest.mark.parametrize("place", [0, -1])
def test_trailing_comma_is_named_with_its_line(tmp_path: Path, value: Any, place: int) -> None:
    lines = json.dumps(value, indent=1).splitlines()
    ends = [i for i, line in enumerate(lines[1:]) if line.strip()[0] in "]}" and not lines[i].endswith(("[", "{", ","))]
    lines[ends[place]] += ","
    text = "\n".join(lines).encode()
    with pytest.raises(ValueError):  # noqa: PT011 - of json
        json.loads(text)
    root = a_folder(tmp_path, {**FILES, "t.json": text})

    for error in (read_error(root), read_error(f"{root}/t.json")):
        assert (error.code, error.hint) == ("WDS233", f"remove the comma in line {ends[place] + 1}")
        assert error.where.startswith(f"{root}/t.json:{ends[place] + 1} (byte ")


def read_error(path: str) -> WdsctlError:
    """The error of a source, as `prepare` meets it: from recognising it to reading it."""
    try:
        describe_source(path)
        read_samples(path)
    except WdsctlError as error:
        return error
    raise AssertionError("it was taken")


def test_list_in_a_file_of_lines_is_read_as_json(tmp_path: Path) -> None:
    for name, text in (("lines", json.dumps(ITEMS, indent=1)), ("line", json.dumps(ITEMS))):
        root = a_folder(tmp_path / name, {**FILES, "t.jsonl": text.encode()})

        assert importers.best_importer(f"{root}/t.jsonl")[0].name == "json"
        assert read_samples(f"{root}/t.jsonl") == SAMPLES
        error = open_error(f"{root}/t.jsonl", form="jsonl")
        assert (error.code, error.hint) == ("WDS121", f"`wdsctl convert {root}/t.jsonl DEST --from json`")
        assert read_error(root).hint.startswith(f"rename it: `mv {root}/t.jsonl {root}/t.json`")


def test_json_refuses_utf_16_with_iconv_command(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": json.dumps(ITEMS).encode("utf-16")})

    error = open_error(f"{root}/t.json", form="json")
    assert error.code == "WDS120"
    assert "iconv -f UTF-16" in error.hint


def test_json_file_of_lines_is_read_as_jsonl(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": b'{"a": 1}\n{"a": 2}\n'})

    assert importers.best_importer(f"{root}/t.json")[0].name == "jsonl"
    assert [parts["json"] for parts in read_samples(f"{root}/t.json").values()] == [b'{"a":1}', b'{"a":2}']


def test_json_reads_items_in_any_order(tmp_path: Path) -> None:
    items = [{"n": i, "pad": "x" * (i % 50)} for i in range(1000)]
    root = a_folder(tmp_path, {"t.json": json.dumps({"data": items}).encode()})

    for place in (999, 0, 500):
        with IMPORTER.open(f"{root}/t.json", {}) as source:
            assert json.loads(source.read(place)[0].data)["n"] == place


def test_json_memory_is_independent_of_item_count(tmp_path: Path) -> None:
    def peak(items: int) -> int:
        path = tmp_path / f"{items}.json"
        with path.open("w") as file:
            file.write('{"data": [{"n": 0}')
            file.writelines(f', {{"n": {i}, "pad": "{"x" * 500}"}}' for i in range(1, items))
            file.write("]}")
        with IMPORTER.open(str(path), {}) as source:
            tracemalloc.start()
            assert sum(1 for _ in source.entries()) == items
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak_bytes

    assert peak(20_000) < peak(10_000) + 300_000
