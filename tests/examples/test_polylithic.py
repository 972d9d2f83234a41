"""The example of questions about media in another dataset: its data, its preparation, training and resume."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import children
from wdsctl.cli.main import main
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "polylithic"


def run(script: str, *arguments: str) -> int:
    """Run a script of the example in this process; returns its exit code."""
    code = runpy.run_path(str(EXAMPLE / script))["main"](list(arguments))
    assert isinstance(code, int)
    return code


@pytest.fixture(scope="module")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("polylithic")
    assert run("make_media.py", str(folder), "--clips", "2") == 0
    options = PrepareRequest(
        sample_type="CrudeSample",
        shard_samples=20,
        index=IndexRequest(media=MediaRequest(selection="auto", keyframes=True)),
    )
    prepare(str(folder / "raw"), str(folder / "media"), options)
    in_place = PrepareRequest(from_format="shards", sample_type="CrudeSample", index=IndexRequest(key="id"))
    prepare(str(folder / "questions.jsonl"), None, in_place)
    return folder


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(("batch", "    q"))]


def test_make_media_is_reproducible(example_folder: Path, tmp_path: Path) -> None:
    run("make_media.py", str(tmp_path), "--clips", "2")

    def content(folder: Path) -> dict[str, bytes]:
        files = [folder / "questions.jsonl", *(path for path in (folder / "raw").rglob("*") if path.is_file())]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    assert content(tmp_path) == content(example_folder)


def test_valid_references_resolve_and_invalid_one_is_reported(
    example_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(example_folder)
    invalid_file = tmp_path / "wrong.jsonl"
    invalid_file.write_text(
        (example_folder / "questions.jsonl").read_text() + json.dumps({"media": "photos/Bison.jpg"}) + "\n"
    )
    prepare(str(invalid_file), None, PrepareRequest(from_format="shards", sample_type="CrudeSample"))
    capsys.readouterr()

    codes = [
        main(["validate", lines, "--level", "refs", "--refs", f"media={example_folder / 'media'}"])
        for lines in ("questions.jsonl", str(invalid_file))
    ]

    assert codes == [0, 1]
    assert "'photos/Bison.jpg' does not exist, but 'photos/bison.jpg' does" in " ".join(capsys.readouterr().out.split())


def test_training_resumes_with_same_questions_and_media(
    example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(example_folder)
    training = ("train_questions.py", "train.yaml", "--steps", "4")
    assert run(*training, "--save-at", "2") == 0
    first = lines_of(capsys)

    for workers in ("0", "2"):
        assert run(*training, "--resume", "media-state.pt", "--workers", workers) == 0
        assert lines_of(capsys) == first


def test_scripts_report_errors_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw").mkdir()

    codes: list[Any] = [
        run("make_media.py", str(tmp_path)),
        run("train_questions.py", str(tmp_path / "no.yaml")),
    ]

    assert codes == [2, 3]
    assert capsys.readouterr().err.count("error: ") == 2


@pytest.mark.slow
def test_make_demo_media_succeeds() -> None:
    completed = children.run(
        [sys.executable, str(ROOT / "examples" / "demo_media.py")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        parent="training",
    )

    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "yes: batches 11 to 20 are identical" in completed.stdout
