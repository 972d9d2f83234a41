from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Wdsctl, a_tar
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock


def test_index_summarizes_folder_of_tars(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("index", shards)

    assert result.code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0].startswith(f"{shards}: 10 shards, 30 samples, ")


def test_index_of_unchanged_folder_is_up_to_date(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("index", shards)
    assert result.code == 0
    assert result.stdout.startswith(f"{shards}: up to date (10 shards, 30 samples, ")


def test_index_prints_one_json_document(wdsctl: Wdsctl, shards: Path) -> None:
    document = wdsctl("index", shards, "--json").document

    assert (document["schema"], document["command"]) == (1, "index")
    assert (document["shards"], document["samples"], document["parts"], document["added"]) == (10, 30, 60, 10)
    assert document["up_to_date"] is False
    assert document["findings"] == []


def test_index_reports_truncated_shard_and_indexes_all(wdsctl: Wdsctl, truncated: Path) -> None:
    result = wdsctl("index", truncated, "--json")

    assert result.code == 5
    [finding] = result.document["findings"]
    assert (finding["code"], finding["severity"], finding["shard"]) == ("WDS102", "error", "train-000004.tar")
    assert result.document["shards"] == 10


def test_index_dry_run_writes_nothing(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("index", shards, "--dry-run")
    assert result.code == 0
    assert "would be indexed" in result.stdout
    assert not (shards / ".wdsctl").exists()


def test_index_handles_missing_shards_by_policy(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000000.tar").unlink()

    refused = wdsctl("index", shards, "--json")
    dropped = wdsctl("index", shards, "--missing", "drop", "--json")

    assert (refused.code, refused.document["error"]["code"]) == (3, "WDS306")
    assert (dropped.code, dropped.document["shards"]) == (0, 9)


def test_commands_report_shard_kept_as_missing_in_one_line(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000003.tar").unlink()
    kept, repeated, shown = (
        wdsctl(*words) for words in (("index", shards, "--missing", "keep"), ("index", shards), ("inspect", shards))
    )
    listed = wdsctl("ls", shards, "-l", "train-000003")
    got = wdsctl("get", shards, "3/0000", "-p", "txt")

    assert (kept.code, repeated.code, shown.code, got.code) == (0, 0, 0, 3)
    assert (kept.stdout + repeated.stdout + shown.stdout).count("1 shard has vanished, and its rows are kept") == 3
    assert listed.stdout.splitlines()[1].split()[2] == "missing"
    assert "is missing: train-000003.tar" in got.stderr
    assert "index" in got.stderr


def test_index_skips_excluded_shards(wdsctl: Wdsctl, shards: Path) -> None:
    a_tar(shards / "val" / "x.tar", {"a.txt": b"x"})
    assert wdsctl("index", shards, "--exclude", "val/*", "--json").document["shards"] == 10


def test_index_exits_with_3_for_empty_folder(wdsctl: Wdsctl, tmp_path: Path) -> None:
    result = wdsctl("index", tmp_path)
    assert result.code == 3
    assert result.stderr.startswith("error[WDS003]: ")


def test_index_writes_catalog_to_other_folder(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    document = wdsctl("index", shards, "--catalog", tmp_path / "elsewhere", "--json").document
    assert document["catalog"] == str(tmp_path / "elsewhere" / "catalog.sqlite")
    assert not (shards / ".wdsctl").exists()


def test_index_computes_reports_and_drops_columns(wdsctl: Wdsctl, shards: Path) -> None:
    created = wdsctl("index", shards, "--column", "bytes=size:txt", "--column", "chars=json:json:caption", "--json")
    assert (created.code, [column["name"] for column in created.document["columns"]]) == (0, ["bytes", "chars"])
    assert created.document["columns"][0] == {
        "name": "bytes",
        "function": "size:txt",
        "state": "made",
        "generation": 1,
        "shards_read": 0,
        "samples": 30,
        "failed": 0,
        "min": 5,
        "mean": 5.0,
        "p50": 5,
        "p99": 5,
        "max": 5,
        "total": 150,
    }
    assert wdsctl("inspect", shards, "--json").document["columns"][1]["total"] == 150

    dropped = wdsctl("index", shards, "--drop-column", "bytes")
    assert dropped.code == 0
    assert [line.split()[0] for line in dropped.stdout.splitlines()[-2:]] == ["bytes", "chars"]
    assert len(wdsctl("inspect", shards, "--json").document["columns"]) == 1


def test_index_imports_column_function_from_current_folder(
    run_in_process: Callable[..., subprocess.CompletedProcess[str]], shards: Path
) -> None:
    (shards.parent / "lengths.py").write_text("def words(sample):\n    return len(sample['txt'].split())\n")
    result = run_in_process("index", str(shards), "--column", "words=lengths:words", "--json", cwd=shards.parent)
    assert (result.returncode, json.loads(result.stdout)["columns"][0]["total"]) == (0, 60)
    result = run_in_process("index", str(shards), "--column", "words=lenghts:words", cwd=shards.parent)
    assert (result.returncode, "did you mean lengths?" in result.stderr) == (2, True)


def test_index_on_error_decides_about_missing_column_values(wdsctl: Wdsctl, shards: Path) -> None:
    failed = wdsctl("index", shards, "--column", "n=json:json:tokens")
    assert failed.code == 5
    assert "incomplete, 30 samples without a value" in failed.stdout
    assert "... and 25 more" in failed.stdout
    zero = wdsctl("index", shards, "--column", "n=json:json:tokens", "--on-error", "zero", "--json")
    assert (zero.code, zero.document["columns"][0]["failed"]) == (0, 30)


def test_index_exits_with_2_for_column_without_function(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("index", shards, "--column", "tokens", "--json")
    assert (result.code, result.document["error"]["code"]) == (2, "WDS312")


def test_index_accepts_braces_globs_lists_and_stdin(
    wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [str(shards / f"train-00000{i}.tar") for i in range(3)]
    (shards.parent / "list.txt").write_text("\n".join(some))
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO("\0".join(some).encode()), isatty=lambda: False)
    )

    for name in (f"{shards}/train-{{000000..000002}}.tar", f"{shards}/*[0-2].tar", f"@{shards.parent}/list.txt", "-"):
        assert wdsctl("index", name, "--json").document["shards"] == 3
    assert wdsctl("index", f"{shards}/**").stdout.startswith(f"{shards}: 10 shards")
    missing = wdsctl("index", f"{shards}/train-{{000000..000020}}.tar", "--json")
    assert (missing.code, missing.document["error"]["code"]) == (3, "WDS008")


def test_index_reports_renamed_shard(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000003.tar").rename(shards / "other.tar")
    result = wdsctl("index", shards)

    assert "1 renamed, 9 unchanged" in result.stdout
    assert "renamed: train-000003.tar -> other.tar" in result.stdout


def test_index_reports_hashes_and_absence_of_sample_rows(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("index", shards, "--hash", "--no-sample-rows")
    assert "without sample rows" in result.stdout
    assert "hashed   10 of 10 shards" in result.stdout
    assert wdsctl("index", shards, "--sample-rows", "--json").document["sample_rows"] is True


def test_index_waits_for_lock_or_names_its_holder(wdsctl: Wdsctl, shards: Path) -> None:
    with hold_lock(locate(str(shards)).lock):
        refused = wdsctl("index", shards)
        waited = wdsctl("index", shards, "--wait", "0.2")
    assert (refused.code, waited.code) == (6, 6)
    assert f"process {os.getpid()} on {socket.gethostname()}, since" in refused.stderr
    assert "waiting for another wdsctl" in waited.stderr
    assert wdsctl("index", shards, "--wait").code == 0
