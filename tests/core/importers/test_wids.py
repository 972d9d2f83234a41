"""The importer wids: JSON indexes of shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, samples
from tests.core.formats import open_error, read_samples
from wdsctl.core import importers


def an_index(root: Path, *shards: Any) -> str:
    index_json = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": list(shards)}
    (root / "index.json").write_text(json.dumps(index_json))
    return str(root / "index.json")


def test_wids_keeps_keys_and_parts_of_listed_shards(tmp_path: Path) -> None:
    a_dataset(tmp_path, {"b.tar": samples(10, 3), "s/a.tar": samples(0, 2), "not-listed.tar": samples(90, 1)})
    size = (tmp_path / "s/a.tar").stat().st_size
    index = an_index(tmp_path, {"url": "s/a.tar", "nsamples": 2, "filesize": size}, {"url": "b.tar", "filesize": "?"})

    found = read_samples(index)

    assert importers.best_importer(index)[0].name == "wids"
    assert list(found) == ["000000", "000001", "000010", "000011", "000012"]
    assert found["000011"] == {"jpg": b"11 jpg .", "txt": b"11 txt ."}


@pytest.mark.parametrize(
    ("shard", "code"),
    [
        ({"url": "../x.tar"}, "WDS230"),
        ({"url": "s3://bucket/x.tar"}, "WDS230"),
        ({"url": "a.tar", "nsamples": 9}, "WDS233"),
        ({"url": "a.tar", "nsamples": 2, "filesize": 9}, "WDS233"),
        ({"url": "none.tar"}, "WDS404"),
        ({"url": "cut.tar"}, "WDS102"),
        ({"nsamples": 9}, "WDS233"),
        ("a.tar", "WDS233"),
    ],
)
def test_wids_refuses_shard_that_differs_from_index(tmp_path: Path, shard: Any, code: str) -> None:
    a_dataset(tmp_path, {"a.tar": samples(0, 2)})
    (tmp_path / "cut.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:1700])

    assert open_error(an_index(tmp_path, shard)).code == code


@pytest.mark.parametrize("data", [b'{"shardlist": []}', b'{"shardlist": [', b'{"shardlist": 3}'])
def test_wids_refuses_index_without_shards(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "index.json").write_bytes(data)

    assert open_error(tmp_path / "index.json").code == "WDS233"
