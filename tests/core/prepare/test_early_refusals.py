"""What the options and the source show to be wrong is refused before any sample is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wdsctl
from tests.build import a_folder, an_image, some_shards
from tests.core.captioned import captions
from wdsctl.core.errors import UsageError

FIRST_SAMPLES = 64


def a_source(kind: str, folder: Path) -> Path:
    if kind == "raw":
        return Path(a_folder(folder, captions(0, 3)))
    folder.mkdir()
    rows = [{"id": str(i), "text": f"text {i}"} for i in range(3)]
    if kind == "csv":
        text = "id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows)
    else:
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / f"rows.{kind}").write_text(text)
    return folder / f"rows.{kind}"


@pytest.mark.parametrize("kind", ["raw", "csv", "jsonl"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_type": "TextSample", "field_map": "text=vtt"}, "text: no sample has a part vtt"),
        ({"field_map": "nothing=vtt"}, "has no field 'nothing'"),
        ({"sample_type": "VQASample"}, "the samples do not look like VQASample"),
        ({"media_index": True}, "media_index needs media"),
    ],
)
def test_prepare_refuses_what_source_shows_to_be_wrong_before_it_writes(
    tmp_path: Path, kind: str, options: dict[str, Any], message: str
) -> None:
    source = a_source(kind, tmp_path / "source")

    with pytest.raises(UsageError, match=message):
        wdsctl.prepare(source, tmp_path / "out", workers=1, **options)

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "8,1,1", "by": "shard"}, "val and test would be empty: 1 shard cannot fill 3 splits"),
        ({"split": "a=1,b=1,c=1,d=1"}, "d would be empty: 3 samples cannot fill 4 splits"),
    ],
)
@pytest.mark.parametrize(("kind", "dry_run"), [("raw", False), ("raw", True), ("csv", True), ("jsonl", True)])
def test_prepare_refuses_splits_that_samples_cannot_fill(
    tmp_path: Path, options: dict[str, Any], message: str, kind: str, dry_run: bool
) -> None:
    source = a_source(kind, tmp_path / "source")

    with pytest.raises(UsageError, match=message):
        wdsctl.prepare(source, tmp_path / "out", workers=1, dry_run=dry_run, **options)

    assert not list((tmp_path).glob("out/*.tar"))


def test_prepare_refuses_splits_that_shards_cannot_fill_before_it_indexes(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)

    with pytest.raises(UsageError, match="test would be empty: 2 shards cannot fill 3 splits"):
        wdsctl.prepare(root, split="1,1,1", by="shard", workers=1)

    assert not (tmp_path / ".wdsctl").exists()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_prepare_refuses_key_that_no_row_has_before_it_writes(tmp_path: Path, kind: str) -> None:
    source = a_source(kind, tmp_path / "source")

    with pytest.raises(UsageError, match="no sample that was examined has the key 'txet' in json"):
        wdsctl.prepare(source, tmp_path / "out", sample_type="TextSample", field_map="text=json[txet]", workers=1)

    assert not (tmp_path / "out").exists()


def test_prepare_accepts_part_that_only_later_raw_samples_have(tmp_path: Path) -> None:
    files = {f"{i:03d}.txt": b"text" for i in range(FIRST_SAMPLES + 4)} | {"050.vtt": b"WEBVTT"}
    raw = a_folder(tmp_path / "raw", files)

    report = wdsctl.prepare(
        raw, tmp_path / "out", sample_type="TextSample", field_map="text=vtt,txt", parts="txt|vtt", workers=1
    )

    assert report.field_map == {"text": "vtt,txt"}


def test_prepare_accepts_part_of_file_that_only_later_row_names(tmp_path: Path) -> None:
    images = {f"img/{i:03d}.jpg": an_image("JPEG") for i in range(FIRST_SAMPLES)} | {"img/last.png": an_image("PNG")}
    a_folder(tmp_path / "source", images)
    rows = "".join(f"{json.dumps({'image': name, 'text': 'a'})}\n" for name in images)
    (tmp_path / "source" / "rows.jsonl").write_text(rows)

    report = wdsctl.prepare(
        tmp_path / "source",
        tmp_path / "out",
        layout="monolithic",
        sample_type="CaptioningSample",
        field_map={"image": "png", "caption": "json[text]"},
        workers=1,
    )

    assert report.field_map == {"image": "png", "caption": "json[text]"}


@pytest.mark.parametrize("target", ["parquet", "mds", "jsonl", "csv", "folder", "shards"])
def test_convert_refuses_unknown_option_of_target_before_it_makes_plan(tmp_path: Path, target: str) -> None:
    source = a_source("jsonl", tmp_path / "source")

    with pytest.raises(UsageError, match="no option 'zz'"):
        wdsctl.convert(source, tmp_path / "out", to_format=target, option={"to.zz": "1"}, workers=1)

    assert not (tmp_path / "out").exists()


def test_index_refuses_rule_of_file_names_for_lines(tmp_path: Path) -> None:
    source = a_source("jsonl", tmp_path / "source")

    with pytest.raises(UsageError, match="key_until applies to names of files only") as raised:
        wdsctl.index(source.parent, key_until="last-dot", workers=1)

    assert raised.value.hint.startswith("omit key_until; `key=FIELD`")
