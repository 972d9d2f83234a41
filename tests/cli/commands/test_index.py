from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Wdsctl, a_tar


def test_a_folder_of_tars_is_indexed(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("index", shards)

    assert result.code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0].startswith(f"{shards}: 10 shards, 30 samples, ")


def test_indexing_again_is_up_to_date(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("index", shards)
    assert result.code == 0
    assert result.stdout.startswith(f"{shards}: up to date (10 shards, 30 samples, ")


def test_the_answer_is_one_document_under_json(wdsctl: Wdsctl, shards: Path) -> None:
    document = wdsctl("index", shards, "--json").document

    assert (document["schema"], document["command"]) == (1, "index")
    assert (document["shards"], document["samples"], document["parts"], document["added"]) == (10, 30, 60, 10)
    assert document["up_to_date"] is False
    assert document["findings"] == []


def test_a_bad_shard_is_marked_and_the_rest_is_indexed(wdsctl: Wdsctl, truncated: Path) -> None:
    result = wdsctl("index", truncated, "--json")

    assert result.code == 5
    [finding] = result.document["findings"]
    assert (finding["code"], finding["severity"], finding["shard"]) == ("WDS102", "error", "train-000004.tar")
    assert result.document["shards"] == 10


def test_a_dry_run_writes_nothing(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("index", shards, "--dry-run")
    assert result.code == 0
    assert "would be indexed" in result.stdout
    assert not (shards / ".wdsctl").exists()


def test_shards_that_vanished_follow_the_policy(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000000.tar").unlink()

    refused = wdsctl("index", shards, "--json")
    dropped = wdsctl("index", shards, "--missing", "drop", "--json")

    assert (refused.code, refused.document["error"]["code"]) == (6, "WDS306")
    assert (dropped.code, dropped.document["shards"]) == (0, 9)


def test_excluded_shards_are_passed_over(wdsctl: Wdsctl, shards: Path) -> None:
    a_tar(shards / "val" / "x.tar", {"a.txt": b"x"})
    assert wdsctl("index", shards, "--exclude", "val/*", "--json").document["shards"] == 10


def test_an_empty_folder_is_an_error_of_input(wdsctl: Wdsctl, tmp_path: Path) -> None:
    result = wdsctl("index", tmp_path)
    assert result.code == 3
    assert result.stderr.startswith("error[WDS003]: ")


def test_the_catalog_can_be_kept_elsewhere(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    document = wdsctl("index", shards, "--catalog", tmp_path / "elsewhere", "--json").document
    assert document["catalog"] == str(tmp_path / "elsewhere" / "catalog.sqlite")
    assert not (shards / ".wdsctl").exists()
