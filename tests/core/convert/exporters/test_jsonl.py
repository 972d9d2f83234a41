"""The exporter to JSONL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.core.formats import read_samples, write_unit
from wdsctl.core import importers
from wdsctl.core.convert import exporters
from wdsctl.core.dataset.destination import move_unit_files
from wdsctl.core.importers.protocol import Part


def test_jsonl_stores_text_and_json_in_line_and_media_in_files(tmp_path: Path) -> None:
    samples = {"a/1": {"jpg": b"one", "txt": b"caption \xc3\xa9", "json": b'{"n":1}', "cls": b"3"}}
    folder = Path(write_unit(tmp_path, "jsonl", samples))

    line = (folder / "samples.jsonl").read_bytes()

    assert json.loads(line) == {
        "__key__": "a/1", "__files__": {"jpg": "files/a/1.jpg"}, "txt": "caption é", "json": {"n": 1}, "cls": "3",
    }  # fmt: skip
    assert (folder / "files" / "a" / "1.jpg").read_bytes() == b"one"
    assert importers.best_importer(str(folder))[0].name == "jsonl"


@pytest.mark.parametrize("data", [b'{"a": 1}', b'"text"', b"\xff", b"[1", b'{"a":1e400}', b'{"a":1,"a":2}', b"NaN"])
def test_json_that_would_change_is_written_as_file(tmp_path: Path, data: bytes) -> None:
    folder = Path(write_unit(tmp_path, "jsonl", {"a": {"json": data}}))

    assert json.loads((folder / "samples.jsonl").read_bytes())["__files__"] == {"json": "files/a.json"}
    assert read_samples(folder, form="jsonl") == {"a": {"json": data}}


def test_finish_joins_lines_of_all_units_and_can_be_repeated(tmp_path: Path) -> None:
    target = exporters.get_exporter("jsonl")
    units = []
    for name, keys in (("u1", ("b", "a")), ("u2", ("c",))):
        samples = ((key, iter([Part("jpg", b"x"), Part("txt", key.encode())])) for key in keys)
        units.append(target.write(str(tmp_path / name), samples, {}))
        move_unit_files(str(tmp_path / name), str(tmp_path))

    target.finish(str(tmp_path), units, {})
    lines = (tmp_path / "samples.jsonl").read_bytes()
    (tmp_path / json.loads(units[1].facts)["lines"]).write_bytes(b"left over by a kill")
    target.finish(str(tmp_path), units, {})

    assert [json.loads(line)["__key__"] for line in lines.splitlines()] == ["b", "a", "c"]
    assert (tmp_path / "samples.jsonl").read_bytes() == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "samples.jsonl"]
    assert list(read_samples(tmp_path, form="jsonl")) == ["b", "a", "c"]
