from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar
from tests.loader.decoding.av.media import sound
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock


@pytest.fixture
def with_a_warning(wdsctl: Wdsctl, shards: Path) -> Path:
    """One key in two shards."""
    a_tar(shards / "again.tar", {"0/0000.txt": b"x", "0/0000.json": b"{}"})
    assert wdsctl("index", shards).code == 0
    return shards


def test_a_sound_dataset_passes(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards)
    assert result.code == 0
    assert result.stdout.startswith(f"{shards}: nothing wrong\n")


def test_the_answer_of_the_default_level_says_that_media_were_not_decoded(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    words = "structure only: pass --level content to decode media too"

    assert words in wdsctl("validate", shards).stdout
    assert wdsctl("validate", shards, "--json").document["not_checked"] == words
    assert words not in wdsctl("validate", shards, "--level", "content").stdout


def test_a_flipped_bit_in_flac_fails_at_the_level_content(wdsctl: Wdsctl, shards: Path) -> None:
    data = sound("flac", "flac", seconds=0.5)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    for name, flac in (("good", data), ("bad", bytes(flipped))):
        a_tar(shards / f"{name}.tar", {f"{name}/1.flac": flac, f"{name}/1.txt": b"x", f"{name}/1.json": b"{}"})
    wdsctl("index", shards)

    result = wdsctl("validate", shards, "--level", "content", "--json")

    assert result.code == 1
    found = result.document["findings"]
    assert [(each["severity"], each["key"]) for each in found if each["code"] == "WDS147"] == [("warning", "bad/1")]


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_what_fails_is_chosen(wdsctl: Wdsctl, with_a_warning: Path, fail_on: str, code: int) -> None:
    assert wdsctl("validate", with_a_warning, "--fail-on", fail_on).code == code


def test_warnings_fail_unless_told_otherwise(wdsctl: Wdsctl, with_a_warning: Path) -> None:
    result = wdsctl("validate", with_a_warning)
    assert result.code == 1
    assert result.stdout.startswith("warning[WDS106]: the same key in several shards")
    assert result.stderr == ""


def test_findings_are_in_the_document_whatever_the_limit(wdsctl: Wdsctl, with_a_warning: Path) -> None:
    document = wdsctl("validate", with_a_warning, "--json", "--limit", "1").document
    assert (document["schema"], document["command"]) == (1, "validate")
    assert [finding["code"] for finding in document["findings"]] == ["WDS106"]


def test_a_truncated_shard_is_an_error_with_its_place(wdsctl: Wdsctl, truncated: Path) -> None:
    assert wdsctl("index", truncated).code == 5
    result = wdsctl("validate", truncated, "--fail-on", "error")
    assert result.code == 1
    assert "error[WDS102]: the shard is truncated\n  --> train-000004.tar (byte " in result.stdout


@pytest.fixture
def with_broken_json(wdsctl: Wdsctl, shards: Path) -> Path:
    a_tar(shards / "odd.tar", {"odd/1.txt": b"x", "odd/1.json": b"{"})
    assert wdsctl("index", shards).code == 0
    return shards


def test_a_level_looks_deeper_and_the_answer_names_it(wdsctl: Wdsctl, with_broken_json: Path) -> None:
    assert wdsctl("validate", with_broken_json).code == 0
    result = wdsctl("validate", with_broken_json, "--level", "content")
    assert result.code == 1
    assert "error[WDS144]: a part is not valid JSON\n  --> odd.tar (byte " in result.stdout
    assert "; levels: structure, headers, content" in result.stdout


def test_a_second_run_says_that_nothing_was_read_again(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("validate", shards)
    result = wdsctl("validate", shards)
    assert "all shards are unchanged since the last validation" in result.stdout
    assert "not changed" not in wdsctl("validate", shards, "--again").stdout


@pytest.mark.parametrize(
    ("form", "begins"), [("sarif", '{\n  "$schema"'), ("junit", "<?xml"), ("json", '{\n  "schema"')]
)
def test_other_forms_go_to_stdout_or_into_a_file(
    wdsctl: Wdsctl, with_broken_json: Path, tmp_path: Path, form: str, begins: str
) -> None:
    words = ("validate", with_broken_json, "--level", "content", "--format", form)
    assert wdsctl(*words).stdout.startswith(begins)
    result = wdsctl(*words, "-o", tmp_path / "out")
    assert result.code == 1
    assert "WDS144" in result.stdout
    assert (tmp_path / "out").read_text().startswith(begins)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--level", "deep"], "--level deep"),
        (["--sample", "0"], "--sample 0"),
        (["--refs", "image"], "FIELD=STORE"),
        (["-o", "x"], "-o needs --format"),
        (["--json", "--format", "sarif"], "exclude each other"),
        (["--shards", "none.tar"], "no shard of the"),
        (["--quarantine", "--release"], "contradict"),
    ],
)
def test_words_that_make_no_sense_are_refused(wdsctl: Wdsctl, shards: Path, words: list[str], said: str) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards, *words)
    assert (result.code, said in result.stderr + result.stdout) == (2, True), result.stderr


def test_the_quarantine_is_told_and_released(wdsctl: Wdsctl, with_broken_json: Path) -> None:
    wdsctl("split", with_broken_json, "train=1")
    result = wdsctl("validate", with_broken_json, "--level", "content", "--quarantine", "--fail-on", "never")
    assert result.code == 0
    assert (
        "newly excluded from all splits: 1 sample and 0 whole shards; in quarantine in total: 1 sample" in result.stdout
    )
    released = wdsctl("validate", with_broken_json, "--release", "--json").document
    assert released["released"] == 1
    assert released["splits"]["train"] > 0


@pytest.mark.parametrize("word", ["--quarantine", "--release"])
def test_who_changes_the_quarantine_waits_for_another_writer_or_says_who_it_is(
    wdsctl: Wdsctl, shards: Path, tmp_path: Path, word: str
) -> None:
    wdsctl("index", shards)
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


def test_a_blend_file_is_validated_as_its_datasets(wdsctl: Wdsctl, with_broken_json: Path, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(f"splits:\n  train:\n    path: {with_broken_json}\n")
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


def test_the_files_of_splits_of_a_blend_file_are_looked_at(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    wdsctl("index", shards)
    (tmp_path / "b.yaml").write_text(f"splits:\n  train:\n    path: {shards}\n    split_config: mine.yaml\n")
    result = wdsctl("validate", tmp_path / "b.yaml")
    assert result.code == 1
    assert "split_config 'mine.yaml' does not exist" in result.stdout


def test_a_folder_in_the_place_of_the_answer_is_refused_before_anything_is_read(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards, "--format", "sarif", "-o", shards)

    assert (result.code, result.stdout) == (2, "")
    assert "-o is a folder" in result.stderr
