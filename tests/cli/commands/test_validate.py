from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar
from tests.loader.decoding.av.media import make_audio
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock


@pytest.fixture
def dataset_with_warning(wdsctl: Wdsctl, shards: Path) -> Path:
    """A dataset with one key in two shards, which is a warning."""
    a_tar(shards / "again.tar", {"0/0000.txt": b"x", "0/0000.json": b"{}"})
    assert wdsctl("index", shards).code == 0
    return shards


def test_validate_exits_with_0_for_valid_dataset(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards)
    assert result.code == 0
    assert result.stdout.startswith(f"{shards}: nothing wrong\n")


def test_validate_reports_that_media_are_not_decoded_by_default(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    words = "structure only: pass --level content to decode media too"

    assert words in wdsctl("validate", shards).stdout
    assert wdsctl("validate", shards, "--json").document["not_checked"] == words
    assert words not in wdsctl("validate", shards, "--level", "content").stdout


def test_validate_content_reports_flipped_bit_in_flac(wdsctl: Wdsctl, shards: Path) -> None:
    data = make_audio("flac", "flac", seconds=0.5)
    corrupt = bytearray(data)
    corrupt[len(data) // 2] ^= 1
    for name, flac in (("good", data), ("bad", bytes(corrupt))):
        a_tar(shards / f"{name}.tar", {f"{name}/1.flac": flac, f"{name}/1.txt": b"x", f"{name}/1.json": b"{}"})
    wdsctl("index", shards)

    result = wdsctl("validate", shards, "--level", "content", "--json")

    assert result.code == 1
    found = result.document["findings"]
    assert [(each["severity"], each["key"]) for each in found if each["code"] == "WDS147"] == [("warning", "bad/1")]


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_validate_fail_on_sets_severity_of_failure(
    wdsctl: Wdsctl, dataset_with_warning: Path, fail_on: str, code: int
) -> None:
    assert wdsctl("validate", dataset_with_warning, "--fail-on", fail_on).code == code


def test_validate_exits_with_1_for_warnings_by_default(wdsctl: Wdsctl, dataset_with_warning: Path) -> None:
    result = wdsctl("validate", dataset_with_warning)
    assert result.code == 1
    assert result.stdout.startswith("warning[WDS106]: the same key in several shards")
    assert result.stderr == ""


def test_validate_json_document_ignores_limit(wdsctl: Wdsctl, dataset_with_warning: Path) -> None:
    document = wdsctl("validate", dataset_with_warning, "--json", "--limit", "1").document
    assert (document["schema"], document["command"]) == (1, "validate")
    assert [finding["code"] for finding in document["findings"]] == ["WDS106"]


def test_validate_reports_location_of_truncated_shard(wdsctl: Wdsctl, truncated: Path) -> None:
    assert wdsctl("index", truncated).code == 5
    result = wdsctl("validate", truncated, "--fail-on", "error")
    assert result.code == 1
    assert "error[WDS102]: the shard is truncated\n  --> train-000004.tar (byte " in result.stdout


@pytest.fixture
def dataset_with_broken_json(wdsctl: Wdsctl, shards: Path) -> Path:
    a_tar(shards / "odd.tar", {"odd/1.txt": b"x", "odd/1.json": b"{"})
    assert wdsctl("index", shards).code == 0
    return shards


def test_validate_level_content_reads_parts_and_prints_levels(wdsctl: Wdsctl, dataset_with_broken_json: Path) -> None:
    assert wdsctl("validate", dataset_with_broken_json).code == 0
    result = wdsctl("validate", dataset_with_broken_json, "--level", "content")
    assert result.code == 1
    assert "error[WDS144]: a part is not valid JSON\n  --> odd.tar (byte " in result.stdout
    assert "; levels: structure, headers, content" in result.stdout


def test_validate_reports_unchanged_shards(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("validate", shards)
    result = wdsctl("validate", shards)
    assert "all shards are unchanged since the last validation" in result.stdout


def test_validate_again_checks_unchanged_shards_again(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("validate", shards)
    assert "unchanged" not in wdsctl("validate", shards, "--again").stdout
    assert wdsctl("validate", shards, "--json").document["unread"] > 0
    assert wdsctl("validate", shards, "--again", "--json").document["unread"] == 0


@pytest.mark.parametrize(
    ("form", "start"), [("sarif", '{\n  "$schema"'), ("junit", "<?xml"), ("json", '{\n  "schema"')]
)
def test_validate_formats_are_written_to_stdout_or_file(
    wdsctl: Wdsctl, dataset_with_broken_json: Path, tmp_path: Path, form: str, start: str
) -> None:
    words = ("validate", dataset_with_broken_json, "--level", "content", "--format", form)
    assert wdsctl(*words).stdout.startswith(start)
    result = wdsctl(*words, "-o", tmp_path / "out")
    assert result.code == 1
    assert "WDS144" in result.stdout
    assert (tmp_path / "out").read_text().startswith(start)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--level", "deep"], "--level deep"),
        (["--sample", "0"], "--sample 0"),
        (["--refs", "image"], "FIELD=STORE"),
        (["-o", "x"], "-o needs --format"),
        (["--json", "--format", "sarif"], "exclude each other"),
        (["--shards", "none.tar"], "no shard of the"),
        (["--quarantine", "--release"], "contradict"),
        (["--release", "--level", "content"], "--level has no effect with --release"),
        (["--release", "--format", "sarif", "-o", "x.sarif"], "--format has no effect with --release"),
        (["--release", "-o", "x.json"], "--output has no effect with --release"),
        (["--release", "--seed", "1"], "--seed has no effect with --release"),
        (["--release", "--fail-on", "error"], "--fail-on has no effect with --release"),
        (["--release", "--limit", "3"], "--limit has no effect with --release"),
        (["--seed", "7"], "--seed has no effect without --sample"),
        (["--format", "sarif", "-o", "no/such/folder/x"], "the folder of -o does not exist"),
    ],
)
def test_validate_exits_with_2_for_invalid_options(
    wdsctl: Wdsctl, shards: Path, words: list[str], message: str
) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards, *words)
    assert (result.code, message in result.stderr + result.stdout) == (2, True), result.stderr


def test_validate_release_leaves_out_configured_level(
    wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wdsctl("index", shards)
    monkeypatch.setenv("WDSCTL_VALIDATE_LEVEL", "content")
    result = wdsctl("validate", shards, "--release")
    assert (result.code, "nothing is in quarantine" in result.stdout) == (0, True)


def test_validate_json_prints_document_that_it_writes(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards, "--json", "-o", tmp_path / "out.json")
    assert result.document == json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))


def test_validate_reports_and_releases_quarantine(wdsctl: Wdsctl, dataset_with_broken_json: Path) -> None:
    wdsctl("split", dataset_with_broken_json, "train=1")
    result = wdsctl("validate", dataset_with_broken_json, "--level", "content", "--quarantine", "--fail-on", "never")
    assert result.code == 0
    assert (
        "newly excluded from all splits: 1 sample and 0 whole shards; in quarantine in total: 1 sample" in result.stdout
    )
    released = wdsctl("validate", dataset_with_broken_json, "--release", "--json").document
    assert released["released"] == 1
    assert released["splits"]["train"] > 0


@pytest.mark.parametrize("word", ["--quarantine", "--release"])
def test_validate_quarantine_waits_for_lock_or_fails(wdsctl: Wdsctl, shards: Path, tmp_path: Path, word: str) -> None:
    wdsctl("index", shards)
    wdsctl("split", shards, "train=1")
    (tmp_path / "b.yaml").write_text(f"splits:\n  train:\n    path: {shards}\n")
    roots = [shards, tmp_path / "b.yaml"] if word == "--quarantine" else [shards]
    for root in roots:
        with hold_lock(locate(str(shards)).lock):
            refused = wdsctl("validate", root, word)
            waited = wdsctl("validate", root, word, "--wait", "0.2")
            assert wdsctl("validate", root).code == 0
        assert (refused.code, waited.code) == (6, 6)
        assert "--wait" in refused.stderr
        assert "waiting for another wdsctl" in waited.stderr
        assert "waiting" not in refused.stderr
        assert wdsctl("validate", root, word, "--wait").code == 0


def test_validate_blend_file_validates_its_datasets(
    wdsctl: Wdsctl, dataset_with_broken_json: Path, tmp_path: Path
) -> None:
    (tmp_path / "b.yaml").write_text(f"splits:\n  train:\n    path: {dataset_with_broken_json}\n")
    result = wdsctl("validate", tmp_path / "b.yaml", "--level", "content")
    assert result.code == 1
    assert "odd.tar" in result.stdout
    assert wdsctl("validate", tmp_path / "none.yaml").code == 3
    assert wdsctl("validate", tmp_path / "b.yaml", "--level", "content", "--quarantine").code == 1
    released = wdsctl("validate", tmp_path / "b.yaml", "--release")
    assert (released.code, released.stdout.splitlines()[0]) == (
        0,
        f"{tmp_path / 'b.yaml'}: released 1 from quarantine",
    )
    refused = wdsctl("validate", tmp_path / "b.yaml", "--release", "--catalog", tmp_path)
    assert (refused.code, "--catalog names the catalog of one dataset" in refused.stderr) == (2, True)


def test_validate_blend_file_reports_missing_split_config(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    wdsctl("index", shards)
    (tmp_path / "b.yaml").write_text(f"splits:\n  train:\n    path: {shards}\n    split_config: mine.yaml\n")
    result = wdsctl("validate", tmp_path / "b.yaml")
    assert result.code == 1
    assert "split_config 'mine.yaml' does not exist" in result.stdout


def test_validate_refuses_folder_as_output_file(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards, "--format", "sarif", "-o", shards)

    assert (result.code, result.stdout) == (2, "")
    assert "-o is a folder" in result.stderr
