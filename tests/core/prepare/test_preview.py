from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.raw_folders import a_folder
from tests.remote import upload_shards
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.preview import preview_sample_type
from wdsctl.core.prepare.request import PrepareRequest


def a_source(root: Path, kind: str) -> str:
    if kind == "files":
        return str(a_folder(root / "raw", 200))
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
    previewed = preview_sample_type(source, dest, PrepareRequest())

    assert sorted(tmp_path.rglob("*")) == before
    detection = prepare(source, dest, PrepareRequest(take_unsure=True)).detection
    assert previewed is not None
    assert detection is not None
    assert (previewed.sample_type, previewed.field_map) == (detection.sample_type, detection.field_map)


def test_preview_reads_shards_in_a_store(tmp_path: Path) -> None:
    url = upload_shards(some_shards(tmp_path / "local", 2), "memory://preview/shards")
    previewed = preview_sample_type(url, None, PrepareRequest())
    assert previewed is not None
    assert set(previewed.kinds) == {"jpg", "txt"}
