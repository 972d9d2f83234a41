from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import a_folder, some_shards
from tests.core.captioned import a_jpeg
from tests.core.raw_folders import a_folder as some_files
from tests.remote import upload_shards
from wdsctl.core.index.index import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.preview import preview_samples
from wdsctl.core.prepare.request import PrepareRequest


def a_source(root: Path, kind: str) -> str:
    if kind == "files":
        return str(some_files(root / "raw", 200))
    if kind == "lines":
        root.mkdir(exist_ok=True)
        (root / "qa.jsonl").write_bytes(b'{"id": "a", "text": "some words"}\n' * 200_000)
        return str(root / "qa.jsonl")
    return some_shards(root / "shards", 3)


@pytest.mark.parametrize("kind", ["files", "lines", "tars"])
def test_preview_finds_type_of_prepare_and_writes_nothing(tmp_path: Path, kind: str) -> None:
    source = a_source(tmp_path / "data", kind)
    dest = str(tmp_path / "made") if kind == "files" else None
    before = sorted(tmp_path.rglob("*"))
    previewed = preview_samples(source, dest, PrepareRequest())

    assert sorted(tmp_path.rglob("*")) == before
    detection = prepare(source, dest, PrepareRequest(accept_type=True)).detection
    assert previewed is not None
    assert detection is not None
    assert (previewed.sample_type, previewed.field_map) == (detection.sample_type, detection.field_map)


def test_preview_reads_shards_in_a_store(tmp_path: Path) -> None:
    url = upload_shards(some_shards(tmp_path / "local", 2), "memory://preview/shards")
    previewed = preview_samples(url, None, PrepareRequest())
    assert previewed is not None
    assert previewed.detection is not None
    assert set(previewed.detection.kinds) == {"jpg", "txt"}


def test_dry_run_ends_with_the_first_samples_as_the_loader_gives_them(tmp_path: Path) -> None:
    captions = {f"{i}.json": json.dumps({"caption": f"a dog\n{i}", "score": i}).encode() for i in range(9)}
    source = a_folder(tmp_path / "raw", {**{f"{i}.jpg": a_jpeg(i) for i in range(9)}, **captions})
    dest = str(tmp_path / "made")
    request = PrepareRequest(index=IndexRequest(dry_run=True))

    report = prepare(source, dest, request)
    assert (report.sample_type, report.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "json[caption]"})
    assert [each.key for each in report.examples] == ["0", "1", "2"]
    facts, caption = report.examples[1].fields
    assert facts[0] == "image"
    assert "JPEG" in facts[1]
    assert caption == ("caption", "a dog 1")
    crude = prepare(source, dest, replace(request, sample_type="CrudeSample"))
    assert crude.examples[1].fields[1] == ("json", '{"caption": "a dog\\n1", "score": 1}')
    fields = {"image": "jpg", "context": "json[caption]", "answers": "json[score]"}
    questions = prepare(source, dest, replace(request, sample_type="VQASample", field_map=fields))
    assert questions.examples[1].fields[2] == ("answers", "1")

    prepare(source, dest)
    assert prepare(dest, None, request).examples == report.examples


def test_dry_run_of_a_format_that_defines_its_type_has_samples(tmp_path: Path) -> None:
    files = {f"{name}/{name}-{i}.jpg": a_jpeg(i) for i in range(4) for name in ("cat", "dog")}
    source = a_folder(tmp_path / "raw", files)
    report = prepare(source, str(tmp_path / "made"), PrepareRequest(index=IndexRequest(dry_run=True)))
    assert report.sample_type == "ImageClassificationSample"
    assert report.examples[0].fields[1:] == (("label", "0"), ("label_name", "cat"))
