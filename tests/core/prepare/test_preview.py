from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.raw_folders import a_folder
from tests.remote import uploaded
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
def test_it_finds_what_prepare_finds_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    source = a_source(tmp_path / "data", kind)
    dest = str(tmp_path / "made") if kind == "files" else None
    before = sorted(tmp_path.rglob("*"))
    seen = preview_sample_type(source, dest, PrepareRequest())

    assert sorted(tmp_path.rglob("*")) == before
    found = prepare(source, dest, PrepareRequest(take_unsure=True)).detection
    assert seen is not None
    assert found is not None
    assert (seen.sample_type, seen.field_map) == (found.sample_type, found.field_map)


def test_shards_in_a_store_are_looked_at_where_they_are(tmp_path: Path) -> None:
    url = uploaded(some_shards(tmp_path / "local", 2), "memory://preview/shards")
    seen = preview_sample_type(url, None, PrepareRequest())
    assert seen is not None
    assert set(seen.kinds) == {"jpg", "txt"}
