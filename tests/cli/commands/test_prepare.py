from __future__ import annotations

import fcntl
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.build import linked_shards, some_shards
from tests.cli.conftest import Wdsctl, a_tar
from tests.killing import Moment, environment

UNSURE_QUESTION = "the detection is uncertain"


def test_prepare_writes_shards_from_raw_folder(wdsctl: Wdsctl, photos: Path, tmp_path: Path) -> None:
    dest = tmp_path / "made"

    result = wdsctl("prepare", photos, dest, "--shard-samples", 4, "--split", "2,1")

    assert result.code == 0
    lines = result.stdout.splitlines()
    unread = "         not in the batch: json[caption] (stored; --field-map adds fields)"
    assert lines[:3] == [f"{photos} -> {dest}", "  type   TextSample: text=txt", unread]
    assert "\n  from   folder: raw files, such as " in result.stdout
    assert "\n  write  12 samples in 3 shards, " in result.stdout
    assert str(dest / ".wdsctl" / "dataset.yaml") in result.stdout
    assert result.stderr == f"next: wdsctl inspect {dest}\n"
    assert sorted(path.name for path in dest.glob("*.tar")) == [f"shard-00000{i}.tar" for i in range(3)]


def test_prepare_indexes_tars_in_place(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("prepare", shards, "--split", "8,1,1", "--json")

    assert result.code == 0
    document = result.document
    assert (document["schema"], document["command"], document["from_folder"]) == (1, "prepare", False)
    assert document["index"]["shards"] == 10
    assert [split["samples"] for split in document["split"]["splits"]] == [24, 3, 3]
    assert result.stderr == ""


def test_prepare_with_other_ratios_names_only_options_that_it_has(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("prepare", shards, "--split", "8,1,1")
    refused = wdsctl("prepare", shards, "--split", "1,1", "--json")
    error = refused.document["error"]
    assert error["code"] == "WDS238"
    assert error["hint"] == "omit `--split` to keep the splits, or pass `--allow-split-changes` to move the samples"


def test_prepare_again_is_up_to_date(wdsctl: Wdsctl, photos: Path, tmp_path: Path) -> None:
    argv = ("prepare", photos, tmp_path / "made", "--split", "2,1", "--shard-samples", 4)
    wdsctl(*argv)
    result = wdsctl(*argv)
    assert result.code == 0
    assert result.stdout.startswith(f"{tmp_path / 'made'}: up to date (3 shards, 12 samples, ")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""


def test_prepare_again_explains_and_detects_sample_type_again(wdsctl: Wdsctl, shards: Path) -> None:
    prepare = ("prepare", str(shards), "--no-input")
    wdsctl(*prepare)
    explained = wdsctl(*prepare, "--explain").stdout
    assert ": up to date (" in explained
    assert "not VQASample: " in explained
    assert "dataset.yaml has the same type and fields" in explained

    config = shards / ".wdsctl/dataset.yaml"
    written = config.read_text()
    [name] = re.findall("sample_type: (.*)", written)
    config.write_text(re.sub("sample_type: .*\n(.*map:\n(  .*\n)*)?", "sample_type: CrudeSample\n", written))
    assert "dataset.yaml has CrudeSample (--redetect replaces it)" in wdsctl(*prepare, "--explain").stdout
    assert "dataset.yaml had CrudeSample\n" in wdsctl(*prepare, "--redetect").stdout
    assert f"sample_type: {name}\n" in config.read_text()
    assert "dataset.yaml has the same type and fields" in wdsctl(*prepare, "--redetect").stdout


def test_prepare_again_reports_changed_and_missing_files(wdsctl: Wdsctl, photos: Path, tmp_path: Path) -> None:
    argv = ("prepare", photos, tmp_path / "made", "--shard-samples", 4)
    wdsctl(*argv)
    first, second = (sorted(photos.rglob("*.txt"))[i] for i in (0, 1))
    for part in first.parent.glob(f"{first.stem}.*"):
        part.unlink()
    second.write_text("another caption")
    result = wdsctl(*argv, "--missing", "keep")

    assert result.code == 0
    missing = "1 sample stays in its shard although its files are missing"
    assert result.stdout.splitlines()[1:] == [
        f"  problems: {missing}, 1 shard is unchanged although its files have changed"
    ]


def test_prepare_suggests_next_command_with_needed_options(
    run_in_process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    root, catalog, blobs = linked_shards(tmp_path), str(tmp_path / "cat"), str(tmp_path / "blobs")
    done = run_in_process("prepare", root, "--catalog", catalog, "--allow-path", blobs, "--yes", "--workers", "1")

    assert f"next: wdsctl inspect {root} --catalog {catalog} --allow-path {blobs}\n" in done.stderr


def test_prepare_dry_run_writes_nothing(wdsctl: Wdsctl, photos: Path, tmp_path: Path) -> None:
    result = wdsctl("prepare", photos, tmp_path / "made", "--dry-run")
    assert result.code == 0
    assert "(dry run: nothing is written)" in result.stdout
    assert not (tmp_path / "made").exists()


def test_prepare_raw_folder_requires_destination(wdsctl: Wdsctl, photos: Path) -> None:
    result = wdsctl("prepare", photos)
    assert result.code == 2
    assert "DEST" in result.stderr


def test_prepare_exits_with_5_for_truncated_shard(wdsctl: Wdsctl, truncated: Path) -> None:
    result = wdsctl("prepare", truncated)
    assert result.code == 5
    assert "error[WDS102]: the shard is truncated" in result.stdout


def test_prepare_stores_given_sample_type_and_field_map(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("prepare", shards, "--sample-type", "TextSample", "--field-map", "text=json[caption]")
    assert result.code == 0
    document = wdsctl("inspect", shards, "--json").document
    assert (document["sample_type"], document["field_map"]) == ("TextSample", {"text": "json[caption]"})


def test_prepare_handles_incomplete_samples_by_policy(wdsctl: Wdsctl, photos: Path, tmp_path: Path) -> None:
    (photos / "a" / "0001.json").unlink()

    refused = wdsctl("prepare", photos, tmp_path / "made")
    skipped = wdsctl("prepare", photos, tmp_path / "made", "--on-missing", "skip", "--json")

    assert (refused.code, refused.stderr[:13]) == (3, "error[WDS201]")
    assert skipped.document["folder"]["samples"] == 11


@pytest.mark.parametrize("consent", ["--source-moved", "--yes"])
def test_prepare_requires_consent_for_moved_and_changed_folder(
    wdsctl: Wdsctl, photos: Path, tmp_path: Path, consent: str
) -> None:
    wdsctl("prepare", photos, tmp_path / "made")
    moved = photos.rename(tmp_path / "moved")
    min(moved.rglob("*.txt")).write_text("changed since")

    refused = wdsctl("prepare", moved, tmp_path / "made")
    dry = wdsctl("prepare", moved, tmp_path / "made", consent, "--dry-run", "--json")
    confirmed = wdsctl("prepare", moved, tmp_path / "made", consent)
    again = wdsctl("prepare", moved, tmp_path / "made", consent)

    assert (refused.code, "`--source-moved`" in refused.stderr, confirmed.code) == (2, True, 0)
    assert "consents used: --source-moved\n" in confirmed.stdout
    assert "consents used" not in again.stdout
    assert dry.document["consents"] == ["source_moved"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_prepare_on_terminal_prompts_and_prints_equivalent_command(
    wdsctl: Wdsctl, photos: Path, tmp_path: Path
) -> None:
    dialogue = [("shards", ""), ("split", "2,1")]
    # A fresh Python, unlike in other tests of terminals.
    screen = run_in_terminal(["prepare", "photos"], tmp_path, dialogue, starter=subprocess.Popen)

    assert "(photos-shards)" in screen or "[photos-shards]" in screen
    assert max(len(line) for line in screen.splitlines() if "\x1b" not in line) <= 80
    match = re.search(r"the same without questions:\s+(wdsctl [^$]*)", screen)
    assert match is not None
    suggested = shlex.split(match[1].replace("\r", "").replace("\\\n", " "))
    assert suggested[:6] == ["wdsctl", "prepare", "photos", "photos-shards", "--split", "train=2,val=1"]
    assert suggested[6:] == ["--no-input"]
    splits = wdsctl("inspect", tmp_path / "photos-shards", "--json").document["splits"]
    assert [split["samples"] for split in splits] == [8, 4]


def test_prepare_no_input_asks_no_questions(photos: Path, tmp_path: Path) -> None:
    screen = run_in_terminal(["prepare", "photos", "made", "--no-input"], tmp_path, [])
    assert "split, such as" not in screen
    assert (tmp_path / "made" / ".wdsctl" / "catalog.sqlite").exists()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_prepare_writes_nothing_before_last_answer(photos: Path, shards: Path, tmp_path: Path) -> None:
    add_unused_texts(photos)
    before = sorted(tmp_path.rglob("*"))
    no = [("split", "2,1"), (UNSURE_QUESTION, "n"), ("sample type", "\x04")]
    run_in_terminal(["prepare", "photos"], tmp_path, [("shards", ""), *no], code=130)
    assert sorted(tmp_path.rglob("*")) == before
    run_in_terminal(["prepare", str(shards)], tmp_path, [("split", "\x04")], code=130)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_prepare_prompts_for_missing_source(photos: Path, tmp_path: Path) -> None:
    dialogue = [("data to prepare", "?"), ("labels.csv", ""), ("the path is empty", "photos")]
    screen = run_in_terminal(["prepare"], tmp_path, [*dialogue, ("shards", "made"), ("split", "")])

    assert "wdsctl prepare photos made --no-input" in screen
    assert (tmp_path / "made" / ".wdsctl" / "dataset.yaml").exists()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_prepare_prompts_again_for_invalid_source_or_destination(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "notes.txt").write_text("")
    dialogue = [
        *[("data to prepare", "photo"), ("does not exist", "nothing"), ("the folder is empty", "photos")],
        *[("shards", "photos/made"), ("overlap", "notes.txt"), ("is a file", "made")],
        ("split", ""),
    ]
    screen = run_in_terminal(["prepare"], tmp_path, dialogue)

    assert "wdsctl prepare photos made --no-input" in screen


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_prepare_reports_invalid_paths_before_prompting(photos: Path, tmp_path: Path) -> None:
    screen = run_in_terminal(["prepare", "photos", "photos/made"], tmp_path, [], code=2)
    assert "overlap" in screen
    screen = run_in_terminal(["prepare", "photo", "made"], tmp_path, [], code=3)
    assert "does not exist" in screen
    screen = run_in_terminal(["prepare", linked_shards(tmp_path)], tmp_path, [], code=4)
    assert "--allow-path" in screen


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_prepare_interrupted_at_prompt_reports_that_nothing_was_written(photos: Path, tmp_path: Path, key: str) -> None:
    add_unused_texts(photos)
    before = sorted(tmp_path.rglob("*"))
    answers = [("data to prepare", "photos"), ("shards", "made"), ("split", "")]
    for i, question in enumerate(["data to prepare", "shards", "split", UNSURE_QUESTION]):
        screen = run_in_terminal(["prepare"], tmp_path, [*answers[:i], (question, key)], code=130)
        assert screen.endswith("\ninterrupted; wdsctl wrote nothing\n")
        assert "run the same command" not in screen
    assert sorted(tmp_path.rglob("*")) == before


def test_prepare_requires_source_without_terminal(wdsctl: Wdsctl) -> None:
    result = wdsctl("prepare")
    assert (result.code, "missing argument 'SOURCE'" in result.stderr) == (2, True)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_prepare_on_terminal_asks_no_question_if_options_are_given_and_type_is_sure(
    photos: Path, tmp_path: Path
) -> None:
    screen = run_in_terminal(["prepare", "photos", "made", "--split", "2,1"], tmp_path, [])

    assert "detected: TextSample: text=txt" in screen
    assert "the same without questions" not in screen
    assert (tmp_path / "made" / ".wdsctl" / "dataset.yaml").exists()


def add_unused_texts(photos: Path) -> None:
    """Give each sample a second text, which makes its type uncertain."""
    for text in list(photos.rglob("*.txt")):
        text.with_suffix(".fr.txt").write_bytes(b"un chat")


def run_in_terminal(
    argv: list[str],
    cwd: Path,
    dialogue: list[tuple[str, str]],
    *,
    code: int = 0,
    starter: type[subprocess.Popen[Any]] = children.Popen,
) -> str:
    """The output on a terminal; at each question of `dialogue`, its answer is typed."""
    controller, terminal = os.openpty()
    process = starter(
        [sys.executable, "-m", "wdsctl", *argv],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"},
        start_new_session=True,
        preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    screen = ""
    with process:
        try:
            for question, answer in dialogue:
                start = len(screen)
                while question not in screen[start:]:
                    text = _read(controller, screen)
                    assert text, f"it ended without asking {question!r}: {screen}"
                    screen += text
                os.write(controller, answer.encode() if answer in ("\x03", "\x04") else f"{answer}\n".encode())
            # Ctrl-C between the prompt and the read of the answer interrupts neither, so it is sent again.
            extra_key = b"\x03" if dialogue and dialogue[-1][1] == "\x03" else b""
            while text := _read(controller, screen, extra_key):
                screen += text
            assert process.wait(timeout=60) == code, screen
        finally:
            process.kill()
            os.close(controller)
    return screen.replace("\r\n", "\n")


def _read(terminal: int, screen: str, extra_key: bytes = b"") -> str:
    """The next output, or nothing at the end: Linux reports EIO when the last writer has closed the terminal.

    `extra_key` is typed after each ten seconds without output."""
    for _ in range(6):
        ready, _, _ = select.select([terminal], [], [], 10)
        if ready:
            break
        os.write(terminal, extra_key)
    assert ready, f"nothing more came after: {screen}"
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:
        return ""


def test_prepare_interrupted_prints_how_to_continue_without_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(60):
        (folder / f"{i:05}.txt").write_bytes(b"x" * 1000)
    third = Moment("replace", 3, sends=signal.SIGINT)
    done = children.run(
        [sys.executable, "-m", "wdsctl", "prepare", "photos", "made", "--shard-samples", "10", "--workers", "1"],
        cwd=tmp_path,
        env=environment(third, tmp_path / "calls"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )

    assert (done.returncode, done.stdout) == (130, "")
    assert len(list((tmp_path / "made").glob("*.tar"))) == 2
    assert done.stderr == "interrupted; run the same command again to continue\n"


@pytest.mark.parametrize("option", [("--sample-type", "Foo"), ("--field-map", "image=xyz,caption=txt")])
def test_prepare_exits_with_2_for_invalid_option_value(wdsctl: Wdsctl, shards: Path, option: tuple[str, str]) -> None:
    result = wdsctl("prepare", shards, *option)

    assert (result.code, f"--> {option[0]}" in result.stderr) == (2, True)


def test_commands_exit_with_3_for_shards_without_samples(wdsctl: Wdsctl, tmp_path: Path) -> None:
    a_tar(tmp_path / "s" / "a.tar", {"readme": b"1", "licence": b"2"})
    for verb in ("prepare", "index", "prepare", "inspect"):
        result = wdsctl(verb, tmp_path / "s")
        assert (result.code, "error[WDS119]: a dataset without samples" in result.stdout) == (3, True)
    assert "2 members whose names have no key" in wdsctl("index", tmp_path / "s", "--rebuild").stdout
    split = wdsctl("split", tmp_path / "s", "8,1,1")
    assert (split.code, f"`wdsctl validate {tmp_path / 's'}` tells why" in split.stderr) == (3, True)


def test_prepare_escapes_newline_in_file_name(wdsctl: Wdsctl, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("1.jpg", "1.txt", "2.jpg", "2.txt", "a\nb.jpg"):
        (raw / name).write_bytes(b"1")
    result = wdsctl("prepare", raw, tmp_path / "s")

    assert r"a\nb: no txt" in [line.strip() for line in result.stderr.splitlines()]


def test_prepare_accepts_shard_pattern_and_refuses_destination(wdsctl: Wdsctl, shards: Path) -> None:
    some = f"{shards}/train-{{000000..000003}}.tar"
    refused = wdsctl("prepare", some, "elsewhere", "--no-input")
    result = wdsctl("prepare", some, "--split", "3,1", "--hash", "--json")

    assert (refused.code, result.code) == (2, 0)
    assert "remove DEST" in refused.stderr
    assert result.document["index"]["shards"] == 4
    assert result.document["index"]["hashed"] == 4
    assert result.document["split"]["splits"][0]["samples"] > 0


@pytest.mark.parametrize("option", [("--by", "sample"), ("--seed", "3")])
def test_prepare_refuses_options_of_splits_without_split(
    wdsctl: Wdsctl, tmp_path: Path, option: tuple[str, str]
) -> None:
    root = some_shards(tmp_path / "data", 1)
    refused = wdsctl("prepare", root, *option, "--no-input")
    assert (refused.code, f"{option[0]} only applies with --split" in refused.stderr) == (2, True)
    assert not (tmp_path / "data" / ".wdsctl").exists()
    assert wdsctl("prepare", root, *option, "--split", "8,2", "--no-input", "--yes").code == 0
