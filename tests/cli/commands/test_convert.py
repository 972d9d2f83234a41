from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image, some_shards
from wdsctl.cli.main import main
from wdsctl.core.dataset.location import META_FOLDER
from wdsctl.core.dataset.lock import hold_lock


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_convert_prints_source_format_and_amounts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_shards(tmp_path / "a", 2)

    assert main(["convert", "a", "b", "--shard-samples", "4", "--workers", "1"]) == 0

    output = capsys.readouterr()
    assert output.out.splitlines()[:3] == [
        "a -> b",
        "  from     shards: the folder has .tar or .jsonl files",
        "  write    10 samples in 3 files of shards, 23.0 KiB (3 written, 0 kept)",
    ]
    assert "next: wdsctl inspect b" in output.err
    assert main(["convert", "a", "b", "--shard-samples", "4"]) == 0
    assert capsys.readouterr().out == "a -> b: up to date (10 samples in 3 files)\n"


def test_polylithic_convert_suggests_inspecting_dest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_dataset(tmp_path / "a", {"0.tar": {"x.png": an_image("PNG"), "x.txt": b"x"}})

    assert main(["convert", "a", "b", "--layout", "polylithic", "--media", "png"]) == 0

    assert capsys.readouterr().err.endswith("next: wdsctl inspect b\n")
    assert main(["inspect", "b"]) == 0


def test_convert_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_shards(tmp_path / "a", 1)

    assert main(["convert", "a", "b", "--json", "--dry-run", "--shuffle", "--seed", "4"]) == 0

    output = json.loads(capsys.readouterr().out)
    assert (output["command"], output["samples"], output["dry_run"]) == ("convert", 5, True)
    assert not (tmp_path / "b").exists()


def test_convert_exits_with_5_if_samples_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_dataset(tmp_path / "a", {"0.tar": {"x.png": an_image("PNG"), "y.png": b"broken"}})

    assert main(["convert", "a", "b", "--image", "jpeg:80", "--max-side", "20"]) == 5

    out = capsys.readouterr().out
    assert "left out: 1 sample that could not be read or transcoded" in out
    assert "WDS341" in out
    assert "sample y" in out


@pytest.mark.parametrize(
    "words",
    [
        ["a"],
        ["a", "b", "--sort", "key", "--shuffle"],
        ["a", "b", "--image", "gif"],
        ["a", "b", "--rate", "8000"],
        ["a", "b", "--rename-part", "jpg"],
        ["a", "b", "-O", "x"],
        ["a", "b", "-O", "x=1", "-O", "x=2"],
        ["a", "b", "--layout", "polylithic", "--to", "folder"],
        ["a", "a"],
    ],
)
def test_convert_exits_with_2_for_invalid_options(tmp_path: Path, words: list[str]) -> None:
    some_shards(tmp_path / "a", 1)
    assert main(["convert", *words]) == 2


def test_convert_exits_with_3_for_missing_source() -> None:
    assert main(["convert", "nowhere", "b"]) == 3


def test_convert_names_each_of_several_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_shards(tmp_path / "a", 1)
    a_dataset(tmp_path / "b", {"0.tar": {"x.txt": b"x"}})

    assert main(["convert", "a", "b", "c", "--workers", "1"]) == 0

    assert capsys.readouterr().out.splitlines()[:3] == [
        "a, b -> c",
        "  from     a is shards: the folder has .tar or .jsonl files",
        "  from     b is shards: the folder has .tar or .jsonl files",
    ]


def test_convert_waits_for_lock_or_names_its_holder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_shards(tmp_path / "a", 1)
    words = ["convert", "a", "b", "--workers", "1"]

    with hold_lock(str(tmp_path / "b" / META_FOLDER / "lock")):
        assert main(words) == 6
        assert f"process {os.getpid()} on {socket.gethostname()}, since" in capsys.readouterr().err
        assert main([*words, "--wait", "0.2"]) == 6
        assert "waiting for another wdsctl" in capsys.readouterr().err
    assert main([*words, "--wait"]) == 0


def test_convert_with_other_options_on_finished_destination_prints_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some_shards(tmp_path / "a", 1)
    main(["convert", "a", "b"])

    assert main(["convert", "a", "b", "--shard-samples", "2"]) == 2
    output = capsys.readouterr().err
    assert "another --shard-samples" in output
    assert "wdsctl log b" in output


def test_up_to_date_convert_reports_left_out_samples_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_dataset(tmp_path / "a", {"0.tar": {"x.png": an_image("PNG"), "y.png": b"broken"}})
    command = ["convert", "a", "b", "--image", "jpeg:80"]
    assert main(command) == 5
    capsys.readouterr()

    assert main(command) == 5

    output = capsys.readouterr().out
    assert output.startswith("a -> b: up to date (1 sample in 1 file)\n  left out: 1 sample that")
    assert "error[WDS341]" in output


@pytest.mark.parametrize("form", ["folder", "jsonl"])
def test_convert_to_folder_or_jsonl_prints_no_count_of_files(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    some_shards(tmp_path / "a", 2)

    assert main(["convert", "a", "b", "--to", form, "--shard-samples", "4"]) == 0

    output = capsys.readouterr().out
    assert f"10 samples as {form}, " in output
    assert "in 3 files" not in output


def test_convert_suggests_split_command_for_unknown_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_shards(tmp_path / "a", 2)
    assert main(["prepare", "a", "--split", "1,1", "--no-input", "--yes"]) == 0
    capsys.readouterr()

    assert main(["convert", "a", "b", "--split", "nope"]) == 3

    output = capsys.readouterr().err
    assert "the dataset has no split 'nope'; it has train, val" in output
    assert (
        "help: choose one of these splits; or run `wdsctl split a train=8,val=1,test=1 --set other` to make other"
        in output
    )
