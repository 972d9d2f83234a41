from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl


@pytest.fixture
def indexed(wdsctl: Wdsctl, shards: Path) -> Path:
    assert wdsctl("index", shards).code == 0
    return shards


def test_everything_is_in_the_document(wdsctl: Wdsctl, indexed: Path) -> None:
    document = wdsctl("inspect", indexed, "--json").document

    assert (document["schema"], document["command"]) == (1, "inspect")
    assert {part["name"]: part["samples"] for part in document["parts"]} == {"txt": 30, "json": 30}
    assert len(document["shard_list"]) == 10
    assert [sample["key"] for sample in document["first"]] == ["0/0000", "0/0001", "0/0002"]
    assert set(document) == {
        "schema",
        "command",
        "root",
        "catalog",
        "catalog_bytes",
        "generation",
        "sample_type",
        "field_map",
        "shards",
        "samples",
        "size_bytes",
        "parts",
        "splits",
        "shard_list",
        "first",
        "stale",
    }


@pytest.mark.parametrize("samples", [0, 1, 5])
def test_as_many_first_samples_as_asked_for(wdsctl: Wdsctl, indexed: Path, samples: int) -> None:
    assert len(wdsctl("inspect", indexed, "--samples", samples, "--json").document["first"]) == samples


def test_people_read_lines(wdsctl: Wdsctl, indexed: Path) -> None:
    result = wdsctl("inspect", indexed)
    assert result.code == 0
    assert result.stdout.startswith(f"{indexed}: 10 shards, 30 samples, ")
    assert "no splits yet" in result.stdout


def test_paths_are_shown_as_people_type_them(wdsctl: Wdsctl, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(indexed.parent)
    lines = wdsctl("inspect", "shards").stdout.splitlines()
    assert lines[0].startswith("shards: 10 shards")
    assert lines[2].startswith("  catalog      shards/.wdsctl/catalog.sqlite")
